"""The tutorial is true: its files are written, its commands are run, and they say what it says they do."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopconform.cli import main

TUTORIAL = Path("conformance/TUTORIAL.md")
BLOCK = re.compile(r"^```(\w+)(?: title=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def part(title: str) -> list[tuple[str, str, str]]:
    """The code blocks of a chapter: language, file, text."""
    chapter = TUTORIAL.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    return BLOCK.findall(chapter)


def run(command: str) -> str:
    """What a command of the tutorial prints. `loopspec` runs in this process."""
    words = shlex.split(command)
    if words[0] == "loopspec":
        return CliRunner().invoke(main, words[1:]).output
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout


def follow(blocks: list[tuple[str, str, str]]) -> int:
    """Do what the blocks say, here; the number of commands that were run."""
    commands = 0
    for language, file, text in blocks:
        if file:
            Path(file).write_text(text)
            continue
        assert language == "console"
        for one in text.split("$ ")[1:]:
            command, *said = one.strip().splitlines()
            printed = run(command.replace('"python ', f'"{sys.executable} '))
            for line in said:
                assert line in printed, f"{command}\n{printed}"
            commands += 1
    return commands


def test_the_python_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = part("Python")
    monkeypatch.chdir(tmp_path)
    assert follow(blocks) == 5


@pytest.mark.skipif(shutil.which("node") is None, reason="the JavaScript part needs Node.js")
def test_the_javascript_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = part("JavaScript")
    monkeypatch.chdir(tmp_path)
    assert follow(blocks) == 1
