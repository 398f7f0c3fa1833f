"""The sub-agent tool: ownership, answers, cancels, depth (C-OWN-3, C-FRK-13, C-TDN-*, R-61, INV-21, INV-22)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.harness.conversation import USER, Conversation, conversation

from loopharness import subagent
from loopharness.agent import Agent
from loopharness.bus import Context
from loopharness.gate import Gate
from loopharness.model.scripted import Response, fail, text, tool_calls

pytestmark = pytest.mark.anyio

FORMATS = pytest.mark.parametrize("session_format", [0, 4])


def hands(*tasks: str) -> Any:
    """An answer that hands tasks to others."""
    return tool_calls(*((f"c{number}", "delegate", {"task": task}) for number, task in enumerate(tasks, 1)))


class Family:
    """The agents that come and go."""

    def __init__(self, talk: Conversation) -> None:
        self.born: list[Agent] = []
        self.gone: list[str] = []
        talk.harness.agents.on_any("agent/created", lambda payload: self.born.append(payload["agent"]))
        talk.harness.agents.on_any("agent/disposed", lambda payload: self.gone.append(payload["agent"].id))


def results(talk: Conversation) -> list[tuple[str, str]]:
    """Code and text of each result in the parent's session."""
    found = []
    for data in talk.records("tool/result"):
        content = data["message"]["content"]
        blocks = content[0].get("content", content)
        found.append((data.get("error", {}).get("code", ""), "".join(block["text"] for block in blocks)))
    return found


@FORMATS
async def test_the_answer_of_a_child_is_the_result_of_the_call(session_format: int) -> None:
    script = (hands("Count to two."), text("One, two."), text("It can count."))
    async with conversation(*script, session_format=session_format) as talk:
        family = Family(talk)
        subagent.install(talk.harness)
        owned: list[Any] = []

        def look(payload: Any, next: Any) -> Any:
            owned.append((payload["agent"].id, [agent.id for agent in talk.harness.agents.roots()]))
            return next()

        talk.harness.on("agent/request", look)
        talk.followup("a")
        await talk.idle()
        (child,) = family.born
        assert results(talk) == [("", "One, two.")]
        assert talk.records("tool/result")[0]["meta"] == {"sessionId": child.id}
        assert talk.adapter.requests[1]["messages"][-1]["content"][0]["text"] == "Count to two."
        header = child.session.header
        assert (header["parentSession"], header["origin"], header["delegationDepth"]) == ("main", "subagent", 1)
        assert owned == [("main", ["main"]), (child.id, ["main"]), ("main", ["main"])]
        assert family.gone == [child.id]
        assert [agent.id for agent in talk.harness.agents.list()] == ["main"]
        assert talk.ends() == ["completed"]


@FORMATS
async def test_children_work_side_by_side_and_answer_in_model_order(session_format: int) -> None:
    gate = Gate()
    script: list[Response] = [hands("slow", "quick"), [gate, *text("Slow.")], text("Quick."), text("Done.")]
    async with conversation(*script, session_format=session_format) as talk:
        family = Family(talk)
        subagent.install(talk.harness)
        talk.followup("a")
        await gate.reached()
        await anyio.wait_all_tasks_blocked()
        assert len(family.gone) == 1
        gate.open()
        await talk.idle()
        assert sorted(text for _, text in results(talk)) == ["Quick.", "Slow."]
        assert len(family.gone) == 2


FAILURES: dict[str, tuple[Response, str, str]] = {
    "failure": (fail("no", "AUTH"), "SUBAGENT_FAILED", "Error: the other agent failed: AUTH: no"),
    "silence": (text(""), "", "[the other agent had nothing to say]"),
}


@pytest.mark.parametrize("name", FAILURES)
async def test_a_child_that_fails_fails_the_call_and_nothing_else(name: str) -> None:
    answer, code, words = FAILURES[name]
    async with conversation(hands("try"), answer, text("So be it."), session_format=4) as talk:
        family = Family(talk)
        subagent.install(talk.harness)
        talk.followup("a")
        await talk.idle()
        assert results(talk) == [(code, words)]
        assert talk.ends() == ["completed"]
        assert len(family.gone) == 1


