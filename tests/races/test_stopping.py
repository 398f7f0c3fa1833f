"""Stopping and turn end (agent-loop 19.9, LR-170 to LR-180)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.conversation import busy, conversation, message
from tests.races.staging import BOTH, USER, Planned

from loopharness.model.scripted import fail, text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
STOPPING = "agent/turn-stopping"


@pytest.mark.parametrize("kind", ["steer", "inject"])
@BOTH
async def test_lr_170_steering_while_the_turn_is_stopping(profile: Profile, kind: str) -> None:
    """The next step of the same turn; the event fires again behind it."""
    fired: list[int] = []
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.harness.on(STOPPING, lambda payload: fired.append(payload["turn"]))
        talk.during(STOPPING, lambda: getattr(talk, kind)("s"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["s"])]
        assert talk.ends() == ["completed"]
        assert fired == [1, 1]


@BOTH
async def test_lr_171_a_followup_while_the_turn_is_stopping(profile: Profile) -> None:
    """The turn ends, the next one follows in the same run."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.during(STOPPING, lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_172_steering_is_taken_back_while_the_turn_is_stopping(profile: Profile) -> None:
    """The turn ends."""
    async with conversation(FINE, profile=profile) as talk:
        talk.during(STOPPING, lambda: talk.steer("s"), lambda: talk.agent.inbox.remove("s"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"])]
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_173_a_cancel_while_the_turn_is_stopping(profile: Profile) -> None:
    """Aborted, without a further step."""
    async with conversation(FINE, profile=profile) as talk:
        talk.during(STOPPING, lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["aborted user"]
        assert talk.batches() == [(1, 1, ["a"])]


@BOTH
async def test_lr_174_a_cancel_and_a_steer_while_the_turn_is_stopping(profile: Profile) -> None:
    """Aborted; the steering becomes a prompt, is latched and replayed."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.during(STOPPING, lambda: talk.agent.cancel(USER), lambda: talk.steer("s"))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["aborted user", "completed"]
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["s"])]
        assert talk.statuses() == ["running", "idle", "running", "idle"]


@pytest.mark.parametrize(("answer", "later"), [("anything", 0), (0, 0), ({}, 0), (None, 1), (False, 1)])
@BOTH
async def test_lr_175_a_listener_answers_while_the_turn_is_stopping(profile: Profile, answer: Any, later: int) -> None:
    """Everything but nothing and false keeps later listeners from hearing; the answer has no other effect."""
    heard: list[int] = []
    async with conversation(FINE, profile=profile) as talk:
        talk.harness.on(STOPPING, lambda payload: answer)
        talk.harness.on(STOPPING, lambda payload: heard.append(1))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["completed"]
        assert len(heard) == later


@BOTH
async def test_lr_176_a_listener_throws_while_the_turn_is_stopping(profile: Profile) -> None:
    """The turn is an error; the agent lives on."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.during(STOPPING, answer=Planned("broken"))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["error"]
        assert talk.count("E agent/error 1.1") == 1
        talk.followup("b")
        await talk.idle()
        assert talk.ends() == ["error", "completed"]


@BOTH
async def test_lr_177_tools_behind_max_tokens(profile: Profile) -> None:
    """The turn closes as max-tokens, and nobody answers the results."""
    script = (text("Cut", reason="max-tokens"), tool_calls(("c1", "work", {})))
    async with conversation(*script, profile=profile) as talk:
        talk.tool("work")
        talk.during(STOPPING, lambda: talk.steer("s"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["s"])]
        assert talk.ends() == ["max-tokens"]
        assert talk.trace[-4:] == [
            "S tool/result c1",
            "S step/end 1.2",
            "S turn/end 1 max-tokens",
            "E agent/status idle",
        ]
        assert len(talk.adapter.requests) == 2


@BOTH
async def test_lr_178_an_answer_behind_max_tokens(profile: Profile) -> None:
    """max-tokens sticks to its turn, and only to that."""
    async with conversation(text("Cut", reason="max-tokens"), FINE, FINE, profile=profile) as talk:
        talk.during(STOPPING, lambda: talk.steer("s"))
        talk.followup("a")
        talk.followup("b")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["s"]), (2, 1, ["b"])]
        assert talk.ends() == ["max-tokens", "completed"]


@pytest.mark.parametrize("failed", [False, True])
@BOTH
async def test_lr_179_a_cancel_from_the_observer_of_step_end(profile: Profile, failed: bool) -> None:
    """Aborted, whether the step succeeded or failed; what a keeping cancel kept is parked."""
    async with conversation(fail() if failed else FINE, profile=profile) as talk:
        talk.during(STOPPING, lambda: talk.mark("stopping"))
        talk.at("S step/end 1.1", lambda: talk.agent.cancel(USER, keep_inbox=True))
        talk.followup("a")
        talk.followup("q")
        talk.inject("i")
        await talk.idle()
        assert talk.since("S step/end 1.1") == ["S turn/end 1 aborted user", "E agent/status idle"]
        assert talk.pending() == (["i"], ["q"])


@BOTH
async def test_lr_180_only_input_that_woke_nobody_waits_at_the_end_of_a_turn(profile: Profile) -> None:
    """It opens a further turn."""
    async with busy(profile=profile) as talk:
        talk.agent.send(message("n"), "next-turn", False)
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["n"])]
        assert talk.statuses() == ["idle"]
