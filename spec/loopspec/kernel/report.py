"""What an exploration tells: counts, broken claims, reached claims, and whether it saw everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

from loopspec.kernel.claims import Path, Verdict, Violation, worst
from loopspec.kernel.graph import Graph
from loopspec.kernel.system import Label, N


@dataclass(frozen=True)
class Progress:
    """A look at a running exploration. It holds counts only; who has a clock can turn them into a speed."""

    found: int  # distinct states so far
    expanded: int  # states whose moves have all been followed
    transitions: int  # moves followed so far
    depth: int  # length of the shortest run to the state that is expanded now

    @property
    def frontier(self) -> int:
        """Return how many states still wait to be expanded."""
        return self.found - self.expanded


@dataclass(frozen=True)
class Reached(Generic[N]):
    """One row of the *sometimes* table: what should be reachable, and the shortest run that reaches it."""

    name: str
    sentence: str
    verdict: Verdict
    witness: Path[N] | None


@dataclass(frozen=True)
class Exploration(Generic[N]):
    """The result of `explore`.

    `why_incomplete` is None when every reachable state was visited and every move of it followed; otherwise
    it is the reason, in words. `bound` is what the caller said the system was bounded by; the kernel never
    looks into it. `states[i]` is the i-th state in order of discovery, so distances never fall along it.
    `deadlocks` are the indexes of all states that are stuck. `graph` is there when the edges were kept.
    """

    bound: Mapping[str, object]
    why_incomplete: str | None
    states: Sequence[N]
    initial_count: int
    parents: Sequence[int]
    parent_labels: Sequence[int]
    labels: Sequence[Label]
    expanded: int
    transitions: int
    depth: int
    deadlocks: tuple[int, ...]
    violations: tuple[Violation[N], ...]
    sometimes: tuple[Reached[N], ...]
    checked: tuple[str, ...]
    graph: Graph[N] | None

    @property
    def complete(self) -> bool:
        """Return whether everything reachable was seen."""
        return self.why_incomplete is None

    @property
    def verdict(self) -> Verdict:
        """Return the verdict over all claims. An incomplete search without a violation is UNDETERMINED."""
        return worst(list(self.verdicts.values()))

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Return the verdict of each claim by name; `no deadlock` is always among them."""
        unbroken = Verdict.PASS if self.complete else Verdict.UNDETERMINED
        broken = {violation.name for violation in self.violations}
        table = {name: Verdict.FAIL if name in broken else unbroken for name in self.checked}
        return table | {row.name: row.verdict for row in self.sometimes}

    def violation(self, name: str) -> Violation[N] | None:
        """Return the shortest violation of the claim called `name`, if it has one."""
        return next((found for found in self.violations if found.name == name), None)

    def reached(self, name: str) -> Reached[N]:
        """Return the row of the *sometimes* claim called `name`. Raises KeyError when there is none."""
        for row in self.sometimes:
            if row.name == name:
                return row
        raise KeyError(f"No `sometimes` claim is called {name!r}. There are: {[row.name for row in self.sometimes]}")

    def path_to(self, index: int) -> Path[N]:
        """Return a shortest run from a first state to `states[index]`."""
        return path_to(index, self.states, self.parents, self.parent_labels, self.labels)


def path_to(
    index: int,
    states: Sequence[N],
    parents: Sequence[int],
    parent_labels: Sequence[int],
    labels: Sequence[Label],
) -> Path[N]:
    """Follow the parents back from `index` (a first state has the parent -1); return the run forwards."""
    steps: list[tuple[Label, N]] = []
    while parents[index] >= 0:
        steps.append((labels[parent_labels[index]], states[index]))
        index = parents[index]
    return Path(states[index], tuple(reversed(steps)))
