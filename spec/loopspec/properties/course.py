"""The course of a turn, as the tables of the law give it: what the routine does after each answer.

`Seen.expect` is a queue of names. A plain name is the next effect of the routine (`append`, `notify` or `note` by name,
an await point as `await <point>`). A name that begins with `?` is decided when the effect comes, because listeners may
abort or send until then:

| name | the effect |
|---|---|
| `?fail` | `agent/error` or the aborted end of the turn (L-TURN-3) |
| `?open` | `turn/start`, or the gap when the signal was aborted (L-TURN-1, CW1, CW19) |
| `?propose` | assembly after the claim, or the end of the turn when aborted (L-TURN-2, CW2) |
| `?request`, `?chunk` | the await point, or `step/end` when aborted (CW6, CW8) |
| `?result` | what follows `step/end` (L-TURN-3, L-TURN-12, CW16) |
| `?drain` | what follows `turn/end` (L-TURN-14, L-TURN-16) |

Inbox records and events are left out: they have rules of their own.
"""

from __future__ import annotations

from typing import Any

from loopspec.kernel.machine import Answer, Effect
from loopspec.profile import Law

Names = tuple[str, ...]
Label = tuple[Any, ...]

INBOX = frozenset(
    {"agent/inbox/spliced", "agent/inbox/inserted", "agent/inbox/discarded", "agent/inbox/claimed", "abort"}
)

STREAM = "agent/assistant-stream"
STEP_ENDS: Names = ("step/end", "?result")
RUN_ENDS: Names = ("await gap", "agent/status idle")


def name_of(label: Label) -> str:
    """An effect of the routine by the name that the queue uses for it."""
    verb, effect = label[0], label[1]
    if verb == "park":
        return f"await {effect}"
    if effect in ("assistant/message", "agent/assistant-stream", "agent/status"):
        return f"{effect} {label[2]}"
    if effect == "turn/end":
        return f"turn/end {label[3]}"
    return str(effect)


def is_routine(kind: str) -> bool:
    """A call in which the routine itself speaks: a run, a job, or the answer to an await point."""
    return kind in ("run", "job") or kind.startswith("answer")


def concerns(seen: Any, label: Label) -> bool:
    """The label is an effect of the routine that the queue speaks about."""
    return is_routine(seen.stack[-1].kind) and label[1] not in INBOX


def failing(seen: Any) -> Names:
    """L-TURN-3, L-CAN-10  How a raise ends the turn."""
    return ("turn/end aborted", "?drain") if seen.cause else ("agent/error", "turn/end error", "?drain")


def resolved(seen: Any, law: Law) -> Names:
    """The queue with its first name decided as of now."""
    expect: Names = seen.expect
    if not expect or not expect[0].startswith("?"):
        return expect
    head, rest = expect[0], expect[1:]
    if head == "?fail":
        return failing(seen)
    if head == "?open":
        return ("await gap",) if seen.cause else ("turn/start", "?propose")
    if head == "?propose":
        return failing(seen) if seen.cause and not seen.batch else ("await assembly",)
    if head in ("?request", "?chunk"):
        if seen.cause:
            return STEP_ENDS
        started = (f"{STREAM} start",) if head == "?chunk" and law.streams_are_embedded else ()
        return (*started, f"await {head[1:]}", *rest)
    if head == "?result":
        if seen.batch:  # the claim has begun; nothing stops it now (CW3)
            return ("await assembly",)
        if seen.result == "raised" or seen.cause:
            return failing(seen)
        return ("await assembly",) if seen.next_step or not seen.ends else ("await turn-stopping",)
    assert head == "?drain", head
    if seen.ending == "normal" and (seen.next_step or seen.next_turn):
        return ("signal", "await gap", "?open")
    return RUN_ENDS


def follow(seen: Any, label: Label, law: Law) -> Any:
    """The queue after one effect, expected or not."""
    name = name_of(label)
    if name == "agent/status running":
        return seen.put(expect=("?open",))
    if name == "job":
        return seen.put(expect=("await maintenance",))
    if not concerns(seen, label):
        return seen
    expect = resolved(seen, law)
    seen = seen.put(expect=expect[1:] if expect[:1] == (name,) else ())
    if name == "step/end" and seen.result != "raised" and seen.ends != "max-tokens":
        return seen.put(ends="" if seen.result == "continue" else seen.result)
    if name == "turn/start":
        return seen.put(ends="", result="", verdict=())
    if name == "step/start":
        return seen.put(result="")
    if name.startswith("turn/end"):
        return seen.put(ends="", result="", verdict=())
    return seen


# --- answers -------------------------------------------------------------------------------------------------


