"""What an observer of a record may do: in `seed` its operations wait for the log, in published DSH they are refused."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.conversation import USER, conversation

from loopharness.model.scripted import text, tool_calls
from loopharness.tools.registry import define_tool

pytestmark = pytest.mark.anyio


async def test_a_cancel_from_a_turn_end_observer_stops_the_run() -> None:
    """CW18, LR-074: the next turn of the run does not open; the kept prompt waits."""
    async with conversation(text("One."), text("Two.")) as talk:
        talk.at("S turn/end 1", lambda: talk.agent.cancel(USER, keep_inbox=True))
        talk.followup("a")
        talk.followup("b")
        await talk.agent.when_idle()
        assert talk.ends() == ["completed"]
        assert talk.pending() == ([], ["b"])


async def test_published_dsh_loses_that_cancel() -> None:
    """CW18, LR-074 as measured on the published packages."""
    async with conversation(text("One."), text("Two."), profile="dsh-0.1") as talk:
        talk.at("S turn/end 1", lambda: talk.agent.cancel(USER, keep_inbox=True))
        talk.followup("a")
        talk.followup("b")
        await talk.agent.when_idle()
        assert talk.ends() == ["completed", "completed"]


@pytest.mark.parametrize(("profile", "batches"), [("seed", 2), ("dsh-0.1", 1)])
async def test_a_send_from_an_insertion_observer(profile: Any, batches: int) -> None:
    """LR-006: refused and contained in published DSH, kept in `seed`."""
    async with conversation(always=text("Fine."), profile=profile) as talk:
        talk.at("S agent/inbox/spliced next-turn 0 +a", lambda: talk.followup("b"))
        talk.followup("a")
        await talk.agent.when_idle()
        assert len(talk.batches()) == batches
        assert talk.batches()[0] == (1, 1, ["a"])


@pytest.mark.parametrize(("profile", "cause"), [("seed", True), ("dsh-0.1", False)])
async def test_a_clearing_cancel_with_something_pending(profile: Any, cause: bool) -> None:
    """LR-009: in published DSH the clear is refused and the abort lost with it."""
    async with conversation(always=text("Fine."), profile=profile) as talk:
        talk.followup("a")
        talk.followup("b")
        talk.at("S agent/inbox/spliced next-turn 1 +c", lambda: talk.agent.cancel(USER))
        talk.followup("c")
        await talk.agent.when_idle()
        assert (talk.ends() == ["aborted user"]) is cause
        assert talk.pending() == ([], [])


@pytest.mark.parametrize(("profile", "kept"), [("seed", True), ("dsh-0.1", False)])
async def test_a_steer_from_the_observer_of_a_tool_call(profile: Any, kept: bool) -> None:
    """L-LOG-3: a record of the tool batch locks the log for the driver too."""
    async with conversation(tool_calls(("c1", "noop", {})), always=text("Done."), profile=profile) as talk:

        async def noop(arguments: Any) -> str:
            return "nothing"

        talk.harness.tools.register(
            define_tool("noop", "Does nothing.", {"type": "object"}, noop), talk.harness.context
        )
        talk.at("S tool/call c1", lambda: talk.steer("s"))
        talk.followup("a")
        await talk.agent.when_idle()
        assert (["s"] in [ids for _, _, ids in talk.batches()]) is kept
        order = [line for line in talk.trace if "c1" in line or "+s" in line]
        if kept:
            assert order == ["S tool/call c1", "S agent/inbox/spliced next-step 0 +s", "S tool/result c1"]


@pytest.mark.parametrize(("profile", "kept"), [("seed", True), ("dsh-0.1", False)])
async def test_a_send_from_the_observer_of_a_plugins_record(profile: Any, kept: bool) -> None:
    """L-LOG-3: whoever publishes a record, the log is locked; the operation begins when it is free."""
    async with conversation(always=text("Done."), profile=profile) as talk:
        talk.at("S plan/mode", lambda: talk.followup("a"))
        talk.agent.session.append("plan/mode", {"active": True})
        talk.mark("appended")
        assert talk.trace[0] == "S plan/mode"
        assert (talk.trace[1] == "S agent/inbox/spliced next-turn 0 +a") is kept
        await talk.agent.when_idle()
        assert (talk.ends() == ["completed"]) is kept
