"""A gate holds whoever arrives until somebody opens it: races made deterministic, without sleeping."""

from __future__ import annotations

import anyio

__all__ = ["Gate"]


class Gate:
    """Starts closed. `passed` is how many have gone through, `arrived` how many have come."""

    def __init__(self) -> None:
        self.arrived = 0
        self.passed = 0
        self._reached = anyio.Event()
        self._opened = anyio.Event()

    def open(self) -> None:
        """Let everyone through, now and later."""
        self._opened.set()

    async def reached(self) -> None:
        """Wait until somebody stands at the gate."""
        await self._reached.wait()

    async def enter(self) -> None:
        """Stand at the gate until it is open. An open gate is passed without a scheduler tick."""
        self.arrived += 1
        self._reached.set()
        if not self._opened.is_set():
            await self._opened.wait()
        self.passed += 1
