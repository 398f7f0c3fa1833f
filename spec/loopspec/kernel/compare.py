"""Where two graphs differ, told as the shortest run to the first state whose moves differ.

Equality of two graphs is settled by their digests. When those differ, a list of thousands of edges helps
nobody; what helps is the first place: a run that both graphs have, and then what either side can do there.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Generic

from loopspec.kernel.claims import Path
from loopspec.kernel.graph import Graph, label_keys, state_keys
from loopspec.kernel.system import Label, N


@dataclass(frozen=True)
class Difference(Generic[N]):
    """The first place where two graphs differ.

    `path` is the shortest run, in both graphs, to the state where they part; None when they do not even
    begin in the same states (then `left_only` and `right_only` hold those states, with an empty label), or
    when the difference lies in states that no run reaches. `left_enabled` and `right_enabled` are the
    labels possible in the end state of the path; `left_only` and `right_only` are the moves that the other
    side lacks.
    """

    sentence: str
    path: Path[N] | None
    left_enabled: tuple[Label, ...]
    right_enabled: tuple[Label, ...]
    left_only: tuple[tuple[Label, N], ...]
    right_only: tuple[tuple[Label, N], ...]


def difference(left: Graph[N], right: Graph[N]) -> Difference[N] | None:
    """Compare two graphs; return the first difference in breadth-first order, or None when they are equal.

    States and labels are compared by their canonical text, so `True` and `1` differ here.
    """
    left_keys, right_keys = state_keys(left), state_keys(right)
    left_labels, right_labels = label_keys(left), label_keys(right)
    position = {key: index for index, key in enumerate(right_keys)}

    begin_left = {left_keys[index]: index for index in left.initial}
    begin_right = {right_keys[index]: index for index in right.initial}
    if begin_left.keys() != begin_right.keys():
        return Difference(
            "The graphs do not begin in the same states.",
            None,
            (),
            (),
            tuple(("", left.states[index]) for key, index in begin_left.items() if key not in begin_right),
            tuple(("", right.states[index]) for key, index in begin_right.items() if key not in begin_left),
        )

    parents: dict[int, tuple[int, int] | None] = dict.fromkeys(left.initial)
    queue = deque(left.initial)
    while queue:
        here = queue.popleft()
        there = position[left_keys[here]]
        ours = _moves_by_key(left, here, left_keys, left_labels)
        theirs = _moves_by_key(right, there, right_keys, right_labels)
        if ours.keys() != theirs.keys():
            return Difference(
                "The same state has different moves.",
                _path(left, parents, here),
                _enabled(left, here),
                _enabled(right, there),
                tuple((left.labels[n], left.states[t]) for key, (n, t) in ours.items() if key not in theirs),
                tuple((right.labels[n], right.states[t]) for key, (n, t) in theirs.items() if key not in ours),
            )
        for label, target in left.moves(here):
            if target not in parents:
                parents[target] = (here, label)
                queue.append(target)
    return _unreachable_difference(left, right, left_keys, right_keys)


def _unreachable_difference(
    left: Graph[N], right: Graph[N], left_keys: list[bytes], right_keys: list[bytes]
) -> Difference[N] | None:
    """Compare what no run reaches; graphs made by a search have no such states."""
    ours, theirs = _edge_keys(left, left_keys), _edge_keys(right, right_keys)
    if set(left_keys) == set(right_keys) and ours == theirs:
        return None
    extra = set(left_keys) ^ set(right_keys)
    return Difference(
        "The graphs agree on everything a run can reach, but differ in states that no run reaches.",
        None,
        (),
        (),
        tuple(("", state) for state, key in zip(left.states, left_keys, strict=True) if key in extra),
        tuple(("", state) for state, key in zip(right.states, right_keys, strict=True) if key in extra),
    )


def _moves_by_key(
    graph: Graph[N], index: int, keys: list[bytes], labels: list[bytes]
) -> dict[tuple[bytes, bytes], tuple[int, int]]:
    return {(labels[label], keys[target]): (label, target) for label, target in graph.moves(index)}


def _edge_keys(graph: Graph[N], keys: list[bytes]) -> set[tuple[bytes, bytes, bytes]]:
    names = label_keys(graph)
    return {(keys[s], names[label], keys[t]) for s in range(len(keys)) for label, t in graph.moves(s)}


def _enabled(graph: Graph[N], index: int) -> tuple[Label, ...]:
    return tuple(dict.fromkeys(graph.labels[label] for label, _ in graph.moves(index)))


def _path(graph: Graph[N], parents: dict[int, tuple[int, int] | None], index: int) -> Path[N]:
    steps: list[tuple[Label, N]] = []
    parent = parents[index]
    while parent is not None:
        steps.append((graph.labels[parent[1]], graph.states[index]))
        index, parent = parent[0], parents[parent[0]]
    return Path(graph.states[index], tuple(reversed(steps)))
