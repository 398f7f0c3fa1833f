"""`loopspec check` from outside: exit codes, reports for machines, and that nothing ends in a stack trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result
from tests.logs import corpus
from tests.logs.building import legal, render

from loopconform import cli
from loopconform.cli import main

GOOD = corpus.REAL / "01-simple-turn.jsonl"
BAD = corpus.FIELD / "K19-forgotten-call.bad.v0.jsonl"
OPEN = corpus.REAL / "09a-crash-before-repair.jsonl"
TORN = corpus.REAL / "09e-torn-multi-frame.jsonl.zstd"


def loopspec(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((GOOD,), 0),
        ((OPEN,), 0),
        ((OPEN, "--strict"), 1),
        ((BAD,), 1),
        ((TORN,), 1),
        ((GOOD, "gone.jsonl"), 2),
        ((BAD, "gone.jsonl"), 1),
        ((GOOD, "--profile", "nonsense"), 2),
        ((GOOD, "--requests", "gone.json"), 2),
        ((GOOD, "--format", "yaml"), 2),
        (("-t", "5", GOOD), 2),
        ((), 2),
    ],
)
def test_exit_codes(args: tuple[object, ...], code: int) -> None:
    result = loopspec("check", *args)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output


def test_undecided(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    rows = legal(0).rows
    rows[1]["data"]["inserted"][0]["content"][0]["text"] = "x" * (1024 * 1024)
    path.write_bytes(render(rows))
    assert loopspec("check", path, "--max-row", 1).exit_code == 3
    assert loopspec("check", path).exit_code == 0
    assert loopspec("check", path, BAD, "--max-row", 1).exit_code == 1


def test_nothing_examined_is_no_success(tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("remember the milk\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (notes, empty, tmp_path / "*.nothing"):
        for style in ("text", "json", "junit", "sarif"):
            result = loopspec("check", path, "--format", style)
            assert result.exit_code == 2
        assert "Nothing was examined." in loopspec("check", path).output


def test_a_log_under_another_name_is_examined(tmp_path: Path) -> None:
    path = tmp_path / "session.txt"
    path.write_bytes(GOOD.read_bytes())
    assert loopspec("check", path).exit_code == 0


def test_the_text_names_file_line_rule_reason_and_legal(tmp_path: Path) -> None:
    output = loopspec("check", BAD).output
    assert f"{BAD}:26 (seq 24): error S-LNT-44" in output
    assert "Never answered: c2, c3." in output
    assert "turn/start comes only when no turn is open." in output
    assert "legal: turn/end of turn 1 first" in output
    assert "0 of 1 file clean (1 with errors)." in output


def test_the_summary_counts(tmp_path: Path) -> None:
    arguments = ["check", *map(str, (GOOD, OPEN, BAD, TORN))]
    output = CliRunner().invoke(main, arguments, env={"COLUMNS": "160"}).output
    assert "1 of 4 files clean (1 with warnings, 1 with errors, 1 torn)." in output
    assert "torn, 23 kept" in output


def test_unknown_commands_name_the_nearest() -> None:
    result = loopspec("chek", "x")
    assert result.exit_code == 2
    assert "Did you mean check" in result.output


def test_an_unexpected_exception_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the moon is full")

    monkeypatch.setattr("loopconform.commands.check.run", fail)
    result = loopspec("check", GOOD)
    assert result.exit_code == cli.EXIT_CRASH
    assert "the moon is full" in result.output
    assert "--debug" in result.output
    assert "Traceback" not in result.output
    assert "Traceback" in loopspec("--debug", "check", GOOD).output


def test_every_command_has_its_module() -> None:
    result = loopspec("--help")
    assert result.exit_code == 0
    for name in cli.COMMANDS:
        assert name in result.output
        assert loopspec(name, "--help").exit_code == 0


# -- reports for machines ----------------------------------------------------------------------------------------


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with everything that report formats stumble over."""
    root = tmp_path / "a b#c"
    root.mkdir()
    (root / "zero.jsonl").write_bytes(b"")
    (root / "good.jsonl").write_bytes(GOOD.read_bytes())
    (root / "torn.jsonl.zstd").write_bytes(TORN.read_bytes())
    (root / "fork.jsonl.zstd").write_bytes((corpus.FIELD / "K21-two-processes.bad.v0.jsonl.zstd").read_bytes())
    rows = legal(0).rows
    rows[0]["agentPreset"] = ""
    rows[0]["note\0]]>\ud800"[:9]] = 1
    (root / "header.jsonl").write_bytes(json.dumps(rows[0]).encode() + b"\n" + render(rows[1:]))
    many = legal(0).rows
    last = len(many) - 1
    note = {"id": "n", "role": "user", "content": [], "source": {"kind": "note\0]]>"}}
    many += [
        {"type": "user/message", "seq": last + at, "time": 5000, "data": note, "surfaceOp": "append"}
        for at in range(10_000)
    ]
    (root / "many.jsonl").write_bytes(render(many))
    monkeypatch.chdir(tmp_path)
    return Path(root.name)


