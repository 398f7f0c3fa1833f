"""Proposal: claim, assembly, runtime context and pre-step (agent-loop 19.5, LR-090 to LR-101)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.conversation import Conversation, conversation, message
from tests.races.staging import BOTH, NOTHING, REJECT, USER, Planned, Verdict, ran

from loopharness.model.scripted import text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
HEAD = "Current runtime context. This snapshot supersedes earlier runtime-context snapshots.\n\n"


@BOTH
async def test_lr_090_sends_while_pre_step_is_pending(profile: Profile) -> None:
    """Claimed at the next boundary of the turn."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        gate = talk.hold("agent/pre-step")
        talk.followup("a")
        await gate.reached()
        talk.inject("i")
        talk.steer("s")
        gate.open()
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["i", "s"])]


@BOTH
async def test_lr_091_sends_while_a_rejecting_pre_step_is_pending(profile: Profile) -> None:
    """Parked, and delivered with the next wake; the rejected batch never is."""
    async with conversation(FINE, profile=profile) as talk:
        gate = talk.hold("agent/pre-step", REJECT)
        talk.followup("a")
        await gate.reached()
        talk.inject("i")
        talk.steer("s")
        gate.open()
        await talk.idle()
        assert talk.ends() == ["blocked"]
        assert talk.pending() == (["i", "s"], [])
        talk.followup("b")
        await talk.idle()
        assert talk.batches() == [(2, 1, ["i", "s", "b"])]


@BOTH
async def test_lr_092_a_pre_step_listener_sends_and_rejects(profile: Profile) -> None:
    """Parked, although it is a wake: the run was live when it came, and ends with the verdict."""
    async with conversation(profile=profile) as talk:
        talk.during("agent/pre-step", lambda: talk.followup("f"), answer=REJECT)
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["blocked"]
        assert talk.pending() == ([], ["f"])
        assert talk.statuses() == ["running", "idle"]


@pytest.mark.parametrize("event", ["agent/pre-step", "system-prompt/assemble"])
@BOTH
async def test_lr_093_a_listener_of_the_proposal_throws(profile: Profile, event: str) -> None:
    """The turn is an error of step 0, the batch is lost, the queue is parked."""
    async with conversation(profile=profile) as talk:
        talk.hold(event, Planned("broken")).open()
        talk.followup("a")
        talk.followup("q")
        await talk.idle()
        assert talk.since("E agent/inbox/inserted q") == [
            "E agent/error 1.0",
            "S turn/end 1 error",
            "E agent/status idle",
        ]
        (end,) = talk.records("turn/end")
        assert end["reason"]["error"] == {"message": "broken", "code": "UNKNOWN"}
        assert talk.pending() == ([], ["q"])


@pytest.mark.parametrize("event", ["agent/pre-step", "system-prompt/assemble"])
@BOTH
async def test_lr_094_a_throw_behind_an_abort(profile: Profile, event: str) -> None:
    """Aborted, and no `agent/error`."""
    async with conversation(profile=profile) as talk:
        talk.during(event, lambda: talk.agent.cancel(USER), answer=Planned("broken"))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["aborted user"]
        assert talk.count("E agent/error") == 0


ENTER = {"kind": "enter", "messages": [message("e")]}


@pytest.mark.parametrize(
    ("verdict", "published"), [(REJECT, "blocked"), (NOTHING, "completed"), (ENTER, "aborted user")]
)
@BOTH
async def test_lr_095_an_abort_in_the_tick_behind_the_verdict(
    profile: Profile, verdict: dict[str, Any], published: str
) -> None:
    """Published: overtaken unless a step would open, and the cause is lost; a send behind it is latched all the same.
    Seed: there is no such tick, the reading of the verdict is the last moment, and the abort wins."""
    async with conversation(FINE, profile=profile) as talk:

        def interfere() -> None:
            talk.agent.cancel(USER, keep_inbox=True)
            talk.followup("b")

        if profile == "dsh-0.1":
            talk.during("agent/pre-step", answer=verdict)
            tick = talk.hold_point("tick")
            talk.followup("a")
            await tick.reached()
            interfere()
            tick.open()
        else:
            talk.during("agent/pre-step", answer=Verdict(verdict, interfere))
            talk.followup("a")
        await talk.idle()
        assert talk.ends() == [published if profile == "dsh-0.1" else "aborted user", "completed"]
        assert talk.batches() == [(2, 1, ["b"])]


