"""The moves of the creation machine as an adapter shows them: see `moves` for the like of one agent's loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from loopconform.judge import refusals
from loopconform.judge.changes import HIDDEN, Label
from loopconform.judge.moves import ANYHOW, RETURNED
from loopconform.judge.points import Block, Book, Frame
from loopconform.judge.storage import Is, Storage
from loopconform.judge.stored_ids import StoredIds
from loopspec.creation import MACHINE, answers, holds_reservation, is_gated, may_rest, open_dispatch
from loopspec.kernel.machine import Answer, Config, Effect, Machine, may_call
from loopspec.registry import entry_of, holder, is_free
from loopspec.transaction import AGENTS, PROVIDER, Creation, Owner, Transaction, children_of, find

Where = tuple[str, str, str]
"""A gate, an agent and a key."""

ROOT = 2
"""The fiber of callers without an owner of their own."""

SHOWN = ("session/created", "session/disposed", "agent/created", "agent/session-start", "agent/disposed")
CREATES = ("create", "create-now", "resume", "fork")
VERBS = {"create": "create", "create-now": "create_now", "resume": "resume", "fork": "create"}
"""The verb of the machine: a fork is a create with a seed (C-FRK-12)."""
WAKES = ("followup", "steer", "send")


class Life(NamedTuple):
    """One explanation of what was seen of all agents' lives."""

    config: Config[Creation]
    frames: tuple[Frame, ...] = ()
    blocks: tuple[Block, ...] = ()
    arrived: tuple[Where, ...] = ()
    released: tuple[tuple[Where, int], ...] = ()
    stale: tuple[Where, ...] = ()
    """Hooks that nobody waits for any more: they may stand for ever, and may have gone."""
    plans: tuple[int, ...] = ()
    outcomes: frozenset[tuple[str, int]] = frozenset()
    """What has been settled: `resolved`, `rejected` and `gone` transactions, `unwound` scopes, `unloaded` fibers; and
    of a rejected one `because` of what."""
    announced: tuple[int, ...] = ()


def in_order(life: Life) -> Life:
    """The same explanation with its await points in a fixed order: only that of loads means something (C-RES-7)."""
    parked = life.config.parked
    if len(parked) < 2:
        return life
    ordered = tuple(sorted(parked, key=lambda one: "" if one[0][0] == "load" else repr(one)))
    return life if ordered == parked else life._replace(config=life.config._replace(parked=ordered))


