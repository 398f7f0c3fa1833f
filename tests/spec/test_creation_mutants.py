"""Every guard of creation is removed or turned once; each time the named claim or witness must notice."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.spec.creation_runs import broken

from loopconform.mutants.named import entries
from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import ExplorationError, explore
from loopspec.kernel.graph import digest_edges
from loopspec.properties import creation_explorations
from loopspec.worlds.world import named_law

SMALL: dict[str, tuple[dict[str, Any], dict[str, int], str]] = {
    "one": (
        {"verbs": ("create",), "requests": ("release",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "aborts": 1, "disposals": 1, "escapes": 1, "inner": 1},
        "F11 F12 F13 F14 F15 F16 F19 F20 F21 F22 F24",
    ),
    "woken": (
        {"verbs": ("create",), "requests": ("release",), "fibers": ("provider", "agents"), "setups": ("settles",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "disposals": 1, "unloads": 1, "wakes": 1, "inner": 1},
        "R-38 R-57",
    ),
    "late": (
        {"requests": ("dispose",), "fibers": ()},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "aborts": 2, "disposals": 1, "stale": 2},
        "",
    ),
    "pair": (
        {"requests": ("dispose",), "fibers": ()},
        {"depth": 1, "creates": 2, "ids": 1, "callers": 1, "disposals": 1},
        "F2 F17 R-02 R-55",
    ),
    "calls": (
        {"verbs": ("create",), "flaws": ("", "seed", "options", "aborted"), "setups": ("deactivated",)},
        {"depth": 1, "creates": 2, "ids": 2, "callers": 1, "unloads": 1},
        "F1 F3 F5 F6 F7 F8",
    ),
    "resumes": (
        {"verbs": ("resume",), "flaws": ("", "options"), "fibers": (), "requests": ()},
        {"depth": 1, "creates": 2, "ids": 1, "callers": 1},
        "R-62 R-63 C-INP-5",
    ),
    "family": (
        {"owners": ("caller", "agent"), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 1, "creates": 2, "ids": 2, "callers": 1, "disposals": 1, "unloads": 1},
        "F6 R-60",
    ),
    "orphans": (
        {"owners": ("caller", "agent"), "fibers": (), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 1, "creates": 2, "ids": 2, "callers": 1, "disposals": 1, "stale": 1},
        "F6",
    ),
    "strangers": (
        {"setups": ("settles",), "fibers": (), "requests": ()},
        {"depth": 2, "creates": 1, "ids": 1, "callers": 1, "registrations": 1, "detaches": 1, "appends": 2}
        | {"escapes": 1, "inner": 2},
        "F17 F18 R-50 R-52",
    ),
    "observed": (
        {"requests": ("dispose",), "fibers": (), "setups": ("settles",), "kinds": (), "events": ("cancel",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "disposals": 1, "wakes": 1, "appends": 1, "escapes": 1}
        | {"inner": 1},
        "LR-228",
    ),
}  # fmt: skip
"""Bounds for mutants: choices, budgets and witnesses."""


class Mutant(NamedTuple):
    """A fault, the module and text that becomes another, who notices, and where to look."""

    fault: str
    module: str
    original: str
    replacement: str
    killer: str
    bound: str = "one"


ROAD = "teardown"
CRASH = "a rule is asked what cannot be"

MUTANTS = tuple(
    Mutant(
        entry["name"],
        entry["module"].removeprefix("loopspec."),
        entry["old"],
        entry["new"],
        entry["breaks"],
        entry.get("bound", "one"),
    )
    for entry in entries("creation")
)


def found_by(module: Any, name: str) -> set[str]:
    """The claims that are broken and the witnesses that are missing, in one small bound, by the given explorations."""
    choices, budgets, reaches = SMALL[name]
    bound = module.bound(name, **budgets)
    more = ("raise append-reenters", "raise already-announced") if name == "strangers" else ()
    plan = module.Plan(module.Choices(**choices), bound, (*reaches.split(), *more))
    system, claims, told = module.exploring(plan)
    try:
        found = explore(system, **claims._asdict(), bound=told, max_states=20_000)
    except (ExplorationError, AssertionError, KeyError):
        return {CRASH}
    assert found.complete
    return {claim for claim, verdict in found.verdicts.items() if verdict is Verdict.FAIL}


@pytest.mark.parametrize("name", SMALL)
def test_the_machine_itself_passes_where_the_mutants_fail(name: str) -> None:
    """Without this, a claim that always fails would kill everything."""
    assert found_by(creation_explorations, name) == set()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.fault)
def test_each_fault_is_seen_by_its_claim(mutant: Mutant) -> None:
    with broken(mutant.module, mutant.original, mutant.replacement) as module:
        assert mutant.killer in found_by(module, mutant.bound)


EQUIVALENT = (
    (
        "the provider is gone by then, and every agent with it: no run is left to wait for",
        ROAD,
        "return not any(is_busy(t) for t in s.members)",
        "return True",
        "woken",
    ),
)


def digest_of(module: Any, name: str) -> str:
    """The edges of one small bound."""
    choices, budgets, _ = SMALL[name]
    plan = module.Plan(module.Choices(**choices), module.bound(name, **budgets), ())
    system, claims, _ = module.exploring(plan)
    graph = explore(system, is_final=claims.is_final, keep_edges=True).graph
    assert graph is not None
    return digest_edges(named_law(graph))


@pytest.mark.parametrize(("why", "module", "original", "replacement", "bound"), EQUIVALENT)
def test_these_changes_are_equivalent(why: str, module: str, original: str, replacement: str, bound: str) -> None:
    """No claim can kill them, because the complete graph is the same."""
    with broken(module, original, replacement) as changed:
        assert digest_of(changed, bound) == digest_of(creation_explorations, bound), why
