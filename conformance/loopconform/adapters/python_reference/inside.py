"""The adapter in the suite's own process: no pipe, the same messages."""

from __future__ import annotations

import logging
import queue
from collections.abc import AsyncIterator
from typing import Any, Literal

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from loopconform.adapters.python_reference.serve import serve

Backend = Literal["asyncio", "trio"]


class Inside:
    """An event loop in a thread of its own, with the adapter in it."""

    def __init__(self, backend: Backend = "asyncio") -> None:
        logging.getLogger("loopharness").setLevel(logging.CRITICAL)
        self.replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._manager = start_blocking_portal(backend)
        self._portal: BlockingPortal = self._manager.__enter__()
        self._send, receive = anyio.create_memory_object_stream[tuple[int, Any]](10)
        self._served = self._portal.start_task_soon(self._serve, receive)

    async def _serve(self, receive: AsyncIterator[tuple[int, Any]]) -> None:
        try:
            await serve(receive, self.replies.put)
        except BaseException as error:
            self.replies.put(error)
            raise

    def request(self, id: int, request: Any) -> None:
        """Hand in one request; its replies come to `replies`."""
        self._portal.start_task_soon(self._send.send, (id, request)).result()

    def close(self) -> None:
        """End the thread."""
        self._portal.start_task_soon(self._send.aclose).result()
        try:
            self._served.result(timeout=10)
        finally:
            self._manager.__exit__(None, None, None)
