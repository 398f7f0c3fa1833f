"""The idle watchdog: how long one pull may wait for a sign of life (M-560, M-561)."""

from __future__ import annotations

from typing import Final

import anyio

__all__ = ["IdleWatch"]


class IdleWatch:
    """Makes the scope that one pull works in, and moves its deadline when the server shows that it lives.

    `timeout_ms` is the patience, `None` for none. A test can give a watch of its own and fire it by hand.
    """

    def __init__(self, timeout_ms: float | None) -> None:
        self.timeout_ms: Final = timeout_ms

    def start(self) -> anyio.CancelScope:
        """The scope of a pull that begins now."""
        return anyio.CancelScope(deadline=self._deadline())

    def alive(self, scope: anyio.CancelScope) -> None:
        """A comment has come: begin to count again."""
        scope.deadline = self._deadline()

    def _deadline(self) -> float:
        return float("inf") if self.timeout_ms is None else anyio.current_time() + self.timeout_ms / 1000
