"""S-LNT-19 and the children of format 4: what a fork copies or adds at the cut is older than the child (S-FRK-5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.logs.building import legal, render

from loopconform.check import check_file
from loopharness.frozen import freeze
from loopharness.store.resume import fork_header, forked

CREATED = 9_000_000_000_000
"""Later than any event of the parent."""


def _child(cut: str) -> list[dict[str, Any]]:
    """A child of the legal log, forked behind the first row of this type."""
    header, *rows = legal(4).rows
    at = next(at for at, row in enumerate(rows) if row["type"] == cut)
    events = forked("v4", tuple(freeze(row) for row in rows[: at + 1]))
    made = [fork_header(header, "child", at + 1, CREATED), *events]
    copied: list[dict[str, Any]] = json.loads(json.dumps(made))
    return copied


def _times(rows: list[dict[str, Any]], root: Path) -> list[int]:
    """The lines at which S-LNT-19 finds something; nothing else may."""
    path = root / "child.jsonl"
    path.write_bytes(render(rows))
    found = check_file(path).findings
    assert {item.rule for item in found if item.level != "I"} <= {"S-LNT-19"}, found
    return [item.line for item in found if item.rule == "S-LNT-19"]


@pytest.mark.parametrize("cut", ["turn/end", "tool/call"])
def test_the_cut_has_the_time_of_the_boundary(cut: str, tmp_path: Path) -> None:
    rows = _child(cut)
    assert _times(rows, tmp_path) == []
    # the first row of the child's own must not be older than the child
    own = {"type": "their/note", "seq": len(rows) - 1, "time": rows[-1]["time"], "data": {}, "ignorable": True}
    assert _times([*rows, own], tmp_path) == [len(rows) + 1]
    assert _times([*rows, {**own, "time": CREATED}], tmp_path) == []


def test_another_early_time_is_not_excused(tmp_path: Path) -> None:
    """Closers have the time of the boundary and no other."""
    rows = _child("tool/call")
    rows[-1]["time"] += 1
    assert _times(rows, tmp_path) == [len(rows)]