def answered(seen: Any, point: Effect, answer: Answer, law: Law) -> Any:
    """The queue after an answer. No listener runs in between, so an abort is known by now."""
    name = point[0]
    if name == "gap":
        return seen
    if name == "maintenance":
        return seen.put(expect=())
    raised = answer[0] == "throws" or bool(seen.cause)
    if name in ("assembly", "pre-step", "turn-stopping") and raised:
        return seen.put(expect=failing(seen))
    if name == "assembly":
        return seen.put(expect=("await pre-step",))
    if name == "pre-step":
        if law.verdict_is_read_a_tick_late:
            return seen.put(expect=("await tick",), verdict=answer)
        return decided(seen, answer, law)
    if name == "tick":
        return decided(seen.put(verdict=()), seen.verdict, law) if seen.verdict else seen.put(expect=())
    if name == "turn-stopping":
        ends = () if seen.next_step else (f"turn/end {seen.ends}", "?drain")
        return seen.put(expect=ends or ("await assembly",))
    if name in ("request", "prepare", "recovery") and raised:
        return fails(seen)
    if name == "request":
        return seen.put(expect=("await prepare",))
    if name == "prepare":
        return prepared(seen, answer)
    if name == "recovery":
        return seen.put(expect=("await request",)) if answer[0] == "retry" else fails(seen)
    if name == "tools":
        result = {"throws": "raised", "concluded": "completed"}.get(answer[0], "continue")
        return seen.put(result=result, expect=STEP_ENDS)
    if name == "close":
        return broken(seen, law) if seen.result == "raised" else interrupted(seen, answer[1], law)
    return streamed(seen, answer, law)


def decided(seen: Any, verdict: Answer, law: Law) -> Any:
    """L-TURN-2, L-TURN-8, L-TURN-9  What a verdict leads to."""
    if verdict[0] == "reject":
        return seen.put(expect=("turn/end blocked", "?drain"))
    batch = verdict[1]
    if not batch and (seen.ends or seen.step == 0):
        return seen.put(expect=(f"turn/end {seen.ends or 'completed'}", "?drain"))
    if seen.cause:
        return seen.put(expect=failing(seen))
    admitted = () if law.admission_follows_preparation else ("user/message",) * len(batch)
    return seen.put(batch=batch, expect=("step/start", *admitted, "?request"))


def prepared(seen: Any, answer: Answer) -> Any:
    """L-REQ-9, L-REQ-11, S-REQ-22  The records that are due before the request is sent."""
    _, changed, context, systems = answer
    admitted = ("system/message",) * systems + ("user/message",) * len(seen.batch)
    header = ("request/header",) if changed or not seen.headed else ()
    return seen.put(expect=(*admitted, *header, *(("request/context",) if context else ()), "?chunk"))


def streamed(seen: Any, answer: Answer, law: Law) -> Any:
    """L-STR-1 to L-STR-11  What a pull of the stream leads to."""
    end = (f"{STREAM} end",) if law.streams_are_embedded else ()
    if answer[0] == "chunk":
        if seen.cause:
            return seen.put(expect=("await close",))
        published = f"{STREAM} chunk" if law.streams_are_embedded else "assistant/chunk"
        return seen.put(expect=(published, "await chunk"))
    if answer[0] == "throws":
        return interrupted(seen, answer[1], law) if seen.cause else broken(seen, law)
    _, finish, calls, visible = answer
    if seen.cause:
        return interrupted(seen, visible, law)
    if finish == "failure":
        kept = ("assistant/attempt", *end) if law.streams_are_embedded else ()
        return seen.put(expect=(*kept, "await recovery"))
    anchor = ("assistant/message settled", *end)
    if calls and finish != "max-tokens":
        return seen.put(expect=(*anchor, "await tools"))
    return seen.put(result="max-tokens" if finish == "max-tokens" else "completed", expect=(*anchor, *STEP_ENDS))


def fails(seen: Any) -> Any:
    """The step has raised; it is closed at once."""
    return seen.put(result="raised", expect=STEP_ENDS)


def broken(seen: Any, law: Law) -> Any:
    """L-STR-10, VD-03  A stream that threw under a live signal, or whose chunk was vetoed."""
    kept = ("assistant/attempt", f"{STREAM} end") if law.streams_are_embedded else ()
    return seen.put(result="raised", expect=(*kept, *STEP_ENDS))


def interrupted(seen: Any, visible: bool, law: Law) -> Any:
    """L-STR-9, VD-03  An aborted stream keeps what was visible."""
    if not visible:
        return broken(seen, law)
    end = (f"{STREAM} end",) if law.streams_are_embedded else ()
    return seen.put(result="raised", expect=("assistant/message interrupted", *end, *STEP_ENDS))


def refused(seen: Any, label: Label, law: Law) -> Any:
    """L-TURN-1, L-TURN-4, L-TURN-6, LR-200 to LR-208  What a refused record of the routine leads to."""
    if not is_routine(seen.stack[-1].kind):
        return seen
    record = label[1]
    if record in ("turn/start", "turn/end"):
        return seen.put(expect=("agent/error", *RUN_ENDS), ends="", result="", verdict=())
    if record in ("agent/inbox/spliced", "step/start", "step/end"):
        return seen.put(expect=("?fail",))
    if record == "assistant/chunk":
        return seen.put(result="raised", expect=("await close",))
    end = (f"{STREAM} end",) if record.startswith("assistant/") and law.streams_are_embedded else ()
    return seen.put(result="raised", expect=(*end, *STEP_ENDS))
