"""The bounded explorations of driver and inbox: every promise, every witness, and the whole graph by its digest."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from tests.spec.explored import CASES, Case, explored, pin_of, verdicts, written

from loopspec.kernel.graph import digest_edges
from loopspec.worlds.world import edge_digest, named_law

LONG = ("driver-seed-v0-quick", "driver-dsh-0.1-v0-quick", "driver-seed-v0-faults", "driver-dsh-0.1-v0-faults")
"""A hundred thousand states and more each: by `make explore-pins`, which asks for them in the environment."""


def chosen(case: Case) -> Any:
    """The case, marked when it takes minutes."""
    asked = os.environ.get("LOOPSPEC_LONG") == "1"
    marks = (
        [pytest.mark.skip(reason="takes minutes; run `make explore-pins`")] if case.name in LONG and not asked else []
    )
    return pytest.param(case, marks=marks, id=case.name)


@pytest.mark.parametrize("case", [chosen(case) for case in CASES])
def test_every_promise_holds_and_the_graph_is_the_pinned_one(case: Case) -> None:
    world, exploration = explored(case)
    assert exploration.complete, exploration.why_incomplete
    assert verdicts(exploration) == {}
    pin = json.loads(written(case).read_text())
    assert pin_of(world, exploration) == pin, "to pin again: .venv/bin/python -m tests.spec.explored"


def test_no_rule_of_the_driver_is_unused_everywhere() -> None:
    unused = [set(json.loads(written(case).read_text())["unused rules"]) for case in CASES if case.machine == "driver"]
    assert set.intersection(*unused) == set()


def test_the_fast_digest_is_the_digest_of_the_kernel() -> None:
    _, exploration = explored(Case("retry", "seed", 0, "chains"))
    assert exploration.graph is not None
    assert edge_digest(exploration.graph) == digest_edges(named_law(exploration.graph))
