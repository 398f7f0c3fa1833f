"""Declared verdicts: what they excuse, and what they do not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopconform.cli import main

LOGS = Path(__file__).parent / "upstream-rc8"


def check(*arguments: str) -> tuple[int, str]:
    """Run `loopspec check`; its exit code and what it printed."""
    result = CliRunner().invoke(main, ["check", *arguments])
    return result.exit_code, result.output


def test_declared_torn_logs_do_not_fail_the_run() -> None:
    """The bundled real logs are green, with the two torn ones named."""
    code, output = check(str(LOGS), "--expect", str(LOGS / "expected.yaml"))
    assert code == 0
    assert "2 torn, 2 as declared" in output


def test_without_the_declaration_they_do() -> None:
    """The same run without expectations is red."""
    assert check(str(LOGS))[0] == 1


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ("01-simple-turn.jsonl: torn", "is clean"),
        ("gone.jsonl: torn", "was not examined"),
        ("09c-torn-tail.jsonl.zstd: findings", "is torn"),
    ],
)
def test_a_stale_declaration_fails_the_run(tmp_path: Path, declared: str, words: str) -> None:
    """What was declared must come true."""
    for name in ("01-simple-turn.jsonl", "09c-torn-tail.jsonl.zstd"):
        shutil.copy(LOGS / name, tmp_path)
    (tmp_path / "expected.yaml").write_text(declared + "\n")
    code, output = check(str(tmp_path), "--expect", str(tmp_path / "expected.yaml"))
    assert code == 1
    assert words in output


@pytest.mark.parametrize("text", ["- a list", "a.jsonl: fine", "{", "a.jsonl: clean"])
def test_a_useless_file_is_refused(tmp_path: Path, text: str) -> None:
    """Wrong usage has its own exit code."""
    (tmp_path / "expected.yaml").write_text(text)
    code, output = check(str(LOGS / "01-simple-turn.jsonl"), "--expect", str(tmp_path / "expected.yaml"))
    assert code == 2
    assert "expected.yaml" in output
