"""Slow and obvious answers, to compare the kernel's fast ones with. Nothing here uses the kernel's algorithms."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from hypothesis import strategies as st

Moves = Mapping[int, Sequence[tuple[str, int]]]
LABELS = ("a", "b", "c")


def graphs(states: int, most: int | None = None) -> st.SearchStrategy[tuple[Moves, tuple[int, ...]]]:
    """Generate graphs of up to `states` numbered states, with labels a, b, c, and one or two first states."""
    numbers = st.integers(0, states - 1)
    edges = st.sets(st.tuples(numbers, st.sampled_from(LABELS), numbers), max_size=most or 3 * states)
    firsts = st.lists(numbers, min_size=1, max_size=2, unique=True)
    return st.tuples(edges.map(_table), firsts.map(tuple))


def pairs(
    states: int,
) -> st.SearchStrategy[tuple[tuple[Moves, tuple[int, ...]], tuple[Moves, tuple[int, ...]]]]:
    """Generate two graphs that differ in up to three edges, and at times in where they begin."""
    numbers = st.integers(0, states - 1)
    edge = st.tuples(numbers, st.sampled_from(LABELS), numbers)
    firsts = st.sampled_from([((0,), (0,)), ((0,), (0,)), ((0,), (0,)), ((0,), (1,)), ((0, 1), (1, 0)), ((0, 1), (0,))])
    return st.builds(
        lambda edges, changed, first: ((_table(edges), first[0]), (_table(edges ^ changed), first[1])),
        st.sets(edge, min_size=states, max_size=3 * states),
        st.sets(edge, max_size=3),
        firsts,
    )


def _table(edges: set[tuple[int, str, int]]) -> Moves:
    table: dict[int, list[tuple[str, int]]] = {}
    for source, label, target in sorted(edges):
        table.setdefault(source, []).append((label, target))
    return table


def distances(moves: Moves, initial: Sequence[int]) -> dict[int, int]:
    """Return the length of the shortest run to every reachable state, by relaxing all edges until nothing changes."""
    found = dict.fromkeys(initial, 0)
    changed = True
    while changed:
        changed = False
        for source, options in moves.items():
            for _, target in options:
                if source in found and found.get(target, len(moves) + 99) > found[source] + 1:
                    found[target] = found[source] + 1
                    changed = True
    return found


Edge = tuple[int, str, int]


def edges_of(moves: Moves) -> list[Edge]:
    """Return all edges of a table."""
    return [(source, label, target) for source, options in moves.items() for label, target in options]


def fair_cycle_sets(
    moves: Moves,
    avoid: set[int],
    key_of: Callable[[str], Hashable | None],
    weak: set[Hashable],
    strong: set[Hashable],
) -> Iterator[set[int]]:
    """Yield the states of every fair cycle that avoids `avoid`.

    An infinite run uses some set of edges infinitely often. That set is connected, every one of its states
    has a way back, and it is fair or not; here all subsets of the edges are tried.
    """
    usable = [edge for edge in edges_of(moves) if edge[0] not in avoid and edge[2] not in avoid]
    for size in range(1, len(usable) + 1):
        for chosen in itertools.combinations(usable, size):
            states = {edge[0] for edge in chosen} | {edge[2] for edge in chosen}
            if _goes_round(chosen, states) and _is_fair(moves, chosen, states, key_of, weak, strong):
                yield states


def _goes_round(chosen: Sequence[Edge], states: set[int]) -> bool:
    return all(_closure(chosen, start) == states for start in states)


def _closure(chosen: Sequence[Edge], start: int) -> set[int]:
    found: set[int] = set()
    new = {target for source, _, target in chosen if source == start}
    while new - found:
        found |= new
        new = {target for source, _, target in chosen if source in found}
    return found


def _is_fair(
    moves: Moves,
    chosen: Sequence[Edge],
    states: set[int],
    key_of: Callable[[str], Hashable | None],
    weak: set[Hashable],
    strong: set[Hashable],
) -> bool:
    taken = {key_of(label) for _, label, _ in chosen}
    enabled = {state: {key_of(label) for label, _ in moves.get(state, ())} for state in states}
    for key in weak - taken:
        if all(key in enabled[state] for state in states):
            return False
    return not any(key in enabled[state] for key in strong - taken for state in states)


def shortest_stem(
    moves: Moves,
    initial: Sequence[int],
    p: set[int],
    q: set[int],
    key_of: Callable[[str], Hashable | None],
    weak: set[Hashable],
    strong: set[Hashable],
) -> int | None:
    """Return the length of the shortest stem of a fair run that owes `q` forever, or None when there is no such run."""
    trap: set[int] = set()
    for states in fair_cycle_sets(moves, q, key_of, weak, strong):
        trap |= states
    fair = weak | strong
    everything = set(initial) | {end for source, _, target in edges_of(moves) for end in (source, target)}
    for state in everything - q:
        if not any(key_of(label) in fair for label, _ in moves.get(state, ())):
            trap.add(state)
    # Distances over (state, owed), again by relaxation.
    best = {(state, state in p and state not in q): 0 for state in initial}
    changed = True
    while changed:
        changed = False
        for source, _, target in edges_of(moves):
            for owed in (False, True):
                if (source, owed) not in best:
                    continue
                pair = (target, (owed or target in p) and target not in q)
                if best.get(pair, 10**6) > best[source, owed] + 1:
                    best[pair] = best[source, owed] + 1
                    changed = True
    lengths = [best[state, True] for state in trap if (state, True) in best]
    return min(lengths, default=None)
