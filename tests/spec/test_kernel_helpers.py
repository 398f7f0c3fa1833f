"""Budgets, monitors, folding and its gate, random walks and edge covers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.spec.kernel_copy import Kernel, for_all
from tests.spec.naive import Moves, distances, edges_of, graphs
from tests.spec.toys import Inbox, InboxState, Table

from loopspec.kernel.budget import Monitor, Watched
from loopspec.kernel.claims import Invariant
from loopspec.kernel.explore import explore
from loopspec.kernel.graph import Graph
from loopspec.kernel.system import Label, N, System


def anywhere(node: object) -> bool:
    """Allow stopping everywhere."""
    return True


def graph(system: System[N]) -> Graph[N]:
    """Explore completely and return the graph."""
    result = explore(system, is_final=anywhere, keep_edges=True)
    assert result.graph is not None
    return result.graph


# -- budgets


class Counter:
    """Counts up and down without end."""

    def initial(self) -> list[int]:
        return [0]

    def moves(self, node: int) -> list[tuple[Label, int]]:
        return [("up", node + 1), ("down", node - 1), (("rest",), node)]


def price(label: Label) -> str | list[str] | None:
    """Let a move up cost one coin, and a move down two."""
    if label == "up":
        return "coins"
    return ["coins", "coins"] if label == "down" else None


def test_a_budget_makes_an_endless_system_finite(kernel: Kernel) -> None:
    bounded = kernel.Bounded(Counter(), {"coins": 3}, price)
    result = explore(bounded, is_final=anywhere)
    assert result.complete
    seen = {(node.state, node.left[0]) for node in result.states}
    assert seen == {(0, 3), (1, 2), (2, 1), (3, 0), (-1, 1), (0, 0)}


def test_what_cannot_be_paid_for_is_not_offered(kernel: Kernel) -> None:
    bounded = kernel.Bounded(Counter(), {"coins": 1, "other": 0}, price)
    (start,) = bounded.initial()
    assert [label for label, _ in bounded.moves(start)] == ["up", ("rest",)]
    spent = start._replace(left=(0, 0))
    assert [label for label, _ in bounded.moves(spent)] == [("rest",)]
    assert bounded.left(start, "coins") == 1
    assert bounded.left(start, "other") == 0


def test_wrong_budgets_are_errors(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="negative"):
        kernel.Bounded(Counter(), {"coins": -1}, price)
    bounded = kernel.Bounded(Counter(), {"stamps": 1}, price)
    (start,) = bounded.initial()
    with pytest.raises(ValueError, match=r"'up' costs \['coins'\]"):
        list(bounded.moves(start))


def test_monitors_remember_beside_the_state(kernel: Kernel) -> None:
    """How often it went up, and the highest number so far."""
    ups = Monitor[int]("ups", lambda state: 0, lambda memory, label, after: memory + (label == "up"))
    top = Monitor[int]("top", lambda state: state, lambda memory, label, after: max(memory, after))
    bounded = kernel.Bounded(Counter(), {"coins": 4}, price, [ups, top])
    result = explore(
        bounded,
        invariants=[
            Invariant[Watched[int]]("two", "Not twice up.", lambda node: bool(bounded.memory(node, "ups") < 2)),
            Invariant[Watched[int]](
                "past", "It is never below its past.", lambda node: bool(bounded.memory(node, "top") == node.state)
            ),
        ],
        is_final=anywhere,
    )
    two, past = result.violation("two"), result.violation("past")
    assert two is not None
    assert past is not None
    assert two.path.labels == ("up", "up")
    assert past.path.labels == ("down",)
    assert past.path.end.memories == (0, 0)


def test_a_restricted_system_lacks_states_and_the_moves_to_them(kernel: Kernel) -> None:
    restricted = kernel.Restricted(Counter(), lambda node: 0 <= node <= 2)
    result = explore(restricted, is_final=anywhere)
    assert result.complete
    assert set(result.states) == {0, 1, 2}
    assert result.transitions == 3 + 4


# -- folding


def fold_inbox(node: InboxState) -> InboxState:
    """Number messages by first appearance: the order of all queues is behaviour, the cancelled ones are a set."""
    from loopspec.kernel.canonical import names_in_order

    names = names_in_order((node.done, node.batch, node.steers, node.followups, sorted(node.cancelled)), first=0)

    def renamed(ids: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(names[one] for one in ids)

    return node._replace(
        done=renamed(node.done),
        batch=renamed(node.batch),
        steers=renamed(node.steers),
        followups=renamed(node.followups),
        cancelled=frozenset(names[one] for one in node.cancelled),
    )


def fold_too_much(node: InboxState) -> InboxState:
    """Forget which messages are cancelled, so that they can be posted again."""
    return fold_inbox(node._replace(cancelled=frozenset()))


@pytest.mark.parametrize(("messages", "states"), [(3, 166), (6, 1208)])
def test_folding_has_the_published_counts(kernel: Kernel, messages: int, states: int) -> None:
    """The counts that another model checker gave with its own symmetry reduction."""
    result = explore(kernel.renamed(Inbox(messages), fold_inbox), is_final=anywhere)
    assert len(result.states) == states


def run_gate(kernel: Kernel, fold: Any, predicates: Any = ()) -> Any:
    """Explore the inbox of three messages in full and folded, and compare."""
    system = Inbox(3)
    full = explore(system, is_final=anywhere)
    reduced = explore(kernel.renamed(system, fold), is_final=anywhere)
    return kernel.soundness_gate(system, fold, full, reduced, predicates)


def test_the_gate_lets_a_sound_fold_through(kernel: Kernel) -> None:
    gate = run_gate(kernel, fold_inbox, [lambda node: len(node.waiting), lambda node: node.phase])
    assert gate.faults == ()
    assert gate.sound
    assert (gate.full_states, gate.reduced_states) == (884, 166)


def test_the_gate_stops_a_fold_that_changes_behaviour(kernel: Kernel) -> None:
    gate = run_gate(kernel, fold_too_much)
    assert not gate.sound
    assert any("moves otherwise" in fault for fault in gate.faults)


def test_the_gate_stops_a_fold_that_hides_what_a_claim_looks_at(kernel: Kernel) -> None:
    gate = run_gate(kernel, fold_inbox, [lambda node: 2 in node.waiting])
    assert len(gate.faults) == 1
    assert "Predicate 0" in gate.faults[0]


def test_the_gate_stops_a_fold_that_is_not_stable(kernel: Kernel) -> None:
    def swap(node: int) -> int:
        return {1: 2, 2: 1}.get(node, node)

    system = Table({0: [("a", 1), ("a", 2)]})
    full = explore(system, is_final=anywhere)
    reduced = explore(kernel.renamed(system, swap), is_final=anywhere)
    assert any("own result" in fault for fault in kernel.soundness_gate(system, swap, full, reduced).faults)


def test_the_gate_compares_verdicts(kernel: Kernel) -> None:
    def identity(node: int) -> int:
        return node

    system = Table({0: [("a", 1)]})
    claim = Invariant[int]("c", "Never one.", lambda node: node != 1)
    full = explore(system, invariants=[claim], is_final=anywhere)
    other = explore(system, invariants=[Invariant[int]("c", "-", lambda node: True)], is_final=anywhere)
    (fault,) = kernel.soundness_gate(system, identity, full, other).faults
    assert "Verdicts differ for ['c']" in fault


def test_the_gate_compares_reached_states(kernel: Kernel) -> None:
    def identity(node: int) -> int:
        return node

    system = Table({0: [("a", 1)]})
    full = explore(system, is_final=anywhere)
    other = explore(Table({0: [("a", 0)]}), is_final=anywhere)
    (fault,) = kernel.soundness_gate(system, identity, full, other).faults
    assert "Other states" in fault


def test_the_gate_wants_complete_explorations(kernel: Kernel) -> None:
    full = explore(Inbox(2), is_final=anywhere)
    cut = explore(Inbox(2), is_final=anywhere, max_states=5)
    with pytest.raises(ValueError, match="reduced exploration is incomplete"):
        kernel.soundness_gate(Inbox(2), fold_inbox, full, cut)


def test_renaming_by_first_appearance(kernel: Kernel) -> None:
    assert kernel.rename_in_order(((7, 3), (), (3, 9))) == ((1, 2), (), (2, 3))
    assert kernel.rename_in_order((("b", "a"), ("a",)), first=0) == ((0, 1), (1,))
    assert kernel.fold_counter(2, 3) == 2
    assert kernel.fold_counter(9, 3) == 3


# -- walks


@for_all(graphs(6), st.lists(st.integers(0, 100), min_size=8, max_size=8))
def test_a_walk_is_a_run_and_stops_only_when_stuck(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], numbers: list[int]
) -> None:
    moves, initial = drawn
    choices = iter(numbers)
    path = kernel.walk(Table(moves, initial), lambda count: next(choices) % count, 7)
    node = path.start
    assert node in initial
    for label, target in path.steps:
        assert (label, target) in moves[node]
        node = target
    assert len(path) == 7 or node not in moves


def test_a_walk_makes_the_moves_that_were_chosen(kernel: Kernel) -> None:
    moves = {0: [("a", 1), ("b", 2)], 2: [("c", 0)]}
    asked: list[int] = []

    def last(count: int) -> int:
        asked.append(count)
        return count - 1

    assert kernel.walk(Table(moves), last, 3).labels == ("b", "c", "b")
    assert asked == [1, 2, 1, 2]


@pytest.mark.parametrize("answer", [-1, 1])
def test_a_choice_that_is_none_is_an_error(kernel: Kernel, answer: int) -> None:
    with pytest.raises(ValueError, match="one of 1 possibilities"):
        kernel.walk(Table({}), lambda count: answer, 3)


# -- covers


@for_all(graphs(7), st.none() | st.integers(1, 6))
def test_a_cover_makes_every_move_and_keeps_to_its_length(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], most: int | None
) -> None:
    moves, initial = drawn
    cover = kernel.edge_cover(graph(Table(moves, initial)), lambda source, label: (source, label), most)
    reached = distances(moves, initial)
    expected = {(source, label) for source, label, _ in edges_of(moves) if source in reached}
    made = set()
    for path in cover.paths:
        assert path.start in initial
        node = path.start
        for label, target in path.steps:
            assert (label, target) in moves[node]
            made.add((node, label))
            node = target
        last = (path.before_end, path.last_label)
        # Longer than allowed only when there is no shorter way to its last move.
        assert most is None or len(path) <= max(most, reached[last[0]] + 1)
    assert made == expected
    assert set(cover.classes) == expected
    assert len(cover.classes) == len(expected)


def test_a_cover_of_a_ring_is_one_run(kernel: Kernel) -> None:
    ring = graph(Table({0: [("a", 1)], 1: [("b", 2)], 2: [("c", 0)]}))
    cover = kernel.edge_cover(ring, lambda source, label: label)
    assert [path.labels for path in cover.paths] == [("a", "b", "c")]


def test_a_place_where_one_run_had_to_end_is_not_given_up(kernel: Kernel) -> None:
    """The first run has no room for d; the second comes by on a shorter way and has."""
    moves = {0: [("a", 1), ("e", 2)], 1: [("b", 2)], 2: [("c", 3)], 3: [("d", 4)]}
    cover = kernel.edge_cover(graph(Table(moves)), lambda source, label: label, 3)
    assert [path.labels for path in cover.paths] == [("a", "b", "c"), ("e", "c", "d")]


def test_every_run_of_a_cover_adds_a_class_at_its_end(kernel: Kernel) -> None:
    cover = kernel.edge_cover(graph(Inbox(2)), lambda source, label: (source.phase, label), 12)
    seen: set[Any] = set()
    for path in cover.paths:
        new = list(zip(path.nodes, path.labels, strict=False))
        classes = [(node.phase, label) for node, label in new]
        assert classes[-1] not in seen | set(classes[:-1])
        seen |= set(classes)
    assert len(seen) == len(cover.classes)
    assert len(cover.paths) < len(cover.classes) / 2


class Fork:
    """Two ways that never meet again."""

    def initial(self) -> Iterator[int]:
        return iter((0,))

    def moves(self, node: int) -> list[tuple[Label, int]]:
        return [("left", 1), ("right", 2)] if node == 0 else []


def test_a_cover_begins_again_when_nothing_is_ahead(kernel: Kernel) -> None:
    cover = kernel.edge_cover(graph(Fork()), lambda source, label: label)
    assert [path.labels for path in cover.paths] == [("left",), ("right",)]
