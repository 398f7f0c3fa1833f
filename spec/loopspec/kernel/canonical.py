"""Folding states that differ in names only, and the gate that such a fold must pass.

Runs of any length fit into a finite graph when what does not matter is folded away: live ids are renamed in
order of first appearance, and counters that only grow are set back. That is sound only if the folded state
behaves like the state itself. It is easy to fold too much, and then counterexamples vanish in silence; so
`soundness_gate` compares the folded system with the full one at a bound small enough for both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from loopspec.kernel.report import Exploration
from loopspec.kernel.system import Label, N, System

K = TypeVar("K", bound=Hashable)


class Renamed(Generic[N]):
    """A system in which every state is replaced by its canonical form.

    `rename` must give the same form for states that differ in names only, and must leave a canonical form
    as it is. Labels keep the names that ids have in the (canonical) state that the move starts from.
    """

    def __init__(self, system: System[N], rename: Callable[[N], N]) -> None:
        """Wrap `system`."""
        self.system = system
        self.rename = rename

    def initial(self) -> Iterator[N]:
        """Begin in the canonical forms of the first states."""
        return (self.rename(node) for node in self.system.initial())

    def moves(self, node: N) -> Iterator[tuple[Label, N]]:
        """Move to the canonical forms of the targets."""
        rename = self.rename
        return ((label, rename(target)) for label, target in self.system.moves(node))


def renamed(system: System[N], rename: Callable[[N], N]) -> Renamed[N]:
    """Return `system` with every state folded through `rename`."""
    return Renamed(system, rename)


# -- helpers to write a `rename`


def names_in_order(groups: Iterable[Iterable[K]], first: int = 1) -> dict[K, int]:
    """Give each id a new number, counting from `first` in order of first appearance in the groups."""
    names: dict[K, int] = {}
    for group in groups:
        for old in group:
            if old not in names:
                names[old] = first + len(names)
    return names


def rename_in_order(groups: Iterable[tuple[K, ...]], first: int = 1) -> tuple[tuple[int, ...], ...]:
    """Rename the ids in several tuples together, by first appearance: ((7, 3), (3, 9)) is ((1, 2), (2, 3)).

    The order of the groups decides the names, so give those first whose order is itself fixed by the
    behaviour (queues). A group that is really a set must come last and be sorted afterwards.
    """
    kept = tuple(groups)
    names = names_in_order(kept, first)
    return tuple(tuple(names[old] for old in group) for group in kept)


def fold_counter(value: int, cap: int) -> int:
    """Return `value`, or `cap` when it is larger: for counters that nobody asks about beyond `cap`."""
    return min(value, cap)


# -- the gate


@dataclass(frozen=True)
class Gate:
    """What the soundness gate found: `faults` in words, none when the fold is sound at this bound.

    `full_states` and `reduced_states` tell how much was compared, and what the fold saves.
    """

    faults: tuple[str, ...]
    full_states: int
    reduced_states: int

    @property
    def sound(self) -> bool:
        """Return whether no fault was found."""
        return not self.faults


def soundness_gate(
    system: System[N],
    rename: Callable[[N], N],
    full: Exploration[N],
    reduced: Exploration[N],
    predicates: Iterable[Callable[[N], object]] = (),
) -> Gate:
    """Compare the folded system with the full one, both explored completely at the same small bound.

    Checked are, for every reachable state: the fold leaves canonical forms alone; the state and its form
    have moves to the same canonical targets (so each run of one is a run of the other); every predicate
    answers alike on both. And for the whole: the same canonical states are reached, and every claim got the
    same verdict. At most one fault of each kind is reported.

    Raises ValueError when either exploration is incomplete, since then agreement means nothing.
    """
    for name, exploration in (("full", full), ("reduced", reduced)):
        if not exploration.complete:
            raise ValueError(
                f"The {name} exploration is incomplete ({exploration.why_incomplete}); use a smaller bound."
            )
    faults: dict[str, str] = {}
    judges = tuple(predicates)
    forms: set[N] = set()
    for state in full.states:
        form = rename(state)
        forms.add(form)
        if rename(form) != form:
            faults.setdefault("stable", f"The fold changes its own result {form!r}.")
        ours = {rename(target) for _, target in system.moves(state)}
        theirs = {rename(target) for _, target in system.moves(form)}
        if ours != theirs:
            apart = _apart(ours, theirs)
            faults.setdefault("moves", f"{state!r} moves otherwise than {form!r}: {apart}")
        for position, judge in enumerate(judges):
            if judge(state) != judge(form):
                faults.setdefault(
                    f"predicate {position}",
                    f"Predicate {position} tells {state!r} from its form {form!r}.",
                )
    if forms != set(reduced.states):
        faults["states"] = f"Other states are reached: {_apart(forms, set(reduced.states))}"
    if full.verdicts != reduced.verdicts:
        different = [name for name in full.verdicts if full.verdicts[name] != reduced.verdicts.get(name)]
        faults["verdicts"] = f"Verdicts differ for {different or list(reduced.verdicts)}."
    return Gate(tuple(faults.values()), len(full.states), len(reduced.states))


def _apart(ours: set[N], theirs: set[N]) -> str:
    only = sorted(map(repr, ours - theirs))
    other = sorted(map(repr, theirs - ours))
    return f"only in the full system {only[:1]}, only in the reduced one {other[:1]}"
