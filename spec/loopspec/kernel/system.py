"""What the kernel can explore: anything that has first states and moves.

A *system* is a pure description of behaviour. It says where a run may begin and, for every state, which
labelled moves are possible and where each of them leads. Everything else in the kernel (search, liveness,
graphs, programs) is written against this small protocol and knows nothing about agents, inboxes or tools.

A *node* is one state of a system: any hashable value, usually a NamedTuple of tuples and literals. Two
nodes are the same state exactly when they compare equal, so one field must never hold both `True` and `1`,
or both `0` and `False`: Python thinks they are equal (`loopspec.kernel.graph.recheck` finds such mixtures).

A *label* names one move in a way people can read and JSON can carry: `"append turn/start"` or
`("call", "followup", 2)`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol, TypeAlias, TypeVar

Label: TypeAlias = str | tuple[Hashable, ...]
"""The name of a move: a text, or a tuple of texts, numbers and further tuples."""

N = TypeVar("N", bound=Hashable)
"""The type of the states of one system."""


class System(Protocol[N]):
    """A behaviour that can be explored.

    Both methods must be pure, and must give their answers in the same order every time: the order decides
    which of several equally short counterexamples is reported.
    """

    def initial(self) -> Iterable[N]:
        """Return the states in which a run may begin (at least one)."""
        ...

    def moves(self, node: N) -> Iterable[tuple[Label, N]]:
        """Return every move that is possible in `node`, as pairs of its label and the state it leads to.

        One label may occur several times with different targets: then the move has several outcomes. A move
        that leads back to `node` is a move like any other.
        """
        ...
