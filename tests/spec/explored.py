"""What is pinned of each bounded exploration, and how to pin it again.

    .venv/bin/python -m tests.spec.explored [CASE…]   # after a change that is meant: writes tests/spec/pins/*.json

A pin holds the bound, the counts, the digest of all labelled edges, and the shortest run to each `sometimes`. The
digest says that the graph is the same; the runs say that each race was reached the way it is meant to be.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

from loopharness.collector import collector_paused
from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.report import Exploration
from loopspec.profile import Profile, law
from loopspec.worlds import driver_world, inbox_world, retry_world
from loopspec.worlds.world import Node, edge_digest, first_uses, measured

PINS = Path(__file__).parent / "pins"


class Case(NamedTuple):
    """One exploration: which machine, under which law, within which bound."""

    machine: str
    profile: Profile
    session_format: int
    bound: str

    @property
    def name(self) -> str:
        """The name of its pin."""
        return f"{self.machine}-{self.profile}-v{self.session_format}-{self.bound}"


CASES: tuple[Case, ...] = (
    Case("driver", "seed", 0, "quick"),
    Case("driver", "dsh-0.1", 0, "quick"),
    Case("driver", "seed", 0, "faults"),
    Case("driver", "dsh-0.1", 0, "faults"),
    Case("driver", "seed", 0, "edits"),
    Case("driver", "seed", 4, "small"),
    Case("driver", "dsh-0.1.7", 4, "small"),
    Case("inbox", "seed", 0, "small"),
    Case("inbox", "dsh-0.1", 0, "small"),
    Case("inbox", "dsh-0.1.7", 4, "small"),
    Case("retry", "seed", 0, "quick"),
    Case("retry", "dsh-0.1", 0, "quick"),
    Case("retry", "seed", 0, "small"),
    Case("retry", "seed", 0, "chains"),
)

WORLDS: dict[str, Any] = {"driver": driver_world, "inbox": inbox_world, "retry": retry_world}


def explored(case: Case) -> tuple[Any, Exploration[Node]]:
    """Run one case with every claim and all edges."""
    module = WORLDS[case.machine]
    limits, its_law = module.BOUNDS[case.bound], law(case.profile, case.session_format)
    world, claims = module.world(its_law, limits), module.claims(its_law, limits)
    with collector_paused():
        return world, explore(
            world,
            invariants=claims.invariants,
            steps=claims.steps,
            sometimes=claims.sometimes,
            is_final=world.is_final,
            bound=limits.as_mapping(),
            keep_edges=True,
        )


def pin_of(world: Any, exploration: Exploration[Node]) -> dict[str, Any]:
    """Everything that is pinned, as plain JSON."""
    measure = measured(world, exploration)
    assert exploration.graph is not None
    uses = first_uses(world.machine, exploration)
    return {
        "bound": dict(measure.bound),
        "complete": measure.complete,
        "states": measure.states,
        "transitions": measure.transitions,
        "depth": measure.depth,
        "cut": measure.cut,
        "edges": edge_digest(exploration.graph),
        "unused rules": sorted(set(world.machine.rules) - set(uses)),
        "sometimes": {
            row.name: [json.dumps(label) for label in row.witness.labels] if row.witness else None
            for row in sorted(exploration.sometimes, key=lambda row: row.name)
        },
    }


def verdicts(exploration: Exploration[Node]) -> dict[str, str]:
    """The claims that did not pass, with their shortest runs in words."""
    bad = {name: str(verdict) for name, verdict in exploration.verdicts.items() if verdict is not Verdict.PASS}
    for violation in exploration.violations:
        run = "\n  ".join(json.dumps(label) for label in violation.path.labels)
        bad[violation.name] = f"{violation.reason or violation.sentence}\n  {run}"
    return bad


def written(case: Case) -> Path:
    """Where the pin of a case lies."""
    return PINS / f"{case.name}.json"


def main() -> None:
    """Pin the cases named on the command line again, or all."""
    names = sys.argv[1:] or [case.name for case in CASES]
    unknown = set(names) - {case.name for case in CASES}
    if unknown:
        sys.exit(f"No such case: {', '.join(sorted(unknown))}. There are: {', '.join(case.name for case in CASES)}.")
    PINS.mkdir(exist_ok=True)
    for case in CASES:
        if case.name not in names:
            continue
        world, exploration = explored(case)
        pin = pin_of(world, exploration)
        written(case).write_text(json.dumps(pin, indent=1) + "\n")
        counts = f"{pin['states']} states, {pin['transitions']} transitions"
        print(f"{case.name}: {counts}", verdicts(exploration) or "", flush=True)


if __name__ == "__main__":
    main()
