"""The surroundings that the protocol can make for each machine, and what an adapter can report of its moves.

Every label counts as visible unless a file here names it, so that a doubt is never in favour of a fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from loopconform.mutants.surroundings import driver, lives, pool
from loopconform.mutants.surroundings.bound import LAWS, Bound, Seen
from loopspec.profile import law

__all__ = ["Bound", "Seen", "bounds"]


def bounds() -> Iterator[Bound]:
    """Every system that is compared."""
    for name, budgets in driver.BUDGETS.items():
        for profile, version in LAWS:
            gated = partial(driver.gated, law(profile, version), budgets)
            yield Bound(f"driver {name}, {profile}, at gates", gated, driver.seen, driver.reads)
    for profile, version in pool.LAWS:
        batch = partial(pool.GatedScheduling, law(profile, version), pool.FREEDOM)
        yield Bound(f"scheduler, {profile}, the hooks of the protocol", batch, pool.seen, pool.reads)
    for name, (choices, budgets) in lives.PLANS.items():
        for profile, _ in LAWS:
            small = partial(lives.small, profile, choices, budgets)
            yield Bound(f"creation {name}, {profile}, the calls of the protocol", small, lives.seen, lives.reads)
