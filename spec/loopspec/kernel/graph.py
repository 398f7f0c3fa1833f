"""The complete labelled graph of a system, as a value.

`explore(..., keep_edges=True)` makes one. It is kept in flat arrays, since a graph of a million states with
lists of tuples would not fit: the moves of state `i` are the positions `first[i] .. first[i + 1]` of
`edge_labels` and `edge_targets`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from loopspec.kernel.system import Label, N


@dataclass(frozen=True, eq=False)
class Graph(Generic[N]):
    """States, labelled moves and first states. States and labels are named by their positions.

    `complete` tells whether the graph holds every reachable state with every move of it.
    """

    states: Sequence[N]
    initial: Sequence[int]
    labels: Sequence[Label]
    first: Sequence[int]
    edge_labels: Sequence[int]
    edge_targets: Sequence[int]
    complete: bool = True

    def moves(self, index: int) -> Iterator[tuple[int, int]]:
        """Yield the moves of `states[index]` as pairs (position of the label, position of the target)."""
        for edge in range(self.first[index], self.first[index + 1]):
            yield self.edge_labels[edge], self.edge_targets[edge]

    def edges(self) -> Iterator[tuple[N, Label, N]]:
        """Yield every move as (source, label, target)."""
        for index, source in enumerate(self.states):
            for label, target in self.moves(index):
                yield source, self.labels[label], self.states[target]

    @property
    def edge_count(self) -> int:
        """Return the number of moves, repeated ones included."""
        return len(self.edge_targets)


def graph_of(
    initial: Iterable[N],
    edges: Iterable[tuple[N, Label, N]],
    *,
    states: Iterable[N] = (),
    complete: bool = True,
) -> Graph[N]:
    """Build a graph from its first states and its moves, in any order; `states` adds states without moves.

    Made for graphs that come from elsewhere, such as the dump of another model checker.
    """
    index: dict[N, int] = {}
    firsts = [index.setdefault(node, len(index)) for node in initial]
    for node in states:
        index.setdefault(node, len(index))
    table: dict[Label, int] = {}
    moves: list[tuple[int, int, int]] = []
    for source, label, target in edges:
        begin = index.setdefault(source, len(index))
        end = index.setdefault(target, len(index))
        moves.append((begin, table.setdefault(label, len(table)), end))
    moves.sort(key=lambda move: move[0])
    first = array("q", [0] * (len(index) + 1))
    for begin, _, _ in moves:
        first[begin + 1] += 1
    for position in range(len(index)):
        first[position + 1] += first[position]
    return Graph(
        states=tuple(index),
        initial=tuple(dict.fromkeys(firsts)),
        labels=tuple(table),
        first=first,
        edge_labels=array("i", [label for _, label, _ in moves]),
        edge_targets=array("i", [end for _, _, end in moves]),
        complete=complete,
    )
