"""The plugin beside the stock loop: what is sealed, and when; steps, efforts, mounting, resuming."""

from __future__ import annotations

import gc
import logging
import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.harness.conversation import conversation
from tests.tape.mounted import DATA, asks, mounted, shown, turns, use

from loopharness.agent import user_message
from loopharness.model.scripted import text
from loopharness.session import Session
from loopharness.slice import SlicePlugin, install
from loopharness.slice.state import SessionTape
from loopharness.tools.execution import Execution
from loopharness.tools.registry import define_tool
from loopspec.profile import law
from loopspec.tape.config import parse
from loopspec.tape.select import kind_of

pytestmark = pytest.mark.anyio


async def test_ended_turns_are_sealed_at_the_next_first_step() -> None:
    async with mounted(asks("small"), text("one"), asks("small"), text("two"), text("three")) as (talk, _):
        await turns(talk, "a", "b", "c")
        assert shown(talk, 1) == ["system", "user", "assistant", "tool"]
        assert shown(talk, 2) == ["system", "user", "tape", "user"]
        assert shown(talk, 4) == ["system", "user", "tape", "user", "tape", "user"]
        events = talk.agent.session.events
        entries = [event for event in events if event["type"] == "user/message" and kind_of(event) == "entry"]
        assert len(entries) == 2
        assert all(event["surfaceOp"]["op"] == "replace" for event in entries)
        assert entries[0]["data"] == talk.adapter.requests[4]["messages"][2]
        starts = [event["seq"] for event in events if event["type"] == "turn/start"]
        steps = [event["seq"] for event in events if event["type"] == "step/start" and event["data"]["step"] == 1]
        for number, entry in enumerate(entries, 1):
            assert starts[number] < entry["seq"] < steps[number]


async def test_recent_turns_can_be_kept() -> None:
    script = [text(word) for word in ("one", "two", "three", "four")]
    async with mounted(*script, settings={"history": {"keepRecentTurns": 2}}) as (talk, _):
        await turns(talk, "a", "b", "c", "d")
        assert shown(talk, 2) == ["system", *["user", "assistant"] * 2, "user"]
        assert shown(talk, 3) == ["system", "user", "tape", *["user", "assistant"] * 2, "user"]


async def test_everything_sealed_comes_back_through_the_tools() -> None:
    script = [asks("data", say="Looking. "), text("Found it.\n\n"), text("next")]
    async with mounted(*script) as (talk, _):
        await turns(talk, "a", "b")
        (entry,) = [m for m in talk.agent.session.messages if m["source"]["kind"] == "plugin:slice:history"]
        locator = re.search(r'expand_result\(\{"seq":(\d+),"formatVersion":4\}\)\]', entry["content"][0]["text"])
        assert locator is not None
        whole = await use(talk, "expand_result", {"seq": int(locator[1]), "formatVersion": 4})
        assert whole.split("\n", 1)[1] == DATA
        page = await use(talk, "recall_turn", {"turn": "1"})
        assert "Looking. " in page
        assert "Found it." in page
        assert f"{locator[0]}" in page + "]"
        assert DATA in await use(talk, "recall_step", {"turn": "1", "step": "1"})
        found = await use(talk, "recall_search", {"query": "looking"})
        assert '→ recall_turn({"turn":"1","view":"dialogue"})' in found


async def test_the_step_cap_ends_the_turn(caplog: pytest.LogCaptureFixture) -> None:
    script = [asks("small"), asks("small"), text("two")]
    async with mounted(*script, settings={"maxStepsPerTurn": 2}) as (talk, _):
        with caplog.at_level(logging.WARNING, "loopharness"):
            await turns(talk, "a")
        assert talk.ends() == ["blocked"]
        assert len(talk.adapter.requests) == 2
        assert [record.message for record in caplog.records] == ["slice tape: slice maxStepsPerTurn=2 reached"]
        await turns(talk, "b")
        assert shown(talk, 2) == ["system", "user", "tape", "user"]


async def test_no_cap_lets_the_stock_loop_end_the_turn() -> None:
    async with mounted(*[asks("small")] * 51, text("done")) as (talk, _):
        await turns(talk, "a")
        assert talk.ends() == ["completed"]
        assert len(talk.adapter.requests) == 52


