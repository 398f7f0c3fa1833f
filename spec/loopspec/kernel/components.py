"""Strongly connected components of a part of a graph (Tarjan's algorithm, without recursion).

Two states are in one component when runs lead from each to the other; an infinite run ends up inside one
component for good. Without recursion, since the search goes as deep as the longest path, and that may be a
million states.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopspec.kernel.graph import Graph
from loopspec.kernel.system import N


def components(graph: Graph[N], members: Iterable[int]) -> list[list[int]]:
    """Return the strongly connected components of the subgraph of `members`, later ones leading to earlier
    ones.

    Every member is in exactly one component; a state alone is a component even when it has no move to itself
    (`has_cycle` tells).
    """
    first, targets = graph.first, graph.edge_targets
    inside = set(members)
    number: dict[int, int] = {}  # order of discovery
    low: dict[int, int] = {}  # the earliest state known to be reachable through open states
    stack: list[int] = []  # states whose component is not closed yet
    open_states: set[int] = set()
    result: list[list[int]] = []
    for root in sorted(inside):
        if root in number:
            continue
        number[root] = low[root] = len(number)
        stack.append(root)
        open_states.add(root)
        work = [(root, first[root])]
        while work:
            state, edge = work.pop()
            end = first[state + 1]
            while edge < end:
                target = targets[edge]
                edge += 1
                if target not in inside:
                    continue
                if target not in number:
                    work.append((state, edge))
                    number[target] = low[target] = len(number)
                    stack.append(target)
                    open_states.add(target)
                    work.append((target, first[target]))
                    break
                if target in open_states:
                    low[state] = min(low[state], number[target])
            else:
                if low[state] == number[state]:
                    component = []
                    while True:
                        member = stack.pop()
                        open_states.remove(member)
                        component.append(member)
                        if member == state:
                            break
                    result.append(component)
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[state])
    return result


def has_cycle(graph: Graph[N], component: list[int]) -> bool:
    """Return whether a run can stay in `component` forever: several states, or one with a move to itself."""
    if len(component) > 1:
        return True
    (state,) = component
    return any(target == state for _, target in graph.moves(state))
