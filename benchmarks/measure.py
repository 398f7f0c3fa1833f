"""How a figure is taken: several runs, CPU time of this thread, the median and its spread; the memory of a process."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Figure", "Status", "peak", "rate", "repeated"]

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


def peak(process: int | None = None) -> float:
    """The most memory that a process, this one by default, has held so far, in MiB.

    Linux tells it in `/proc`; what `getrusage` says begins with the memory of whoever started the process, and is taken
    elsewhere only. 0 for a process that has ended, or that the system tells nothing of.
    """
    status = Path(f"/proc/{process or 'self'}/status")
    if status.exists():
        lines = (line.split() for line in status.read_text().splitlines())
        return next((int(words[1]) / 1024 for words in lines if words and words[0] == "VmHWM:"), 0.0)
    return 0.0 if process is not None else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