async def test_a_cancelled_pre_step_seals_nothing() -> None:
    async with mounted(text("one"), text("two"), text("three")) as (talk, _):
        await turns(talk, "a")

        async def cancel(payload: Mapping[str, Any], next: Any) -> Any:
            decision = await next()
            talk.agent.cancel({"kind": "user"})
            return decision

        stop = talk.harness.context.on("agent/pre-step", cancel)
        before = len(talk.agent.session.surface.nodes)
        await turns(talk, "b")
        assert talk.ends() == ["completed", "aborted user"]
        assert talk.agent.session.surface.replacements == 0
        assert len(talk.agent.session.surface.nodes) == before
        stop()
        await turns(talk, "c")
        assert shown(talk, 1) == ["system", "user", "tape", "user"]


async def test_a_cancel_behind_the_seal_keeps_the_entries() -> None:
    async with mounted(text("one"), text("two")) as (talk, _):
        await turns(talk, "a")

        async def cancel(payload: Mapping[str, Any], next: Any) -> Any:
            decision = await next()
            talk.agent.cancel({"kind": "user"})
            return decision

        stop = talk.harness.context.on("agent/pre-step", cancel, prepend=True)
        await turns(talk, "b")
        stop()
        assert talk.ends() == ["completed", "aborted user"]
        assert talk.agent.session.surface.replacements == 1
        await turns(talk, "c")
        assert talk.agent.session.surface.replacements == 1
        assert shown(talk, 1) == ["system", "user", "tape", "user"]


async def test_an_explicit_effort_wins() -> None:
    facts = {"reasoning": {"efforts": ["low", "high"]}}
    async with mounted(text("one"), settings={"defaultReasoningEffort": "high"}, facts=facts) as (talk, _):

        async def choose(payload: Mapping[str, Any], next: Any) -> Any:
            return {**(await next()), "reasoningEffort": "low"}

        talk.harness.context.on("agent/request", choose)
        await turns(talk, "a")
        assert talk.adapter.requests[0]["reasoningEffort"] == "low"


async def test_it_mounts_once_and_unmounts_whole() -> None:
    async with mounted(text("one"), text("two"), text("three")) as (talk, plugin):
        with pytest.raises(ValueError, match='tool "expand_result" is already registered'):
            install(talk.harness)
        await turns(talk, "a", "b")
        names = [tool["name"] for tool in talk.adapter.requests[0]["tools"]]
        assert names == ["expand_result", "get", "recall_search", "recall_step", "recall_turn"]
        system = talk.adapter.requests[0]["messages"][0]["content"][0]["text"]
        assert system.index("slice tape v1") < system.index("recall_step shows") < system.index("You are tested.")
        await plugin.dispose()
        await turns(talk, "c")
        assert [tool["name"] for tool in talk.adapter.requests[2]["tools"]] == ["get"]
        assert shown(talk, 2) == ["system", "user", "tape", "user", "assistant", "user"]
        await install(talk.harness).dispose()


async def test_tools_need_an_agent() -> None:
    async with mounted() as (talk, _):
        for name, owner in (
            ("recall_turn", " (no owning agent on this execution)"),
            ("recall_search", " (no owning agent on this execution)"),
            ("recall_step", ""),
            ("expand_result", ""),
        ):
            tool = talk.harness.tools.get(name)
            assert tool is not None
            with pytest.raises(ValueError) as refused:
                await tool.run({}, Execution("x", name, {}, talk.agent.signal))
            assert str(refused.value) == f"{name} runs only inside an agent loop{owner}"


async def test_resume_seals_what_the_crash_left() -> None:
    async with mounted(asks("data"), text("one"), text("two")) as (talk, _):
        await turns(talk, "a")
        stored = [dict(event) for event in talk.agent.session.events]
        header = dict(talk.agent.session.header)
    async with mounted(text("three")) as (talk, _):
        header["id"] = "resumed"
        talk.agent = await talk.harness.create_agent(header=header, events=stored, options=talk.agent.options)
        await turns(talk, "b")
        assert shown(talk, 0) == ["system", "user", "tape", "user"]
        assert DATA in await use(talk, "expand_result", {"turn": 1, "step": 1})


