"""Single runs: random ones, and a small set of runs that visits every kind of move.

Random programs are weak: a fault that exhaustive search meets after ten moves may show in two of four hundred
random runs. So programs for other implementations are derived from the edges of the graph (`edge_cover`), and
random walks only add noise around them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
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
    covered: dict[int, None] = {}
    paths: list[Path[N]] = []
    while True:
        leg = classes.first_missing(covered)
        if not leg:
            return Cover(tuple(paths), tuple(classes.names[number] for number in covered))
        edges: list[int] = []
        while leg:
            edges.extend(leg)
            covered.update(dict.fromkeys(classes.numbers[edge] for edge in leg))
            room = None if max_length is None else max_length - len(edges)
            leg = classes.nearest(graph.edge_targets[edges[-1]], covered, room)
        # The source of an edge is the state whose range of edges it lies in.
        start = graph.states[bisect_right(graph.first, edges[0]) - 1]
        steps = tuple((graph.labels[graph.edge_labels[edge]], graph.states[graph.edge_targets[edge]]) for edge in edges)
        paths.append(Path(start, steps))


class _Classes(Generic[N]):
    """The class of every move, and the way to the nearest move of a class that is still missing."""

    def __init__(self, graph: Graph[N], class_of: Callable[[N, Label], Hashable]) -> None:
        self.graph = graph
        # Asked once per move, in the order of the edges of the graph: the searches look at each move many times.
        numbers: dict[Hashable, int] = {}
        self.numbers = array("i")
        for source, state in enumerate(graph.states):
            for label, _ in graph.moves(source):
                self.numbers.append(numbers.setdefault(class_of(state, graph.labels[label]), len(numbers)))
        self.names = tuple(numbers)
        # The tree of shortest runs from the first states. Classes only ever get covered, so the states in order of
        # distance need to be looked through once, not once per run.
        self.tree: dict[int, tuple[int, int] | None] = dict.fromkeys(graph.initial)
        self.order = list(self.tree)
        for here in self.order:  # grows while it is read
            for edge in range(graph.first[here], graph.first[here + 1]):
                target = graph.edge_targets[edge]
                if target not in self.tree:
                    self.tree[target] = (edge, here)
                    self.order.append(target)
        self.looked_through = 0
        # States from which nothing new can be reached any more. Classes only ever get covered, so this
        # stays true, and each state is given up once instead of being searched again for every run.
        self.spent: set[int] = set()

    def first_missing(self, covered: dict[int, None]) -> list[int]:
        """Return the edges of the shortest run from a first state to a missing class, or nothing."""
        while self.looked_through < len(self.order):
            here = self.order[self.looked_through]
            for edge in range(self.graph.first[here], self.graph.first[here + 1]):
                if self.numbers[edge] not in covered:
                    return [*_back(self.tree, here), edge]
            self.looked_through += 1
        return []

    def nearest(self, start: int, covered: dict[int, None], room: int | None) -> list[int]:
        """Return the edges of the shortest run of at most `room` moves to a missing class, or nothing."""
        first, targets, numbers = self.graph.first, self.graph.edge_targets, self.numbers
        # state -> the edge that it was reached by and the state before; None for the start
        parents: dict[int, tuple[int, int] | None] = {start: None}
        queue = deque([(start, 1)])
        cut = False
        while queue:
            here, length = queue.popleft()
            if here in self.spent:
                continue
            if room is not None and length > room:
                cut = True
                continue
            for edge in range(first[here], first[here + 1]):
                if numbers[edge] not in covered:
                    return [*_back(parents, here), edge]
                target = targets[edge]
                if target not in parents:
                    parents[target] = (edge, here)
                    queue.append((target, length + 1))
        if not cut:
            self.spent.update(parents)
        return []


def _back(parents: dict[int, tuple[int, int] | None], state: int) -> list[int]:
    run = []
    before = parents[state]
    while before is not None:
        edge, state = before
        run.append(edge)
        before = parents[state]
    return run[::-1]
