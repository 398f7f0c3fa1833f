"""What the driver promises. The ids are those of the law: `LI-*` safety, `L-*` single rules, `CW*` windows.

`PROMISES` hold in every reachable node or move; those about messages and wakes are in `driver_inputs`.
`loopspec.properties.reachable` lists what must be reachable.
"""

from __future__ import annotations

from loopspec.kernel.claims import Answer
from loopspec.profile import Law
from loopspec.properties import course, driver_inputs
from loopspec.properties.bystander import Seen, top
from loopspec.properties.claims import Label, Promises, is_told, is_written
from loopspec.properties.driver_inputs import is_claim
from loopspec.worlds.world import Node

PROMISES = Promises()
promise = PROMISES.promise


# --- activities and brackets ---------------------------------------------------------------------------------


@promise("LI-1", "At most one activity exists at any time.", of_nodes=True)
def one_activity(node: Node, law: Law) -> Answer:
    """One routine waits at most, and none when the bystander knows of no activity."""
    parked = len(node.config.parked)
    return parked <= 1 and (parked == 0 or node.memory.activity != "idle")


@promise("L-PH-1", on="notify", sentence="A run or a job begins only when no activity is there.")
def begins_idle(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Both are told by their first event."""
    begins = is_told(label, "job") or (is_told(label, "agent/status") and label[2] == "running")
    return not begins or before.activity == "idle"


@promise("LI-2", on="notify", sentence="The status alternates: running, idle, running, …")
def status_alternates(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """No status is told twice."""
    return not is_told(label, "agent/status") or before.status != label[2]


@promise(
    "LI-3", on="append", sentence="Turns are numbered 1, 2, 3, … and closed one by one, except for a refused closing."
)
def turns_are_brackets(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A turn opens with the next number and closes with its own."""
    if is_written(label, "turn/start"):
        return label[2] == before.turn + 1 and (not before.open_turn or before.torn)
    return not is_written(label, "turn/end") or (before.open_turn and label[2] == before.turn)


@promise(
    "LI-4",
    on="append",
    sentence="Steps are numbered 1, 2, 3, … in their turn, and closed before the next and before the turn.",
)
def steps_are_brackets(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A step opens with the next number inside an open turn and closes with its own."""
    if label[0] != "append":
        return True
    if label[1] == "step/start":
        return (
            before.open_turn
            and not before.open_step
            and not before.torn
            and label[2:] == (before.turn, before.step + 1)
        )
    if label[1] == "step/end":
        return before.open_step and label[2:] == (before.turn, before.step)
    return label[1] != "turn/end" or not before.open_step or before.torn


@promise("LI-23", on="notify", sentence="The log is balanced when the agent is idle, if no closing record was refused.")
def balanced_when_idle(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """At `status idle` no bracket is open."""
    ends = is_told(label, "agent/status") and label[2] == "idle"
    return not ends or before.torn or not (before.open_turn or before.open_step)


PROMISES.extend(driver_inputs.PROMISES)


# --- cancel --------------------------------------------------------------------------------------------------


@promise("LI-11", on="park", sentence="No request is proposed, prepared or sent for a turn whose signal is aborted.")
def aborted_turns_ask_nothing(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The await points of a request are reached under a live signal only."""
    if label[0] != "park":
        return True
    if not before.cause or (label[1:] == ("chunk", False) and top(before).heard == course.STREAM):
        return True  # sent before the abort: its start has been told (VS-5)
    return label[1] not in ("request", "prepare") and label[1:] != ("chunk", False)


@promise(
    "LI-12",
    on="append notify",
    sentence="After the abort of a turn no step opens in it, nothing more is claimed, and no error is told.",
)
def aborted_turns_open_nothing(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A claim that had begun is finished (CW3); a refused closing record is still told."""
    if not before.cause or not before.open_turn:
        return True
    if is_claim(label) and course.is_routine(top(before).kind):
        return bool(before.batch)
    return not is_written(label, "step/start") and (not is_told(label, "agent/error") or before.torn)


@promise(
    "LI-13",
    on="append notify",
    sentence="The first cause wins: a signal is aborted once, and the turn's end names that cause.",
)
def first_cause_wins(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The event comes once a signal; the record carries the same cause."""
    if is_told(label, "abort"):
        return not before.cause
    if is_written(label, "turn/end") and label[3] == "aborted":
        return bool(before.cause) and label[4] == before.cause
    return True


@promise("LI-24", on="park leave", sentence="A cancel never waits, and raises only what a refused record raised.")
def cancels_return(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The same for every operation: `refused` is raised after a refusal only."""
    if label[0] == "park":
        return course.is_routine(top(before).kind)
    if label[0] != "leave" or label[1] != "raise":
        return True
    if label[2] == "refused":
        return top(before).heard == "refused"
    return top(before).kind != "cancel"


@promise("L-CAN-1", "A clearing cancel clears next-step, then next-turn, all of both, and then aborts a live activity.")
def cancels_in_order(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """What is due first is what was not cleared yet; a keeping cancel clears nothing."""
    if not before.stack or label[0] in ("call", "wait", "begin", "answer", "refuse") or top(before).kind != "cancel":
        return True
    segment = top(before)
    if segment.owed or segment.heard == "refused" or segment.locked:  # L-CAN-6 speaks of the locked ones
        return True
    clears = not segment.detail[1]
    if clears and segment.cleared < 1 and before.next_step:
        return label[:5] == ("append", "agent/inbox/spliced", "next-step", 0, len(before.next_step)) and not label[5]
    if clears and segment.cleared < 2 and before.next_turn:
        return label[:5] == ("append", "agent/inbox/spliced", "next-turn", 0, len(before.next_turn)) and not label[5]
    if before.activity != "idle" and not before.cause:
        return is_told(label, "abort") and (segment.cleared == 3 or label[2] == segment.detail[0])
    return label == ("leave", "return", None)


@promise("L-WAKE-4", "A clearing cancel lets the latch fall before it aborts.", of_nodes=True)
def cancels_unlatch(node: Node, law: Law) -> Answer:
    """While the abort of a clearing cancel is heard first, nothing is latched yet."""
    seen = node.memory
    fresh = seen.stack and top(seen).kind == "cancel" and top(seen).heard == "abort" and not seen.waked
    return not fresh or not node.config.core.latch


@promise("L-MNT-1", on="leave", sentence="A job is refused as busy exactly when an activity is there.")
def jobs_need_idleness(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The answer `busy` is honest."""
    return label != ("leave", "raise", "busy") or before.activity != "idle"


@promise("L-LOG-3", on="append", sentence="No record is written while another one is being published.")
def appends_do_not_nest(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Neither by a listener's call nor at any depth below it."""
    return label[0] != "append" or not top(before).locked


@promise(
    "L-SEND-9",
    on="leave",
    sentence="No operation is lost because it came from a record's observer.",
    broken=lambda law: "" if law.observer_operations_wait else "LR-006 and LR-009",
)
def observers_lose_nothing(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """No send, cancel or job raises only because the log was locked."""
    lost = label == ("leave", "raise", "refused") and top(before).locked
    return not lost or top(before).kind not in ("send", "cancel", "maintain")


# --- turn, step, attempt -------------------------------------------------------------------------------------


@promise("L-TURN-2", "After every answer and in every window the routine does what the tables of the turn say next.")
def keeps_its_course(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """See `loopspec.properties.course`."""
    if label[0] not in ("append", "notify", "note", "park", "refuse") or not course.concerns(before, label):
        return True
    expect = course.resolved(before, law)
    if not expect:
        return True
    name = course.name_of(label)
    return expect[0] == name or f"expected {expect[0]}, came {name}"


@promise("L-TURN-5", on="append", sentence="A turn that ends in error has told the error before.")
def errors_are_told(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """`agent/error` precedes its `turn/end`."""
    return not is_written(label, "turn/end") or label[3] != "error" or before.ending == "error" or before.torn


@promise("L-ERR-10", on="notify", sentence="An error names the open turn and the last step opened in it.")
def errors_name_their_place(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A refused opening is told as step 0 of the last turn."""
    if not is_told(label, "agent/error"):
        return True
    return label[2:] == (before.turn, before.step if before.open_turn else 0)


@promise(
    "L-TURN-18",
    on="append",
    sentence="Abort wins: no aborted turn ends as completed, max-tokens or blocked.",
    broken=lambda law: "LR-095" if law.verdict_is_read_a_tick_late else "",
)
def abort_wins(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """An error that was told before the abort stays an error (LR-085)."""
    return not is_written(label, "turn/end") or not before.cause or label[3] in ("aborted", "error")


@promise("CW16", on="park", sentence="After the abort of a turn its listeners are not asked whether it may stop.")
def aborted_turns_do_not_stop(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A cancel from an observer of `step/end` beats `turn-stopping`."""
    return label[:2] != ("park", "turn-stopping") or (not before.cause and not before.next_step)


@promise("LI-18", on="append", sentence="An interrupted anchor is the last thing in its step.")
def interruption_ends_the_step(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Only inbox records may come before `step/end`."""
    if not before.interrupted or label[0] != "append":
        return True
    return before.torn or label[1] in ("step/end", "agent/inbox/spliced")


@promise(
    "LI-21",
    on="append",
    sentence="An answer cut off at max-tokens marks its turn, unless it is blocked, aborted or fails.",
)
def max_tokens_sticks(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A turn completes only without, and ends in max-tokens only with such an answer."""
    if not is_written(label, "turn/end") or label[3] not in ("completed", "max-tokens"):
        return True
    return bool((label[3] == "max-tokens") == (before.ends == "max-tokens"))


@promise(
    "L-REQ-9",
    on="append park",
    sentence="A request is sent only with a header of this driver in the log; the first one says so.",
)
def requests_have_headers(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Before the first pull a header was written; its flag tells whether there was one before."""
    if is_written(label, "request/header"):
        return bool(label[2] == before.headed)
    return label != ("park", "chunk", False) or before.headed


@promise("L-PRE-4", on="park", sentence="A request is sent only when the whole entered batch is in history.")
def requests_see_the_batch(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Nothing of the decision is outstanding at the first pull."""
    return label != ("park", "chunk", False) or not before.batch


@promise(
    "LI-34",
    "No wake is lost in the exit gap or behind an error.",
    broken=lambda law: "" if law.closing_run_latches else "LR-070 and LR-084",
    of_nodes=True,
)
def no_wake_is_lost(node: Node, law: Law) -> Answer:
    """An agent at rest owes no such wake."""
    seen = node.memory
    lost = seen.promise and seen.promise[0] in ("LR-070", "LR-084", "LR-008")
    return not (lost and not seen.stack and seen.activity == "idle")
