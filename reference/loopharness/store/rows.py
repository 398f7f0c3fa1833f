"""From events to the bytes of a session file, and nothing else: no file is touched here.

A file is the header row, then batches of event rows. Each row is compact JSON and one line feed (S-DSK-10). A
plain file is these bytes one after the other; in a zstd container the header row and every batch is one frame
(S-DSK-11):

    plain = header_text(header) + batch_text(first, 4) + batch_text(second, 4)
    zstd = frame(header_text(header)) + frame(batch_text(first, 4)) + frame(batch_text(second, 4))

Where a batch ends is the writer's decision. Format 4 has one row per event and writes sources as ranges
(S-DSK-12, S-DSK-13); format 0 packs runs of chunks, never across a batch (S-CHK-10).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import zstandard

from loopharness.frozen import dumps
from loopspec.log.packed import pack_rows, pack_sources

__all__ = ["batch_text", "event_rows", "frame", "header_row", "header_text", "row_text"]

HEADER_KEYS: Final = (
    "type",
    "version",
    "id",
    "createdAt",
    "cwd",
    "parentSession",
    "seedLength",
    "isSeeded",
    "origin",
    "delegationDepth",
    "agentPreset",
)
"""The order of the header's keys (S-HDR-5); `seedLength` is format 0 only, `isSeeded` format 4 only."""

EVENT_KEYS: Final = ("type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp", "ignorable")
"""The order of an event's keys (S-ENV-7)."""


def header_row(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header with its keys in order; keys that the format does not know come last (S-HDR-2)."""
    return _ordered(header, HEADER_KEYS)


def event_rows(
    events: Sequence[Mapping[str, Any]], version: int, *, pack_chunks: bool = True
) -> Iterator[Mapping[str, Any]]:
    """The rows that store the events of one batch, in order.

    `version` is the format, 0 or 4. `pack_chunks` concerns format 0 only; readers do not care (S-CHK-11).
    """
    if version == 0 and pack_chunks:
        events = pack_rows(events)
    for event in events:
        if "seq0" in event:
            yield event
            continue
        row = _ordered(event, EVENT_KEYS)
        if version == 4 and "sourceEventSeqs" in row:
            row["sourceEventSeqs"] = pack_sources(row["sourceEventSeqs"])
        yield row


def row_text(row: Mapping[str, Any]) -> bytes:
    """One row as it stands in the file, with its line feed (S-DSK-10).

    Half of a surrogate pair, which UTF-8 cannot hold, becomes a JSON escape; every reader gives it back.
    """
    return dumps(row).encode("utf-8", "backslashreplace") + b"\n"


def header_text(header: Mapping[str, Any]) -> bytes:
    """The first row of a file; alone in the first frame of a zstd container (S-DSK-11)."""
    return row_text(header_row(header))


def batch_text(events: Sequence[Mapping[str, Any]], version: int, *, pack_chunks: bool = True) -> bytes:
    """The rows of one batch, one after the other."""
    return b"".join(row_text(row) for row in event_rows(events, version, pack_chunks=pack_chunks))


def frame(text: bytes) -> bytes:
    """One zstd frame around the text: with a content checksum, without a content size (S-DSK-11)."""
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=False)
    return compressor.compress(text)


def _ordered(record: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    first = {key: record[key] for key in keys if key in record}
    return {**first, **{key: value for key, value in record.items() if key not in first}}
