"""Does a reply of an adapter show what the law says here? And what would it have had to show, in words."""

from __future__ import annotations

import json
from typing import Any

from loopconform.judge.changes import Label
from loopconform.judge.entries import entry_misfit, fold_misfit
from loopconform.judge.points import Book, Facts, Point
from loopconform.judge.records import equal, part, record_misfit
from loopconform.protocol.replies import Live, Raised, Record, Returned
from loopspec.kernel.machine import Effect


def misfit(book: Book, label: Label, point: Point, reply: Any) -> str:
    """Why a reply is not what the label of a move asks for; empty when it is. `point` is where the move begins."""
    kind = label[0]
    if kind == "record":
        if not isinstance(reply, Record):
            return "another kind of message"
        return record_misfit(book, label[1], point, reply.event)
    if kind == "foreign":
        if isinstance(reply, Record) and reply.event.get("type") == label[1]:
            return ""
        return "another kind of message"
    if kind == "entry":
        return entry_misfit(label[1], reply)
    if kind == "fold":
        return fold_misfit(label[1], reply)
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
    if name == "llm/stream":
        return equal("model", data.get("model"), facts.model)
    if name == "agent/status":
        return equal("status", data.get("status"), effect[1])
    if name == "signal/abort":
        return equal("kind", data.get("kind"), effect[1]) if "kind" in data else ""
    if name == "agent/error":
        return equal("turn", data.get("turn"), effect[1]) or equal("step", data.get("step"), effect[2])
    if name == "tools/result":
        expected = facts.calls[effect[1] - 1][0]
        failed = effect[2] != "success"
        return equal("callId", data.get("callId"), expected) or equal("isError", data.get("isError"), failed)
    if name == "agent/assistant-stream":
        return equal("frame", part(data, "frame", "type"), effect[1])
    wrong = equal("message", part(data, "message", "id"), book.name(effect[1]))
    if not wrong and name == "agent/inbox/claimed":
        wrong = equal("turn", data.get("turn"), effect[2])
    return wrong


# -- words -------------------------------------------------------------------------------------------------------


def described(book: Book, label: Label, point: Point) -> str:
    """What a move would show, in a few words."""
    kind = label[0]
    if kind == "record":
        return f"record {_words(book, label[1], point.facts)}"
    if kind == "foreign":
        return f"record {label[1]}"
    if kind == "entry":
        return f"record user/message with an entry in the place of {', '.join(map(str, label[1].sources))}"
    if kind == "fold":
        return f"record tool/result, condensed, in the place of {label[1].seq}"
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
