"""Every named fault of the retries dies by the promise that it breaks, or changes no edge at all."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spec.mutants_retry import BOUNDS, MUTANTS, applied
from tests.spec.mutation import Mutant

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.profile import law
from loopspec.worlds import retry_world
from loopspec.worlds.world import edge_digest


def edges_of(mutant: Mutant) -> str:
    """The digest of the graph at the mutant's bound."""
    world = retry_world.world(law(mutant.profile, mutant.session_format), BOUNDS[mutant.bound])
    exploration = explore(world, is_final=world.is_final, keep_edges=True)
    assert exploration.complete
    assert exploration.graph is not None
    return edge_digest(exploration.graph)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_dies_by_its_promise_or_changes_nothing(mutant: Mutant) -> None:
    if mutant.killer == "equivalent":
        original = edges_of(mutant)
        with applied(mutant):
            assert edges_of(mutant) == original
        return
    its_law, limits = law(mutant.profile, mutant.session_format), BOUNDS[mutant.bound]
    world, claims = retry_world.world(its_law, limits), retry_world.claims(its_law, limits)
    chosen: dict[str, Any] = {
        "invariants": [claim for claim in claims.invariants if claim.name == mutant.killer],
        "steps": [claim for claim in claims.steps if claim.name == mutant.killer],
        "sometimes": [claim for claim in claims.sometimes if claim.name == mutant.killer],
    }
    assert sum(map(len, chosen.values())) == 1
    with applied(mutant):
        exploration = explore(world, is_final=lambda node: True, stop_at_first=True, **chosen)
    assert exploration.verdicts[mutant.killer] is Verdict.FAIL, mutant.sentence


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
