"""The slice policy beside an agent: what it appends at a pre-step, what its tools answer, what requests keep.

The plan of a seal is `loopspec.tape.seal` over the known log, that of the folds behind it `folding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from loopconform.judge.changes import HIDDEN, Step
from loopconform.judge.chronicle import Chronicle
from loopconform.judge.entries import unstable
from loopconform.judge.folding import Due, due
from loopconform.judge.logged import LoggedJudge, LoggedMoves
from loopconform.judge.points import Book, Facts, Point, assembled, canonical, distinct
from loopconform.judge.recalling import page
from loopconform.judge.storage import Start
from loopconform.protocol.replies import Live, Record
from loopspec import loop, stream
from loopspec.attempt import aborted
from loopspec.kernel.machine import Answer, Effect
from loopspec.loop import Composition
from loopspec.profile import Law
from loopspec.tape import config, seal
from loopspec.tape.fold import watermark
from loopspec.tape.index import LogIndex
from loopspec.tape.recall import RECALL_TOOLS


class SealingMoves(LoggedMoves):
    """The moves of a point with the slice policy mounted."""

    def __init__(self, book: Book, machine: Composition, law: Law) -> None:
        super().__init__(book, machine)
        self.chronicle: Chronicle
        self._config = config.parse(book.opening.slice)
        self._law = law
        self._index = LogIndex()

    @property
    def index(self) -> LogIndex:
        """The index of the log as it is known now."""
        self._index = self._index.grown(self.chronicle.events)
        return self._index

    def of(self, point: Point) -> Iterator[Step]:
        """TP-09  Once planned, entries are appended one after the other, and nothing comes between them."""
        if point.frames or not point.facts.decided:
            yield from super().of(point)
            return
        at, answer, then = point.facts.decided
        owed = point.facts.owed
        if not owed:
            yield HIDDEN, self._folding(point) if then == "fold" else self._decided(point, answer, at)
            return
        is_fold = isinstance(owed[0], Due)
        refused, point = self._vetoed(point, "tool/result" if is_fold else "user/message")
        if refused:
            # TP-34, RE-65  The failed append leaves the pre-step.
            yield HIDDEN, self._decided(point, ("throws",), at)
            return
        after = point._replace(facts=point.facts._replace(owed=owed[1:]))
        yield ("fold", owed[0]) if is_fold else ("entry", owed[0]), after

    def _folding(self, point: Point) -> Point:
        """FD-01, FD-02, FD-04  Behind the seal: what has landed since the last pass is condensed, unless cancelled."""
        index, facts = self.index, point.facts
        at, answer, _ = facts.decided
        facts = facts._replace(decided=(at, answer, ""))
        if not self._config.fold.enabled or aborted(point.loop.driver.core):
            return point._replace(facts=facts)
        assert facts.scanned is not None
        folds = due(index, self.chronicle.surface.nodes, facts.scanned, self._config)
        return point._replace(facts=facts._replace(owed=folds, scanned=index.length))

    def _decided(self, point: Point, answer: Answer, index: int) -> Point:
        return self._answered(point._replace(facts=point.facts._replace(owed=(), decided=())), answer, index)

    def _driver_answer(self, point: Point, core: Any, at: Effect, index: int, outcome: Any) -> Iterator[Step]:
        """TP-08, CF-20  The tape looks at the decision that has come back from downstream."""
        if at[0] != "pre-step":
            yield from super()._driver_answer(point, core, at, index, outcome)
            return
        kind = "done" if outcome is None else outcome.kind
        decision = {"reject": "reject", "throws": "throws"}.get(kind, "enter")
        course = config.course(decision, core.step + 1, aborted=aborted(core), cap=self._config.max_steps_per_turn)
        if course == "stop":
            yield HIDDEN, self._answered(point, ("reject",), index)
        elif course == "raise":
            yield HIDDEN, self._answered(point, ("throws",), index)
        elif course not in ("seal", "enter") or kind == "enter":  # such a hook lies outside of the tape's
            yield from super()._driver_answer(point, core, at, index, outcome)
        else:
            entries = self._plan() if course == "seal" else ()
            answer: Answer = ("enter", at[1])
            scanned = point.facts.scanned
            if scanned is None:
                scanned = watermark(self.chronicle.events) + 1
            facts = point.facts._replace(owed=entries, decided=(index, answer, "fold"), scanned=scanned)
            yield HIDDEN, point._replace(facts=facts)

    def _generation(self) -> int:
        return self.chronicle.surface.generation

    def _starts_series(self, point: Point) -> bool:
        """S-REQ-21  What was derived for the last request has moved."""
        last = point.facts.generation
        return point.loop.driver.core.headed and last is not None and last != self._generation()

    def _plan(self) -> tuple[seal.Entry, ...]:
        """2.5  Messages of this suite are no snapshots, so that none is renewed."""
        return seal.seal(self.index, self.chronicle.surface, (), self._config.history, self._law).entries

    def _tool_answer(self, facts: Facts, at: Effect, outcome: Any) -> tuple[Answer, Facts]:
        """4.  A recall tool answers from the log, and fails where it has nothing to answer."""
        name = facts.calls[at[1] - 1][1] if at[0] == "body" else ""
        if name not in RECALL_TOOLS:
            return super()._tool_answer(facts, at, outcome)
        block = stream.tool_calls(stream.settle(assembled(facts.stream)).content)[at[1] - 1]
        text = page(self.index, name, block["arguments"], self._law)
        if text is None:
            return ("failure",), facts
        return ("success",), facts._replace(recalled=(*facts.recalled, (at[1], text)))


class SealingJudge(LoggedJudge):
    """A loop judge with the slice policy beside the agent."""

    def __init__(
        self, book: Book, law: Law, agent: str, machine: Composition = loop.MACHINE, start: Start | None = None
    ) -> None:
        """See `LoggedJudge`."""
        moves = SealingMoves(book, machine, law)
        super().__init__(book, law, agent, machine, start, moves)
        moves.chronicle = self.chronicle
        self._shown: list[str] = []
        """The messages of the last request."""

    def show(self, reply: Any) -> None:
        """See `LoggedJudge`; a request keeps every entry of the one before it, and the order of everything ahead."""
        before = self.points
        if isinstance(reply, Live) and reply.name == "llm/stream":
            shown = [canonical(message) for message in reply.data.get("messages", ())]
            wrong = unstable(self._shown, shown)
            if wrong:
                raise self._fault(before, reply, "PX-2, PX-4, PX-5", wrong)
            self._shown = shown
        super().show(reply)
        if isinstance(reply, Record) and reply.event["type"] == "tool/result":
            kept = distinct(point for point in self.points if not _misrecalled(point.facts, reply.event))
            if not kept:
                expected = next(_misrecalled(point.facts, reply.event) for point in self.points)
                raise self._fault(before, reply, "RC-12", f"the page is another; the law says: {expected[:300]}")
            self.points = kept


def _misrecalled(facts: Facts, event: Mapping[str, Any]) -> str:
    """The page that a recall tool should have given, if this result is one and shows another."""
    message = event["data"]["message"]
    numbers = {id: at for at, (id, _) in enumerate(facts.calls, 1)}
    expected = dict(facts.recalled).get(numbers.get(str(message.get("toolCallId")), 0))
    if expected is None or message["content"] == [{"type": "text", "text": expected}]:
        return ""
    return expected
