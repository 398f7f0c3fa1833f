"""What the product of creation leaves out is left out with reason: names, unread orders, and unnoticed answers.

At bounds that are small enough the whole is explored as well, and compared. `LOOPSPEC_LONG=1` explores the product
itself (`make explore-pins`) and compares it with what is pinned here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from loopspec.kernel.canonical import soundness_gate
from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.machine import Config
from loopspec.kernel.report import Exploration
from loopspec.profile import Profile, law
from loopspec.properties.creation import INVARIANTS
from loopspec.properties.creation_explorations import LARGE, MIXED, exploring, ingredients, rests
from loopspec.transaction import Creation
from loopspec.worlds import creation_symmetry as symmetry
from loopspec.worlds.creation_orders import FewOrders, unsound
from loopspec.worlds.creation_past import Past, Small
from loopspec.worlds.creation_symmetry import NUMBERS, AnyNames, OneName, canonical, folded
from loopspec.worlds.creation_world import CreationWorld, bound
from loopspec.worlds.world import Left, Node, edge_digest

BOUNDS = {
    "names": bound("names", 1, creates=2, ids=2, callers=2),
    "unloads": bound("unloads", 1, creates=2, ids=1, callers=2, unloads=1),
    "listens": bound("listens", 1, creates=2, ids=1, callers=1, disposals=1, inner=1),
    "three": bound("three", 1, creates=3, ids=1, callers=1, disposals=1),
}
LONG = os.environ.get("LOOPSPEC_LONG") == "1"
CHOSEN = tuple(name for name in BOUNDS if LONG or name != "three")
"""Without `LOOPSPEC_LONG=1` those that take a second or two."""

Kind = type[AnyNames]


class Unfolded(AnyNames):
    """Any names, but no transaction's number twice; and nothing is forgotten."""

    def _free(self, core: Creation, left: Left) -> list[int]:
        rest = left[self._index["creates"]]
        return [NUMBERS + 1 + self._start[self._index["creates"]] - rest] if rest else []

    def _to(
        self, before: Config[Creation], label: Small, after: Config[Creation], left: Left, past: Past
    ) -> tuple[Small, Node]:
        return CreationWorld._to(self, before, label, after, left, past)


def world(kind: Kind, name: str) -> AnyNames:
    """One of the worlds within a bound."""
    return kind(law("seed"), MIXED._replace(fibers=("caller",)), BOUNDS[name])


EXPLORED: dict[tuple[str, str], Exploration[Node]] = {}


def explored(kind: Kind, name: str) -> Exploration[Node]:
    """All of it, with every claim."""
    key = (kind.__name__, name)
    if key not in EXPLORED:
        EXPLORED[key] = explore(world(kind, name), invariants=INVARIANTS, is_final=rests)
    return EXPLORED[key]


# --- names ---------------------------------------------------------------------------------------------------


def one_of_all(node: Node) -> Node:
    """The state that stands for one of the unfolded world."""
    return canonical(folded(node))


@pytest.mark.parametrize("kind", [AnyNames, Unfolded])
@pytest.mark.parametrize("name", ["names", "unloads"])
def test_the_quotient_of_the_whole_is_the_reduced_graph(kind: Kind, name: str) -> None:
    full, reduced = explored(kind, name), explored(OneName, name)
    gate = soundness_gate(world(kind, name), one_of_all, full, reduced)
    assert gate.sound, gate.faults


@pytest.mark.parametrize("name", ["names", "unloads"])
def test_every_move_of_a_state_is_a_move_of_the_one_that_stands_for_it(name: str) -> None:
    whole, system = world(AnyNames, name), world(OneName, name)
    for node in explored(OneName, name).states:
        assert {canonical(after) for _, after in whole.moves(node)} == {after for _, after in system.moves(node)}


@pytest.mark.parametrize("name", ["names", "unloads"])
def test_the_reduced_graph_tells_how_many_states_the_whole_has(name: str) -> None:
    reduced, system = explored(OneName, name), world(OneName, name)
    assert isinstance(system, OneName)
    assert sum(map(system.stands_for, reduced.states)) == len(explored(AnyNames, name).states)


