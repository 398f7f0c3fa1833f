"""One named fault for every guard and branch of the driver and of the model attempt, and for its effect orders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.spec import mutation
from tests.spec.mutation import Mutant

from loopspec import attempt, driver, inbox
from loopspec.worlds import driver_world
from loopspec.worlds.driver_world import bound

WORLD = driver_world
BOUNDS = {
    "one": bound("one", messages=1, cancel_user=1, turns=2, faults=1, calls=1),
    "none": bound("none", messages=1, cancel_user=1, turns=2, calls=1),
    "two": bound("two", messages=2, cancel_user=1, turns=2),
    "three": bound("three", messages=3, turns=2, depth=0),
    "causes": bound("causes", messages=2, cancel_user=1, cancel_disposed=1, turns=2),
    "fault": bound("fault", messages=2, cancel_user=1, turns=2, faults=1, calls=1, depth=1),
    "faults": bound("faults", messages=2, turns=1, faults=2, calls=1, depth=0),
    "refused": bound("refused", messages=2, cancel_user=1, turns=2, refusals=1),
    "job": bound("job", messages=1, cancel_user=1, cancel_disposed=1, jobs=1, turns=1),
    "edits": bound("edits", messages=2, turns=1, edits=1),
    "ticks": bound("ticks", messages=3, cancel_user=1, turns=2, faults=1, depth=0),
}
"""Each mutant names the smallest of these bounds at which it shows."""

MUTANTS: tuple[Mutant, ...] = mutation.loaded("driver")

BOOKS = {"driver": driver.rules, "attempt": attempt.rules, "inbox": inbox.rules, "inbox alone": inbox.alone}
MODULES = {"driver": driver, "attempt": attempt, "inbox": inbox, "machine": driver.MACHINE}


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Put a mutant of the driver in place: in the modules and in every book of rules that has the label."""
    with mutation.applied(mutant, BOOKS, MODULES):
        yield
