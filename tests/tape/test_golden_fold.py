"""Digests and folded views, against the golden cases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tape import golden

from loopspec.tape.digest import DigestPolicy, Source, digest

ROWS = golden.load("f01-digest-routing")["expect"]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_digest(row: dict[str, Any]) -> None:
    assert row["policy"] == {}
    found = digest(row["input"], Source(row["source"]["tool"], row["source"].get("path")), DigestPolicy())
    assert found.body == row["output"]
    assert found.kind == row["kind"]
    assert (found.total, found.kept) == (row["totalLines"], row["keptLines"])
    assert (found.body is not None) == row["digested"]
