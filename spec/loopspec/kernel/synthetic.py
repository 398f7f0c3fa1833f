"""A system with as many states as you like and almost no work per move, to measure the kernel itself.

The real machines spend most of their time in their rules. This one is nearly free, has states of a realistic
shape and size (nested tuples of about 25 small fields), and its counts are known in advance, so that speed
and memory of the search can be measured, and its counting checked, without a model in the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

Odometer: TypeAlias = tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[str, int, bool], ...], str]
"""The wheels, and ballast that copies the shape of a real state: numbers, small records and a text."""


class Wheels:
    """`wheels` independent wheels with `positions` positions each; a move turns one wheel one position on.

    There are `positions ** wheels` states, `wheels * positions ** wheels` moves, and the furthest state is
    `wheels * (positions - 1)` moves away.
    """

    def __init__(self, wheels: int, positions: int) -> None:
        """Choose the size; both numbers are at least 1."""
        self.wheels = wheels
        self.positions = positions
        self._labels = tuple(("turn", wheel) for wheel in range(wheels))

    def initial(self) -> tuple[Odometer]:
        """Begin with all wheels at zero."""
        return (self._state((0,) * self.wheels),)

    def moves(self, node: Odometer) -> Iterator[tuple[tuple[str, int], Odometer]]:
        """Turn any one wheel."""
        wheels, positions = node[0], self.positions
        for wheel, label in enumerate(self._labels):
            turned = (wheels[wheel] + 1) % positions
            yield label, self._state((*wheels[:wheel], turned, *wheels[wheel + 1 :]))

    def _state(self, wheels: tuple[int, ...]) -> Odometer:
        # Fresh tuples, as a real rule would make them; nothing is shared between states but the small
        # literals.
        one, two = wheels[0], wheels[-1]
        return (wheels, (one, two, one, two, 0, 1), (("claim", one, True), ("park", two, False)), "running")
