"""Messages (`S-LNT-36` to `S-LNT-43`)."""

from __future__ import annotations

from typing import Any

from loopspec.log.looking import result_is_error
from loopspec.log.rule import Breach, Rule, breach, rule
from loopspec.log.state import OPAQUE_ID, Log, Row, items, record

_MESSAGES = ("user/message", "assistant/message", "tool/result", "system/message", "developer/message")
_ROLES = {
    "user/message": ("user", "user"),
    "assistant/message": ("assistant", "assistant"),
    "tool/result": ("user", "tool"),
    "system/message": ("", "system"),
    "developer/message": ("", "developer"),
}
_BLOCKS: dict[str, tuple[tuple[str, type], ...]] = {
    "text": (("text", str),),
    "reasoning": (("text", str),),
    "image": (("attachment", dict),),
    "file": (("attachment", dict),),
    "tool-call": (("id", str), ("name", str), ("arguments", str)),
    "tool-result": (("toolCallId", str), ("content", list)),
    "tool-addition": (("toolName", str),),
    "tool-removal": (("toolName", str),),
}
_ATTACHMENT: dict[str, tuple[tuple[str, type], ...]] = {
    "image": (("attachmentId", str), ("mediaType", str), ("bytes", int), ("width", int), ("height", int)),
    "file": (("attachmentId", str), ("name", str), ("bytes", int)),
}


def _messages(row: Row) -> list[dict[str, Any]]:
    if row.type == "agent/inbox/spliced":
        return [record(message) for message in items(row.data.get("inserted"))]
    return [row.message]


@rule("S-LNT-36", "E", "A message has a non-empty string id and an array content.", *_MESSAGES, "agent/inbox/spliced")
def identified(log: Log, row: Row) -> list[Breach]:
    found = []
    for message in _messages(row):
        message_id = message.get("id")
        if type(message_id) is not str or message_id == "":
            found.append(breach(f"The message's id is {message_id!r}.", "a non-empty string"))
        if type(message.get("content")) is not list:
            found.append(breach("The message's content is not an array.", "an array of blocks"))
    return found


@rule("S-LNT-37", "E", "Message ids are unique among appended nodes.", *_MESSAGES)
def unique_ids(log: Log, row: Row) -> Breach | None:
    message_id = row.message.get("id")
    if not row.appends or type(message_id) is not str or message_id not in log.message_ids:
        return None
    if log.snapshot and message_id == OPAQUE_ID:
        return None
    text = f"The message id {message_id!r} was used before, at seq {log.message_ids[message_id]}."
    return breach(text, "a fresh id", first=log.message_ids[message_id])


@rule("S-LNT-38", "E", "The message's role fits the event type.", *_MESSAGES)
def role(log: Log, row: Row) -> Breach | None:
    wanted = _ROLES[row.type][0 if log.format == 0 else 1]
    if row.message.get("role") == wanted:
        return None
    return breach(f"The role is {row.message.get('role')!r}.", f"{wanted} in a {row.type} of format {log.format}")


@rule(
    "S-LNT-39", "E", "source.kind fits the event type; format 4 has no kind plugin.", *_MESSAGES, "agent/inbox/spliced"
)
def source_kind(log: Log, row: Row) -> list[Breach]:
    return [found for message in _messages(row) if (found := _source(log, row.type, message)) is not None]


def _source(log: Log, kind: str, message: dict[str, Any]) -> Breach | None:
    source = message.get("source")
    name = record(source).get("kind")
    if type(name) is not str or name == "":
        return breach(f"The source's kind is {name!r}.", "a non-empty string")
    if log.format == 4 and name == "plugin":
        return breach("The source's kind is plugin, which format 4 has retired.", "the producer's own kind")
    wanted = {"assistant/message": "model", "tool/result": "tool", "system/message": "system-prompt"}.get(kind)
    if wanted is None:
        if name in ("model", "tool", "system-prompt"):
            return breach(f"A {kind} comes from kind {name}.", "user, or the kind of its producer")
        return None
    if name != wanted:
        return breach(f"The source's kind is {name!r}.", f"{wanted} for a {kind}")
    if wanted == "model":
        missing = [part for part in ("provider", "model") if not _word(record(source).get(part))]
        if missing:
            return breach(f"The source lacks {' and '.join(missing)}.", "the route that answered")
    return None


