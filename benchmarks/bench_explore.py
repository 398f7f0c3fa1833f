"""The explorer: states per CPU second on a synthetic system and on the machines."""

from __future__ import annotations

import time

from benchmarks.measure import Figure, Status, repeated
from loopspec import driver
from loopspec.kernel.explore import explore
from loopspec.kernel.synthetic import Wheels
from loopspec.profile import law
from loopspec.worlds.driver_world import DriverEnvironment, bound
from loopspec.worlds.world import World

LIMITS = bound("bench", messages=3, cancel_user=1, jobs=1, turns=2)


def wheels() -> float:
    """A synthetic system of 100,000 states with about 25 fields each."""
    start = time.thread_time()
    found = explore(Wheels(5, 10), is_final=lambda node: True)
    return len(found.states) / (time.thread_time() - start)


def driver_states() -> float:
    """The driver within a bound: messages, a cancel, a maintenance job, re-entrant listeners."""
    world = World(driver.MACHINE, driver.initial(law("seed")), DriverEnvironment(), LIMITS)
    start = time.thread_time()
    found = explore(world, is_final=world.is_final, bound=LIMITS.as_mapping())
    assert found.complete
    return len(found.states) / (time.thread_time() - start)


def workloads(status: Status) -> list[Figure]:
    """All figures of this file."""
    figures = []
    for what, measure in (("synthetic, 100,000 states", wheels), ("driver", driver_states)):
        with status(what):
            figures.append(repeated(what, "states / CPU s", measure, 3))
    return figures
