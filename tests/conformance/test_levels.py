"""The levels below L2 on the command line: the verdicts of the suite, its exit codes and its reports."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopconform.cli import main

LOGS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
CLEAN = next(path for path in sorted(LOGS.rglob("*.jsonl*")) if "torn" not in path.name)
TORN = LOGS / "09c-torn-tail.jsonl.zstd"


def conform(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["conform", *map(str, arguments)])
    return done.exit_code, done.output


def test_a_sound_log_passes_and_a_torn_one_fails(tmp_path: Path) -> None:
    shutil.copy(CLEAN, tmp_path)
    assert conform("logs", tmp_path, "--profile", "dsh-0.1")[0] == 0
    shutil.copy(TORN, tmp_path)
    code, output = conform("logs", tmp_path, "--profile", "dsh-0.1", "--format", "json")
    report = json.loads(output)
    assert code == report["exitCode"] == 1
    assert (report["summary"]["PASS"], report["summary"]["FAIL"], report["wanted"]) == (1, 1, 2)
    (failed,) = [result for result in report["results"] if result["verdict"] == "FAIL"]
    assert (failed["level"], failed["reason"]) == ("L0", "torn")


def test_a_rule_that_a_log_breaks_is_the_clause(tmp_path: Path) -> None:
    rows = [{"kind": "header", "version": 0, "id": "a", "createdAt": 0}, {"type": "turn/end", "seq": 5, "time": 0}]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, output = conform("logs", tmp_path, "--format", "json")
    (result,) = json.loads(output)["results"]
    assert (code, result["verdict"]) == (1, "FAIL")
    assert result["fault"]["clause"].startswith("S-")


def test_nothing_to_judge_is_no_success(tmp_path: Path) -> None:
    assert conform("logs", tmp_path)[0] == 2


def test_an_agent_that_does_nothing_is_no_verdict() -> None:
    code, output = conform("agent", "--start", "true", "--format", "json")
    verdicts = {result["verdict"] for result in json.loads(output)["results"]}
    assert (code, verdicts) == (2, {"ADAPTER_ERROR", "NOT_IMPLEMENTED"})


@pytest.mark.parametrize("command", ["'", "true {url"])
def test_a_command_that_cannot_be_used_says_so(command: str) -> None:
    assert conform("agent", "--start", command)[0] in (2,)
