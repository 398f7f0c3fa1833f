"""The five liveness claims of creation, on graphs with runs of any length."""

from __future__ import annotations

from collections import deque
from functools import cache
from typing import Any

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import Graph
from loopspec.kernel.liveness import check_leads_to
from loopspec.properties.creation_explorations import exploring
from loopspec.properties.creation_liveness import (
    HANGING,
    SETTLING,
    WAITING,
    endless,
    fairness,
    is_entangled,
    stuck_only_by_itself,
    unloading,
    waits_in_vain,
)
from loopspec.worlds.world import Node


@cache
def endless_graph() -> Graph[Node]:
    """The complete graph of creations without end."""
    found = explore(endless(), is_final=lambda node: True, keep_edges=True)
    assert found.complete
    assert (len(found.states), found.transitions) == (12651, 44185)
    assert found.graph is not None
    return found.graph


def test_liv1_a_create_settles_when_its_setup_does() -> None:
    for result in check_leads_to(endless_graph(), SETTLING, fairness(settles=True)):
        assert (result.verdict, result.vacuous, result.unmatched) == (Verdict.PASS, None, frozenset())


def test_liv1_needs_the_settling_of_setups() -> None:
    """The control: without that promise the claim fails, so it does not hold for want of runs."""
    for result in check_leads_to(endless_graph(), SETTLING, fairness(settles=False)):
        assert result.verdict is Verdict.FAIL


def test_liv1_liv2_and_liv4_although_setups_hang() -> None:
    for result in check_leads_to(endless_graph(), HANGING, fairness(settles=False)):
        assert (result.name, result.verdict, result.vacuous) == (result.name, Verdict.PASS, None)


def test_liv3_an_id_can_always_be_used_again() -> None:
    """From every state in which the provider still works, some run leads to a live agent."""
    graph = endless_graph()
    sources: dict[int, list[int]] = {}
    goals: set[int] = set()
    for index in range(len(graph.states)):
        for label, target in graph.moves(index):
            sources.setdefault(target, []).append(index)
            if any(small[1] == "resolve" for small in graph.labels[label]):  # type: ignore[index]
                goals.add(index)
    reached, queue = set(goals), deque(goals)
    while queue:
        for source in sources.get(queue.popleft(), ()):
            if source not in reached:
                reached.add(source)
                queue.append(source)
    working = {i for i, node in enumerate(graph.states) if node.config.core.fibers[1] == "active"}
    assert working
    assert working <= reached
    assert any(unloading(graph.states[i]) for i in range(len(graph.states)) if i not in reached)


def test_liv5_the_only_deadlocks_are_activities_that_wait_for_themselves() -> None:
    system, claims, bound = exploring(WAITING)
    found: Any = explore(
        system, invariants=claims.invariants, is_final=stuck_only_by_itself, bound=bound, keep_edges=True
    )
    assert found.complete
    assert [name for name, verdict in found.verdicts.items() if verdict is not Verdict.PASS] == []
    stuck = [node for index, node in enumerate(found.states) if not list(found.graph.moves(index))]
    kinds = {t.awaits[0] for node in stuck if is_entangled(node) for t in node.config.core.members if t.awaits}
    assert kinds == {"agent", "fiber"}
    for node in stuck:
        for t in node.config.core.members:
            assert not t.awaits or is_entangled(node) or waits_in_vain(node)
