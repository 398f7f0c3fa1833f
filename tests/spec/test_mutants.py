"""Every named fault of driver, inbox and retries dies by the promise that it breaks, or changes no edge at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.spec import mutant_table, mutants_driver, mutants_inbox, mutants_retry
from tests.spec.mutation import Mutant

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.profile import law
from loopspec.worlds.world import Node, edge_digest

PAGE = Path(__file__).parents[2] / "spec" / "MUTANTS.md"
MACHINES: dict[str, Any] = {"driver": mutants_driver, "inbox": mutants_inbox, "retry": mutants_retry}
EVERY = [
    pytest.param(faults, mutant, id=f"{machine}: {mutant.name}")
    for machine, faults in MACHINES.items()
    for mutant in faults.MUTANTS
]


def world_of(faults: Any, mutant: Mutant) -> Any:
    """The machine at the mutant's bound."""
    return faults.WORLD.world(law(mutant.profile, mutant.session_format), faults.BOUNDS[mutant.bound])


def edges_of(faults: Any, mutant: Mutant, dropped: str) -> str:
    """The digest of the graph at the mutant's bound, without the field `dropped` of the core (empty: with all).

    States that differ in the dropped field alone become one; that they have the same moves to the same states is
    checked, so that equal digests mean bisimilar graphs.
    """
    world = world_of(faults, mutant)
    exploration = explore(world, is_final=world.is_final, keep_edges=True)
    assert exploration.complete
    graph: Any = exploration.graph
    if dropped:
        plain = [_without(dropped, node) for node in graph.states]
        moves: dict[Node, frozenset[tuple[int, Node]]] = {}
        for index, node in enumerate(plain):
            here = frozenset((label, plain[target]) for label, target in graph.moves(index))
            assert moves.setdefault(node, here) == here, f"{dropped} matters: states that differ in it move otherwise"
        graph = replace(graph, states=plain)
    return edge_digest(graph)


def _without(field: str, node: Node) -> Node:
    config = node.config
    return node._replace(config=config._replace(core=config.core.put(**{field: ""})))


@pytest.mark.parametrize(("faults", "mutant"), EVERY)
def test_a_fault_dies_by_its_promise_or_changes_nothing(faults: Any, mutant: Mutant) -> None:
    if mutant.killer.startswith("equivalent"):
        dropped = mutant.killer.removeprefix("equivalent").removeprefix(" but for ")
        original = edges_of(faults, mutant, dropped)
        with faults.applied(mutant):
            assert edges_of(faults, mutant, dropped) == original
        return
    world = world_of(faults, mutant)
    claims = faults.WORLD.claims(law(mutant.profile, mutant.session_format), faults.BOUNDS[mutant.bound])
    chosen: dict[str, Any] = {
        kind: [claim for claim in getattr(claims, kind) if claim.name == mutant.killer]
        for kind in ("invariants", "steps", "sometimes")
    }
    assert sum(map(len, chosen.values())) == 1
    with faults.applied(mutant):
        exploration = explore(world, is_final=lambda node: True, stop_at_first=True, **chosen)
    assert exploration.verdicts[mutant.killer] is Verdict.FAIL, (
        f"{mutant.sentence} Nobody noticed in {len(exploration.states)} states."
    )


@pytest.mark.parametrize("machine", MACHINES)
def test_mutants_have_names_of_their_own(machine: str) -> None:
    names = [mutant.name for mutant in MACHINES[machine].MUTANTS]
    assert len(set(names)) == len(names)


def test_the_page_of_mutants_is_current() -> None:
    assert PAGE.read_text() == mutant_table.page(), "to write it again: .venv/bin/python -m tests.spec.mutant_table"