@pytest.mark.parametrize(
    "fault",
    [
        lambda node: renamed_everywhere(node, {symmetry.IDS + 2: symmetry.IDS + 1}),
        lambda node: renamed_everywhere(node, {symmetry.CALLERS + 2: symmetry.CALLERS + 1}),
        lambda node: node._replace(memory=node.memory.put(stories=())),
    ],
    ids=["two ids are one", "two callers are one", "the past is forgotten"],
)
def test_the_gate_notices_when_too_much_is_folded(fault: Callable[[Node], Node]) -> None:
    full, reduced = explored(AnyNames, "names"), explored(OneName, "names")
    assert not soundness_gate(world(AnyNames, "names"), lambda node: fault(canonical(node)), full, reduced).sound


def renamed_everywhere(node: Node, names: dict[int, int]) -> Node:
    """The state under other names, which need not be different ones."""
    return symmetry.renamed(node, names)


# --- orders --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CHOSEN)
def test_unnoticed_answers_commute_with_everything(name: str) -> None:
    system = world(FewOrders, name)
    assert isinstance(system, FewOrders)
    assert [why for why in (unsound(system, node) for node in explored(OneName, name).states) if why] == []


@pytest.mark.parametrize("name", CHOSEN)
def test_without_those_orders_the_same_is_true(name: str) -> None:
    all_orders, few = explored(OneName, name), explored(FewOrders, name)
    assert set(few.states) <= set(all_orders.states)
    assert few.verdicts == all_orders.verdicts
    ends = {node for node in all_orders.states if not list(world(OneName, name).moves(node))}
    assert {node for node in few.states if not list(world(FewOrders, name).moves(node))} == ends


@pytest.mark.parametrize("point", ["setup", "drain", "scope"])
def test_answers_that_somebody_may_notice_are_found_out(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain while agents are created, or a scope that somebody's id waits for, does not commute."""
    monkeypatch.setattr(FewOrders, "may_be_unnoticed", lambda self, node, found: found[0] == point)
    system = world(FewOrders, "listens")
    assert isinstance(system, FewOrders)
    assert any(unsound(system, node) for node in explored(OneName, "listens").states)


# --- the product ---------------------------------------------------------------------------------------------

PRODUCT: dict[tuple[str, Profile], tuple[int, int, int, int, str]] = {
    ("product", "seed"): (
        177_200, 278_558, 36, 4_247_457, "c23d6fc9415a9e6405b693dec8046fcb8d17fa160fe954101255508c580b5658",
    ),
    ("product", "dsh-0.1"): (
        187_764, 295_453, 36, 4_472_937, "f75973f5b089769c1531389fce6b785879b7c164a38a999363bd75247692cb3d",
    ),
    ("product unloads", "seed"): (
        1_107_434, 1_952_564, 39, 26_544_919, "20657c7b21efafe6543cf515cdd76f50e2a3a7e07bbb96569c46804e1f1642ff",
    ),
}  # fmt: skip
"""States, moves, depth, the states of the whole that differ in names, and the digest of the edges."""


def test_the_product_mixes_everything() -> None:
    for plan in LARGE.values():
        assert len(ingredients(plan)) == 7


@pytest.mark.skipif(not LONG, reason="takes minutes; run `make explore-pins`")
@pytest.mark.parametrize(("name", "profile"), PRODUCT)
def test_the_product_is_the_pinned_one(name: str, profile: Profile) -> None:
    system, claims, its_bound = exploring(LARGE[name], profile)
    assert isinstance(system, OneName)
    found = explore(system, **claims._asdict(), bound=its_bound, keep_edges=True)
    assert found.complete
    assert found.verdict is Verdict.PASS, found.violations
    whole = sum(map(system.stands_for, found.states))
    graph: Any = found.graph
    counts = (len(found.states), found.transitions, found.depth, whole)
    assert (*counts, edge_digest(graph)) == PRODUCT[name, profile]
