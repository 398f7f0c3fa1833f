"""Runs an agent on a scenario: a model server on this machine, one process for each thing that is said."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc

from loopconform.black_box.scenario import Scenario
from loopharness.model.mock_server.server import MockServer

SAID = 2000
"""Bytes of an agent's output that are kept, from the end."""


class Command(NamedTuple):
    """How the agent is started: a command line with `{url}`, `{say}` and `{log}` in it. `again` goes on with a log."""

    first: str
    again: str = ""


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word


class Seen(NamedTuple):
    """What came of it: the requests of all lives in order, the log file if there is one, and how each life ended.

    `ends`: exit codes, or `None` for a life that took too long. `output`: the end of what the last life printed.
    """

    requests: tuple[Mapping[str, Any], ...]
    log: Path | None
    ends: tuple[int | None, ...]
    output: str


async def drive(scenario: Scenario, command: Command, folder: Path, limit: float) -> Seen:
    """Run every life of a scenario, `limit` seconds each. The agent may write one log file into `folder`.

    Raises `OSError` when the command cannot be started, and `ValueError` for one that cannot be split into words.
    """
    starts = [shlex.split(command.again if number else command.first) for number in range(len(scenario.say))]
    requests: list[Mapping[str, Any]] = []

    def note(record: dict[str, Any]) -> None:
        if record["event"] == "request":
            requests.append(record["body"])

    server = MockServer({scenario.id: (scenario.model, folder)}, note)
    ends: list[int | None] = []
    output = ""
    failure: OSError | None = None
    async with anyio.create_task_group() as group:
        listener, url = await server.listen()
        group.start_soon(server.serve, listener)
        for start, say in zip(starts, scenario.say, strict=True):
            log = _log_in(folder) or folder / "log.jsonl"
            values = {"url": url, "say": say, "log": str(log)}
            try:
                end, output = await _live([_filled(word, values) for word in start], folder, limit)
            except OSError as error:
                failure = error
                break
            ends.append(end)
            if end is None:
                break
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return Seen(tuple(requests), _log_in(folder), tuple(ends), output)


def _log_in(folder: Path) -> Path | None:
    """The session log that the agent has written, wherever below the folder."""
    found = sorted(path for path in folder.rglob("*") if path.name.endswith((".jsonl", ".jsonl.zstd")))
    return found[0] if found else None


async def _live(words: Sequence[str], folder: Path, limit: float) -> tuple[int | None, str]:
    """One life: its exit code, or `None` when it was ended because it took too long, and what it printed."""
    environment = {**os.environ, "DEEPSEEK_API_KEY": "conformance", "NO_COLOR": "1"}
    with tempfile.TemporaryFile() as printed:
        process = await anyio.open_process(
            list(words),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
        end: int | None = None
        try:
            with anyio.move_on_after(limit):
                end = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                with anyio.CancelScope(shield=True):
                    await process.wait()
        size = printed.seek(0, os.SEEK_END)
        printed.seek(max(0, size - SAID))
        return end, printed.read().decode("utf-8", "replace")
