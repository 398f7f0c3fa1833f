"""What the driver promises about its input: messages, claims, sends, wakes and the latch. Ids as in `driver`."""

from __future__ import annotations

from typing import Any

from loopspec.inbox import distinct
from loopspec.kernel.claims import Answer
from loopspec.profile import Law
from loopspec.properties import course
from loopspec.properties.bystander import Seen, is_replay, meets_abort, top
from loopspec.properties.claims import Label, Promises, is_told, is_written
from loopspec.worlds.world import Node

PROMISES = Promises()
promise = PROMISES.promise


# --- messages ------------------------------------------------------------------------------------------------


@promise("LI-5", "What leaves a list is told as claimed or discarded, and what enters it as inserted, exactly once.")
def messages_are_conserved(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Nothing else happens in a call that still owes an inbox event, and no event is told that is not owed."""
    verb = label[0]
    if verb in ("call", "wait", "begin", "answer", "refuse"):
        return True
    owed = top(before).owed
    name = str(label[1])
    if verb == "notify" and name.startswith("agent/inbox/"):
        return (name.removeprefix("agent/inbox/"), label[2]) in owed
    if not owed:
        return True
    second_claim = is_written(label, "agent/inbox/spliced") and label[2] == "next-turn" and not label[6]
    return second_claim and all(kind == "claimed" for kind, _ in owed)


@promise(
    "L-IN-8",
    on="notify",
    sentence="Inbox events follow their record in order: discarded, then inserted; claimed in batch order.",
)
def events_keep_order(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The event told is the first one owed (L-IN-13)."""
    if label[0] != "notify" or not str(label[1]).startswith("agent/inbox/"):
        return True
    owed = top(before).owed
    return bool(owed) and owed[0] == (str(label[1]).removeprefix("agent/inbox/"), label[2])


@promise("L-IN-13", on="notify", sentence="A claim event names the open turn.")
def claims_name_the_turn(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """`claimed` carries the number of the turn that claims."""
    return not is_told(label, "agent/inbox/claimed") or (before.open_turn and label[3] == before.turn)


@promise(
    "L-IN-14",
    on="append notify park",
    sentence="A proposal claims all of next-step, and the first one of a turn claims a prompt if there is one.",
)
def claims_are_whole(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Judged where no listener has run since the claim was due."""
    if label[0] not in ("append", "notify", "park") or not course.is_routine(top(before).kind):
        return True
    if label[:2] == ("park", "assembly") and not before.batch and before.next_step:
        return False
    if before.opening != "fresh" or top(before).heard not in ("turn/start", "agent/inbox/spliced"):
        return True
    if not before.batch and before.cause:
        return True
    if before.next_step and not before.batch:
        return is_claim(label) and label[2] == "next-step"
    return not before.next_turn or (is_claim(label) and label[2] == "next-turn")


@promise(
    "LI-6",
    on="append",
    sentence="A message enters history only after its claim, once, and in the order of the decision.",
)
def history_is_claimed(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The message is the first of the entered batch."""
    return not is_written(label, "user/message") or (before.open_step and before.batch[:1] == label[2:3])


def is_claim(label: Label) -> bool:
    """A record that takes messages out without an outcome."""
    return is_written(label, "agent/inbox/spliced") and bool(label[4]) and not label[6]


@promise("LI-7", on="append", sentence="A turn claims at most one next-turn message, by its first proposal.")
def one_prompt_a_turn(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The claim takes exactly one, and only before the first assembly."""
    if not is_claim(label) or label[2] != "next-turn":
        return True
    return before.open_turn and before.opening == "fresh" and label[4] == 1


@promise(
    "LI-8", on="append", sentence="Lists are first in, first out: sends go to the end, claims take from the front."
)
def first_in_first_out(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """All of next-step is claimed, or the first of next-turn; a send inserts behind everything."""
    if not is_written(label, "agent/inbox/spliced"):
        return True
    items = before.next_turn if label[2] == "next-turn" else before.next_step
    if is_claim(label):
        return bool(label[3] == 0 and (label[2] == "next-turn" or label[4] == len(items)))
    return top(before).kind != "send" or label[3:5] == (len(items), 0)


@promise("LI-9", "A message is pending at most once, over both lists.", of_nodes=True)
def pending_once(node: Node, law: Law) -> Answer:
    """The ids of both lists together are distinct."""
    return distinct(node.config.core.next_step + node.config.core.next_turn)


@promise(
    "LI-10", "The lists equal the replay of the records, except while a mutation's record is observed.", of_nodes=True
)
def lists_are_replayed(node: Node, law: Law) -> Answer:
    """Where observers see the change done there is no exception."""
    core, seen = node.config.core, node.memory
    if (core.next_step, core.next_turn) == (seen.next_step, seen.next_turn):
        return True
    return not law.observers_see_splice_done and any(segment.observed for segment in seen.stack)


@promise("L-IN-2", on="append", sentence="Every splice record changes something.")
def no_empty_records(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Something is removed or inserted."""
    return not is_written(label, "agent/inbox/spliced") or bool(label[4] or label[5])


@promise(
    "L-IN-3", on="append", sentence="The outcome is `canceled` exactly when something is removed other than by a claim."
)
def outcomes_are_told(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Operations cancel what they remove; only the routine claims, and it inserts nothing."""
    if not is_written(label, "agent/inbox/spliced"):
        return True
    if course.is_routine(top(before).kind):
        return bool(label[4]) and not label[5] and label[6] == "" and not before.at and before.open_turn
    return bool(label[6] == ("canceled" if label[4] else ""))


@promise("L-IN-4", on="append", sentence="Recorded coordinates lie inside the list.")
def coordinates_in_range(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """0 <= start, and start + removed count <= length."""
    if not is_written(label, "agent/inbox/spliced"):
        return True
    length = len(before.next_turn if label[2] == "next-turn" else before.next_step)
    start: Any = label[3]
    count: Any = label[4]
    return bool(0 <= start <= length and 0 <= count <= length - start)


# --- send and wake -------------------------------------------------------------------------------------------


@promise(
    "L-SEND-4",
    on="append",
    sentence="A wake that meets an aborted activity goes to next-turn; every other send goes where it was sent.",
)
def sends_meet_their_list(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The record of a send names the list."""
    segment = top(before) if before.stack else None
    if not is_written(label, "agent/inbox/spliced") or segment is None or segment.kind != "send":
        return True
    return bool(label[2] == ("next-turn" if meets_abort(before, segment) else segment.detail[1]))


@promise("L-SEND-5", "A send whose record was refused raises, and wakes nobody.")
def refused_sends_end(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The raise is the only effect left."""
    if label[0] in ("call", "wait", "begin", "answer") or top(before).kind != "send" or top(before).heard != "refused":
        return True
    return label == ("leave", "raise", "refused")


@promise("L-WAKE-1", on="leave", sentence="A waking send to an idle agent starts a run before it returns.")
def idle_wakes_run(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """It cannot return while the agent is idle."""
    segment = top(before) if label[0] == "leave" else None
    if segment is None or segment.kind != "send" or label[1] != "return" or not segment.detail[2]:
        return True
    return before.activity != "idle"


@promise(
    "LI-14",
    "The latch is up only for a wake that met an aborted activity, a job, or (where the law says so) a run about to "
    "end; never once disposal bars it.",
    of_nodes=True,
)
def latch_has_reason(node: Node, law: Law) -> Answer:
    """The latch is compared with the wakes that the bystander counts."""
    if node.memory.stack and top(node.memory).kind == "answer maintenance" and not top(node.memory).heard:
        return True  # the job has settled, and its routine has not spoken yet
    return not node.config.core.latch or node.memory.waked


@promise("L-WAKE-3", "Such a wake is never forgotten while its activity lives.", of_nodes=True)
def wakes_are_latched(node: Node, law: Law) -> Answer:
    """The converse of LI-14."""
    return not node.memory.waked or node.config.core.latch


@promise(
    "LI-15",
    on="notify",
    sentence="A run begins by a waking send, or after the end of an activity that owes a wake with something pending.",
)
def runs_have_reason(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A replayed run comes after `status idle`, and only when due."""
    if not is_told(label, "agent/status") or label[2] != "running":
        return True
    segment = top(before)
    if is_replay(segment):
        return bool(before.due) and bool(before.next_step or before.next_turn) and before.status == "idle"
    return segment.kind == "send" and segment.detail[2] is True


@promise("L-WAKE-5", on="leave", sentence="A due wake with something pending starts a run when the activity ends.")
def due_wakes_run(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The end of an activity is not settled while the agent is idle and owes a run."""
    if label != ("leave", "settled"):
        return True
    return not (before.due and before.activity == "idle" and (before.next_step or before.next_turn))


@promise(
    "LI-16",
    on="append note",
    sentence="Once disposal has reached a run, no turn opens before idle.",
    broken=lambda law: "" if law.observer_operations_wait else "CW18",
    needs=("cancel disposed",),
)
def disposal_opens_no_turn(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """No turn is opened, and no fresh signal takes the place of the aborted one."""
    barred = before.doomed if law.any_disposal_bars_latch else before.cause == "disposed"
    fresh = label == ("note", "signal") and before.activity == "running"
    return not ((is_written(label, "turn/start") or fresh) and barred)


@promise(
    "LI-17",
    on="append",
    sentence="Parked input runs only after a wake, or after a normal turn end in a run that a wake began.",
)
def parked_input_waits(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A turn opens only in a run, and not once the run is about to end."""
    return not is_written(label, "turn/start") or (before.activity == "running" and before.ending == "")


@promise(
    "L-TURN-7",
    on="note",
    sentence="After a rejection, an error, an abort or an empty first batch the run ends: no further turn.",
)
def stopped_runs_end(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """No fresh signal is given to a run that was stopped."""
    fresh = label == ("note", "signal") and before.activity == "running"
    return not fresh or (before.ending == "normal" and bool(before.next_step or before.next_turn))
