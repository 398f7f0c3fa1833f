"""An oracle with a memory: in practice a row of a log costs one look into a table."""

from __future__ import annotations

from loopspec.inbox import Lists
from loopspec.log.observation import STEPS, TURNS, Observation
from loopspec.log.oracle import Oracle
from loopspec.log.points import Point

MEMO_LIMIT = 100_000
"""Pairs of set and observation that are remembered."""


class Automaton:
    """An oracle with a memory: sets of points are numbered, and every transition is worked out once.

    A memory, not a state: the answers are those of the oracle. It grows up to `MEMO_LIMIT` transitions.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.sets: list[frozenset[Point]] = []
        self._numbers: dict[frozenset[Point], int] = {}
        self.table: dict[tuple[int, Observation], int] = {}
        self.empty = self.number(frozenset())

    def number(self, points: frozenset[Point]) -> int:
        """The number of a set."""
        known = self._numbers.get(points)
        if known is None:
            known = self._numbers[points] = len(self.sets)
            self.sets.append(points)
        return known

    def start(self, steps: int = 0, turns: int = 0) -> int:
        """The set of a driver that begins with so many messages pending."""
        lists = Lists(tuple(range(STEPS, STEPS + steps)), tuple(range(TURNS, TURNS + turns)))
        return self.number(frozenset((self.oracle.first(lists),)))

    def next(self, state: int, seen: Observation) -> int:
        """The set after a row; `empty` when nothing explains it. Raises `Undecided`."""
        key = (state, seen)
        after = self.table.get(key)
        if after is None:
            after = self.number(self.oracle.successors(self.sets[state], seen))
            if len(self.table) < MEMO_LIMIT:
                self.table[key] = after
        return after
