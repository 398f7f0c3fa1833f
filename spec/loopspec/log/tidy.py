"""Streams without surprises: what they settle to can be said without assembling anything.

A tidy stream gives one block after the other, closes each, tells its usage at most once and finishes well. The closed
blocks are then its content, word for word (S-CHK-2, S-CHK-4). Nearly every stream is tidy; of any other, nothing is
said here, and `loopspec.stream` is asked. A test holds every answer against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from loopspec import stream
from loopspec.log.state import Piece
from loopspec.values import Record

_BLOCK_OF = {
    "text-delta": "text",
    "text-chunks": "text",
    "reasoning-delta": "reasoning",
    "reasoning-chunks": "reasoning",
    "tool-call-delta": "tool-call",
    "tool-call-chunks": "tool-call",
}
"""Deltas and packed runs of deltas, with the type of the block that they belong to."""
_WELL = ("stop", "tool-calls")


class Tidy(NamedTuple):
    """What a tidy stream settles to. It has no replay state."""

    content: list[Record]
    usage: Record | None
    finish: Any


def pieces_of(records: Sequence[Any]) -> list[Piece]:
    """The pieces of an embedded stream whose records are plain."""
    return [
        (record["chunk"]["type"], record["chunk"]) if record["type"] == "chunk" else (record["type"], record)
        for record in records
    ]


def tidy(pieces: Iterable[Piece]) -> Tidy | None:
    """What these pieces settle to, all of them plain, or None when they are not tidy."""
    blocks: list[Record] = []
    opened: str | None = None
    usage: Record | None = None
    finish: Record | None = None
    for kind, body in pieces:
        if finish is not None:
            return None
        if kind in _BLOCK_OF:
            if opened != _BLOCK_OF[kind] or body["index"] != len(blocks):
                return None
        elif kind == "block-start":
            if opened is not None or body["index"] != len(blocks):
                return None
            opened = body["blockType"]
        elif kind == "block-end":
            if opened != body["block"]["type"] or body["index"] != len(blocks):
                return None
            blocks.append(body["block"])
            opened = None
        elif kind == "usage":
            if usage is not None:
                return None
            usage = body["usage"]
        elif opened is not None or kind != "finish" or body["reason"]["kind"] not in _WELL or "replayState" in body:
            return None
        else:
            finish = body["reason"]
    return None if finish is None else Tidy(blocks, usage, finish)


def followed(grammar: stream.Grammar, kind: str, body: Record) -> stream.Grammar | None:
    """The state of the stream grammar behind a plain piece; None when the grammar has something to say (S-CHK-1)."""
    if kind in _BLOCK_OF:
        return grammar if (body["index"], _BLOCK_OF[kind]) in grammar.open and grammar.finish is None else None
    try:
        if kind == "block-start":
            return _judged(grammar, kind, body["index"], body["blockType"])
        if kind == "block-end":
            return _judged(grammar, kind, body["index"], body["block"]["type"])
        return _judged(grammar, kind, 0, body["reason"]["kind"] if kind == "finish" else "")
    except TypeError:  # a broken chunk has left something in the state that no memory takes
        return None


@lru_cache(maxsize=4096)
def _judged(grammar: stream.Grammar, kind: str, at: int, what: str) -> stream.Grammar | None:
    """`loopspec.stream.judge`, which looks at nothing else of a chunk, worked out once."""
    bare = {"type": kind, "index": at, "blockType": what, "block": {"type": what}, "reason": {"kind": what}}
    after, found = stream.judge(grammar, bare)
    return None if found else after
