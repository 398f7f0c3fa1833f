"""The moves of a point: what the law lets happen next, seen or unseen.

A label is what an adapter must report when the move is made; an empty one belongs to a move that nobody sees.

| label | the reply that fits |
|---|---|
| `("record", effect)` | `record` |
| `("live", effect)` | `live` |
| `("foreign", type)` | a `record` that an operation appended |
| `("entry", entry)`, `("fold", due)` | a `record` that the slice policy appended |
| `("end", request, op, result)` | `returned` or `raised` |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from loopconform.judge.points import (
    BATCH_GATES,
    DRIVER_GATES,
    USUAL,
    Block,
    Book,
    Facts,
    Frame,
    Place,
    Point,
    assembled,
    canonical,
    is_visible,
    tool_of,
)
from loopconform.judge.writing import Barrier
from loopspec import scheduler, stream
from loopspec.attempt import aborted
from loopspec.driver import Driver, barred, is_quiet
from loopspec.kernel.machine import Answer, Config, Effect, Operation, log_is_locked
from loopspec.loop import Composition, Loop, batch_runs, log_is_busy, runs
from loopspec.scheduler import Batch

Label = tuple[Any, ...]
Step = tuple[Label, Point]

HIDDEN: Label = ()
RETURNED: Effect = ("return", None)
ANYHOW: Effect = ("anyhow",)
"""The result of an operation that is not the loop's: it may return or throw."""

WORDS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan"), "-0": -0.0}
PRESETS = {"followup": ("next-turn", True), "steer": ("next-step", True), "inject": ("next-step", False)}
CALL_BLOCK = "tool-call"


