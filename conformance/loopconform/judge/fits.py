"""Does a reply of an adapter show what the law says here? And what would it have had to show, in words."""

from __future__ import annotations

import json
from typing import Any

from loopconform.judge.moves import Label, content_of
from loopconform.judge.points import Book, Facts, Point, call_number, canonical
from loopconform.protocol.replies import Live, Raised, Record, Returned
from loopspec.kernel.machine import Effect

ABORT_CODES = {"ABORTED": ("aborted",), "ABORTED_BEFORE_DISPATCH": ("aborted-before-dispatch", "never-started")}
REPAIR_CODES = {"TOOL_OUTCOME_UNKNOWN": ("outcome-unknown",), "TOOL_NOT_STARTED": ("not-started",)}


def misfit(book: Book, label: Label, point: Point, reply: Any) -> str:
    """Why a reply is not what the label of a move asks for; empty when it is. `point` is where the move begins."""
    kind = label[0]
    if kind == "record":
        if not isinstance(reply, Record):
            return "another kind of message"
        return _record(book, label[1], point, reply.event)
    if kind == "foreign":
        if isinstance(reply, Record) and reply.event.get("type") == label[1]:
            return ""
        return "another kind of message"
    if kind == "live":
        if not isinstance(reply, Live):
            return "another kind of message"
        return _live(book, label[1], point.facts, reply)
    return _end(book, label, reply)


def _end(book: Book, label: Label, reply: Any) -> str:
    _, request, op, result = label
    if not isinstance(reply, (Returned, Raised)) or (reply.id, reply.op) != (request, op):
        return "another kind of message"
    if result[0] == "anyhow":
        return ""
    if isinstance(reply, Raised):
        return "" if result[0] == "raise" else "it throws, where it returns"
    if result[0] == "raise":
        return "it returns, where it throws"
    value = result[1]
    if isinstance(value, bool) and reply.value is not value:
        return f"it answers {reply.value}, not {value}"
    if isinstance(value, tuple) and reply.value != tuple(book.name(n) for n in value):
        return f"it answers {reply.value}, not {[book.name(n) for n in value]}"
    return ""


# -- live events -------------------------------------------------------------------------------------------------


def _live(book: Book, effect: Effect, facts: Facts, reply: Live) -> str:
    name = "signal/abort" if effect[0] == "abort" else effect[0]
    if reply.name != name:
        return "another event"
    data = reply.data
    if name == "agent/status":
        return _equal("status", data.get("status"), effect[1])
    if name == "signal/abort":
        return _equal("kind", data.get("kind"), effect[1]) if "kind" in data else ""
    if name == "agent/error":
        return _equal("turn", data.get("turn"), effect[1]) or _equal("step", data.get("step"), effect[2])
    if name == "tools/result":
        expected = facts.calls[effect[1] - 1][0]
        failed = effect[2] != "success"
        return _equal("callId", data.get("callId"), expected) or _equal("isError", data.get("isError"), failed)
    if name == "agent/assistant-stream":
        return _equal("frame", _part(data, "frame", "type"), effect[1])
    wrong = _equal("message", _part(data, "message", "id"), book.name(effect[1]))
    if not wrong and name == "agent/inbox/claimed":
        wrong = _equal("turn", data.get("turn"), effect[2])
    return wrong


# -- records -----------------------------------------------------------------------------------------------------


def _record(book: Book, effect: Effect, point: Point, event: dict[str, Any]) -> str:
    kind = effect[0]
    if event.get("type") != kind:
        return "another record"
    data = event.get("data")
    if not isinstance(data, dict):
        return "no data"
    facts = point.facts
    if kind == "agent/inbox/spliced":
        _, target, start, removed, inserted, outcome = effect
        ids = [_part(message, "id") for message in data.get("inserted", ())]
        return (
            _equal("target", data.get("target"), target)
            or _equal("start", data.get("start"), start)
            or _equal("removedCount", data.get("removedCount", 0), removed)
            or _equal("inserted", ids, [book.name(n) for n in inserted])
            or _equal("outcome", data.get("outcome", ""), outcome)
        )
    if kind in ("turn/start", "turn/end"):
        wrong = _equal("turn", data.get("turn"), effect[1])
        return wrong or (_turn_end(effect, data) if kind == "turn/end" else "")
    if kind in ("step/start", "step/end"):
        return _equal("turn", data.get("turn"), effect[1]) or _equal("step", data.get("step"), effect[2])
    if kind == "user/message":
        return _equal("id", data.get("id"), book.name(effect[1])) or _appended(event)
    if kind == "request/header":
        return _header(effect, facts, data)
    if kind == "request/context":
        return _equal("model", data.get("model"), facts.model)
    if kind == "assistant/chunk":
        return "another chunk than the stream gave" if canonical(data.get("chunk")) != facts.chunk else ""
    if kind == "assistant/message":
        return _anchor(book, effect, facts, data, event)
    if kind == "tool/call":
        return _equal("callId", data.get("callId"), facts.calls[effect[1] - 1][0])
    if kind == "tool/result":
        return _result(effect, facts, data) or _appended(event)
    return ""


