"""Leads-to: a broken claim has a fair lasso with a shortest stem, and a claim without one holds."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.spec.kernel_copy import Kernel, for_all
from tests.spec.naive import Moves, graphs, shortest_stem
from tests.spec.toys import ANSWERED, LOOP, Inbox, Table

from loopspec.kernel.explore import explore
from loopspec.kernel.graph import Graph
from loopspec.kernel.liveness import Fairness, LeadsTo
from loopspec.kernel.system import Label, N, System


def graph(system: System[N]) -> Graph[N]:
    """Explore completely and return the graph."""
    result = explore(system, is_final=lambda node: True, keep_edges=True)
    assert result.graph is not None
    return result.graph


def first_letter(label: Label) -> Hashable:
    """Use the first letter of a label as its fairness class; labels that begin with "u" have none."""
    return None if label[0] == "u" else label[0]


def fair(weak: str = "", strong: str = "") -> Fairness:
    """Declare classes of one letter each."""
    return Fairness(first_letter, frozenset(weak), frozenset(strong))


def gets_to(*goals: int, start: int = 0) -> LeadsTo[int]:
    """Claim that `start` leads to one of the goals."""
    return LeadsTo("gets there", "It gets there.", lambda node: node == start, lambda node: node in goals)


def check(kernel: Kernel, moves: Moves, claim: LeadsTo[int], fairness: Fairness) -> Any:
    """Decide one claim on a table."""
    (result,) = kernel.check_leads_to(graph(Table(moves)), [claim], fairness)
    return result


# -- one test per rule of fairness

POLL = {0: [("poll", 0), ("work", 1)]}
"""Work is possible all the time, but polling may go on instead."""

FLICKER = {0: [("tick", 1), ("work", 2)], 1: [("tock", 0)]}
"""Work is possible again and again, but not all the time."""


def test_without_fairness_a_run_may_just_end(kernel: Kernel) -> None:
    result = check(kernel, {0: [("work", 1)]}, gets_to(1), fair())
    assert result.verdict.name == "FAIL"
    assert result.lasso.ends
    assert len(result.lasso.stem) == 0


def test_a_fair_class_keeps_a_run_from_ending(kernel: Kernel) -> None:
    assert check(kernel, {0: [("work", 1)]}, gets_to(1), fair(weak="w")).verdict.name == "PASS"
    assert check(kernel, {0: [("work", 1)]}, gets_to(1), fair(strong="w")).verdict.name == "PASS"


def test_a_move_without_fairness_does_not_keep_a_run_from_ending(kernel: Kernel) -> None:
    """The environment may stop in 1, although it could move."""
    moves = {0: [("work", 1)], 1: [("user", 2)]}
    result = check(kernel, moves, gets_to(2), fair(weak="w"))
    assert result.lasso.ends
    assert result.lasso.stem.labels == ("work",)


def test_a_state_without_moves_before_q_breaks_the_claim(kernel: Kernel) -> None:
    result = check(kernel, {0: [("work", 1), ("walk", 2)]}, gets_to(1), fair(weak="w"))
    assert result.verdict.name == "FAIL"
    assert result.lasso.stem.labels == ("walk",)
    assert result.lasso.ends


def test_weak_fairness_rules_out_ignoring_what_is_always_possible(kernel: Kernel) -> None:
    """The cycle is a move from a state to itself."""
    assert check(kernel, POLL, gets_to(1), fair(weak="w")).verdict.name == "PASS"
    result = check(kernel, POLL, gets_to(1), fair(weak="p"))
    assert result.verdict.name == "FAIL"
    assert result.lasso.cycle.labels == ("poll",)
    assert not result.lasso.ends


def test_weak_fairness_does_not_help_what_flickers(kernel: Kernel) -> None:
    result = check(kernel, FLICKER, gets_to(2), fair(weak="wt"))
    assert result.verdict.name == "FAIL"
    assert result.lasso.cycle.labels == ("tick", "tock")


def test_strong_fairness_helps_what_flickers(kernel: Kernel) -> None:
    assert check(kernel, FLICKER, gets_to(2), fair(weak="t", strong="w")).verdict.name == "PASS"


def test_strong_fairness_removes_states_and_looks_again(kernel: Kernel) -> None:
    """Going round through 1 would be unfair to work; going round 0 and 2 only is fair."""
    moves = {0: [("tick", 1), ("tack", 2)], 1: [("work", 3), ("tock", 0)], 2: [("tock", 0)]}
    result = check(kernel, moves, gets_to(3), fair(weak="t", strong="w"))
    assert result.verdict.name == "FAIL"
    assert result.lasso.cycle.labels == ("tack", "tock")


def test_a_class_can_be_taken_without_getting_anywhere(kernel: Kernel) -> None:
    """Retrying takes the class `w`, so the scheduler owes nothing more."""
    moves = {0: [("work again", 0), ("work", 1)]}
    result = check(kernel, moves, gets_to(1), fair(strong="w"))
    assert result.lasso.cycle.labels == ("work again",)


def test_enabled_is_judged_by_moves_that_leave_too(kernel: Kernel) -> None:
    """All `w` moves lead to q; they still count as enabled in the cycle that avoids q."""
    moves = {0: [("tick", 1), ("work", 2)], 1: [("tock", 0), ("work", 2)]}
    assert check(kernel, moves, gets_to(2), fair(weak="wt")).verdict.name == "PASS"


def test_a_fair_cycle_takes_every_class_that_it_must(kernel: Kernel) -> None:
    """Two classes take turns; the lasso has to show both, though shorter cycles exist."""
    moves = {0: [("a", 1), ("b", 2), ("work", 3)], 1: [("u", 0)], 2: [("u", 0)]}
    result = check(kernel, moves, gets_to(3), fair(strong="ab"))
    assert set(result.lasso.cycle.labels) == {"a", "b", "u"}
    assert len(result.lasso.cycle) == 4


def test_q_at_once_is_soon_enough(kernel: Kernel) -> None:
    claim = LeadsTo[int]("now", "Now.", lambda node: node == 0, lambda node: node == 0)
    assert check(kernel, POLL, claim, fair()).verdict.name == "PASS"


def test_a_run_that_owes_nothing_is_no_counterexample(kernel: Kernel) -> None:
    """1 is a trap without q, but only runs that took the other way were ever in p."""
    moves = {0: [("walk", 1), ("work", 2)], 1: [("poll", 1)], 2: [("work", 3)]}
    assert check(kernel, moves, gets_to(3, start=2), fair(weak="w")).verdict.name == "PASS"


def test_owing_goes_on_after_p_is_over_and_begins_again_after_q(kernel: Kernel) -> None:
    """p, q, p, and then never again."""
    moves = {0: [("w", 1)], 1: [("w", 2)], 2: [("w", 3)], 3: [("p", 3)]}
    claim = LeadsTo[int]("even", "p leads to q.", lambda node: node in (0, 2), lambda node: node == 1)
    result = check(kernel, moves, claim, fair(weak="wp"))
    assert result.lasso.stem.nodes == (0, 1, 2, 3)
    assert result.lasso.owed_since == 2
    assert result.lasso.cycle.labels == ("p",)


# -- honesty


def test_an_incomplete_graph_decides_nothing(kernel: Kernel) -> None:
    cut = explore(Table(FLICKER), max_states=2, is_final=lambda node: True, keep_edges=True)
    assert cut.graph is not None
    (result,) = kernel.check_leads_to(cut.graph, [gets_to(2)], fair())
    assert result.verdict.name == "UNDETERMINED"
    assert "incomplete" in result.reason


def test_an_acyclic_graph_is_called_vacuous(kernel: Kernel) -> None:
    result = check(kernel, {0: [("work", 1)]}, gets_to(1), fair(weak="w"))
    assert result.acyclic
    assert "no cycle" in result.vacuous
    assert check(kernel, POLL, gets_to(1), fair(weak="w")).vacuous is None


def test_a_single_move_to_itself_makes_a_graph_cyclic(kernel: Kernel) -> None:
    assert not check(kernel, {0: [("poll", 0)]}, gets_to(0), fair()).acyclic


def test_a_claim_about_nothing_is_called_vacuous(kernel: Kernel) -> None:
    result = check(kernel, FLICKER, gets_to(2, start=9), fair())
    assert result.verdict.name == "PASS"
    assert "satisfies p" in result.vacuous


def test_a_fairness_class_that_no_label_has_is_reported(kernel: Kernel) -> None:
    assert check(kernel, POLL, gets_to(1), fair(weak="wz")).unmatched == {"z"}


def test_inbox_answers_unless_a_wake_is_lost(kernel: Kernel) -> None:
    (good,) = kernel.check_leads_to(graph(Inbox(3)), [ANSWERED], LOOP)
    assert good.verdict.name == "PASS"
    assert good.acyclic
    (bad,) = kernel.check_leads_to(graph(Inbox(3, "lost wake")), [ANSWERED], LOOP)
    assert bad.verdict.name == "FAIL"
    assert bad.lasso.ends
    assert bad.lasso.stem.end.phase == "asleep"
    assert 0 in bad.lasso.stem.end.waiting


def test_a_long_path_does_not_exhaust_the_stack(kernel: Kernel) -> None:
    length = 5_000
    moves = {node: [("work", node + 1)] for node in range(length)} | {length: [("work", 0)]}
    result = check(kernel, moves, gets_to(-1), fair(weak="w"))
    assert len(result.lasso.cycle) == length + 1


# -- against brute force


def check_lasso(
    lasso: Any,
    moves: Moves,
    p: Collection[int],
    q: Collection[int],
    weak: Sequence[Hashable],
    strong: Sequence[Hashable],
) -> None:
    """Check from the definitions alone that a lasso is a fair run of the table that owes q forever."""
    for path in (lasso.stem, lasso.cycle):
        node = path.start
        for label, target in path.steps:
            assert (label, target) in moves[node]
            node = target
    assert lasso.cycle.start == lasso.cycle.end == lasso.stem.end
    owing = lasso.stem.nodes[lasso.owed_since :]
    assert owing
    assert owing[0] in p
    assert not set(owing) & set(q)
    assert not set(lasso.cycle.nodes) & set(q)
    enabled = [{first_letter(label) for label, _ in moves.get(node, ())} for node in lasso.cycle.nodes]
    taken = {first_letter(label) for label in lasso.cycle.labels}
    for key in weak:
        assert key in taken or not all(key in keys for keys in enabled)
    for key in strong:
        assert key in taken or not any(key in keys for keys in enabled)


@for_all(
    graphs(5, most=8),
    st.sets(st.integers(0, 4), min_size=1),
    st.sets(st.integers(0, 4)),
    st.sets(st.sampled_from("abc")),
    st.sets(st.sampled_from("abc")),
    examples=300,
)
def test_verdict_and_stem_agree_with_brute_force(
    kernel: Kernel,
    drawn: tuple[Moves, tuple[int, ...]],
    p: set[int],
    q: set[int],
    weak: set[str],
    strong: set[str],
) -> None:
    """All graphs are small enough to try every set of moves that a run could repeat forever."""
    moves, initial = drawn
    claim = LeadsTo[int]("c", "p leads to q.", lambda node: node in p, lambda node: node in q)
    fairness = Fairness(first_letter, frozenset(weak), frozenset(strong))
    (result,) = kernel.check_leads_to(graph(Table(moves, initial)), [claim], fairness)
    expected = shortest_stem(moves, initial, p, q, first_letter, set(weak), set(strong))
    assert result.verdict.name == ("PASS" if expected is None else "FAIL")
    if result.lasso is not None:
        assert len(result.lasso.stem) == expected
        assert result.lasso.stem.start in initial
        check_lasso(result.lasso, moves, p, q, sorted(weak), sorted(strong))


@for_all(graphs(4, most=8), st.sampled_from(["", "a", "ab"]), examples=300)
def test_runs_that_cannot_end_agree_with_brute_force(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]], strong: str
) -> None:
    """Every class is fair and every state can move on, so only cycles count: strong fairness decides more often."""
    moves = {node: (*drawn[0].get(node, ()), ("c", (node + 1) % 4)) for node in range(4)}
    weak = "abc"
    claim = gets_to(3)
    result = check(kernel, moves, claim, fair(weak, strong))
    expected = shortest_stem(moves, (0,), {0}, {3}, first_letter, set(weak), set(strong))
    assert result.verdict.name == ("PASS" if expected is None else "FAIL")
    if result.lasso is not None:
        assert not result.lasso.ends
        assert len(result.lasso.stem) == expected
        check_lasso(result.lasso, moves, {0}, {3}, weak, strong)


@for_all(graphs(7))
def test_components_are_the_classes_of_mutual_reachability(
    kernel: Kernel, drawn: tuple[Moves, tuple[int, ...]]
) -> None:
    whole = graph(Table(*drawn))
    count = len(whole.states)
    reach = [[one == other for other in range(count)] for one in range(count)]
    for source in range(count):
        for _, target in whole.moves(source):
            reach[source][target] = True
    for middle in range(count):
        for one in range(count):
            for other in range(count):
                reach[one][other] |= reach[one][middle] and reach[middle][other]
    expected = {
        frozenset(other for other in range(count) if reach[one][other] and reach[other][one]) for one in range(count)
    }
    found = kernel.components(whole, range(count))
    assert {frozenset(part) for part in found} == expected
    assert sum(map(len, found)) == count


@pytest.mark.parametrize("drop", [0, 1, 2])
def test_components_of_a_part_do_not_use_the_rest(kernel: Kernel, drop: int) -> None:
    ring = kernel.graph_of([0], [(0, "a", 1), (1, "a", 2), (2, "a", 0)])
    found = kernel.components(ring, [index for index in range(3) if index != drop])
    assert sorted(map(len, found)) == [1, 1]
