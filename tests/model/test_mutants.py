"""Each named fault of the pure parts is noticed by the check that is named beside it."""

from __future__ import annotations

import pytest
from _pytest.outcomes import OutcomeException
from tests.model.checks import CHECKS, MODULES
from tests.model.mutants import MUTANTS
from tests.spec.mutation import Mutant, applied

from loopharness.model.failure import LlmError

NOTICED = (AssertionError, OutcomeException, LlmError, KeyError, TypeError, ValueError)
"""How a check can fail. A fault that does not even run, with a name that is not there, is no fault."""


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks_are_quiet_without_a_fault(name: str) -> None:
    CHECKS[name]()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_killed(mutant: Mutant) -> None:
    with applied(mutant, {}, MODULES), pytest.raises(NOTICED):
        CHECKS[mutant.killer]()


def test_every_check_has_a_fault_to_find() -> None:
    assert {mutant.killer for mutant in MUTANTS} == set(CHECKS)
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
