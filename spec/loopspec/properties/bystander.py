"""What a bystander of one driver knows: a fold over the labels of the moves, and nothing else.

Claims about the past need a memory. This one never looks into the machine: it keeps the log's brackets, the lists as
the records tell them, the call stack as calls and returns tell it, and the promises made to senders. So a rule that
loses something is judged by what it did, not by the field that it forgot to set.

`Seen` is one memory; `watch(law)` gives the function that folds one label into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from loopspec.inbox import Ids
from loopspec.kernel.machine import state
from loopspec.profile import Law
from loopspec.properties import course

Owed = tuple[tuple[str, int], ...]

Label = tuple[Any, ...]
"""The labels of a world are tuples: `(verb, …)`."""


@state
class Segment(NamedTuple):
    """One synchronous call in progress, as its effects tell it."""

    kind: str
    """The name of the operation, or `answer <await point>`; `run` or `job` once it has begun one."""
    detail: tuple[Any, ...] = ()
    """The arguments of the operation."""
    locked: bool = False
    """It was called while a record was being published."""
    observed: bool = False
    """Observers of a record of its own are running."""
    heard: str = ""
    """The effect whose listeners run, or ran last."""
    owed: Owed = ()
    """Live inbox events that its records owe, in order (L-IN-8, L-IN-13)."""
    after_abort: bool = False
    """A waking send that met an aborted activity (L-SEND-3)."""
    cleared: int = 0
    """How far a clearing cancel has come: 1 next-step, 2 next-turn, 3 abort."""

    def put(self, **changes: Any) -> Segment:
        """A copy with some fields changed."""
        return self._replace(**changes)


@state
class Seen(NamedTuple):
    """What a bystander remembers."""

    stack: tuple[Segment, ...] = ()
    next_step: Ids = ()
    next_turn: Ids = ()
    """The lists, folded from the records (L-IN-16)."""
    status: Literal["idle", "running"] = "idle"
    """The last published status."""
    activity: Literal["idle", "running", "maintenance"] = "idle"
    cause: str = ""
    """The first cause that aborted the signal of the moment."""
    doomed: bool = False
    """A cancel with cause `disposed` reached this activity."""
    waked: bool = False
    """A wake that this activity has to honour at its end (L-WAKE-2, L-WAKE-3, L-WAKE-10)."""
    due: str = ""
    """While an activity ends: `wake` if there was one to honour, `doomed` if a disposal had been asked for too."""
    ending: str = ""
    """The run is ending: `normal` after an ordinary turn end, `stop` after any other, `error` before its record."""
    at: str = ""
    """The await point at which the routine waits."""
    chunked: bool = False
    """Waiting for a chunk, with one published before."""
    turn: int = 0
    open_turn: bool = False
    step: int = 0
    open_step: bool = False
    torn: bool = False
    """A closing record of this turn was refused (LR-207, LR-208)."""
    opening: Literal["", "fresh", "claimed", "proposed"] = ""
    """How far the first proposal of the turn has come."""
    batch: Ids = ()
    """Claimed and not yet entered."""
    interrupted: bool = False
    """The last anchor of the open step is an interrupted one."""
    headed: bool = False
    """A request header of this driver is in the log."""
    ends: str = ""
    """How the turn would end by what its steps gave; empty while an answer is owed."""
    result: str = ""
    """What the open step gives: `completed`, `continue`, `max-tokens`, or `raised`."""
    verdict: tuple[Any, ...] = ()
    """A pre-step verdict that is read a tick later (L-PRE-9)."""
    expect: tuple[str, ...] = ()
    """What the routine does next, see `loopspec.properties.course`."""
    promise: tuple[str, int] | tuple[()] = ()
    """A wake that nobody has honoured yet: the race that could lose it, and the message."""

    def put(self, **changes: Any) -> Seen:
        """A copy with some fields changed."""
        return self._replace(**changes)


START = Seen()


def top(seen: Seen) -> Segment:
    """The innermost call in progress."""
    return seen.stack[-1]


def with_top(seen: Seen, segment: Segment) -> tuple[Segment, ...]:
    """The call stack with its innermost call replaced."""
    return (*seen.stack[:-1], segment)


def heard_name(label: Label) -> str:
    """An effect by its name; the status with its value."""
    return f"status {label[2]}" if label[1] == "agent/status" else str(label[1])


def is_aborted(seen: Seen) -> bool:
    """The signal of the moment has been aborted."""
    return bool(seen.cause)


def is_barred(seen: Seen, law: Law) -> bool:
    """L-WAKE-9, L-DSP-6  Disposal has been asked for, so that no wake need be honoured."""
    return seen.doomed if law.any_disposal_bars_latch else seen.cause == "disposed"


def clearing(seen: Seen) -> bool:
    """A clearing cancel is in progress, at any depth."""
    return any(segment.kind == "cancel" and not segment.detail[1] for segment in seen.stack)


def is_replay(segment: Segment) -> bool:
    """The call is the end of an activity: a run that begins in it is a replayed one (L-WAKE-5)."""
    return segment.kind in ("answer gap", "answer maintenance")


def quiet(seen: Seen) -> bool:
    """No call in progress and no activity."""
    return not seen.stack and seen.activity == "idle"


# --- calls ---------------------------------------------------------------------------------------------------


def begun(seen: Seen, operation: tuple[Any, ...], locked: bool) -> Seen:
    """An operation begins."""
    name, *detail = operation
    return seen.put(stack=(*seen.stack, Segment(name, tuple(detail), locked)))


def meets_abort(seen: Seen, segment: Segment) -> bool:
    """L-SEND-3  A waking send is classified when it speaks first; what had waited longer has been done by then."""
    if segment.kind != "send" or segment.heard:
        return segment.after_abort
    return bool(segment.detail[2]) and seen.activity != "idle" and is_aborted(seen)


def called(seen: Seen, label: Label, law: Law) -> Seen:
    """A call from outside."""
    locked = bool(seen.stack) and (top(seen).locked or top(seen).observed)
    return begun(seen, label[1:], locked)


def begins(seen: Seen, label: Label, law: Law) -> Seen:
    """A waiting operation begins: the observers are done."""
    locked = False
    if seen.stack:
        seen = seen.put(stack=with_top(seen, top(seen).put(observed=False)))
        locked = top(seen).locked
    return begun(seen, label[1:], locked)


def answered(seen: Seen, label: Label, law: Law) -> Seen:
    """An await point was answered; the routine goes on."""
    point, answer = label[1], label[2]
    kind = f"answer {point[0]} {answer[0]}" if point[0] == "chunk" else f"answer {point[0]}"
    seen = course.answered(seen.put(at="", stack=(Segment(kind),)), point, answer, law)
    if point[0] == "maintenance":
        return ended(seen, law)
    if point[0] == "pre-step" and seen.promise and seen.promise[0] == "LR-092" and answer[0] != "reject":
        return seen.put(promise=())
    return seen


def ended(seen: Seen, law: Law) -> Seen:
    """An activity is over; the wake that it owes is due now (L-WAKE-5, L-MNT-7)."""
    dropped = law.disposal_drops_latch and is_barred(seen, law)
    due = "" if dropped or not seen.waked else "doomed" if seen.doomed else "wake"
    return seen.put(activity="idle", cause="", doomed=False, waked=False, due=due, ending="")


def left(seen: Seen, label: Label, law: Law) -> Seen:
    """A call ends. What it changed in silence is accounted for now."""
    segment = top(seen)
    outer = seen.stack[:-1]
    seen = seen.put(stack=outer)
    if segment.kind == "send" and label[1] == "return" and segment.detail[2]:
        return send_left(seen, segment, law)
    if segment.kind == "cancel" and label[1] == "return":
        return cancel_took(seen, segment)
    if label[1] == "settled":
        if seen.due and seen.activity == "maintenance" and (seen.next_step or seen.next_turn):
            seen = seen.put(waked=seen.waked or not is_barred(seen, law))
        return seen.put(due="")
    return seen


def send_left(seen: Seen, segment: Segment, law: Law) -> Seen:
    """A waking send returns without having started a run: is its wake kept for later?"""
    message = segment.detail[0]
    barred = is_barred(seen, law)
    closing = seen.activity == "running" and seen.ending != ""
    honours = seen.activity == "maintenance" or segment.after_abort or (closing and law.closing_run_latches)
    if honours and not barred:
        seen = seen.put(waked=True)
    if message not in seen.next_step + seen.next_turn or seen.activity != "running" or seen.doomed:
        return seen
    if clearing(seen):
        return promised(seen, "LR-043", message)
    if segment.after_abort:
        return seen
    if closing:
        return promised(seen, "LR-084" if seen.ending == "error" else "LR-070", message)
    if seen.at == "pre-step" and not seen.stack and not is_aborted(seen):
        return promised(seen, "LR-092", message)
    return seen


STRONG = ("LR-070", "LR-084", "LR-008")
"""Promises that a weaker one does not replace."""


def promised(seen: Seen, race: str, message: int) -> Seen:
    """Remember a wake that is to be honoured; the first of the strong ones is kept."""
    if seen.promise and (seen.promise[0] in STRONG or race not in STRONG):
        return seen
    return seen.put(promise=(race, message))


def cancel_took(seen: Seen, segment: Segment) -> Seen:
    """A cancel has done its clearing; if it disposes of a live activity, no wake is owed any more."""
    if not segment.detail[1]:
        seen = seen.put(waked=False)
    if segment.detail[0] == "disposed" and seen.activity != "idle":
        seen = seen.put(doomed=True, promise=())
    return seen


def parked(seen: Seen, label: Label, law: Law) -> Seen:
    """The routine waits; the call that it ran in returns."""
    seen = course.follow(seen, label, law)
    seen = seen.put(stack=seen.stack[:-1], at=label[1], chunked=label[1:] == ("chunk", True))
    if label[1] == "assembly" and seen.opening in ("fresh", "claimed"):
        return seen.put(opening="proposed")
    return seen


def refused(seen: Seen, label: Label, law: Law) -> Seen:
    """A record was not written. What a claim had promised before it is lost (LR-202)."""
    seen = course.refused(seen, label, law)
    segment = top(seen)
    detail = (0, "", segment.detail[2]) if segment.kind == "send" else segment.detail
    segment = segment.put(detail=detail, owed=(), observed=False, heard="refused")
    seen = seen.put(stack=with_top(seen, segment))
    if label[1] in ("turn/end", "step/end"):
        return seen.put(torn=True)
    return seen


# --- records -------------------------------------------------------------------------------------------------


def spliced(seen: Seen, label: Label, law: Law) -> Seen:
    """The lists, and the events that are owed for the change."""
    _, _, target, start, count, inserted, outcome = label
    items = seen.next_turn if target == "next-turn" else seen.next_step
    removed = items[start : start + count]
    items = items[:start] + inserted + items[start + count :]
    segment = top(seen)
    kind = "discarded" if outcome else "claimed"
    owed = (*segment.owed, *((kind, one) for one in removed), *(("inserted", one) for one in inserted))
    detail, cleared = segment.detail, segment.cleared
    if segment.kind == "cancel":
        cleared = max(cleared, 1 if target == "next-step" else 2)
    elif segment.kind == "send":  # the target has been met or missed: `L-SEND-4` judges this very move
        detail = (detail[0], "", True) if detail[2] else (0, "", False)
    stack = with_top(seen, segment.put(owed=owed, detail=detail, cleared=cleared))
    seen = seen.put(stack=stack, next_turn=items) if target == "next-turn" else seen.put(stack=stack, next_step=items)
    if kind == "claimed" and removed:
        if target == "next-turn" and seen.opening == "fresh":
            seen = seen.put(opening="claimed")
        seen = seen.put(batch=seen.batch + removed)
    if seen.promise and seen.promise[1] in removed:
        seen = seen.put(promise=())
    return seen


def turn_started(seen: Seen, label: Label, law: Law) -> Seen:
    """The bracket of a turn opens."""
    return seen.put(
        turn=label[2],
        open_turn=True,
        step=0,
        open_step=False,
        torn=False,
        opening="fresh",
        batch=(),
        interrupted=False,
    )


def turn_over(seen: Seen, label: Label, law: Law) -> Seen:
    """The bracket of a turn closes; how it ended decides whether the run may go on (L-TURN-7, L-DRV-2)."""
    normal = label[3] == "max-tokens" or (label[3] == "completed" and seen.step > 0)
    return seen.put(open_turn=False, step=0, opening="", batch=(), ending="normal" if normal else "stop")


def step_started(seen: Seen, label: Label, law: Law) -> Seen:
    """The bracket of a step opens."""
    return seen.put(step=label[3], open_step=True, interrupted=False)


def step_over(seen: Seen, label: Label, law: Law) -> Seen:
    """The bracket of a step closes; what was claimed for it and not entered stays out."""
    segment = top(seen)
    return seen.put(
        stack=with_top(seen, segment.put(kind="run", detail=(), cleared=0)),
        open_step=False,
        batch=(),
        interrupted=False,
    )


def entered(seen: Seen, label: Label, law: Law) -> Seen:
    """One claimed message is in history."""
    return seen.put(batch=tuple(one for one in seen.batch if one != label[2]))


def anchored(seen: Seen, label: Label, law: Law) -> Seen:
    """The anchor of an answer."""
    return seen.put(interrupted=True) if label[2] == "interrupted" else seen


# --- live events and silent changes --------------------------------------------------------------------------


def told(seen: Seen, label: Label, law: Law) -> Seen:
    """One owed inbox event was published."""
    segment = top(seen)
    return seen.put(stack=with_top(seen, segment.put(owed=segment.owed[1:])))


def status_told(seen: Seen, label: Label, law: Law) -> Seen:
    """The status; `idle` ends the activity, `running` begins one and honours what was promised."""
    if label[2] == "idle":
        return ended(seen.put(status="idle"), law)
    segment = top(seen)
    return seen.put(
        stack=with_top(seen, Segment("run", locked=segment.locked, heard="status running")),
        status="running",
        activity="running",
        waked=False,
        due="" if is_replay(segment) else seen.due,
        ending="",
        promise=(),
        cause="",
        doomed=False,
    )


def job_begun(seen: Seen, label: Label, law: Law) -> Seen:
    """A maintenance job runs."""
    segment = top(seen)
    stack = with_top(seen, Segment("job", locked=segment.locked, heard="job"))
    return seen.put(stack=stack, activity="maintenance", waked=False, cause="", doomed=False)


def aborts(seen: Seen, label: Label, law: Law) -> Seen:
    """The signal is aborted; a clearing cancel has dropped the wake by now."""
    segment = top(seen).put(cleared=3)
    seen = seen.put(stack=with_top(seen, segment), cause=seen.cause or label[2])
    if segment.kind == "cancel":
        seen = cancel_took(seen, segment)
        outer = seen.stack[-2] if len(seen.stack) > 1 else None
        if outer is not None and is_lost_in_its_own_record(seen, segment, outer):
            seen = promised(seen, "LR-008", outer.detail[0])
        # Its clearing is over: what is sent from now on is sent after it.
        seen = seen.put(stack=with_top(seen, segment.put(detail=("", True))))
    return seen


def is_lost_in_its_own_record(seen: Seen, cancel: Segment, send: Segment) -> bool:
    """LR-008  A clearing cancel, from an observer of the insertion of the only pending message, a waking one."""
    return (
        send.kind == "send"
        and bool(send.detail[2])
        and send.observed
        and send.heard == "agent/inbox/spliced"
        and not cancel.detail[1]
        and cancel.detail[0] != "disposed"
        and seen.activity == "running"
        and not send.after_abort
    )


def header_written(seen: Seen, label: Label, law: Law) -> Seen:
    """A header of this driver is in the log, whatever becomes of the attempt (L-REQ-12)."""
    return seen.put(headed=True)


def failed(seen: Seen, label: Label, law: Law) -> Seen:
    """An error was told: the run will end (L-WAKE-11)."""
    return seen.put(ending="error" if seen.open_turn and not seen.torn else "stop")


def renewed(seen: Seen, label: Label, law: Law) -> Seen:
    """A fresh signal: a new activity, or the next turn of a run (L-TURN-16)."""
    return seen.put(cause="", doomed=False, waked=False, ending="" if seen.ending == "normal" else seen.ending)


Fold = Callable[[Seen, Label, Law], Seen]

MOVES: dict[str, Fold] = {
    "call": called,
    "wait": lambda seen, label, law: seen,
    "begin": begins,
    "answer": answered,
    "leave": left,
    "park": parked,
    "refuse": refused,
}

EFFECTS: dict[str, Fold] = {
    "agent/inbox/spliced": spliced,
    "turn/start": turn_started,
    "turn/end": turn_over,
    "step/start": step_started,
    "step/end": step_over,
    "user/message": entered,
    "request/header": header_written,
    "assistant/message": anchored,
    "agent/inbox/discarded": told,
    "agent/inbox/claimed": told,
    "agent/inbox/inserted": told,
    "agent/status": status_told,
    "agent/error": failed,
    "job": job_begun,
    "abort": aborts,
    "signal": renewed,
}


def watch(law: Law) -> Callable[[Seen, Label], Seen]:
    """The fold under a law; it asks the law only what counts as a promise."""

    def fold(seen: Seen, label: Label) -> Seen:
        move = MOVES.get(label[0])
        if move is not None:
            return move(seen, label, law)
        seen = course.follow(seen, label, law)
        segment = seen.stack[-1]
        aborted = meets_abort(seen, segment)
        segment = segment.put(observed=label[0] == "append", heard=heard_name(label), after_abort=aborted)
        seen = seen.put(stack=(*seen.stack[:-1], segment))
        effect = EFFECTS.get(label[1])
        return seen if effect is None else effect(seen, label, law)

    return fold
