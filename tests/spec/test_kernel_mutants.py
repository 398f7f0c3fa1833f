"""Broken copies of the kernel, one fault each, and the test that notices.

A test that passes on a broken kernel protects nothing. For every fault below, the named test of the other files is
run against a copy of the kernel with that fault, and must fail.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.spec import test_kernel_explore as exploring
from tests.spec import test_kernel_graph as graphs
from tests.spec import test_kernel_helpers as helpers
from tests.spec import test_kernel_liveness as living
from tests.spec.kernel_copy import mutated


class Mutant(NamedTuple):
    """A fault: what it is, in which module, which text becomes which, and the test that kills it."""

    fault: str
    module: str
    original: str
    replacement: str
    killer: Callable[..., None]
    arguments: tuple[Any, ...] = ()


MUTANTS = [
    # -- explore
    Mutant(
        "takes the newest state first (LIFO), so runs are not the shortest",
        "explore",
        "            node, count = states[current], len(states)\n",
        "            for row in (states, self.parents, self.parent_labels):\n"
        "                row[current], row[-1] = row[-1], row[current]\n"
        "            index[states[-1]], index[states[current]] = len(states) - 1, current\n"
        "            node, count = states[current], len(states)\n",
        exploring.test_broken_invariants_come_with_a_shortest_run,
    ),
    Mutant(
        "takes equal hashes for equal states",
        "explore",
        "found = find(target, count)",
        "found = find(hash(target), count)",
        exploring.test_equal_hashes_are_not_equal_states,
    ),
    Mutant(
        "overwrites the parent of a known state",
        "explore",
        "                followed += 1\n",
        "                followed += 1\n"
        "                if current < found and self.parents[found] >= 0:\n"
        "                    self.parents[found] = current\n",
        exploring.test_every_reachable_state_is_found_at_its_distance,
    ),
    Mutant(
        "drops moves from a state to itself",
        "explore",
        "                stuck = False\n",
        "                stuck = False\n                if target == node:\n                    continue\n",
        exploring.test_a_step_is_checked_on_a_move_to_its_own_state,
    ),
    Mutant(
        "checks steps only on moves to new states",
        "explore",
        "                if watching:\n",
        "                if watching and found == count - 1:\n",
        exploring.test_a_step_is_checked_on_a_move_to_a_known_state,
    ),
    Mutant(
        "does not check the first states",
        "explore",
        "            self.judge_state(self.current, node)\n",
        "",
        exploring.test_a_first_state_can_break_a_claim,
    ),
    Mutant(
        "checks an invariant on the first state only",
        "explore",
        "                    self.judge_state(found, target)\n",
        "",
        exploring.test_broken_invariants_come_with_a_shortest_run,
    ),
    Mutant(
        "reports the last violation instead of the first",
        "explore",
        "                self.invariants = [other for other in self.invariants if other is not invariant]\n",
        "                self.broken = [b for b in self.broken if b[1] != invariant.name] + self.broken[-1:]\n",
        exploring.test_each_claim_gets_its_own_shortest_violation,
    ),
    Mutant(
        "takes a state that was cut off for a stuck one",
        "explore",
        "                    if depth == max_depth:\n",
        "                    if depth == max_depth:\n                        stuck = followed == 0\n",
        exploring.test_max_depth_is_incomplete_only_when_something_is_left_out,
    ),
    Mutant(
        "calls a search that left states out complete",
        "explore",
        "                        cut = True\n",
        "",
        exploring.test_max_depth_is_incomplete_only_when_something_is_left_out,
    ),
    Mutant(
        "allows one state too many",
        "explore",
        "                    if count == limit:\n",
        "                    if count - 1 == limit:\n",
        exploring.test_max_states_is_incomplete_only_when_something_is_left_out,
    ),
    Mutant(
        "lets every state stop when nobody says which may",
        "explore",
        "if self.is_final is not None and self.is_final(node):",
        "if self.is_final is None or self.is_final(node):",
        exploring.test_a_first_state_can_break_a_claim,
    ),
    Mutant(
        "fails what was not reached before a limit",
        "explore",
        "Verdict.FAIL if why_incomplete is None else Verdict.UNDETERMINED",
        "Verdict.FAIL",
        exploring.test_unreached_is_a_failure_only_when_everything_was_seen,
    ),
    Mutant(
        "takes an undecided claim for a kept one",
        "report",
        "unbroken = Verdict.PASS if self.complete else Verdict.UNDETERMINED",
        "unbroken = Verdict.PASS",
        exploring.test_the_first_violation_can_end_the_search,
    ),
    Mutant(
        "believes any predicate that answers something",
        "claims",
        "    if isinstance(answer, str) and answer:\n",
        "    if not answer:\n        return None\n    if isinstance(answer, str):\n",
        exploring.test_a_predicate_that_does_not_answer_is_an_error,
        ("",),
    ),
    # -- graph, encoding, compare
    Mutant(
        "writes True like 1",
        "encoding",
        '"true" if value else "false"',
        "str(int(value))",
        graphs.test_digests_tell_true_from_one,
    ),
    Mutant(
        "writes sets in their own order",
        "encoding",
        "sorted([text_of(item) for item in value])",
        "[text_of(item) for item in value]",
        graphs.test_texts,
        (frozenset({2, 11}), "{11,2}"),
    ),
    Mutant(
        "writes a tuple of one like its member in brackets",
        "encoding",
        'f"({inner},)" if len(value) == 1 else f"({inner})"',
        'f"({inner})" if len(value) else "(\'\')"',
        graphs.test_texts,
        ((1,), "(1,)"),
    ),
    Mutant(
        "digests in order of exploration",
        "graph",
        "for member in sorted(set(members)):",
        "for member in dict.fromkeys(members):",
        graphs.test_digests_do_not_depend_on_the_order_of_exploration,
    ),
    Mutant(
        "counts repeated moves",
        "graph",
        "for member in sorted(set(members)):",
        "for member in sorted(members):",
        graphs.test_digest_of_a_known_graph,
    ),
    Mutant(
        "digests moves without their labels",
        "graph",
        "sha256(nodes[source] + labels[label] + nodes[target])",
        "sha256(nodes[source] + nodes[target])",
        graphs.test_digests_look_at_labels,
    ),
    Mutant(
        "digests moves without their direction",
        "graph",
        "sha256(nodes[source] + labels[label] + nodes[target])",
        "sha256(min(nodes[source], nodes[target]) + labels[label] + max(nodes[source], nodes[target]))",
        graphs.test_digests_look_at_the_direction,
    ),
    Mutant(
        "forgets the first states in the digest",
        "graph",
        '_hash_of_set("initial", (nodes[index] for index in graph.initial))',
        '_hash_of_set("initial", ())',
        graphs.test_digests_are_equal_exactly_for_equal_graphs,
    ),
    Mutant(
        "compares deepest first",
        "compare",
        "here = queue.popleft()",
        "here = queue.pop()",
        graphs.test_the_first_difference_is_a_nearest_one,
    ),
    Mutant(
        "compares only one way",
        "compare",
        "        if ours.keys() != theirs.keys():\n",
        "        if ours.keys() - theirs.keys():\n",
        graphs.test_the_first_difference_is_a_nearest_one,
    ),
    Mutant(
        "compares only what runs reach",
        "compare",
        "return _unreachable_difference(left, right, left_keys, right_keys)",
        "return None",
        graphs.test_a_difference_that_no_run_reaches_is_one,
    ),
    # -- liveness
    Mutant(
        "forgets weak fairness",
        "liveness",
        "                if everywhere:\n",
        "                if False:\n",
        living.test_weak_fairness_rules_out_ignoring_what_is_always_possible,
    ),
    Mutant(
        "forgets strong fairness",
        "liveness",
        "                if starved:\n",
        "                if False:\n",
        living.test_strong_fairness_helps_what_flickers,
    ),
    Mutant(
        "takes weak fairness for strong",
        "liveness",
        "self.strong = fairness.strong\n",
        "self.strong = fairness.strong | fairness.weak\n",
        living.test_weak_fairness_does_not_help_what_flickers,
    ),
    Mutant(
        "gives a component up instead of looking at what is left of it",
        "liveness",
        "work.append([index for index in part if not self.enabled[index] & starved])",
        "pass",
        living.test_strong_fairness_removes_states_and_looks_again,
    ),
    Mutant(
        "ignores moves from a state to itself",
        "components",
        "return any(target == state for _, target in graph.moves(state))",
        "return False",
        living.test_weak_fairness_rules_out_ignoring_what_is_always_possible,
    ),
    Mutant(
        "takes every single state for a cycle",
        "components",
        "return any(target == state for _, target in graph.moves(state))",
        "return True",
        living.test_an_acyclic_graph_is_called_vacuous,
    ),
    Mutant(
        "forgets runs that end",
        "liveness",
        "ends = {index for index in owing if not view.enabled[index]}",
        "ends = set()",
        living.test_without_fairness_a_run_may_just_end,
    ),
    Mutant(
        "lets a run end only where there is no move at all",
        "liveness",
        "ends = {index for index in owing if not view.enabled[index]}",
        "ends = {index for index in owing if not any(True for _ in graph.moves(index))}",
        living.test_a_move_without_fairness_does_not_keep_a_run_from_ending,
    ),
    Mutant(
        "counts only moves that stay as enabled",
        "liveness",
        "found = {self.keys[label] for label, _ in graph.moves(index)}",
        "found = {self.keys[label] for label, target in graph.moves(index) if len(self.graph.first) > 4}",
        living.test_enabled_is_judged_by_moves_that_leave_too,
    ),
    Mutant(
        "counts moves that leave the component as taken in it",
        "liveness",
        "for label, target in self.graph.moves(index) if target in inside\n",
        "for label, target in self.graph.moves(index)\n",
        living.test_weak_fairness_rules_out_ignoring_what_is_always_possible,
    ),
    Mutant(
        "owes from the beginning",
        "liveness",
        "pair = 2 * index + (asked[index] and not met[index])",
        "pair = 2 * index + (not met[index])",
        living.test_a_run_that_owes_nothing_is_no_counterexample,
    ),
    Mutant(
        "forgets a debt when p is over",
        "liveness",
        "((owed == 1 or asked[target]) and not met[target])",
        "(asked[target] and not met[target])",
        living.test_owing_goes_on_after_p_is_over_and_begins_again_after_q,
    ),
    Mutant(
        "never takes a debt as paid",
        "liveness",
        "((owed == 1 or asked[target]) and not met[target])",
        "(owed == 1 or asked[target])",
        living.test_a_fair_class_keeps_a_run_from_ending,
    ),
    Mutant(
        "counts a debt that was paid",
        "liveness",
        "owed = owed and here % 2 == 1",
        "owed = here % 2 == 1",
        living.test_owing_goes_on_after_p_is_over_and_begins_again_after_q,
    ),
    Mutant(
        "shows a cycle that leaves a fair class out",
        "liveness",
        "return (everywhere | somewhere & view.strong) - taken",
        "return frozenset()",
        living.test_a_fair_cycle_takes_every_class_that_it_must,
    ),
    Mutant(
        "decides on a graph that is incomplete",
        "liveness",
        "    if not graph.complete:\n",
        "    if False:\n",
        living.test_an_incomplete_graph_decides_nothing,
    ),
    Mutant(
        "lets components run through states outside of the part",
        "components",
        "                if target not in inside:\n                    continue\n",
        "",
        living.test_components_of_a_part_do_not_use_the_rest,
        (0,),
    ),
    Mutant(
        "does not pass the earliest state back to the parent",
        "components",
        "                    low[parent] = min(low[parent], low[state])\n",
        "                    pass\n",
        living.test_components_are_the_classes_of_mutual_reachability,
    ),
    # -- budget, canonical, sequence
    Mutant(
        "lets a budget go below zero",
        "budget",
        "return None if min(remaining) < 0 else remaining",
        "return remaining if min(remaining) > -2 else None",
        helpers.test_what_cannot_be_paid_for_is_not_offered,
    ),
    Mutant(
        "spends a counter once however often it is named",
        "budget",
        "tuple(spent.count(name) for name in self.names)",
        "tuple(int(name in spent) for name in self.names)",
        helpers.test_a_budget_makes_an_endless_system_finite,
    ),
    Mutant(
        "shows a monitor the state before the move",
        "budget",
        "self._advance(memories, label, target)",
        "self._advance(memories, label, state)",
        helpers.test_monitors_remember_beside_the_state,
    ),
    Mutant(
        "lets a restricted system out",
        "budget",
        "in self.system.moves(node) if self.keep(target))",
        "in self.system.moves(node) if self.keep(node))",
        helpers.test_a_restricted_system_lacks_states_and_the_moves_to_them,
    ),
    Mutant(
        "does not compare the moves of a state and its form",
        "canonical",
        "        if ours != theirs:\n",
        "        if False:\n",
        helpers.test_the_gate_stops_a_fold_that_changes_behaviour,
    ),
    Mutant(
        "does not ask the predicates",
        "canonical",
        "            if judge(state) != judge(form):\n",
        "            if False:\n",
        helpers.test_the_gate_stops_a_fold_that_hides_what_a_claim_looks_at,
    ),
    Mutant(
        "does not compare the verdicts",
        "canonical",
        "    if full.verdicts != reduced.verdicts:\n",
        "    if False:\n",
        helpers.test_the_gate_compares_verdicts,
    ),
    Mutant(
        "covers the nearest move only",
        "sequence",
        "            leg = classes.nearest(graph.edge_targets[edges[-1]], covered, room)\n",
        "            leg = []\n",
        helpers.test_a_cover_of_a_ring_is_one_run,
    ),
    Mutant(
        "gives states up that were only too far away",
        "sequence",
        "        if not cut:\n",
        "        if True:\n",
        helpers.test_a_place_where_one_run_had_to_end_is_not_given_up,
    ),
    Mutant(
        "ignores the allowed length",
        "sequence",
        "room = None if max_length is None else max_length - len(edges)",
        "room = None",
        helpers.test_a_cover_makes_every_move_and_keeps_to_its_length,
    ),
    Mutant(
        "walks the first move whatever was chosen",
        "sequence",
        "label, node = moves[_chosen(choose, len(moves))]",
        "label, node = moves[0 * _chosen(choose, len(moves))]",
        helpers.test_a_walk_makes_the_moves_that_were_chosen,
    ),
]


def test_mutants_have_names_of_their_own() -> None:
    assert len({mutant.fault for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_the_named_test_kills_the_mutant(mutant: Mutant) -> None:
    """Run the killer on the broken copy: it must fail there. (On the real kernel it runs in its own file.)"""
    broken = mutated(mutant.module, mutant.original, mutant.replacement)
    killer = getattr(mutant.killer, "searching", mutant.killer)
    try:
        killer(broken, *mutant.arguments)
    except (AssertionError, pytest.fail.Exception):
        return
    except Exception as error:
        if not comes_from_a_test(error):
            pytest.fail(f"the mutant itself crashed: {error!r}")
        return
    pytest.fail("the mutant survives")


def comes_from_a_test(error: Exception) -> bool:
    """Tell a test that goes on with a None where it expects a finding from a broken copy that is nonsense."""
    return Path(traceback.extract_tb(error.__traceback__)[-1].filename).name.startswith("test_kernel_")
