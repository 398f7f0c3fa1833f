"""Limits on the environment, and memories of the past, both beside the state and never inside it.

A machine knows no limits: a user may always send one more message. To explore it completely, the
*environment* is given budgets: three messages, two cancels. They are the explorer's business, so they live
in the explorer's node (`Watched`), and the machine stays what it is everywhere else.

The same goes for claims about the past ("nothing is claimed twice"). A `Monitor` folds the run into a small
value beside the state. It should look at the labels and at what a bystander could see; a monitor that reads
the field it is to judge judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple

from loopspec.kernel.system import Label, N, System


class Watched(NamedTuple, Generic[N]):
    """A state, what is left of each budget, and what each monitor remembers (both in the order of declaration)."""

    state: N
    left: tuple[int, ...] = ()
    memories: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Monitor(Generic[N]):
    """A fold over the run: `start(state)` in a first state, then `advance(memory, label, state after)` per
    move.

    Memories must be hashable and should be small: every different memory is a different node to explore.
    """

    name: str
    start: Callable[[N], Hashable]
    advance: Callable[[Any, Label, N], Hashable]


class Bounded(Generic[N]):
    """A system whose moves cost something, watched by monitors.

    `budgets` maps the name of a counter to the number of times it may be spent. `cost(label)` names the
    counter that a move spends (or several, or the same one twice); None or nothing when it is free. A move
    that cannot be paid for is not offered.
    """

    def __init__(
        self,
        system: System[N],
        budgets: Mapping[str, int],
        cost: Callable[[Label], str | Iterable[str] | None],
        monitors: Sequence[Monitor[N]] = (),
    ) -> None:
        """Wrap `system`. Raises ValueError when a budget is negative."""
        for name, amount in budgets.items():
            if amount < 0:
                raise ValueError(f"The budget {name!r} is {amount}; a budget cannot be negative.")
        self.system = system
        self.names = tuple(budgets)
        self.amounts = tuple(budgets.values())
        self.cost = cost
        self.monitors = tuple(monitors)
        self._prices: dict[Label, tuple[int, ...] | None] = {}

    def initial(self) -> Iterator[Watched[N]]:
        """Begin with full budgets and fresh memories."""
        for state in self.system.initial():
            yield Watched(state, self.amounts, tuple(monitor.start(state) for monitor in self.monitors))

    def moves(self, node: Watched[N]) -> Iterator[tuple[Label, Watched[N]]]:
        """Offer the moves that can be paid for."""
        state, left, memories = node
        for label, target in self.system.moves(state):
            price = self._price(label)
            remaining = left if price is None else _pay(left, price)
            if remaining is None:
                continue
            yield label, Watched(target, remaining, self._advance(memories, label, target))

    def left(self, node: Watched[N], name: str) -> int:
        """Return what is left of the budget called `name`."""
        return node.left[self.names.index(name)]

    def memory(self, node: Watched[N], name: str) -> Any:
        """Return what the monitor called `name` remembers."""
        return node.memories[[monitor.name for monitor in self.monitors].index(name)]

    def _advance(self, memories: tuple[Any, ...], label: Label, target: N) -> tuple[Any, ...]:
        if not memories:
            return memories
        return tuple(
            [monitor.advance(memory, label, target) for monitor, memory in zip(self.monitors, memories, strict=True)]
        )

    def _price(self, label: Label) -> tuple[int, ...] | None:
        """Return the cost of a label as one number per budget, None when it is free. Asked once per label."""
        if label not in self._prices:
            cost = self.cost(label)
            spent = [] if cost is None else [cost] if isinstance(cost, str) else list(cost)
            unknown = sorted(set(spent) - set(self.names))
            if unknown:
                raise ValueError(
                    f"The move {label!r} costs {unknown}, but there are only the budgets {list(self.names)}."
                )
            self._prices[label] = tuple(spent.count(name) for name in self.names) if spent else None
        return self._prices[label]


def _pay(left: tuple[int, ...], price: tuple[int, ...]) -> tuple[int, ...] | None:
    remaining = tuple([have - need for have, need in zip(left, price, strict=True)])
    return None if min(remaining) < 0 else remaining


class Restricted(Generic[N]):
    """A system without the states for which `keep` is False, as if they could not exist.

    Moves to them are not offered. The result of exploring it is complete *for the restricted system* only,
    so say so in the bound. (A model checker that knows state constraints drops the same states.)
    """

    def __init__(self, system: System[N], keep: Callable[[N], bool]) -> None:
        """Wrap `system`."""
        self.system = system
        self.keep = keep

    def initial(self) -> Iterator[N]:
        """Offer the first states that are kept."""
        return (node for node in self.system.initial() if self.keep(node))

    def moves(self, node: N) -> Iterator[tuple[Label, N]]:
        """Offer the moves to states that are kept."""
        return ((label, target) for label, target in self.system.moves(node) if self.keep(target))
