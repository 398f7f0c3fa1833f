"""What the driver promises. The ids are those of the law: `LI-*` safety, `L-*` single rules, `CW*` windows.

`PROMISES` hold in every reachable node or move; `loopspec.properties.reachable` lists what must be reachable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from loopspec.inbox import distinct
from loopspec.kernel.claims import Answer
from loopspec.profile import Law
from loopspec.properties import course
from loopspec.properties.bystander import Seen, is_replay, meets_abort, top
from loopspec.properties.claims import Label, Promise
from loopspec.worlds.world import Node

PROMISES: list[Promise] = []


J = TypeVar("J", bound=Callable[..., Answer])


def promise(
    name: str,
    sentence: str,
    on: str = "",
    broken: Callable[[Law], str] = lambda law: "",
    of_nodes: bool = False,
    needs: tuple[str, ...] = (),
) -> Callable[[J], J]:
    """Enter a judge under its name: of moves with one of the verbs `on` (all, if empty), or `of_nodes`."""

    def enter(judge: J) -> J:
        move, node = (None, judge) if of_nodes else (judge, None)
        PROMISES.append(Promise(name, sentence, move, node, broken, frozenset(on.split()), needs))
        return judge

    return enter


def is_written(label: Label, record: str) -> bool:
    """The label writes such a record."""
    return bool(label[0] == "append" and label[1] == record)


def is_told(label: Label, event: str) -> bool:
    """The label publishes such an event."""
    return bool(label[0] == "notify" and label[1] == event)


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
