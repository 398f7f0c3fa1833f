"""What must be reachable: every cancellation window, and the races that touch the driver.

Without these, promises could hold only because nothing ever happens. A witness that a law makes impossible is turned
into a promise that it never happens: so each defect that a profile closes is shown open in one and closed in another.

What follows a window is judged by the course of the turn (promise L-TURN-2) and by LI-11 to LI-13.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loopspec.profile import Law
from loopspec.properties.bystander import Seen, top
from loopspec.properties.claims import Label, Witness
from loopspec.worlds.world import Node

Move = Callable[[Seen, Label, Seen], bool]


def is_abort(label: Label) -> bool:
    """The signal is aborted by this move."""
    return label[:2] == ("notify", "abort")


def heard_outside(before: Seen) -> str:
    """What the calls around the innermost one are listening to; empty when it was called from a task of its own."""
    return before.stack[-2].heard if len(before.stack) > 1 else ""


def abort_in(*heard: str) -> Move:
    """An abort by a listener or observer of one of these effects."""
    return lambda before, label, after: is_abort(label) and heard_outside(before) in heard


def abort_at(*points: str) -> Move:
    """An abort by a task of its own while the routine waits at one of these points."""
    return lambda before, label, after: is_abort(label) and len(before.stack) == 1 and before.at in points


def aborted_before_first_chunk(before: Seen, label: Label, after: Seen) -> bool:
    """The routine waits for the first chunk, which the queue of the course tells."""
    return is_abort(label) and len(before.stack) == 1 and before.at == "chunk" and not before.chunked


def aborted_between_chunks(before: Seen, label: Label, after: Seen) -> bool:
    """After a chunk: from its observer, or while waiting for the next one."""
    if not is_abort(label):
        return False
    heard = ("assistant/chunk", "agent/assistant-stream")
    return heard_outside(before) in heard or (len(before.stack) == 1 and before.at == "chunk" and before.chunked)


def finished_under_abort(before: Seen, label: Label, after: Seen) -> bool:
    """The response was complete, and its anchor is an interrupted one all the same."""
    return label == ("append", "assistant/message", "interrupted") and top(before).kind == "answer chunk end"


def calls_under_abort(before: Seen, label: Label, after: Seen) -> bool:
    """The tool batch begins although the signal is aborted."""
    return label == ("park", "tools") and bool(before.cause)


def cancel_while_idle(before: Seen, label: Label, after: Seen) -> bool:
    """A cancel from a listener of `status idle`."""
    return label[:2] == ("call", "cancel") and bool(before.stack) and top(before).heard == "status idle"


def in_gap(*endings: str) -> Move:
    """An abort in the gap, after a turn that let the run go on, or after the last one."""
    return lambda before, label, after: (
        is_abort(label) and len(before.stack) == 1 and before.at == "gap" and before.ending in endings
    )


_WINDOWS: tuple[Witness, ...] = (
    Witness("window CW1", "A listener of `status running` cancels before the turn opened.", abort_in("status running")),
    Witness("window CW2", "An observer of `turn/start` cancels.", abort_in("turn/start")),
    Witness("window CW3", "A listener of `claimed` cancels.", abort_in("agent/inbox/claimed")),
    Witness("window CW4", "A cancel during assembly.", abort_at("assembly")),
    Witness("window CW5", "A cancel during pre-step.", abort_at("pre-step")),
    Witness(
        "window CW6",
        "An observer of `step/start` or of an entered message cancels.",
        abort_in("step/start", "user/message"),
    ),
    Witness("window CW7", "A cancel while a request is proposed or prepared.", abort_at("request", "prepare")),
    Witness("window CW8", "An observer of `request/header` cancels.", abort_in("request/header")),
    Witness("window CW9", "A cancel before the first chunk.", aborted_before_first_chunk),
    Witness("window CW10", "A cancel between chunks, or from the observer of one.", aborted_between_chunks),
    Witness("window CW11", "A complete response is anchored as interrupted.", finished_under_abort),
    Witness("window CW12", "An observer of the anchor cancels.", abort_in("assistant/message")),
    Witness("window CW13", "The tool batch begins under an aborted signal.", calls_under_abort, needs=("calls",)),
    Witness("window CW15", "A cancel during recovery.", abort_at("recovery"), needs=("faults",)),
    Witness("window CW16", "An observer of `step/end` cancels.", abort_in("step/end")),
    Witness("window CW17", "A cancel while listeners are asked whether the turn may stop.", abort_at("turn-stopping")),
    Witness(
        "window CW18",
        "An observer of `turn/end` cancels the signal of the turn that has just ended.",
        abort_in("turn/end"),
        applies=lambda law: not law.observer_operations_wait,
    ),
    Witness("window CW19", "A cancel in the hand-over to the next turn.", in_gap("")),
    Witness("window CW20", "A cancel in the exit gap.", in_gap("normal", "stop")),
    Witness("window CW21", "A listener of `status idle` cancels.", cancel_while_idle),
)


WINDOWS: tuple[Witness, ...] = tuple(replace(one, needs=(*one.needs, "cancel user")) for one in _WINDOWS)
"""Every window needs somebody who cancels."""


# --- races ---------------------------------------------------------------------------------------------------


def at_rest_owing(race: str) -> Callable[[Node], bool]:
    """An agent at rest that still owes a wake of this race: it was parked."""

    def judge(node: Node) -> bool:
        seen = node.memory
        return bool(seen.promise) and seen.promise[0] == race and not seen.stack and seen.activity == "idle"

    return judge


def empty_turn(before: Seen, label: Label, after: Seen) -> bool:
    """A turn without a step, because its message was taken away."""
    return label[:2] == ("append", "turn/end") and label[3:] == ("completed",) and before.step == 0


def lost_send(before: Seen, label: Label, after: Seen) -> bool:
    """A send raised inside a record's observer."""
    return label == ("leave", "raise", "refused") and top(before).kind == "send" and top(before).locked


