"""Fibers join at their first call and leave with their unload; a number is given again when nothing names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.spec.creation_runs import Run, alive, create

from loopspec import fibers
from loopspec.transaction import NOWHERE


def test_each_fiber_that_joins_gets_a_number_of_its_own() -> None:
    run = Run(callers=0)
    assert [run.call("join"), run.call("join")] == [("return", 2), ("return", 3)]
    assert run.config.core.fibers == ("active",) * 4


def test_a_number_is_given_again_after_the_unload() -> None:
    run = Run(callers=0)
    for _ in range(3):
        assert run.call("join") == ("return", 2)
        alive(run, 1)
        run.call("unload", 2)
        run.settle()
        assert run.empty


def half_gone() -> Run:
    """Published loops: the unload of an owner ends while its agent is still in its teardown (C-OWN-9)."""
    run = Run("dsh-0.1", callers=1)
    alive(run, 1)
    run.call("dispose", 1)
    run.call("unload", 2)
    run.settle("live", "drain")
    assert run.config.core.fibers[2] == "gone"
    assert run.config.core.members
    return run


def test_a_number_is_kept_while_a_transaction_names_it() -> None:
    run = half_gone()
    assert run.call("join") == ("return", 3)
    run.settle()
    assert run.call("join") == ("return", 2)


def provider_gone() -> Run:
    """The provider has left; its number is nobody else's."""
    run = Run(callers=0)
    run.call("unload", 1)
    run.settle()
    return run


def test_the_place_of_the_provider_is_given_to_nobody() -> None:
    assert provider_gone().call("join") == ("return", 2)


FAULTS: dict[str, tuple[Callable[[], Run], Callable[[Any, int], bool]]] = {
    "does not ask who names it": (half_gone, lambda s, fiber: fiber > 1 and s.fibers[fiber] == "gone"),
    "does not ask whose place it is": (provider_gone, lambda s, fiber: s.fibers[fiber] == "gone"),
    "does not ask whether it has left": (lambda: Run(callers=1), lambda s, fiber: fiber > 1),
    "is never": (lambda: _left(), lambda s, fiber: False),
}


def _left() -> Run:
    run = Run(callers=1)
    run.call("unload", 2)
    run.settle()
    return run


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_guard_gives_the_wrong_number(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    begin, wrong = FAULTS[fault]
    right = begin().call("join")
    monkeypatch.setattr(fibers, "is_vacant", wrong)
    assert begin().call("join") != right


def test_a_fiber_that_ended_before_it_joined_owns_nothing() -> None:
    """C-TXN-A4, F6"""
    run = Run(callers=0)
    assert create(run, 1, owner=("fiber", NOWHERE)) == ("reject", 1, "inactive-owner")
    assert run.empty
