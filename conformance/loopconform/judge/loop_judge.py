"""One agent followed with the composed loop: the set of points consistent with its messages so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from loopconform.judge import explain
from loopconform.judge.changes import without
from loopconform.judge.fits import misfit
from loopconform.judge.moves import Moves
from loopconform.judge.points import Block, Book, Frame, Place, Point, call_number, distinct, places
from loopconform.judge.verdict import Undecided
from loopconform.protocol.replies import Fulfilled, Gate, Record, Rejected, Settled
from loopspec import loop
from loopspec.driver import is_quiet, status
from loopspec.loop import Composition
from loopspec.profile import Law

POINT_LIMIT = 20_000
"""Points looked at for one message; beyond it the run is undecided."""


class LoopJudge:
    """The points of one agent, from the announcement of its session on."""

    def __init__(self, book: Book, law: Law, agent: str, machine: Composition = loop.MACHINE) -> None:
        self.book = book
        self.agent = agent
        self.moves = Moves(book, machine)
        facts = book.facts()
        gate: Any = "shut" if law.driver_waits_for_publication else "open"
        self.points: tuple[Point, ...] = (Point(loop.initial(law), facts, gate=gate),)
        self.length: int | None = 0
        """How many records the log has; unknown behind records that nobody was told of."""
        self.waiting_idle: dict[tuple[int, int], bool] = {}
        """Who waits for idleness, and whether the agent may have been idle since."""
        self.jobs: set[tuple[int, int]] = set()
        self.ghosts: list[Place] = []
        """Hooks of an agent of the same id that has left its registries without having come to rest (C-OWN-10)."""

    # -- what is asked

    def ask(self, block: Block) -> None:
        """Operations that will run in one tick, when nobody else does."""
        self.points = distinct(point._replace(blocks=(*point.blocks, block)) for point in self.points)

    def ask_inside(self, request: int, ops: tuple[int, ...]) -> None:
        """Operations that run now, inside the dispatch that was reported last."""
        self.points = distinct(point._replace(frames=(*point.frames, Frame(request, ops))) for point in self.points)

    def plan(self, id: int) -> None:
        """The outcome of an arrival."""
        self.points = distinct(point._replace(plans=(*point.plans, id)) for point in self.points)

    def veto(self, id: int) -> None:
        """The refusal of a record."""
        nth = self.book.vetoes[id].nth
        self.points = distinct(point._replace(vetoes=(*point.vetoes, (id, nth))) for point in self.points)

    def release(self, id: int, place: Place, ops: tuple[int, ...]) -> bool:
        """The hook that stands at a gate may go on; false where nobody stands, and nothing happens."""
        if not any(place in point.arrived and not _is_released(point, place) for point in self.points):
            return False
        self.points = distinct(
            point._replace(blocks=(*point.blocks, Block(id, ops, place)))
            if place in point.arrived and not _is_released(point, place)
            else point
            for point in self.points
        )
        return True

    def pending(self) -> frozenset[bool]:
        """Whether there is pending input, in each explanation."""
        cores = [point.loop.driver.core for point in self.points]
        return frozenset(bool(core.next_turn or core.next_step) for core in cores)

    def may_be_disposed(self) -> None:
        """Somebody has asked for the end of whatever owns this agent."""
        self.points = distinct(
            point._replace(doomed="perhaps") if point.doomed == "no" else point for point in self.points
        )

    def stays(self) -> None:
        """Nobody has asked for the end of this agent after all."""
        self.points = distinct(
            point._replace(doomed="no") if point.doomed == "perhaps" else point for point in self.points
        )

    def published(self) -> None:
        """N-1  The agent was announced: once its listeners are done the driver may start, for a kept wake at once."""
        self.points = distinct(point._replace(starting=point.gate != "open") for point in self.points)

    def tools_changed(self, change: Any) -> None:
        """Tools and the pool belong to all agents: an operation of somebody else has changed them."""
        self.points = distinct(point._replace(facts=change(point.facts)) for point in self.points)

    def publish(self, published: bool) -> None:
        """The session enters or leaves the registry: what is appended outside of it is told to nobody."""
        self.moves.unpublished = not published
        if not published:
            self.length = None

    # -- what is seen

    def closure(self, points: Iterable[Point] | None = None, moves: Moves | None = None) -> list[Point]:
        """The points and everything that unseen moves lead to. Raises `Undecided` beyond the limit."""
        steps = moves or self.moves
        queue = deque(self.points if points is None else points)
        seen = dict.fromkeys(queue)
        while queue:
            for label, after in steps.of(queue.popleft()):
                if not label and after not in seen:
                    seen[after] = None
                    queue.append(after)
                    if len(seen) > POINT_LIMIT:
                        raise Undecided(f"more than {POINT_LIMIT} points explain the agent {self.agent!r}")
        if self.waiting_idle and not all(self.waiting_idle.values()) and _may_rest(seen):
            self.waiting_idle = dict.fromkeys(self.waiting_idle, True)
        return list(seen)

    def show(self, reply: Any) -> None:
        """A record, a live event or the end of an operation. Raises `Found` when the law cannot explain it."""
        closed = self.closure()
        after = distinct(
            self._counted(next_point, reply)
            for point in closed
            for label, next_point in self.moves.of(point)
            if label and not misfit(self.book, label, point, reply)
        )
        if isinstance(reply, Record):
            seq = reply.event.get("seq")
            if self.length is None:
                self.length = int(seq) if isinstance(seq, int) else 0
            if after and seq != self.length:
                raise explain.found(
                    self, closed, reply, "INV-23", f"the record has seq {seq}, the log's next is {self.length}"
                )
            self.length += 1
        if not after:
            raise explain.unexplained(self, closed, reply)
        self.points = distinct(after)

    def _counted(self, point: Point, reply: Any) -> Point:
        """The seq of a chunk is a source of its anchor (L-STR-4), that of a call one of its result (L-TOOL-6)."""
        kind = reply.event.get("type") if isinstance(reply, Record) else ""
        facts = point.facts
        if kind == "assistant/chunk":
            facts = facts._replace(sources=(*facts.sources, int(reply.event.get("seq", -1))))
        elif kind == "tool/call":
            call = call_number(facts, str(reply.event["data"].get("callId")))
            facts = facts._replace(started=(*facts.started, (call, int(reply.event.get("seq", -1)))))
        return point if facts is point.facts else point._replace(facts=facts)

    def arrive(self, reply: Gate) -> None:
        """A hook stands at a gate: only where the law has one that no plan takes past it."""
        place = (reply.gate, reply.key)
        closed = self.closure()
        after = distinct(
            point._replace(arrived=(*point.arrived, place))
            for point in closed
            if self._may_arrive(point, place) and self._proposes(point, reply)
        )
        if not after:
            raise explain.early(self, closed, reply)
        self.points = after

    def _may_arrive(self, point: Point, place: Place) -> bool:
        gate, key = place
        if place in point.arrived or gate not in self.book.holds or place not in places(point):
            return False
        if self.moves.waits(point, place):
            return False
        return not any(
            self.book.plans[id].gate == gate and self.book.plans[id].key in (None, key) for id in point.plans
        )

    def _proposes(self, point: Point, reply: Gate) -> bool:
        if reply.gate != "pre-step" or reply.messages is None:
            return True
        batch = next(at[1] for at, _ in point.loop.driver.parked if at[0] == "pre-step")
        return reply.messages == tuple(self.book.name(n) for n in batch)

    def knows(self, request: int, op: int) -> bool:
        """This operation was asked of this agent, and has not ended yet, in any explanation."""
        return any(
            op in ops
            for point in self.points
            for id, ops in (
                *((block.request, block.ops) for block in point.blocks),
                *((frame.request, frame.ops[frame.next :]) for frame in point.frames),
            )
            if id == request
        )

    def done(self, request: int) -> None:
        """The tick of a request is over."""
        closed = self.closure()
        after = distinct(
            point
            for point in closed
            if all(block.request != request for block in point.blocks)
            and all(frame.request != request for frame in point.frames)
        )
        if not after:
            raise explain.unfinished(self, closed, request)
        self.points = after

    def settle(self, reply: Settled) -> None:
        """Nothing can run any more: who is parked, and what can be read, must be what the law says."""
        closed = self.closure()
        still = [point for point in closed if self.moves.is_settled(point)]
        shown = tuple(sorted((one.gate, one.key) for one in reply.parked if one.agent == self.agent))
        shown = tuple(place for place in shown if place[0] not in ("setup", "load", "unwind", "flush"))
        after = [point for point in still if self._is_shown(point, shown) and not self._unreported(point)]
        if not after:
            raise explain.missed(self, closed, still, shown, reply)
        snapshot = reply.agents.get(self.agent)
        if snapshot is not None:
            fitting = [point for point in after if self._reads(point, snapshot)]
            if not fitting:
                raise explain.misread(self, after, snapshot, reply)
            after = fitting
        self._promises(after, reply)
        self.points = distinct(after)

    def _is_shown(self, point: Point, shown: tuple[Place, ...]) -> bool:
        """Exactly the hooks that stand here are parked; ghosts may be."""
        left = list(shown)
        for place in point.arrived:
            if place not in left:
                return False
            left.remove(place)
        ghosts = list(self.ghosts)
        for place in left:
            if place not in ghosts:
                return False
            ghosts.remove(place)
        return True

    def standing(self) -> list[Place]:
        """Where a hook stands, in some explanation."""
        return sorted({place for point in self.points for place in point.arrived})

    def _unreported(self, point: Point) -> bool:
        """A hook stands at a gate that holds, and nobody said so."""
        return any(place not in point.arrived and not self.moves.waits(point, place) for place in places(point))

    def _reads(self, point: Point, snapshot: Any) -> bool:
        core = point.loop.driver.core
        name = self.book.name
        return bool(
            snapshot.status == status(core)
            and snapshot.next_turn == tuple(name(n) for n in core.next_turn)
            and snapshot.next_step == tuple(name(n) for n in core.next_step)
            and self.length in (None, snapshot.length)
        )

    def _promises(self, points: list[Point], reply: Settled) -> None:
        """L-IDLE-1, L-MNT-4  Whoever waits for idleness or for a job is told when there is none any more."""
        if self.waiting_idle and all(is_quiet(point.loop.driver) for point in points):
            raise explain.found(self, points, reply, "L-IDLE-1", "the agent is idle, and when-idle has not settled")
        working = any(at[0] == "maintenance" for point in points for at, _ in point.loop.driver.parked)
        if self.jobs and not working:
            raise explain.found(self, points, reply, "L-MNT-4", "no job runs, and its promise has not settled")

    def wait_for_idleness(self, key: tuple[int, int]) -> None:
        """L-IDLE-2  Somebody waits until there is no activity; that may be so already."""
        self.waiting_idle[key] = _may_rest(self.points)

    def idle(self, reply: Fulfilled | Rejected) -> None:
        """L-IDLE-1  `when-idle` settles: the agent is idle, or may have been since; it never rejects."""
        key = (reply.id, reply.op)
        closed = self.closure()
        rested = self.waiting_idle.pop(key, True)
        if isinstance(reply, Rejected):
            raise explain.found(self, closed, reply, "L-IDLE-1", "when-idle never rejects")
        if not rested and not _may_rest(closed):
            raise explain.found(self, closed, reply, "L-IDLE-1", "when-idle has settled, and the agent is busy")

    def worked(self, reply: Fulfilled | Rejected) -> None:
        """L-MNT-2, LR-197  The promise of a job tells how the job came out."""
        self.jobs.discard((reply.id, reply.op))
        closed = self.closure()
        fitting = ("done",) if isinstance(reply, Fulfilled) else ("throws", "refused")
        after = []
        for point in closed:
            told = next((how for how in fitting if how in point.facts.worked), None)
            if told is not None:
                facts = point.facts._replace(worked=without(point.facts.worked, told))
                after.append(point._replace(facts=facts))
        if not after:
            what = "fulfilled" if isinstance(reply, Fulfilled) else "rejected"
            raise explain.found(self, closed, reply, "L-MNT-2", f"the promise of a job may not be {what} here")
        self.points = distinct(after)


def _may_rest(points: Iterable[Point]) -> bool:
    return any(is_quiet(point.loop.driver) for point in points)


def _is_released(point: Point, place: Place) -> bool:
    """Whoever stands at this gate has been told already that it may go on."""
    return any(one[0] == place for one in point.released) or any(block.release == place for block in point.blocks)
