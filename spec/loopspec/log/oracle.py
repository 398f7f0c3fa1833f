"""The loop machines as a judge of recorded logs: which configurations are consistent with the rows so far?

A log shows the records and nothing else. What the live events, await points, signals and callers did between two
records is unknown, so the oracle keeps the *set* of all configurations that some environment can have brought about.
A row maps a set to the set after it: all silent moves first, then every move that writes exactly this record. An empty
set means that no environment explains the log.

The environment (`loopspec.log.environment`) may call any operation wherever listeners run or nobody does, to a depth
of `DEPTH` calls within calls, and may give any answer to any await point.

A point (`loopspec.log.points`) is one explanation: the driver's configuration, the tool batch of the open step if there
is one (`loopspec.log.batches`), and what the explanation takes for granted although no record shows it: next-turn
messages that came *without* a wake, and a cancel that left no trace. A batch of a pre-step verdict is never guessed: it
is one message more for every row that comes (`longer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from loopspec import driver, scheduler
from loopspec.attempt import aborted
from loopspec.driver import Driver
from loopspec.inbox import Lists
from loopspec.kernel.machine import Config, Effect, Machine, log_is_locked, may_call, unbegun
from loopspec.log import batches
from loopspec.log.environment import answers, brought_in, quiet_operations, writing_operations
from loopspec.log.matching import OUTCOMES, matches
from loopspec.log.observation import FOREIGN, Observation
from loopspec.log.points import Point, folded, least, longer, trimmed
from loopspec.profile import Law

DEPTHS = (2, 3, 5)
"""Activations on the stack up to which the environment calls: the driver's own and a listener's call, and so on.