class Moves:
    """The moves of one agent's points, under one composition of machines."""

    def __init__(self, book: Book, machine: Composition) -> None:
        self.book = book
        self.machine = machine
        self.closing = False
        """The initiator scope is closing: no driver starts (C-INI-7)."""
        self.unpublished = False
        """The session is in no registry: what is appended to it is published nowhere (C-REGS-6)."""
        self.barrier: Barrier | None = None
        """What waits until the log is durable, where the gate `flush` holds."""

    def of(self, point: Point) -> Iterator[Step]:
        """Every move. While a segment runs there is hardly a choice; else whatever can be answered may be."""
        top = point.frames[-1] if point.frames else None
        if top is not None and top.state == "ended":
            yield from self._ended(point, top)
            return
        if top is not None and top.state == "ready":
            yield from self._begin(point, top)
            return
        if runs(point.loop):
            yield from self._steps(point)
            return
        if top is None:
            yield from self._starts(point)
            yield from self._answers(point)

    def is_settled(self, point: Point) -> bool:
        """Nothing can happen any more without a release or a request. A disposal that only may come is none."""
        if point.doomed == "perhaps":
            point = point._replace(doomed="no")
        return next(self.of(point), None) is None and not point.frames and not point.blocks

    def waits(self, point: Point, place: Place) -> bool:
        """S-DSK-33  The hook at this gate is not reached yet: what the routine has appended is not durable."""
        gate, key = place
        if self.barrier is None or place in point.arrived:
            return False
        if gate == "chunk" and any(at[0] == "chunk" and at[1] for at, _ in point.loop.driver.parked):
            return False
        return gate in ("pre-step", "chunk", "tool") and self.barrier.bars(key if gate == "tool" else None)

    # -- operations

    def _ended(self, point: Point, top: Frame) -> Iterator[Step]:
        after = top._replace(next=top.next + 1, state="ready", height=0, result=())
        rest = point.frames[:-1] if after.next == len(after.ops) else (*point.frames[:-1], after)
        if len(point.frames) == 1 and point.loop.driver.waiting and runs(point.loop):
            yield from self._steps(point)  # what has waited begins before the outermost call returns, or after
        done = point._replace(frames=rest)
        if top.request:
            yield ("end", top.request, top.ops[top.next], top.result), done
        elif top.result[0] == "raise":
            yield HIDDEN, self._contexts_taken(done._replace(frames=point.frames[:-1]), ("throws",))
        else:
            yield HIDDEN, done if rest else self._contexts_taken(done, ("done",))

    def _begin(self, point: Point, top: Frame) -> Iterator[Step]:
        """The next operation of a tick begins."""
        if top.request == 0:
            operation: Operation = ("splice", "next-step", float("inf"), 0, (top.ops[top.next],))
            yield from self._call(point, operation)
            return
        op = self.book.ops[top.request, top.ops[top.next]]
        kind = op.op
        if kind in ("send", *PRESETS):
            target, wakes = (op.target, op.wakeup) if kind == "send" else PRESETS[kind]
            yield from self._send(point, self.book.number(op.message), target, wakes)
        elif kind == "cancel":
            yield from self._call(point, ("cancel", op.cause, op.keep_inbox))
        elif kind == "maintenance":
            yield from self._call(point, ("maintain",))
        elif kind == "remove":
            yield from self._call(point, ("remove", self.book.number(op.message)))
        elif kind == "replace":
            yield from self._call(point, ("replace", self.book.number(op.message), self.book.number(op.by)))
        elif kind == "clear":
            yield from self._call(point, ("clear_inbox",))
        elif kind == "splice":
            start, count = (WORDS[n] if isinstance(n, str) else n for n in (op.start, op.delete_count))
            inserted = tuple(self.book.number(id) for id in op.messages)
            yield from self._call(point, ("splice", op.target, start, count, inserted))
        elif kind == "dispose" and point.doomed != "yes" and (top.request, top.ops[top.next]) not in self.book.vain:
            yield from self._call(point._replace(doomed="yes"), ("cancel", "disposed", False))
        elif kind == "append":
            yield from self._append(point, op.type)
        else:
            facts = with_settings(point.facts, op)
            result = RETURNED if kind == "when-idle" else ANYHOW
            yield HIDDEN, _ended_at_once(point._replace(facts=facts), result)
            if facts.tools != point.facts.tools and self._is_listing(point):
                facts = facts._replace(listed=tuple(name for name, _ in facts.tools))
                yield HIDDEN, _ended_at_once(point._replace(facts=facts), result)

    def _is_listing(self, point: Point) -> bool:
        """Prompt assembly has begun, and may not have looked at the tools yet: it does so before its waterfall."""
        begun = any(at == ("assembly",) for at, _ in point.loop.driver.parked)
        return begun and ("assembly", "") not in point.arrived

    def _send(self, point: Point, message: int, target: str, wakes: bool) -> Iterator[Step]:
        if wakes and point.gate != "open":
            point = point._replace(gate="latched")
            wakes = False
        yield from self._call(point, ("send", message, target, wakes))

    def _call(self, point: Point, operation: Operation) -> Iterator[Step]:
        if not self.machine.may_call(point.loop):
            return
        law = point.loop.driver.core.law
        may_be_drained = (point.doomed == "yes" or self.unpublished) and is_quiet(point.loop.driver)
        may_be_drained = may_be_drained and operation[:2] != ("cancel", "disposed")
        if law.disposed_agent_is_silent and may_be_drained:
            # N-7: whether it has been drained by now is the creation judge's affair.
            yield HIDDEN, _ended_at_once(point, ("raise", "disposed"))
        loop = self.machine.call(point.loop, operation)
        if len(loop.driver.stack) == len(point.loop.driver.stack):  # it waits for the log
            yield HIDDEN, _ended_at_once(point._replace(loop=loop), RETURNED)
            return
        running = point.frames[-1]._replace(state="running", height=len(loop.driver.stack))
        yield HIDDEN, point._replace(loop=loop, frames=(*point.frames[:-1], running))

    def _append(self, point: Point, type: str) -> Iterator[Step]:
        """Somebody else's record: refused while another is being published (L-LOG-3)."""
        if log_is_locked(point.loop.driver) or log_is_busy(point.loop):
            yield HIDDEN, _ended_at_once(point, ("raise", "refused"))
            return
        refused, point = self._vetoed(point, type)
        if refused:
            yield HIDDEN, _ended_at_once(point, ("raise", "refused"))
        else:
            yield HIDDEN if self.unpublished else ("foreign", type), _ended_at_once(point, RETURNED)

    def _vetoed(self, point: Point, type: str) -> tuple[bool, Point]:
        """A record of this type is about to be published: is it refused? One that is not counts for every veto."""
        due = next((one for one in point.vetoes if one[1] == 1 and self.book.vetoes[one[0]].record == type), None)
        if due is not None:
            return True, point._replace(vetoes=without(point.vetoes, due))
        left = [(id, nth - (self.book.vetoes[id].record == type)) for id, nth in point.vetoes]
        return False, point._replace(vetoes=tuple(left))

    def _starts(self, point: Point) -> Iterator[Step]:
        """The gate of the driver opens, for a kept wake at once; ticks that were asked for begin; so may a disposal."""
        if point.starting:
            loop = point.loop
            if point.gate == "latched":
                loop = self.machine.call(loop, ("wake", False, ("answer", None)))
            yield HIDDEN, point._replace(loop=loop, gate="open", starting=False)
            return
        for at, block in enumerate(point.blocks):
            rest = point._replace(blocks=point.blocks[:at] + point.blocks[at + 1 :])
            if block.ops:
                if block.release is not None:
                    rest = rest._replace(blocks=(Block(block.request, (), block.release), *rest.blocks))
                yield HIDDEN, rest._replace(frames=(Frame(block.request, block.ops),))
            elif block.release is not None:
                yield HIDDEN, rest._replace(released=(*rest.released, (block.release, block.request)))
        if point.doomed == "perhaps":
            loop = self.machine.call(point.loop, ("cancel", "disposed", False))
            yield HIDDEN, point._replace(loop=loop, doomed="yes")

    # -- steps of the machine

    def _boundary(self, point: Point) -> Point:
        """C-REE-6, N-8  A closing scope refuses the start of a driver: before anything of it, or after its status."""
        if not self.closing:
            return point
        return point._replace(loop=point.loop._replace(driver=barred(point.loop.driver)))

    def _steps(self, point: Point) -> Iterator[Step]:
        point = self._boundary(point)
        move, after = self.machine.step(point.loop)
        verb, effect = move.verb, move.effect
        if verb == "append":
            is_refused, point = self._vetoed(point, effect[0])
            if is_refused:
                _, refused = self.machine.refuse(point.loop)
                yield HIDDEN, point._replace(loop=refused)
                return
            label: Label = HIDDEN if self.unpublished else ("record", effect)
            yield label, point._replace(loop=after, facts=_after_record(point.facts, effect, self._is_v4))
        elif verb == "notify":
            yield from self._notified(point, effect, after)
        else:
            facts = point.facts
            if verb == "park" and effect == ("assembly",):
                facts = facts._replace(listed=tuple(name for name, _ in facts.tools))
            told = self._left(point._replace(loop=after, facts=facts), verb, effect)
            if verb == "leave" and effect[:2] == ("raise", "busy") and told.frames == point.frames:
                # A job that waited for the log has found the agent busy: its promise rejects.
                told = told._replace(facts=facts._replace(worked=(*facts.worked, "refused")))
            yield HIDDEN, told

    @property
    def _is_v4(self) -> bool:
        return self.book.opening.session_format == 4

    def _left(self, point: Point, verb: str, effect: Effect) -> Point:
        """After a park or leave: the operation that ran in that activation has ended."""
        if verb not in ("park", "leave") or not point.frames:
            return point
        top = point.frames[-1]
        if top.state != "running" or len(point.loop.driver.stack) >= top.height:
            return point
        result = effect if verb == "leave" and effect[0] in ("return", "raise") else RETURNED
        if top.request and self.book.ops[top.request, top.ops[top.next]].op == "dispose":
            result = RETURNED  # L-DSP-4: it is the promise that tells of a refusal
        return point._replace(frames=(*point.frames[:-1], top._replace(state="ended", result=result)))

    def _notified(self, point: Point, effect: Effect, after: Loop) -> Iterator[Step]:
        name = effect[0]
        facts = point.facts
        if name == "agent/assistant-stream" and effect[1] == "chunk":
            facts = facts._replace(stream=(*facts.stream, facts.chunk))
        told = point._replace(loop=after, facts=facts)
        if name == "tools/execute":
            begun = self._dispatched(told, effect[1])
            yield HIDDEN, begun
            yield from self._enter(begun, effect[1])
            return
        heard = "signal/abort" if name == "abort" else name
        if heard in self.book.events:
            yield ("live", effect), told
        if heard not in self.book.events or heard in self.book.partial:
            yield HIDDEN, told

    def _dispatched(self, point: Point, call: int) -> Point:
        batch = point.loop.batch
        assert batch is not None
        begun = self.machine.schedules.step(self.machine.schedules.call(batch, ("execute", call)))
        return point._replace(loop=point.loop._replace(batch=begun.config))

    def _enter(self, point: Point, call: int) -> Iterator[Step]:
        """The wrappers of a dispatch have reached its body."""
        batch = point.loop.batch
        assert batch is not None
        if tool_of(point.facts, call) is None or call in batch.core.entered or call in point.facts.barred:
            return
        if self.waits(point, ("tool", point.facts.calls[call - 1][0])):
            return
        entered = self.machine.schedules.step(self.machine.schedules.call(batch, ("enter", call)))
        facts = point.facts
        if not entered.effect[1]:
            facts = facts._replace(barred=(*facts.barred, call))
        yield HIDDEN, point._replace(loop=point.loop._replace(batch=entered.config), facts=facts)

    # -- answers

    def _answers(self, point: Point) -> Iterator[Step]:
        batch = point.loop.batch
        if batch is not None:
            for index, (at, _) in enumerate(batch.parked):
                if scheduler.is_question(at):
                    yield HIDDEN, self._asked(point, batch, at, index)
                    return
        core = point.loop.driver.core
        for index, (at, _) in enumerate(point.loop.driver.parked):
            if at[0] in ("gap", "tick"):
                yield HIDDEN, self._answered(point, ("done",), index)
            elif at[0] == "tools":
                if self.machine.batch_is_due(point.loop):
                    yield HIDDEN, point._replace(loop=self.machine.begin(point.loop, len(point.facts.calls)))
            elif self.waits(point, (DRIVER_GATES[at[0]], "")):
                continue
            elif at[0] == "chunk" and point.facts.mode == "usual":
                yield HIDDEN, self._pulled(point, None, index)
            else:
                for outcome, after in self._outcomes(point, (DRIVER_GATES[at[0]], ""), aborted(core)):
                    yield from self._driver_answer(after, core, at, index, outcome)
        if batch is not None:
            yield from self._batch_answers(point, batch)

    def _outcomes(self, point: Point, place: Place, is_aborted: bool) -> Iterator[tuple[Any, Point]]:
        """How a hook may come out now; nothing while it stands at its gate or has not been reported there yet."""
        gate, key = place
        if place in point.arrived:
            for one in point.released:
                if one[0] == place:
                    gone = point._replace(arrived=without(point.arrived, place), released=without(point.released, one))
                    yield self.book.releases[one[1]].outcome, gone
                    return
            if self.book.holds.get(gate) and is_aborted and gate != "close":
                yield _Aborted, point._replace(arrived=without(point.arrived, place))
            return
        for id in point.plans:
            plan = self.book.plans[id]
            if plan.gate == gate and plan.key in (None, key):
                yield plan.outcome, point._replace(plans=without(point.plans, id))
                return
        if gate not in self.book.holds:
            yield None, point

    def _answered(self, point: Point, answer: Answer, index: int) -> Point:
        return point._replace(loop=self.machine.answer(point.loop, answer, index))

    def _driver_answer(self, point: Point, core: Driver, at: Effect, index: int, outcome: Any) -> Iterator[Step]:
        """The answer that an outcome means, with what else it changes."""
        name, facts = at[0], point.facts
        kind = "done" if outcome is None else outcome.kind
        if name == "chunk":
            yield HIDDEN, self._pulled(point, outcome, index)
            return
        answer: Answer = ("done",)
        if name == "close":
            answer = ("closed", is_visible(facts))
        elif name == "maintenance":
            facts = facts._replace(worked=(*facts.worked, kind))
        elif kind == "throws":
            answer = ("throws",)
        elif name == "pre-step":
            batch = at[1]
            if kind == "enter":
                wanted = tuple(self.book.number(id) for id in outcome.messages)
                batch = tuple(message for message in wanted if message in batch)
            answer = ("reject",) if kind == "reject" else ("enter", batch)
        elif name == "request":
            model = facts.logged[0] if core.headed and facts.logged else "m1"
            facts = facts._replace(
                model=outcome.model if kind == "config" else model, chunk="", stream=(), sources=(), mode=""
            )
        elif name == "prepare":
            changed = facts.logged != (facts.model, facts.listed) or self._starts_series(point)
            systems = int(core.law.session_format == 4 and not facts.prompted)
            answer = ("prepared", changed, facts.context != facts.model, systems)
        elif name == "recovery":
            answer = ("retry",) if kind == "retry" else ("none",)
        yield HIDDEN, self._answered(point._replace(facts=facts), answer, index)

    def _starts_series(self, point: Point) -> bool:
        """S-REQ-21  Nobody here rewrites what a model has been shown."""
        return False

    def _pulled(self, point: Point, outcome: Any, index: int) -> Point:
        """A pull of the stream came back: with a chunk, with its end, or with an error."""
        facts = point.facts
        if outcome is None and facts.mode == "":
            facts = facts._replace(mode="usual")
        if facts.mode == "usual":
            taken = len(facts.stream)
            chunk = canonical(USUAL[taken]) if taken < len(USUAL) else ""
        else:
            facts = facts._replace(mode="scripted")
            chunk = canonical(outcome.chunk) if outcome is not None and outcome.kind == "chunk" else ""
        if chunk:
            return self._answered(point._replace(facts=facts._replace(chunk=chunk)), ("chunk",), index)
        if outcome is not None and outcome.kind == "throws":
            return self._answered(point._replace(facts=facts), ("throws", is_visible(facts)), index)
        answer, facts = _end_of_stream(facts)
        return self._answered(point._replace(facts=facts), answer, index)

    # -- the batch

    def _asked(self, point: Point, batch: Config[Batch], at: Effect, index: int) -> Point:
        """A question of the scheduler, answered before anything else happens."""
        if at[0] == "contexts":
            contexts = dict(point.facts.contexts)[at[1]]
            return point._replace(frames=(*point.frames, Frame(0, contexts)))
        answer: Answer = ("cap", point.facts.cap)
        if at[0] == "classify":
            answer = ("parallel",) if tool_of(point.facts, at[1]) else ("exclusive",)
        return self._resumed(point, batch, answer, index)

    def _resumed(self, point: Point, batch: Config[Batch], answer: Answer, index: int) -> Point:
        return point._replace(loop=point.loop._replace(batch=self.machine.schedules.resume(batch, answer, index)))

    def _contexts_taken(self, point: Point, answer: Answer) -> Point:
        batch = point.loop.batch
        assert batch is not None
        index = next(at for at, (waits, _) in enumerate(batch.parked) if waits[0] == "contexts")
        return self._resumed(point, batch, answer, index)

    def _batch_answers(self, point: Point, batch: Config[Batch]) -> Iterator[Step]:
        is_aborted = batch.core.aborted
        for index, (at, _) in enumerate(batch.parked):
            call = at[1]
            if at[0] == "prepare" and at[2] == "arguments":
                yield HIDDEN, self._resumed(point, batch, ("dispatch",), index)
                continue
            if at[0] == "body":
                if tool_of(point.facts, call) is None:  # nobody knows the tool: its dispatch fails by itself
                    for answer in (("failure",), ("final-result",)):
                        yield HIDDEN, self._resumed(point, batch, answer, index)
                    continue
                if call in point.facts.barred:
                    yield HIDDEN, self._resumed(point, batch, ("barred",), index)
                    continue
                if call not in batch.core.entered:
                    yield from self._enter(point, call)
                    continue
            place = (BATCH_GATES[at[0]], point.facts.calls[call - 1][0])
            for outcome, after in self._outcomes(point, place, is_aborted):
                answer, facts = self._tool_answer(after.facts, at, outcome)
                yield HIDDEN, self._resumed(after._replace(facts=facts), batch, answer, index)

    def _tool_answer(self, facts: Facts, at: Effect, outcome: Any) -> tuple[Answer, Facts]:
        kind = "done" if outcome is None else outcome.kind
        name, call = at[0], at[1]
        if name == "prepare":
            answers = {"deny": ("post-result",), "throws": ("final-result",)}
            return answers.get(kind, ("dispatch",)), facts
        if name == "body":
            if kind == "throws":
                return ("failure",), facts
            if outcome is not None and outcome.concludes:
                facts = facts._replace(concluding=(*facts.concluding, call))
            if outcome is not None and outcome.text != "ok":
                facts = facts._replace(texts=(*facts.texts, (call, outcome.text)))
            return ("success",), facts
        contexts = tuple(self.book.number(id) for id in outcome.contexts) if kind in ("accept", "block") else ()
        if contexts:
            facts = facts._replace(contexts=(*facts.contexts, (call, contexts)))
        if kind in ("block", "throws"):
            return ("block", bool(contexts)), facts
        return ("accept", call in facts.concluding and at[2] == "success", bool(contexts)), facts


