"""Whether a session may begin with given events: the refusals of a seed, in their exact words (C-FRK-7, C-FRK-8).

A seed is checked event by event before anything is built. What blocks of messages hold is the affair of those who
made them, and whether turns are balanced is not asked (C-FRK-10). What the surface refuses is told by `refused`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopspec.values import SAFE_INTEGER, Json, Record

ENVELOPE = frozenset(("type", "seq", "time", "data", "surfaceOp", "sourceEventSeqs", "ignorable"))
"""The fields that an event may have."""

MESSAGES = frozenset(("user/message", "assistant/message", "tool/result", "system/message", "developer/message"))
"""The records that carry a message: as their data, or as `message` in it."""

ADAPTER_FIELDS = frozenset(("reasoningEffort", "maxTokens"))


def is_whole(event: Record) -> bool:
    """C-FRK-8  Known fields only, among them a type, data, a seq that is a position, and a time that is a number."""
    seq, time = event.get("seq"), event.get("time")
    return (
        ENVELOPE.issuperset(event)
        and isinstance(event.get("type"), str)
        and "data" in event
        and type(seq) is int
        and 0 <= seq <= SAFE_INTEGER
        and type(time) is int
        and -SAFE_INTEGER <= time <= SAFE_INTEGER
    )


def is_text(value: Json) -> bool:
    """A string that says something."""
    return isinstance(value, str) and value != ""


def is_identified(data: Json) -> bool:
    """C-FRK-8  There is a message, with an id, a role and content."""
    message = data.get("message", data) if isinstance(data, Mapping) else None
    if not isinstance(message, Mapping) or not is_text(message.get("id")) or not is_text(message.get("role")):
        return False
    content = message.get("content")
    return isinstance(content, Sequence) and not isinstance(content, str)


def header_fault(data: Json) -> str:
    """C-FRK-8  What a request header lacks, or has that is invalid; empty when it may stand in a seed."""
    header = data.get("header") if isinstance(data, Mapping) else None
    config = header.get("config") if isinstance(header, Mapping) else None
    if not isinstance(config, Mapping) or not is_text(config.get("provider")) or not is_text(config.get("model")):
        return "lacks provider/model"
    if "reasoningEffort" in config and not is_text(config["reasoningEffort"]):
        return "has an invalid reasoningEffort"
    marks = header.get("adapterDefaults", {}) if isinstance(header, Mapping) else None
    if not isinstance(marks, Mapping) or not ADAPTER_FIELDS.issuperset(marks):
        return "has invalid adapterDefaults"
    if any(mark is not True or name not in config for name, mark in marks.items()):
        return "has invalid adapterDefaults"
    return ""


def fault(index: int, event: Record) -> str:
    """Why an event may not stand at this place of a seed; empty when it may."""
    if not is_whole(event):
        return f"seed event at index {index} has an invalid event envelope"
    kind, seq = event["type"], event["seq"]
    if seq != index:
        return f"seed event at index {index} has seq {seq} (expected {index}); seed must be contiguous from 0"
    if kind == "request/header-delta":
        return f"seed event at index {index} uses unsupported legacy request/header-delta format"
    if kind == "request/header" and (lacks := header_fault(event["data"])):
        return f"seed request/header at index {index} {lacks}"
    if kind in MESSAGES and not is_identified(event["data"]):
        return f"seed {kind} at index {index} lacks an identified message"
    return ""


def not_json(index: int) -> str:
    """C-FRK-7  The event is more than plain JSON, or less."""
    return f"seed event at index {index} is not losslessly JSON-serializable"


def refused(index: int, reason: object) -> str:
    """C-FRK-8  The surface does not take the event."""
    return f"invalid seed event at index {index}: {reason}"