def _appended(event: dict[str, Any]) -> str:
    return _equal("surfaceOp", event.get("surfaceOp"), "append")


def _turn_end(effect: Effect, data: dict[str, Any]) -> str:
    wrong = _equal("reason", _part(data, "reason", "kind"), effect[2])
    if not wrong and effect[2] == "aborted":
        wrong = _equal("cause", _part(data, "reason", "reason", "kind"), effect[3])
    return wrong


def _header(effect: Effect, facts: Facts, data: dict[str, Any]) -> str:
    """L-REQ-9, S-REQ-5  `initial` without a header before, `resume` for a new driver's first, else a change."""
    first = "resume" if facts.logged else "initial"
    allowed = ("change", "series") if effect[1] else (first,)
    if data.get("reason") not in allowed:
        return f"the reason is {data.get('reason')!r}, not {allowed[0]!r}"
    wrong = _equal("model", _part(data, "header", "config", "model"), facts.model)
    tools = _part(data, "header", "tools")
    names = sorted(str(_part(tool, "name")) for tool in tools) if isinstance(tools, list) else []
    return wrong or _equal("tools", names, sorted(facts.listed))


def _anchor(book: Book, effect: Effect, facts: Facts, data: dict[str, Any], event: dict[str, Any]) -> str:
    interrupted = effect[1] == "interrupted"
    wrong = _equal("interrupted", data.get("interrupted") is True, interrupted) or _appended(event)
    if wrong:
        return wrong
    content = json.loads(canonical(_part(data, "message", "content")))
    wrong = _equal("content", content, content_of(facts, interrupted))
    if not wrong and book.opening.session_format == 0:
        wrong = _equal("sourceEventSeqs", event.get("sourceEventSeqs"), list(facts.sources))
    return wrong


def _result(effect: Effect, facts: Facts, data: dict[str, Any]) -> str:
    _, call, outcome = effect
    message = data.get("message")
    call_id = _part(message, "source", "callId")
    if call_number(facts, str(call_id)) != call:
        return _equal("callId", call_id, facts.calls[call - 1][0])
    code = _part(data, "error", "code")
    block = message
    content = _part(message, "content")
    if isinstance(content, list) and content and isinstance(_part(content[0], "isError"), bool):
        block = content[0]
    if code in ABORT_CODES or code in REPAIR_CODES:
        shown = {**ABORT_CODES, **REPAIR_CODES}[str(code)]
    else:
        shown = ("failure",) if _part(block, "isError") is True else ("success",)
    return "" if outcome in shown else f"the result is {shown[0]!r}, not {outcome!r}"


def _part(value: Any, *path: str) -> Any:
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _equal(what: str, shown: Any, expected: Any) -> str:
    return "" if shown == expected else f"{what} is {shown!r}, not {expected!r}"


# -- words -------------------------------------------------------------------------------------------------------


def described(book: Book, label: Label, point: Point) -> str:
    """What a move would show, in a few words."""
    kind = label[0]
    if kind == "record":
        return f"record {_words(book, label[1], point.facts)}"
    if kind == "foreign":
        return f"record {label[1]}"
    if kind == "live":
        return f"live {_words(book, label[1], point.facts)}"
    op = book.ops.get((label[1], label[2]))
    name = getattr(op, "op", "operation")
    result = label[3]
    if result[0] == "raise":
        return f"{name} throws ({result[1]})"
    return f"{name} returns" + (f" {result[1]}" if len(result) > 1 and result[1] is not None else "")


def _words(book: Book, effect: Effect, facts: Facts) -> str:
    name = "signal/abort" if effect[0] == "abort" else str(effect[0])
    if name == "agent/inbox/spliced":
        _, target, start, removed, inserted, outcome = effect
        added = " ".join(f"+{book.name(n)}" for n in inserted)
        return (
            f"{name} {target} at {start}, {removed} out{' ' + added if added else ''}{' canceled' if outcome else ''}"
        )
    if name in ("user/message", "agent/inbox/inserted", "agent/inbox/discarded", "agent/inbox/claimed"):
        return f"{name} {book.name(effect[1])}"
    if name in ("tool/call", "tools/result", "tool/result"):
        call = facts.calls[effect[1] - 1][0] if 0 < effect[1] <= len(facts.calls) else effect[1]
        return " ".join(str(part) for part in (name, call, *effect[2:]))
    if name == "request/header":
        return name
    return " ".join(str(part) for part in (name, *effect[1:]))


def shown(reply: Any) -> str:
    """What a reply shows, in a few words."""
    if isinstance(reply, Record):
        event = reply.event
        return f"record {event.get('type')} {_brief(event.get('data'))}".rstrip()
    if isinstance(reply, Live):
        return f"live {reply.name} {_brief(reply.data)}".rstrip()
    fields = reply.model_dump(mode="json", exclude={"type"})
    return f"{reply.type} {_brief(fields)}"


def _brief(data: Any) -> str:
    if not isinstance(data, dict):
        return ""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return text if len(text) <= 160 else text[:159] + "…"
