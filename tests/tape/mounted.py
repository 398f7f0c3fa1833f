"""A format 4 conversation with the policy mounted, and a tool whose results are long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness.conversation import Conversation, conversation

from loopharness.invariant import install as install_invariant
from loopharness.model.scripted import Response, tool_calls
from loopharness.slice import SlicePlugin, install
from loopharness.tools.execution import Execution
from loopharness.tools.registry import define_tool

LOG = "\n".join(f"2026-01-01 10:00:00 INFO tick {n} {'y' * 20}" for n in range(2000))
DATA = "\n".join(f"row {n} {'x' * 40}" for n in range(400))
OUTPUTS = {"log": LOG, "data": DATA, "small": "ok\n", "forged": "", "boom": ""}


@asynccontextmanager
async def mounted(
    *script: Response, settings: Mapping[str, Any] | None = None, spill: Path | None = None, **options: Any
) -> AsyncIterator[tuple[Conversation, SlicePlugin]]:
    """A format 4 conversation with the policy, the live request check, and a tool `get {what}`."""
    async with conversation(*script, session_format=4, **options) as talk:
        harness = talk.harness
        install_invariant(harness.context, harness.llm, harness.sessions)

        async def get(arguments: Any) -> str:
            what = str(arguments["what"])
            if what == "boom":
                raise RuntimeError("boom")
            return OUTPUTS.get(what, what)

        schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
        harness.tools.register(define_tool("get", "Get.", schema, get), harness.context)
        harness.prompt.section(harness.context, "test:system", 0, "You are tested.")
        plugin = install(harness, settings, spill)
        yield talk, plugin


def asks(*whats: str, say: str = "") -> Response:
    """A step that calls `get` for each of these."""
    return tool_calls(*[(f"c-{what[:8]}-{n}", "get", {"what": what}) for n, what in enumerate(whats)], say=say)


async def turns(talk: Conversation, *ids: str) -> None:
    """One turn for each id."""
    for id in ids:
        talk.followup(id)
        await talk.agent.when_idle()


async def use(talk: Conversation, name: str, arguments: Any) -> str:
    """Call a tool as the agent would, outside any turn, and answer its text."""
    tool = talk.harness.tools.get(name)
    assert tool is not None
    execution = Execution("probe", name, arguments, talk.agent.signal, agent=talk.agent, key=talk.agent.key)
    return str(await tool.run(arguments, execution))


def shown(talk: Conversation, request: int) -> list[str]:
    """What a request showed: one short word for each message, entries as `tape`."""
    words = []
    for message in talk.adapter.requests[request]["messages"]:
        kind = message["source"]["kind"]
        words.append("tape" if kind == "plugin:slice:history" else message["role"])
    return words
