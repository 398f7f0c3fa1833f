"""Faults that change nothing: graph equality, for all of them at once.

A complete exploration asks every rule at every state that it can be asked at. When a fault, asked beside its function,
has never answered otherwise there, the exploration with the fault in place would be the same one, edge by edge: the
two graphs are equal at that bound. So one exploration of the law at each bound says of every fault whether it is
equivalent, differs, or is out of reach there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from loopconform.mutants.differences import Ear
from loopconform.mutants.patch import Fault
from loopconform.mutants.surroundings import pool
from loopspec.kernel.explore import explore
from loopspec.profile import Profile, law
from loopspec.properties import creation_explorations as creations
from loopspec.worlds import creation_world, driver_world, inbox_world
from loopspec.worlds.scheduler_world import EVERYTHING, Scheduling

DRIVER: dict[str, dict[str, int]] = {
    "one": {"messages": 1, "cancel_user": 1, "turns": 2, "faults": 1, "calls": 1},
    "two": {"messages": 2, "cancel_user": 1, "turns": 2},
    "job": {"messages": 1, "cancel_user": 1, "cancel_disposed": 1, "jobs": 1, "turns": 1},
    "edits": {"messages": 2, "turns": 1, "edits": 1},
    "refused": {"messages": 1, "cancel_user": 1, "turns": 2, "refusals": 1},
}
"""Budgets of the driver's explorations, under `seed`; the first also under the other laws."""

LAWS: tuple[tuple[Profile, int], ...] = (("seed", 0), ("seed", 4), ("dsh-0.1", 0), ("dsh-0.1.7", 4))
"""Every law that answers a question of the table in its own way: what is asked under one only differs only there."""

CREATION: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "one": (
        {"verbs": ("create",), "requests": ("release",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "aborts": 1, "disposals": 1, "escapes": 1, "inner": 1},
    ),
    "woken": (
        {"verbs": ("create",), "requests": ("release",), "fibers": ("provider", "agents"), "setups": ("settles",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "disposals": 1, "unloads": 1, "wakes": 1, "inner": 1},
    ),
    "pair": (
        {"requests": ("dispose",), "fibers": ()},
        {"depth": 1, "creates": 2, "ids": 1, "callers": 1, "disposals": 1},
    ),
    "family": (
        {"owners": ("caller", "agent"), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 1, "creates": 2, "ids": 2, "callers": 1, "disposals": 1, "unloads": 1},
    ),
    "resumed": (
        {"verbs": ("create", "resume"), "setups": ("settles", "throws"), "fibers": (), "requests": ()}
        | {"flaws": ("", "options", "no-persistence")},
        {"depth": 0, "creates": 2, "ids": 1, "callers": 1, "aborts": 1},
    ),
    "waiting": (
        {"fibers": ("agents",), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 0, "creates": 1, "ids": 1, "callers": 1, "disposals": 1, "unloads": 1, "wakes": 1, "waits": 1},
    ),
    "strangers": (
        {"setups": ("settles",), "fibers": (), "requests": ()},
        {"depth": 2, "creates": 1, "ids": 1, "callers": 1, "registrations": 1, "detaches": 1, "appends": 2}
        | {"escapes": 1, "inner": 2},
    ),
}  # fmt: skip
"""Choices and budgets of the explorations of creation."""

CREATORS: tuple[Profile, ...] = ("seed", "dsh-0.1", "dsh-0.1.7")
"""The laws of creation, whatever the format."""


class Bound(NamedTuple):
    """One complete exploration. `explore` answers the number of states; it raises when it was not complete."""

    name: str
    explore: Callable[[], int]


def _whole(system: Any) -> int:
    found = explore(system, is_final=lambda node: True)
    assert found.complete, "a bound of an equality must be explored completely"
    return len(found.states)


def _inbox(profile: Profile, version: int, limits: Any) -> int:
    return _whole(inbox_world.world(law(profile, version), limits))


def _driver(profile: Profile, version: int, budgets: dict[str, int]) -> int:
    return _whole(driver_world.world(law(profile, version), driver_world.bound("equal", **budgets)))


def _creation(profile: Profile, choices: dict[str, Any], budgets: dict[str, int]) -> int:
    plan = creations.Plan(creation_world.Choices(**choices), creation_world.bound("equal", **budgets), ())
    return _whole(creations.exploring(plan, profile)[0])


def _scheduler(profile: Profile, version: int) -> int:
    return _whole(Scheduling(law(profile, version), EVERYTHING))


def bounds() -> Iterator[Bound]:
    """Every exploration, smaller ones first."""
    for name, depth in (("flat", 0), ("nested", 1)):
        limits = inbox_world.bound(name, depth=depth, messages=2, edits=1, takes=1 - depth, refusals=1 - depth)
        for profile, version in LAWS:
            yield Bound(f"inbox {name}, {profile}/v{version}", partial(_inbox, profile, version, limits))
    for profile, version in LAWS:
        yield Bound(f"driver one, {profile}/v{version}", partial(_driver, profile, version, DRIVER["one"]))
    for profile, version in pool.LAWS:
        yield Bound(f"scheduler, {profile}", partial(_scheduler, profile, version))
    for name, (choices, budgets) in CREATION.items():
        for profile in CREATORS:
            yield Bound(f"creation {name}, {profile}", partial(_creation, profile, choices, budgets))
    for name, budgets in DRIVER.items():
        if name != "one":
            yield Bound(f"driver {name}, seed/v0", partial(_driver, "seed", 0, budgets))


class Finding(NamedTuple):
    """What the explorations say of one fault: the bounds at which it was asked, and those at which it differs."""

    asked: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Asked somewhere, and never differing."""
        return bool(self.asked) and not self.differs


def findings(faults: Iterable[Fault], told: Callable[[str], None] = lambda line: None) -> dict[str, Finding]:
    """Explore everything, and say of each fault what it does to the graphs."""
    faults = tuple(faults)
    ear = Ear(faults, most=1)
    found = dict.fromkeys(ear.differs, Finding())
    for bound in bounds() if found else ():
        before = dict(ear.asked)
        with ear.listening(bound.name):
            states = bound.explore()
        for id, finding in found.items():
            asked = (*finding.asked, bound.name) if ear.asked[id] > before[id] else finding.asked
            found[id] = Finding(asked, tuple(ear.differs[id]))
        told(f"{bound.name}: {states:,} states")
    return found
