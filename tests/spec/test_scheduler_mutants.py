"""Every guard of the tool scheduler is removed or turned once; each time the named claim must notice."""

from __future__ import annotations

import pytest
from tests.spec.mutants_scheduler import EQUIVALENT, MUTANTS, ORDER, Mutant
from tests.spec.scheduler_runs import broken, digest_of, graph_of_machine

from loopspec.kernel.budget import Bounded
from loopspec.kernel.claims import Step, Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.liveness import Fairness, LeadsTo, check_leads_to
from loopspec.profile import Profile, law
from loopspec.properties.scheduler import Node, is_final, safety
from loopspec.worlds.scheduler_past import STORY
from loopspec.worlds.scheduler_world import Scene, Scheduling, cost


def killed(mutant: Mutant) -> bool:
    """Whether the named claim, and nothing else, tells the mutant from the machine."""
    rules = law(mutant.profile, 4)
    machine = broken(mutant.original, mutant.replacement)
    system = Scheduling(rules, mutant.freedom, machine)
    if mutant.claim == "INV-S17":
        return not ends_everywhere(system)
    invariants, steps = safety(rules, mutant.freedom.calls)
    bounded: Bounded[Scene] = Bounded(system, {"abort": 1, "failure": 2}, cost, (STORY,))
    names = {claim.name for claim in invariants} | {claim.name for claim in steps}
    assert mutant.claim in {*names, "no deadlock"}, f"no claim is called {mutant.claim}"
    chosen: list[Step[Node]] = [claim for claim in steps if claim.name == mutant.claim]
    found = explore(
        bounded,
        invariants=[claim for claim in invariants if claim.name == mutant.claim],
        steps=chosen,
        is_final=is_final if mutant.claim == "no deadlock" else lambda node: True,
        stop_at_first=True,
    )
    return [violation.name for violation in found.violations] == [mutant.claim]


def ends_everywhere(system: Scheduling) -> bool:
    """INV-S17: every run in which somebody always moves gets to the end of the batch."""
    watched: Bounded[Scene] = Bounded(system, {"abort": 1, "failure": 1}, cost, (STORY,))
    graph = explore(watched, is_final=lambda node: True, keep_edges=True).graph
    assert graph is not None
    everybody = Fairness(key_of=lambda label: "anybody", weak=frozenset({"anybody"}))
    claim: LeadsTo[Node] = LeadsTo("INV-S17", "Every batch ends.", lambda node: True, is_final)
    (result,) = check_leads_to(graph, [claim], everybody)
    return result.verdict is Verdict.PASS and result.acyclic


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_each_fault_is_seen_by_its_claim(mutant: Mutant) -> None:
    """The machine itself passes all claims at these bounds (see the explorations); each mutant fails its own."""
    assert killed(mutant)


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
def test_the_machine_itself_passes_where_the_mutants_fail(profile: Profile) -> None:
    """Without this, a claim that always fails would kill everything. (`RESULTS` is the exploration `pipeline`.)"""
    rules = law(profile, 4)
    invariants, steps = safety(rules, ORDER.calls)
    bounded: Bounded[Scene] = Bounded(Scheduling(rules, ORDER), {"abort": 1, "failure": 2}, cost, (STORY,))
    found = explore(bounded, invariants=invariants, steps=steps, is_final=is_final)
    assert found.verdict is Verdict.PASS, found.violations
    assert ends_everywhere(Scheduling(rules, ORDER))


@pytest.mark.parametrize(("why", "original", "replacement"), EQUIVALENT)
def test_these_changes_are_equivalent(why: str, original: str, replacement: str) -> None:
    """No claim can kill them, because the complete graph is the same."""
    rules = law("seed", 4)
    changed = broken(original, replacement)
    assert digest_of(graph_of_machine(rules, ORDER, changed)) == digest_of(graph_of_machine(rules, ORDER)), why
