"""What is claimed in one exploration of creation or scheduler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from loopspec.kernel.claims import Invariant, SometimesStep, Step

S = TypeVar("S")


class Claims(NamedTuple, Generic[S]):
    """Everything that `explore` wants to know about one system, as its keyword arguments."""

    invariants: tuple[Invariant[S], ...]
    steps: tuple[Step[S], ...]
    sometimes: tuple[SometimesStep[S], ...]
    is_final: Callable[[S], bool]
