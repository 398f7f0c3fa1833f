"""Disposal and restored input, as far as the driver is concerned (agent-loop 19.12, LR-220 to LR-234)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.harness.conversation import Conversation, busy, conversation, message
from tests.races.staging import BOTH, DISPOSED, REENTRY, USER, Planned, ran

from loopharness.agent import AgentOptions
from loopharness.gate import Gate
from loopharness.model.scripted import text, tool_calls
from loopharness.tools.execution import Execution
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
IDLE = "E agent/status idle"


@asynccontextmanager
async def disposing(talk: Conversation) -> AsyncIterator[None]:
    """The agent's disposal has been asked for and is converging; at the end it has completed."""

    async def dispose(*, task_status: anyio.abc.TaskStatus[None]) -> None:
        task_status.started()
        await talk.harness.dispose_agent(talk.agent)
        talk.mark("disposed")

    async with anyio.create_task_group() as group:
        await group.start(dispose)
        yield


@BOTH
async def test_lr_220_disposal_of_a_running_agent(profile: Profile) -> None:
    """The turn is closed with its cause, the tail is discarded, no further turn; the closing records are published."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        async with disposing(talk):
            assert talk.count("E agent/inbox/discarded q") == 1
            talk.gate.open()
        assert talk.since("E agent/inbox/discarded q") == [
            "S assistant/message interrupted [7, 8]",
            "S step/end 1.1",
            "S turn/end 1 aborted disposed",
            IDLE,
            "-- disposed",
        ]


@pytest.mark.parametrize("kind", ["followup", "steer"])
@BOTH
async def test_lr_221_a_wake_while_disposal_converges(profile: Profile, kind: str) -> None:
    """Inserted and parked; no turn."""
    async with busy(profile=profile) as talk:
        async with disposing(talk):
            getattr(talk, kind)("b")
            talk.gate.open()
        assert talk.count("E agent/inbox/inserted b") == 1
        assert talk.pending() == ([], ["b"])
        assert talk.statuses() == ["idle"]
        assert talk.ends() == ["aborted disposed"]


@BOTH
async def test_lr_222_a_user_cancel_then_disposal_then_a_followup(profile: Profile) -> None:
    """Published: the first cause counts, the followup is latched, disposal waits for a whole further turn. Seed: no
    turn follows once disposal has been asked for."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        async with disposing(talk):
            talk.followup("b")
            talk.gate.open()
        if profile == "dsh-0.1":
            assert talk.ends() == ["aborted user", "completed"]
            assert talk.batches()[1:] == [(2, 1, ["b"])]
            assert talk.trace[-2:] == [IDLE, "-- disposed"]
        else:
            assert talk.ends() == ["aborted user"]
            assert talk.pending() == ([], ["b"])


