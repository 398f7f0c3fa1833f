"""A promise: the outcome of work that goes on by itself. It may be awaited any number of times, also afterwards."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel

__all__ = ["Promise"]

T = TypeVar("T")


class Promise(Generic[T]):
    """Settles once, with a value or an error; what comes after that is ignored.

    Not awaiting it is fine: the work goes on. `abandoned` is called when somebody who awaits it is cancelled.
    """

    __slots__ = ("_abandoned", "_done", "_error", "_value", "settled")

    def __init__(self, abandoned: Callable[[], None] | None = None) -> None:
        self.settled = False
        self._done: anyio.Event | None = None
        self._value: T | None = None
        self._error: Exception | None = None
        self._abandoned = abandoned

    def resolve(self, value: T) -> None:
        """Fulfil it."""
        if not self.settled:
            self._value = value
            self._settle()

    def reject(self, error: Exception) -> None:
        """Let it fail; every awaiter gets this very error."""
        if not self.settled:
            self._error = error
            self._settle()

    @property
    def error(self) -> Exception | None:
        """What it failed with, once it has."""
        return self._error

    def result(self) -> T:
        """The value, or raise the error. Raises `RuntimeError` while it is open."""
        if not self.settled:
            raise RuntimeError("the promise has not settled yet: await it")
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def __await__(self) -> Generator[Any, Any, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        if self.settled:
            await anyio.lowlevel.checkpoint()
        else:
            if self._done is None:
                self._done = anyio.Event()
            try:
                await self._done.wait()
            except anyio.get_cancelled_exc_class():
                if self._abandoned is not None:
                    self._abandoned()
                raise
        return self.result()

    def _settle(self) -> None:
        self.settled = True
        self._abandoned = None
        if self._done is not None:
            self._done.set()
