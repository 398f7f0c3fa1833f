"""Every rule of the checker is needed: without it, some broken log passes that it should name."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.logs import corpus
from tests.logs.bad import CASES
from tests.logs.building import legal, render

from loopconform.catalogue import markdown, rule_entries
from loopconform.check import Options, check_file, run
from loopconform.reader import ReadRow, read
from loopspec.log.grammar import Judge
from loopspec.log.rule import Violation

ROOT = Path(__file__).parents[2]


def _oversized(root: Path) -> Path:
    rows = legal(0).rows
    rows[1]["data"]["inserted"][0]["content"][0]["text"] = "x" * 5000
    path = root / "large.jsonl"
    path.write_bytes(render(rows))
    return path


def _field(name: str) -> Callable[[Path], Path]:
    return lambda root: corpus.FIELD / name


def _made(name: str) -> Callable[[Path], Path]:
    def write(root: Path) -> Path:
        path = root / "bad.jsonl"
        path.write_bytes(render(CASES[name]().rows))
        return path

    return write


def _mutated(mutation: dict[str, Any]) -> Callable[[Path], Path]:
    return lambda root: corpus.write(mutation, root)


KILLERS: dict[str, Callable[[Path], Path]] = {
    **{rule: _mutated(item) for item in reversed(corpus.mutations()) for rule in item["expect"]},
    **{make().rule: _made(name) for name, make in CASES.items()},
    "S-LNT-75": _field("K15-sibling-cancelled-in-live-turn.bad.v0.jsonl"),
    "S-LNT-109": _oversized,
}
"""For each rule one log that only this rule keeps from passing as it should."""
COMPARED = {"S-LNT-84", "S-LNT-91"}
"""Rules that need a second file; they have tests of their own below."""
NOT_KILLED: set[str] = set()
"""Rules that no input of ours reaches. Keep this empty."""


@pytest.mark.parametrize("rule", [entry.id for entry in rule_entries() if entry.id not in COMPARED])
def test_a_rule_is_missed_when_it_is_switched_off(rule: str, tmp_path: Path) -> None:
    if rule in NOT_KILLED:
        pytest.fail(f"{rule} has no killing input")
    path = KILLERS[rule](tmp_path)
    limit = 4096
    full = check_file(path, Options(row_limit=limit) if rule == "S-LNT-109" else Options())
    assert rule in {found.rule for found in full.findings}
    without = Options(disabled=frozenset({rule}), row_limit=limit if rule == "S-LNT-109" else Options().row_limit)
    assert rule not in {found.rule for found in check_file(path, without).findings}


def test_the_list_is_complete() -> None:
    numbers = [int(entry.id.removeprefix("S-LNT-")) for entry in rule_entries()]
    assert numbers == [*range(1, 110)]
    assert {entry.id for entry in rule_entries()} == set(KILLERS) | COMPARED | NOT_KILLED


def test_the_documented_list_is_the_real_one() -> None:
    path = ROOT / "spec/loopspec/log/RULES.md"
    assert path.read_text("utf-8") == markdown(), "run: python -m loopconform.catalogue > spec/loopspec/log/RULES.md"


# -- rules with a second file ------------------------------------------------------------------------------------

SCENARIOS = sorted(path.name.removesuffix(".requests.json") for path in corpus.REAL.glob("*.requests.json"))


def _log_of(scenario: str) -> Path:
    child = corpus.REAL / f"{scenario}.10-fork-child.jsonl"
    return child if child.exists() else corpus.REAL / f"{scenario}.jsonl"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rebuilt_requests_equal_captured_ones(scenario: str, tmp_path: Path) -> None:
    captured = corpus.REAL / f"{scenario}.requests.json"
    assert run([_log_of(scenario)], requests=captured).exit_code() == 0
    changed = json.loads(captured.read_bytes())
    loops = [item for item in changed if "purpose" not in item]
    loops[-1]["messages"][0]["content"] = [{"type": "text", "text": "something else"}]
    other = tmp_path / "requests.json"
    other.write_text(json.dumps(changed))
    report = run([_log_of(scenario)], requests=other)
    assert report.exit_code() == 1
    assert [found.rule for found in report.files[0].findings if found.level == "E"] == ["S-LNT-84"]
    assert "$.messages[0].content" in report.files[0].findings[-1].reason
    disabled = Options(disabled=frozenset({"S-LNT-84"}))
    assert run([_log_of(scenario)], disabled, requests=other).exit_code() == 0


def test_a_missing_captured_request_is_found(tmp_path: Path) -> None:
    captured = json.loads((corpus.REAL / "03-tools-parallel.requests.json").read_bytes())
    other = tmp_path / "requests.json"
    other.write_text(json.dumps(captured[:-1]))
    assert run([corpus.REAL / "03-tools-parallel.jsonl"], requests=other).exit_code() == 1


def test_inherited_rows_equal_the_parents(tmp_path: Path) -> None:
    for side in ("parent", "child"):
        name = f"10-fork.10-fork-{side}.jsonl"
        (tmp_path / name).write_bytes((corpus.REAL / name).read_bytes())
    assert run([tmp_path]).exit_code() == 0
    child = tmp_path / "10-fork.10-fork-child.jsonl"
    child.write_bytes(child.read_bytes().replace(b'"seq":0,"time":1', b'"seq":0,"time":2', 1))
    report = run([tmp_path])
    found = [item for file in report.files for item in file.findings if item.level == "E"]
    assert [(item.rule, item.line) for item in found] == [("S-LNT-91", 2)]
    assert run([tmp_path], Options(disabled=frozenset({"S-LNT-91"}))).exit_code() == 0


# -- the short ways give the same findings -----------------------------------------------------------------------


def _judged(path: Path, *, lanes: bool, snapshot: bool = False) -> list[Violation]:
    judge = Judge(lanes=lanes, snapshot=snapshot)
    found: list[Violation] = []
    for item in read(path):
        if not isinstance(item, ReadRow):
            found += judge.damage(item)
        elif item.value is None:
            judge.lost_row(item.line)
        elif item.line == 1:
            found += judge.header(item.value)
        elif judge.supported:
            found += judge.event(item.value, item.line, item.frame, item.offset)
    return [*found, *judge.finish()]


def _logs() -> list[Path]:
    return sorted([*corpus.REAL.glob("*.jsonl"), *corpus.FIELD.glob("*.jsonl")])


@pytest.mark.parametrize("path", _logs(), ids=lambda path: path.name)
def test_short_ways_change_nothing(path: Path, tmp_path: Path) -> None:
    assert _judged(path, lanes=True) == _judged(path, lanes=False)
    rows = [json.loads(line) for line in corpus.unpacked(path)] if "K24" not in path.name else []
    source = random.Random(path.name)
    for _ in range(6 if rows else 0):
        broken = json.loads(json.dumps(rows))
        _spoil(broken, source)
        other = tmp_path / "broken.jsonl"
        other.write_bytes(render(broken))
        assert _judged(other, lanes=True) == _judged(other, lanes=False)


def test_short_ways_change_nothing_for_broken_logs(tmp_path: Path) -> None:
    for at, mutation in enumerate(corpus.mutations()):
        path = corpus.write(mutation, tmp_path / str(at))
        assert _judged(path, lanes=True) == _judged(path, lanes=False), mutation["name"]
    for name, make in CASES.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(render(make().rows))
        assert _judged(path, lanes=True) == _judged(path, lanes=False), name


_VALUES: list[Any] = [None, True, 0, -1, 1.5, 2**60, "", "x", [], {}, [1], {"type": "text"}]


def _spoil(rows: list[Any], source: random.Random) -> None:
    """Change one value anywhere, drop one key, or move, drop or repeat one row."""
    choice = source.random()
    at = source.randrange(1, len(rows))
    if choice < 0.1:
        rows.insert(source.randrange(1, len(rows)), rows.pop(at))
    elif choice < 0.2:
        rows.pop(at)
    elif choice < 0.3:
        rows.insert(at, rows[at])
    else:
        here: Any = rows[at]
        while True:
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            key = source.choice(keys)
            if isinstance(here[key], dict | list) and here[key] and source.random() < 0.8:
                here = here[key]
                continue
            if source.random() < 0.2:
                del here[key]
            else:
                here[key] = source.choice(_VALUES)
            return


@pytest.mark.parametrize("version", [0, 4])
def test_no_spoiled_log_makes_the_rules_fail(version: int, tmp_path: Path) -> None:
    """Any value anywhere: findings or none, never an exception."""
    source = random.Random(version)
    path = tmp_path / "spoiled.jsonl"
    names = [name for name in CASES if name.startswith("v4") == (version == 4)]
    for turn in range(300):
        rows = json.loads(json.dumps((legal(version) if turn % 2 else CASES[source.choice(names)]()).rows))
        for _ in range(source.randrange(1, 4)):
            _spoil(rows, source)
        path.write_bytes(render(rows))
        check_file(path)
        assert _judged(path, lanes=True) == _judged(path, lanes=False)
