"""*Leads to* under fairness, on complete graphs with cycles.

`p` leads to `q` when every fair run that is in a `p`-state is later (or at that moment) in a `q`-state. A
visited set says nothing about that; what breaks the claim is an infinite run, and in a finite graph that is
a *lasso*: a stem to a cycle which avoids `q` and which a fair scheduler may follow forever.

Fairness
    A label belongs to at most one class, its fairness key. A class is *enabled* in a state that has a move
    of the class, and *taken* by such a move; a move that leads back to its own state is a move like any
    other.

    * Weakly fair: a class that is enabled from some moment on without a break is taken again and again.
    * Strongly fair: a class that is enabled again and again is taken again and again.
    * A class without fairness, or a label without a class, promises nothing: the environment may just stop.

    So a run may also *end*, in any state in which no fair class is enabled; a state without any moves is
    one of them. Such an end before `q` breaks the claim just as a cycle does.

How it is decided
    The runs that owe a `q` pass through the states reachable from a `p`-state without meeting `q`. An
    infinite run among them settles in a strongly connected set of states and moves. In a component, a
    weakly fair class that is enabled everywhere and never taken inside rules out the whole component. A
    strongly fair class that is enabled somewhere and never taken inside rules out only the runs through
    those states: they are removed, and what is left is split into components again. A component that
    survives has a fair cycle through all of its states.

With budgets in the state every graph is acyclic: then the only way to break a claim is to end too early,
and a PASS means less. `vacuous` says so.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic

from loopspec.kernel.claims import Path, Verdict
from loopspec.kernel.components import components, has_cycle
from loopspec.kernel.graph import Graph
from loopspec.kernel.system import Label, N


@dataclass(frozen=True)
class LeadsTo(Generic[N]):
    """The claim that every fair run through a `p`-state gets to a `q`-state."""

    name: str
    sentence: str
    p: Callable[[N], bool]
    q: Callable[[N], bool]


@dataclass(frozen=True)
class Fairness:
    """What the scheduler promises. `key_of(label)` is the class of a label, None for no class."""

    key_of: Callable[[Label], Hashable | None] = lambda label: None
    weak: frozenset[Hashable] = frozenset()
    strong: frozenset[Hashable] = frozenset()


@dataclass(frozen=True)
class Lasso(Generic[N]):
    """A fair run that never gets to `q`.

    `stem` runs from a first state through a `p`-state to the cycle. `cycle` starts and ends in the end of
    the stem and is repeated forever; when it has no moves, the run ends there. `owed_since` is the position
    in `stem.nodes` of the state from which on `q` is owed.

    The stem is as short as that of any counterexample. The cycle is short, but not always the shortest
    (finding that one is as hard as the travelling salesman's problem).
    """

    stem: Path[N]
    cycle: Path[N]
    owed_since: int

    @property
    def ends(self) -> bool:
        """Return whether the run ends, instead of going round."""
        return len(self.cycle) == 0


@dataclass(frozen=True)
class LivenessResult(Generic[N]):
    """What became of one claim.

    `reason` says why it is UNDETERMINED. `vacuous` says what makes a PASS worth less than it looks: a graph
    without cycles, or no reachable `p`-state. `unmatched` are the declared fairness keys that no label has
    (a typing error, or a bound that is too small).
    """

    name: str
    sentence: str
    verdict: Verdict
    reason: str | None
    lasso: Lasso[N] | None
    acyclic: bool
    vacuous: str | None
    unmatched: frozenset[Hashable]


def check_leads_to(graph: Graph[N], claims: Iterable[LeadsTo[N]], fairness: Fairness) -> tuple[LivenessResult[N], ...]:
    """Decide every claim on a complete graph. On an incomplete one, all are UNDETERMINED."""
    claims = tuple(claims)
    if not graph.complete:
        reason = "The graph is incomplete: a run that leaves it may go anywhere."
        return tuple(
            LivenessResult(claim.name, claim.sentence, Verdict.UNDETERMINED, reason, None, False, None, frozenset())
            for claim in claims
        )
    view = _FairGraph(graph, fairness)
    acyclic = not any(has_cycle(graph, part) for part in components(graph, range(len(graph.states))))
    return tuple(_decide(view, claim, acyclic) for claim in claims)


class _FairGraph(Generic[N]):
    """A graph with the fairness class of every move worked out once."""

    def __init__(self, graph: Graph[N], fairness: Fairness) -> None:
        self.graph = graph
        declared = fairness.weak | fairness.strong
        keys = [fairness.key_of(label) for label in graph.labels]
        # The class of each label, None when nothing is promised for it.
        self.keys = [key if key in declared else None for key in keys]
        self.strong = fairness.strong
        self.unmatched = frozenset(declared - set(keys))
        # What is enabled is decided by the whole graph, also by moves that lead out of the part looked at.
        self.enabled: list[frozenset[Hashable]] = []
        shared: dict[frozenset[Hashable], frozenset[Hashable]] = {}
        for index in range(len(graph.states)):
            found = {self.keys[label] for label, _ in graph.moves(index)}
            found.discard(None)
            frozen = frozenset(found)
            self.enabled.append(shared.setdefault(frozen, frozen))

    def fair_parts(self, members: Iterable[int]) -> list[list[int]]:
        """Return the components of `members` in which a fair run can go round forever through all states."""
        found = []
        work = [list(members)]
        while work:
            for part in components(self.graph, work.pop()):
                if not has_cycle(self.graph, part):
                    continue
                taken = self._taken(set(part))
                everywhere = frozenset.intersection(*(self.enabled[index] for index in part)) - taken
                if everywhere:
                    # Weak: enabled all the time, never taken. Strong fairness promises at least as much.
                    continue
                starved = frozenset().union(*(self.enabled[index] for index in part)) & self.strong - taken
                if starved:
                    work.append([index for index in part if not self.enabled[index] & starved])
                else:
                    found.append(part)
        return found

    def _taken(self, inside: set[int]) -> frozenset[Hashable | None]:
        return frozenset(
            self.keys[label] for index in inside for label, target in self.graph.moves(index) if target in inside
        )


def _decide(view: _FairGraph[N], claim: LeadsTo[N], acyclic: bool) -> LivenessResult[N]:
    graph = view.graph
    met = [claim.q(node) for node in graph.states]
    asked = [claim.p(node) for node in graph.states]
    search = _Owing(graph, asked, met)
    owing = search.owing
    ends = {index for index in owing if not view.enabled[index]}
    parts = view.fair_parts(owing)
    part_of = {index: part for part in parts for index in part}
    goal = search.nearest(ends | part_of.keys())
    if goal is None:
        lasso = None
    else:
        stem, owed_since = search.stem(goal)
        cycle = Path(graph.states[goal])
        if goal not in ends:
            cycle = _fair_cycle(view, part_of[goal], goal)
        lasso = Lasso(stem, cycle, owed_since)
    vacuous = None
    if lasso is None and not any(asked):
        vacuous = "No reachable state satisfies p."
    elif lasso is None and acyclic:
        vacuous = "The graph has no cycle, so every run ends: only its ends were judged."
    verdict = Verdict.PASS if lasso is None else Verdict.FAIL
    return LivenessResult(claim.name, claim.sentence, verdict, None, lasso, acyclic, vacuous, view.unmatched)


class _Owing(Generic[N]):
    """Breadth-first search over (state, is a `q` owed?): the runs that must still get to `q`.

    Such a pair is the number `2 * state + owed`, so that parents fit into an array.
    """

    def __init__(self, graph: Graph[N], asked: list[bool], met: list[bool]) -> None:
        self.graph = graph
        unseen, self.root = -2, -1
        self.parents = array("q", [unseen]) * (2 * len(graph.states))
        self.parent_labels = array("i", [0]) * (2 * len(graph.states))
        queue: list[int] = []
        for index in graph.initial:
            pair = 2 * index + (asked[index] and not met[index])
            self.parents[pair] = self.root
            queue.append(pair)
        for here in queue:  # grows while it is read: in order of distance
            index, owed = divmod(here, 2)
            for label, target in graph.moves(index):
                pair = 2 * target + ((owed == 1 or asked[target]) and not met[target])
                if self.parents[pair] == unseen:
                    self.parents[pair] = here
                    self.parent_labels[pair] = label
                    queue.append(pair)
        self.owing = [pair // 2 for pair in queue if pair % 2]

    def nearest(self, goals: set[int]) -> int | None:
        """Return a state of `goals` that can be owing after the fewest moves, or None."""
        return next((index for index in self.owing if index in goals), None)

    def stem(self, goal: int) -> tuple[Path[N], int]:
        """Return the shortest run that arrives owing at `goal`, and the position since when it owes."""
        states, labels = self.graph.states, self.graph.labels
        steps: list[tuple[Label, N]] = []
        here = 2 * goal + 1
        owing_states, owed = 1, True
        while self.parents[here] != self.root:
            steps.append((labels[self.parent_labels[here]], states[here // 2]))
            here = self.parents[here]
            # The debt that is never paid began after the last state that did not owe.
            owed = owed and here % 2 == 1
            owing_states += owed
        return Path(states[here // 2], tuple(reversed(steps))), len(steps) + 1 - owing_states


def _fair_cycle(view: _FairGraph[N], part: list[int], start: int) -> Path[N]:
    """Return a fair cycle in `part` from `start`: always on to the nearest missing duty, then home.

    The duties: every fair class is taken, or (when it is weakly fair only) visited where it is not enabled; a
    strongly fair class counts only if it is enabled in a state of the part. Passing through the whole part
    keeps all these promises, and less may do; a class that the cycle never enables is none of its duties.
    """
    graph, inside = view.graph, set(part)
    walk: list[tuple[int, int]] = []  # (label, target) of every move so far
    here = start
    while True:
        visited = {start, *(target for _, target in walk)}
        taken = {view.keys[label] for label, _ in walk}
        duties = _duties(view, visited, taken)
        if walk and here == start and not duties:
            break
        goal = _move_for(view, duties) if duties else _home(start)
        leg = _shortest(graph, inside, here, goal)
        walk.extend(leg)
        here = walk[-1][1]
    steps = tuple((graph.labels[label], graph.states[target]) for label, target in walk)
    return Path(graph.states[start], steps)


def _duties(view: _FairGraph[N], visited: set[int], taken: set[Hashable | None]) -> frozenset[Hashable]:
    """Return the classes that a cycle through exactly these states and moves would treat unfairly."""
    everywhere = frozenset.intersection(*(view.enabled[index] for index in visited))
    somewhere = frozenset().union(*(view.enabled[index] for index in visited))
    return (everywhere | somewhere & view.strong) - taken


def _move_for(view: _FairGraph[N], duties: frozenset[Hashable]) -> Callable[[int, int], bool]:
    """Accept a move that settles one duty: it takes the class, or gets to where a weakly fair one is disabled."""

    def accept(label: int, target: int) -> bool:
        disabled = duties - view.strong - view.enabled[target]
        return view.keys[label] in duties or bool(disabled)

    return accept


def _home(start: int) -> Callable[[int, int], bool]:
    return lambda label, target: target == start


def _shortest(
    graph: Graph[N], inside: set[int], start: int, accept: Callable[[int, int], bool]
) -> list[tuple[int, int]]:
    """Return the shortest run inside, at least one move long, whose last move is accepted."""
    parents: dict[int, tuple[int, int]] = {}
    queue = deque([start])
    seen = {start}
    while queue:
        here = queue.popleft()
        for label, target in graph.moves(here):
            if target not in inside:
                continue
            if accept(label, target):
                leg = [(label, target)]
                while here != start:
                    source, name = parents[here]
                    leg.append((name, here))
                    here = source
                return leg[::-1]
            if target not in seen:
                seen.add(target)
                parents[target] = (here, label)
                queue.append(target)
    raise AssertionError("A fair component lacks a move that it was chosen for.")