def test_sarif(strange: Path) -> None:
    result = loopspec("check", strange, "--format", "sarif")
    assert result.exit_code == 1
    document: dict[str, Any] = json.loads(result.output)
    assert document["version"] == "2.1.0"
    run = document["runs"][0]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len(rules) == len(set(rules))
    assert len(run["results"]) > 10_000
    uris = set()
    for item in run["results"]:
        assert rules[item["ruleIndex"]] == item["ruleId"]
        assert item["level"] in ("none", "note", "warning", "error")
        assert item["message"]["text"]
        physical = item["locations"][0]["physicalLocation"]
        uris.add(physical["artifactLocation"]["uri"])
        region = physical.get("region")
        if region is not None:
            assert region["startLine"] >= 1
            assert region.get("startColumn", 1) >= 1
    assert uris == {
        f"a%20b%23c/{name}"
        for name in ("zero.jsonl", "torn.jsonl.zstd", "fork.jsonl.zstd", "header.jsonl", "many.jsonl")
    }
    zero = [item for item in run["results"] if "zero.jsonl" in json.dumps(item)]
    assert all("region" not in item["locations"][0]["physicalLocation"] for item in zero)
    assert "\0" not in result.output


def test_junit(strange: Path) -> None:
    result = loopspec("check", strange, "--format", "junit")
    assert result.exit_code == 1
    suite = ElementTree.fromstring(result.output).find("testsuite")
    assert suite is not None
    assert suite.get("tests") == "6"
    assert suite.get("failures") == "5"
    assert len(suite.findall("testcase/failure")) == 5


def test_json(strange: Path) -> None:
    result = loopspec("check", strange, "--format", "json")
    document = json.loads(result.output)
    assert document["exitCode"] == result.exit_code == 1
    assert document["summary"]["files"] == 6
    verdicts = {Path(item["file"]).name: item["verdict"] for item in document["files"]}
    assert verdicts["torn.jsonl.zstd"] == "torn"
    assert verdicts["good.jsonl"] == "clean"
    assert verdicts["zero.jsonl"] == "findings"


def test_text_of_strange_names_and_values(strange: Path) -> None:
    result = loopspec("check", strange)
    assert result.exit_code == 1
    assert "\0" not in result.output
    assert "more in" in result.output


@pytest.mark.parametrize("style", ["json", "junit", "sarif"])
def test_a_clean_run_still_has_a_report(style: str, tmp_path: Path) -> None:
    target = tmp_path / "report"
    assert loopspec("check", GOOD, "--format", style, "--output", target).exit_code == 0
    content = target.read_text("utf-8")
    if style == "junit":
        assert ElementTree.fromstring(content).find("testsuite/testcase/failure") is None
    elif style == "sarif":
        assert json.loads(content)["runs"][0]["results"] == []
    else:
        assert json.loads(content)["exitCode"] == 0
    assert loopspec("check", GOOD, "--format", style, "--output", tmp_path / "no" / "where").exit_code == 2
