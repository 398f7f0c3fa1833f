"""Cancel against delivery (agent-loop 19.3): LR-050 to LR-062. `behind` is the trace from the window to the end."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest
from tests.harness.conversation import busy, conversation, message
from tests.races.staging import BOTH, HOOK, PARENT, REJECT, USER, ran

from loopharness.model.scripted import text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
CALL = tool_calls(("c1", "work", {}), say="Wait.")
CALLS = tool_calls(("c1", "work", {}), ("c2", "work", {}))
IDLE = "E agent/status idle"
ABORTED = ["S turn/end 1 aborted user", IDLE]
CLOSED = ["S step/end 1.1", *ABORTED]


@pytest.mark.parametrize("keep", [False, True])
@BOTH
async def test_lr_050_a_cancel_of_an_idle_agent_with_empty_lists(profile: Profile, keep: bool) -> None:
    """Nothing happens, and nothing is armed: the next prompt runs."""
    async with conversation(FINE, profile=profile) as talk:
        talk.agent.cancel(USER, keep_inbox=keep)
        assert talk.trace == []
        assert not talk.agent.signal.aborted
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["completed"]
        talk.agent.cancel(USER, keep_inbox=keep)
        assert not talk.agent.signal.aborted


@BOTH
async def test_lr_051_a_clearing_cancel_of_an_idle_agent(profile: Profile) -> None:
    """Both lists are cleared, with records and events, next-step first; the status stays."""
    async with conversation(profile=profile) as talk:
        talk.inject("s")
        talk.agent.send(message("q"), "next-turn", False)
        talk.trace.clear()
        talk.agent.cancel(USER)
        assert talk.trace == [
            "S agent/inbox/spliced next-step 0 -1 canceled",
            "E agent/inbox/discarded s",
            "S agent/inbox/spliced next-turn 0 -1 canceled",
            "E agent/inbox/discarded q",
        ]
        assert talk.agent.status == "idle"


@BOTH
async def test_lr_052_a_keeping_cancel_right_after_a_waking_send(profile: Profile) -> None:
    """There is nothing to keep: the batch was claimed, and is lost with its turn."""
    async with conversation(profile=profile) as talk:
        talk.followup("a")
        talk.agent.cancel(USER, keep_inbox=True)
        await talk.idle()
        assert talk.ends() == ["aborted user"]
        assert talk.batches() == []
        assert talk.pending() == ([], [])
        assert talk.count("E agent/inbox/discarded") == 0


@BOTH
async def test_lr_053_a_clearing_cancel_right_after_two_waking_sends(profile: Profile) -> None:
    """The first is lost with its turn, which has no step; the second is discarded."""
    async with conversation(profile=profile) as talk:
        talk.followup("a")
        talk.followup("b")
        talk.agent.cancel(USER)
        await talk.idle()
        assert talk.ends() == ["aborted user"]
        assert talk.batches() == []
        assert [line for line in talk.trace if "discarded" in line] == ["E agent/inbox/discarded b"]


@BOTH
async def test_lr_054_a_clearing_cancel_while_the_agent_becomes_running(profile: Profile) -> None:
    """No turn opens, the message is discarded, and whoever waits for idleness is answered."""
    async with conversation(profile=profile) as talk:
        talk.at("E agent/status running", lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        assert talk.since("E agent/status running") == [
            "S agent/inbox/spliced next-turn 0 -1 canceled",
            "E agent/inbox/discarded a",
            IDLE,
        ]


@pytest.mark.parametrize("later", [False, True])
@BOTH
async def test_lr_055_the_same_and_then_a_followup(profile: Profile, later: bool) -> None:
    """Inside the window or later in the same tick: the driver ends without a turn, the replay opens turn 1."""
    async with conversation(FINE, profile=profile) as talk:
        sends = [] if later else [lambda: talk.followup("b")]
        talk.at("E agent/status running", lambda: talk.agent.cancel(USER), *sends)
        talk.followup("a")
        assert talk.agent.status == "running"
        if later:
            talk.followup("b")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["b"])]
        assert talk.statuses() == ["running", "idle", "running", "idle"]


@BOTH
async def test_lr_055_the_same_with_a_keeping_cancel(profile: Profile) -> None:
    """The kept message is turn 1, the other one turn 2."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.at("E agent/status running", lambda: talk.agent.cancel(USER, keep_inbox=True), lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.ends() == ["completed", "completed"]