@BOTH
async def test_lr_223_a_user_cancel_then_disposal(profile: Profile) -> None:
    """The recorded cause stays the user's."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        async with disposing(talk):
            talk.gate.open()
        assert talk.ends() == ["aborted user"]


@BOTH
async def test_lr_224_a_followup_from_the_idle_notification_of_disposal(profile: Profile) -> None:
    """It meets an idle agent: a whole turn, and disposal waits for it."""
    async with busy(profile=profile) as talk:
        talk.at(IDLE, lambda: talk.followup("b"))
        async with disposing(talk):
            talk.gate.open()
        assert talk.ends() == ["aborted disposed", "completed"]
        assert talk.trace[-2:] == [IDLE, "-- disposed"]


@BOTH
async def test_lr_225_disposal_while_the_agent_becomes_running(profile: Profile) -> None:
    """No turn opens, the message is discarded."""
    async with conversation(profile=profile) as talk:
        talk.at("E agent/status running", lambda: talk.agent.cancel(DISPOSED))
        talk.followup("a")
        async with disposing(talk):
            pass
        assert talk.since("E agent/status running") == [
            "S agent/inbox/spliced next-turn 0 -1 canceled",
            "E agent/inbox/discarded a",
            IDLE,
            "-- disposed",
        ]


@pytest.mark.parametrize("answer", [None, Planned("broken")])
@pytest.mark.parametrize("event", ["system-prompt/assemble", "agent/pre-step"])
@BOTH
async def test_lr_226_disposal_during_the_proposal(profile: Profile, event: str, answer: Any) -> None:
    """No step, no model call, aborted; a throw in there gives no `agent/error`."""
    async with conversation(profile=profile) as talk:
        gate = talk.hold(event, answer)
        talk.followup("a")
        await gate.reached()
        async with disposing(talk):
            gate.open()
        assert talk.since("E agent/inbox/claimed") == ["S turn/end 1 aborted disposed", IDLE, "-- disposed"]
        assert not talk.adapter.requests


@BOTH
async def test_lr_227_disposal_during_a_tool_body_that_hands_over_contexts(profile: Profile) -> None:
    """They stay pending; there is one turn only."""
    gate = Gate()

    async def body(execution: Execution) -> None:
        await gate.enter()
        execution.defer_context(message("x"))

    async with conversation(tool_calls(("c1", "work", {})), profile=profile) as talk:
        talk.tool("work", body)
        talk.followup("a")
        await gate.reached()
        async with disposing(talk):
            gate.open()
        assert talk.pending() == (["x"], [])
        assert talk.ends() == ["aborted disposed"]
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_228_disposal_from_the_observer_of_a_record_with_input_pending(profile: Profile) -> None:
    """Published: the clear inside is refused and the disposal fails with its text. The agent is detached at once, and
    its driver goes on unpublished, the queue included. Seed: the cancel waits for the log; an ordinary disposal."""
    asked: list[Any] = []
    async with busy(profile=profile) as talk:
        talk.followup("q")
        handle = talk.harness.agents.handle(talk.agent)
        talk.at("S assistant/chunk block-end", lambda: asked.append(handle.dispose()))
        await talk.release()
        if profile == "dsh-0.1":
            with pytest.raises(RuntimeError, match=REENTRY):
                await asked[0]
            await talk.idle()
            assert talk.ends() == ["completed", "completed"]
            assert ran(talk) == [["a"], ["q"]]
            after = talk.since("S assistant/chunk block-end")
            assert after[0] == "E agent/inbox/claimed q,2"
            assert not [told for told in after if told.startswith("S ")]
        else:
            await asked[0]
            assert talk.count("E agent/inbox/discarded q") == 1
            assert talk.ends() == ["aborted disposed"]
            assert "S turn/end 1 aborted disposed" in talk.trace
        assert talk.harness.agents.get("main") is None


@BOTH
async def test_lr_229_a_followup_after_disposal(profile: Profile) -> None:
    """Published: a whole turn on the detached log, and nobody hears of its records. Seed, stricter: refused."""
    async with busy(profile=profile) as talk:
        async with disposing(talk):
            talk.gate.open()
        talk.trace.clear()
        if profile == "dsh-0.1":
            talk.followup("b")
            await talk.idle()
            assert talk.ends() == ["aborted disposed", "completed"]
            assert ran(talk) == [["a"], ["b"]]
            assert talk.count("S ") == 0
        else:
            with pytest.raises(RuntimeError, match=r'^agent "main" is disposed$'):
                talk.followup("b")
            await talk.idle()
            assert talk.ends() == ["aborted disposed"]
            assert talk.trace == []


def initiators(talk: Conversation) -> set[tuple[str, str]]:
    """Who acts and whom each listener reads as the initiator, while two agents run."""
    seen: set[tuple[str, str]] = set()

    def note(agent: Any) -> None:
        initiator = talk.harness.agents.current_initiator()
        seen.add((agent.id, "nobody" if initiator is None else initiator.id))

    def listen(name: str) -> None:
        async def listener(payload: Any, proceed: Any = None) -> Any:
            note(payload["agent"])
            return None if proceed is None else await proceed()

        talk.harness.on(name, listener)

    for name in ("agent/pre-step", "agent/request", "agent/turn-stopping"):
        listen(name)
    for name in ("agent/status", "agent/inbox/claimed"):
        talk.harness.on(name, lambda payload: note(payload["agent"]))
    return seen


@BOTH
async def test_lr_232_two_agents_run_side_by_side(profile: Profile) -> None:
    """Every listener, the adapter and the tools read the agent that they work for."""
    gates = {"main": Gate(), "other": Gate()}
    tools: set[tuple[str, str]] = set()

    async def body(execution: Execution) -> None:
        agent: Any = execution.agent
        await gates[agent.id].enter()
        tools.add((agent.id, str(talk.harness.agents.require_initiator().id)))

    script = [tool_calls(("c1", "work", {}))] * 2
    async with conversation(*script, always=FINE, profile=profile) as talk:
        talk.tool("work", body)
        other = await talk.harness.create_agent("other", AgentOptions("mock", "m1"))
        seen = initiators(talk)
        talk.followup("a")
        other.followup(message("o"))
        await gates["main"].reached()
        await gates["other"].reached()
        gates["other"].open()
        gates["main"].open()
        await other.when_idle()
        await talk.idle()
        assert tools == {("main", "main"), ("other", "other")}
        assert seen == {("main", "main"), ("other", "other")}
        assert talk.harness.agents.current_initiator() is None


@BOTH
async def test_lr_233_a_session_with_pending_input_is_resumed(profile: Profile) -> None:
    """The agent stays idle; the next wake finds the input."""
    async with conversation(profile=profile) as before:
        before.inject("s")
        before.agent.send(message("q"), "next-turn", False)
        header, events = before.agent.session.header, tuple(before.agent.session.events)
    # taken before the harness disposed the agent, as a crash leaves it
    async with conversation(always=FINE, profile=profile, header=header, events=events) as talk:
        await talk.idle()
        assert talk.statuses() == []
        assert talk.pending() == (["s"], ["q"])
        talk.followup("w")
        await talk.idle()
        assert ran(talk) == [["s", "q"], ["w"]]


@pytest.mark.parametrize(
    ("profile", "format", "inherits"),
    [("seed", 0, False), ("dsh-0.1", 0, False), ("seed", 4, True), ("dsh-0.1.7", 4, True)],
)
async def test_lr_234_a_session_with_pending_input_is_forked(profile: Profile, format: int, inherits: bool) -> None:
    """Format 0: the child begins with empty lists. Format 4: it inherits them. The parent keeps its own."""
    async with conversation(profile=profile, session_format=format) as talk:
        talk.inject("s")
        talk.agent.send(message("q"), "next-turn", False)
        child = await talk.harness.fork_agent("main", child_id="child", options=AgentOptions("mock", "m1"))
        lists = [[m["id"] for m in messages] for messages in (child.inbox.next_step, child.inbox.next_turn)]
        assert lists == ([["s"], ["q"]] if inherits else [[], []])
        assert child.status == "idle"
        assert talk.pending() == (["s"], ["q"])


@BOTH
async def test_lr_235_a_child_is_driven_inside_a_tool_of_its_parent(profile: Profile) -> None:
    """The child's listeners read the child; the parent's tool keeps the parent, before and after."""
    read: list[str] = []

    async def body(execution: Execution) -> None:
        read.append(talk.harness.agents.require_initiator().id)
        child = await talk.harness.create_agent("child", AgentOptions("mock", "m1"))
        child.followup(message("o"))
        await child.when_idle()
        read.append(talk.harness.agents.require_initiator().id)

    async with conversation(tool_calls(("c1", "work", {})), always=FINE, profile=profile) as talk:
        talk.tool("work", body)
        seen = initiators(talk)
        talk.followup("a")
        await talk.idle()
        assert read == ["main", "main"]
        assert seen == {("main", "main"), ("child", "child")}
        assert talk.ends() == ["completed"]
