"""Does a record of an adapter show what the law says here? Everything that the law fixes is compared.

Ids that an implementation mints, times and the words of its errors are its own.
"""

from __future__ import annotations

import json
from typing import Any

from loopconform.judge.changes import content_of
from loopconform.judge.points import Book, Facts, Point, assembled, call_number, canonical
from loopspec import stream
from loopspec.kernel.machine import Effect

ABORT_CODES = {"ABORTED": ("aborted",), "ABORTED_BEFORE_DISPATCH": ("aborted-before-dispatch", "never-started")}
REPAIR_CODES = {"TOOL_OUTCOME_UNKNOWN": ("outcome-unknown",), "TOOL_NOT_STARTED": ("not-started",)}
PROVIDER = "mock"


def record_misfit(book: Book, effect: Effect, point: Point, event: dict[str, Any]) -> str:
    """Why a record is not the one that an effect asks for; empty when it is. `point` is where the append begins."""
    kind = effect[0]
    if event.get("type") != kind:
        return "another record"
    data = event.get("data")
    if not isinstance(data, dict):
        return "no data"
    facts = point.facts
    if kind == "agent/inbox/spliced":
        _, target, start, removed, inserted, outcome = effect
        ids = [part(message, "id") for message in data.get("inserted", ())]
        return (
            equal("target", data.get("target"), target)
            or equal("start", data.get("start"), start)
            or equal("removedCount", data.get("removedCount", 0), removed)
            or equal("inserted", ids, [book.name(n) for n in inserted])
            or equal("outcome", data.get("outcome", ""), outcome)
        )
    if kind in ("turn/start", "turn/end"):
        wrong = equal("turn", data.get("turn"), effect[1])
        return wrong or (_turn_end(effect, data) if kind == "turn/end" else "")
    if kind in ("step/start", "step/end"):
        return equal("turn", data.get("turn"), effect[1]) or equal("step", data.get("step"), effect[2])
    if kind == "user/message":
        return equal("id", data.get("id"), book.name(effect[1])) or _appended(event)
    if kind == "request/header":
        return _header(effect, facts, data)
    if kind == "request/context":
        return equal("provider", data.get("provider"), PROVIDER) or equal("model", data.get("model"), facts.model)
    wrong = _placed(point, data)
    if wrong:
        return wrong
    if kind == "assistant/chunk":
        return "another chunk than the stream gave" if canonical(data.get("chunk")) != facts.chunk else ""
    if kind == "assistant/message":
        return _anchor(book, effect, facts, data, event)
    if kind == "tool/call":
        return _call(effect[1], facts, data)
    if kind == "tool/result":
        return _result(effect, facts, data) or _sources(effect[1], facts, event) or _appended(event)
    return ""


def _placed(point: Point, data: dict[str, Any]) -> str:
    """L-TURN-2  What happens in a step names its turn and its number."""
    core = point.loop.driver.core
    return equal("turn", data.get("turn"), core.turn) or equal("step", data.get("step"), core.step)


def _appended(event: dict[str, Any]) -> str:
    return equal("surfaceOp", event.get("surfaceOp"), "append")


def _turn_end(effect: Effect, data: dict[str, Any]) -> str:
    wrong = equal("reason", part(data, "reason", "kind"), effect[2])
    if not wrong and effect[2] == "aborted":
        wrong = equal("cause", part(data, "reason", "reason", "kind"), effect[3])
    if not wrong and effect[2] == "error" and not isinstance(part(data, "reason", "error", "message"), str):
        wrong = "a turn that failed does not say why"
    return wrong


def _header(effect: Effect, facts: Facts, data: dict[str, Any]) -> str:
    """L-REQ-9, S-REQ-5  `initial` without a header before, `resume` for a new driver's first, else a change."""
    first = "resume" if facts.logged else "initial"
    allowed = ("change", "series") if effect[1] else (first,)
    if data.get("reason") not in allowed:
        return f"the reason is {data.get('reason')!r}, not {allowed[0]!r}"
    wrong = equal("model", part(data, "header", "config", "model"), facts.model)
    tools = part(data, "header", "tools")
    names = sorted(str(part(tool, "name")) for tool in tools) if isinstance(tools, list) else []
    return wrong or equal("tools", names, sorted(facts.listed))


def _anchor(book: Book, effect: Effect, facts: Facts, data: dict[str, Any], event: dict[str, Any]) -> str:
    """L-STR-4, L-STR-9  The content of the stream, who said it, what it cost, and the chunks it was made of."""
    interrupted = effect[1] == "interrupted"
    message = data.get("message")
    content = json.loads(canonical(part(message, "content")))
    source = {name: part(message, "source", name) for name in ("kind", "provider", "model")}
    wrong = (
        equal("interrupted", data.get("interrupted") is True, interrupted)
        or _appended(event)
        or equal("content", content, content_of(facts, interrupted))
        or equal("source", source, {"kind": "model", "provider": PROVIDER, "model": facts.model})
        or equal("usage", data.get("usage"), _usage(facts))
    )
    if not wrong and book.opening.session_format == 0:
        wrong = equal("sourceEventSeqs", event.get("sourceEventSeqs"), list(facts.sources))
    return wrong


def _usage(facts: Facts) -> Any:
    usage = assembled(facts.stream).usage
    return None if usage is None else json.loads(canonical(dict(usage)))


def _call(call: int, facts: Facts, data: dict[str, Any]) -> str:
    """L-TOOL-5  A start names the call as the answer has it."""
    block = stream.tool_calls(stream.settle(assembled(facts.stream)).content)[call - 1]
    return (
        equal("callId", data.get("callId"), block["id"])
        or equal("name", data.get("name"), block["name"])
        or equal("arguments", data.get("arguments"), block["arguments"])
    )


def _sources(call: int, facts: Facts, event: dict[str, Any]) -> str:
    """L-TOOL-6  A result names the record of its call, where there is one."""
    seq = dict(facts.started).get(call)
    return equal("sourceEventSeqs", event.get("sourceEventSeqs"), None if seq is None else [seq])


def _result(effect: Effect, facts: Facts, data: dict[str, Any]) -> str:
    _, call, outcome = effect
    message = data.get("message")
    call_id = part(message, "source", "callId")
    if call_number(facts, str(call_id)) != call:
        return equal("callId", call_id, facts.calls[call - 1][0])
    code = part(data, "error", "code")
    block = message
    content = part(message, "content")
    if isinstance(content, list) and content and isinstance(part(content[0], "isError"), bool):
        block = content[0]
    if code in ABORT_CODES or code in REPAIR_CODES:
        shown = {**ABORT_CODES, **REPAIR_CODES}[str(code)]
    else:
        shown = ("failure",) if part(block, "isError") is True else ("success",)
    if outcome not in shown:
        return f"the result is {shown[0]!r}, not {outcome!r}"
    said = dict(facts.texts).get(call) if outcome == "success" else None
    texts = [part(one, "text") for one in (part(block, "content") or ())]
    return "" if said is None or texts == [said] else f"the result is not what the body of call {call} has answered"


def part(value: Any, *path: str) -> Any:
    """A member of a member of a value; `None` where there is none."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def equal(what: str, shown: Any, expected: Any) -> str:
    """Empty when two values are equal; otherwise what is shown, and what should be."""
    return "" if shown == expected else f"{what} is {shown!r}, not {expected!r}"