async def second_proposal(talk: Conversation, verdict: dict[str, Any]) -> None:
    """One step; steering from `turn-stopping`; `verdict` on it. A prompt `q` waits behind."""

    def stopping() -> None:
        talk.steer("s")
        talk.during("agent/pre-step", answer=verdict)

    talk.during("agent/turn-stopping", stopping)
    talk.followup("a")
    talk.followup("q")
    await talk.idle()


@pytest.mark.parametrize("reason", ["stop", "max-tokens"])
@BOTH
async def test_lr_096_a_later_step_is_rejected(profile: Profile, reason: str) -> None:
    """Blocked, whatever the earlier steps gave."""
    async with conversation(text("One.", reason=reason), profile=profile) as talk:
        await second_proposal(talk, REJECT)
        assert talk.batches() == [(1, 1, ["a"])]
        assert talk.ends() == ["blocked"]
        assert talk.pending() == ([], ["q"])


@pytest.mark.parametrize(("reason", "end"), [("stop", "completed"), ("max-tokens", "max-tokens")])
@BOTH
async def test_lr_097_a_later_batch_is_emptied(profile: Profile, reason: str, end: str) -> None:
    """The turn closes with the earlier result, without a step; the queue goes on."""
    async with conversation(text("One.", reason=reason), FINE, profile=profile) as talk:
        await second_proposal(talk, NOTHING)
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["q"])]
        assert talk.ends() == [end, "completed"]
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_098_tool_results_are_owed_an_answer(profile: Profile) -> None:
    """An empty batch opens a step then, and the request is sent."""
    async with conversation(tool_calls(("c1", "work", {})), FINE, profile=profile) as talk:
        talk.tool("work")
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, [])]
        assert len(talk.adapter.requests) == 2


def clocked(talk: Conversation) -> list[str]:
    """A runtime context whose text is the last entry of the answer."""
    times = ["noon"]
    talk.harness.prompt.runtime_context(talk.harness.context, "clock", 0, lambda about: times[-1])
    return times


def entered(talk: Conversation) -> list[str]:
    """The texts that entered history."""
    return [data["content"][0]["text"] for data in talk.records("user/message")]


@BOTH
async def test_lr_099_the_runtime_context_changes(profile: Profile) -> None:
    """The new snapshot stands at the end of the next default decision, and only then."""
    async with conversation(always=FINE, profile=profile) as talk:
        times = clocked(talk)
        for id in ("a", "b"):
            talk.followup(id)
            await talk.idle()
        times.append("night")
        talk.inject("i")
        talk.followup("c")
        await talk.idle()
        assert entered(talk) == ["a", HEAD + "noon", "b", "i", "c", HEAD + "night"]


@BOTH
async def test_lr_100_a_listener_drops_the_snapshot(profile: Profile) -> None:
    """It is not retained, so it is proposed again."""
    async with conversation(always=FINE, profile=profile) as talk:
        clocked(talk)
        talk.during("agent/pre-step", answer={"kind": "enter", "messages": [message("a")]})
        talk.followup("a")
        await talk.idle()
        talk.followup("b")
        await talk.idle()
        assert entered(talk) == ["a", "b", HEAD + "noon"]


@BOTH
async def test_lr_101_the_snapshot_is_replaced_on_the_surface(profile: Profile) -> None:
    """It is sent again, although its text has not changed."""
    async with conversation(always=FINE, profile=profile) as talk:
        clocked(talk)

        def replace() -> None:
            log = talk.agent.session
            seq = next(e["seq"] for e in log.events if e["type"] == "user/message" and "plugin" in e["data"]["source"])
            log.append("user/message", message("short"), {"op": "replace", "start": seq, "end": seq}, [seq])
            talk.steer("s")

        talk.during("agent/turn-stopping", replace)
        talk.followup("a")
        await talk.idle()
        assert entered(talk) == ["a", HEAD + "noon", "short", "s", HEAD + "noon"]
        assert ran(talk)[1][0] == "s"
