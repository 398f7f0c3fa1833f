"""Packed rows, embedded streams and source ranges: exact both ways, and strict about what is malformed."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopspec.log.packed import (
    PackedError,
    TimedChunk,
    is_packed_row,
    pack_event,
    pack_rows,
    pack_sources,
    pack_stream,
    unpack_event,
    unpack_row,
    unpack_rows,
    unpack_sources,
    unpack_stream,
)

CORPUS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
SAFE = 2**53 - 1

# -- chunks of any kind --------------------------------------------------------------------------------------

CALL_DELTA = {"type": "tool-call-delta", "index": 0, "id": "x"}
FRAMES: list[tuple[dict[str, Any], str]] = [
    ({"type": "text-delta", "index": 0}, "text"),
    ({"type": "text-delta", "index": 1}, "text"),
    ({"type": "reasoning-delta", "index": 0}, "text"),
    (CALL_DELTA, "argumentsDelta"),
    ({**CALL_DELTA, "id": "y"}, "argumentsDelta"),
    ({**CALL_DELTA, "id": ""}, "argumentsDelta"),
    ({**CALL_DELTA, "name": "f"}, "argumentsDelta"),
    ({**CALL_DELTA, "name": ""}, "argumentsDelta"),
    ({"type": "text-delta", "index": 0, "extra": 1}, "text"),
    ({"type": "block-start", "index": 0, "blockType": "text"}, "blockType"),
]
# neighbours must often fit and often almost fit, so chunks come in bursts of one frame
BURSTS = st.tuples(st.sampled_from(FRAMES), st.lists(st.sampled_from(["", "a", "bc"]), min_size=1, max_size=4))
DELTAS = st.lists(BURSTS, max_size=8).map(
    lambda bursts: [{**frame, field: text} for (frame, field), texts in bursts for text in texts]
)
GAPS = st.integers(-3, 3)


def events_of(chunks: list[dict[str, Any]], gaps: list[int], breaks: set[int], steps: set[int]) -> list[dict[str, Any]]:
    """Chunk events with moving times, a missing seq at each of `breaks` and another step from each of `steps` on."""
    events: list[dict[str, Any]] = []
    seq, time, step = 5, 1000, 1
    for at, chunk in enumerate(chunks):
        seq, time, step = seq + 1 + (at in breaks), time + gaps[at % len(gaps)], step + (at in steps)
        events.append(
            {"type": "assistant/chunk", "seq": seq, "time": time, "data": {"turn": 1, "step": step, "chunk": chunk}}
        )
    return events


PLACES = st.sets(st.integers(0, 31), max_size=2)
EVENTS = st.builds(events_of, DELTAS, st.lists(GAPS, min_size=1, max_size=5), PLACES, PLACES)


@given(EVENTS)
def test_rows_unpack_to_what_was_packed(events: list[dict[str, Any]]) -> None:
    assert list(unpack_rows(pack_rows(events))) == events


@given(EVENTS)
def test_rows_are_packed_from_three_members_on_and_never_less(events: list[dict[str, Any]]) -> None:
    """S-CHK-10, said the other way round: no packed row is short, no three neighbours that fit stay apart."""
    rows = pack_rows(events)
    for row in rows:
        if is_packed_row(row):
            assert len(unpack_row(row)) >= 3
    for left, right in pairwise(rows):
        if is_packed_row(left) and is_packed_row(right):
            last, first = frame(unpack_row(left)[-1]), frame(unpack_row(right)[0])
            assert not (last[1:] == first[1:] and first[0] == last[0] + 1)
    for trio in zip(rows, rows[1:], rows[2:], strict=False):
        if not any(map(is_packed_row, trio)):
            frames = [frame(row) for row in trio]
            deltas = all(chunk(row)["type"].endswith("-delta") and "extra" not in chunk(row) for row in trio)
            first, second, third = frames
            assert not (deltas and first[1:] == second[1:] == third[1:] and third[0] == second[0] + 1 == first[0] + 2)


PAIRS = [(left, right) for left in FRAMES for right in FRAMES if left != right]


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_near_misses_stay_apart(left: tuple[dict[str, Any], str], right: tuple[dict[str, Any], str]) -> None:
    """Three deltas of one frame and three of another are never one run, in rows or in streams."""
    chunks = [{**frame, field: text} for frame, field in (left, right) for text in ("a", "", "b")]
    events = events_of(chunks, [1], set(), set())
    rows = pack_rows(events)
    assert list(unpack_rows(rows)) == events
    packable = [frame for frame, field in (left, right) if field != "blockType" and "extra" not in frame]
    assert sum(map(is_packed_row, rows)) == len(packable)
    stream = [TimedChunk(at, one) for at, one in enumerate(chunks)]
    assert list(unpack_stream(pack_stream(stream))) == stream


@pytest.mark.parametrize(("breaks", "steps"), [({3}, set()), (set(), {3})])
def test_a_missing_seq_or_another_step_ends_a_run(breaks: set[int], steps: set[int]) -> None:
    events = events_of([{"type": "text-delta", "index": 0, "text": "a"}] * 6, [1], breaks, steps)
    rows = pack_rows(events)
    assert len(rows) == 2
    assert list(unpack_rows(rows)) == events


def chunk(event: Any) -> dict[str, Any]:
    found: dict[str, Any] = event["data"]["chunk"]
    return found


def frame(event: Any) -> tuple[Any, ...]:
    """What the members of a run share, with a seq that must go on."""
    body = {key: value for key, value in chunk(event).items() if key not in ("text", "argumentsDelta")}
    return (event["seq"], event["data"]["step"], sorted(body.items()))


def test_the_writers_own_rows_are_reproduced() -> None:
    """Unpacking and packing again gives the stored rows, batch by batch (the packed logs; one batch per seq run)."""
    packed = 0
    for path in sorted(CORPUS.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]
        for row in rows:
            if is_packed_row(row):
                assert pack_rows(unpack_row(row)) == (row,)
                assert list(pack_rows(unpack_row(row))[0]) == list(row)
                packed += 1
    assert packed == 58


CALL = {"turn": 1, "step": 2, "index": 3, "dt": [1, -2], "id": "x", "args": ["a", "", "b"]}
ROW: dict[str, Any] = {"type": "tool-call-chunks", "seq0": 7, "time0": 100, "data": CALL}
TEXT_ROW: dict[str, Any] = {
    "type": "text-chunks", "seq0": 7, "time0": 100,
    "data": {"turn": 1, "step": 2, "index": 0, "dt": [], "texts": ["a"]},
}  # fmt: skip


def test_members_follow_by_the_gaps() -> None:
    """S-CHK-11: gaps may be negative, and the name is there only when it was."""
    assert [(event["seq"], event["time"]) for event in unpack_row(ROW)] == [(7, 100), (8, 101), (9, 99)]
    first = {"type": "tool-call-delta", "index": 3, "id": "x", "argumentsDelta": "a"}
    assert unpack_row(ROW)[0] == {
        "type": "assistant/chunk",
        "seq": 7,
        "time": 100,
        "data": {"turn": 1, "step": 2, "chunk": first},
    }
    named = unpack_row({**ROW, "data": {**CALL, "name": "f"}})
    assert [event["data"]["chunk"]["name"] for event in named] == ["f"] * 3
    assert [event["data"]["chunk"] for event in unpack_row(TEXT_ROW)] == [
        {"type": "text-delta", "index": 0, "text": "a"}
    ]


def data(row: dict[str, Any], **change: Any) -> dict[str, Any]:
    body = {key: value for key, value in {**row["data"], **change}.items() if value is not ...}
    return {**row, "data": body}


@pytest.mark.parametrize(
    ("row", "path", "reason"),
    [
        ({**ROW, "seq": 7}, ("seq",), "is not a key of a packed row"),
        ({key: value for key, value in ROW.items() if key != "time0"}, ("time0",), "is missing"),
        ({**ROW, "type": "odd-chunks"}, ("type",), "'odd-chunks' is not a packed row type"),
        ({**ROW, "data": []}, ("data",), "must be an object"),
        ({**ROW, "seq0": -1}, ("seq0",), "must be a non-negative safe integer"),
        ({**ROW, "seq0": True}, ("seq0",), "must be a non-negative safe integer"),
        ({**ROW, "seq0": SAFE}, ("seq0",), "leads to a seq that is not a safe integer"),
        ({**ROW, "time0": 1.5}, ("time0",), "must be a safe integer"),
        ({**ROW, "time0": SAFE}, ("data", "dt"), "leads to a time that is not a safe integer"),
        (data(ROW, dt=[1]), ("data", "dt"), "must have one entry less than args: 2, not 1"),
        (data(ROW, dt=[1, 2, 3]), ("data", "dt"), "must have one entry less than args: 2, not 3"),
        (data(ROW, dt=[1, "2"]), ("data", "dt", 1), "must be a safe integer"),
        (data(ROW, dt=...), ("data", "dt"), "is missing"),
        (data(ROW, args=[], dt=[]), ("data", "args"), "must not be empty"),
        (data(ROW, args="abc"), ("data", "args"), "must be an array"),
        (data(ROW, args=["a", 1, "b"]), ("data", "args", 1), "must be a string"),
        (data(ROW, id=1), ("data", "id"), "must be a string"),
        (data(ROW, name=None), ("data", "name"), "must be a string"),
        (data(ROW, turn=0), ("data", "turn"), "must be a positive safe integer"),
        (data(ROW, index=-1), ("data", "index"), "must be a non-negative safe integer"),
        (data(ROW, texts=[]), ("data", "texts"), "is not a key of a packed row"),
        (data(TEXT_ROW, name="f"), ("data", "name"), "is not a key of a packed row"),
        (data(TEXT_ROW, step=...), ("data", "step"), "is missing"),
    ],
)
def test_malformed_rows_say_where_and_why(row: dict[str, Any], path: tuple[Any, ...], reason: str) -> None:
    with pytest.raises(PackedError) as error:
        unpack_row(row)
    assert (error.value.path, error.value.reason) == (path, reason)


# -- embedded streams ----------------------------------------------------------------------------------------


def timed(chunks: list[dict[str, Any]], gaps: list[int]) -> list[TimedChunk]:
    times = accumulate((gaps[at % len(gaps)] for at in range(len(chunks))), initial=1000)
    return [TimedChunk(time, one) for time, one in zip(times, chunks, strict=False)]


STREAMS = st.builds(timed, DELTAS, st.lists(GAPS, min_size=1, max_size=5))


@given(STREAMS)
def test_streams_unpack_to_what_was_packed(chunks: list[TimedChunk]) -> None:
    assert list(unpack_stream(pack_stream(chunks))) == chunks


@given(STREAMS)
def test_streams_are_packed_canonically(chunks: list[TimedChunk]) -> None:
    """S-CHK-21: every delta that may be packed is packed, and no two neighbours could be one record."""
    records = pack_stream(chunks)
    for record in records:
        if record["type"] == "chunk" and record["chunk"]["type"].endswith("-delta"):
            plain = record["chunk"]
            assert "extra" in plain or plain.get("id") == "" or plain.get("name") == ""
    for left, right in pairwise(records):
        if left["type"] != "chunk" and left["type"] == right["type"]:
            shared = ("index", "id", "name")
            assert [left.get(key) for key in shared] != [right.get(key) for key in shared]


def test_a_name_on_the_first_delta_only_makes_two_records() -> None:
    """S-CHK-25"""
    deltas = [
        {"type": "tool-call-delta", "index": 0, "id": "x", "name": "f", "argumentsDelta": ""},
        {"type": "tool-call-delta", "index": 0, "id": "x", "argumentsDelta": "1"},
        {"type": "tool-call-delta", "index": 0, "id": "x", "argumentsDelta": "2"},
    ]
    assert pack_stream([TimedChunk(at, one) for at, one in enumerate(deltas)]) == (
        {"type": "tool-call-chunks", "time0": 0, "index": 0, "dt": [], "id": "x", "name": "f", "args": [""]},
        {"type": "tool-call-chunks", "time0": 1, "index": 0, "dt": [1], "id": "x", "args": ["1", "2"]},
    )


def test_one_text_delta_is_packed() -> None:
    delta = {"type": "text-delta", "index": 0, "text": "a"}
    packed = {"type": "text-chunks", "time0": 4, "index": 0, "dt": [], "texts": ["a"]}
    assert pack_stream([TimedChunk(4, delta)]) == (packed,)


@pytest.mark.parametrize(
    ("record", "path"),
    [
        ({"type": "chunk", "time": 1}, (0, "chunk")),
        ({"type": "chunk", "time": "1", "chunk": {}}, (0, "time")),
        ({"type": "text-chunks", "time0": 1, "index": 0, "dt": [1], "texts": ["a"]}, (0, "dt")),
        ({"type": "text-chunks", "time": 1, "index": 0, "dt": [], "texts": ["a"]}, (0, "time0")),
        ({"type": "odd"}, (0, "type")),
        ("odd", (0, "type")),
    ],
)
def test_malformed_records_say_where(record: Any, path: tuple[Any, ...]) -> None:
    with pytest.raises(PackedError) as error:
        unpack_stream([record])
    assert error.value.path == path


# -- source ranges -------------------------------------------------------------------------------------------

RISING = st.lists(st.integers(0, 60), unique=True).map(sorted)


@given(st.one_of(RISING, st.lists(st.integers(0, 60), unique=True)))
def test_sources_unpack_to_what_was_packed(seqs: list[int]) -> None:
    assert unpack_sources(pack_sources(seqs), 61) == tuple(seqs)


@pytest.mark.parametrize(
    ("seqs", "stored"),
    [
        ([1, 2, 3], ([1, 3],)),
        ([1, 2], (1, 2)),
        ([1, 2, 4, 5, 6, 8], (1, 2, [4, 6], 8)),
        ([3, 2, 1], (3, 2, 1)),
        ([9, 1, 2, 3], (9, 1, 2, 3)),
        ([], ()),
    ],
)
def test_the_stored_form(seqs: list[int], stored: tuple[Any, ...]) -> None:
    """S-DSK-12: runs of three, runs of two, and lists that do not rise."""
    assert pack_sources(seqs) == stored


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        ([[1, 2, 3]], "a range has exactly two ends"),
        ([[2, 2]], "the ends of a range must increase"),
        ([[3, 1]], "the ends of a range must increase"),
        ([1, 1], "cites a seq twice"),
        ([[1, 3], 2], "cites a seq twice"),
        ([[0, 9], [0, 9]], "cites a seq twice"),
        ([[0, 10]], "cites event 10, which is not earlier than event 10"),
        ([[0, 10**15]], f"cites event {10**15}, which is not earlier than event 10"),
        ([-1], "must be a non-negative safe integer"),
        (["1"], "must be a non-negative safe integer"),
        ("12", "must be an array"),
    ],
)
def test_malformed_sources_say_why(stored: Any, reason: str) -> None:
    with pytest.raises(PackedError) as error:
        unpack_sources(stored, 10)
    assert error.value.reason == reason


def test_events_are_stored_with_ranges() -> None:
    event = {"type": "user/message", "seq": 9, "sourceEventSeqs": [1, 2, 3]}
    assert pack_event(event) == {**event, "sourceEventSeqs": [[1, 3]]}
    assert unpack_event(pack_event(event)) == event
    plain = {"type": "turn/start", "seq": 9}
    assert pack_event(plain) is plain
    assert unpack_event(plain) is plain
