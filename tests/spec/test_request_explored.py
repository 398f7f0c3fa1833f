"""Requests within their bounds: every promise, every witness, the whole graphs; and each fault is noticed."""

from __future__ import annotations

import json

import pytest
from tests.spec.explored import verdicts
from tests.spec.mutants_request import MUTANTS, Mutant, applied
from tests.spec.request_runs import CASES, digest, explored, pin_of, written

from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import ExplorationError
from loopspec.profile import PROFILES, Law, law


@pytest.mark.parametrize(("name", "session_format"), CASES)
def test_every_promise_holds_and_the_graph_is_the_pinned_one(name: str, session_format: int) -> None:
    found = explored(name, session_format)
    assert found.complete, found.why_incomplete
    assert verdicts(found) == {}
    pin = json.loads(written(name, session_format).read_text())
    assert pin_of(found) == pin, "to pin again: .venv/bin/python -m tests.spec.request_runs"


def test_the_profiles_do_not_differ_here() -> None:
    """So the explorations under `seed` speak for all."""

    def answers(rules: Law) -> tuple[bool, bool]:
        return rules.streams_are_embedded, rules.admission_follows_preparation

    for session_format in (0, 4):
        assert len({answers(law(profile, session_format)) for profile in PROFILES}) == 1


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_dies_by_its_promise_or_changes_nothing(mutant: Mutant) -> None:
    if mutant.killer == "equivalent":
        original = digest(explored(mutant.bound, mutant.session_format))
        with applied(mutant):
            assert digest(explored(mutant.bound, mutant.session_format)) == original
        return
    if mutant.killer == "crash":
        with applied(mutant), pytest.raises(ExplorationError):
            explored(mutant.bound, mutant.session_format, only="INV-L4")
        return
    with applied(mutant):
        found = explored(mutant.bound, mutant.session_format, only=mutant.killer)
    assert found.verdicts[mutant.killer] is Verdict.FAIL


def test_mutants_have_names_of_their_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
