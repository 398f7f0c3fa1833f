"""Exhaustive search: it finds everything, nothing else, by shortest runs, and says when it did not see it all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from tests.spec.kernel_copy import Kernel, for_all
from tests.spec.naive import Moves, distances, edges_of, graphs
from tests.spec.toys import CANCELLED_STAYS_OUT, DONE_GROWS, NO_DOUBLE, Inbox, InboxState, Table

from loopspec.kernel.claims import Invariant, Sometimes, SometimesStep, Step
from loopspec.kernel.report import Progress
from loopspec.kernel.synthetic import Odometer, Wheels
from loopspec.kernel.system import Label


def never(number: int) -> Invariant[int]:
    """Claim that a state is not reachable."""
    return Invariant(f"never {number}", f"State {number} is not reachable.", lambda node: node != number)


def anywhere(node: object) -> bool:
    """Allow stopping everywhere."""
    return True


# -- counting


@pytest.mark.parametrize(
    ("messages", "states", "transitions", "depth"),
    [(3, 884, 2484, 10), (4, 6817, 23889, 12)],
)
def test_inbox_has_the_published_counts(
    kernel: Kernel, messages: int, states: int, transitions: int, depth: int
) -> None:
    """N = 3 and N = 4 agree with the counts that three model checkers gave (they count states, so depth + 1)."""
    result = kernel.explore(
        Inbox(messages), invariants=[NO_DOUBLE, CANCELLED_STAYS_OUT], steps=[DONE_GROWS], is_final=anywhere
    )
    assert (len(result.states), result.transitions, result.depth) == (states, transitions, depth)
    assert result.complete
    assert result.verdict.name == "PASS"


def test_wheels_have_the_counts_of_their_formula(kernel: Kernel) -> None:
    result = kernel.explore(Wheels(4, 3))
    assert (len(result.states), result.transitions, result.depth) == (3**4, 4 * 3**4, 4 * 2)


class Colliding:
    """Two states that are different and have the same hash: -1 and -2, alone and in tuples."""

    def initial(self) -> list[tuple[int, int]]:
        return [(0, 0)]

    def moves(self, node: tuple[int, int]) -> Iterator[tuple[Label, tuple[int, int]]]:
        if node[0] > -2:
            yield "down", (node[0] - 1, 0)


def test_equal_hashes_are_not_equal_states(kernel: Kernel) -> None:
    assert hash((-1, 0)) == hash((-2, 0))
    assert kernel.explore(Colliding()).states == ((0, 0), (-1, 0), (-2, 0))


@for_all(graphs(8))
def test_every_reachable_state_is_found_at_its_distance(kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]]) -> None:
    moves, initial = drawn
    result = kernel.explore(Table(moves, initial), keep_edges=True)
    expected = distances(moves, initial)
    assert set(result.states) == set(expected)
    assert len(result.states) == len(set(result.states))
    assert {node: len(result.path_to(index)) for index, node in enumerate(result.states)} == expected
    assert result.depth == max(expected.values())
    reachable = [edge for edge in edges_of(moves) if edge[0] in expected]
    assert result.transitions == len(reachable)
    assert sorted(result.graph.edges()) == sorted(reachable)
    for index in range(len(result.states)):
        check_run(result.path_to(index), moves, initial)


def check_run(path: object, moves: Moves, initial: tuple[int, ...]) -> None:
    """Check move by move that a path is a run of the table."""
    node = path.start  # type: ignore[attr-defined]
    assert node in initial
    for label, target in path.steps:  # type: ignore[attr-defined]
        assert (label, target) in moves[node]
        node = target


# -- claims


@for_all(graphs(8), st.integers(0, 7))
def test_broken_invariants_come_with_a_shortest_run(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], bad: int
) -> None:
    moves, initial = drawn
    result = kernel.explore(Table(moves, initial), invariants=[never(bad)], is_final=anywhere)
    expected = distances(moves, initial)
    found = result.violation(f"never {bad}")
    assert (found is not None) == (bad in expected)
    assert result.verdict.name == ("FAIL" if bad in expected else "PASS")
    if found is not None:
        assert found.path.end == bad
        assert len(found.path) == expected[bad]
        check_run(found.path, moves, initial)


@for_all(graphs(7), st.integers(0, 6), st.integers(0, 6))
def test_broken_steps_come_with_a_shortest_run(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], source: int, target: int
) -> None:
    moves, initial = drawn
    claim = Step[int]("s", "No such move.", lambda node, label, after: (node, after) != (source, target))
    result = kernel.explore(Table(moves, initial), steps=[claim], is_final=anywhere)
    expected = distances(moves, initial)
    exists = source in expected and any(end == target for _, end in moves.get(source, ()))
    found = result.violation("s")
    assert (found is not None) == exists
    if found is not None:
        assert (found.path.before_end, found.path.end) == (source, target)
        assert len(found.path) == expected[source] + 1
        check_run(found.path, moves, initial)


@for_all(graphs(7), st.sets(st.integers(0, 6)))
def test_deadlocks_are_the_stuck_states_that_may_not_stop(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], final: set[int]
) -> None:
    moves, initial = drawn
    result = kernel.explore(Table(moves, initial), is_final=lambda node: node in final)
    expected = distances(moves, initial)
    stuck = {node for node in expected if node not in moves and node not in final}
    assert {result.states[index] for index in result.deadlocks} == stuck
    found = result.violation("no deadlock")
    assert (found is not None) == bool(stuck)
    if found is not None:
        assert len(found.path) == min(expected[node] for node in stuck)
        assert found.path.end in stuck


@for_all(graphs(7), st.integers(0, 6), st.sampled_from("abc"))
def test_sometimes_comes_with_a_shortest_witness(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], wanted: int, wanted_label: str
) -> None:
    moves, initial = drawn
    state = Sometimes[int]("state", "It gets there.", lambda node: node == wanted)
    step = SometimesStep[int]("step", "It moves so.", lambda node, label, after: label == wanted_label)
    result = kernel.explore(Table(moves, initial), sometimes=[state, step], is_final=anywhere)
    expected = distances(moves, initial)
    row = result.reached("state")
    assert row.verdict.name == ("PASS" if wanted in expected else "FAIL")
    assert (row.witness and len(row.witness)) == expected.get(wanted)
    starts = [expected[source] for source, label, _ in edges_of(moves) if source in expected and label == wanted_label]
    row = result.reached("step")
    assert row.verdict.name == ("PASS" if starts else "FAIL")
    if row.witness is not None:
        assert row.witness.last_label == wanted_label
        assert len(row.witness) == min(starts) + 1
        check_run(row.witness, moves, initial)


def test_a_first_state_can_break_a_claim(kernel: Kernel) -> None:
    result = kernel.explore(Table({}), invariants=[never(0)], sometimes=[Sometimes("s", "s", lambda node: node == 0)])
    found = result.violation("never 0")
    assert len(found.path) == 0
    assert found.last_action is None
    assert found.path.before_end is None
    assert len(result.violation("no deadlock").path) == 0
    assert len(result.reached("s").witness) == 0


def test_a_step_is_checked_on_a_move_to_its_own_state(kernel: Kernel) -> None:
    claim = Step[int]("moves on", "A move changes the state.", lambda node, label, after: node != after)
    result = kernel.explore(Table({0: [("stay", 0)]}), steps=[claim])
    assert result.violation("moves on").path.steps == (("stay", 0),)
    assert result.violation("no deadlock") is None


def test_a_step_is_checked_on_a_move_to_a_known_state(kernel: Kernel) -> None:
    claim = Step[int]("up", "Numbers grow.", lambda node, label, after: after > node)
    result = kernel.explore(Table({0: [("a", 1)], 1: [("back", 0)]}), steps=[claim])
    assert result.violation("up").path.labels == ("a", "back")


def test_a_report_carries_reason_values_and_last_action(kernel: Kernel) -> None:
    result = kernel.explore(Inbox(2, "cancel keeps"), invariants=[CANCELLED_STAYS_OUT], is_final=anywhere)
    found = result.violation("cancelled stays out")
    assert found.kind == "invariant"
    assert found.sentence == "A cancelled message is never claimed."
    assert found.reason == "claimed: [0]"
    assert found.last_action == "claim"
    assert found.values["phase"] == "delivering"
    assert found.values["batch"] == (0,)
    # Post, cancel, wake, claim: no shorter run can do it.
    assert len(found.path) == 4


def test_each_claim_gets_its_own_shortest_violation(kernel: Kernel) -> None:
    table = Table({0: [("a", 1)], 1: [("b", 2)], 2: [("c", 3)]})
    small = [Invariant[int](f"below {n}", "Small.", lambda node, n=n: node < n) for n in (2, 1)]  # type: ignore[misc]
    growing = Step[int]("shrinks", "Numbers shrink.", lambda node, label, after: after < node)
    result = kernel.explore(table, invariants=small, steps=[growing], is_final=anywhere)
    assert {found.name: len(found.path) for found in result.violations} == {"below 1": 1, "below 2": 2, "shrinks": 1}
    assert len(result.violations) == 3
    assert result.complete
    assert result.verdicts["no deadlock"].name == "PASS"


def test_the_first_violation_can_end_the_search(kernel: Kernel) -> None:
    table = Table({0: [("a", 1)], 1: [("b", 2)], 2: [("c", 3)]})
    result = kernel.explore(table, invariants=[never(1), never(2)], stop_at_first=True)
    assert [found.name for found in result.violations] == ["never 1"]
    assert not result.complete
    assert result.verdict.name == "FAIL"
    assert result.verdicts["never 2"].name == "UNDETERMINED"


# -- limits


@for_all(graphs(8), st.integers(0, 9))
def test_max_states_is_incomplete_only_when_something_is_left_out(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], limit: int
) -> None:
    moves, initial = drawn
    result = kernel.explore(Table(moves, initial), max_states=limit, is_final=anywhere, keep_edges=True)
    reachable = len(distances(moves, initial))
    assert result.complete == (reachable <= limit)
    assert len(result.states) == min(limit, reachable)
    assert result.verdict.name == ("PASS" if result.complete else "UNDETERMINED")
    assert result.graph.complete == result.complete
    assert len(result.graph.first) == len(result.states) + 1


@for_all(graphs(8), st.integers(0, 8))
def test_max_depth_is_incomplete_only_when_something_is_left_out(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], limit: int
) -> None:
    moves, initial = drawn
    result = kernel.explore(Table(moves, initial), max_depth=limit, keep_edges=True)
    expected = distances(moves, initial)
    inside = {node for node, distance in expected.items() if distance <= limit}
    assert result.complete == (inside == set(expected))
    assert set(result.states) == inside
    kept = [edge for edge in edges_of(moves) if edge[0] in inside and edge[2] in inside]
    assert sorted(result.graph.edges()) == sorted(kept)
    # A state whose moves were only left out is not stuck.
    assert {result.states[index] for index in result.deadlocks} == {n for n in inside if n not in moves}


def test_unreached_is_a_failure_only_when_everything_was_seen(kernel: Kernel) -> None:
    table = Table({0: [("a", 1)], 1: [("b", 2)]})
    claim = Sometimes[int]("nine", "It gets to nine.", lambda node: node == 9)
    assert kernel.explore(table, sometimes=[claim], is_final=anywhere).verdict.name == "FAIL"
    cut = kernel.explore(table, sometimes=[claim], is_final=anywhere, max_depth=1)
    assert cut.verdict.name == "UNDETERMINED"
    assert cut.reached("nine").verdict.name == "UNDETERMINED"
    assert "max_depth" in cut.why_incomplete


def test_a_violation_within_the_limit_is_still_a_violation(kernel: Kernel) -> None:
    table = Table({0: [("a", 1)], 1: [("b", 2)]})
    assert kernel.explore(table, invariants=[never(1)], max_depth=1).verdict.name == "FAIL"


def test_progress_counts_and_can_stop(kernel: Kernel) -> None:
    seen: list[Progress] = []
    result = kernel.explore(Wheels(3, 3), progress=seen.append, progress_every=10)
    assert [look.expanded for look in seen] == [10, 20]
    assert all(look.transitions == 3 * look.expanded for look in seen)
    assert all(look.found >= look.expanded and look.frontier == look.found - look.expanded for look in seen)
    assert result.complete
    stopped = kernel.explore(Wheels(3, 3), progress=lambda look: False, progress_every=10)
    assert (stopped.expanded, stopped.verdict.name) == (10, "UNDETERMINED")
    assert "caller" in stopped.why_incomplete


# -- mistakes of the caller


class NoStart:
    """A system that cannot begin."""

    def initial(self) -> list[int]:
        return []

    def moves(self, node: int) -> list[tuple[Label, int]]:
        return []


def test_nothing_to_explore_is_an_error(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="no first state"):
        kernel.explore(NoStart())


def test_two_claims_of_one_name_are_an_error(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="never 1"):
        kernel.explore(Table({}), invariants=[never(1), never(1)])


@pytest.mark.parametrize("answer", [None, "", 0, 1, ()])
def test_a_predicate_that_does_not_answer_is_an_error(kernel: Kernel, answer: object) -> None:
    claim = Invariant[int]("odd", "Odd.", lambda node: answer)  # type: ignore[arg-type,return-value]
    with pytest.raises(kernel.ExplorationError, match="'odd' answered"):
        kernel.explore(Table({}), invariants=[claim])


def test_an_error_in_a_rule_tells_the_run(kernel: Kernel) -> None:
    class Fragile(Table):
        def moves(self, node: int) -> list[tuple[Label, int]]:
            if node == 2:
                raise KeyError("steer")
            return list(super().moves(node))

    with pytest.raises(kernel.ExplorationError, match=r"KeyError after 2 moves.*steer") as caught:
        kernel.explore(Fragile({0: [("a", 1)], 1: [("b", 2)]}))
    assert caught.value.path.labels == ("a", "b")
    assert isinstance(caught.value.__cause__, KeyError)


class Point(NamedTuple):
    """A state with named fields."""

    x: int


def test_values_have_names_when_the_state_has(kernel: Kernel) -> None:
    assert kernel.values_of(Point(3)) == {"x": 3}
    assert kernel.values_of(7) == {"node": 7}


def test_types_of_the_toys() -> None:
    """The toys fit the protocol (this is what the type checker reads)."""
    states: tuple[InboxState] = Inbox(1).initial()
    wheels: tuple[Odometer] = Wheels(1, 1).initial()
    assert states
    assert wheels
