"""Reading a format 3 log as format 4: one pass, in memory, no event is added, moved or left out.

Tool results get their own role and sources name their producer; what format 4 does not know becomes `plugin:`
something (S-MIG-2, the step from 3 to 4). Turns that a crash or a restart left open are closed; at the end of the
log that adds events, but no seq changes (S-MIG-3).

Not done: catalogue facts about children, which need the children. Known from migration code and two logs only.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopspec.log import repair
from loopspec.log.migrate import Migrated, MigrationError, tool_message, user_message
from loopspec.log.types import KNOWN_TYPES
from loopspec.values import Json, Record

_BLOCKS = frozenset({"text", "reasoning", "image", "file", "tool-call", "tool-addition", "tool-removal"})


def migrate_v3(header: Record, events: Iterable[Record]) -> Migrated:
    """A format 3 log as a format 4 log. Raises `MigrationError` for a turn left open inside the log."""
    work = repair.NOTHING_OPEN
    migrated: list[Record] = []
    for seq, event in enumerate(events):
        if event["type"] == "turn/start" and work.turn is not None:
            raise MigrationError(seq, f"turn {work.turn} is still open, and closing it would renumber the log")
        row = _event(seq, event)
        migrated.append(row)
        work = repair.follow(work, row)
    migrated.extend(repair.closers("v4", work))
    return Migrated({**header, "version": 4}, tuple(migrated), tuple(range(work.length)))


def _event(seq: int, event: Record) -> Record:
    event_type, data = event["type"], event["data"]
    try:
        if event_type == "user/message":
            return {**event, "data": _message(user_message(data))}
        if event_type == "tool/result":
            return {**event, "data": {**data, "message": _message(tool_message(data["message"]))}}
        if event_type == "agent/inbox/spliced":
            inserted = [_message(user_message(message)) for message in data["inserted"]]
            return {**event, "data": {**data, "inserted": inserted}}
        if event_type == "system/message":
            prompt = {**data["message"], "source": {"kind": "system-prompt"}}
            return {**event, "data": {**data, "message": _message(prompt)}}
        if event_type == "developer/message":
            return {**event, "data": {**data, "message": _message(user_message(data["message"]))}}
        if event_type == "assistant/message":
            return {**event, "data": {**data, "message": _message(data["message"])}}
    except (KeyError, TypeError, IndexError) as error:
        raise MigrationError(seq, f"the message of this {event_type} has not the shape of format 3") from error
    if event_type not in KNOWN_TYPES["v4"] and event.get("ignorable") is True:
        return {**event, "type": f"plugin:{event_type}"}
    return event


def _message(message: Record) -> Record:
    """The message with its unknown blocks renamed."""
    content = [_block(block) for block in message["content"]]
    return message if content == list(message["content"]) else {**message, "content": content}


def _block(block: Record) -> Record:
    known: Json = block["type"]
    return block if known in _BLOCKS else {**block, "type": f"plugin:{known}"}
