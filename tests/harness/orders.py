"""Every order in which the tasks of a program may run: an event loop that lets one ready callback run at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio

Program = Callable[[Callable[[bool], None], list[Any]], Awaitable[None]]
"""Gets a function that begins the choosing and ends it, and the list to which it tells what happens."""


class _Choosing(asyncio.SelectorEventLoop):
    """While it chooses, of all ready callbacks the one runs that the next choice names; without one, the first."""

    def __init__(self, choices: tuple[int, ...]) -> None:
        super().__init__()
        self.widths: list[int] = []
        """How many callbacks were ready at each choice."""
        self._choices = deque(choices)
        self._chooses = False

    def choose(self, chooses: bool) -> None:
        """Choose from now on, or no more."""
        self._chooses = chooses

    def _run_once(self) -> None:
        ready: deque[Any] = self._ready  # type: ignore[attr-defined]
        held: list[Any] = []
        if self._chooses and ready:
            self.widths.append(len(ready))
            chosen = ready[self._choices.popleft() if self._choices else 0]
            held = [handle for handle in ready if handle is not chosen]
            ready.clear()
            ready.append(chosen)
        super()._run_once()  # type: ignore[misc]
        ready.extendleft(reversed(held))


def transcripts(program: Program, most: int) -> Iterator[tuple[Any, ...]]:
    """What each order tells. Raises `AssertionError` when there are more than `most` orders."""
    open_ones: list[tuple[int, ...]] = [()]
    runs = 0
    while open_ones:
        choices = open_ones.pop()
        runs += 1
        assert runs <= most, "more orders than were to be looked at"
        loop = _Choosing(choices)
        told: list[Any] = []
        anyio.run(program, loop.choose, told, backend_options={"loop_factory": lambda loop=loop: loop})
        yield tuple(told)
        for at in range(len(choices), len(loop.widths)):
            open_ones += [(*choices, *[0] * (at - len(choices)), other) for other in range(1, loop.widths[at])]
