"""The bounded explorations of requests, and what is pinned of them.

    .venv/bin/python -m tests.spec.request_runs    # after a change that is meant: writes tests/spec/pins/request-*.json

As in `tests.spec.explored`; here a state is a composition, so that rules are not counted.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.spec.explored import PINS, verdicts

from loopspec.kernel.explore import explore
from loopspec.kernel.report import Exploration
from loopspec.profile import law
from loopspec.worlds import request_world

CASES: tuple[tuple[str, int], ...] = (
    ("routes", 0),
    ("headers", 0),
    ("surface", 0),
    ("faults", 0),
    ("choice", 4),
    ("surface", 4),
    ("faults", 4),
)
"""Bound and session format; the profiles do not differ here."""


def explored(name: str, session_format: int, only: str = "", edges: bool = True) -> Exploration[Any]:
    """One bound with every claim; or with one claim alone, up to the first violation of it."""
    its_law, limits = law("seed", session_format), request_world.BOUNDS[name]
    world, claims = request_world.world(its_law, limits), request_world.claims(its_law, limits)
    return explore(
        world,
        invariants=[claim for claim in claims.invariants if only in ("", claim.name)],
        steps=[claim for claim in claims.steps if only in ("", claim.name)],
        sometimes=[claim for claim in claims.sometimes if only in ("", claim.name)],
        is_final=(lambda node: True) if only else world.is_final,
        bound=limits.as_mapping(),
        keep_edges=edges and not only,
        stop_at_first=bool(only),
    )


def digest(found: Exploration[Any]) -> str:
    """A digest of the labelled graph: states by the order in which they were found, which is always the same."""
    graph = found.graph
    assert graph is not None
    labels = [json.dumps(label) for label in graph.labels]
    total = sha256(b"graph")
    for source in range(len(graph.states)):
        for label, target in graph.moves(source):
            total.update(f"{source} {labels[label]} {target}\n".encode())
    return total.hexdigest()


def pin_of(found: Exploration[Any]) -> dict[str, Any]:
    """Everything that is pinned, as plain JSON."""
    return {
        "bound": dict(found.bound),
        "complete": found.complete,
        "states": len(found.states),
        "transitions": found.transitions,
        "depth": found.depth,
        "edges": digest(found),
        "sometimes": {
            row.name: [json.dumps(label) for label in row.witness.labels] if row.witness else None
            for row in sorted(found.sometimes, key=lambda row: row.name)
        },
    }


def written(name: str, session_format: int) -> Path:
    """Where the pin of a case lies."""
    return PINS / f"request-v{session_format}-{name}.json"


def main() -> None:
    """Pin all cases again."""
    for case in CASES:
        found = explored(*case)
        written(*case).write_text(json.dumps(pin_of(found), indent=1) + "\n")
        print(*case, len(found.states), found.transitions, verdicts(found) or "", flush=True)


if __name__ == "__main__":
    main()
