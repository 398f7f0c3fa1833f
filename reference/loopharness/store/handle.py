"""The write handle of one live session: a queue, a window, a barrier (S-DSK-32, S-DSK-33).

Events are queued while the session appends them, which never waits. The first one opens a window of fixed length;
at its end everything queued becomes one durable batch. `flush` does not wait for the window.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import anyio.abc
import anyio.to_thread

from loopharness.errors import error_chain
from loopharness.frozen import FrozenDict
from loopharness.store.errors import AppendFailedError, SessionHandleClosedError, SessionPersistenceError
from loopharness.store.log_file import LogFile

__all__ = ["Handle", "Timer"]

_log = logging.getLogger("loopharness")

Timer = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds: `anyio.sleep`, or whatever a test drives by hand."""


class Handle:
    """Write ownership of one session. `durable` is the number of events that are safe on disk.

    `group` runs the windows and ends after every handle; `window` is their length in seconds.
    """

    def __init__(
        self, log: LogFile, durable: int, group: anyio.abc.TaskGroup, timer: Timer, window: float, header_only: bool
    ) -> None:
        self.id: Final[str] = log.header["id"]
        self.log: Final = log
        self.durable = durable
        self.closing = False
        self.closed: Final = anyio.Event()
        self.failure: Exception | None = None
        """Why the last attempt to write failed; `None` once one has succeeded."""
        self._group = group
        self._timer = timer
        self._length = window
        self._header_only = header_only
        self._queue: list[FrozenDict] = []
        self._writing = anyio.Lock()
        self._window: anyio.CancelScope | None = None

    @property
    def queued(self) -> int:
        """How many events wait to be written."""
        return len(self._queue)

    def add(self, events: Iterable[FrozenDict]) -> None:
        """Queue events that the session has appended. Raises `SessionHandleClosedError`."""
        if self.closed.is_set():
            raise SessionHandleClosedError(f'the write handle of session "{self.id}" is closed')
        self._queue.extend(events)
        if self._queue and self._window is None:
            self._window = anyio.CancelScope()
            self._group.start_soon(self._wait, self._window)

    async def flush(self) -> None:
        """Wait until everything queued so far is durable. Raises what the writing raised."""
        wanted = self.durable + len(self._queue)
        if self._window is not None:
            self._window.cancel()
            self._window = None
        async with self._writing:
            if self.durable < wanted or (self._header_only and not self.log.exists):
                await self._write()

    async def close(self) -> None:
        """Drain, then let go of file and lock, whatever happens. Raises what the draining raised."""
        self.closing = True
        with anyio.CancelScope(shield=True):
            try:
                if self._queue:
                    await self.flush()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Let go of file and lock at once; what is queued is lost."""
        if self._window is not None:
            self._window.cancel()
            self._window = None
        self.log.close()
        self.closed.set()

    async def _wait(self, window: anyio.CancelScope) -> None:
        """One window: a failure at its end is reported, and nothing is tried until the next event or flush."""
        with window:
            await self._timer(self._length)
        if self._window is not window:
            return
        self._window = None
        try:
            async with self._writing:
                if self._queue:
                    await self._write()
        except Exception as error:
            text = "session %s: %d events could not be written and are kept: %s"
            _log.error(text, self.id, len(self._queue), error_chain(error))

    async def _write(self) -> None:
        """One batch of all that is queued; the caller holds `_writing`."""
        batch = tuple(self._queue)
        if self.closed.is_set():
            raise SessionHandleClosedError(f'the write handle of session "{self.id}" is closed')
        try:
            await anyio.to_thread.run_sync(self.log.write, batch)
        except SessionPersistenceError as error:
            self.failure = error
            raise
        except OSError as error:
            self.failure = AppendFailedError(
                f"{self.log.path} could not be written: {error.strerror or error}. The events are kept", error
            )
            raise self.failure from error
        self.failure = None
        del self._queue[: len(batch)]
        self.durable += len(batch)
