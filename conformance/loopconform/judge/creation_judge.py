"""The life of all agents followed with `loopspec.creation`: registries, announcements, promises, teardown."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from loopconform.judge import reasons, refusals
from loopconform.judge.explain import clause_of, spoken
from loopconform.judge.fits import shown
from loopconform.judge.lives import CREATES, Life, Lives, Where, in_order
from loopconform.judge.points import Block, Book, Frame, distinct
from loopconform.judge.storage import Storage
from loopconform.judge.verdict import Fault, Found, Undecided
from loopconform.protocol.replies import Fulfilled, Gate, Live, Raised, Rejected, Returned, Settled
from loopconform.protocol.requests import Release
from loopspec import creation
from loopspec.creation import MACHINE, is_gated
from loopspec.kernel.machine import Machine
from loopspec.profile import Law
from loopspec.registry import holder
from loopspec.transaction import Creation, find

CREATION_EVENTS = frozenset(
    ("session/created", "session/disposed", "agent/created", "agent/session-start", "agent/disposed")
)
CREATION_GATES = frozenset(("setup", "load", "unwind"))
LIMIT = 20_000
PROMISED = ("create", "resume", "fork")
"""Creates that answer with a promise of a handle."""
ASYNCHRONOUS = (*PROMISED, "dispose", "unload")
SOURCES = {"create": "startup", "create-now": "startup", "fork": "startup", "resume": "resume"}
"""C-TXN-C8, C-FRK-12  The source that the start of a session names."""


class CreationJudge:
    """The points of all agents' lives."""

    def __init__(
        self, book: Book, law: Law, machine: Machine[Creation] = MACHINE, storage: Storage | None = None
    ) -> None:
        self.book = book
        self.lives = Lives(book, machine, storage)
        first = creation.initial(law, 1 + len(book.opening.owners))
        self.points: tuple[Life, ...] = (Life(first),)
        self._agents: dict[tuple[int, int], str] = {}
        self._open: dict[tuple[int, int], int] = {}
        """Promises that have not settled, each with its transaction or fiber."""
        self._settled: set[tuple[int, int]] = set()

    # -- what is asked

    def ask(self, id: int, ops: tuple[int, ...], inside: bool = False) -> None:
        """Operations that run in one tick: as soon as nobody else runs, or inside the dispatch just reported."""
        gated = any(is_gated(life.config.core, t) for life in self.points for t in life.config.core.members)
        mine = tuple(at for at in ops if self.lives.concerns(self.book.ops[id, at], gated))
        for at in mine:
            op = self.book.ops[id, at]
            if op.op in CREATES:
                number = self.lives.numbers[id, at] = len(self.lives.numbers) + 1
                self.lives.creates[number] = op
        if not mine:
            return
        if inside:
            self._change(lambda life: life._replace(frames=(*life.frames, Frame(id, mine))))
        else:
            self._change(lambda life: life._replace(blocks=(*life.blocks, Block(id, mine))))

    def handle_is_live(self, agent: str) -> bool:
        """The handle of this id that was given out last is that of the agent which is there now."""
        number, id = self.lives.handles.get(agent, 0), self.lives.id(agent)
        return number > 0 and any(holder(life.config.core, "session", id) == number for life in self.points)

    def is_left_alone(self, agent: str) -> bool:
        """Nobody has asked for the end of the agent that is there now."""
        core = [life.config.core for life in self.points]
        members = [find(one, holder(one, "session", self.lives.id(agent))) for one in core]
        return all(t is not None and not t.reason for t in members)

    def plan(self, id: int) -> None:
        """The outcome of an arrival."""
        if self.book.plans[id].gate in CREATION_GATES:
            self._change(lambda life: life._replace(plans=(*life.plans, id)))

    def release(self, id: int, request: Release) -> bool:
        """The hook at a gate may go on; false where nobody stands."""
        where = (request.gate, request.agent, request.key)
        if not any(where in (*life.arrived, *life.stale) for life in self.points):
            return False

        def released(life: Life) -> Life:
            if where not in life.arrived or any(one[0] == where for one in life.released):
                shared = {("shared", self.lives.id(where[1]))} if self.lives.shares(life, where) else set()
                stale = tuple(one for one in life.stale if one != where)
                return life._replace(stale=stale, outcomes=life.outcomes | shared)
            return life._replace(released=(*life.released, (where, id)))

        self._change(released)
        return True

    def _change(self, change: Callable[[Life], Life]) -> None:
        self.points = distinct(change(life) for life in self.points)

    # -- what is seen

    def closure(self) -> list[Life]:
        """The points and everything that unseen moves lead to. Raises `Undecided` beyond the limit."""
        queue = deque(self.points)
        seen = dict.fromkeys(queue)
        while queue:
            for label, unordered in self.lives.of(queue.popleft()):
                after = unordered if label else in_order(unordered)
                if not label and after not in seen:
                    seen[after] = None
                    queue.append(after)
                    if len(seen) > LIMIT:
                        raise Undecided(f"more than {LIMIT} points explain the lives of the agents")
        return list(seen)

    def _keep(self, closed: list[Life], after: Iterable[Life], reply: Any, reason: str, clause: str = "") -> None:
        kept = distinct(map(in_order, after))
        if not kept:
            raise self._fault(closed, reply, reason, clause)
        self.points = kept

    def show(self, reply: Live) -> None:
        """A creation event, or a change of an agent's status."""
        closed = self.closure()
        if reply.name == "agent/status":
            follow = self.lives.ran if reply.data.get("status") == "running" else self.lives.rested
            after = [one for life in closed for one in follow(life, reply.agent)]
            self._keep(closed, after, reply, f"the driver of {reply.agent} may not be started or rest here", "N-1")
            return
        after = [
            one
            for life in closed
            for label, one in self.lives.of(life)
            if label and label[0] == "live" and self._is(label[1], reply)
        ]
        self._keep(closed, after, reply, "the law has no such event here", self._taken_clause(closed, reply))

    def _is(self, effect: tuple[Any, ...], reply: Live) -> bool:
        if effect[0] != reply.name or self.lives.name(effect[1]) != reply.agent:
            return False
        source = SOURCES[self.lives.creates[effect[1]].op]
        return reply.data.get("source", source) == source or reply.name != "agent/session-start"

    def origin(self, agent: str, attempt: str = "") -> Any:
        """The operation that the agent of an id came from: the one that is in the registry, or an attempt by name."""
        if attempt:
            named = [op for op in self.lives.creates.values() if (op.agent, attempt_of(op)) == (agent, attempt)]
            return named[-1] if named else None
        numbers = {holder(life.config.core, "session", self.lives.id(agent)) for life in self.points}
        return next((self.lives.creates[number] for number in numbers if number), None)

    def ended(self, reply: Returned | Raised) -> None:
        """An operation returned or threw."""
        key = (reply.id, reply.op)
        op = self.book.ops[key]
        if not self._knows(*key):
            return
        closed = self.closure()
        after = [
            one
            for life in closed
            for label, one in self.lives.of(life)
            if label and label[0] == "end" and label[1:3] == key
        ]
        self._keep(closed, after, reply, f"{op.op} cannot have ended here")
        if op.op == "create-now":
            self._created_now(reply, key, op)
        elif op.op in ASYNCHRONOUS and isinstance(reply, Returned):
            self._open[key] = self._target(key, op)
        elif op.op in PROMISED:
            self._refused(closed, key, reply)

    def _knows(self, request: int, op: int) -> bool:
        return any(
            op in ops
            for life in self.points
            for id, ops in (
                *((block.request, block.ops) for block in life.blocks),
                *((frame.request, frame.ops[frame.next :]) for frame in life.frames),
            )
            if id == request
        )

    def _target(self, key: tuple[int, int], op: Any) -> int:
        if op.op in PROMISED:
            return self.lives.numbers[key]
        return self.lives.handles.get(op.agent, 0) if op.op == "dispose" else self.lives.fibers.get(op.fiber, -1)

    def _created_now(self, reply: Returned | Raised, key: tuple[int, int], op: Any) -> None:
        number = self.lives.numbers[key]
        outcome = "resolved" if isinstance(reply, Returned) else "rejected"
        closed = list(self.points)
        after = [life for life in closed if (outcome, number) in life.outcomes]
        self._keep(closed, after, reply, f"create-now may not have {outcome} here", "C-SYN-1")
        self._says_why(number, op.agent, reply)

    def _refused(self, closed: list[Life], key: tuple[int, int], reply: Any) -> None:
        number = self.lives.numbers[key]
        after = [life for life in self.points if ("rejected", number) in life.outcomes]
        self._keep(closed, after, reply, "the create may not be refused here", "C-INP-6")
        self._says_why(number, self.book.ops[key].agent, reply)

    def _says_why(self, number: int, agent: str, reply: Any) -> None:
        """A create that was refused says why, if it uses the words of the contract."""
        if not isinstance(reply, Raised | Rejected):
            return
        closed = list(self.points)
        words = reply.error.message
        errors = {op.reason for op in self.book.ops.values() if op.op == "abort" and op.reason}
        after = [
            life for life in closed if refusals.fits(reasons.possible(self.lives, life, number), agent, words, errors)
        ]
        lawful = sorted({self.lives.reason(life, number) for life in closed})
        self._keep(closed, after, reply, f"it was not refused because of this, but of: {', '.join(lawful)}", "C-ABT-3")

    def promise(self, reply: Fulfilled | Rejected) -> None:
        """A promise of create, dispose or unload settled."""
        key = (reply.id, reply.op)
        op = self.book.ops[key]
        target = self._open.pop(key, None)
        if target is None:
            raise self._fault(list(self.points), reply, "no promise of this operation is open")
        wanted = self._wanted(op, target, isinstance(reply, Fulfilled))
        closed = self.closure()
        after = [life for life in closed if wanted is None or wanted in life.outcomes]
        if op.op == "dispose" and isinstance(reply, Fulfilled):
            after = [life for life in after if ("failed", target) not in life.outcomes]
        what = "fulfilled" if isinstance(reply, Fulfilled) else "rejected"
        self._keep(closed, after, reply, f"the promise of {op.op} may not be {what} here", _PROMISES[op.op])
        if op.op in PROMISED:
            self._says_why(target, op.agent, reply)
            if isinstance(reply, Fulfilled):
                self.lives.handles[op.agent] = target

    def _wanted(self, op: Any, target: int, fulfilled: bool) -> tuple[str, int] | None:
        if op.op in PROMISED:
            return ("resolved" if fulfilled else "rejected", target)
        if op.op == "dispose":
            return ("gone", target) if target else None
        return ("unloaded", target) if target >= 0 else None

    def arrive(self, reply: Gate) -> None:
        """A hook stands at a gate."""
        where = (reply.gate, reply.agent, reply.key)
        closed = self.closure()
        after = [
            life._replace(arrived=(*life.arrived, where))
            for life in closed
            if where in self.lives.standing(life) and where not in life.arrived and not self._is_planned(life, where)
        ]
        reason = f"no hook may stand at the gate {reply.gate} here"
        self._keep(closed, after, reply, reason, self._taken_clause(closed, reply))

    def _taken_clause(self, closed: list[Life], reply: Gate | Live) -> str:
        """The rule that a create breaks which goes on although what is stored has its id."""
        clauses = (self.lives.clause_of_taken(life, reply.agent) for life in closed)
        return next((clause for clause in clauses if clause), "")

    def _is_planned(self, life: Life, where: tuple[str, str, str]) -> bool:
        plans = (self.book.plans[id] for id in life.plans)
        return any((plan.gate, plan.agent) == where[:2] and plan.key in (None, where[2]) for plan in plans)

    def done(self, request: int) -> None:
        """The tick of a request is over; those of reactions and releases are not asked for."""
        closed = self.closure()
        after = [
            life
            for life in closed
            if all(block.request != request for block in life.blocks)
            and all(frame.request != request for frame in life.frames)
        ]
        self._keep(closed, after, None, f"request {request} was closed before its operations were over")

    def settle(self, reply: Settled, waiting: frozenset[str] = frozenset()) -> None:
        """Nothing can happen any more: gates, registries and promises must be as the law says. `waiting`: sessions of
        which a batch waits to be written."""
        self.lives.held = waiting
        try:
            self._settle(reply, waiting)
        finally:
            self.lives.held = None

    def _settle(self, reply: Settled, waiting: frozenset[str]) -> None:
        closed = self.closure()
        still = [
            life for life in closed if not life.frames and not life.blocks and next(self.lives.of(life), None) is None
        ]
        self._keep(closed, still, reply, "it has settled, but something is still to happen")
        standing: list[Where] = sorted(
            (one.gate, one.agent, one.key) for one in reply.parked if one.gate in CREATION_GATES
        )
        after = [life for life in still if self._stands(life, standing)]
        self._keep(still, after, reply, f"parked: {standing or 'nobody'}")
        registries = [life for life in after if self._registered(life, reply)]
        self._keep(after, registries, reply, self._registry_words(after[0], reply), "INV-4")
        for key, target in self._open.items():
            op = self.book.ops[key]
            if op.op in ("resume", "dispose") and op.agent in waiting:
                continue  # its session may have to be durable first (C-RPR-4, C-TDN-5)
            owed = [life for life in registries if self._is_owed(op, target, life)]
            if len(owed) == len(registries):
                raise self._fault(registries, reply, f"the promise of {op.op} is still open", _PROMISES[op.op])
            self.points = distinct(life for life in self.points if life not in owed)

    def _is_owed(self, op: Any, target: int, life: Life) -> bool:
        if op.op in PROMISED:
            return ("resolved", target) in life.outcomes or ("rejected", target) in life.outcomes
        return (("gone" if op.op == "dispose" else "unloaded"), target) in life.outcomes

    def _stands(self, life: Life, standing: list[Where]) -> bool:
        owed = [where for where in self.lives.standing(life) if where not in life.arrived]
        if any(not self.lives.shares(life, where) and not self.lives.may_wait(life, where) for where in owed):
            return False
        left = list(standing)
        for where in life.arrived:
            if where not in left:
                return False
            left.remove(where)
        return all(where in life.stale for where in left)

    def _registered(self, life: Life, reply: Settled) -> bool:
        core = life.config.core
        agents = {self.lives.name(entry.object) for entry in core.agents}
        sessions = {self.lives.name(entry.object) for entry in core.sessions}
        return agents == set(reply.agents) and (reply.sessions is None or sessions == set(reply.sessions))

    def _registry_words(self, life: Life, reply: Settled) -> str:
        core = life.config.core
        agents = sorted(self.lives.name(entry.object) for entry in core.agents)
        sessions = sorted(self.lives.name(entry.object) for entry in core.sessions)
        return f"the registries hold {sorted(reply.agents)} and {reply.sessions}, not {agents} and {sessions}"

    # -- explaining

    def _fault(self, points: list[Life], reply: Any, reason: str, clause: str = "") -> Found:
        legal: list[str] = []
        rule: Any = None
        for life in sorted(points, key=lambda one: not one.config.stack):
            for label, _ in self.lives.of(life):
                words = self._words(label)
                if words and words not in legal:
                    legal.append(words)
            for gate, agent, key in self.lives.standing(life):
                words = f"a hook at the gate {gate} of {agent} {key}".rstrip()
                if words not in legal:
                    legal.append(words)
            if rule is None and life.config.stack:
                rule = spoken(self.lives.machine, life.config)
            elif rule is None and life.config.parked:
                rule = self.lives.machine.rules[life.config.parked[0][1][0]]
        spoke, sentence = clause_of(rule) if rule is not None else ("", "")
        agent = getattr(reply, "agent", "")
        text = shown(reply) if reply is not None else "ok"
        legal = legal[:6] or ["nothing until something is asked or released"]
        return Found(Fault(agent, reason, clause or spoke, sentence, "", tuple(legal), text, (), 0))

    def _words(self, label: tuple[Any, ...]) -> str:
        if not label:
            return ""
        if label[0] == "live":
            return f"live {label[1][0]} of {self.lives.name(label[1][1])}"
        return f"{self.book.ops[label[1], label[2]].op} returns"


def attempt_of(op: Any) -> str:
    """The name of an attempt: the key of its gates."""
    return str(getattr(op, "name", None) or op.agent)


_PROMISES = {
    "create": "C-TXN-C10", "fork": "C-TXN-C10", "resume": "C-RES-5", "dispose": "C-HND-1", "unload": "INV-20",
}  # fmt: skip