def lost_cancel(before: Seen, label: Label, after: Seen) -> bool:
    """A cancel raised inside a record's observer, and nobody heard it."""
    return label == ("leave", "raise", "refused") and top(before).kind == "cancel" and top(before).locked


def lost_cancel_at_insertion(before: Seen, label: Label, after: Seen) -> bool:
    """From the observer of an insertion, while a run lives."""
    return lost_cancel(before, label, after) and before.stack[-2].kind == "send" and before.activity == "running"


def lost_cancel_at_turn_end(before: Seen, label: Label, after: Seen) -> bool:
    """From the observer of `turn/end`, so that the next turn runs."""
    return lost_cancel(before, label, after) and heard_outside(before) == "turn/end" and before.ending == "normal"


def signal_replaced(before: Seen, label: Label, after: Seen) -> bool:
    """An aborted signal is replaced by a fresh one, and the run goes on."""
    return label == ("note", "signal") and before.activity == "running" and bool(before.cause)


def replay_after_disposal(before: Seen, label: Label, after: Seen) -> bool:
    """A run is replayed although its predecessor had been told to dispose, second cause or first."""
    return label == ("notify", "agent/status", "running") and before.due == "doomed"


def batch_lost(before: Seen, label: Label, after: Seen) -> bool:
    """An aborted turn ends without a step, and what it had claimed is gone."""
    return label[:2] == ("append", "turn/end") and label[3] == "aborted" and before.step == 0 and bool(before.batch)


def replayed(before: Seen, label: Label, after: Seen) -> bool:
    """A latched wake starts a run when the activity before it ends."""
    return label == ("notify", "agent/status", "running") and top(before).kind == "answer gap"


def replayed_after_job(before: Seen, label: Label, after: Seen) -> bool:
    """A latched wake starts a run when the job ends."""
    return label == ("notify", "agent/status", "running") and top(before).kind == "answer maintenance"


def retargeted(before: Seen, label: Label, after: Seen) -> bool:
    """A steer that met an aborted run became a prompt."""
    segment = top(before) if before.stack and label[0] == "append" else None
    return (
        segment is not None
        and segment.detail[1:2] == ("next-step",)
        and label[1:3] == ("agent/inbox/spliced", "next-turn")
    )


def two_steps(before: Seen, label: Label, after: Seen) -> bool:
    """A turn with two steps."""
    return label[:2] == ("append", "step/start") and label[3] == 2


def nested_run(before: Seen, label: Label, after: Seen) -> bool:
    """A run begins inside the `idle` notification of another."""
    return label == ("notify", "agent/status", "running") and heard_outside(before) == "status idle"


def job_in_idle_window(before: Seen, label: Label, after: Seen) -> bool:
    """A job begins inside the `idle` notification while a wake is due."""
    return label == ("notify", "job") and heard_outside(before) == "status idle" and bool(before.due)


