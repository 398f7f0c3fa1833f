"""Named gates: whoever comes waits until a step opens it, or until its own work is cancelled."""

from __future__ import annotations

from collections.abc import Iterator

import anyio

from loopharness.signal import Signal

__all__ = ["Gates"]


class _Gate:
    def __init__(self) -> None:
        self.opened = False
        self.reached = anyio.Event()
        self.standing: dict[anyio.Event, str] = {}


class Gates:
    """All gates of one run, by name."""

    def __init__(self) -> None:
        self._gates: dict[str, _Gate] = {}

    def _of(self, name: str) -> _Gate:
        return self._gates.setdefault(name, _Gate())

    def open(self, name: str) -> None:
        """Let everyone through, now and later."""
        gate = self._of(name)
        gate.opened = True
        for event in gate.standing:
            event.set()

    async def reached(self, name: str) -> None:
        """Wait until somebody has come to the gate."""
        await self._of(name).reached.wait()

    async def enter(self, name: str, signal: Signal, who: str) -> bool:
        """Stand at the gate; False when the signal was aborted before it opened. `who` is for messages."""
        gate = self._of(name)
        gate.reached.set()
        if gate.opened or signal.aborted:
            return gate.opened
        event = anyio.Event()
        gate.standing[event] = who
        remove = signal.on_abort(lambda _: event.set())
        try:
            await event.wait()
        finally:
            remove()
            del gate.standing[event]
        return gate.opened

    def waiting(self) -> Iterator[tuple[str, str]]:
        """Who stands where: the name of the gate and `who`."""
        for name, gate in self._gates.items():
            for who in gate.standing.values():
                yield name, who
