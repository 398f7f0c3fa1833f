"""Races of requests and tools that the sheet of the loop does not number (llm-and-tools 17)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.harness.conversation import conversation, message
from tests.races.staging import BOTH, USER
from tests.races.test_tools import Bodies, batch, calls, results

from loopharness.model.scripted import text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")


@pytest.mark.parametrize("replaced", [False, True])
@BOTH
async def test_race_4_a_tool_goes_between_policy_and_dispatch(profile: Profile, replaced: bool) -> None:
    """Removed: unknown tool, its body never runs. Replaced: the new body runs."""
    async with conversation(calls("look"), FINE, profile=profile) as talk:
        ran: list[str] = []
        remove = talk.tool("look", lambda execution: ran.append("old"))

        def swap() -> None:
            remove()
            if replaced:
                talk.tool("look", lambda execution: ran.append("new"))

        talk.during("tools/pre-execute", swap)
        talk.followup("a")
        await talk.idle()
        assert ran == (["new"] if replaced else [])
        assert results(talk) == [("c1", "fine" if replaced else 'Error: unknown tool "look"')]


@BOTH
async def test_race_10_two_bodies_settle_before_the_lane_looks(profile: Profile) -> None:
    """The later call settles first, in the same moment: results stand in model order all the same."""
    async with conversation(calls("look", "look", "look"), FINE, profile=profile) as talk:
        bodies = Bodies()
        talk.harness.settings.max_parallel_tool_calls = 2
        talk.tool("look", bodies, concurrent=True)
        talk.followup("a")
        await bodies.gates["c1"].reached()
        await bodies.gates["c2"].reached()
        bodies.gates["c2"].open()
        bodies.gates["c1"].open()
        bodies.gates["c3"].open()
        await talk.idle()
        order = [line for line in batch(talk) if line.startswith("result")]
        assert order == ["result c1", "result c2", "result c3"]


@pytest.mark.parametrize("ids", [("",), ("c1", "c1")], ids=["empty", "twice"])
@BOTH
async def test_race_23_calls_that_cannot_be_told_apart(profile: Profile, ids: tuple[str, ...]) -> None:
    """The attempt fails as a malformed response, which recovery may see; `dsh-0.1` runs the calls."""
    answer = tool_calls(*((id, "look", {}) for id in ids))
    async with conversation(answer, FINE, profile=profile) as talk:
        ran: list[str] = []
        offered: list[str] = []
        talk.tool("look", lambda execution: ran.append("ran"))

        def hear(payload: Any, proceed: Any) -> Any:
            offered.append(payload["failure"]["code"])
            return proceed()

        talk.harness.on("agent/request-error", hear)
        talk.followup("a")
        await talk.idle()
        if profile == "seed":
            (end,) = talk.records("turn/end")
            wanted = "has no id" if ids == ("",) else "have the id 'c1'"
            assert wanted in end["reason"]["error"]["message"]
            assert (offered, ran, talk.records("assistant/message")) == (["MALFORMED_RESPONSE"], [], [])
        else:
            assert (offered, len(ran)) == ([], len(ids))


@BOTH
async def test_race_28_steering_and_contexts_interleave_by_time(profile: Profile) -> None:
    """What is steered before a result is committed stands before its context, and what comes after it behind."""
    async with conversation(calls("look"), FINE, profile=profile) as talk:

        def body(execution: Any) -> None:
            talk.steer("before")
            execution.defer_context(message("context"))

        talk.tool("look", body)
        talk.at("S agent/inbox/spliced next-step 1 +context", lambda: None)
        talk.at("E agent/inbox/inserted context", lambda: talk.steer("after"))
        talk.followup("a")
        await talk.idle()
        assert [ids for _, _, ids in talk.batches()] == [["a"], ["before", "context", "after"]]


@BOTH
async def test_race_29_a_classifier_cancels(profile: Profile) -> None:
    """The call is recorded in earnest, and ends in the executor before dispatch; the later one is synthetic."""
    async with conversation(calls("look", "look"), profile=profile) as talk:
        ran: list[str] = []
        told: list[str] = []
        asked: list[str] = []

        def classify(arguments: Any) -> bool:
            asked.append("asked")
            if len(asked) == 2:  # the second call, right before its start
                talk.agent.cancel(USER)
            return True

        talk.tool("look", lambda execution: ran.append(execution.call_id), concurrent=classify)
        talk.harness.on("tools/result", lambda execution, result: told.append(execution.call_id))
        talk.followup("a")
        await talk.idle()
        assert asked == ["asked", "asked"]
        assert "c2" not in ran
        assert batch(talk)[-1] == "result c2 ABORTED_BEFORE_DISPATCH"
        assert told == ["c1", "c2"]
        assert talk.ends() == ["aborted user"]


@BOTH
async def test_race_26_a_cancel_from_an_observer_with_something_pending(profile: Profile) -> None:
    """`seed` keeps the cancel until the log is free; `dsh-0.1` loses it, and the pending message with nobody told."""
    async with conversation(calls("look"), FINE, FINE, profile=profile) as talk:
        talk.tool("look", lambda execution: talk.inject("s"))
        talk.at("S tool/result c1", lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == (["aborted user"] if profile == "seed" else ["completed"])
        await anyio.lowlevel.checkpoint()
