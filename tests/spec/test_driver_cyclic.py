"""What must happen at last, over runs of any length.

Each graph is complete for its cap on pending messages. The silent part of it has no cycle: from every reachable state a
run without further calls ends, and the claims are judged at those ends.
"""

from __future__ import annotations

import pytest
from tests.spec.mutants_driver import MUTANTS, applied

from loopharness.collector import collector_paused
from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.liveness import Fairness, LeadsTo, check_leads_to
from loopspec.profile import Profile, law
from loopspec.worlds.driver_cyclic import FAIRNESS, LIVENESS, Cyclic, folded, silent
from loopspec.worlds.world import Node


def judged(
    profile: Profile,
    pending: int,
    depth: int,
    claims: tuple[LeadsTo[Node], ...] = LIVENESS,
    fairness: Fairness = FAIRNESS,
) -> dict[str, str]:
    """Explore completely, and judge; the claims that failed, with the end of their run."""
    with collector_paused():
        exploration = explore(Cyclic(law(profile), pending, depth), is_final=lambda node: True, keep_edges=True)
        assert exploration.complete
        assert exploration.graph is not None
        assert any(label[0] == "append" for label in exploration.labels)
        results = check_leads_to(silent(exploration.graph), claims, fairness)
    counts = f"{len(exploration.states)} states, {exploration.transitions} moves"
    print(f"{profile}, {pending} pending, depth {depth}: {counts}")
    assert all(one.acyclic and not one.unmatched for one in results)
    assert not any("No reachable" in (one.vacuous or "") for one in results)
    return {one.name: str(one.lasso) for one in results if one.verdict is not Verdict.PASS}


@pytest.mark.parametrize(
    ("profile", "pending", "depth"), [("seed", 3, 0), ("dsh-0.1", 3, 0), ("seed", 1, 1), ("dsh-0.1.7", 2, 0)]
)
def test_silent_runs_do_what_they_owe(profile: Profile, pending: int, depth: int) -> None:
    assert judged(profile, pending, depth) == {}


@pytest.mark.parametrize(
    ("fault", "claim"),
    [
        ("nothing is due", "LI-33"),
        ("job goes on", "LI-30"),
        ("no prompt claimed", "LI-32"),
    ],
)
def test_a_fault_breaks_its_claim(fault: str, claim: str) -> None:
    mutant = next(one for one in MUTANTS if one.name == fault)
    with applied(mutant):
        assert claim in judged("seed", 2, 0)


def test_the_fold_leaves_its_own_results_alone() -> None:
    exploration = explore(Cyclic(law("seed"), 2, 0), is_final=lambda node: True)
    assert all(folded(node.config) == node.config for node in exploration.states)
