"""Every guard of the tool scheduler is removed or turned once; each time the named claim must notice."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from tests.spec.scheduler_runs import broken, digest_of, graph_of_machine

from loopspec.kernel.budget import Bounded
from loopspec.kernel.claims import Step, Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.liveness import Fairness, LeadsTo, check_leads_to
from loopspec.profile import Profile, law
from loopspec.properties.scheduler import Node, is_final, safety
from loopspec.worlds.scheduler_past import STORY
from loopspec.worlds.scheduler_world import EVERYTHING, Freedom, Scene, Scheduling, cost

ORDER = Freedom(calls=3, caps=(1, 2), prepare=("dispatch", "final-result"), body=("success",))
RESULTS = EVERYTHING


class Mutant(NamedTuple):
    """A fault, the text that becomes another, the claim that kills it, and where to look."""

    fault: str
    original: str
    replacement: str
    claim: str
    freedom: Freedom = ORDER
    profile: Profile = "seed"


MUTANTS = (
    Mutant("starts although the abort was seen", "return not s.cut and s.next", "return s.next", "INV-S8 cut"),
    Mutant("forgets the cap", " and len(s.live) < s.cap", "", "INV-S6"),
    Mutant("takes one more than the cap", "len(s.live) < s.cap", "len(s.live) <= s.cap", "INV-S6"),
    Mutant("leaves a place empty", "len(s.live) < s.cap", "len(s.live) < max(s.cap - 1, 1)", "L-TOOL-4"),
    Mutant("starts beyond the group", "s.next <= s.last and", "s.next <= s.calls and", "T-402"),
    Mutant("enters a body after the abort", "    return not s.aborted\n", "    return True\n", "INV-S8 entry", RESULTS),
    Mutant("commits what has settled first", " and s.slots[0].call == s.done + 1", "", "INV-S3"),
    Mutant("lets a success be", 'if outcome != "success" or not s.aborted:', "if True:", "L-TOOL-18", RESULTS),
    Mutant("replaces failures too", 'if outcome != "success" or not', "if not", "L-TOOL-18", RESULTS),
    Mutant(
        "replaces without an abort", 'if outcome != "success" or not s.aborted', 'if outcome != "success"', "L-TOOL-18"
    ),
    Mutant("calls every replaced result aborted", "if call in s.entered else", "if True else", "INV-S16", RESULTS),
    Mutant("concludes on any result", ' and outcome == "success"\n', "\n", "INV-S13", RESULTS),
    Mutant("never concludes", "s.concluded or concluding", "s.concluded", "INV-S13", RESULTS),
    Mutant("forgets an earlier conclusion", "s.concluded or concluding", "concluding", "INV-S13", RESULTS),
    Mutant("ends without its conclusion", '("concluded",) if s.concluded else', "", "INV-S13", RESULTS),
    Mutant("treats an exclusive call as the rest", 'if answer[0] == "parallel" else s.next', "", "INV-S5"),
    Mutant("makes groups of one", 's.calls if answer[0] == "parallel" else s.next', "s.next", "L-TOOL-4"),
    Mutant(
        "ignores a failing classifier",
        'return go(s, ("fail", ("classify", s.next)))\n    last',
        "pass\n    last",
        "INV-S11",
    ),
    Mutant("ignores a failing cap", 'return go(s, ("fail", ("cap", s.next)))', "answer = (1, 1)", "INV-S11"),
    Mutant("does not look before a group", "cut=s.aborted)\n    if not", "cut=s.cut)\n    if not", "INV-S8 cut"),
    Mutant(
        "does not classify again", 'park(s, ("classify", s.next), ("reclassified",))', 'go(s, ("start",))', "L-TOOL-3"
    ),
    Mutant("does not listen to the second class", 'if answer[0] == "parallel":\n', "if True:\n", "INV-S5"),
    Mutant(
        "asks a stopped pool again",
        "if s.law.stopped_pool_stays_stopped:",
        "if False:",
        "T-402",
        ORDER._replace(caps=(3,)),
    ),
    Mutant(
        "opens a group beside the pool",
        '    if s.live:\n        return leave(s.put(lane="waiting")',
        '    if False:\n        return leave(s.put(lane="waiting")',
        "L-TOOL-2",
    ),
    Mutant("never skips", "    if s.cut:\n", "    if False:\n", "INV-S17"),
    Mutant(
        "asks policy after the abort", 'scope = "arguments" if s.aborted else "policy"', 'scope = "policy"', "T-302"
    ),
    Mutant(
        "starts a body after a failure",
        '    if s.failure:\n        return go(s, ("drain",))\n    return go(s, ("verdict"',
        '    return go(s, ("verdict"',
        "INV-S11",
    ),
    Mutant(
        "ignores a failing preparation",
        'return go(s, ("fail", ("prepare", call)))',
        'answer = ("final-result",)',
        "INV-S11",
    ),
    Mutant("finalises a final result", 'Slot(call, False, "failure")))', 'Slot(call, True, "failure")))', "INV-S15"),
    Mutant(
        "finalises what saw no policy",
        'Slot(call, False, "aborted-before-dispatch")',
        'Slot(call, True, "aborted-before-dispatch")',
        "INV-S15",
    ),
    Mutant(
        "replaces a denial",
        'if said == "post-result":',
        'if said == "post-result" and not s.aborted:',
        "L-TOOL-18",
        RESULTS,
    ),
    Mutant(
        "hides a denial from post-execute",
        'if said == "post-result":\n        return go(s, ("keep", Slot(call, True',
        'if said == "post-result":\n        return go(s, ("keep", Slot(call, False',
        "INV-S15 post",
        RESULTS,
    ),
    Mutant(
        "dispatches after the abort",
        '    if s.aborted:\n        return go(s, ("keep"',
        '    if False:\n        return go(s, ("keep"',
        "T-303",
    ),
    Mutant(
        "hides an aborted call from post-execute",
        'Slot(call, True, "aborted-before-dispatch")',
        'Slot(call, False, "aborted-before-dispatch")',
        "INV-S15 post",
    ),
    Mutant(
        "keeps a cancelled approval under an abort",
        '    if s.aborted:\n        return go(s, ("keep"',
        '    if s.aborted and said != "cancelled":\n        return go(s, ("keep"',
        "L-TOOL-18",
        RESULTS,
    ),
    Mutant("dispatches a cancelled approval", 'if said == "cancelled":', "if False:", "INV-S15", RESULTS),
    Mutant("does not miss a dispatch", "    if call not in s.live:\n", "    if False:\n", "INV-S11"),
    Mutant(
        "does not commit between starts",
        '("fail", ("execute", call)))\n    return go(s, ("commit",))',
        '("fail", ("execute", call)))\n    return go(s, ("look",))',
        "L-TOOL-6",
    ),
    Mutant(
        "makes a result of a rejection",
        's = s.put(failure=s.failure or ("body", call))',
        's = s.put(slots=(*s.slots, Slot(call, True, "failure")))',
        "INV-S11",
    ),
    Mutant("lets a later rejection win", 's.failure or ("body", call)', '("body", call)', "INV-S11"),
    Mutant(
        "finalises a wrapper's failure",
        'Slot(call, answer[0] != "final-result",',
        "Slot(call, True,",
        "INV-S15",
        RESULTS,
    ),
    Mutant(
        "shows a late success to post-execute",
        "replaced(s, call, SETTLED[answer[0]])",
        "SETTLED[answer[0]]",
        "T-305 late",
        RESULTS,
    ),
    Mutant("keeps slots in order of settlement", "tuple(sorted((*s.slots, slot)))", "(*s.slots, slot)", "INV-S1"),
    Mutant("does not wake the lane", '    if s.lane == "busy":\n', '    if s.lane != "draining":\n', "no deadlock"),
    Mutant(
        "does not wake a draining lane", '    if s.lane == "busy":\n', '    if s.lane != "waiting":\n', "no deadlock"
    ),
    Mutant("wakes a lane that is busy", '    if s.lane == "busy":\n', "    if False:\n", "INV-S7"),
    Mutant(
        "commits after a failure",
        '    s = s.put(lane="busy")\n    if s.failure:\n        return go(s, ("drain",))\n',
        '    s = s.put(lane="busy")\n',
        "INV-S11",
    ),
    Mutant("skips post-execute", "    if post:\n", "    if False:\n", "INV-S15 post"),
    Mutant(
        "ignores a failing finalisation",
        'return go(s, ("fail", ("finalise", call)))',
        'answer = ("block", False)',
        "INV-S11",
    ),
    Mutant(
        "lets a blocked success be",
        '("tell", call, "failure", False, answer[1])',
        '("tell", call, outcome, False, answer[1])',
        "L-TOOL-18",
        RESULTS,
    ),
    Mutant("does not look after post-execute", "    outcome = replaced(s, call, outcome)\n", "", "L-TOOL-18"),
    Mutant(
        "drops the contexts of a replaced result",
        "concludes(outcome, marked), contexts))",
        'concludes(outcome, marked), contexts and outcome == "success"))',
        "INV-S12",
        RESULTS,
    ),
    Mutant(
        "drops the contexts of a blocked result",
        '"failure", False, answer[1])',
        '"failure", False, False)',
        "INV-S12",
        RESULTS,
    ),
    Mutant(
        "records an abort from a listener",
        'append(s, ("tool/result", call, outcome), written',
        'append(s, ("tool/result", call, replaced(s, call, outcome)), written',
        "L-TOOL-19",
    ),
    Mutant(
        "goes on after a refused call",
        '("called", s.next), ("fail", ("tool/call", s.next))',
        '("called", s.next), ("called", s.next)',
        "INV-S11",
    ),
    Mutant(
        "goes on after a refused result", 'written, ("fail", ("tool/result", call)))', "written, written)", "INV-S11"
    ),
    Mutant(
        "goes on after a refused context",
        'return go(s, ("fail", ("contexts", call)))',
        'return go(s, ("commit",))',
        "INV-S11",
        RESULTS,
    ),
    Mutant(
        "takes contexts at the end",
        'if contexts:\n        return park(s, ("contexts", call), ("contexts_taken", call))',
        'if contexts and not is_due(s):\n        return park(s, ("contexts", call), ("contexts_taken", call))',
        "INV-S12",
        RESULTS._replace(prepare=("dispatch", "post-result")),
    ),
    Mutant(
        "does not look for a failure",
        '    if s.failure:\n        return go(s, ("drain",))\n    return go(s.put(cut',
        "    return go(s.put(cut",
        "INV-S11",
    ),
    Mutant("does not look for the abort", 's.put(cut=s.aborted), ("fill",)', 's, ("fill",)', "INV-S8 cut"),
    Mutant("skips one call only", 'go(s.put(done=call), ("skip",))', 'go(s.put(done=call), ("end",))', "INV-S1"),
    Mutant(
        "tells skipped results",
        'return append(s, ("tool/result", call, "never-started"), ("paired", call), ("fail", ("tool/result", call)))',
        'return notify(s, ("tools/result", call, "failure"), ("paired", call))',
        "INV-S14",
    ),
    Mutant("forgets the cursor while skipping", 'go(s.put(done=call), ("skip",))', 'go(s, ("skip",))', "INV-S3"),
    Mutant(
        "ignores a refused pair",
        '("paired", call), ("fail", ("tool/result", call))',
        '("paired", call), ("paired", call)',
        "INV-S11",
    ),
    Mutant("lets the last failure win", "s.put(failure=s.failure or failure)", "s.put(failure=failure)", "INV-S11"),
    Mutant(
        "does not drain",
        '    if s.live:\n        return leave(s.put(lane="draining")',
        '    if False:\n        return leave(s.put(lane="draining")',
        "INV-S9",
        ORDER,
        "dsh-0.1",
    ),
    Mutant(
        "completes while bodies run",
        '    if s.live:\n        return leave(s.put(lane="draining")',
        '    if False:\n        return leave(s.put(lane="draining")',
        "INV-S11",
    ),
    Mutant(
        "always completes a failed batch",
        "if s.law.failed_batch_is_completed:",
        "if True:",
        "INV-S11",
        ORDER,
        "dsh-0.1",
    ),
    Mutant("never completes a failed batch", "if s.law.failed_batch_is_completed:", "if False:", "VD-40"),
    Mutant("completes from the first call", '("complete", s.done + 1)', '("complete", 1)', "INV-S3"),
    Mutant("mixes up unknown and not started", "if call < s.next else", "if call > s.next else", "INV-S4"),
    Mutant("hides a failed completion", '("throw_incomplete",))', '("throw",))', "VD-40"),
    Mutant(
        "throws something else", 'return leave(s, ("throws", s.failure))', 'return leave(s, ("throws", ()))', "INV-S11"
    ),
)


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


EQUIVALENT = (
    (
        "looks for the failure before the answer: the first failure wins anyway",
        '    if answer[0] == "throws":\n        return go(s, ("fail", ("prepare", call)))\n'
        '    if s.failure:\n        return go(s, ("drain",))\n',
        '    if s.failure:\n        return go(s, ("drain",))\n'
        '    if answer[0] == "throws":\n        return go(s, ("fail", ("prepare", call)))\n',
    ),
    (
        "asks about the group as well: where the batch has nothing left, neither has its last group",
        'if s.next > s.calls:\n        return go(s, ("end",))\n    return park(s, ("classify"',
        'if s.next > s.last and s.next > s.calls:\n        return go(s, ("end",))\n    return park(s, ("classify"',
    ),
)


@pytest.mark.parametrize(("why", "original", "replacement"), EQUIVALENT)
def test_these_changes_are_equivalent(why: str, original: str, replacement: str) -> None:
    """No claim can kill them, because the complete graph is the same."""
    rules = law("seed", 4)
    changed = broken(original, replacement)
    assert digest_of(graph_of_machine(rules, ORDER, changed)) == digest_of(graph_of_machine(rules, ORDER)), why
