"""Closing what a crash or a fork left open: the events that make a log balanced again.

A log whose last turn never ended gets one result for every call that still waits, the end of the open step
and the end of the turn. The closers are ordinary events; nothing that was stored is changed.

Rules: S-REP-1 to S-REP-8 (crash), S-FRK-5 and S-FRK-8 (fork, format 4).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeAlias

from loopspec.log.types import Dialect
from loopspec.values import Json, Record

Cut: TypeAlias = Literal["interrupted", "forked"]
"""Why the log stops in an open turn; also the `kind` of the `turn/end` that closes it."""

NOT_STARTED_TEXT = (
    "The tool call was interrupted before the Harness recorded it as started. Retry it if it is still needed."
)
"""Fixed: readers of format 4 compare it literally (S-REP-3)."""

OUTCOME_UNKNOWN_TEXT = (
    "The tool call was interrupted after it was recorded, but no result was durably recorded. "
    "Its outcome is unknown. Decide whether to retry from the tool semantics: retry only if the operation is "
    "read-only or idempotent; if it may have side effects, first verify external state or ask the user. "
    "Do not retry blindly."
)
"""As real logs have it; no reader checks it."""

FORKED_TEXT = "The tool call belongs to the session this one was forked from; its outcome is not known here."
"""Ours: the wording of fork closers is not known, and no reader checks it."""


class OpenWork(NamedTuple):
    """What stands open at the end of a log: the turn, the step, the calls without result.

    `pending` is (call id, seq of its `tool/call` or `None`) in the order the model made the calls.
    `turn` and `step` are `None` when nothing is open. `time` is that of the last event, 0 for an empty log.
    """

    turn: int | None = None
    step: int | None = None
    pending: tuple[tuple[str, int | None], ...] = ()
    length: int = 0
    time: int = 0


NOTHING_OPEN = OpenWork()


def follow(work: OpenWork, event: Record) -> OpenWork:
    """What is open after one more event (S-REP-2)."""
    event_type = event["type"]
    data: Record = event["data"]
    work = work._replace(length=work.length + 1, time=event["time"])
    if event_type == "turn/start":
        return work._replace(turn=data["turn"], step=None, pending=())
    if event_type == "turn/end":
        return work._replace(turn=None, step=None, pending=())
    if event_type == "step/start":
        return work._replace(step=data["step"])
    if event_type == "step/end":
        return work._replace(step=None, pending=())
    if event_type == "assistant/message":
        return _advertise(work, data["message"])
    if event_type == "tool/call":
        return _start(work, data["callId"], work.length - 1)
    if event_type == "tool/result":
        call_id = data["message"]["source"]["callId"]
        return work._replace(pending=tuple(item for item in work.pending if item[0] != call_id))
    return work


def open_work(events: Iterable[Record]) -> OpenWork:
    """What is open at the end of a log."""
    work = NOTHING_OPEN
    for event in events:
        work = follow(work, event)
    return work


def _advertise(work: OpenWork, message: Record) -> OpenWork:
    known = {call_id for call_id, _ in work.pending}
    added = tuple(
        (block["id"], None) for block in message["content"] if block["type"] == "tool-call" and block["id"] not in known
    )
    return work._replace(pending=work.pending + added)


def _start(work: OpenWork, call_id: str, seq: int) -> OpenWork:
    return work._replace(pending=tuple((other, seq if other == call_id else at) for other, at in work.pending))


def closers(dialect: Dialect, work: OpenWork, cut: Cut = "interrupted") -> tuple[Record, ...]:
    """The events to append, in order; none for a balanced log (S-REP-1, S-REP-3, S-FRK-5).

    Seqs continue the log and every time is that of the last event. `forked` exists in format 4 only.
    """
    if work.turn is None:
        return ()
    if cut == "forked" and dialect == "v0":
        raise ValueError("a format 0 log is never forked inside an open turn, so it has no fork closers")
    events: list[Record] = []
    seq = work.length
    if work.step is not None:
        for call_id, called_at in work.pending:
            events.append(_result(dialect, work, cut, call_id, called_at, seq))
            seq += 1
        events.append(_event("step/end", seq, work.time, {"turn": work.turn, "step": work.step}))
        seq += 1
    events.append(_event("turn/end", seq, work.time, {"turn": work.turn, "reason": {"kind": cut}}))
    return tuple(events)


def repair(dialect: Dialect, events: Iterable[Record]) -> tuple[Record, ...]:
    """The closers of a log that a crash interrupted (S-REP-1)."""
    return closers(dialect, open_work(events))


def fork(events: Iterable[Record]) -> tuple[Record, ...]:
    """What a format 4 fork child appends after the inherited prefix: the marker, then closers (S-FRK-5)."""
    work = open_work(events)
    marker = _event("session/end-seed", work.length, work.time, {"inherited": True})
    return (marker, *closers("v4", work._replace(length=work.length + 1), "forked"))


def _event(event_type: str, seq: int, time: int, data: Record) -> Record:
    return {"type": event_type, "seq": seq, "time": time, "data": data}


def _result(dialect: Dialect, work: OpenWork, cut: Cut, call_id: str, called_at: int | None, seq: int) -> Record:
    text, error = _verdict(cut, started=called_at is not None)
    prefix = "interrupted" if cut == "interrupted" else "forked"
    content = [{"type": "text", "text": text}]
    message: dict[str, Json] = {"id": f"{prefix}-tool-result-{call_id}-{seq}"}
    source = {"kind": "tool", "callId": call_id}
    if dialect == "v0":
        block = {"type": "tool-result", "toolCallId": call_id, "content": content, "isError": True}
        message |= {"role": "user", "source": source, "content": [block]}
    else:
        message |= {"role": "tool", "source": source, "toolCallId": call_id, "content": content}
        message |= {"isError": True}
    data: dict[str, Json] = {"turn": work.turn, "step": work.step, "message": message}
    if error is not None:
        data["error"] = error
    event = {**_event("tool/result", seq, work.time, data)}
    if called_at is not None:
        event["sourceEventSeqs"] = [called_at]
    event["surfaceOp"] = "append"
    return event


def _verdict(cut: Cut, *, started: bool) -> tuple[str, Record | None]:
    if cut == "forked":
        return FORKED_TEXT, None
    if started:
        return OUTCOME_UNKNOWN_TEXT, {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
    return NOT_STARTED_TEXT, {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
