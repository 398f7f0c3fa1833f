"""The checker looks at a row: its message, its chunk, what its stream settles to, the names that it goes by.

Nothing here judges or folds. What a broken row does not have comes out empty, and the rules say what is wrong.
"""

from __future__ import annotations

from typing import Any

from loopspec import stream
from loopspec import surface as surfaces
from loopspec.log.state import NONE, Call, Log, Row, items, joined_chunk, name, record
from loopspec.values import Record


def prepare(log: Log, row: Row) -> None:
    """Fill in what the rules need to know about this row."""
    kind = row.type
    if kind == "assistant/chunk":
        if row.chunk is None:
            row.chunk = record(row.data.get("chunk"))
        row.judged = _judge(attempt_grammar(log), row.chunk)
    look(log, row)
    if kind == "assistant/message" or kind == "assistant/attempt":
        _settle(log, row)
    if "surfaceOp" in row.raw or "sourceEventSeqs" in row.raw or kind in log.surface_types or kind == "image/offload":
        row.surface_breaches = _surface_breaches(log, row)


def look(log: Log, row: Row) -> None:
    """Fill in the message of a surface row."""
    kind = row.type
    if kind == "user/message":
        row.message = row.data
        row.content = items(row.data.get("content"))
    elif kind in log.surface_types:
        row.message = record(row.data.get("message"))
        row.content = items(row.message.get("content"))


def _surface_breaches(log: Log, row: Row) -> tuple[surfaces.Breach, ...]:
    try:
        return surfaces.breaches(log.surface, row.raw, row.index)
    except (KeyError, TypeError, AttributeError, IndexError):
        return ()


def attempt_grammar(log: Log) -> stream.Grammar:
    """The grammar state before the next chunk: a failed finish ends its attempt, so the next chunk opens another."""
    return stream.GRAMMAR_START if log.grammar.finish in ("error", "aborted") else log.grammar


def _judge(grammar: stream.Grammar, chunk: Record) -> tuple[stream.Grammar, tuple[stream.Violation, ...]] | None:
    try:
        return stream.judge(grammar, chunk)
    except (KeyError, TypeError, AttributeError):
        return None


def stream_chunks(records: object) -> list[Record]:
    """The chunks of an embedded stream; a packed run comes out as one joined delta (`S-CHK-20`)."""
    chunks: list[Record] = []
    for item in items(records):
        kind = item["type"]
        chunks.append(item["chunk"] if kind == "chunk" else joined_chunk(kind, item))
    return chunks


def _settle(log: Log, row: Row) -> None:
    try:
        if log.format == 0:
            assembly = log.assembly if log.attempt_ranges else None
        else:
            chunks = stream_chunks(row.data.get("stream"))
            assembly = stream.assemble(chunks) if chunks else None
            grammar = stream.GRAMMAR_START
            found: tuple[stream.Violation, ...] = ()
            for chunk in chunks:
                grammar, breaches = stream.judge(grammar, chunk)
                found += breaches
            row.judged = (grammar, found)
        if assembly is not None:
            row.chunk = dict(assembly.finish or NONE)
            interrupted = row.data.get("interrupted") is True
            row.settlement = stream.settle_interrupted(assembly) if interrupted else stream.settle(assembly)
    except (KeyError, TypeError, AttributeError, ValueError):
        row.judged = None
        row.settlement = None


def stream_time(row: Row) -> int | None:
    """When the embedded stream of an answer began (`S-CHK-20`)."""
    first = record(items(row.data.get("stream"))[0]) if items(row.data.get("stream")) else {}
    time = first.get("time", first.get("time0"))
    return time if type(time) is int else None


# -- names -----------------------------------------------------------------------------------------------------


def result_call_id(row: Row) -> str | None:
    """The call that a tool result answers, by its source (`S-MSG-3`, `S-MSG-4`)."""
    call_id = record(row.message.get("source")).get("callId")
    return call_id if type(call_id) is str else None


def result_is_error(log: Log, row: Row) -> object:
    """The `isError` of a tool result in either dialect."""
    if log.format == 0:
        return record(row.content[0] if row.content else None).get("isError")
    return row.message.get("isError")


def error_code(row: Row) -> object:
    """The `error.code` of a tool result, or None."""
    return record(row.data.get("error")).get("code")


def is_offered(log: Log, call: Call) -> bool:
    """Is the tool that a call names, if it names one, among those of the header? (`S-LNT-76`)"""
    return log.header_tools is not None and name(call.block.get("name")) in log.header_tools


def call_ids(row: Row) -> tuple[str, ...]:
    """The ids of the tool calls in a message, in order."""
    return tuple(
        [
            block["id"]
            for block in row.content
            if type(block) is dict and block.get("type") == "tool-call" and type(block.get("id")) is str
        ]
    )


def retry_chain(row: Row) -> tuple[Any, ...]:
    """What a chain of retries belongs to (`S-LNT-93`)."""
    return tuple(repr(row.data.get(name)) for name in ("turn", "step", "provider", "policyKey"))