@FORMATS
async def test_a_cancel_of_the_parent_cancels_the_child_and_waits_for_it(session_format: int) -> None:
    gate = Gate()
    script: list[Response] = [hands("work", "more"), [gate, *text("Never.")], [gate, *text("Never.")]]
    async with conversation(*script, session_format=session_format) as talk:
        family = Family(talk)
        subagent.install(talk.harness)
        talk.followup("a")
        await gate.reached()
        await anyio.wait_all_tasks_blocked()
        talk.agent.cancel(USER)
        assert [child.signal.reason for child in family.born] == [{"kind": "parent"}] * 2
        assert talk.agent.status == "running"
        gate.open()
        await talk.idle()
        for child in family.born:
            end = child.session.last("turn/end")
            assert end is not None
            assert end["data"]["reason"] == {"kind": "aborted", "reason": {"kind": "parent"}}
        assert [code for code, _ in results(talk)] == ["ABORTED", "ABORTED"]
        assert talk.ends() == ["aborted user"]
        assert len(family.gone) == 2


async def test_r_61_a_cancel_while_the_child_is_composed() -> None:
    """The creation gets the turn's signal: it is rolled back, and the call ends as aborted."""
    gate = Gate()

    async def compose(scope: Context) -> None:
        await gate.enter()

    async with conversation(hands("work"), session_format=4) as talk:
        family = Family(talk)
        subagent.install(talk.harness, setup=compose)
        talk.followup("a")
        await gate.reached()
        talk.agent.cancel(USER)
        await talk.idle()
        gate.open()
        assert [code for code, _ in results(talk)] == ["ABORTED"]
        assert family.born == []
        assert [agent.id for agent in talk.harness.agents.list()] == ["main"]


async def test_inv_21_a_parent_that_is_disposed_takes_its_child_along() -> None:
    gate = Gate()
    script: list[Response] = [hands("work"), [gate, *text("Never.")]]
    async with conversation(*script, session_format=4) as talk:
        family = Family(talk)
        subagent.install(talk.harness)
        talk.followup("a")
        await gate.reached()
        (child,) = family.born
        assert talk.harness.agents.is_owned_by(child.id, talk.agent)
        async with anyio.create_task_group() as group:
            group.start_soon(talk.harness.dispose_agent, talk.agent)
            await anyio.wait_all_tasks_blocked()
            gate.open()
        assert family.gone == [child.id, "main"]
        assert talk.ends() == ["aborted disposed"]


async def test_the_last_level_does_not_see_the_tool() -> None:
    """Depth 2: the child may hand on, its child may not; a call that the model invents is answered, and harmless."""
    script = (hands("one"), hands("two"), hands("three"), text("No more."), text("Two."), text("One."))
    async with conversation(*script, session_format=4) as talk:
        family = Family(talk)
        subagent.install(talk.harness, depth=2)
        talk.followup("a")
        await talk.idle()
        assert [child.session.header["delegationDepth"] for child in family.born] == [1, 2]
        assert [child.session.header["parentSession"] for child in family.born] == ["main", family.born[0].id]
        tools = [bool(request.get("tools")) for request in talk.adapter.requests]
        assert tools == [True, True, False, False, True, True]
        refused = family.born[1].session.last("tool/result")
        assert refused is not None
        assert refused["data"]["error"]["code"] == "UNKNOWN_TOOL"
        assert results(talk) == [("", "Two.")]


async def test_depth_is_judged_by_the_log_too() -> None:
    """A session taken up without the restriction of its scope is still as deep as its header says."""
    header = {"id": "deep", "version": 4, "createdAt": 0, "delegationDepth": 1, "origin": "subagent"}
    async with conversation(hands("more"), text("Fine."), session_format=4) as talk:
        subagent.install(talk.harness, depth=1)
        deep = await talk.harness.create_agent(options=talk.agent.options, header={**header, "type": "session"})
        deep.followup("go")
        await deep.when_idle()
        result = deep.session.last("tool/result")
        assert result is not None
        assert result["data"]["error"]["code"] == "TOO_DEEP"
    with pytest.raises(ValueError, match="at least 1"):
        subagent.install(talk.harness, depth=0)


async def test_a_child_has_its_own_composition_and_the_parents_directory() -> None:
    async with conversation(session_format=4) as talk:
        talk.adapter.say(hands("work"), text("Done."), text("Fine."))

        def compose(scope: Context) -> None:
            talk.harness.prompt.section(scope, "child", 1, "You are a child.")

        parent = await talk.harness.create_agent("parent", talk.agent.options, cwd="/somewhere")
        family = Family(talk)
        subagent.install(talk.harness, setup=compose)
        parent.followup("go")
        await parent.when_idle()
        assert family.born[0].session.header["cwd"] == "/somewhere"
        systems = [request["messages"][0]["content"] for request in talk.adapter.requests]
        assert ["You are a child." in str(content) for content in systems] == [False, True, False]
