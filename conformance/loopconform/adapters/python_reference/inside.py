"""The adapter in the suite's own process: no pipe, the same messages."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any, Literal

import anyio
from anyio.abc import TaskStatus
from anyio.from_thread import start_blocking_portal

from loopconform.adapters.python_reference.serve import Server

Backend = Literal["asyncio", "trio"]

# What a harness warns of is no news of the suite's: it has provoked it.
logging.getLogger("loopharness").addHandler(logging.NullHandler())


class Inside:
    """An event loop in a thread of its own, with the adapter in it. One request at a time; its replies come whole."""

    def __init__(self, backend: Backend = "asyncio", only: str | None = None) -> None:
        """`only`: the one law that it follows, see `serve.Server`."""
        self._only = only
        self.replies: deque[Any] = deque()
        self._manager = start_blocking_portal(backend)
        self._portal = self._manager.__enter__()
        self._over: anyio.Event
        self._served, self._server = self._portal.start_task(self._serve)

    async def _serve(self, *, task_status: TaskStatus[Server]) -> None:
        self._over = anyio.Event()
        async with anyio.create_task_group() as group:
            task_status.started(Server(group, self.replies.append, self._only))
            await self._over.wait()
            group.cancel_scope.cancel()

    def request(self, id: int, request: Any, timeout: float = 60) -> None:
        """Do one request; its replies are in `replies` then. Raises `TimeoutError`, and what the harness raises."""
        self._portal.start_task_soon(self._server.answer, id, request).result(timeout)

    def close(self) -> None:
        """End the thread."""
        self._portal.call(self._server.abandon)
        self._portal.call(self._over.set)
        try:
            self._served.result(timeout=10)
        finally:
            self._manager.__exit__(None, None, None)
