"""A stored conversation on a scripted model, its disk in memory and its clock in the test's hand."""

from __future__ import annotations

import io
import itertools
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import zstandard

from loopharness.agent import AgentOptions
from loopharness.gate import Gate
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import Response, ScriptedAdapter
from loopharness.store.container import MAGIC
from loopharness.store.container import rows as walk
from loopharness.store.files import Files
from loopharness.store.layout import Compression
from loopharness.store.memory import MemoryFiles
from loopharness.store.service import SessionPersistence
from loopharness.tools.registry import define_tool
from loopspec.log.grammar import Judge
from loopspec.profile import Profile

ROOT = Path("/sessions")
CWD = "/workspace"
MODEL = AgentOptions(provider="mock", model="m1")
LOOK = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
REAL = Path(__file__).parent.parent / "logs" / "upstream-rc8"
FIELD = Path(__file__).parent.parent / "logs" / "field-cases"
SHARED = Path(os.environ.get("LOOPSPEC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))


_ids = itertools.count(1)
"""One for all lives of all sessions: message ids are never used twice."""


class HandClock:
    """Windows end when the test says so. `asked` are the lengths of the windows that were opened."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self._open: list[anyio.Event] = []

    async def __call__(self, seconds: float) -> None:
        self.asked.append(seconds)
        event = anyio.Event()
        self._open.append(event)
        await event.wait()

    def ring(self) -> None:
        """End every window that is open."""
        for event in self._open:
            event.set()
        self._open.clear()


@asynccontextmanager
async def stored(
    files: Files,
    *script: Response,
    root: Path = ROOT,
    session_format: int = 4,
    profile: Profile = "seed",
    compression: Compression = "zstd",
    checkpoints: bool = False,
    clock: Callable[[float], Any] | None = None,
    gates: Mapping[str, Gate] | None = None,
    bodies: list[str] | None = None,
    parallel: bool = False,
    lenient: bool = False,
) -> AsyncIterator[Harness]:
    """A harness with the tool `look`, which notes `begun x` and `ended x` in `bodies` and stops at `gates[x]`."""
    persistence = SessionPersistence(
        root, compression=compression, files=files, timer=clock or HandClock(), lenient=lenient
    )
    async with open_harness(
        profile,
        session_format,
        now=lambda: 1000,
        new_id=lambda: f"id-{next(_ids)}",
        persistence=persistence,
        checkpoints=checkpoints,
    ) as harness:
        harness.llm.register_adapter(["mock"], ScriptedAdapter(script))

        async def look(arguments: dict[str, Any]) -> str:
            name = arguments["what"]
            if bodies is not None:
                bodies.append(f"begun {name}")
            if gates is not None and name in gates:
                await gates[name].enter()
            if bodies is not None:
                bodies.append(f"ended {name}")
            return f"found {name}"

        harness.tools.register(define_tool("look", "Looks.", LOOK, look, concurrent=parallel), harness.context)
        yield harness


def rows(content: bytes) -> list[dict[str, Any]]:
    """The rows of a file, without any code of ours."""
    if content[:4] == MAGIC:
        content = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True).read()
    return [json.loads(line) for line in content.split(b"\n") if line]


def log_of(files: MemoryFiles, session_id: str = "main") -> bytes:
    """The content of the one file that counts."""
    (path,) = [
        path
        for path in files.paths()
        if path.parent.name == session_id and ".jsonl" in path.name and not path.name.endswith(".tmp")
    ]
    return files.content(path)


def must_be_legal(header: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> None:
    """Every rule of the checker that is an error, on the events as they are."""
    judge = Judge()
    found = list(judge.header(dict(header)))
    for line, event in enumerate(events, start=2):
        found += judge.event(dict(event), line, 0, 0)
    found += judge.finish()
    errors = [item for item in found if item.level == "E"]
    assert not errors, errors[0]
    assert judge.event_rows == len(events)


def must_be_legal_file(content: bytes) -> None:
    """The same for the bytes of a file: whole frames or whole rows, and nothing else in it."""
    kinds = {type(item).__name__ for item in walk(io.BytesIO(content), zstd=content[:4] == MAGIC)}
    assert "Damage" not in kinds
    header, *stored_rows = rows(content)
    must_be_legal(header, stored_rows)


def types(events: Sequence[Mapping[str, Any]]) -> list[str]:
    """The event types, in order."""
    return [event["type"] for event in events]
