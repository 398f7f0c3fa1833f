"""What can be claimed about a system, and what a broken claim looks like.

There are four kinds of claims here (`loopspec.kernel.liveness` adds *leads to*):

* an `Invariant` holds in every reachable state;
* a `Step` holds for every reachable move;
* a `Sometimes` or `SometimesStep` is reachable at all: it protects the other claims from holding only because
  nothing ever happens;
* no run gets stuck, except where it may stop (the `is_final` argument of `explore`).

Every claim has a short unique name, and one sentence that a reader understands without seeing the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Generic

from loopspec.kernel.system import Label, N

Answer = bool | str
"""What a predicate answers: True when the claim holds, False or a (non-empty) reason when it does not."""


class Verdict(Enum):
    """The three possible ends of a check. They are never merged: what was not decided did not pass."""

    PASS = "PASS"
    FAIL = "FAIL"
    UNDETERMINED = "UNDETERMINED"


def worst(verdicts: list[Verdict]) -> Verdict:
    """Combine verdicts: one FAIL makes it FAIL, else one UNDETERMINED makes it UNDETERMINED, else PASS."""
    if Verdict.FAIL in verdicts:
        return Verdict.FAIL
    if Verdict.UNDETERMINED in verdicts:
        return Verdict.UNDETERMINED
    return Verdict.PASS


@dataclass(frozen=True)
class Invariant(Generic[N]):
    """A claim about every reachable state."""

    name: str
    sentence: str
    predicate: Callable[[N], Answer]


@dataclass(frozen=True)
class Step(Generic[N]):
    """A claim about every reachable move: state before, label, state after."""

    name: str
    sentence: str
    predicate: Callable[[N, Label, N], Answer]


@dataclass(frozen=True)
class Sometimes(Generic[N]):
    """The claim that some reachable state satisfies the predicate."""

    name: str
    sentence: str
    predicate: Callable[[N], bool]


@dataclass(frozen=True)
class SometimesStep(Generic[N]):
    """The claim that some reachable move satisfies the predicate."""

    name: str
    sentence: str
    predicate: Callable[[N, Label, N], bool]


@dataclass(frozen=True)
class Path(Generic[N]):
    """A run: the state in which it begins, then each move with the state that it leads to."""

    start: N
    steps: tuple[tuple[Label, N], ...] = ()

    def __len__(self) -> int:
        """Return the number of moves; a run may have none."""
        return len(self.steps)

    def __bool__(self) -> bool:
        """Return True: a run of length zero is a run too."""
        return True

    @property
    def end(self) -> N:
        """Return the state that the run ends in."""
        return self.steps[-1][1] if self.steps else self.start

    @property
    def before_end(self) -> N | None:
        """Return the state before the last move; None when there is no move."""
        if not self.steps:
            return None
        return self.steps[-2][1] if len(self.steps) > 1 else self.start

    @property
    def last_label(self) -> Label | None:
        """Return the label of the last move; None when there is no move."""
        return self.steps[-1][0] if self.steps else None

    @property
    def labels(self) -> tuple[Label, ...]:
        """Return the labels of all moves, in order."""
        return tuple(label for label, _ in self.steps)

    @property
    def nodes(self) -> tuple[N, ...]:
        """Return all states, in order; one more than there are moves."""
        return (self.start, *(node for _, node in self.steps))

    def then(self, label: Label, node: N) -> Path[N]:
        """Return this run with one more move."""
        return Path(self.start, (*self.steps, (label, node)))


@dataclass(frozen=True)
class Violation(Generic[N]):
    """A broken claim with the shortest run that breaks it.

    `kind` is "invariant", "step" or "deadlock"; `reason` is what the predicate said, if it said anything;
    `values` are the fields of the last state, by name.
    """

    kind: str
    name: str
    sentence: str
    reason: str | None
    path: Path[N]
    values: Mapping[str, object]

    @property
    def last_action(self) -> Label | None:
        """Return the label of the move that broke the claim; None when a first state already does."""
        return self.path.last_label


def values_of(node: object) -> Mapping[str, object]:
    """Return the fields of a state by name; a value without named fields becomes `node`."""
    names = getattr(type(node), "_fields", None)
    if isinstance(node, tuple) and names is not None:
        return dict(zip(names, node, strict=True))
    if is_dataclass(node) and not isinstance(node, type):
        return {field.name: getattr(node, field.name) for field in fields(node)}
    return {"node": node}


def reason_of(name: str, answer: object) -> str | None:
    """Read the answer of a predicate that did not say True: None for a plain False, else its reason.

    Raises TypeError for anything else. An empty text or an empty tuple could be meant as "nothing wrong",
    so it is refused instead of guessed at.
    """
    if answer is False:
        return None
    if isinstance(answer, str) and answer:
        return answer
    raise TypeError(
        f"The predicate of {name!r} answered {answer!r}. "
        "It must answer True when the claim holds, and False or a non-empty reason when it does not."
    )
