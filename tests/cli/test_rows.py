"""The text of rows and the frames around it, against real files and against bytes written out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from loopharness.frozen import freeze
from loopharness.store.rows import batch_text, event_rows, frame, header_text, row_text
from loopspec.log.packed import is_packed_row, unpack_row

REAL = sorted((Path(__file__).parent.parent / "logs" / "upstream-rc8").glob("*.jsonl"))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_events_of_a_real_file_become_its_rows_again(path: Path) -> None:
    """Format 0, byte for byte; each stored row is given back as a batch of its own."""
    first, *rest = path.read_bytes().splitlines(keepends=True)
    assert header_text(json.loads(first)) == first
    for line in rest:
        row = json.loads(line)
        events = unpack_row(row) if is_packed_row(row) else [row]
        written = batch_text([freeze(dict(event)) for event in events], 0)
        if REPAIRED in line:
            assert written == line.replace(REPAIRED, b"").replace(b"]}\n", b'],"surfaceOp":"append"}\n')
        else:
            assert written == line


REPAIRED = b'"surfaceOp":"append",'
"""The repair of the published packages writes the two last keys the other way round."""


def chunk(seq: int, text: str) -> dict[str, Any]:
    place = {"turn": 1, "step": 1, "chunk": {"type": "text-delta", "index": 0, "text": text}}
    return {"type": "assistant/chunk", "seq": seq, "time": 5, "data": place}


def test_three_chunks_make_one_row_and_two_do_not() -> None:
    three = [chunk(7, "a"), chunk(8, "b"), chunk(9, "c")]
    assert [row["type"] for row in event_rows(three, 0)] == ["text-chunks"]
    assert [row["type"] for row in event_rows(three[:2], 0)] == ["assistant/chunk"] * 2
    assert [row["type"] for row in event_rows(three, 0, pack_chunks=False)] == ["assistant/chunk"] * 3


def test_keys_come_in_the_order_of_the_format() -> None:
    event = {
        "surfaceOp": "append",
        "data": {"b": 1, "a": 2},
        "time": 3,
        "sourceEventSeqs": [1],
        "seq": 2,
        "type": "tool/result",
    }
    assert batch_text([event], 4) == (
        b'{"type":"tool/result","seq":2,"time":3,"data":{"b":1,"a":2},"sourceEventSeqs":[1],"surfaceOp":"append"}\n'
    )
    header = {"agentPreset": "p", "delegationDepth": 1, "isSeeded": False, "parentSession": "m", "cwd": "/w"}
    header |= {"createdAt": 1, "id": "x", "version": 4, "type": "session", "origin": "subagent"}
    assert header_text(header) == (
        b'{"type":"session","version":4,"id":"x","createdAt":1,"cwd":"/w","parentSession":"m","isSeeded":false,'
        b'"origin":"subagent","delegationDepth":1,"agentPreset":"p"}\n'
    )


@pytest.mark.parametrize(
    ("version", "stored"),
    [(4, b"[1,2,[4,6],9]"), (0, b"[1,2,4,5,6,9]")],
)
def test_sources_are_ranges_in_format_4_only(version: int, stored: bytes) -> None:
    event = {"type": "x", "seq": 10, "time": 0, "data": {}, "sourceEventSeqs": (1, 2, 4, 5, 6, 9)}
    assert b'"sourceEventSeqs":' + stored + b"}" in batch_text([event], version)


def test_half_a_surrogate_pair_survives() -> None:
    text = row_text({"text": "a\udc00é\n"})
    assert text == b'{"text":"a\\udc00\xc3\xa9\\n"}\n'
    assert json.loads(text) == {"text": "a\udc00é\n"}


@pytest.mark.parametrize("size", [0, 3, 1000, 300_000])
def test_a_frame_has_a_checksum_and_no_content_size(size: int) -> None:
    text = bytes(at % 251 for at in range(size))
    made = frame(text)
    assert made[:5] == bytes.fromhex("28b52ffd04")
    assert zstandard.ZstdDecompressor().decompressobj().decompress(made) == text
    broken = bytearray(made)
    broken[-1] ^= 1
    with pytest.raises(zstandard.ZstdError):
        zstandard.ZstdDecompressor().decompressobj().decompress(bytes(broken))
