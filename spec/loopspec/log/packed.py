"""Storage vocabulary: many deltas in one row, embedded streams, ranges of source seqs.

A stream is mostly small deltas. Format 0 stores a run of delta events as one packed row; format 4 embeds the
whole stream in its settlement and packs deltas there; format 4 also writes lists of sources as ranges. All
three are pure re-encodings: unpacking gives back exactly what was packed.

Rules: S-CHK-10 to S-CHK-12 (rows), S-CHK-20, S-CHK-21, S-CHK-25 (streams), S-DSK-12 (sources).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from loopspec.values import SAFE_INTEGER, Json, Record

ROW_RUN = 3
"""Format 0 packs a run from this many deltas on (S-CHK-10). Readers take shorter ones too (S-CHK-11)."""

PACKED_TYPES = ("text-chunks", "reasoning-chunks", "tool-call-chunks")
_DELTA_OF = {"text-chunks": "text-delta", "reasoning-chunks": "reasoning-delta", "tool-call-chunks": "tool-call-delta"}
_PACKED_OF = {delta: packed for packed, delta in _DELTA_OF.items()}
_DELTA_KEYS = {
    "text-delta": frozenset({"type", "index", "text"}),
    "reasoning-delta": frozenset({"type", "index", "text"}),
    "tool-call-delta": frozenset({"type", "index", "id", "argumentsDelta"}),
}


class PackedError(ValueError):
    """A packed value that cannot be unpacked. `path` leads to the fault, `reason` says what is wrong."""

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        super().__init__(f"{'.'.join(map(str, path)) or 'row'}: {reason}")
        self.path = path
        self.reason = reason


class TimedChunk(NamedTuple):
    """One chunk of a stream and the Unix millisecond at which it came."""

    time: int
    chunk: Record


# -- what a run is -------------------------------------------------------------------------------------------


def is_packed_row(row: Record) -> bool:
    """Whether a stored row is a packed one; the names have no slash, so they never collide with events."""
    return row.get("type") in PACKED_TYPES


def _packable(chunk: Record) -> bool:
    """A delta without surplus fields: anything else would not survive the packing."""
    keys = _DELTA_KEYS.get(chunk["type"])
    if keys is None:
        return False
    own = frozenset(chunk)
    return own == keys or (chunk["type"] == "tool-call-delta" and own == keys | {"name"})


def _joins(first: Record, chunk: Record) -> bool:
    """Whether a delta continues the run that `first` began: same kind, index, id and name, or absence of one."""
    if chunk["type"] != first["type"] or chunk["index"] != first["index"]:
        return False
    if chunk["type"] != "tool-call-delta":
        return True
    return bool(chunk["id"] == first["id"] and chunk.get("name") == first.get("name"))


def _body(run: Sequence[TimedChunk]) -> dict[str, Json]:
    first = run[0].chunk
    body: dict[str, Json] = {
        "index": first["index"],
        "dt": [later.time - earlier.time for earlier, later in pairwise(run)],
    }
    if first["type"] != "tool-call-delta":
        return body | {"texts": [member.chunk["text"] for member in run]}
    body["id"] = first["id"]
    if "name" in first:
        body["name"] = first["name"]
    return body | {"args": [member.chunk["argumentsDelta"] for member in run]}


def _members(packed_type: str, body: Record) -> list[Record]:
    delta: str = _DELTA_OF[packed_type]
    if packed_type != "tool-call-chunks":
        return [{"type": delta, "index": body["index"], "text": text} for text in body["texts"]]
    frame = {"type": delta, "index": body["index"], "id": body["id"]}
    if "name" in body:
        frame["name"] = body["name"]
    return [{**frame, "argumentsDelta": fragment} for fragment in body["args"]]


# -- shape checks shared by rows and records -----------------------------------------------------------------


def _require_keys(value: Json, path: tuple[str | int, ...], needed: set[str], optional: set[str]) -> None:
    if not isinstance(value, Mapping):
        raise PackedError(path, "must be an object")
    for key in sorted(needed - set(value)):
        raise PackedError((*path, key), "is missing")
    for key in sorted(set(value) - needed - optional):
        raise PackedError((*path, key), "is not a key of a packed row")


def _require_integer(value: Json, path: tuple[str | int, ...], least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= SAFE_INTEGER:
        kind = {0: "a non-negative safe integer", 1: "a positive safe integer"}.get(least, "a safe integer")
        raise PackedError(path, f"must be {kind}")
    return value


def _require_list(value: Json, path: tuple[str | int, ...]) -> Sequence[Json]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise PackedError(path, "must be an array")
    return value


def _check_body(packed_type: str, body: Record, path: tuple[str | int, ...], time0: int) -> list[int]:
    """Check the common keys of a packed body and return the time of every member."""
    fragments = "args" if packed_type == "tool-call-chunks" else "texts"
    _require_integer(body["index"], (*path, "index"), 0)
    for name in ("id", "name") if packed_type == "tool-call-chunks" else ():
        if name in body and not isinstance(body[name], str):
            raise PackedError((*path, name), "must be a string")
    members = _require_list(body[fragments], (*path, fragments))
    if not members:
        raise PackedError((*path, fragments), "must not be empty")
    for at, fragment in enumerate(members):
        if not isinstance(fragment, str):
            raise PackedError((*path, fragments, at), "must be a string")
    gaps = _require_list(body["dt"], (*path, "dt"))
    if len(gaps) != len(members) - 1:
        text = f"must have one entry less than {fragments}: {len(members) - 1}, not {len(gaps)}"
        raise PackedError((*path, "dt"), text)
    for at, gap in enumerate(gaps):
        _require_integer(gap, (*path, "dt", at), -SAFE_INTEGER)
    times = list(accumulate(gaps, initial=time0))
    if any(abs(time) > SAFE_INTEGER for time in times):
        raise PackedError((*path, "dt"), "leads to a time that is not a safe integer")
    return times


# -- format 0 rows -------------------------------------------------------------------------------------------


def unpack_row(row: Record) -> tuple[Record, ...]:
    """The chunk events of one packed row (S-CHK-11). All or nothing: raises `PackedError` at the first fault."""
    packed_type: str = row["type"]
    if packed_type not in PACKED_TYPES:
        raise PackedError(("type",), f"{packed_type!r} is not a packed row type")
    _require_keys(row, (), {"type", "seq0", "time0", "data"}, set())
    is_call = packed_type == "tool-call-chunks"
    needed = {"turn", "step", "index", "dt"} | ({"id", "args"} if is_call else {"texts"})
    body = row["data"]
    _require_keys(body, ("data",), needed, {"name"} if is_call else set())
    seq0 = _require_integer(row["seq0"], ("seq0",), 0)
    time0 = _require_integer(row["time0"], ("time0",), -SAFE_INTEGER)
    for name in ("turn", "step"):
        _require_integer(body[name], ("data", name), 1)
    times = _check_body(packed_type, body, ("data",), time0)
    if seq0 + len(times) - 1 > SAFE_INTEGER:
        raise PackedError(("seq0",), "leads to a seq that is not a safe integer")
    return tuple(
        {
            "type": "assistant/chunk",
            "seq": seq0 + at,
            "time": time,
            "data": {"turn": body["turn"], "step": body["step"], "chunk": chunk},
        }
        for at, (time, chunk) in enumerate(zip(times, _members(packed_type, body), strict=True))
    )


def unpack_rows(rows: Iterable[Record]) -> Iterable[Record]:
    """The events of format 0 rows, packed rows opened in place. Raises `PackedError` when one is malformed."""
    for row in rows:
        if is_packed_row(row):
            yield from unpack_row(row)
        else:
            yield row


def pack_rows(events: Sequence[Record]) -> tuple[Record, ...]:
    """The rows of one durable batch: runs of three or more deltas packed, everything else as it is (S-CHK-10)."""
    rows: list[Record] = []
    at = 0
    while at < len(events):
        run = _row_run(events, at)
        if run >= ROW_RUN:
            rows.append(_packed_row(events[at : at + run]))
        else:
            rows.extend(events[at : at + run])
        at += run
    return tuple(rows)


def _row_run(events: Sequence[Record], start: int) -> int:
    """How many events from `start` on make one run; 1 when the first is no delta."""
    first = events[start]
    if not _packable_event(first):
        return 1
    end = start + 1
    while end < len(events) and _continues(first, events[end], end - start):
        end += 1
    return end - start


def _packable_event(event: Record) -> bool:
    return (
        event["type"] == "assistant/chunk"
        and set(event) == {"type", "seq", "time", "data"}
        and set(event["data"]) == {"turn", "step", "chunk"}
        and _packable(event["data"]["chunk"])
    )


def _continues(first: Record, event: Record, offset: int) -> bool:
    if not _packable_event(event) or event["seq"] != first["seq"] + offset:
        return False
    head, data = first["data"], event["data"]
    same_place = data["turn"] == head["turn"] and data["step"] == head["step"]
    return same_place and _joins(head["chunk"], data["chunk"])


def _packed_row(run: Sequence[Record]) -> Record:
    first = run[0]
    body = _body([TimedChunk(event["time"], event["data"]["chunk"]) for event in run])
    return {
        "type": _PACKED_OF[first["data"]["chunk"]["type"]],
        "seq0": first["seq"],
        "time0": first["time"],
        "data": {"turn": first["data"]["turn"], "step": first["data"]["step"], **body},
    }


# -- format 4 streams ----------------------------------------------------------------------------------------


def pack_stream(chunks: Iterable[TimedChunk]) -> tuple[Record, ...]:
    """The stream records of a settlement (S-CHK-20, S-CHK-21): deltas are packed from one upwards.

    A tool-call delta with an empty id or an empty name stays a plain `chunk` record.
    """
    records: list[Record] = []
    run: list[TimedChunk] = []
    for timed in chunks:
        if run and not (_streamable(timed.chunk) and _joins(run[0].chunk, timed.chunk)):
            records.append(_stream_record(run))
            run = []
        if _streamable(timed.chunk):
            run.append(timed)
        else:
            records.append({"type": "chunk", "time": timed.time, "chunk": timed.chunk})
    if run:
        records.append(_stream_record(run))
    return tuple(records)


def _streamable(chunk: Record) -> bool:
    if not _packable(chunk):
        return False
    return chunk["type"] != "tool-call-delta" or (bool(chunk["id"]) and chunk.get("name") != "")


def _stream_record(run: Sequence[TimedChunk]) -> Record:
    first = run[0]
    return {"type": _PACKED_OF[first.chunk["type"]], "time0": first.time, **_body(run)}


def unpack_stream(records: Sequence[Record]) -> tuple[TimedChunk, ...]:
    """The timed chunks of an embedded stream, in order. Raises `PackedError`."""
    chunks: list[TimedChunk] = []
    for at, record in enumerate(records):
        chunks += _unpack_record(record, (at,))
    return tuple(chunks)


def chunks_of(records: Sequence[Record]) -> tuple[Record, ...]:
    """The chunks of an embedded stream without their times. Raises `PackedError`."""
    return tuple(timed.chunk for timed in unpack_stream(records))


def _unpack_record(record: Record, path: tuple[str | int, ...]) -> list[TimedChunk]:
    record_type = record.get("type") if isinstance(record, Mapping) else None
    if record_type == "chunk":
        _require_keys(record, path, {"type", "time", "chunk"}, set())
        return [TimedChunk(_require_integer(record["time"], (*path, "time"), -SAFE_INTEGER), record["chunk"])]
    if record_type not in PACKED_TYPES:
        raise PackedError((*path, "type"), f"{record_type!r} is not a stream record type")
    is_call = record_type == "tool-call-chunks"
    needed = {"type", "time0", "index", "dt"} | ({"id", "args"} if is_call else {"texts"})
    _require_keys(record, path, needed, {"name"} if is_call else set())
    time0 = _require_integer(record["time0"], (*path, "time0"), -SAFE_INTEGER)
    times = _check_body(record_type, record, path, time0)
    members = _members(record_type, record)
    return [TimedChunk(time, chunk) for time, chunk in zip(times, members, strict=True)]


# -- format 4 source lists -----------------------------------------------------------------------------------


def pack_sources(seqs: Sequence[int]) -> tuple[Json, ...]:
    """The stored form of `sourceEventSeqs` (S-DSK-12): runs of three or more become [first, last].

    Only a strictly increasing list is packed; any other is stored as it is.
    """
    if any(left >= right for left, right in pairwise(seqs)):
        return tuple(seqs)
    packed: list[Json] = []
    at = 0
    while at < len(seqs):
        end = at
        while end + 1 < len(seqs) and seqs[end + 1] == seqs[end] + 1:
            end += 1
        packed.extend([[seqs[at], seqs[end]]] if end - at >= 2 else seqs[at : end + 1])
        at = end + 1
    return tuple(packed)


def unpack_sources(stored: Json, seq: int) -> tuple[int, ...]:
    """The seqs of a stored source list of event `seq` (S-DSK-12). Raises `PackedError`.

    Every seq must be earlier than `seq` and unique, so no range can be longer than the log.
    """
    path: tuple[str | int, ...] = ("sourceEventSeqs",)
    seqs: list[int] = []
    for at, item in enumerate(_require_list(stored, path)):
        place = (*path, at)
        if isinstance(item, Sequence) and not isinstance(item, str):
            if len(item) != 2:
                raise PackedError(place, "a range has exactly two ends")
            first = _require_integer(item[0], (*place, 0), 0)
            last = _require_integer(item[1], (*place, 1), 0)
            if first >= last:
                raise PackedError(place, "the ends of a range must increase")
        else:
            first = last = _require_integer(item, place, 0)
        if last >= seq:
            raise PackedError(place, f"cites event {last}, which is not earlier than event {seq}")
        seqs.extend(range(first, last + 1))
        if len(seqs) > seq:
            raise PackedError(place, "cites a seq twice")
    if len(set(seqs)) != len(seqs):
        raise PackedError(path, "cites a seq twice")
    return tuple(seqs)


def unpack_event(row: Record) -> Record:
    """The event of one stored format 4 row: its source list opened, everything else as it is (S-DSK-13)."""
    if "sourceEventSeqs" not in row or not any(
        isinstance(item, Sequence) for item in _require_list(row["sourceEventSeqs"], ("sourceEventSeqs",))
    ):
        return row
    seq = _require_integer(row.get("seq"), ("seq",), 0)
    return {**row, "sourceEventSeqs": list(unpack_sources(row["sourceEventSeqs"], seq))}


def pack_event(event: Record) -> Record:
    """The stored form of one format 4 event."""
    if "sourceEventSeqs" not in event:
        return event
    return {**event, "sourceEventSeqs": list(pack_sources(event["sourceEventSeqs"]))}