@BOTH
async def test_lr_056_a_clearing_cancel_and_a_followup_before_the_pre_step_verdict(profile: Profile) -> None:
    """The turn aborts without a step; the new prompt is the next turn."""
    async with conversation(FINE, profile=profile) as talk:
        gate = talk.hold("agent/pre-step")
        talk.followup("a")
        await gate.reached()
        talk.agent.cancel(USER)
        talk.followup("b")
        gate.open()
        await talk.idle()
        assert talk.ends() == ["aborted user", "completed"]
        assert talk.batches() == [(2, 1, ["b"])]


@BOTH
async def test_lr_057_a_clearing_cancel_of_a_turn_with_steering(profile: Profile) -> None:
    """The steering is discarded, and never comes back as a prompt."""
    async with busy(profile=profile) as talk:
        talk.steer("s")
        talk.agent.cancel(USER)
        await talk.release()
        assert talk.count("E agent/inbox/discarded s") == 1
        assert talk.pending() == ([], [])
        assert ran(talk) == [["a"]]
        assert talk.statuses() == ["idle"]


@BOTH
async def test_lr_058_a_keeping_cancel_of_a_turn_with_steering(profile: Profile) -> None:
    """The steering stays where it is, and rides in front of the next wake."""
    async with busy(profile=profile) as talk:
        talk.steer("s")
        talk.agent.cancel(USER, keep_inbox=True)
        await talk.release()
        assert talk.pending() == (["s"], [])
        talk.followup("b")
        await talk.idle()
        assert talk.batches()[1:] == [(2, 1, ["s", "b"])]


@BOTH
async def test_lr_059_two_cancels_with_different_causes(profile: Profile) -> None:
    """The first is recorded, and its very object is the signal's reason."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(HOOK)
        talk.agent.cancel(PARENT, keep_inbox=True)
        talk.agent.cancel(USER)
        assert talk.agent.signal.reason is HOOK
        await talk.release()
        (end,) = talk.records("turn/end")
        assert end["reason"] == {"kind": "aborted", "reason": {"kind": "hook", "reason": "policy"}}


@BOTH
async def test_lr_060_somebody_waits_for_idleness_already(profile: Profile) -> None:
    """A cancel before any step answers him."""
    answered: list[str] = []
    async with conversation(profile=profile) as talk, anyio.create_task_group() as group:

        async def wait(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            task_status.started()
            await talk.idle()
            answered.append(talk.agent.status)

        gate = talk.hold("agent/pre-step")
        talk.followup("a")
        await group.start(wait)
        await gate.reached()
        assert answered == []
        talk.agent.cancel(USER)
        gate.open()
    assert answered == ["idle"]


@BOTH
async def test_lr_061_a_clearing_cancel_from_the_observer_of_another_session(profile: Profile) -> None:
    """Appends are guarded per session: it clears and aborts at once."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        other = await talk.harness.create_agent("other")

        def observe(session: Any, event: Any) -> None:
            if session is other.session:
                talk.agent.cancel(USER)
                talk.mark(f"pending {talk.pending()}, aborted {talk.agent.signal.aborted}")

        remove = talk.harness.on("session/event", observe)
        other.session.append("plan/mode", {"active": True})
        remove()
        assert talk.trace[-1] == "-- pending ([], []), aborted True"
        await talk.release()
        assert talk.ends() == ["aborted user"]


@BOTH
async def test_lr_062_a_pre_step_listener_cancels_sends_and_rejects(profile: Profile) -> None:
    """The abort wins over the verdict, with its cause; the followup is latched and replayed."""
    async with conversation(FINE, profile=profile) as talk:
        cancel = partial(talk.agent.cancel, HOOK, keep_inbox=True)
        talk.during("agent/pre-step", cancel, lambda: talk.followup("f"), answer=REJECT)
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["aborted hook", "completed"]
        assert talk.batches() == [(2, 1, ["f"])]
