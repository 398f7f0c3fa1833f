"""Digests and folded views, against the golden cases."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tape import golden

from loopspec.tape.digest import Source, digest
from loopspec.tape.digest_policy import DigestPolicy
from loopspec.tape.fold import Subject, folded

ROWS = golden.load("f01-digest-routing")["expect"]


@pytest.mark.parametrize("row", ROWS, ids=[row["name"] for row in ROWS])
def test_digest(row: dict[str, Any]) -> None:
    assert row["policy"] == {}
    found = digest(row["input"], Source(row["source"]["tool"], row["source"].get("path")), DigestPolicy())
    assert found.body == row["output"]
    assert found.kind == row["kind"]
    assert (found.total, found.kept) == (row["totalLines"], row["keptLines"])
    assert (found.body is not None) == row["digested"]


VIEWS = golden.load("f02-fold-view")


@pytest.mark.parametrize("row", next(value for value in VIEWS.values() if isinstance(value, list)))
def test_view(row: dict[str, Any]) -> None:
    subject = Subject(row["seq"], row["turn"], row["step"], row["call"], Source(row["tool"], row.get("path")), "")
    text = row.get("spillPreview", row.get("input"))
    owned = row.get("spillPreview") is not None
    content: list[dict[str, Any]] = [{"type": "image"}, {"type": "text", "text": text}]
    shown = folded(content, subject, DigestPolicy(), lambda locator: owned and locator == "/spill/b.txt")
    assert shown == [{"type": "image"}, {"type": "text", "text": row["view"]}]
