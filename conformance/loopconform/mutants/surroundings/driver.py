"""A driver as the protocol surrounds it: everybody acts at any time, and tells times by gates and dispatches."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from loopconform.mutants.surroundings.bound import Label, Seen
from loopspec.driver import status
from loopspec.profile import Law
from loopspec.worlds import driver_world
from loopspec.worlds.world import World

UNGATED = ("tick", "gap")
"""Await points without a gate: how long they take is an implementation's own, so nobody sees them. What is done there
looks as if it were done before or behind them."""


class GatedDriver(World[Any]):
    """A driver whose surroundings act at any time, and know of a time by its gates and dispatches only."""

    def moves(self, node: Any) -> Iterator[tuple[Label, Any]]:
        """Every move; the first header of a driver is written, as the harness finds it to be another."""
        config = node.config
        moves: Iterator[tuple[Label, Any]] = super().moves(node)
        for label, after in moves:
            if (
                label[0] == "answer"
                and label[1] == ("prepare",)
                and not config.core.headed
                and label[2][1:2] == (False,)
            ):
                # The harness compares the header with the last one itself: the first of a driver always differs.
                label = ("answer", label[1], ("prepared", True, *label[2][2:]))
                index = [point for point, _ in config.parked].index(("prepare",))
                after = after._replace(config=self.machine.resume(config, label[2], index))
            yield label, after


def seen(node: Any, label: Label) -> Seen:
    """What a driver changes in silence shows in what is possible later."""
    hidden = (label[0] == "park" and label[1] in UNGATED) or (label[0] == "answer" and label[1][0] in UNGATED)
    return None if hidden or label[0] == "note" else label


def reads(node: Any) -> Hashable:
    """The status, and what is pending."""
    core = node.config.core
    return status(core), core.next_turn, core.next_step


def gated(chosen: Law, budgets: dict[str, int]) -> GatedDriver:
    """Such a driver under a law."""
    made = driver_world.world(chosen, driver_world.bound("observed", **budgets))
    return GatedDriver(made.machine, made.first, made.environment, made.bound, (), lambda memory, label: memory)


BUDGETS: dict[str, dict[str, int]] = {
    "one": {"messages": 1, "cancel_user": 1, "turns": 2, "faults": 1, "calls": 1},
    "two": {"messages": 2, "cancel_user": 1, "turns": 2},
    "refused": {"messages": 2, "turns": 2, "refusals": 1},
}
"""Budgets of the driver's bounds."""
