"""The pytest plugin as an author of a harness uses it: in a test run of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.logs.building import find, legal, render

GOOD = render(legal(0).rows)
_ROWS = legal(0).rows
_ROWS[find(_ROWS, "turn/end")]["data"]["turn"] = 7
BAD = render(_ROWS)

TEST = """
import pytest
from pathlib import Path

def test_writes_a_session(loopspec_sessions):
    (loopspec_sessions / "one.jsonl").write_bytes({data!r})

@pytest.mark.loopspec(empty=True)
def test_writes_nothing_and_says_so(loopspec_sessions):
    assert list(loopspec_sessions.iterdir()) == []
"""


def pytest_run(folder: Path, *arguments: str) -> tuple[int, str]:
    """A test run in another process, with this plugin and no other."""
    command = [sys.executable, "-m", "pytest", "-p", "loopconform.pytest_plugin", "-q", *arguments]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def suite(folder: Path, text: str) -> Path:
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(text)
    return folder


def test_a_good_session_passes(tmp_path: Path) -> None:
    code, output = pytest_run(suite(tmp_path, TEST.format(data=GOOD)))
    assert code == 0, output
    assert "2 passed" in output


def test_a_bad_session_fails_its_test(tmp_path: Path) -> None:
    code, output = pytest_run(suite(tmp_path, TEST.format(data=BAD)))
    assert code == 1
    assert "one.jsonl: findings" in output
    assert "S-LNT-46" in output
    assert "1 error" in output


def test_no_session_is_no_success(tmp_path: Path) -> None:
    code, output = pytest_run(suite(tmp_path, "def test_nothing(loopspec_sessions):\n    pass\n"))
    assert code == 1
    assert "no session log was written" in output


def test_a_misspelt_mark_is_an_error(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.loopspec(profil='x')\ndef test_it(loopspec_sessions):\n    pass\n"
    code, output = pytest_run(suite(tmp_path, text))
    assert code == 1
    assert "knows profile and empty, not profil" in output


def test_directories_are_checked_when_the_run_is_over(tmp_path: Path) -> None:
    text = "def test_it():\n    pass\n"
    folder = suite(tmp_path, text)
    for name, data in (("good", GOOD), ("bad", BAD), ("empty", None)):
        (folder / name).mkdir()
        if data is not None:
            (folder / name / "log.jsonl").write_bytes(data)
    code, output = pytest_run(folder, "--loopspec-check", "good")
    assert code == 0, output
    assert "good: 1 session logs checked" in output
    code, output = pytest_run(folder, "--loopspec-check", "good", "--loopspec-check", "bad")
    assert code == 1
    assert "S-LNT-46" in output
    code, output = pytest_run(folder, "--loopspec-check", "empty")
    assert code == 1
    assert "nothing was examined" in output
