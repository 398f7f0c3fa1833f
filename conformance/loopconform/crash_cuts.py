"""The second half of `docs/CRASH.md`: the file of the played conversation, cut at every byte, and what that loses.

A batch is confirmed when a barrier has seen it through. Whatever the cut, all batches in front of it must be there; of
the batch that is cut a reader keeps the rows that came out whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loopharness.store.errors import SessionPersistenceCorruptionError
from loopharness.store.layout import Compression
from loopharness.store.reading import read_stored
from loopharness.store.rows import batch_text, frame, header_text

__all__ = ["table"]

SUFFIXES: Mapping[Compression, str] = {"zstd": ".jsonl.zstd", "none": ".jsonl"}

HEAD = """
| cut inside | confirmed events before it | events that the successor has | confirmed events lost |
|---|---|---|---|
"""


class _Batch(NamedTuple):
    """What was written at once: its name, its bytes, and how many events the file had before it."""

    name: str
    content: bytes
    before: int


def table(header: Any, events: Sequence[Any], ends: Sequence[int], compression: Compression) -> str:
    """One row for each batch; a batch of events ends at each of `ends`, a count of events."""
    lines = []
    whole = b""
    for batch in _batches(header, events, ends, compression):
        kept = [_kept(whole + batch.content[:size], compression) for size in range(len(batch.content))]
        counts = [count for count in kept if count is not None]
        refused = "refused" if None in kept else ""
        low, high = min(counts, default=0), max(counts, default=0)
        span = "" if not counts else str(low) if low == high else f"{low} to {high}"
        lost = max((batch.before - count for count in counts), default=0)
        found = ", or ".join(part for part in (refused, span) if part)
        lines.append(f"| {batch.name} | {batch.before} | {found} | {lost} |\n")
        whole += batch.content
    return HEAD + "".join(lines)


def _batches(header: Any, events: Sequence[Any], ends: Sequence[int], compression: Compression) -> list[_Batch]:
    encoded = frame if compression == "zstd" else bytes
    batches = [_Batch("the header row, which comes with batch 1 or not at all", encoded(header_text(header)), 0)]
    start = 0
    for end in ends:
        text = batch_text(events[start:end], header["version"])
        name = f"batch {len(batches)}: {_named(events[start])} … {_named(events[end - 1])}"
        batches.append(_Batch(name, encoded(text), start))
        start = end
    return batches


def _named(event: Any) -> str:
    return f"{event['type']} ({event['seq']})"


def _kept(content: bytes, compression: Compression) -> int | None:
    """How many events of the cut file a successor has; `None` when it is refused."""
    try:
        return len(read_stored(content, SUFFIXES[compression]).events)
    except SessionPersistenceCorruptionError:
        return None
