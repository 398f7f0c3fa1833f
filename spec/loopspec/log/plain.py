"""Payloads that are plainly of their shape: hand-written checks for the rows that fill a log.

`is_plain(format, type, data)` answers true only where the model of the type would find no fault (`S-LNT-21`), and
where the rules about the form of a message would not either (`S-LNT-36`, `38` to `42`). False means nothing: the model
is asked, and words the finding. A test holds every true answer against the models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopspec.values import SAFE_INTEGER

IMPLIED = frozenset(("S-LNT-36", "S-LNT-38", "S-LNT-39", "S-LNT-40", "S-LNT-41", "S-LNT-42"))
"""Rules that have nothing to say about a row whose data is plain."""

Check = Callable[[dict[str, Any]], bool]

_STEP = frozenset(("turn", "step"))
_USER = frozenset(("id", "role", "content", "source"))
_TEXT = frozenset(("type", "text"))
_CALL = frozenset(("type", "id", "name", "arguments"))
_MODEL = frozenset(("kind", "provider", "model"))
_TOOL = frozenset(("kind", "callId"))
_USAGE = frozenset(
    ("inputTokens", "outputTokens", "totalTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
)
_PLAIN_ENDS = frozenset(("completed", "blocked", "max-tokens"))
_GOOD = frozenset(("stop", "tool-calls", "max-tokens"))


def _counts(value: object) -> bool:
    return type(value) is int and 1 <= value <= SAFE_INTEGER


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value <= SAFE_INTEGER


def _word(value: object) -> bool:
    return type(value) is str and value != ""


def _texts(content: object) -> bool:
    """Blocks of text and reasoning only."""
    if type(content) is not list:
        return False
    for block in content:
        if type(block) is not dict or block.keys() != _TEXT or type(block["text"]) is not str:
            return False
        if block["type"] != "text" and block["type"] != "reasoning":
            return False
    return True


def _blocks(content: object) -> bool:
    """Blocks of text, reasoning and tool calls."""
    return type(content) is list and all(map(_block, content))


def _block(block: object) -> bool:
    if type(block) is not dict:
        return False
    kind = block.get("type")
    if kind == "text" or kind == "reasoning":
        return block.keys() == _TEXT and type(block["text"]) is str
    return bool(
        kind == "tool-call"
        and block.keys() == _CALL
        and type(block["id"]) is str
        and type(block["name"]) is str
        and type(block["arguments"]) is str
    )


def _usage(usage: object) -> bool:
    if type(usage) is not dict or not (usage.keys() <= _USAGE):
        return False
    if "inputTokens" not in usage or "outputTokens" not in usage:
        return False
    return all(map(_count, usage.values()))


def _user(message: object) -> bool:
    """A user message of text blocks from a person."""
    if type(message) is not dict or message.keys() != _USER or message["role"] != "user" or not _word(message["id"]):
        return False
    source = message["source"]
    return type(source) is dict and source.get("kind") == "user" and len(source) == 1 and _texts(message["content"])


def _at(data: dict[str, Any]) -> bool:
    turn, step = data.get("turn"), data.get("step")
    return type(turn) is int and 1 <= turn <= SAFE_INTEGER and type(step) is int and 1 <= step <= SAFE_INTEGER


def _step(data: dict[str, Any]) -> bool:
    return data.keys() == _STEP and _at(data)


def _turn_start(data: dict[str, Any]) -> bool:
    return len(data) == 1 and _counts(data.get("turn"))


def _turn_end(data: dict[str, Any]) -> bool:
    reason = data.get("reason")
    return (
        len(data) == 2
        and _counts(data.get("turn"))
        and type(reason) is dict
        and len(reason) == 1
        and type(reason.get("kind")) is str
        and reason["kind"] in _PLAIN_ENDS
    )


def _splice(data: dict[str, Any]) -> bool:
    target, inserted = data.get("target"), data.get("inserted")
    if (target != "next-turn" and target != "next-step") or not _count(data.get("start")):
        return False
    if type(inserted) is not list or not all(map(_user, inserted)):
        return False
    if len(data) == 3:
        return True
    return len(data) == 4 and _count(data.get("removedCount"))


_CALL_KEYS = frozenset(("turn", "step", "callId", "name", "arguments"))


def _tool_call(data: dict[str, Any]) -> bool:
    return bool(
        data.keys() == _CALL_KEYS
        and _at(data)
        and type(data["callId"]) is str
        and type(data["name"]) is str
        and type(data["arguments"]) is str
    )


_RESULT = frozenset(("turn", "step", "message"))
_RESULT_BLOCK = frozenset(("type", "toolCallId", "content", "isError"))
_TOOL_MESSAGE = frozenset(("id", "role", "toolCallId", "content", "isError", "source"))


def _tool_source(source: object) -> bool:
    return type(source) is dict and source.keys() == _TOOL and source["kind"] == "tool" and _word(source["callId"])


def _result_0(data: dict[str, Any]) -> bool:
    """A result without error or meta, in format 0."""
    message = data.get("message")
    if data.keys() != _RESULT or not _at(data) or type(message) is not dict or message.keys() != _USER:
        return False
    if message["role"] != "user" or not _word(message["id"]) or not _tool_source(message["source"]):
        return False
    content = message["content"]
    if type(content) is not list or len(content) != 1:
        return False
    block = content[0]
    return bool(
        type(block) is dict
        and block.keys() == _RESULT_BLOCK
        and block["type"] == "tool-result"
        and block["toolCallId"] == message["source"]["callId"]
        and type(block["isError"]) is bool
        and _texts(block["content"])
    )


def _result_4(data: dict[str, Any]) -> bool:
    """The same in format 4."""
    message = data.get("message")
    if data.keys() != _RESULT or not _at(data) or type(message) is not dict or message.keys() != _TOOL_MESSAGE:
        return False
    return bool(
        message["role"] == "tool"
        and _word(message["id"])
        and _tool_source(message["source"])
        and message["toolCallId"] == message["source"]["callId"]
        and type(message["isError"]) is bool
        and _texts(message["content"])
    )


def _assistant(message: object) -> bool:
    """An answer of text, reasoning and calls, without replay state."""
    if type(message) is not dict or message.keys() != _USER or message["role"] != "assistant":
        return False
    source = message["source"]
    return bool(
        _word(message["id"])
        and type(source) is dict
        and source.keys() == _MODEL
        and source["kind"] == "model"
        and _word(source["provider"])
        and _word(source["model"])
        and _blocks(message["content"])
    )


_ANCHOR_0 = frozenset(("turn", "step", "message", "usage"))
_ANCHOR_4 = frozenset(("turn", "step", "message", "usage", "stream"))


def _anchor_0(data: dict[str, Any]) -> bool:
    if data.keys() != _ANCHOR_0 and data.keys() != _RESULT:
        return False
    return _at(data) and _assistant(data["message"]) and ("usage" not in data or _usage(data["usage"]))


def _anchor_4(data: dict[str, Any]) -> bool:
    if data.keys() != _ANCHOR_4 and data.keys() != _ANCHOR_4 - {"usage"}:
        return False
    if not _at(data) or not _assistant(data["message"]) or ("usage" in data and not _usage(data["usage"])):
        return False
    stream = data["stream"]
    return type(stream) is list and all(map(_record, stream))


_PLAIN_RECORD = frozenset(("type", "time", "chunk"))
_TEXT_RECORD = frozenset(("type", "time0", "index", "dt", "texts"))
_CALL_RECORD = frozenset(("type", "time0", "index", "dt", "id", "args"))
_NAMED_RECORD = _CALL_RECORD | {"name"}


def _record(item: object) -> bool:
    if type(item) is not dict:
        return False
    kind = item.get("type")
    if kind == "chunk":
        return item.keys() == _PLAIN_RECORD and _safe(item["time"]) and _chunk(item["chunk"])
    if kind == "text-chunks" or kind == "reasoning-chunks":
        return item.keys() == _TEXT_RECORD and _run(item, item["texts"])
    if kind != "tool-call-chunks" or (item.keys() != _CALL_RECORD and item.keys() != _NAMED_RECORD):
        return False
    return _word(item["id"]) and ("name" not in item or _word(item["name"])) and _run(item, item["args"])


def _safe(value: object) -> bool:
    return type(value) is int and -SAFE_INTEGER <= value <= SAFE_INTEGER


def _run(item: dict[str, Any], members: object) -> bool:
    gaps = item["dt"]
    if type(members) is not list or type(gaps) is not list or len(gaps) != len(members) - 1:
        return False
    if not _safe(item["time0"]) or not _count(item["index"]) or set(map(type, members)) != {str}:
        return False
    return not gaps or (set(map(type, gaps)) == {int} and min(gaps) >= -SAFE_INTEGER and max(gaps) <= SAFE_INTEGER)


def _chunk(chunk: object) -> bool:
    if type(chunk) is not dict:
        return False
    kind = chunk.get("type")
    size = len(chunk)
    if kind == "text-delta" or kind == "reasoning-delta":
        return size == 3 and _count(chunk.get("index")) and type(chunk.get("text")) is str
    if kind == "block-start":
        return size == 3 and _count(chunk.get("index")) and type(chunk.get("blockType")) is str
    if kind == "block-end":
        return size == 3 and _count(chunk.get("index")) and _block(chunk.get("block"))
    if kind == "usage":
        return size == 2 and _usage(chunk.get("usage"))
    if kind == "finish":
        reason = chunk.get("reason")
        if size != 2 or type(reason) is not dict or len(reason) != 1:
            return False
        return type(reason.get("kind")) is str and reason["kind"] in _GOOD
    if kind != "tool-call-delta" or not _count(chunk.get("index")):
        return False
    named = "name" in chunk
    if size != (5 if named else 4) or (named and type(chunk["name"]) is not str):
        return False
    return type(chunk.get("id")) is str and type(chunk.get("argumentsDelta")) is str


def _chunk_row(data: dict[str, Any]) -> bool:
    return len(data) == 3 and _at(data) and _chunk(data.get("chunk"))


def _context(data: dict[str, Any]) -> bool:
    return len(data) == 2 and _word(data.get("provider")) and _word(data.get("model"))


_BOTH: dict[str, Check] = {
    "turn/start": _turn_start,
    "turn/end": _turn_end,
    "step/start": _step,
    "step/end": _step,
    "agent/inbox/spliced": _splice,
    "user/message": _user,
    "tool/call": _tool_call,
    "request/context": _context,
}
CHECKS: dict[int, dict[str, Check]] = {
    0: {**_BOTH, "assistant/chunk": _chunk_row, "assistant/message": _anchor_0, "tool/result": _result_0},
    4: {**_BOTH, "assistant/message": _anchor_4, "tool/result": _result_4},
}
"""The check of each frequent type, by format."""


def is_plain(version: int, kind: str, data: object) -> bool:
    """True when this payload is plainly of its shape; see the module text."""
    check = CHECKS[version].get(kind)
    return check is not None and type(data) is dict and check(data)
