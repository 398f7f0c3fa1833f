"""Faults of the machine, live: with a guard of `loopspec` removed the harness fails a named race."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anyio
import pytest
from tests.creation import test_races_in as way_in
from tests.creation import test_races_out as way_out
from tests.races import test_disposal as disposals
from tests.spec.mutation import Mutant, applied

from loopspec import creation, registry, teardown, transaction

MODULES: dict[str, Any] = {
    "creation": creation,
    "registry": registry,
    "teardown": teardown,
    "transaction": transaction,
}


class Killed(NamedTuple):
    """A fault and the race that shows it."""

    target: str
    old: str
    new: str
    race: Callable[[], Awaitable[None]]


MUTANTS = [
    Killed("is_free", "return not holder(s, kind, id)", "return True",
           way_in.test_r03_a_live_id_is_refused_before_setup),
    Killed("refusal_by_inputs", 'if not is_free(s, "session", id):', "if False:",
           way_in.test_r03_a_live_id_is_refused_before_setup),
    Killed("compose", "if t.reason:", "if False:", way_in.test_r08_abort_while_the_scope_is_minted),
    Killed("publish", 'return check(s, number, ("enter_session", number))', 'return go(s, ("enter_session", number))',
           way_in.test_r12_abort_inside_commit),
    Killed("session_announced", 'return check(s, number, ("announce_agent", number))',
           'return go(s, ("announce_agent", number))',
           lambda: way_in.test_r13_to_r15_abort_in_a_creation_listener(*way_in.EVENTS[0])),
    Killed("agent_announced", 'return check(s, number, ("announce_start", number))',
           'return go(s, ("announce_start", number))',
           lambda: way_in.test_r13_to_r15_abort_in_a_creation_listener(*way_in.EVENTS[1])),
    Killed("heard", "next_frame = failed if s.threw else then", "next_frame = then",
           lambda: way_out.test_r46_r47_and_r56_a_throwing_creation_listener("s+a", False)),
    Killed("is_talked_about", 'return entry.phase == "announcing" or entry.appending', "return False",
           way_out.test_r50_and_r51_withdrawing_and_announcing_again_inside_the_dispatch),
    Killed("detach", 'following = ("tell_disposed", kind, object, then) if entry.phase == "announced" else then',
           "following = then", way_in.test_r32_disposing_twice),
    Killed("stop", "if not owes_cancel(t):", "if True:",
           way_out.test_r39_dispose_from_the_running_notification),
    Killed("orphan", '("request", rest[0], "owner", (', '("request", rest[0], "provider", (',
           lambda: way_out.test_r61_a_parent_is_disposed_while_its_tool_creates_a_child(False)),
    Killed("is_gated", 'return t.driver in ("shut", "latched")', "return False",
           lambda: way_out.test_r57_to_r59_a_wake_before_publication("s+a", "seed")),
    Killed("refuses_boundary", 'return s.fibers[AGENTS] != "active"', "return False",
           way_out.test_r72_an_idle_agent_woken_in_the_closing_window),
    Killed("joined", "if s.law.every_owner_joins:", "if False:",
           lambda: way_out.test_r33_to_r36_every_owner_joins("handle", "owner")),
    Killed("agent_left", "if s.threw:", "if True:", way_in.test_r32_disposing_twice),
    Killed("heard_cancel", '("detach", "session", number, ("stopped", then))', '("stopped", then)',
           lambda: disposals.test_lr_228_disposal_from_the_observer_of_a_record_with_input_pending("dsh-0.1")),
    Killed("refusal", 'or ("inactive-owner" if owner_state(s, owner) == "gone" else "")', "",
           way_in.test_r29_and_r30_calls_at_a_closing_provider_or_owner),
]  # fmt: skip


@pytest.mark.parametrize("killed", MUTANTS, ids=lambda k: k.target)
def test_a_fault_of_the_machine_fails_a_race_on_the_harness(killed: Killed) -> None:
    mutant = Mutant(killed.target, killed.target, killed.old, killed.new, "", "")
    anyio.run(bounded, killed.race)
    with applied(mutant, {"creation": creation.rules}, MODULES), pytest.raises(KILLS) as seen:
        anyio.run(bounded, killed.race)
    assert "Timeout >" not in str(seen.value), "a test that hangs is not a verdict"


KILLS = (Exception, BaseExceptionGroup, pytest.fail.Exception)
"""What a failing race ends with: `pytest.fail.Exception` is what `pytest.raises` itself raises."""


async def bounded(race: Callable[[], Awaitable[None]]) -> None:
    """A race that a fault may make wait for ever: the time is a guard, no verdict depends on its length."""
    with anyio.fail_after(30):
        await race()