What is explained with few is explained with more, so the deeper searches are only made where a shallow one refuses."""
DEPTH = DEPTHS[0]
POINT_LIMIT = 20_000
"""Configurations looked at for one row; beyond it the row is undecided."""


class Undecided(Exception):
    """A bound was hit: nothing can be said about this row. The text says which bound."""


class Offer(NamedTuple):
    """A record that could come next: the effect, the point after it, and the rule that writes it."""

    record: Effect
    point: Point
    rule: str


class Oracle:
    """The moves of one law. `machine` is the driver's; a test or an explanation may give a changed one."""

    def __init__(self, law: Law, machine: Machine[Driver] = driver.MACHINE, depth: int = DEPTH) -> None:
        self.law = law
        self.machine = machine
        self.depth = depth

    def first(self, lists: Lists = Lists()) -> Point:  # noqa: B008
        """The driver of a session that begins or is taken up again, with what is pending (L-PH-6, L-IN-16)."""
        return Point(driver.initial(self.law, 0, lists))

    def successors(self, points: Iterable[Point], seen: Observation) -> frozenset[Point]:
        """The points after the row. Raises `Undecided`."""
        found: list[Point] = []
        foreign = seen[0] == FOREIGN or seen[0] == "user/message"
        todo = list(points)
        visited = set(todo)
        while todo:
            point = todo.pop()
            if foreign and _is_open(point):
                found.append(folded(point))
                if seen[0] == FOREIGN:
                    continue  # whatever may follow silently may still follow behind the row
            for move in self.moves(point, seen):
                if isinstance(move, Offer):
                    # A send that still waits has been guessed for this very row: then another record is not it.
                    guessed = any(one[0] == "send" for one in move.point.config.waiting)
                    if not guessed and self.accepts(move, seen):
                        found += self.after(move, seen)
                    continue
                move = trimmed(move)
                if move not in visited:
                    visited.add(move)
                    todo.append(move)
            if len(visited) > POINT_LIMIT:
                raise Undecided(f"more than {POINT_LIMIT} configurations to follow")
        return least(found)

    def accepts(self, offer: Offer, seen: Observation) -> bool:
        """Is the record that is offered the row at hand?"""
        record = offer.record
        if record[0] in ("tool/call", "tool/result"):
            return record[:2] == seen[:2] and (record[0] == "tool/call" or seen[2] in OUTCOMES[record[2]])
        return matches(record, offer.point.config.stack[-1].frame, seen)

    def after(self, offer: Offer, seen: Observation) -> Iterator[Point]:
        """The points that an accepted row leads to."""
        point = offer.point
        if seen[0] == "assistant/message" and seen[2]:
            point = point._replace(batch=seen[2])
        if seen[0] == "turn/end" and seen[1] == "aborted":
            point = point._replace(unseen=False)
        if seen[0] in ("user/message", "system/message") and offer.record[0] == seen[0]:
            yield folded(longer(point))
        yield folded(point, seen)

    def moves(self, point: Point, seen: Observation) -> Iterator[Point | Offer]:
        """Everything that can happen next: silent moves as points, records as offers."""
        config, batch, silent, unseen = point
        core, stack, parked, waiting = config
        beside = batches.leaves_room(batch)
        busy = not beside and batches.is_publishing(batch) and core.law.observer_operations_wait
        if (beside or busy) and may_call(config) and self._is_shallow(config):
            for operation in quiet_operations(core):
                hidden = unseen or operation[0] == "cancel"
                yield Point(self.machine.call(config, operation, busy), batch, silent, hidden)
            if seen[0] == "splice":
                yield from self._written(point, seen, busy)
        if stack or waiting:
            yield self._stepped(point)
        elif isinstance(batch, Config):
            # A call from outside touches nothing of a batch that goes on: before or after its silent moves is the same.
            if seen[0] != "splice" or not batches.leaves_room(batch):
                yield from self._batch_moves(point)
        else:
            for index, (where, _) in enumerate(parked):
                if where[0] == "tools" and batch:
                    begun = scheduler.initial(core.law, batch, aborted(core))
                    yield point._replace(batch=begun)
                    continue
                for answer in answers(core, where, seen[-1] if isinstance(seen[-1], str) else ""):
                    left: batches.Calls = 0 if where[0] == "tools" else batch
                    yield Point(self.machine.resume(config, answer, index), left, silent, unseen)

    def _is_shallow(self, config: Config[Driver]) -> bool:
        return len(config.stack) + len(unbegun(config)) < self.depth

    def _written(self, point: Point, seen: Observation, busy: bool) -> Iterator[Point | Offer]:
        """The row is the first record of a call from outside, made here or kept until the log is free.

        `busy`: the record that is being published is one of the tool batch.
        """
        config, batch, silent, unseen = point
        locked = busy or log_is_locked(config)
        for operation, quietly in writing_operations(config.core, seen):
            granted = (*silent, brought_in(operation)) if quietly else silent
            called = self.machine.call(config, operation, busy)
            if not locked:
                move = self._stepped(Point(called, batch, granted, unseen))
                if isinstance(move, Offer):
                    yield move
            elif called.waiting != config.waiting and not any(one[0] == "send" for one in config.waiting):
                yield Point(called, batch, granted, unseen)

    def _stepped(self, point: Point) -> Point | Offer:
        config, batch, silent, unseen = point
        verb, effect, after = self.machine.step(config)
        if verb == "append":
            return Offer(effect, Point(after, batch, silent, unseen), self._speaker(config))
        if verb == "notify" and effect[0] == "abort" and isinstance(batch, Config):
            batch = batches.told_abort(batch)
        return Point(after, batch, silent, unseen)

    def _speaker(self, config: Config[Driver]) -> str:
        """The label of the rule that writes the next record."""
        core, frame = config.core, config.stack[-1].frame
        outcome = self.machine.rules[frame[0]](core, *frame[1:])
        while outcome.verb == "go":
            core, frame = outcome.core, outcome.frame
            outcome = self.machine.rules[frame[0]](core, *frame[1:])
        return str(frame[0])

    # -- tools -------------------------------------------------------------------------------------------------

    def _batch_moves(self, point: Point) -> Iterator[Point | Offer]:
        config, batch, silent, unseen = point
        assert isinstance(batch, Config)
        for verb, effect, after in batches.moves(batch):
            if verb == "append":
                yield Offer(effect, point._replace(batch=after), batch.stack[-1].frame[0])
            elif verb == "leave":
                yield Point(self.machine.resume(config, effect[:1]), 0, silent, unseen)
            else:
                yield point._replace(batch=after)

    # -- the end -----------------------------------------------------------------------------------------------

    def at_rest(self, points: Iterable[Point]) -> frozenset[Point]:
        """The points without any activity that can be reached without another record. Raises `Undecided`."""
        todo = list(points)
        visited = set(todo)
        found = []
        seen: Observation = ("end", "")
        while todo:
            point = todo.pop()
            if driver.is_quiet(point.config) and not isinstance(point.batch, Config):
                found.append(folded(point))
                continue
            for move in self.moves(point, seen):
                if isinstance(move, Offer):
                    continue
                move = trimmed(move)
                if move not in visited:
                    visited.add(move)
                    todo.append(move)
            if len(visited) > POINT_LIMIT:
                raise Undecided(f"more than {POINT_LIMIT} configurations to follow")
        return least(found)

    def offers(self, points: Iterable[Point]) -> list[Offer]:
        """The records that the loop itself could write next, one of each kind and rule."""
        todo = list(points)
        visited = set(todo)
        found: dict[tuple[Any, ...], Offer] = {}
        seen: Observation = ("end", "")
        while todo and len(visited) <= POINT_LIMIT:
            for move in self.moves(todo.pop(), seen):
                if isinstance(move, Offer):
                    found.setdefault((move.record, move.rule), move)
                    continue
                move = trimmed(move)
                if move not in visited:
                    visited.add(move)
                    todo.append(move)
        return list(found.values())


def _is_open(point: Point) -> bool:
    """Somebody else than the loop can append here: listeners of a live event run, or nobody does."""
    config, batch = point.config, point.batch
    if not may_call(config) or log_is_locked(config):
        return False
    return batches.leaves_room(batch)
