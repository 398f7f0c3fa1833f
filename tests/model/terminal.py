"""`loopspec` at a pseudo terminal, as a command that ends, and what its files hold."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.model.wire import GUARD, Script

from loopconform.check import check_file
from loopconform.stored import load_stored

IN_PIPE = "from loopconform.cli import main; main(prog_name='loopspec')"
AT_TERMINAL = f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); {IN_PIPE}"
CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """A program that runs at a pseudo terminal, and what it has shown."""

    def __init__(self, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            (sys.executable, "-c", AT_TERMINAL, *arguments),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "NO_COLOR": "1"},
        )
        os.close(slave)
        self.shown = ""
        self._seen = 0

    def expect(self, text: str) -> None:
        """Read until this text has come, behind what was expected before."""
        while (at := self.shown.find(text, self._seen)) < 0:
            ready, _, _ = select.select([self.master], [], [], GUARD)
            assert ready, f"{text!r} did not come; shown: {self.shown!r}"
            try:
                more = os.read(self.master, 65536)
            except OSError:
                more = b""
            assert more, f"{text!r} did not come before the end; shown: {self.shown!r}"
            self.shown += more.decode("utf-8", "replace").replace("\r\n", "\n")
        self._seen = at + len(text)

    def type(self, text: str) -> None:
        """Type this."""
        os.write(self.master, text.encode())

    def hang_up(self) -> None:
        """Close the terminal."""
        os.close(self.master)
        self.master = -1

    def end(self) -> int:
        """Read on until the program ends; its exit code."""
        while self.master >= 0:
            try:
                more = os.read(self.master, 65536)
            except OSError:
                break
            if not more:
                break
            self.shown += more.decode("utf-8", "replace").replace("\r\n", "\n")
        return self.process.wait(GUARD)

    def close(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if self.master >= 0:
            os.close(self.master)


def chat(opened: list[Terminal], script: Script, *arguments: object) -> Terminal:
    """Start a conversation."""
    opened.append(Terminal("chat", "--base-url", script.url, *map(str, arguments)))
    return opened[-1]


def records(file: Path, *types: str) -> list[Any]:
    """The data of the records of a file that checks clean."""
    report = check_file(file)
    assert report.verdict == "clean", [(item.rule, item.line, item.reason) for item in report.findings]
    return [event["data"] for event in load_stored(file).events if event["type"] in types]


def loopspec(*arguments: object, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        (sys.executable, "-c", IN_PIPE, *map(str, arguments)),
        input=text,
        capture_output=True,
        text=True,
        timeout=GUARD * 2,
        check=False,
    )
