"""The golden cases: how to read one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "tape-golden"


def ids(group: str) -> list[str]:
    """The ids of the cases of a group, as the index lists them."""
    return [case["id"] for case in index() if case["group"] == group]


def index() -> list[dict[str, Any]]:
    """The rows of the index."""
    rows: list[dict[str, Any]] = json.loads((FOLDER / "index.json").read_text())["cases"]
    return rows


def load(id: str) -> dict[str, Any]:
    """One case. Lone surrogates are written as escapes in the files and come back as such."""
    case: dict[str, Any] = json.loads((FOLDER / f"{id}.json").read_text())
    return case


def quirky(id: str) -> bool:
    """Whether the case shows a defect of the original."""
    return any(case["id"] == id and case["upstreamQuirk"] for case in index())