class Lives:
    """The moves of a `Life`."""

    def __init__(self, book: Book, machine: Machine[Creation] = MACHINE, storage: Storage | None = None) -> None:
        self.book = book
        self.machine = machine
        self.storage = storage
        self.numbers: dict[tuple[int, int], int] = {}
        """The transaction of each create."""
        self.creates: dict[int, Any] = {}
        self.stored_ids = StoredIds(storage, self.creates, self.id)
        self.handles: dict[str, int] = {}
        """The transaction whose handle an agent's dispose uses: the last one that was given out."""
        self.working: set[str] = set()
        """Agents whose maintenance job stands at its gate: they are not drained before that is over (C-MNT-1)."""
        self.held: frozenset[str] | None = None
        """Set while it is asked who rests: agents of which a batch waits to be written, so that they may wait."""
        self._ids: dict[str, int] = {}
        self.fibers = {name: ROOT + 1 + at for at, name in enumerate(book.opening.owners)}
        self.fibers |= {"agents": AGENTS, "provider": PROVIDER}

    def id(self, agent: str) -> int:
        """The number of an agent's id."""
        return self._ids.setdefault(agent, len(self._ids) + 1)

    def name(self, number: int) -> str:
        """The agent of a transaction."""
        return str(self.creates[number].agent) if number in self.creates else f"#{number}"

    def concerns(self, op: Any, gated: bool) -> bool:
        """Whether an operation is this machine's affair; a wake is only while some driver has not been started."""
        if op.op in WAKES:
            return gated and bool(getattr(op, "wakeup", True))
        return op.op in (*CREATES, "dispose", "unload", "abort")

    def of(self, life: Life) -> Iterator[tuple[Label, Life]]:
        """Every move."""
        top = life.frames[-1] if life.frames else None
        if top is not None and top.state == "ended":
            after = top._replace(next=top.next + 1, state="ready", height=0, result=())
            rest = life.frames[:-1] if after.next == len(after.ops) else (*life.frames[:-1], after)
            yield ("end", top.request, top.ops[top.next], top.result), life._replace(frames=rest)
        elif top is not None and top.state == "ready":
            yield from self._begin(life, top)
        elif life.config.stack:
            yield from self._step(life)
        elif top is None:
            for at, block in enumerate(life.blocks):
                rest_blocks = life.blocks[:at] + life.blocks[at + 1 :]
                yield HIDDEN, life._replace(blocks=rest_blocks, frames=(Frame(block.request, block.ops),))
            yield from self._answers(life)

    # -- operations

    def _begin(self, life: Life, top: Frame) -> Iterator[tuple[Label, Life]]:
        key = (top.request, top.ops[top.next])
        op = self.book.ops[key]
        core = life.config.core
        operation: tuple[Any, ...] | None = None
        if op.op in CREATES:
            operation = self._create(life, key, op)
        elif op.op == "dispose" and op.agent in self.handles:
            operation = ("dispose", self.handles[op.agent])
        elif op.op == "unload" and op.fiber in self.fibers:
            operation = ("unload", self.fibers[op.fiber])
        elif op.op == "abort":
            yield from self._abort(life, op.signal, op.reason)
            return
        elif op.op in WAKES:
            t = find(core, holder(core, "session", self.id(op.agent)))
            operation = ("wake", t.number) if t is not None and is_gated(core, t) else None
        if operation is None:
            yield HIDDEN, self._ended(life, ANYHOW)
        elif may_call(life.config):
            config = self._observed(life.config, operation) if key in self.book.observing else life.config
            config = self.machine.call(config, operation)
            running = top._replace(state="running", height=len(config.stack))
            yield HIDDEN, life._replace(config=config, frames=(*life.frames[:-1], running))

    def _observed(self, config: Config[Creation], operation: tuple[Any, ...]) -> Config[Creation]:
        """C-REGS-5, L-DSP-4  An observer disposes of its own agent: the record that it hears is being published."""
        entry = entry_of(config.core, "session", operation[1])
        if entry is None or entry.appending:
            return config
        return self.machine.step(self.machine.call(config, ("append", entry.object))).config

    def _create(self, life: Life, key: tuple[int, int], op: Any) -> tuple[Any, ...]:
        number = self.numbers[key]
        owner: Owner = ("fiber", ROOT)
        if op.op != "fork" and op.parent is not None:
            owner = ("agent", holder(life.config.core, "agent", self.id(op.parent)))
        elif op.op != "fork" and op.owner is not None:
            owner = ("fiber", self.fibers[op.owner])
        signal = getattr(op, "signal", None)
        aborted = signal is not None and ("aborted", self.id(f"signal {signal}")) in life.outcomes
        flaw = "aborted" if aborted else ""
        if op.op == "resume" and not self.book.opening.storage:
            flaw = "no-persistence"  # C-RES-2
        return (VERBS[op.op], number, self.id(op.agent), owner, flaw)

    def _abort(self, life: Life, signal: str, reason: str | None) -> Iterator[tuple[Label, Life]]:
        """A caller's signal concerns every create that was given it."""
        if not may_call(life.config):
            return
        config = life.config
        for t in config.core.members:
            if getattr(self.creates.get(t.number), "signal", None) == signal:
                called = self.machine.call(config, ("abort", t.number))
                while len(called.stack) > len(config.stack):
                    called = self.machine.step(called).config
                config = called
        outcomes = life.outcomes
        if ("aborted", self.id(f"signal {signal}")) not in outcomes:
            said = refusals.of_abort(reason)
            outcomes |= {(word, self.id(f"signal {signal}")) for word in ("aborted", said)}
        yield HIDDEN, self._ended(life._replace(config=config, outcomes=outcomes), RETURNED)

    def _ended(self, life: Life, result: Effect) -> Life:
        top = life.frames[-1]
        return life._replace(frames=(*life.frames[:-1], top._replace(state="ended", result=result)))

    # -- steps

    def _step(self, life: Life) -> Iterator[tuple[Label, Life]]:
        verb, effect, config = self.machine.step(life.config)
        after = life._replace(config=config)
        name = effect[0]
        if name == "cancel" and open_dispatch(config.stack[-1].frame):
            yield from self._cancelled(after, effect)
            return
        if name == "session/created" and self.stored_ids.is_vetoed(life.config.core, effect[1]):
            vetoed = self.machine.step(self.machine.call(config, ("escape", *effect))).config
            yield ("live", effect), life._replace(config=vetoed)
            yield HIDDEN, life._replace(config=vetoed)  # the storage hears of it first
            return
        if name == "resolve":
            after = self._settled(after, ("resolved", effect[1]))
        elif name == "reject":
            after = self._settled(self._settled(after, ("rejected", effect[1])), (f"because {effect[2]}", effect[1]))
        elif name in ("gone", "unloaded"):
            after = self._settled(after, (name, effect[1]))
            if effect[-1] == "rejected":
                after = self._settled(after, ("failed", effect[1]))
        elif name == "agent/created":
            after = after._replace(announced=(*after.announced, effect[1]))
        if verb in ("park", "leave") and after.frames:
            top = after.frames[-1]
            if top.state == "running" and len(config.stack) < top.height:
                after = self._ended(after, ANYHOW)
        seen = verb == "notify" or (verb == "park" and name == "agent/created")
        visible = seen and name in SHOWN and name in self.book.events
        yield ("live", effect) if visible else HIDDEN, after

    def _cancelled(self, life: Life, effect: Effect) -> Iterator[tuple[Label, Life]]:
        """L-DSP-4  The log may refuse the cancel of a disposal: it does when input is pending."""
        top = life.frames[-1]
        for is_pending in self.book.observing.get((top.request, top.ops[top.next]), ()):
            config = life.config
            if is_pending:
                config = self.machine.step(self.machine.call(config, ("escape", *effect))).config
            yield HIDDEN, life._replace(config=config)

    def _settled(self, life: Life, outcome: tuple[str, int]) -> Life:
        return life._replace(outcomes=life.outcomes | {outcome})

    # -- answers

    def _answers(self, life: Life) -> Iterator[tuple[Label, Life]]:
        core = life.config.core
        if "unwind" in self.book.holds:
            for number in self._unwinding(life):
                for _, after in self._outcomes(life, ("unwind", self.name(number), "")):
                    yield HIDDEN, self._settled(after, ("unwound", number))
        for index, (point, _) in enumerate(life.config.parked):
            if point[0] == "drain" and (self._works(core, point[1]) or self.name(point[1]) in (self.held or ())):
                continue
            for answer in answers(core, point):
                for after in self._given(life, point, answer):
                    config = self.machine.resume(after.config, answer, index)
                    yield HIDDEN, after._replace(config=config)

    def _works(self, core: Creation, number: int) -> bool:
        """Whether the job of an agent stands at its gate: of the one that holds the id, not of another attempt."""
        name = self.name(number)
        return name in self.working and holder(core, "session", self.id(name)) == number

    def _given(self, life: Life, point: Effect, answer: Answer) -> Iterator[Life]:
        """How an answer can come about here: at once, or as the outcome of a hook."""
        if point[0] == "setup":
            yield from self._set_up(life, point[1], answer)
        elif point[0] == "load":
            yield from self._loaded(life, point[1], answer)
        elif point[0] == "scope" and point[1] in life.announced and "unwind" in self.book.holds:
            if ("unwound", point[1]) in life.outcomes:
                yield life
        elif answer[0] != "throws":
            yield life

    def _set_up(self, life: Life, number: int, answer: Answer) -> Iterator[Life]:
        op = self.creates[number]
        where = self._where("setup", number)
        has_setup = getattr(op, "setup", False)
        taken = self.taken(life, number)
        if answer[0] == "deactivated":
            yield self._left_behind(life, where) if has_setup else life
            return
        if answer[0] == "throws" and (taken in ("yes", "perhaps") or (taken == "waits" and self.held is None)):
            yield self._settled(life, ("taken", number))
        if taken in ("yes", "waits"):
            return
        if not has_setup or op.op == "create-now":
            if answer[0] == "settles":
                yield life
        else:
            wanted = "throws" if answer[0] == "throws" else "done"
            yield from (after for kind, after in self._outcomes(life, where) if kind == wanted)

    def taken(self, life: Life, number: int) -> Is | Literal["waits"]:
        """Whether what is stored has the id of a create whose setup has not begun."""
        is_composing = self._where("setup", number) in life.arrived
        return "no" if is_composing else self.stored_ids.taken(life.config.core, number)

    def clause_of_taken(self, life: Life, agent: str) -> str:
        """The rule that keeps a fresh create of this id from going on, if one does; empty otherwise."""
        waiting = [point[1] for point, _ in life.config.parked if point[0] == "setup"]
        found = {self.taken(life, number) for number in waiting if self.creates[number].agent == agent}
        return "C-RES-9" if "yes" in found else "C-RES-8" if "waits" in found else ""

    def _composes(self, life: Life, number: int) -> bool:
        """The setup of a create stands at its gate, or is about to."""
        return getattr(self.creates[number], "setup", False) and self.taken(life, number) in ("no", "perhaps")

    def _where(self, gate: str, number: int) -> Where:
        """The gate of an attempt, whose key is its name."""
        op = self.creates[number]
        return (gate, op.agent, getattr(op, "name", None) or op.agent)

    def _left_behind(self, life: Life, where: Where) -> Life:
        """Nobody waits any more for the hook at this gate."""
        gone = life._replace(arrived=tuple(one for one in life.arrived if one != where))
        return gone._replace(stale=(*gone.stale, where))

    def _loaded(self, life: Life, number: int, answer: Answer) -> Iterator[Life]:
        """C-RES-3, C-RES-5  A load brings the session if it is stored; what fails at its gate brings nothing."""
        where = self._where("load", number)
        if answer[0] == "deactivated":
            yield self._left_behind(life, where)
        elif self._is_taken(life, number):
            yield life  # C-RES-7: whoever has waited for another resume finds a live session, without a load
        elif self._is_next(life, number):
            stored = "no" if self.storage is None else self.storage.has(where[1])
            for kind, after in self._outcomes(life, where):
                if _brings(answer, stored if kind != "throws" else "no"):
                    yield after
            if ("shared", self.id(where[1])) in life.outcomes and where not in life.arrived and _brings(answer, stored):
                yield life

    def shares(self, life: Life, where: Where) -> bool:
        """C-RES-3, C-ABT-9  A load of this id that everybody has given up still stands, and may serve this resume."""
        if where[0] != "load" or not life.config.core.law.abandoned_load_pins_id:
            return False
        return any((gate, agent) == where[:2] for gate, agent, _ in life.stale)

    def _is_taken(self, life: Life, number: int) -> bool:
        """C-RES-6  The id of a resume has become that of a live session."""
        t = find(life.config.core, number)
        return t is not None and not is_free(life.config.core, "session", t.id)

    def _is_at_load(self, life: Life, number: int) -> bool:
        """Whether the storage has begun to load for this resume."""
        reserved = holds_reservation(life.config.core, number, self.id(self.name(number)))
        return self._is_next(life, number) and not reserved and not self._is_taken(life, number)

    def _is_next(self, life: Life, number: int) -> bool:
        """C-RES-7  Of several resumes of one id the later ones wait for the first."""
        core = life.config.core
        t = find(core, number)
        waiting = [point[1] for point, _ in life.config.parked if point[0] == "load"]
        earlier = [find(core, other) for other in waiting[: waiting.index(number)]]
        return not any(t and other and other.id == t.id and not other.reason for other in earlier)

    def _outcomes(self, life: Life, where: Where) -> Iterator[tuple[str, Life]]:
        if where in life.arrived:
            for one in life.released:
                if one[0] == where:
                    arrived, released = list(life.arrived), list(life.released)
                    arrived.remove(where)
                    released.remove(one)
                    kind = self.book.releases[one[1]].outcome.kind
                    yield kind, life._replace(arrived=tuple(arrived), released=tuple(released))
                    return
            return
        for id in life.plans:
            plan = self.book.plans[id]
            if (plan.gate, plan.agent) == where[:2] and plan.key in (None, where[2]):
                yield plan.outcome.kind, life._replace(plans=tuple(one for one in life.plans if one != id))
                return
        if where[0] not in self.book.holds:
            yield "done", life

    def reason(self, life: Life, number: int) -> str:
        """Why a create was refused; empty when it was not."""
        if ("taken", number) in life.outcomes:
            return "session-exists"
        return next((word[8:] for word, of in life.outcomes if of == number and word.startswith("because ")), "")

    # -- where hooks stand

    def standing(self, life: Life) -> list[Where]:
        """Where hooks stand or are about to."""
        found: list[Where] = []
        for point, _ in life.config.parked:
            if point[0] == "setup" and self._composes(life, point[1]):
                found.append(self._where("setup", point[1]))
            elif point[0] == "load" and self._is_at_load(life, point[1]):
                found.append(self._where("load", point[1]))
        found += [("unwind", self.name(number), "") for number in self._unwinding(life)]
        if life.config.stack and life.config.stack[-1].frame[0] == "await_setup":
            number = life.config.stack[-1].frame[1]
            if self._composes(life, number):
                found.append(self._where("setup", number))
        return [where for where in found if where[0] in self.book.holds]

    def may_wait(self, life: Life, where: Where) -> bool:
        """C-DSP-7, R-60  The disposers of a scope may be run together, or one after another: those of agents that it
        owns may come before the one at the gate."""
        if where[0] != "unwind":
            return False
        core = life.config.core
        return any(children_of(core, number) for number in self._unwinding(life) if self.name(number) == where[1])

    def _unwinding(self, life: Life) -> list[int]:
        """Scopes that unwind and whose asynchronous disposer has not come back; a drain may still be under way."""
        return [
            t.number
            for t in life.config.core.members
            if t.scope == "unwinding" and t.number in life.announced and ("unwound", t.number) not in life.outcomes
        ]

    # -- the driver, as far as this machine knows of it

    def ran(self, life: Life, agent: str) -> Iterator[Life]:
        """The status of an agent became `running`: its driver has been started, and nothing bars it (N-1, N-7)."""
        t = self.live(life, agent)
        if t is None:
            return
        if t.driver == "busy" or (t.driver == "drained" and not life.config.core.law.disposed_agent_is_silent):
            yield life
        elif t.driver == "idle" and may_call(life.config):
            woken = self._through(life, ("wake", t.number))
            started = self.live(woken, agent)
            if started is not None and started.driver in ("busy", "hung"):
                yield woken

    def rested(self, life: Life, agent: str) -> Iterator[Life]:
        """The status became `idle`."""
        t = self.live(life, agent)
        if t is not None and may_rest(life.config.core, t) and may_call(life.config):
            yield self._through(life, ("rest", t.number))
        elif t is None or t.driver != "busy":
            yield life

    def live(self, life: Life, agent: str) -> Transaction | None:
        """The transaction whose session has an agent's id now."""
        core = life.config.core
        return find(core, holder(core, "session", self.id(agent)))

    def _through(self, life: Life, operation: tuple[Any, ...]) -> Life:
        config = self.machine.call(life.config, operation)
        while len(config.stack) > len(life.config.stack):
            config = self.machine.step(config).config
        return life._replace(config=config)


def _brings(answer: Answer, stored: Is) -> bool:
    """C-RES-5  Whether a load may come out like this."""
    return stored == "perhaps" or (answer[0] == "loaded") == (stored == "yes")
