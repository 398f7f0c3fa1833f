"""Listeners that note or raise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Next = Callable[[], Awaitable[Any]]


class Trace(list[Any]):
    """What happened, in order."""

    def note(self, *what: Any) -> Callable[..., None]:
        """A listener that notes `what` and its arguments."""
        return lambda *args: self.append((*what, *args) if args else what[0])


def raiser(error: Exception) -> Callable[..., None]:
    """A listener that raises."""

    def raises(*args: object) -> None:
        raise error

    return raises
