"""A loop judge that knows the log of its agent: where it begins, what requests show of it, what it is read as."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from loopconform.judge import explain
from loopconform.judge.changes import Label, Step
from loopconform.judge.chronicle import Chronicle
from loopconform.judge.loop_judge import LoopJudge
from loopconform.judge.moves import Moves
from loopconform.judge.points import Book, Point, distinct
from loopconform.judge.storage import Start
from loopconform.judge.verdict import Found
from loopconform.judge.writing import Barrier
from loopconform.protocol.replies import Gate, Live, Record, Returned, Settled
from loopspec import loop
from loopspec.attempt import aborted
from loopspec.kernel.machine import Effect
from loopspec.loop import Composition
from loopspec.profile import Law

REQUEST: Label = ("live", ("llm/stream",))


class LoggedMoves(Moves):
    """The moves of a point, with the request that is told before its stream begins, where that was asked for."""

    def _answers(self, point: Point) -> Iterator[Step]:
        if not self._owes_request(point):
            yield from super()._answers(point)
            return
        facts = point.facts._replace(asked=True, generation=self._generation())
        yield REQUEST, point._replace(facts=facts)
        if aborted(point.loop.driver.core):
            yield from super()._answers(point)

    def _generation(self) -> int:
        """The generation of the surface that a request shows, where anybody rewrites it."""
        return 0

    def _owes_request(self, point: Point) -> bool:
        """AW5  The first wait for a chunk covers the dispatch of the request."""
        waits = any(at[0] == "chunk" and not at[1] for at, _ in point.loop.driver.parked)
        return waits and not point.facts.asked and self.book.tells_requests

    def _driver_answer(self, point: Point, core: Any, at: Effect, index: int, outcome: Any) -> Iterator[Step]:
        if at[0] == "request":
            point = point._replace(facts=point.facts._replace(asked=False))
        yield from super()._driver_answer(point, core, at, index, outcome)


class LoggedJudge(LoopJudge):
    """The points of one agent, and its log."""

    def __init__(
        self,
        book: Book,
        law: Law,
        agent: str,
        machine: Composition = loop.MACHINE,
        start: Start | None = None,
        moves: Moves | None = None,
    ) -> None:
        """`start`: the log that the agent was made of, if it is not a new one."""
        super().__init__(book, law, agent, machine)
        self.moves = moves or LoggedMoves(book, machine)
        self.chronicle = Chronicle("v4" if law.session_format == 4 else "v0")
        if start is not None:
            self.chronicle = start.chronicle
            begun, facts = start.loop(law, book), start.facts(book)
            self.points = distinct(point._replace(loop=begun, facts=facts) for point in self.points)
            self.length = len(self.chronicle.events)
        self._first = self.points
        if "flush" in book.holds:
            self.moves.barrier = Barrier(self.chronicle)

    def show(self, reply: Any) -> None:
        """See `LoopJudge`; a request shows the log, and so does an answer to `log`."""
        before = self.points
        self._hear(super().show, reply)
        if isinstance(reply, Record):
            self.chronicle.add(reply.event)
        elif isinstance(reply, Live) and reply.name == "llm/stream":
            is_told = not self.moves.unpublished  # else records were published to nobody
            wrong = self.chronicle.wrong_messages(reply.data.get("messages")) if is_told else ""
            if wrong:
                raise self._fault(before, reply, "S-REQ-10", f"the request does not show the log: {wrong}")

    def arrive(self, reply: Gate) -> None:
        """See `LoopJudge`."""
        self._hear(super().arrive, reply)

    def _hear(self, hear: Callable[[Any], None], reply: Any) -> None:
        """S-DSK-33  What only the barrier forbids has come too early."""
        before, length = self.points, self.length
        try:
            hear(reply)
        except Found:
            if self.moves.barrier is None:
                raise
            self.length, self.moves.barrier.is_lifted = length, True
            hear(reply)
            raise self._fault(before, reply, "S-DSK-33", "what has been appended before is not durable yet") from None

    def written(self) -> None:
        """A batch of this session goes on from the gate `flush`."""
        if self.moves.barrier is not None:
            self.moves.barrier.written()

    def rest(self, reply: Settled, is_waiting: bool) -> None:
        """See `settle`. `is_waiting`: a batch of this session stands at the gate `flush`; else all is durable."""
        if self.moves.barrier is None:
            self.settle(reply)
            return
        if not is_waiting:
            self.moves.barrier.written()
        self.moves.barrier.is_shut = is_waiting
        try:
            self.settle(reply)
        finally:
            self.moves.barrier.is_shut = False

    def read(self, reply: Returned) -> None:
        """S-LOG-1  What an adapter says that the whole log is."""
        wrong = self.chronicle.wrong_log(reply.value if isinstance(reply.value, tuple) else ())  # type: ignore[arg-type]
        if wrong:
            raise self._fault(self.points, reply, "S-REP-3", f"the log is another: {wrong}")

    def _fault(self, points: Any, reply: Any, clause: str, reason: str) -> Found:
        return explain.found(self, points, reply, clause, reason)

    def close(self) -> None:
        """C-INI-7  The initiator scope is closing: no driver starts any more."""
        self.moves.closing = True

    def publish(self, published: bool) -> None:
        """See `LoopJudge`. What was done to an agent before its publication is in no record (C-SET-7)."""
        if published and self.points == self._first:
            self.moves.unpublished = False
            self.length = len(self.chronicle.events)
            return
        super().publish(published)
        if published:
            self.chronicle.is_whole = False
