"""Symbolic execution of the inbox's plain functions: explored completely, only unrefuted, or refuted by a fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from crosshair.core_and_libs import analyze_function, run_checkables
from crosshair.options import AnalysisKind, AnalysisOptionSet
from crosshair.statespace import MessageType
from tests.contracts.inbox_contracts import (
    CONTRACTS,
    claimed_takes_steps_then_one_prompt,
    found_where_it_is,
    normalised_counts_from_the_end,
    normalised_stays_inside,
    replay_refuses_duplicates,
    replay_refuses_what_is_outside,
    spliced_has_the_right_length,
)
from tests.spec.mutation import Mutant, applied

from loopspec import inbox

UNREFUTED: frozenset[str] = frozenset({"replay_refuses_duplicates"})
"""Contracts that are not explored completely in their time: no counterexample was found, and that is all."""


def verdict(contract: Callable[..., bool], seconds: float = 8.0) -> MessageType:
    """The worst thing that symbolic execution has to say. No message at all would be a contract that was not read."""
    options = AnalysisOptionSet(per_condition_timeout=seconds, report_all=True, analysis_kind=(AnalysisKind.PEP316,))
    messages = run_checkables(analyze_function(contract, options))
    assert messages, f"{contract.__name__} has no condition"
    return max((message.state for message in messages), key=lambda state: list(MessageType).index(state))


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract.__name__)
def test_the_contract_holds_for_every_input(contract: Callable[..., bool]) -> None:
    unrefuted = contract.__name__ in UNREFUTED
    found = verdict(contract, 1.0 if unrefuted else 8.0)
    completely = found is MessageType.CONFIRMED
    print(f"{contract.__name__}: {'explored completely' if completely else f'only unrefuted ({found.name})'}")
    assert completely or (unrefuted and found is MessageType.CANNOT_CONFIRM)


FAULTS: tuple[tuple[Callable[..., bool], Mutant], ...] = (
    (normalised_stays_inside, Mutant("no clamp", "normalised", "min(first, length)", "first", "", "")),
    (normalised_stays_inside, Mutant("count", "normalised", "length - first)", "length)", "", "")),
    (normalised_counts_from_the_end, Mutant("no end", "normalised", "max(length + first, 0)", "0", "", "")),
    (spliced_has_the_right_length, Mutant("kept", "spliced", "start + removed_count", "start", "", "")),
    (claimed_takes_steps_then_one_prompt, Mutant("two prompts", "claimed_by", "[:1]", "[:2]", "", "")),
    (found_where_it_is, Mutant("half", "find", "if message in next_step:", "if False:", "", "")),
    (
        replay_refuses_what_is_outside,
        Mutant("outside", "replayed", "0 <= removed_count <= len(items) - start", "0 <= removed_count", "", ""),
    ),
    (replay_refuses_duplicates, Mutant("twice", "replayed", "> 1", "> 2", "", "")),
)


@pytest.mark.parametrize(("contract", "fault"), FAULTS, ids=lambda one: getattr(one, "name", ""))
def test_a_fault_is_refuted(contract: Callable[..., bool], fault: Mutant) -> None:
    with applied(fault, {}, {"inbox": inbox}):
        assert verdict(contract) in (MessageType.POST_FAIL, MessageType.EXEC_ERR)
