"""Tools at work over a real socket: the example program, and `loopspec chat --tools` with its questions."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.model.terminal import CTRL_C, Terminal, chat, loopspec, records
from tests.model.wire import GUARD, Server

from loopconform.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the example's files."""
    return Path(shutil.copytree(EXAMPLES / "workspace", tmp_path / "workspace"))


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """An answer that calls one tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def test_the_example_program(server: Server, workspace: Path) -> None:
    answers = yaml.safe_load((EXAMPLES / "mock" / "agent.yaml").read_text())["answers"]
    script = server.script(*answers)
    done = subprocess.run(
        (sys.executable, EXAMPLES / "agent.py", script.url, workspace, "What was the pressure this morning?"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GUARD * 2,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        '-> search {"pattern": "pressure [0-9.]+", "files": "*.txt"}',
        '-> delegate {"task": "Who knows about the valve?"}',
        "<- log.txt:1: 08:00 pressure 3.0",
        "log.txt:2: 09:00 pressure 3.1",
        "log.txt:3: 10:00 pressure 2.9",
        "<- Mira.",
        '-> mean {"numbers": [3.0, 3.1, 2.9]}',
        "<- 3.0",
        '-> write {"path": "report.txt", "content": "3.0"}',
        '<- Error: the user rejected tool "write"',
        "The mean pressure was 3.0 bar; Mira knows about the valve. I could not write the report.",
    ]
    assert sorted(path.name for path in workspace.iterdir()) == ["log.txt", "notes.md"]
    told = {tool["function"]["name"]: tool["function"] for tool in script.log()[0]["body"]["tools"]}
    assert told["mean"]["description"] == "Work out the mean of some numbers."
    assert told["mean"]["parameters"]["properties"]["rounded_to"]["enum"] == ["nothing", "tenths", "ones"]
    assert "delegate" not in json.dumps(script.log()[1]["body"]["tools"])


def test_a_question_is_answered_by_the_next_line_and_taken_back_by_ctrl_c(
    server: Server, file: Path, workspace: Path, terminals: list[Terminal]
) -> None:
    script = server.script(
        call("read", path="log.txt"),
        call("edit", path="log.txt", old="2.9", new="3.0"),
        call("edit", path="log.txt", old="3.1", new="3.0"),
        call("command", command="cat log.txt; echo \x1b[2J"),
        "Done.",
        call("write", path="new.txt", content="x"),
        "Here I am.",
    )
    at = chat(terminals, script, "--out", file, "--tools", workspace)
    at.expect("> ")
    at.type("Smooth it.\n")
    at.expect("<- 08:00 pressure 3.0")
    at.expect('May edit be called? {"path":"log.txt","old":"2.9","new":"3.0"}')
    at.expect("ne[v]er: ")
    at.type("perhaps\n")
    at.expect("Answer y (this once), a (always), n (no) or v (never)")
    at.type("a\n")
    at.expect("1 place")
    at.expect("1 place")
    at.expect("May command be called?")
    assert "\x1b[2J" not in at.shown
    at.expect("ne[v]er: ")
    at.type("n\n")
    at.expect('<- Error: the user rejected tool "command"')
    at.expect("Done.")
    at.expect("> ")
    at.type("Write.\n")
    at.expect("ne[v]er: ")
    at.type(CTRL_C)  # takes the question back
    at.expect("[turn ended: aborted]")
    at.expect("> ")
    at.type("y\n")
    at.expect("Here I am.")
    at.type("/quit\n")
    assert at.end() == 0
    outcomes = [data["outcome"] for data in records(file, "approval/decided")]
    assert outcomes == ["allowed-once", "rejected", "cancelled"]
    assert not (workspace / "new.txt").exists()
    assert (workspace / "log.txt").read_text().count("pressure 3.0") == 3


def test_a_command_ends_with_the_program(
    server: Server, file: Path, workspace: Path, terminals: list[Terminal]
) -> None:
    """Ctrl-C twice in the middle of a command: it is gone, and the turn is closed in the log."""
    os.mkfifo(workspace / "pid")
    script = server.script(call("command", command="echo $$ > pid; exec sleep 600"))
    at = chat(terminals, script, "--out", file, "--tools", workspace, "--allow", "comm*")
    at.expect("> ")
    at.type("Work.\n")
    at.expect("-> command")
    running = os.pidfd_open(int((workspace / "pid").read_text()))  # reading waits for the writer
    at.type(CTRL_C)
    at.expect("[cancelled")
    at.type(CTRL_C)
    assert at.end() == 128 + signal.SIGINT
    ended, _, _ = select.select([running], [], [], 30)
    assert ended, "the command outlives the program"
    os.close(running)
    assert [data.get("error", {}).get("code") for data in records(file, "tool/result")] == ["ABORTED"]


def test_without_a_terminal_nobody_is_asked(server: Server, file: Path, workspace: Path) -> None:
    script = server.script(call("write", path="new.txt", content="x"), "Well.")
    arguments = ("chat", "--base-url", script.url, "--tools", workspace, "--once", "Write.", "--out", file)
    done = loopspec(*arguments)
    assert done.returncode == 0
    assert "requires approval, but no approval channel is available" in done.stdout
    assert not (workspace / "new.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--tools", "nowhere"), "nowhere cannot be a root"),
        (("--allow", "edit"), "--allow speaks of the tools that --tools ROOT mounts"),
    ],
)
def test_options_that_cannot_be_meant(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    file = tmp_path / "x.jsonl"
    local = ("chat", "--base-url", "http://127.0.0.1:9", "--once", "a", "--out", str(file))
    done = CliRunner().invoke(main, [*local, *arguments])
    assert done.exit_code == 2
    assert text in " ".join(done.output.split())
    assert not file.exists()
