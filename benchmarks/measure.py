"""How a figure is taken: several runs, CPU time of this thread, the median and its spread."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

__all__ = ["Figure", "Status", "rate", "repeated"]

Status = Callable[[str], AbstractContextManager[object]]
"""Shows what is being measured while it is."""

RUNS = 5


@dataclass(frozen=True)
class Figure:
    """One measured quantity: what it is, the value of each run, and the unit."""

    what: str
    values: tuple[float, ...]
    unit: str

    @property
    def median(self) -> float:
        """The middle value."""
        return statistics.median(self.values)

    def row(self) -> tuple[str, ...]:
        """The figure as a line of a table."""
        numbers = (self.median, min(self.values), max(self.values))
        return (self.what, *(shown(number) for number in numbers), self.unit, str(len(self.values)))


def shown(number: float) -> str:
    """Three significant places are all that a measurement deserves."""
    return f"{number:,.0f}" if abs(number) >= 100 else f"{number:.3g}"


def repeated(what: str, unit: str, measure: Callable[[], float], runs: int = RUNS) -> Figure:
    """Take a figure several times."""
    return Figure(what, tuple(measure() for _ in range(runs)), unit)


def rate(count: int, work: Callable[[], object]) -> float:
    """How many of `count` things `work` does per second of CPU time."""
    start = time.thread_time()
    work()
    return count / (time.thread_time() - start)
