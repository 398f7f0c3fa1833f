"""Whether two statements of one machine have the same graph.

Their controls (frames here, program counters there) are written independently, so states are not compared by their
texts. The two graphs are walked in step: first states are paired, then what the same label leads to. Every pair must
agree on the mapped fields and on the labels that are possible. When the walk ends without a difference, the pairs are a
*bisimulation* that contains every reachable state of both sides. It is a **bijection** when no state was met in two
pairs; then the graphs are equal up to the names of control states. Otherwise one side tells states apart that the other
does not: the languages are equal, the graphs are not; the two quotients by bisimilarity are compared as well.

A label with several targets is a choice of the environment; its targets are told apart by their mapped fields.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loopconform.tla.dump import Moves, NotComparable
from loopconform.tla.subjects import Subject
from loopconform.tla.values import label_of, text
from loopspec.kernel.graph import Graph

Pair = tuple[int, int]


def moves_of(graph: Graph[object], subject: Subject) -> Moves:
    """The graph of the Python machine in the form that is compared."""
    names = [text(label_of(label)) for label in graph.labels]
    found = Moves(tuple(field.variable for field in subject.fields), tuple(graph.initial))
    known: dict[object, str] = {}
    edges = 0
    for at, state in enumerate(graph.states):
        core = []
        for field in subject.fields:
            value = field.read(state)
            # `True` and `1` are equal to Python, so the memo is asked for one field at a time.
            # `True` and `1` are equal to Python, also inside of a tuple: only plain values are remembered.
            plain = isinstance(value, str | int)
            key = (type(value), value) if plain else None
            mapped = known.get(key) if plain else None
            if mapped is None:
                mapped = text(value)
                if plain:
                    known[key] = mapped
            core.append(mapped)
        found.core.append(tuple(core))
        here: dict[str, set[int]] = {}
        for label, target in graph.moves(at):
            here.setdefault(names[label], set()).add(target)
        found.moves.append({name: tuple(sorted(targets)) for name, targets in here.items()})
        edges += sum(map(len, here.values()))
    found.edges = edges
    found.labels = len(set(names))
    return found


@dataclass(frozen=True)
class Apart:
    """The first place where the two sides differ: a shortest run that both have, and what differs after it.

    `fields` are (field, left value, right value); `left_only` and `right_only` labels that one side lacks.
    """

    sentence: str
    path: tuple[str, ...]
    left: int
    right: int
    fields: tuple[tuple[str, str, str], ...] = ()
    left_only: tuple[str, ...] = ()
    right_only: tuple[str, ...] = ()
    both: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """What came of it.

    `apart` is the first difference, if there is one. `split` names the first state of one side that was paired with two
    of the other, as (side, state, the two others, the two runs); `classes` are the sizes of the two quotients then.
    """

    left: Moves
    right: Moves
    pairs: int
    apart: Apart | None
    split: tuple[str, int, Pair, tuple[str, ...], tuple[str, ...]] | None = None
    classes: Pair | None = None

    @property
    def equal(self) -> bool:
        """The graphs are equal: state by state, or (when `split`) as quotients."""
        return self.apart is None and (self.classes is None or self.classes[0] == self.classes[1])

    @property
    def one_to_one(self) -> bool:
        """State by state."""
        return self.apart is None and self.split is None


def compare(left: Moves, right: Moves) -> Comparison:
    """Walk both graphs in step. Raises `NotComparable` when one label leads to states that look alike."""
    walk = _Walk(left, right)
    apart = walk.run()
    pairs = len(walk.parents)
    if apart is not None:
        return Comparison(left, right, pairs, apart)
    split = walk.first_split()
    if split is None:
        if pairs != left.states or pairs != right.states:
            raise NotComparable(f"{pairs} pairs for {left.states} and {right.states} states: some were not reached")
        return Comparison(left, right, pairs, None)
    return Comparison(left, right, pairs, None, split, (quotient(left), quotient(right)))


class _Walk:
    def __init__(self, left: Moves, right: Moves) -> None:
        self.left = left
        self.right = right
        self.parents: dict[Pair, tuple[Pair, str] | None] = {}
        self.queue: deque[Pair] = deque()

    def run(self) -> Apart | None:
        left, right = self.left, self.right
        firsts = self._matched(left.initial, right.initial)
        if firsts is None:
            here, there = (sorted(side.core[at] for at in side.initial) for side in (left, right))
            fields = tuple(
                (name, mine, theirs)
                for ours, others in zip(here, there, strict=False)
                for name, mine, theirs in zip(left.fields, ours, others, strict=True)
                if mine != theirs
            )
            sentence = "They do not begin in the same states."
            return Apart(sentence, (), left.initial[0], right.initial[0], fields)
        for pair in firsts:
            self.parents[pair] = None
            self.queue.append(pair)
        while self.queue:
            pair = self.queue.popleft()
            apart = self._expand(pair)
            if apart is not None:
                return apart
        return None

    def _expand(self, pair: Pair) -> Apart | None:
        mine, theirs = self.left.moves[pair[0]], self.right.moves[pair[1]]
        if self.left.core[pair[0]] != self.right.core[pair[1]]:
            return self._apart(pair, "The same run leads to states whose mapped fields differ.")
        if mine.keys() != theirs.keys():
            return self._apart(pair, "After the same run different moves are possible.")
        for label, targets in mine.items():
            others = theirs[label]
            if len(targets) == 1 and len(others) == 1:
                matched: list[Pair] | None = [(targets[0], others[0])]
            else:
                matched = self._matched(targets, others)
            if matched is None:
                return self._apart(pair, f"After the same run {label} leads to other states.", label)
            for found in matched:
                if found not in self.parents:
                    self.parents[found] = (pair, label)
                    self.queue.append(found)
        return None

    def _matched(self, mine: Sequence[int], theirs: Sequence[int]) -> list[Pair] | None:
        """Pairs of the states that look alike, or None when they do not look alike."""
        ours = {self.left.core[at]: at for at in mine}
        others = {self.right.core[at]: at for at in theirs}
        if len(ours) != len(mine) or len(others) != len(theirs):
            if set(ours) != set(others):
                return None
            raise NotComparable("one label leads to several states that the mapped fields do not tell apart")
        if ours.keys() != others.keys():
            return None
        return [(at, others[core]) for core, at in ours.items()]

    def _apart(self, pair: Pair, sentence: str, label: str = "") -> Apart:
        left, right = self.left, self.right
        mine, theirs = left.moves[pair[0]], right.moves[pair[1]]
        fields = tuple(
            (name, one, other)
            for name, one, other in zip(left.fields, left.core[pair[0]], right.core[pair[1]], strict=True)
            if one != other
        )
        if label:
            ours = tuple((f"target {text_of_core(left, at)}", "yes", "") for at in mine[label])
            others = tuple((f"target {text_of_core(right, at)}", "", "yes") for at in theirs[label])
            fields = ours + others
        return Apart(
            sentence,
            self.path(pair),
            pair[0],
            pair[1],
            fields,
            tuple(one for one in mine if one not in theirs),
            tuple(one for one in theirs if one not in mine),
            tuple(one for one in mine if one in theirs),
        )

    def path(self, pair: Pair) -> tuple[str, ...]:
        """The labels of a shortest run to a pair."""
        found: list[str] = []
        parent = self.parents[pair]
        while parent is not None:
            found.append(parent[1])
            parent = self.parents[parent[0]]
        return tuple(reversed(found))

    def first_split(self) -> tuple[str, int, Pair, tuple[str, ...], tuple[str, ...]] | None:
        """The first state that is in two pairs."""
        seen: tuple[dict[int, Pair], dict[int, Pair]] = ({}, {})
        for pair in self.parents:
            for side in (0, 1):
                before = seen[side].setdefault(pair[side], pair)
                if before != pair:
                    others = (before[1 - side], pair[1 - side])
                    return ("left", "right")[side], pair[side], others, self.path(before), self.path(pair)
        return None


def text_of_core(graph: Moves, at: int) -> str:
    """The mapped fields of a state on one line."""
    return ", ".join(f"{name} = {value}" for name, value in zip(graph.fields, graph.core[at], strict=True))


def quotient(graph: Moves) -> int:
    """How many states the quotient by bisimilarity has: states that agree on the fields and on all that may follow."""
    return len(set(classes(graph)))


def classes(graph: Moves) -> list[int]:
    """The class of each state: coarsest partition that respects the mapped fields and the labelled moves."""
    blocks = _numbered(graph.core)
    count = len(set(blocks))
    while True:
        blocks = _numbered(
            (blocks[at], *((label, *sorted({blocks[to] for to in targets})) for label, targets in _sorted(moves)))
            for at, moves in enumerate(graph.moves)
        )
        finer = len(set(blocks))
        if finer == count:
            return blocks
        count = finer


def _sorted(moves: dict[str, tuple[int, ...]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    return iter(sorted(moves.items()))


def _numbered(keys: object) -> list[int]:
    numbers: dict[object, int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]  # type: ignore[attr-defined]
