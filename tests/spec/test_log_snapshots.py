"""Format 4 by its snapshot logs: streams, surface, requests and headers of whole sessions hold together.

The snapshot logs are not part of this repository. Set LOOPSPEC_CORPUS to the folder that holds `v4-snapshots`;
without it these tests are skipped and prove nothing.
"""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loopspec import surface as surfaces
from loopspec.log.packed import chunks_of, pack_stream, unpack_stream
from loopspec.log.repair import repair
from loopspec.request import reconstruct_requests, same_header
from loopspec.stream import assemble, failure, judge_stream, settle, settle_interrupted

CORPUS = Path(os.environ.get("LOOPSPEC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "v4-snapshots"
LOGS = sorted(CORPUS.glob("*/*.jsonl"))
pytestmark = pytest.mark.skipif(not LOGS, reason="no format 4 snapshot logs; set LOOPSPEC_CORPUS to their folder")


def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Header and events, with `seq` by position and a `time` that only rises."""
    header, *rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return header, [{**row, "seq": seq, "time": seq} for seq, row in enumerate(rows)]


def streams() -> list[tuple[str, dict[str, Any]]]:
    return [
        (event["type"], event["data"])
        for path in LOGS
        for event in read(path)[1]
        if event["type"] in ("assistant/message", "assistant/attempt")
    ]


def test_every_stream_is_packed_canonically() -> None:
    """S-CHK-21, S-CHK-25"""
    found = streams()
    assert len(found) == 89
    for _, data in found:
        assert list(pack_stream(unpack_stream(data["stream"]))) == data["stream"]


def test_every_stream_settles_as_recorded() -> None:
    """S-CHK-1, S-CHK-22, S-CHK-23: messages equal their streams, attempts are failures."""
    for event_type, data in streams():
        chunks = chunks_of(data["stream"])
        cut = data.get("interrupted") is True
        assert judge_stream(chunks, cut=cut) == ()
        assembly = assemble(chunks)
        if event_type == "assistant/attempt":
            assert failure(assembly) is not None
            continue
        settled = settle_interrupted(assembly) if cut else settle(assembly)
        assert list(settled.content) == data["message"]["content"]
        assert settled.usage == data.get("usage")
        assert settled.replay_state == data["message"]["source"].get("replayState")


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_whole_session_folds(path: Path) -> None:
    """The surface is legal, one request stands behind every settlement, and no log needs repair."""
    header, events = read(path)
    surface = surfaces.fold("v4", events)
    settlements = [event["seq"] for event in events if event["type"] in ("assistant/message", "assistant/attempt")]
    rebuilt = reconstruct_requests(header, events)
    assert [one.anchor for one in rebuilt] == settlements
    for one in rebuilt:
        assert one.request["messages"][0]["role"] == "system"
        assert "system" not in one.request
        assert one.request["messages"][-1]["role"] != "assistant"
    if surface.nodes:
        assert surfaces.protected_head(surface) == surface.nodes[0]
    assert repair("v4", events) == ()


def test_a_request_extends_the_previous_one_while_its_series_lasts() -> None:
    """L-REQ-16: only a moved generation or a header row may break the prefix."""
    continued = 0
    for path in LOGS:
        header, events = read(path)
        rebuilt = reconstruct_requests(header, events)
        for earlier, later in pairwise(rebuilt):
            between = events[earlier.anchor : later.anchor]
            broken = any(
                event["type"] in ("request/header", "image/offload") or isinstance(event.get("surfaceOp"), dict)
                for event in between
            )
            before = list(earlier.request["messages"])
            if not broken:
                assert list(later.request["messages"])[: len(before)] == before
                continued += 1
    assert continued == 46


def test_series_headers_equal_the_previous_one() -> None:
    """S-REQ-5, S-REQ-23: `series` follows a moved generation and repeats the header."""
    seen = 0
    for path in LOGS:
        last: dict[str, Any] | None = None
        for event in read(path)[1]:
            if event["type"] == "request/header":
                if event["data"]["reason"] == "series":
                    assert last is not None
                    assert same_header(last, event["data"]["header"])
                    seen += 1
                last = event["data"]["header"]
    assert seen == 3