async def test_an_append_that_fails_leaves_a_legal_state() -> None:
    """TP-34, RE-02, RE-65: the entries before it stay, the turn ends in an error, and the rest is sealed next time."""
    async with mounted(asks("small", say="first"), text("second"), text("third")) as (talk, _):
        talk.at("S tool/result", lambda: talk.agent.steer({**user_message("stop"), "id": "steered"}))
        await turns(talk, "a")
        assert shown(talk, 1) == ["system", "user", "assistant", "tool", "user"]
        append, entries = Session.append, []

        def failing(self: Session, type: str, data: Any, *rest: Any) -> Any:
            if type == "user/message" and data["source"]["kind"] == "plugin:slice:history":
                entries.append(data["id"])
                if len(entries) == 2:
                    raise OSError("disk full")
            return append(self, type, data, *rest)

        patch = pytest.MonkeyPatch()
        patch.setattr(Session, "append", failing)
        await turns(talk, "b")
        patch.undo()
        assert talk.ends() == ["completed", "error"]
        assert talk.agent.session.surface.replacements == 1
        await turns(talk, "c")
        assert talk.agent.session.surface.replacements == 2
        assert shown(talk, 2) == ["system", "user", "tape", "user", "tape", "user"]


async def test_recall_works_on_format_0_too() -> None:
    """Nothing is sealed or folded there, but the tools answer."""
    async with conversation(asks("small"), text("one"), text("two"), session_format=0) as talk:
        schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}

        async def get(arguments: Any) -> str:
            return "ok\n"

        talk.harness.tools.register(define_tool("get", "Get.", schema, get), talk.harness.context)
        install(talk.harness)
        await turns(talk, "a", "b")
        assert talk.agent.session.surface.replacements == 0
        assert "· get · 3 chars ·" in await use(talk, "recall_turn", {"turn": "1"})
        assert (await use(talk, "expand_result", {"turn": 1, "step": 1})).endswith("\nok\n")
        assert "[result]\nok\n" in await use(talk, "recall_step", {"turn": "1", "step": "1"})
        assert "1 hit(s)" in await use(talk, "recall_search", {"query": "ok", "kinds": ["tool_output"]})


async def test_a_session_is_not_kept_alive() -> None:
    async with mounted(text("one")) as (talk, plugin):
        session = Session({"type": "session", "version": 4, "id": "other", "createdAt": 0, "isSeeded": False})
        plugin.tape(session)
        assert len(plugin._tapes) == 1
        del session
        gc.collect()
        assert len(plugin._tapes) == 0
        await turns(talk, "a")


# -- faults --------------------------------------------------------------------------------------------------


async def test_steps_after_the_first_never_seal() -> None:
    """TP-08, INV-16: what became sealable within a turn waits for the next one."""
    async with mounted(text("one"), asks("small"), text("two")) as (talk, plugin):
        await plugin.dispose()
        await turns(talk, "a")
        talk.at("S step/end 2.1", lambda: mounts.append(install(talk.harness)))
        mounts: list[SlicePlugin] = []
        await turns(talk, "b")
        assert mounts
        assert "tape" not in shown(talk, 2)


async def test_a_retained_portion_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    """TP-25: once in a session instance, and again in the next one."""
    async with mounted(text("one"), text("two"), text("three")) as (talk, plugin):
        await turns(talk, "a")
        session = talk.agent.session
        call = {"type": "tool-call", "id": "lost", "name": "get", "arguments": "{}"}
        message = {**session.messages[-1], "id": "m", "content": [call]}
        session.append("turn/start", {"turn": 2})
        seq = session.append("assistant/message", {"turn": 2, "step": 1, "message": message}, "append")["seq"]
        session.append("turn/end", {"turn": 2, "reason": {"kind": "interrupted"}})
        caplog.clear()
        with caplog.at_level(logging.WARNING, "loopharness"):
            warn = logging.getLogger("loopharness").warning
            other = SessionTape(session, parse(None), law("seed", 4), None)
            for tape in (plugin.tape(session), plugin.tape(session), other):
                tape.seal((), warn)
        assert [record.message.split(",")[0] for record in caplog.records] == [
            f"slice tape: turn 2 (seq {seq}..{seq}) kept raw and cut the sealed span"
        ] * 2
