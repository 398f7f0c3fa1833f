"""Single runs: random ones, and a small set of runs that visits every kind of move.

Random programs are weak: a fault that exhaustive search meets after ten moves may show in two of four hundred
random runs. So programs for other implementations are derived from the edges of the graph (`edge_cover`), and
random walks only add noise around them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic

from loopspec.kernel.claims import Path
from loopspec.kernel.graph import Graph
from loopspec.kernel.system import Label, N, System


def walk(system: System[N], choose: Callable[[int], int], length: int) -> Path[N]:
    """Follow one run of at most `length` moves; it is shorter only when it comes to a state without moves.

    `choose(n)` picks one of `n` possibilities as a number from 0 to n - 1. It is asked even when `n` is 1,
    so that a recorded list of choices replays. Raises ValueError when it answers anything else.
    """
    starts = tuple(system.initial())
    start = starts[_chosen(choose, len(starts))]
    node, steps = start, []
    for _ in range(length):
        moves = tuple(system.moves(node))
        if not moves:
            break
        label, node = moves[_chosen(choose, len(moves))]
        steps.append((label, node))
    return Path(start, tuple(steps))


def _chosen(choose: Callable[[int], int], count: int) -> int:
    answer = choose(count)
    if not 0 <= answer < count:
        raise ValueError(f"Asked to choose one of {count} possibilities, got {answer}; expected 0 to {count - 1}.")
    return answer


@dataclass(frozen=True)
class Cover(Generic[N]):
    """Runs that together make a move of every class, and the classes in the order in which they are covered."""

    paths: tuple[Path[N], ...]
    classes: tuple[Hashable, ...]


def edge_cover(
    graph: Graph[N],
    class_of: Callable[[N, Label], Hashable],
    max_length: int | None = None,
) -> Cover[N]:
    """Return a small set of runs from first states that covers every reachable class of moves.

    `class_of(source, label)` is the class of a move. Greedy: each run goes on to the nearest move of a
    class not covered yet, until there is none ahead, or until it would get longer than `max_length`. A
    class that is further away than `max_length` gets a run of its own, as long as it takes. Small, but not
    always the smallest.
    """
    classes = _Classes(graph, class_of)
    covered: dict[Hashable, None] = {}
    paths: list[Path[N]] = []
    while True:
        leg = classes.nearest(list(graph.initial), covered, None)
        if not leg:
            return Cover(tuple(paths), tuple(covered))
        moves: list[tuple[int, int, int]] = []
        while leg:
            moves.extend(leg)
            for source, label, _ in leg:
                covered[classes.of(source, label)] = None
            room = None if max_length is None else max_length - len(moves)
            leg = classes.nearest([moves[-1][2]], covered, room)
        steps = tuple((graph.labels[label], graph.states[target]) for _, label, target in moves)
        paths.append(Path(graph.states[moves[0][0]], steps))


class _Classes(Generic[N]):
    """The class of every move, and the way to the nearest move of a class that is still missing."""

    def __init__(self, graph: Graph[N], class_of: Callable[[N, Label], Hashable]) -> None:
        self.graph = graph
        self.class_of = class_of
        # States from which nothing new can be reached any more. Classes only ever get covered, so this
        # stays true, and each state is given up once instead of being searched again for every run.
        self.spent: set[int] = set()

    def of(self, source: int, label: int) -> Hashable:
        """Return the class of a move."""
        return self.class_of(self.graph.states[source], self.graph.labels[label])

    def nearest(self, starts: list[int], covered: dict[Hashable, None], room: int | None) -> list[tuple[int, int, int]]:
        """Return the shortest run of at most `room` moves that ends with a move of a missing class, or nothing."""
        parents: dict[int, tuple[int, int, int] | None] = dict.fromkeys(starts)
        queue = deque((start, 1) for start in starts)
        cut = False
        while queue:
            here, length = queue.popleft()
            if here in self.spent:
                continue
            if room is not None and length > room:
                cut = True
                continue
            for label, target in self.graph.moves(here):
                move = (here, label, target)
                if self.of(here, label) not in covered:
                    return _back(parents, move)
                if target not in parents:
                    parents[target] = move
                    queue.append((target, length + 1))
        if not cut:
            self.spent.update(parents)
        return []


def _back(parents: dict[int, tuple[int, int, int] | None], last: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    run = [last]
    before = parents[last[0]]
    while before is not None:
        run.append(before)
        before = parents[before[0]]
    return run[::-1]
