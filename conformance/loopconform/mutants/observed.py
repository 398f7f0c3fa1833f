"""Faults that the protocol cannot show: graphs compared as far as it leads, and as far as it sees.

A conformance case drives a loop through gates and operations, and sees records, events, gates, returns and promises.
Here a machine is explored in the surroundings that the protocol can make, and every label that no adapter could report
is taken out of the graph. What is left of the law's graph and of the graph with a fault are compared as a suite would
tell them apart: after every sequence of visible labels the same ones must be possible next, and wherever nothing moves
by itself the same things must be readable. Such a fault is *unobservable*, at the bounds named and no further.

What the surroundings can do, and what is visible, is said in `surroundings`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

from loopconform.mutants.differences import Ear
from loopconform.mutants.patch import Fault, Switch
from loopconform.mutants.surroundings import Bound, Seen, bounds

LIMIT = 60_000
"""Nodes of one graph, and pairs of one comparison; beyond it nothing is claimed."""


# -- graphs as far as they can be seen ---------------------------------------------------------------------------


class Graph(NamedTuple):
    """Where it starts; the visible moves of each node, closed over those that nobody sees; and what a node reads."""

    start: frozenset[Any]
    moves: dict[Any, list[tuple[Seen, Any]]]
    silent: dict[Any, list[Any]]
    reads: Callable[[Any], Hashable]

    def closed(self, nodes: Iterable[Any]) -> frozenset[Any]:
        """These nodes, and where they may have gone unseen."""
        found = set(nodes)
        queue = deque(found)
        while queue:
            for after in self.silent[queue.popleft()]:
                if after not in found:
                    found.add(after)
                    queue.append(after)
        return frozenset(found)

    def shown(self, nodes: frozenset[Any]) -> frozenset[Hashable]:
        """What can be read where nothing moves by itself."""
        return frozenset(self.reads(node) for node in nodes if self._rests(node))

    def _rests(self, node: Any) -> bool:
        return not self.silent[node] and not node.config.stack and not node.config.waiting

    def after(self, nodes: frozenset[Any]) -> dict[Seen, frozenset[Any]]:
        """The visible labels that are possible here, each with the nodes behind it."""
        found: dict[Seen, set[Any]] = {}
        for node in nodes:
            for label, then in self.moves[node]:
                found.setdefault(label, set()).add(then)
        return {label: self.closed(then) for label, then in found.items()}


class TooLargeError(RuntimeError):
    """A graph or a comparison is beyond the limit: nothing is claimed."""


def graph(bound: Bound) -> Graph:
    """Explore a system completely. Raises `TooLargeError`."""
    system = bound.system()
    start = list(system.initial())
    moves: dict[Any, list[tuple[Seen, Any]]] = {}
    silent: dict[Any, list[Any]] = {}
    queue = deque(start)
    seen = set(start)
    while queue:
        node = queue.popleft()
        moves[node], silent[node] = [], []
        for label, after in system.moves(node):
            shown = bound.seen(node, label)
            if shown is None:
                silent[node].append(after)
            else:
                moves[node].append((shown, after))
            if after not in seen:
                seen.add(after)
                queue.append(after)
                if len(seen) > LIMIT:
                    raise TooLargeError(bound.name)
    return Graph(frozenset(start), moves, silent, bound.reads)


def difference(sound: Graph, faulty: Graph) -> tuple[Seen, ...] | None:
    """The shortest sequence of visible labels behind which the two can be told apart; `None` when there is none."""
    first = sound.closed(sound.start), faulty.closed(faulty.start)
    queue: deque[tuple[frozenset[Any], frozenset[Any], tuple[Seen, ...]]] = deque([(*first, ())])
    seen = {first}
    while queue:
        here, there, path = queue.popleft()
        ours, theirs = sound.after(here), faulty.after(there)
        if ours.keys() != theirs.keys():
            odd = min(ours.keys() ^ theirs.keys(), key=repr)
            return (*path, odd)
        if sound.shown(here) != faulty.shown(there):
            return (*path, "what can be read")
        for label, after in ours.items():
            pair = after, theirs[label]
            if pair not in seen:
                seen.add(pair)
                queue.append((*pair, (*path, label)))
                if len(seen) > LIMIT:
                    raise TooLargeError("the comparison")
    return None


class Finding(NamedTuple):
    """The bounds at which nobody can tell a fault, those at which it is not asked; and the first at which somebody can
    tell it, with what leads there."""

    equal: tuple[str, ...] = ()
    told: tuple[tuple[str, tuple[Seen, ...]], ...] = ()
    unasked: tuple[str, ...] = ()

    @property
    def is_unobservable(self) -> bool:
        """Asked, compared completely wherever it is, and told nowhere."""
        return bool(self.equal) and not self.told

    @property
    def is_out_of_reach(self) -> bool:
        """Asked nowhere in these surroundings: its graphs are the law's."""
        return bool(self.unasked) and not self.equal and not self.told

    def with_path(self, bound: str, path: tuple[Seen, ...] | None) -> Finding:
        """One bound more."""
        if path is None:
            return self._replace(equal=(*self.equal, bound))
        return self._replace(told=(*self.told, (bound, path)))


def findings(faults: Iterable[Fault], told: Callable[[str], None] = lambda line: None) -> dict[str, Finding]:
    """What can be seen of some faults, at the bounds of their machines.

    Each system is explored once with all of them asked beside it. Where a fault is not asked nothing is claimed; where
    it never answers otherwise its graph is the law's; where it does, the two graphs are compared as far as they can be
    seen.
    """
    faults = [fault for fault in faults if fault.module.rpartition(".")[2] in MACHINE_OF]
    found = {fault.id: Finding() for fault in faults}
    for bound in bounds():
        mine = [fault for fault in faults if bound.name.startswith(MACHINE_OF[fault.module.rpartition(".")[2]])]
        if not mine:
            continue
        ear = Ear(mine, most=1)
        with ear.listening(bound.name):
            sound = graph(bound)
        for fault in mine:
            one = found[fault.id]
            if one.told:
                continue  # once told is told
            if not ear.asked[fault.id]:
                found[fault.id] = one._replace(unasked=(*one.unasked, bound.name))
                continue
            path = _told_by(fault, bound, sound) if ear.differs[fault.id] else None
            found[fault.id] = one.with_path(bound.name, path)
        told(f"{bound.name}: {len(sound.moves):,} states")
    return found


def _told_by(fault: Fault, bound: Bound, sound: Graph) -> tuple[Seen, ...] | None:
    """What tells a fault at a bound: labels that lead there; `None` where nothing does."""
    switch = Switch()
    switch.to(fault)
    try:
        return difference(sound, graph(bound))
    except TooLargeError:
        return ("too large to compare",)
    except Exception as error:
        return (f"{type(error).__name__}: {error}",)
    finally:
        switch.to(None)


MACHINE_OF = {
    "driver": "driver",
    "attempt": "driver",
    "inbox": "driver",
    "scheduler": "scheduler",
    "creation": "creation",
    "registry": "creation",
    "teardown": "creation",
    "transaction": "creation",
}
"""The machine of each module."""
