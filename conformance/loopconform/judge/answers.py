"""What may be answered: hooks that stand at gates or come out as usual, the stream, and the calls of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loopconform.judge.changes import HIDDEN, Step, end_of_stream, without
from loopconform.judge.points import (
    BATCH_GATES,
    DRIVER_GATES,
    USUAL,
    Book,
    Facts,
    Frame,
    Place,
    Point,
    canonical,
    is_visible,
    tool_of,
)
from loopconform.judge.writing import Barrier
from loopspec import scheduler
from loopspec.attempt import aborted
from loopspec.driver import Driver
from loopspec.kernel.machine import Answer, Config, Effect
from loopspec.loop import Composition
from loopspec.scheduler import Batch


class Aborted:
    """The outcome of a gate that honours an abort."""

    kind = "throws"


class Answers:
    """The answers that the points of one agent may get, under one composition of machines."""

    def __init__(self, book: Book, machine: Composition) -> None:
        self.book = book
        self.machine = machine
        self.closing = False
        """The initiator scope is closing: no driver starts (C-INI-7)."""
        self.unpublished = False
        """The session is in no registry: what is appended to it is published nowhere (C-REGS-6)."""
        self.barrier: Barrier | None = None
        """What waits until the log is durable, where the gate `flush` holds."""

    def waits(self, point: Point, place: Place) -> bool:
        """S-DSK-33  The hook at this gate is not reached yet: what the routine has appended is not durable."""
        gate, key = place
        if self.barrier is None or place in point.arrived:
            return False
        if gate == "chunk" and any(at[0] == "chunk" and at[1] for at, _ in point.loop.driver.parked):
            return False
        return gate in ("pre-step", "chunk", "tool") and self.barrier.bars(key if gate == "tool" else None)

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
                yield Aborted, point._replace(arrived=without(point.arrived, place))
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
        answer, facts = end_of_stream(facts)
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
