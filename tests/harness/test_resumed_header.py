"""The first request of a driver writes its header, even if the log has an equal one already (L-REQ-9, S-REQ-5)."""

from __future__ import annotations

import pytest

from loopharness.agent import AgentOptions
from loopharness.harness import open_harness
from loopharness.model.scripted import ScriptedAdapter, text

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("session_format", [0, 4])
async def test_a_resumed_agent_writes_an_equal_header_once(session_format: int) -> None:
    """Reason `initial`, nothing in the second turn, `resume` after the session was taken up again."""
    options = AgentOptions(provider="mock", model="m1")

    async def turns(count: int, stored: tuple[object, ...] = ()) -> tuple[object, ...]:
        async with open_harness(session_format=session_format) as harness:
            harness.llm.register_adapter(["mock"], ScriptedAdapter([], always=text("Fine.")))
            header, events = stored or (None, ())
            agent = await harness.create_agent("main", options, header=header, events=events)  # type: ignore[arg-type]
            for _ in range(count):
                agent.followup("Hi.")
                await agent.when_idle()
            reasons = [e["data"]["reason"] for e in agent.session.events if e["type"] == "request/header"]
            return agent.session.header, tuple(agent.session.events), reasons

    header, events, reasons = await turns(2)
    assert reasons == ["initial"]
    _, _, reasons = await turns(2, (header, events))
    assert reasons == ["initial", "resume"]
