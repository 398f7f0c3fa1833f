"""The storage of a world: the harness's own, on a file system in memory that outlives a crash of the world."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

import anyio.lowlevel

from loopconform.adapters.python_reference.gates import Gates
from loopharness.frozen import freeze
from loopharness.store.errors import AppendFailedError
from loopharness.store.handle import Handle
from loopharness.store.layout import Layout
from loopharness.store.log_file import LogFile
from loopharness.store.memory import MemoryFiles
from loopharness.store.opening import Opened
from loopharness.store.service import SessionPersistence

ROOT: Final = Path("/conformance")
ATTEMPT: Final[ContextVar[str]] = ContextVar("conformance_attempt")
"""The name of the resume that this is a part of."""


async def at_once(seconds: float) -> None:
    """The window of a write handle: it ends at the next turn of the scheduler."""
    await anyio.lowlevel.checkpoint()


def disk_with(stored: Iterable[Any]) -> MemoryFiles:
    """A file system that holds these sessions."""
    files = MemoryFiles()
    layout = Layout(ROOT, files, "none")
    for session in stored:
        log = LogFile(layout, files, freeze(session.header))
        log.write([freeze(event) for event in session.events])
        log.close()
    return files


class Storage(SessionPersistence):
    """`SessionPersistence` with the gates `load` and `flush`."""

    def __init__(self, files: MemoryFiles, lenient: bool) -> None:
        super().__init__(ROOT, compression="none", files=files, timer=at_once, lenient=lenient)
        self.files: Final = files
        self.gates: Gates
        self._killed = False

    async def take_over(self, session_id: str, version: int) -> Opened:
        """The gate `load`, then the load itself."""
        await self.gates.stand("load", session_id, ATTEMPT.get())
        return await super().take_over(session_id, version)

    def _handle(self, log: LogFile, durable: int) -> Handle:
        return _Gated(self, super()._handle(log, durable))

    def kill(self) -> MemoryFiles:
        """The process dies here and now; answers what the next one finds."""
        self._killed = True
        after = self.files.reborn()
        self.files.dead = True
        return after

    async def close_all(self) -> None:
        """Whoever is dead closes nothing."""
        if not self._killed:
            await super().close_all()


class _Gated(Handle):
    """A write handle whose batches stand at the gate `flush`."""

    def __init__(self, storage: Storage, made: Handle) -> None:
        super().__init__(made.log, made.durable, made._group, made._timer, made._length, made._header_only)
        self._storage = storage

    async def _write(self) -> None:
        await self._storage.gates.stand("flush", self.id)
        try:
            await super()._write()
        except AppendFailedError:
            if not self._storage.files.dead:  # whoever is dead complains to nobody
                raise
