"""Every guard of creation is removed or turned once; each time the named claim or witness must notice."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spec.creation_runs import broken
from tests.spec.mutants_creation import CRASH, EQUIVALENT, MUTANTS, SMALL, Mutant

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import ExplorationError, explore
from loopspec.properties import creation_explorations
from loopspec.worlds.world import edge_digest


def found_by(module: Any, name: str) -> set[str]:
    """The claims that are broken and the witnesses that are missing, in one small bound, by the given explorations."""
    choices, budgets, reaches = SMALL[name]
    bound = module.bound(name, **budgets)
    more = ("raise append-reenters", "raise already-announced") if name == "strangers" else ()
    plan = module.Plan(module.Choices(**choices), bound, (*reaches.split(), *more))
    system, claims, told = module.exploring(plan)
    try:
        found = explore(system, **claims._asdict(), bound=told, max_states=20_000)
    except (ExplorationError, AssertionError, KeyError):
        return {CRASH}
    assert found.complete
    return {claim for claim, verdict in found.verdicts.items() if verdict is Verdict.FAIL}


@pytest.mark.parametrize("name", SMALL)
def test_the_machine_itself_passes_where_the_mutants_fail(name: str) -> None:
    """Without this, a claim that always fails would kill everything."""
    assert found_by(creation_explorations, name) == set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_each_fault_is_seen_by_its_claim(mutant: Mutant) -> None:
    with broken(mutant.module, mutant.original, mutant.replacement) as module:
        assert mutant.killer in found_by(module, mutant.bound)


def digest_of(module: Any, name: str) -> str:
    """The edges of one small bound."""
    choices, budgets, _ = SMALL[name]
    plan = module.Plan(module.Choices(**choices), module.bound(name, **budgets), ())
    system, claims, _ = module.exploring(plan)
    graph = explore(system, is_final=claims.is_final, keep_edges=True).graph
    assert graph is not None
    return edge_digest(graph)


@pytest.mark.parametrize(("why", "module", "original", "replacement", "bound"), EQUIVALENT)
def test_these_changes_are_equivalent(why: str, module: str, original: str, replacement: str, bound: str) -> None:
    """No claim can kill them, because the complete graph is the same."""
    with broken(module, original, replacement) as changed:
        assert digest_of(changed, bound) == digest_of(creation_explorations, bound), why
