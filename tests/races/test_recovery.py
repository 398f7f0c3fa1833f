"""Recovery: what happens while `agent/request-error` decides (agent-loop 19.7, LR-130 to LR-137)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.conversation import conversation, message
from tests.races.staging import BOTH, RETRY, USER, Planned, places

from loopharness.model.scripted import fail, text
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")


@pytest.mark.parametrize("answer", [RETRY, None])
@BOTH
async def test_lr_130_a_cancel_beats_a_retry(profile: Profile, answer: Any) -> None:
    """Aborted: no new attempt, no anchor."""
    async with conversation(fail(), profile=profile) as talk:
        talk.during("agent/request-error", lambda: talk.agent.cancel(USER), answer=answer)
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["aborted user"]
        assert len(talk.adapter.requests) == 1
        assert talk.records("assistant/message") == []
        assert talk.count("E agent/error") == 0


@pytest.mark.parametrize("kind", ["inject", "steer"])
@BOTH
async def test_lr_131_steering_during_recovery(profile: Profile, kind: str) -> None:
    """The retried request does not have it; it is claimed at the next boundary."""
    async with conversation(fail(), FINE, FINE, profile=profile) as talk:
        talk.during("agent/request-error", lambda: getattr(talk, kind)("s"), answer=RETRY)
        talk.followup("a")
        await talk.idle()
        assert talk.asked(1) == ["a"]
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["s"])]
        assert talk.asked(2) == ["a", "Fine.", "s"]


@BOTH
async def test_lr_132_history_changes_during_recovery(profile: Profile) -> None:
    """The retried request is derived anew: an appended message is in it, a replaced one is not."""
    async with conversation(fail(), FINE, profile=profile) as talk:
        log = talk.agent.session

        def rewrite() -> None:
            seq = next(event["seq"] for event in log.events if event["type"] == "user/message")
            log.append("user/message", message("b"), {"op": "replace", "start": seq, "end": seq}, [seq])
            log.append("user/message", message("c"), "append")

        talk.during("agent/request-error", rewrite, answer=RETRY)
        talk.followup("a")
        await talk.idle()
        assert [talk.asked(0), talk.asked(1)] == [["a"], ["b", "c"]]
        assert places(talk) == [(1, 1)]


@BOTH
async def test_lr_133_a_recovery_listener_throws(profile: Profile) -> None:
    """Its error is the turn's; the failure of the provider is lost."""
    async with conversation(fail("no capacity"), profile=profile) as talk:
        talk.during("agent/request-error", answer=Planned("broken"))
        talk.followup("a")
        await talk.idle()
        (end,) = talk.records("turn/end")
        assert end["reason"] == {"kind": "error", "error": {"message": "broken", "code": "UNKNOWN"}}


@BOTH
async def test_lr_134_a_recovery_listener_cancels_and_throws(profile: Profile) -> None:
    """Aborted."""
    async with conversation(fail(), profile=profile) as talk:
        talk.during("agent/request-error", lambda: talk.agent.cancel(USER), answer=Planned("broken"))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["aborted user"]
        assert talk.count("E agent/error") == 0


@BOTH
async def test_lr_135_a_retry_takes_another_route(profile: Profile) -> None:
    """A second header, reason `change`, inside the open step."""
    async with conversation(fail(), FINE, profile=profile) as talk:

        def reroute(payload: Any, proceed: Any) -> Any:
            return {"provider": "mock", "model": "m2"} if talk.adapter.requests else proceed()

        talk.harness.on("agent/request", reroute)
        talk.during("agent/request-error", answer=RETRY)
        talk.followup("a")
        await talk.idle()
        assert [line for line in talk.trace if "request/header" in line or "step" in line] == [
            "S step/start 1.1",
            "S request/header initial",
            "S request/header change",
            "S step/end 1.1",
        ]
        assert [request["model"] for request in talk.adapter.requests] == ["m1", "m2"]


@BOTH
async def test_lr_136_a_retry_succeeds(profile: Profile) -> None:
    """One anchor that cites its own chunks only; status, turn and step are what they were."""
    async with conversation(fail(), FINE, profile=profile) as talk:
        talk.during("agent/request-error", answer=RETRY)
        talk.followup("a")
        await talk.idle()
        events = talk.agent.session.events
        failed, *own = [event["seq"] for event in events if event["type"] == "assistant/chunk"]
        (anchor,) = [event for event in events if event["type"] == "assistant/message"]
        assert list(anchor["sourceEventSeqs"]) == own
        assert failed < own[0]
        assert talk.statuses() == ["running", "idle"]
        assert places(talk) == [(1, 1)]
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_137_a_followup_during_a_recovery_that_fails(profile: Profile) -> None:
    """Parked: it was sent before the run decided to end."""
    async with conversation(fail(), profile=profile) as talk:
        talk.during("agent/request-error", lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["error"]
        assert talk.pending() == ([], ["b"])
        assert talk.statuses() == ["running", "idle"]