def _word(value: object) -> bool:
    return type(value) is str and value != ""


@rule("S-LNT-40", "E", "A tool result's message has the shape of the format, and its call ids agree.", "tool/result")
def result_shape(log: Log, row: Row) -> Breach | None:
    call_id = record(row.message.get("source")).get("callId")
    if not _word(call_id):
        return breach(f"The source's callId is {call_id!r}.", "the id of the call")
    if log.format == 4:
        other = row.message.get("toolCallId")
        if any(record(block).get("type") == "tool-result" for block in row.content):
            return breach(
                "The content holds a tool-result block, which format 4 has retired.", "the result's own blocks"
            )
    else:
        if len(row.content) != 1 or record(row.content[0]).get("type") != "tool-result":
            return breach("The content is not exactly one tool-result block.", "one block of type tool-result")
        other = record(row.content[0]).get("toolCallId")
    if other == call_id:
        return None
    return breach(f"toolCallId is {other!r}, but the source's callId is {call_id!r}.", "the same id twice")


@rule("S-LNT-41", "E", "tool/result.error stands only beside isError true.", "tool/result")
def error_flag(log: Log, row: Row) -> Breach | None:
    if "error" not in row.data or result_is_error(log, row) is True:
        return None
    return breach(f"There is an error, but isError is {result_is_error(log, row)!r}.", "isError true")


@rule(
    "S-LNT-42",
    "E",
    "Content blocks have the fields of their type, and no block is retired.",
    *_MESSAGES,
    "agent/inbox/spliced",
)
def blocks(log: Log, row: Row) -> list[Breach]:
    found: list[Breach] = []
    for message in _messages(row):
        for at, block in enumerate(items(message.get("content"))):
            reason = _block_fault(log, row.type, block)
            if reason is not None:
                found.append(breach(f"Block {at} {reason}.", "the blocks of the format, with their fields"))
    return found


def _block_fault(log: Log, kind: str, block: object, depth: int = 0) -> str | None:
    if type(block) is not dict:
        return "is not an object"
    name = block.get("type")
    fields = _BLOCKS.get(name) if type(name) is str else None
    retired = {"file", "tool-addition", "tool-removal"} if log.format == 0 else {"tool-result"}
    if fields is None or name in retired:
        return f"is of the unknown type {name!r}"
    if name in ("tool-addition", "tool-removal") and kind != "developer/message":
        return f"is a {name} outside a developer/message"
    for field, wanted in fields:
        if type(block.get(field)) is not wanted:
            return f"({name}) has no {field} of type {_NAMES[wanted]}"
    if name in _ATTACHMENT:
        for field, wanted in _ATTACHMENT[name]:
            if type(block["attachment"].get(field)) is not wanted:
                return f"({name}) has no attachment.{field} of type {_NAMES[wanted]}"
    if name == "tool-addition" and set(block) - {"type", "toolName"}:
        return "(tool-addition) defines its tool inline"
    if name == "tool-result" and depth == 0:
        for inner in block["content"]:
            reason = _block_fault(log, kind, inner, depth + 1)
            if reason is not None:
                return f"holds a block that {reason}"
    return None


_NAMES = {str: "string", int: "integer", dict: "object", list: "array"}


@rule("S-LNT-43", "E", "An assistant message's provider and model are those of the last header.", "assistant/message")
def route(log: Log, row: Row) -> list[Breach]:
    if log.header is None or not row.appends:
        return []
    source, config = record(row.message.get("source")), log.config()
    return [
        breach(f"The {part} is {source.get(part)!r}, the header says {config.get(part)!r}.", "the header's route")
        for part in ("provider", "model")
        if _word(source.get(part)) and source.get(part) != config.get(part)
    ]


RULES: tuple[Rule, ...] = (identified, unique_ids, role, source_kind, result_shape, error_flag, blocks, route)
