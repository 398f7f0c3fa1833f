"""Every named fault of the driver dies by the promise that it breaks, or changes no edge at all."""

from __future__ import annotations

import gc
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spec import mutant_table
from tests.spec.mutants_driver import BOUNDS, MUTANTS, applied
from tests.spec.mutation import Mutant

from loopspec.kernel.explore import explore
from loopspec.profile import law
from loopspec.worlds import driver_world
from loopspec.worlds.world import Node, edge_digest

PAGE = Path(__file__).parents[2] / "spec" / "MUTANTS.md"


def edges_of(mutant: Mutant, dropped: str) -> str:
    """The digest of the graph at the mutant's bound, without the field `dropped` of the core (empty: with all).

    States that differ in the dropped field alone become one; that they have the same moves to the same states is
    checked, so that equal digests mean bisimilar graphs.
    """
    world = driver_world.world(law(mutant.profile, mutant.session_format), BOUNDS[mutant.bound])
    exploration = explore(world, is_final=world.is_final, keep_edges=True)
    assert exploration.complete
    graph = exploration.graph
    assert graph is not None
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


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_dies_by_its_promise_or_changes_nothing(mutant: Mutant) -> None:
    gc.disable()
    try:
        if mutant.killer.startswith("equivalent"):
            dropped = mutant.killer.removeprefix("equivalent").removeprefix(" but for ")
            original = edges_of(mutant, dropped)
            with applied(mutant):
                assert edges_of(mutant, dropped) == original
            return
        its_law, limits = law(mutant.profile, mutant.session_format), BOUNDS[mutant.bound]
        world, claims = driver_world.world(its_law, limits), driver_world.claims(its_law, limits)
        with applied(mutant):
            exploration = explore(
                world,
                invariants=[claim for claim in claims.invariants if claim.name == mutant.killer],
                steps=[claim for claim in claims.steps if claim.name == mutant.killer],
                is_final=lambda node: True,
                stop_at_first=True,
            )
        killed = exploration.violation(mutant.killer)
        assert killed is not None, f"{mutant.sentence} Nobody noticed in {len(exploration.states)} states."
        print(f"{mutant.name}: {mutant.killer} after {len(killed.path)} moves")
    finally:
        gc.enable()


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_the_page_of_mutants_is_current() -> None:
    assert PAGE.read_text() == mutant_table.page(), "to write it again: .venv/bin/python -m tests.spec.mutant_table"