def job_before_wake(before: Seen, label: Label, after: Seen) -> bool:
    """A job begins inside a waking send to an idle agent."""
    return label == ("notify", "job") and len(before.stack) > 1 and before.stack[-2].kind == "send"


def abort_at_tick(before: Seen, label: Label, after: Seen) -> bool:
    """An abort between the abort check and the reading of the verdict."""
    return is_abort(label) and before.at == "tick" and len(before.stack) == 1


def claim_torn(before: Seen, label: Label, after: Seen) -> bool:
    """The second record of a claim is refused after the first was written."""
    return label[:3] == ("refuse", "agent/inbox/spliced", "next-turn") and bool(before.batch) and not label[6]


def late_error_cancel(before: Seen, label: Label, after: Seen) -> bool:
    """A turn ends in error although a listener of the error cancelled it."""
    return label[:2] == ("append", "turn/end") and label[3] == "error" and bool(before.cause)


def _waits(law: Law) -> bool:
    return not law.observer_operations_wait


def _parks(law: Law) -> bool:
    return not law.closing_run_latches


RACES: tuple[Witness, ...] = (
    Witness("LR-001", "A turn opens with nothing left to claim, and completes without a step.", empty_turn),
    Witness(
        "LR-006",
        "A send from an observer of an insertion is refused.",
        lost_send,
        applies=_waits,
    ),
    Witness(
        "LR-008",
        "A wake is parked because the cancel came between its record and its insertion.",
        node=at_rest_owing("LR-008"),
        applies=lambda law: not law.observer_operations_wait and not law.observers_see_splice_done,
    ),
    Witness(
        "LR-009",
        "A clearing cancel from an observer of an insertion is lost.",
        lost_cancel_at_insertion,
        applies=_waits,
    ),
    Witness("LR-014", "A second steer runs as a second step of the turn.", two_steps),
    Witness("LR-030", "A wake during convergence is replayed.", replayed),
    Witness("LR-032", "A steer that meets an aborted run becomes a prompt.", retargeted, needs=("cancel user",)),
    Witness(
        "LR-043",
        "A wake sent while a cancel clears is parked.",
        node=at_rest_owing("LR-043"),
        needs=("cancel user", "messages=3"),
    ),
    Witness(
        "LR-046",
        "A job takes the place of a due wake inside the idle notification.",
        job_in_idle_window,
        needs=("jobs",),
    ),
    Witness("LR-052", "A keeping cancel loses the claimed batch.", batch_lost, needs=("cancel user",)),
    Witness("LR-070", "A wake in the exit gap is parked.", node=at_rest_owing("LR-070"), applies=_parks),
    Witness("LR-074", "A keeping cancel from an observer of `turn/end` is lost.", signal_replaced, applies=_waits),
    Witness(
        "LR-075", "A clearing cancel from an observer of `turn/end` is lost.", lost_cancel_at_turn_end, applies=_waits
    ),
    Witness("LR-077", "A run begins inside the idle notification of another.", nested_run),
    Witness(
        "LR-084",
        "A wake from a listener of an error is parked.",
        node=at_rest_owing("LR-084"),
        applies=_parks,
        needs=("faults",),
    ),
    Witness(
        "LR-085",
        "A turn stays an error although it was cancelled after the error was told.",
        late_error_cancel,
        needs=("faults",),
    ),
    Witness(
        "LR-092",
        "A wake sent while pre-step decides to reject is parked.",
        node=at_rest_owing("LR-092"),
        needs=("faults",),
    ),
    Witness(
        "LR-095",
        "An abort lands in the tick before the verdict is read.",
        abort_at_tick,
        applies=lambda law: law.verdict_is_read_a_tick_late,
    ),
    Witness("LR-190", "A wake behind a job is replayed when the job settles.", replayed_after_job, needs=("jobs",)),
    Witness("LR-202", "A claim is torn: its second record is refused.", claim_torn, needs=("refusals",)),
    Witness(
        "LR-222",
        "After a user's cancel and a disposal a latched wake still runs a full turn.",
        replay_after_disposal,
        needs=("cancel disposed",),
        applies=lambda law: not law.any_disposal_bars_latch,
    ),
    Witness("window L-MNT-1", "A job begins inside a waking send to an idle agent.", job_before_wake, needs=("jobs",)),
)