class _Aborted:
    """The outcome of a gate that honours an abort."""

    kind = "throws"


# -- changes -----------------------------------------------------------------------------------------------------


def without(items: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    """The items but for the first one that is this."""
    at = items.index(item)
    return items[:at] + items[at + 1 :]


def _ended_at_once(point: Point, result: Effect) -> Point:
    top = point.frames[-1]
    return point._replace(frames=(*point.frames[:-1], top._replace(state="ended", result=result)))


def with_settings(facts: Facts, op: Any) -> Facts:
    """Tools and the pool as an operation leaves them."""
    if op.op == "cap":
        return facts._replace(cap=op.size)
    if op.op in ("tool", "drop-tool"):
        tools = {name: parallel for name, parallel in facts.tools if name != op.name}
        if op.op == "tool":
            tools[op.name] = op.parallel
        return facts._replace(tools=tuple(sorted(tools.items())))
    return facts


def _after_record(facts: Facts, record: Effect, is_v4: bool) -> Facts:
    kind = record[0]
    if kind == "request/header":
        return facts._replace(logged=(facts.model, facts.listed))
    if kind == "request/context":
        return facts._replace(context=facts.model)
    if kind == "system/message":
        return facts._replace(prompted=True)
    if kind == "assistant/chunk":
        return facts._replace(stream=(*facts.stream, facts.chunk))
    return facts


def _end_of_stream(facts: Facts) -> tuple[Answer, Facts]:
    """What the end of a stream means, by the folds of the law (L-STR-3 to L-STR-8)."""
    whole = assembled(facts.stream)
    visible = is_visible(facts)
    if stream.failure(whole) is not None:
        return ("end", "failure", False, visible), facts
    try:
        settlement = stream.settle(whole)
    except stream.AssemblyError:
        return ("throws", visible), facts
    calls = tuple((str(block["id"]), str(block["name"])) for block in stream.tool_calls(settlement.content))
    finish = "max-tokens" if settlement.finish["kind"] == "max-tokens" else "stop"
    after = facts._replace(calls=calls, recalled=(), started=(), barred=(), concluding=(), contexts=(), texts=())
    return ("end", finish, bool(calls), visible), after


def content_of(facts: Facts, interrupted: bool) -> Any:
    """The content of the anchor of the open stream."""
    whole = assembled(facts.stream)
    settlement = stream.settle_interrupted(whole) if interrupted else stream.settle(whole)
    return json.loads(canonical([_plain(block) for block in settlement.content]))


def _plain(block: Any) -> dict[str, Any]:
    return dict(block)


def segment_runs(point: Point) -> bool:
    """A synchronous segment of either machine is under way."""
    return runs(point.loop) or batch_runs(point.loop)
