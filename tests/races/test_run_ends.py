"""Ends of a run: between the last look at the lists and idle (agent-loop 19.4, LR-070 to LR-087)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.harness.conversation import Conversation, busy, conversation
from tests.races.staging import BOTH, NOTHING, REENTRY, REJECT, USER, Attempts, ran

from loopharness.model.scripted import fail, text
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
IDLE = "E agent/status idle"


@asynccontextmanager
async def exit_gap(profile: Profile, *acts: Callable[[Conversation], object]) -> AsyncIterator[Conversation]:
    """One turn; `acts` in the tick between its end and idle; then idle again."""
    async with busy(profile=profile) as talk:
        gap = talk.hold_point("gap")
        talk.gate.open()
        await gap.reached()
        assert talk.ends() == ["completed"]
        assert talk.agent.status == "running"
        for act in acts:
            act(talk)
        gap.open()
        await talk.idle()
        yield talk


@pytest.mark.parametrize("kind", ["followup", "steer", "inject"])
@BOTH
async def test_lr_070_a_send_in_the_exit_gap(profile: Profile, kind: str) -> None:
    """Published: inserted and parked, whether it wakes or not. Seed: a wake is latched and replayed."""
    async with exit_gap(profile, lambda talk: getattr(talk, kind)("b")) as talk:
        if profile == "dsh-0.1" or kind == "inject":
            assert talk.pending() == (([], ["b"]) if kind == "followup" else (["b"], []))
            assert talk.statuses() == ["idle"]
        else:
            assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
            assert talk.statuses() == ["idle", "running", "idle"]


@BOTH
async def test_lr_071_a_cancel_and_a_send_in_the_exit_gap(profile: Profile) -> None:
    """The cancel arms the latch: the message is replayed."""
    async with exit_gap(profile, lambda talk: talk.agent.cancel(USER), lambda talk: talk.followup("b")) as talk:
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.ends() == ["completed", "completed"]


@pytest.mark.parametrize("keep", [False, True])
@BOTH
async def test_lr_072_a_cancel_in_the_exit_gap(profile: Profile, keep: bool) -> None:
    """Nothing can be seen of it, and it hurts nobody later."""
    async with exit_gap(profile, lambda talk: talk.agent.cancel(USER, keep_inbox=keep)) as talk:
        assert talk.since("S turn/end 1 completed") == [IDLE]
        talk.followup("b")
        await talk.idle()
        assert talk.ends() == ["completed", "completed"]


@BOTH
async def test_lr_073_a_keeping_cancel_between_two_turns(profile: Profile) -> None:
    """The next turn never opens, no cause is recorded, the input is parked."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        gap = talk.hold_point("gap")
        talk.gate.open()
        await gap.reached()
        talk.agent.cancel(USER, keep_inbox=True)
        gap.open()
        await talk.idle()
        assert talk.ends() == ["completed"]
        assert talk.count("S turn/start 2") == 0
        assert talk.pending() == ([], ["q"])
        assert talk.statuses() == ["idle"]


