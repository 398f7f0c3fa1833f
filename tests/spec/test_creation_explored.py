"""Creation explored completely: every claim, every witness, pinned counts and pinned graphs."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.profile import Profile
from loopspec.properties.creation import ELSEWHERE, INVARIANTS, RULES
from loopspec.properties.creation_explorations import (
    DEFECTS,
    LARGE,
    PLANS,
    WITNESSES,
    explorations,
    exploring,
)
from loopspec.worlds.world import edge_digest

PINNED: dict[str, tuple[int, int, int]] = {
    "single": (16465, 30959, 20),
    "refusals": (19029, 56323, 14),
    "arbitration": (4156, 10593, 15),
    "owners": (6281, 14157, 14),
    "family": (5080, 11132, 14),
    "listeners": (19259, 33826, 26),
    "strangers": (4608, 10633, 21),
    "shutdown": (6315, 15668, 16),
    "clan": (4840, 7716, 14),
    "observed": (202, 340, 21),
}
"""States, moves and depth under `seed`."""

DIGESTS: dict[str, str] = {
    "arbitration": "c0dff14cd5810bdcbd6fc08fb4e4eecff880e5fa48a2561f83fba7997b890760",
    "family": "a1a460a6cb584ba068b78a4b0784a112f23a6ef52e4741efe117600a25d80555",
    "strangers": "c5a09d6447421a440e7ffa5595ad9c866a8ff13a720a0b362806fff19c26fdb7",
    "single": "c0f3f06833515bc0e72fe23e796d51ddba65cb8e91b2b42135752526d8c42520",
}
"""The edges of the graph, independent of process and order."""


@cache
def explored(name: str) -> Any:
    """One complete exploration with its graph."""
    system, claims, bound = exploring(PLANS[name])
    return explore(system, **claims._asdict(), bound=bound, keep_edges=name in DIGESTS)


@pytest.mark.parametrize("name", PLANS)
def test_every_claim_holds_and_every_witness_is_reached(name: str) -> None:
    found = explored(name)
    assert found.complete
    assert found.verdict is Verdict.PASS, (found.violations, [row.name for row in found.sometimes if not row.witness])
    assert (len(found.states), found.transitions, found.depth) == PINNED[name]


@pytest.mark.parametrize("name", DIGESTS)
def test_the_graph_is_pinned(name: str) -> None:
    """Counts do not pin a graph: two mistakes may cancel out in them."""
    assert edge_digest(explored(name).graph) == DIGESTS[name]


def test_every_invariant_of_the_sheet_is_claimed_or_judged_elsewhere() -> None:
    claimed = {claim.name.split()[0] for claim in INVARIANTS} | set(ELSEWHERE)
    assert {f"INV-{number}" for number in range(1, 32)} <= claimed
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_every_witness_is_asked_for_somewhere() -> None:
    asked = {reached for plan in (*PLANS.values(), *LARGE.values()) for reached in plan.reaches}
    assert asked == set(WITNESSES)


@pytest.mark.parametrize("profile", ["dsh-0.1", "dsh-0.1.7"])
def test_an_agent_that_its_observer_disposes_of_keeps_every_other_claim(profile: Profile) -> None:
    """LR-228  What a refused cancel breaks is known, and nothing else is broken."""
    system, claims, bound = exploring(PLANS["observed"], profile)
    found = explore(system, **claims._asdict(), bound=bound)
    assert found.complete
    assert found.verdict is Verdict.PASS, found.violations


def test_every_exploration_has_a_name() -> None:
    assert set(explorations()) == {
        f"{name} {profile}" for name in PLANS for profile in ("seed", "dsh-0.1", "dsh-0.1.7")
    }
    assert len(explorations(wide=True)) == 3 * (len(PLANS) + len(LARGE))


SHORTEST: dict[str, int] = {
    "INV-19 driver gate": 3,
    "INV-20 owner join": 5,
    "INV-14 drained before unwound": 3,
    "INV-16 heard by its scope": 4,
    "INV-14 unwound before detached": 11,
    "INV-16 closing published": 13,
    "INV-21 child first": 8,
    "INV-3 closure": 9,
    "INV-11 rejection after rollback": 13,
    "LIV-1, LIV-2 at rest": 9,
    "F23 no veto by notice": 5,
    "N-7 silent after the end": 6,
    "N-8 no hang": 3,
    "no deadlock": 7,
}
"""Moves of the shortest run that shows each published defect."""


@pytest.mark.parametrize("name", sorted({plan for plan, _ in DEFECTS.values()}))
def test_each_published_defect_is_a_shortest_run(name: str) -> None:
    """`seed` passes the same claims at the same bound, see above."""
    system, claims, bound = exploring(PLANS[name], "dsh-0.1", everything=True)
    found = explore(system, **claims._asdict(), bound=bound)
    assert found.complete
    broken = {violation.name: len(violation.path) for violation in found.violations}
    assert set(broken) <= set(DEFECTS)
    for claim, (plan, _) in DEFECTS.items():
        if plan == name:
            assert broken.get(claim) == SHORTEST[claim], (claim, found.violation(claim))
