"""The short way to a shape never says yes where the model of the type, or a rule about messages, says no."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.logs import corpus
from tests.logs.building import Rows, legal, many_turns
from tests.logs.test_check_rules import _spoil

from loopspec.log import plain, v0, v4
from loopspec.log.grammar import RULES, Judge, row_of
from loopspec.log.looking import prepare
from loopspec.log.state import Log

_MODELS = {0: v0.validate_data, 4: v4.validate_data}


def _rows(version: int) -> list[Rows]:
    made = [legal(version).rows, many_turns(version, 2, 3).rows]
    if version == 0:
        for path in sorted(corpus.REAL.glob("*.jsonl")):
            made.append([json.loads(line) for line in corpus.unpacked(path)])
    return made


def _says_nothing(version: int, row: dict[str, Any]) -> bool:
    """Neither the model nor any implied rule finds a fault."""
    if _MODELS[version](row["type"], row["data"]):
        return False
    log = Log({"version": version}, version)
    seen = row_of(log, row, 2, 0)
    prepare(log, seen)
    return not any(
        rule.check(log, seen)
        for rule in RULES
        if rule.id in plain.IMPLIED and row["type"] in rule.on and version in rule.formats
    )


@pytest.mark.parametrize("version", [0, 4])
def test_plain_is_never_wrong(version: int) -> None:
    source = random.Random(f"plain {version}")
    plainly = {"legal": 0, "spoiled": 0}
    for rows in _rows(version):
        for row in rows[1:]:
            if plain.is_plain(version, row["type"], row["data"]):
                plainly["legal"] += 1
                assert _says_nothing(version, row), row
        for _ in range(60):
            broken = json.loads(json.dumps(rows))
            for _ in range(source.randrange(1, 4)):
                _spoil(broken, source)
            for row in broken[1:]:
                if row in rows or not isinstance(row.get("type"), str) or not isinstance(row.get("data"), dict):
                    continue
                if row["type"] in plain.CHECKS[version] and plain.is_plain(version, row["type"], row["data"]):
                    plainly["spoiled"] += 1
                    assert _says_nothing(version, row), row
    # the test sees both kinds of rows in numbers, or it proves nothing
    assert plainly["legal"] > 30
    assert plainly["spoiled"] > 30


@pytest.mark.parametrize("version", [0, 4])
def test_frequent_rows_are_plain(version: int) -> None:
    """The short way is taken: nearly every row of an ordinary log is plain."""
    rows = [row for row in legal(version).rows[1:] if row["type"] in plain.CHECKS[version]]
    assert all(plain.is_plain(version, row["type"], row["data"]) for row in rows)
    judge = Judge()
    judge.header(legal(version).rows[0])
    assert judge.supported
