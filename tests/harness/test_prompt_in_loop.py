"""The prompt of a live agent: variables, order of tools, sections and contexts of a scope (P-101 to P-204)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from loopharness.agent import Agent, AgentOptions
from loopharness.bus import Context
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import ScriptedAdapter, text
from loopharness.prompt import UNLISTED
from loopharness.tools.registry import define_tool

pytestmark = pytest.mark.anyio


def alpha() -> str:
    """The first."""
    return ""


def beta() -> str:
    """The second."""
    return ""


def gamma() -> str:
    """The third."""
    return ""


@asynccontextmanager
async def talking(**more: Any) -> AsyncIterator[tuple[Harness, ScriptedAdapter]]:
    """A harness with a model that always says yes."""
    async with open_harness(**more) as harness:
        adapter = ScriptedAdapter(always=text("Yes."))
        harness.llm.register_adapter(["mock"], adapter)
        yield harness, adapter


async def asked(harness: Harness, id: str = "main", **more: Any) -> Agent:
    """An agent that has been asked once."""
    handle = await harness.agents.create(id, AgentOptions("mock", "m1"), **more)
    handle.agent.followup("Hello?")
    await handle.agent.when_idle()
    return handle.agent


def system(request: Any) -> str:
    """The system prompt of a request."""
    return str(request["messages"][0]["content"][0]["text"])


async def test_p_103_route_and_directory_are_variables() -> None:
    async with talking(persona="You are {{model}} of {{provider}} in {{cwd}}.") as (harness, adapter):
        await asked(harness, meta={"cwd": "/work"})
        assert system(adapter.requests[0]) == "You are m1 of mock in /work."


async def test_p_103_what_has_no_value_is_an_error_only_where_it_is_used() -> None:
    async with talking(persona="You are in {{cwd}}.") as (harness, adapter):
        agent = await asked(harness)
        end = agent.session.last("turn/end")
        assert end is not None
        assert '"deployment:persona": variable "cwd" has no value' in end["data"]["reason"]["error"]["message"]
        assert not adapter.requests
    async with talking(persona="You are {{model}}.") as (harness, adapter):
        await asked(harness)
        assert system(adapter.requests[0]) == "You are m1."


async def test_p_111_tools_come_in_the_configured_order() -> None:
    async with talking(tool_order=["gamma", UNLISTED, "alpha"]) as (harness, adapter):
        for function in (alpha, beta, gamma):
            harness.tools.register(define_tool(function), harness.context)
        agent = await asked(harness)
        assert [tool["name"] for tool in adapter.requests[0]["tools"]] == ["gamma", "beta", "alpha"]
        header = agent.session.header_record
        assert header is not None
        assert [tool["name"] for tool in header["tools"]] == ["gamma", "beta", "alpha"]


async def test_p_112_an_order_with_an_unknown_name_closes_the_turn_without_step_and_request() -> None:
    async with talking(tool_order=["none", UNLISTED]) as (harness, adapter):
        agent = await asked(harness)
        types = [event["type"] for event in agent.session.events]
        assert "step/start" not in types
        assert types[-1] == "turn/end"
        assert not adapter.requests


async def test_p_101_a_scope_has_sections_contexts_and_variables_of_its_own() -> None:
    def compose(scope: Context) -> None:
        prompt = harness.prompt
        prompt.section(scope, "own", 10, "Only {{who}}.")
        prompt.variable(scope, "who", lambda about: "you")
        prompt.runtime_context(scope, "place", 0, lambda about: f"Agent {about['agent'].id}.")

    async with talking(persona="All.") as (harness, adapter):
        await asked(harness, "one", setup=compose)
        await asked(harness, "two")
        one, two = adapter.requests
        assert (system(one), system(two)) == ("All.\n\nOnly you.", "All.")
        assert str(one["messages"][-1]["content"][0]["text"]).endswith("\n\nAgent one.")
        assert len(two["messages"]) == 2


async def test_p_204_a_context_is_told_again_only_when_it_changes() -> None:
    place = ["home"]
    async with talking() as (harness, adapter):
        harness.prompt.runtime_context(harness.context, "place", 0, lambda about: place[0])
        agent = await asked(harness)
        for now in ("home", "work", "", ""):
            place[0] = now
            agent.followup("And now?")
            await agent.when_idle()
        told = [
            message["content"][0]["text"].split("\n\n")[-1]
            for message in adapter.requests[-1]["messages"]
            if message["source"]["kind"] == "runtime-context"
        ]
        assert told == [
            "home",
            "work",
            "Current runtime context: none. Earlier runtime-context snapshots no longer apply.",
        ]
