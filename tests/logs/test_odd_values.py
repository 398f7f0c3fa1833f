"""Whatever stands in whatever place of a log, the check answers: no value of a row makes it fail."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.logs import corpus
from tests.logs.bad import CASES
from tests.logs.building import Rows, render

from loopconform.check import check_file

Way = tuple[str | int, ...]
GONE = object()
"""Stands for no value at all."""


def logs() -> Iterator[Rows]:
    """Logs that hold every kind of row that the rules look at, in both formats."""
    for made in CASES.values():
        yield made().rows
    for path in sorted(corpus.REAL.glob("*.jsonl")):
        yield [json.loads(line) for line in path.read_bytes().splitlines()]


def places(value: Any, path: Way = ()) -> Iterator[Way]:
    """The ways to every value in a row; of an array, its first two elements."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*path, key))


def odd(value: Any) -> Iterator[Rows]:
    """Every log with this value, or without one, in one place, each place of each kind of row once."""
    seen = set()
    for rows in logs():
        for at, row in enumerate(rows):
            for path in places(row):
                kind = (rows[0].get("version"), row["type"], tuple("*" if type(key) is int else key for key in path))
                if kind in seen:
                    continue
                seen.add(kind)
                changed = copy.deepcopy(row)
                holder: Any = changed
                for key in path[:-1]:
                    holder = holder[key]
                if value is GONE:
                    del holder[path[-1]]
                else:
                    holder[path[-1]] = value
                yield [*rows[:at], changed, *rows[at + 1 :]]


@pytest.mark.parametrize("value", [["x"], None, GONE], ids=["an array", "null", "nothing"])
def test_no_value_makes_the_check_fail(value: Any, tmp_path: Path) -> None:
    """An array cannot be looked up in a table; null is no message, no record and no name; a claim
    that removes nothing is no claim."""
    path = tmp_path / "log.jsonl"
    count = 0
    for rows in odd(value):
        path.write_bytes(render(rows))
        check_file(path)
        count += 1
    assert count > 700
