"""Fibers: who may own transactions, and from when to when.

The agents service and the provider are fibers from the start. Any other fiber **joins** when something is created
through it for the first time, and **leaves** when its unload has ended (`loopspec.teardown`). A number that a fiber
has left is given again, but not while a transaction still names it as its owner: otherwise the newcomer would be asked
about an agent that it never had.
"""

from __future__ import annotations

from loopspec import registry
from loopspec.kernel.machine import Outcome, Rules, leave
from loopspec.transaction import PROVIDER, Creation, with_fiber

rules = Rules(registry.rules)


def is_vacant(s: Creation, fiber: int) -> bool:
    """C-OWN-6  A caller's fiber has left, and nothing names it any more: its number may be given to another."""
    named = any(t.owner == ("fiber", fiber) for t in s.members)
    return fiber > PROVIDER and s.fibers[fiber] == "gone" and not named


def vacancy(s: Creation) -> int:
    """The number for a fiber that joins: the lowest that is vacant, or one that nobody has had."""
    return next((fiber for fiber in range(len(s.fibers)) if is_vacant(s, fiber)), len(s.fibers))


@rules("join")
def join(s: Creation) -> Outcome[Creation]:
    """C-OWN-1, C-FAC-3  Whoever calls for the first time may own from now on; answers the number it is known by."""
    fiber = vacancy(s)
    return leave(with_fiber(s, fiber, "active"), ("return", fiber))
