"""One system in the surroundings of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from loopspec.profile import Profile

Label = Any
"""A move's label, of any machine."""
Seen = Any
"""A visible label; `None` for one that nobody sees."""


class Bound(NamedTuple):
    """One system in the surroundings of the protocol. `seen` says what a label shows, `reads` what a resting node."""

    name: str
    system: Callable[[], Any]
    seen: Callable[[Any, Label], Seen]
    reads: Callable[[Any], Hashable]


LAWS: tuple[tuple[Profile, int], ...] = (("seed", 0), ("dsh-0.1", 0), ("dsh-0.1.7", 4))
"""What is asked under one law only is seen under that law only."""
