"""Payloads that are plainly of their shape: hand-written checks for the rows that fill a log.

`is_plain(format, type, data)` answers true only where the model of the type would find no fault (`S-LNT-21`), and
where the rules about the form of a message would not either (`S-LNT-36`, `38` to `42`). False means nothing: the model
is asked, and words the finding. A test holds every true answer against the models.

A check counts the keys of an object and then takes each by its name: one that is missing ends the check with a
`KeyError`, which says no like false does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopspec.values import SAFE_INTEGER

IMPLIED = frozenset(("S-LNT-21", "S-LNT-36", "S-LNT-38", "S-LNT-39", "S-LNT-40", "S-LNT-41", "S-LNT-42"))
"""Rules that have nothing to say about a row whose data is plain."""

Check = Callable[[dict[str, Any]], bool]

_USAGE = frozenset(
    ("inputTokens", "outputTokens", "totalTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens")
)
_PLAIN_ENDS = ("completed", "blocked", "max-tokens")
_GOOD = ("stop", "tool-calls", "max-tokens")


# -- values ----------------------------------------------------------------------------------------------------


def _count(value: object) -> bool:
    return type(value) is int and 0 <= value <= SAFE_INTEGER


def _safe(value: object) -> bool:
    return type(value) is int and -SAFE_INTEGER <= value <= SAFE_INTEGER


def _word(value: object) -> bool:
    return type(value) is str and value != ""


def _at(data: dict[str, Any]) -> bool:
    turn, step = data["turn"], data["step"]
    return type(turn) is int and 1 <= turn <= SAFE_INTEGER and type(step) is int and 1 <= step <= SAFE_INTEGER


def _usage(usage: object) -> bool:
    if type(usage) is not dict or not all(map(_count, usage.values())):
        return False
    return "inputTokens" in usage and "outputTokens" in usage and (len(usage) == 2 or usage.keys() <= _USAGE)


# -- messages --------------------------------------------------------------------------------------------------


def _block(block: object) -> bool:
    """Text, reasoning or a tool call."""
    if type(block) is not dict:
        return False
    kind = block["type"]
    if kind == "text" or kind == "reasoning":
        return len(block) == 2 and type(block["text"]) is str
    return (
        kind == "tool-call"
        and len(block) == 4
        and type(block["id"]) is str
        and type(block["name"]) is str
        and type(block["arguments"]) is str
    )


def _texts(content: object) -> bool:
    """Blocks of text and reasoning only."""
    if type(content) is not list:
        return False
    for block in content:
        if type(block) is not dict or len(block) != 2 or type(block["text"]) is not str:
            return False
        if block["type"] != "text" and block["type"] != "reasoning":
            return False
    return True


def _user(message: object) -> bool:
    """A user message of text blocks from a person."""
    if type(message) is not dict or len(message) != 4 or message["role"] != "user" or not _word(message["id"]):
        return False
    source = message["source"]
    return type(source) is dict and len(source) == 1 and source["kind"] == "user" and _texts(message["content"])


def _assistant(message: object) -> bool:
    """An answer of text, reasoning and calls, without replay state."""
    if type(message) is not dict or len(message) != 4 or message["role"] != "assistant" or not _word(message["id"]):
        return False
    source, content = message["source"], message["content"]
    return (
        type(source) is dict
        and len(source) == 3
        and source["kind"] == "model"
        and _word(source["provider"])
        and _word(source["model"])
        and type(content) is list
        and all(map(_block, content))
    )


def _tool_source(source: object) -> bool:
    return type(source) is dict and len(source) == 2 and source["kind"] == "tool" and _word(source["callId"])


# -- rows of both formats --------------------------------------------------------------------------------------


def _step(data: dict[str, Any]) -> bool:
    return len(data) == 2 and _at(data)


def _turn_start(data: dict[str, Any]) -> bool:
    turn = data["turn"]
    return len(data) == 1 and type(turn) is int and 1 <= turn <= SAFE_INTEGER


def _turn_end(data: dict[str, Any]) -> bool:
    turn, reason = data["turn"], data["reason"]
    return (
        len(data) == 2
        and type(turn) is int
        and 1 <= turn <= SAFE_INTEGER
        and type(reason) is dict
        and len(reason) == 1
        and reason["kind"] in _PLAIN_ENDS
    )


def _splice(data: dict[str, Any]) -> bool:
    target, inserted = data["target"], data["inserted"]
    return (
        (target == "next-turn" or target == "next-step")
        and _count(data["start"])
        and type(inserted) is list
        and all(map(_user, inserted))
        and (len(data) == 3 or (len(data) == 4 and _count(data["removedCount"])))
    )


def _tool_call(data: dict[str, Any]) -> bool:
    return (
        len(data) == 5
        and _at(data)
        and type(data["callId"]) is str
        and type(data["name"]) is str
        and type(data["arguments"]) is str
    )


def _context(data: dict[str, Any]) -> bool:
    return len(data) == 2 and _word(data["provider"]) and _word(data["model"])


# -- results and answers ---------------------------------------------------------------------------------------


def _result_0(data: dict[str, Any]) -> bool:
    """A result without error or meta, in format 0."""
    message = data["message"]
    if len(data) != 3 or not _at(data) or type(message) is not dict or len(message) != 4:
        return False
    source, content = message["source"], message["content"]
    if message["role"] != "user" or not _word(message["id"]) or not _tool_source(source):
        return False
    if type(content) is not list or len(content) != 1:
        return False
    block = content[0]
    return (
        type(block) is dict
        and len(block) == 4
        and block["type"] == "tool-result"
        and bool(block["toolCallId"] == source["callId"])
        and type(block["isError"]) is bool
        and _texts(block["content"])
    )


def _result_4(data: dict[str, Any]) -> bool:
    """The same in format 4."""
    message = data["message"]
    if len(data) != 3 or not _at(data) or type(message) is not dict or len(message) != 6:
        return False
    return (
        message["role"] == "tool"
        and _word(message["id"])
        and _tool_source(message["source"])
        and bool(message["toolCallId"] == message["source"]["callId"])
        and type(message["isError"]) is bool
        and _texts(message["content"])
    )


def _anchor_0(data: dict[str, Any]) -> bool:
    if len(data) != 3 and (len(data) != 4 or not _usage(data["usage"])):
        return False
    return _at(data) and _assistant(data["message"])


def _anchor_4(data: dict[str, Any]) -> bool:
    if len(data) != 4 and (len(data) != 5 or not _usage(data["usage"])):
        return False
    stream = data["stream"]
    return _at(data) and _assistant(data["message"]) and type(stream) is list and all(map(_record, stream))


def _record(item: object) -> bool:
    """A record of an embedded stream."""
    if type(item) is not dict:
        return False
    kind, size = item["type"], len(item)
    if kind == "chunk":
        time = item["time"]
        return size == 3 and type(time) is int and -SAFE_INTEGER <= time <= SAFE_INTEGER and _chunk(item["chunk"])
    if kind == "text-chunks" or kind == "reasoning-chunks":
        return size == 5 and _run(item, item["texts"])
    if kind != "tool-call-chunks" or not _word(item["id"]):
        return False
    return (size == 6 or (size == 7 and _word(item["name"]))) and _run(item, item["args"])


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
    kind, size = chunk["type"], len(chunk)
    if kind == "usage":
        return size == 2 and _usage(chunk["usage"])
    if kind == "finish":
        reason = chunk["reason"]
        return size == 2 and type(reason) is dict and len(reason) == 1 and reason["kind"] in _GOOD
    index = chunk["index"]
    if type(index) is not int or not 0 <= index <= SAFE_INTEGER:
        return False
    if kind == "block-start":
        return size == 3 and type(chunk["blockType"]) is str
    if kind == "block-end":
        return size == 3 and _block(chunk["block"])
    if kind == "text-delta" or kind == "reasoning-delta":
        return size == 3 and type(chunk["text"]) is str
    return (
        kind == "tool-call-delta"
        and (size == 4 or (size == 5 and type(chunk["name"]) is str))
        and type(chunk["id"]) is str
        and type(chunk["argumentsDelta"]) is str
    )


def _chunk_row(data: dict[str, Any]) -> bool:
    return len(data) == 3 and _at(data) and _chunk(data["chunk"])


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
"""The check of each frequent type, by format. It may raise `KeyError` for no."""


def is_plain(version: int, kind: str, data: object) -> bool:
    """True when this payload is plainly of its shape; see the module text."""
    check = CHECKS[version].get(kind)
    try:
        return check is not None and type(data) is dict and check(data)
    except KeyError:
        return False