@BOTH
async def test_lr_074_a_keeping_cancel_from_the_observer_of_turn_end(profile: Profile) -> None:
    """Published: lost, the next turn has a fresh signal and runs. Seed: the next turn does not open."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.at("S turn/end 1", lambda: talk.agent.cancel(USER, keep_inbox=True))
        await talk.release()
        if profile == "dsh-0.1":
            assert talk.ends() == ["completed", "completed"]
        else:
            assert talk.ends() == ["completed"]
            assert talk.pending() == ([], ["q"])


@BOTH
async def test_lr_075_a_clearing_cancel_from_the_observer_of_turn_end(profile: Profile) -> None:
    """Published: it throws and is lost, the next turn runs. Seed: the input is discarded and no turn follows."""
    refused = Attempts()
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.at("S turn/end 1", lambda: refused.make(lambda: talk.agent.cancel(USER)))
        await talk.release()
        if profile == "dsh-0.1":
            assert refused.errors == [REENTRY]
            assert talk.ends() == ["completed", "completed"]
        else:
            assert refused.errors == []
            assert talk.ends() == ["completed"]
            assert talk.count("E agent/inbox/discarded q") == 1


@pytest.mark.parametrize("keep", [False, True])
@BOTH
async def test_lr_076_a_cancel_from_the_observer_of_the_last_turn_end(profile: Profile, keep: bool) -> None:
    """The recorded reason stays, and the run ends."""
    async with busy(profile=profile) as talk:
        talk.at("S turn/end 1", lambda: talk.agent.cancel(USER, keep_inbox=keep))
        await talk.release()
        assert talk.since("S turn/end 1 completed") == [IDLE]
        (end,) = talk.records("turn/end")
        assert end["reason"] == {"kind": "completed"}


@BOTH
async def test_lr_077_a_followup_from_a_listener_of_idle(profile: Profile) -> None:
    """A nested driver; whoever waits for idleness waits for it; later listeners see running, then a stale idle."""
    seen: list[tuple[str, str]] = []
    async with busy(profile=profile) as talk:
        talk.harness.on("agent/status", lambda payload: seen.append((payload["status"], talk.agent.status)))
        talk.at(IDLE, lambda: talk.followup("b"))
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["idle", "running", "idle"]
        assert seen == [("running", "running"), ("idle", "running"), ("idle", "idle")]


@BOTH
async def test_lr_078_a_followup_and_a_clearing_cancel_from_a_listener_of_idle(profile: Profile) -> None:
    """The new turn opens and is aborted without a step; later work is not affected."""
    async with busy(profile=profile) as talk:
        talk.at(IDLE, lambda: talk.followup("b"), lambda: talk.agent.cancel(USER))
        await talk.release()
        assert talk.ends() == ["completed", "aborted user"]
        assert ran(talk) == [["a"]]
        talk.followup("c")
        await talk.idle()
        assert talk.ends() == ["completed", "aborted user", "completed"]
        assert talk.batches()[-1] == (3, 1, ["c"])


@BOTH
async def test_lr_079_the_same_and_another_followup(profile: Profile) -> None:
    """The last one is replayed."""
    async with busy(profile=profile) as talk:
        talk.at(IDLE, lambda: talk.followup("b"), lambda: talk.agent.cancel(USER), lambda: talk.followup("c"))
        await talk.release()
        assert talk.ends() == ["completed", "aborted user", "completed"]
        assert talk.batches() == [(1, 1, ["a"]), (3, 1, ["c"])]


@BOTH
async def test_lr_080_a_prompt_behind_a_turn_that_failed(profile: Profile) -> None:
    """Parked; the next wake runs it first."""
    async with conversation(fail(), always=FINE, profile=profile) as talk:
        talk.followup("a")
        talk.followup("q")
        await talk.idle()
        assert talk.ends() == ["error"]
        assert talk.pending() == ([], ["q"])
        talk.followup("w")
        await talk.idle()
        assert ran(talk) == [["a"], ["q"], ["w"]]


@BOTH
async def test_lr_081_a_prompt_behind_a_turn_that_was_blocked(profile: Profile) -> None:
    """Parked."""
    async with conversation(profile=profile) as talk:
        talk.during("agent/pre-step", answer=REJECT)
        talk.followup("a")
        talk.followup("q")
        await talk.idle()
        assert talk.ends() == ["blocked"]
        assert talk.pending() == ([], ["q"])
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_082_a_prompt_behind_a_first_batch_that_was_emptied(profile: Profile) -> None:
    """The turn completes without a step; the prompt is parked."""
    async with conversation(profile=profile) as talk:
        talk.during("agent/pre-step", answer=NOTHING)
        talk.followup("a")
        talk.followup("q")
        await talk.idle()
        assert talk.ends() == ["completed"]
        assert talk.batches() == []
        assert talk.pending() == ([], ["q"])


@pytest.mark.parametrize(("reason", "end"), [("stop", "completed"), ("max-tokens", "max-tokens")])
@BOTH
async def test_lr_083_a_prompt_behind_a_turn_that_ended_well(profile: Profile, reason: str, end: str) -> None:
    """It runs in the same running interval."""
    async with conversation(text("One.", reason=reason), FINE, profile=profile) as talk:
        talk.followup("a")
        talk.followup("q")
        await talk.idle()
        assert talk.ends() == [end, "completed"]
        assert ran(talk) == [["a"], ["q"]]
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_084_a_followup_from_a_listener_of_an_error(profile: Profile) -> None:
    """Published: parked, the run has decided to end. Seed: latched and replayed."""
    async with conversation(fail(), FINE, profile=profile) as talk:
        talk.at("E agent/error", lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        if profile == "dsh-0.1":
            assert talk.ends() == ["error"]
            assert talk.pending() == ([], ["b"])
        else:
            assert talk.ends() == ["error", "completed"]
            assert talk.batches()[1:] == [(2, 1, ["b"])]


@BOTH
async def test_lr_085_a_cancel_and_a_followup_from_a_listener_of_an_error(profile: Profile) -> None:
    """The turn stays an error; the message is replayed."""
    async with conversation(fail(), FINE, profile=profile) as talk:
        talk.at("E agent/error", lambda: talk.agent.cancel(USER), lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["error", "completed"]
        assert talk.batches()[1:] == [(2, 1, ["b"])]


@asynccontextmanager
async def behind_the_answer(profile: Profile, act: Callable[[Conversation], Any]) -> AsyncIterator[Conversation]:
    """`act` at the first await point behind the records of a final answer, where what they queued may run."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        point = talk.hold_point("turn-stopping")
        talk.followup("a")
        await point.reached()
        assert talk.trace[-1] == "S step/end 1.1"
        act(talk)
        point.open()
        await talk.idle()
        yield talk


@pytest.mark.parametrize("kind", ["steer", "inject"])
@BOTH
async def test_lr_086_steering_behind_the_final_answer(profile: Profile, kind: str) -> None:
    """The same turn gets one more step."""
    async with behind_the_answer(profile, lambda talk: getattr(talk, kind)("s")) as talk:
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["s"])]
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_087_a_followup_behind_the_final_answer(profile: Profile) -> None:
    """The next turn of the same run."""
    async with behind_the_answer(profile, lambda talk: talk.followup("b")) as talk:
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["running", "idle"]
