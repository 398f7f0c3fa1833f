"""What is claimed about the tool scheduler: one sentence each, judged from outside.

The claims called `INV-S…` are the scheduler invariants of the requirements, the others are clauses. All of them ask
the bystander's memory (`loopspec.worlds.scheduler_past`), the label of the move, and who is parked; none asks the
scheduler's own fields. `INV-S17` is two facts about the whole graph: no state but an end is stuck
(`no deadlock`), and the graph has no cycle; so every run ends, however unfair.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopspec.kernel.budget import Watched
from loopspec.kernel.claims import Invariant, Step
from loopspec.kernel.system import Label
from loopspec.profile import Law
from loopspec.scheduler import ENDS
from loopspec.worlds.scheduler_past import SYNTHETIC, Story, aborted
from loopspec.worlds.scheduler_world import Scene

Node = Watched[Scene]
Judge = Callable[[Story, Any, Node], object]
"""The memory before a move, its label, the node after it; answers something true or false."""

COMPLETING = ("outcome-unknown", "not-started")


def story_of(node: Node) -> Story:
    """The bystander's memory in a node."""
    memory: Story = node.memories[0]
    return memory


def bodies(node: Node) -> int:
    """How many dispatches are in flight."""
    return sum(point[0] == "body" for point, _ in node.state.config.parked)


def lane_points(node: Node) -> int:
    """How many of the lane's own await points are open."""
    return sum(point[0] != "body" for point, _ in node.state.config.parked)


def is_end(label: Any) -> bool:
    """The move ends the batch."""
    return label[0] == "leave" and label[1] in ENDS


def is_final(node: Node) -> bool:
    """A batch may stop when it has ended."""
    return story_of(node).over


def appends(label: Any, what: str) -> bool:
    """The move writes a record of that type."""
    return bool(label[0] == "append" and label[1] == what)


def parks(label: Any, point: str) -> bool:
    """The move opens an await point or a question of that name."""
    return bool(label[0] == "park" and label[1] == point)


def tells(label: Any, event: str) -> bool:
    """The move publishes that event."""
    return bool(label[0] == "notify" and label[1] == event)


def is_synthetic(label: Any) -> bool:
    """The move writes a result that never saw the pipeline."""
    return appends(label, "tool/result") and label[3] in SYNTHETIC


def is_real(label: Any) -> bool:
    """The move writes a result that went through the pipeline."""
    return appends(label, "tool/result") and label[3] not in SYNTHETIC


def step(name: str, sentence: str, judge: Judge, *verbs: str) -> Step[Node]:
    """A claim about the moves with these verbs: the memory before the move and the node after it are asked."""

    def predicate(before: Node, label: Label, after: Node) -> bool:
        return label[0] not in verbs or bool(judge(before.memories[0], label, after))

    return Step(name, sentence, predicate)


# --- safety --------------------------------------------------------------------------------------------------


def pairs_are_complete(calls: int) -> Judge:
    """`INV-S1` for a batch of so many calls."""

    def judge(story: Story, label: Any, after: Node) -> object:
        if label[:2] not in (("leave", "continue"), ("leave", "concluded")):
            return True
        return story.calls == story.results == calls

    return judge


def calls_in_order(story: Story, label: Any, after: Node) -> object:
    return not appends(label, "tool/call") or label[2] == story.calls + 1


def results_in_order(story: Story, label: Any, after: Node) -> object:
    return not appends(label, "tool/result") or label[2] == story.results + 1


def result_after_call(story: Story, label: Any, after: Node) -> object:
    if not appends(label, "tool/result"):
        return True
    return (label[2] > story.calls) == (label[3] == "not-started")


def barrier_holds(story: Story, label: Any, after: Node) -> object:
    if appends(label, "tool/call"):
        return story.results >= story.barrier
    if parks(label, "prepare") and story.mode == "exclusive":
        return story.results == label[2] - 1
    return True


def pool_is_capped(story: Story, label: Any, after: Node) -> object:
    return not parks(label, "body") or bodies(after) <= story.cap


def one_lane(node: Node) -> bool:
    return lane_points(node) <= 1


def entry_is_live(story: Story, label: Any, after: Node) -> object:
    return label[0] != "enter" or label[2] == (not aborted(story))


def cut_is_final(story: Story, label: Any, after: Node) -> object:
    return not (parks(label, "prepare") and aborted(story)) or label[2] <= story.allowed


def end_is_settled(story: Story, label: Any, after: Node) -> object:
    return not is_end(label) or not after.state.config.parked


