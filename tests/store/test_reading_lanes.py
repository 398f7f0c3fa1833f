"""The short ways of the reader: a log gives the same with them as without, and the same refusal."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from tests.logs import corpus
from tests.logs.building import legal, many_turns, render
from tests.logs.test_check_rules import _spoil
from tests.store.support import FIELD, REAL

from loopharness.store import reading
from loopharness.store.errors import SessionFormatUnsupportedError, SessionPersistenceCorruptionError

Rows = list[dict[str, Any]]


def _read(content: bytes, name: str, lenient: bool) -> Any:
    try:
        return reading.read_stored(content, name, drop_bad_tail=lenient)
    except (SessionFormatUnsupportedError, SessionPersistenceCorruptionError) as error:
        return type(error), str(error)


def _order(value: Any) -> Any:
    """Types and the order of keys, which equality does not see."""
    if isinstance(value, dict):
        return type(value), [(key, _order(item)) for key, item in value.items()]
    return (type(value), [_order(item) for item in value]) if isinstance(value, tuple) else type(value)


def _same(content: bytes, name: str, patch: pytest.MonkeyPatch) -> bool:
    """Read both ways and compare; whether it was accepted."""
    for lenient in (False, True):
        quick = _read(content, name, lenient)
        with patch.context() as slow:
            slow.setattr(reading, "SHORT_WAYS", False)
            slowly = _read(content, name, lenient)
        assert quick == slowly
        assert _order(quick) == _order(slowly)
    return isinstance(quick, reading.Stored)


@pytest.mark.parametrize("mutation", corpus.mutations(), ids=lambda mutation: mutation["name"])
def test_broken_logs_are_read_alike(mutation: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    name = "session.jsonl.zstd" if corpus.is_zstd(mutation["name"]) else "session.jsonl"
    _same(corpus.body(mutation["name"]), name, monkeypatch)


def test_real_logs_and_field_cases_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [path for folder in (REAL, FIELD) for path in sorted(folder.glob("*.jsonl*"))]
    accepted = [_same(path.read_bytes(), path.name, monkeypatch) for path in found]
    assert sum(accepted) > 10


@pytest.mark.parametrize("version", [0, 4])
def test_spoiled_logs_are_read_alike(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(f"reading {version}")
    kinds = {True: 0, False: 0}
    bases: list[Rows] = [legal(version).rows, many_turns(version, 2, 3).rows]
    if version == 0:
        bases += [
            [json.loads(line) for line in path.read_bytes().splitlines()] for path in sorted(REAL.glob("*.jsonl"))
        ]
    for rows in bases:
        for _ in range(60 if version else 25):
            broken: Rows = json.loads(json.dumps(rows))
            _spoil(broken, source)
            kinds[_same(render(broken), "session.jsonl", monkeypatch)] += 1
    # both kinds in numbers, or nothing is proved
    assert min(kinds.values()) > 5


def test_the_short_ways_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly every row of an ordinary log goes the short way."""
    taken = []
    short = reading._Reading.take_plainly

    def counted(self: Any, text: bytes) -> bool:
        taken.append(short(self, text))
        return taken[-1]

    monkeypatch.setattr(reading._Reading, "take_plainly", counted)
    for version in (0, 4):
        reading.read_stored(render(many_turns(version, 2, 3).rows), "session.jsonl")
    assert sum(taken) > 0.9 * len(taken) > 20
