"""The runtime-context snapshot: its text, when it is due, and what counts as still visible."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from loopspec import surface as surfaces
from loopspec.context import (
    CLEARED,
    HEAD,
    NEVER,
    NONE_RETAINED,
    OWNER_PLUGIN,
    Retained,
    candidate,
    observe,
    restore,
    snapshot_text,
)
from loopspec.log.types import Dialect

A, B, BLANK = ({"name": name, "text": text} for name, text in (("a", "Alpha."), ("b", "Beta."), ("c", "")))
TEXT = "Current runtime context. This snapshot supersedes earlier runtime-context snapshots.\n\nAlpha.\n\nBeta."
CLEARED_TEXT = "Current runtime context: none. Earlier runtime-context snapshots no longer apply."
V0_SOURCE = {"kind": "plugin", "plugin": "@deepseek-ai/dsh-system-prompt"}
V4_SOURCE = {"kind": "runtime-context"}


def user(seq: int, source: dict[str, Any], *texts: str, **extra: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text} for text in texts]
    data = {"id": f"m{seq}", "role": "user", "content": content, "source": source}
    return {"type": "user/message", "seq": seq, "time": 0, "data": data, "surfaceOp": "append", **extra}


def test_the_text() -> None:
    """L-CTX-1"""
    assert snapshot_text([A, BLANK, B]) == TEXT
    assert snapshot_text([BLANK]) is None
    assert snapshot_text([]) is None
    assert CLEARED == CLEARED_TEXT


@pytest.mark.parametrize(
    ("retained", "sections", "text"),
    [
        (NEVER, [], None),
        (NEVER, [BLANK], None),
        (NEVER, [A, B], TEXT),
        (NONE_RETAINED, [], CLEARED_TEXT),
        (NONE_RETAINED, [A, B], TEXT),
        (Retained("retained", 3, TEXT), [A, BLANK, B], None),
        (Retained("retained", 3, TEXT), [B, A], f"{HEAD}\n\nBeta.\n\nAlpha."),
        (Retained("retained", 3, TEXT), [], CLEARED_TEXT),
        (Retained("retained", 3, CLEARED_TEXT), [], None),
        (Retained("retained", 3, CLEARED_TEXT), [A, B], TEXT),
        (Retained("retained", 3, None), [A, B], TEXT),
        (Retained("retained", 3, None), [], CLEARED_TEXT),
    ],
)
def test_when_a_candidate_is_due(retained: Retained, sections: list[Any], text: str | None) -> None:
    """L-CTX-2, L-CTX-4"""
    found = candidate("v4", retained, sections)
    assert (None if found is None else found.text) == text


@pytest.mark.parametrize(("dialect", "source"), [("v0", V0_SOURCE), ("v4", V4_SOURCE)])
def test_the_source(dialect: Dialect, source: dict[str, Any]) -> None:
    """L-CTX-3: the cleared marker has neither form nor sections; empty contexts are not listed."""
    due = candidate(dialect, NEVER, [A, BLANK, B])
    assert due is not None
    assert {**due.source, "sections": list(due.source["sections"])} == {
        **source,
        "form": "snapshot",
        "sections": [A, B],
    }
    cleared = candidate(dialect, NONE_RETAINED, [])
    assert cleared is not None
    assert cleared.source == source
    assert V0_SOURCE["plugin"] == OWNER_PLUGIN


def test_a_logged_snapshot_is_retained() -> None:
    assert observe("v0", NEVER, user(4, V0_SOURCE, TEXT), 4) == Retained("retained", 4, TEXT)
    assert observe("v4", NEVER, user(4, V4_SOURCE, TEXT), 4) == Retained("retained", 4, TEXT)


@pytest.mark.parametrize("texts", [(), ("a", "b")])
def test_a_snapshot_that_is_not_one_text_block_equals_none(texts: tuple[str, ...]) -> None:
    assert observe("v4", NEVER, user(4, V4_SOURCE, *texts), 4) == Retained("retained", 4, None)


@pytest.mark.parametrize(
    ("dialect", "event"),
    [
        ("v0", user(4, V4_SOURCE, TEXT)),
        ("v4", user(4, V0_SOURCE, TEXT)),
        ("v0", user(4, {"kind": "plugin", "plugin": "other"}, TEXT)),
        ("v4", user(4, {"kind": "user"}, TEXT)),
        ("v4", {"type": "turn/start", "seq": 4, "time": 0, "data": {"turn": 1}}),
    ],
)
def test_other_events_are_not_snapshots(dialect: Dialect, event: dict[str, Any]) -> None:
    held = Retained("retained", 2, TEXT)
    assert observe(dialect, NEVER, event, 4) == NEVER
    assert observe(dialect, held, event, 4) == held


def test_a_replacement_that_cites_it_hides_it() -> None:
    """L-CTX-4; citing without replacing does not."""
    held = Retained("retained", 2, TEXT)
    operation = {"op": "replace", "startSeq": 1, "endSeq": 3}
    hiding = user(4, {"kind": "user"}, "x", surfaceOp=operation, sourceEventSeqs=[1, 2, 3])
    assert observe("v4", held, hiding, 4) == NONE_RETAINED
    assert observe("v4", held, {**hiding, "sourceEventSeqs": [1, 3]}, 4) == held
    assert observe("v4", held, {**hiding, "surfaceOp": "append"}, 4) == held
    assert observe("v4", NEVER, hiding, 4) == NEVER


def test_restoring() -> None:
    """L-CTX-5: the newest snapshot still on the surface, and else whether there ever was one."""
    first, second = user(0, V4_SOURCE, "one"), user(1, V4_SOURCE, "two")
    operation = {"op": "replace", "startSeq": 1, "endSeq": 1}
    hiding = user(2, {"kind": "user"}, "x", surfaceOp=operation, sourceEventSeqs=[1])
    other = user(0, {"kind": "user"}, "x")
    hiding_first = {**hiding, "surfaceOp": {"op": "replace", "startSeq": 0, "endSeq": 1}, "sourceEventSeqs": [0, 1]}
    for events, expected in (
        ([], NEVER),
        ([other], NEVER),
        ([first, second], Retained("retained", 1, "two")),
        ([first, second, hiding], Retained("retained", 0, "one")),
        ([first, second, hiding_first], NONE_RETAINED),
    ):
        assert restore(surfaces.fold("v4", events), events) == expected


def snapshots() -> list[tuple[str, dict[str, Any]]]:
    root = Path(os.environ.get("LOOPSPEC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
    found = []
    for path in sorted((root / "v4-snapshots").glob("*/*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            row = json.loads(line)
            if row["type"] == "user/message" and row["data"]["source"].get("form") == "snapshot":
                found.append((f"{path.parent.name}/{path.stem}", row["data"]))
    return found


def test_real_snapshots_have_this_text() -> None:
    found = snapshots()
    if not found:
        pytest.skip("the format 4 snapshot logs are not here; set LOOPSPEC_CORPUS to the folder above them")
    for name, message in found:
        due = candidate("v4", NEVER, message["source"]["sections"])
        assert due is not None
        assert (name, [{"type": "text", "text": due.text}]) == (name, message["content"])
        assert {**due.source, "sections": list(due.source["sections"])} == message["source"]