def synthetic_suffix(story: Story, label: Any, after: Node) -> object:
    if is_real(label):
        return bool(label[2] <= story.prepared)
    if is_synthetic(label) and label[3] == "never-started":
        return aborted(story) and label[2] > story.prepared and story.calls == label[2]
    return not parks(label, "prepare") or label[2] == story.results + 1 or label[2] == story.prepared + 1


def failure_is_last(law: Law) -> Judge:
    """`INV-S11` under a law."""

    def judge(story: Story, label: Any, after: Node) -> object:
        if is_end(label):
            return (label[1] == "throws") == bool(story.failure) and label[2:3] == (story.failure,) * bool(
                story.failure
            )
        if not story.failure:
            return not (is_synthetic(label) and label[3] in COMPLETING)
        if appends(label, "tool/call") or parks(label, "prepare") or tells(label, "tools/execute"):
            return False
        if is_synthetic(label):
            return label[3] in COMPLETING and law.failed_batch_is_completed and bodies(after) == 0
        return not is_real(label) or story.committing

    return judge


def failed_batch_ends_complete(law: Law, calls: int) -> Judge:
    """`VD-40` under a law."""

    def judge(story: Story, label: Any, after: Node) -> object:
        if label[:2] != ("leave", "throws") or not law.failed_batch_is_completed:
            return True
        return (story.results == calls) == (label[3:] == ())

    return judge


def contexts_in_place(story: Story, label: Any, after: Node) -> object:
    if parks(label, "contexts"):
        return story.owed and label[2] == story.results
    return not story.owed


def conclusion_is_or(story: Story, label: Any, after: Node) -> object:
    if label[:2] == ("leave", "concluded"):
        return story.concluded
    return label[:2] != ("leave", "continue") or not story.concluded


def told_once(story: Story, label: Any, after: Node) -> object:
    if tells(label, "tools/result"):
        return bool(label[2] == story.told + 1 == story.results + 1 <= story.prepared)
    if is_real(label):
        return bool(story.told == label[2])
    if is_end(label) and label[1] != "throws":
        return story.told == story.prepared
    return True


def pipeline_in_order(story: Story, label: Any, after: Node) -> object:
    if parks(label, "prepare"):
        return bool(label[2] == story.prepared + 1 == story.calls)
    if tells(label, "tools/execute"):
        return bool(label[2] == story.prepared) and label[2] not in story.settled
    if parks(label, "finalise"):
        return label[2] > story.finalised and label[2] in story.settled and label[2] not in story.final
    return True


def post_is_due(story: Story, label: Any, after: Node) -> object:
    if not tells(label, "tools/result"):
        return True
    return (label[2] in story.final) == (story.finalised != label[2])


def abort_codes_are_true(story: Story, label: Any, after: Node) -> object:
    if not (parks(label, "finalise") or tells(label, "tools/result")):
        return True
    if label[3] == "aborted":
        return aborted(story) and label[2] in story.entered
    return label[3] != "aborted-before-dispatch" or (aborted(story) and label[2] not in story.entered)


def success_is_live(story: Story, label: Any, after: Node) -> object:
    if not tells(label, "tools/result"):
        return True
    if label[2] in story.failed:
        return bool(label[3] == "failure")
    return label[3] == "success" if not aborted(story) else label[3] in ("aborted", "aborted-before-dispatch")


def policy_is_live(story: Story, label: Any, after: Node) -> object:
    return not parks(label, "prepare") or (label[3] == "policy") == (not aborted(story))


def dispatch_is_live(story: Story, label: Any, after: Node) -> object:
    return not tells(label, "tools/execute") or not aborted(story)


def late_success_is_hidden(story: Story, label: Any, after: Node) -> object:
    return not parks(label, "finalise") or label[3] != "success" or label[2] not in story.late


def telling_is_binding(story: Story, label: Any, after: Node) -> object:
    return not is_real(label) or label[3] == story.outcome


def start_is_classified(story: Story, label: Any, after: Node) -> object:
    if parks(label, "prepare"):
        return bool(label[2] == story.classified)
    return not parks(label, "classify") or label[2] == story.calls + 1


def groups_are_apart(story: Story, label: Any, after: Node) -> object:
    if not parks(label, "cap"):
        return True
    return bodies(after) == 0 and story.results == story.calls and story.classified == story.calls + 1


def commits_at_once(story: Story, label: Any, after: Node) -> object:
    if not (label == ("leave", "wait") or (appends(label, "tool/call"))) or story.failure:
        return True
    return story.results + 1 not in story.settled


def pool_is_busy(calls: int) -> Judge:
    """`L-TOOL-4` for a batch of so many calls."""

    def judge(story: Story, label: Any, after: Node) -> object:
        if label != ("leave", "wait") or story.failure or aborted(story):
            return True
        return bodies(after) == story.cap or story.calls == calls or story.mode == "exclusive"

    return judge


