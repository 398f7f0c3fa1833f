"""One named fault for every guard of creation, registries and teardown, and the bounds at which they are explored."""

from __future__ import annotations

from typing import Any, NamedTuple

from loopconform.mutants.named import entries

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
    target: str = ""
    """The function that it is in."""
    sentence: str = ""


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
        entry["in"],
        entry["sentence"],
    )
    for entry in entries("creation")
)

EQUIVALENT = (
    (
        "the provider is gone by then, and every agent with it: no run is left to wait for",
        ROAD,
        "return not any(is_busy(t) for t in s.members)",
        "return True",
        "woken",
    ),
)
