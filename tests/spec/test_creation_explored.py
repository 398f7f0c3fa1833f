"""Creation explored completely: every claim, every witness, pinned counts and pinned graphs."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import digest_edges
from loopspec.profile import Profile
from loopspec.properties.creation import ELSEWHERE, INVARIANTS, RULES
from loopspec.properties.creation_explorations import DEFECTS, LARGE, PLANS, WITNESSES, explorations, exploring
from loopspec.worlds.world import named_law

PINNED: dict[tuple[str, str], tuple[int, int, int]] = {
    ("single", "seed"): (8650, 16563, 20),
    ("refusals", "seed"): (15073, 45317, 14),
    ("arbitration", "seed"): (4053, 10492, 15),
    ("owners", "seed"): (6005, 13778, 14),
    ("family", "seed"): (4908, 10889, 13),
    ("listeners", "seed"): (18513, 32994, 26),
    ("strangers", "seed"): (4447, 10467, 21),
    ("shutdown", "seed"): (10023, 24236, 29),
    ("single", "dsh-0.1"): (16888, 27540, 21),
    ("owners", "dsh-0.1"): (7207, 16061, 14),
    ("family", "dsh-0.1"): (6356, 13949, 14),
}
"""States, moves and depth."""

DIGESTS: dict[str, str] = {}
"""The edges of the graph, independent of process and order."""


@cache
def explored(name: str, profile: Profile) -> Any:
    """One complete exploration with its graph."""
    system, claims, bound = exploring(PLANS[name], profile)
    return explore(system, **claims._asdict(), bound=bound, keep_edges=name in DIGESTS)


@pytest.mark.parametrize(("name", "profile"), PINNED)
def test_every_claim_holds_and_every_witness_is_reached(name: str, profile: Profile) -> None:
    found = explored(name, profile)
    assert found.complete
    assert found.verdict is Verdict.PASS, (found.violations, [row.name for row in found.sometimes if not row.witness])
    assert (len(found.states), found.transitions, found.depth) == PINNED[name, profile]


@pytest.mark.parametrize("name", DIGESTS)
def test_the_graph_is_pinned(name: str) -> None:
    """Counts do not pin a graph: two mistakes may cancel out in them."""
    assert digest_edges(named_law(explored(name, "seed").graph)) == DIGESTS[name]


def test_every_invariant_of_the_sheet_is_claimed_or_judged_elsewhere() -> None:
    claimed = {claim.name.split()[0] for claim in INVARIANTS} | set(ELSEWHERE)
    assert {f"INV-{number}" for number in range(1, 32)} <= claimed
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_every_witness_is_asked_for_somewhere() -> None:
    asked = {reached for plan in (*PLANS.values(), *LARGE.values()) for reached in plan.reaches}
    assert asked == set(WITNESSES)


def test_every_exploration_has_a_name() -> None:
    assert set(explorations()) == {
        f"{name} {profile}" for name in PLANS for profile in ("seed", "dsh-0.1", "dsh-0.1.7")
    }
    assert len(explorations(wide=True)) == 3 * (len(PLANS) + len(LARGE))


SHORTEST: dict[str, int] = {
    "INV-19 driver gate": 3,
    "INV-20 owner join": 5,
    "INV-14 drained before unwound": 3,
    "INV-16 heard by its scope": 0,
    "INV-21 child first": 8,
    "INV-3 closure": 0,
    "INV-11 rejection after rollback": 0,
    "LIV-1, LIV-2 at rest": 0,
    "N-7 silent after the end": 0,
    "no deadlock": 0,
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
