"""Knowing that nothing is left to be done, without a clock."""

from __future__ import annotations

import anyio


async def quiet() -> None:
    """Wait until every other task waits for something, without a timer, on either backend."""
    import sniffio

    if sniffio.current_async_library() == "trio":
        import trio.testing

        await trio.testing.wait_all_tasks_blocked()
        while _threads_work():
            await anyio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
        return
    await _quiet_asyncio()


def _threads_work() -> bool:
    """Something is being read or written; nobody reads requests while one is answered."""
    return anyio.to_thread.current_default_thread_limiter().borrowed_tokens > 0


async def _quiet_asyncio() -> None:
    import asyncio

    this, calm = asyncio.current_task(), 0
    while calm < 2:
        await anyio.lowlevel.checkpoint()
        waiters = [getattr(task, "_fut_waiter", None) for task in asyncio.all_tasks() if task is not this]
        is_calm = not _threads_work() and all(waiter is not None and not waiter.done() for waiter in waiters)
        calm = calm + 1 if is_calm else 0
