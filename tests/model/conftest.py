"""One mock model in a process of its own, for all tests of this directory; real sockets, nothing is patched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.model.terminal import Terminal
from tests.model.wire import Server

LOOPSPEC = (sys.executable, "-c", "from loopconform.cli import main; main()")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server, without scripts: every test puts its own."""
    with subprocess.Popen((*LOOPSPEC, "mock-model", "--control"), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            served = Server(process.stdout.readline().strip())
            yield served
            served.client.close()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The two backends that the adapter promises to run on."""
    return str(request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a conversation is written."""
    return tmp_path / "chat.jsonl"


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Terminals that are closed at the end, whatever happened."""
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        terminal.close()
