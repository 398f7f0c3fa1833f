"""The bounds at which the tool scheduler is explored completely, each with its claims.

Every one is complete for its bound: all classifications, caps, answers and orders of settlement that the freedom
lists, with an abort and failures of the machinery at any place. Nothing is sampled and no symmetry is used.

* `windows` also remembers the moment of the abort, and reaches every window of the race catalogue;
* `batch` is about order: four calls, caps one to three, few kinds of results;
* `pipeline` is about results: two calls with every answer there is;
* those called `wide` are the same with more freedom. They take minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from loopspec.kernel.budget import Bounded
from loopspec.profile import Law, Profile, law
from loopspec.properties.exploring import Claims
from loopspec.properties.scheduler import Node, is_final, safety
from loopspec.properties.scheduler_windows import reachability
from loopspec.worlds.scheduler_past import MOMENT, STORY
from loopspec.worlds.scheduler_world import EVERYTHING, Freedom, Scene, Scheduling, cost

WINDOWS = Freedom(
    calls=3,
    caps=(1, 2),
    prepare=("dispatch", "post-result"),
    body=("success", "failure"),
    finalise=(("accept", False, False), ("accept", True, True)),
    skips_body=True,
)
BATCH = Freedom(calls=4, caps=(1, 2, 3), prepare=("dispatch", "final-result"), body=("success",))
PIPELINE = EVERYTHING
WIDE_BATCH = Freedom(calls=4, caps=(1, 2, 3))
WIDE_PIPELINE = EVERYTHING._replace(calls=3)
PROFILES_EXPLORED: tuple[Profile, ...] = ("seed", "dsh-0.1")
"""`dsh-0.1.7` answers every question about the scheduler like `dsh-0.1`."""


class Exploring(NamedTuple):
    """One exploration: the system, what is claimed about it, and the bound in words."""

    system: Bounded[Scene]
    claims: Claims[Node]
    bound: Mapping[str, object]


def exploring(rules: Law, freedom: Freedom, failures: int, windows: bool = False) -> Exploring:
    """One exploration under a law. `windows` adds the claims of reachability and the memory that they ask."""
    invariants, steps = safety(rules, freedom.calls)
    monitors = (STORY, MOMENT) if windows else (STORY,)
    budgets = {"abort": 1, "failure": failures}
    system = Bounded(Scheduling(rules, freedom), budgets, cost, monitors)
    reached = reachability(rules, freedom.calls) if windows else ()
    bound = {"law": repr(rules), **freedom._asdict(), **budgets}
    return Exploring(system, Claims(invariants, steps, reached, is_final), bound)


def explorations(wide: bool = False) -> dict[str, Exploring]:
    """Every exploration by name: about a minute in all; with `wide` also those that take minutes each."""
    found = {}
    for profile in PROFILES_EXPLORED:
        rules = law(profile, 4)
        found[f"windows {profile}"] = exploring(rules, WINDOWS, 2, windows=True)
        found[f"batch {profile}"] = exploring(rules, BATCH, 1)
        found[f"pipeline {profile}"] = exploring(rules, PIPELINE, 2)
        if wide:
            found[f"wide batch {profile}"] = exploring(rules, WIDE_BATCH, 2)
            found[f"wide pipeline {profile}"] = exploring(rules, WIDE_PIPELINE, 2)
    return found