def stopped_pool_stays(law: Law) -> Judge:
    """`T-402` under a law: asked about the label that would break it."""

    def judge(story: Story, label: Any, after: Node) -> object:
        if not parks(label, "classify") or not law.stopped_pool_stays_stopped:
            return True
        return story.mode != "exclusive" or bodies(after) == 0

    return judge


def safety(law: Law, calls: int) -> tuple[tuple[Invariant[Node], ...], tuple[Step[Node], ...]]:
    """All claims about states and about moves, for a batch of so many calls under a law."""
    invariants = (Invariant("INV-S7", "At most one prepare, finalise or question is open.", one_lane),)
    steps = (
        step(
            "INV-S1", "A batch that returns has one call and one result per block.", pairs_are_complete(calls), "leave"
        ),
        step("INV-S2", "Calls are recorded once each, in model order.", calls_in_order, "append"),
        step("INV-S3", "Results are recorded once each, in model order.", results_in_order, "append"),
        step(
            "INV-S4",
            "A result follows its own call; only a completed failure answers a bare block.",
            result_after_call,
            "append",
        ),
        step(
            "INV-S5",
            "A call that starts alone has all earlier results before it, and its own before the next call.",
            barrier_holds,
            "append",
            "park",
        ),
        step("INV-S6", "Never more dispatches in flight than the cap of the group.", pool_is_capped, "park"),
        step("INV-S8 entry", "A body is entered exactly when the signal is live.", entry_is_live, "enter"),
        step("INV-S8 cut", "Once the abort was seen, no further call starts in earnest.", cut_is_final, "park"),
        step("INV-S9", "The batch ends only when every dispatch has settled.", end_is_settled, "leave"),
        step(
            "INV-S10",
            "Synthetic pairs are for calls that never started, after the abort and after all real results.",
            synthetic_suffix,
            "append",
            "park",
        ),
        step(
            "INV-S11",
            "After a failure nothing starts and nothing is made up, and the first failure is the one told.",
            failure_is_last(law),
            "append",
            "park",
            "notify",
            "leave",
        ),
        step(
            "INV-S12",
            "The contexts of a result are taken right after its record, each once.",
            contexts_in_place,
            "append",
            "park",
            "notify",
            "leave",
            "refuse",
            "lose",
        ),
        step(
            "INV-S13",
            "The batch concludes exactly when a recorded success carried the mark.",
            conclusion_is_or,
            "leave",
        ),
        step(
            "INV-S14",
            "Each call in the executor tells one result, a skipped one tells none.",
            told_once,
            "notify",
            "append",
            "leave",
        ),
        step(
            "INV-S15",
            "Prepare, execute and finalise come once each, in this order; a final result sees no post-execute.",
            pipeline_in_order,
            "park",
            "notify",
        ),
        step("INV-S15 post", "Every result that is not final has seen post-execute.", post_is_due, "notify"),
        step(
            "INV-S16",
            "`aborted` means that the body was entered, `aborted-before-dispatch` that it was not.",
            abort_codes_are_true,
            "park",
            "notify",
        ),
        step(
            "L-TOOL-18",
            "Under an aborted signal no success is told, and a failure of its own stays what it is.",
            success_is_live,
            "notify",
        ),
        step("T-302", "Policy is asked exactly under a live signal.", policy_is_live, "park"),
        step("T-303", "Nothing is dispatched under an aborted signal.", dispatch_is_live, "notify"),
        step(
            "T-305 late",
            "Post-execute never sees a success that settled after the abort.",
            late_success_is_hidden,
            "park",
        ),
        step("L-TOOL-19", "What is recorded is what was told, whatever listeners did.", telling_is_binding, "append"),
        step(
            "L-TOOL-3",
            "Every start follows a classification of that very call, and only of the first unstarted one.",
            start_is_classified,
            "park",
        ),
        step(
            "L-TOOL-2", "Groups never overlap, and the cap is read once, when a group opens.", groups_are_apart, "park"
        ),
        step(
            "L-TOOL-6",
            "No result that is due waits for anything, a later start included.",
            commits_at_once,
            "leave",
            "append",
        ),
        step("L-TOOL-4", "The pool is never idle without a reason.", pool_is_busy(calls), "leave"),
        step("T-402", "A stopped pool asks no more before it has drained.", stopped_pool_stays(law), "park"),
        step(
            "VD-40",
            "Where the law completes failed batches, no call is left without a result.",
            failed_batch_ends_complete(law, calls),
            "leave",
        ),
    )
    return invariants, steps
