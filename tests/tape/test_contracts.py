"""Symbolic execution of the tape's plain functions: every contract explored completely, or refuted by a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from crosshair.core_and_libs import analyze_function, run_checkables
from crosshair.options import AnalysisKind, AnalysisOptionSet
from crosshair.statespace import MessageType
from tests.spec.mutation import changed
from tests.tape import tape_contracts as contracts
from tests.tape.tape_contracts import CONTRACTS

from loopspec.tape import config, entry, select


def verdict(contract: Callable[..., bool]) -> MessageType:
    """The worst thing that symbolic execution has to say. No message at all would be a contract that was not read."""
    options = AnalysisOptionSet(per_condition_timeout=8.0, report_all=True, analysis_kind=(AnalysisKind.PEP316,))
    messages = run_checkables(analyze_function(contract, options))
    assert messages, f"{contract.__name__} has no condition"
    return max((message.state for message in messages), key=lambda state: list(MessageType).index(state))


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_contract(contract: Callable[..., bool]) -> None:
    assert verdict(contract) is MessageType.CONFIRMED


@pytest.mark.parametrize(
    ("contract", "module", "name", "old", "new"),
    [
        (contracts.only_work_and_dead_snapshots, select, "eligible", " and not live", ""),
        (contracts.nothing_frozen_and_nothing_too_young, select, "eligible", "frozen or ", ""),
        (contracts.nothing_frozen_and_nothing_too_young, select, "eligible", "<= limits.turn", "<= limits.turn + 1"),
        (contracts.nothing_frozen_and_nothing_too_young, select, "eligible", "1 <= owner", "0 <= owner"),
        (contracts.work_of_the_open_turn_stays, select, "eligible", "seq <= limits.closed", "True"),
        (contracts.finished_work_is_taken, select, "eligible", "seq <= limits.closed", "seq < limits.closed"),
        (contracts.runs_cover_exactly_what_is_eligible, select, "runs", "[*flags, False]", "flags"),
        (contracts.entries_freeze_what_is_before_them, select, "frozen_until", "return at + 1", "return at"),
        (contracts.course_seals_only_what_it_may, config, "course", "step == 1", "step >= 1"),
        (contracts.course_seals_only_what_it_may, config, "exceeds", "step > cap", "step >= cap"),
        (contracts.a_cap_is_refused_exactly_when_too_small, entry, "check_cap", "SMALLEST_CAP <=", "SMALLEST_CAP <"),
        (contracts.shortened_replies_leave_something_out, entry, "level", "(500, 350, 125)", "(400, 350, 125)"),
        (contracts.read_lines_fit_the_cap, entry, "level", "min(READ_LINE_LIMIT, cap)", "READ_LINE_LIMIT"),
    ],
)
def test_a_fault_is_refuted(
    contract: Callable[..., bool], module: Any, name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, changed(getattr(module, name), old, new))
    assert verdict(contract) in (MessageType.POST_FAIL, MessageType.EXEC_ERR)
