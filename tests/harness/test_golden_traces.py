"""The golden traces of the published loop, record for record and event for event (agent-loop 18, G1 to G6)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.harness.conversation import USER, Conversation
from tests.harness.conversation import conversation as talking
from tests.logs.generated import stored

from loopharness.gate import Gate
from loopharness.model.scripted import fail, text, tool_calls
from loopharness.tools.registry import define_tool
from loopspec.log.acceptance import Acceptance, law_of
from loopspec.log.grammar import Judge
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def conversation(*script: Any, profile: Profile = "seed", **more: Any) -> AsyncIterator[Conversation]:
    """A conversation whose log, in the end, breaks no rule and is a behaviour of the machines."""
    async with talking(*script, profile=profile, **more) as talk:
        yield talk
        header, *rows = stored(talk, more.get("session_format", 0))
        judge, acceptance = Judge(), Acceptance(header, law_of(profile, header["version"]))
        found = list(judge.header(header))
        for line, row in enumerate(rows, 2):
            found += judge.event(row, line)
            found += acceptance.event(row, line)
        # that the log may end in the middle, or with a message that waits, is no fault of it
        assert [item for item in found if item.level == "E"] == []
        assert rows
        assert not acceptance.done


PROFILES: tuple[Profile, ...] = ("seed", "dsh-0.1")

OPENING = [
    "S agent/inbox/spliced next-turn 0 +a",
    "E agent/inbox/inserted a",
    "E agent/status running",
    "S turn/start 1",
    "S agent/inbox/spliced next-turn 0 -1",
    "E agent/inbox/claimed a,1",
    "-- sent",
]

FIRST_REQUEST = ["S step/start 1.1", "S user/message a", "S request/header initial", "S request/context"]


def chunks(*types: str) -> list[str]:
    return [f"S assistant/chunk {type}" for type in types]


TEXT = chunks("block-start", "text-delta", "block-end", "finish")


@pytest.mark.parametrize("profile", PROFILES)
async def test_g1_one_prompt_text_answer(profile: Profile) -> None:
    """G1, L-SEND-6: the send returns when the batch is claimed; the rest follows by itself."""
    async with conversation(text("Hello."), profile=profile) as talk:
        talk.followup("a")
        talk.mark("sent")
        await talk.agent.when_idle()
        talk.mark("idle")
        assert talk.trace == [
            *OPENING,
            *FIRST_REQUEST,
            *TEXT,
            "S assistant/message [7, 8, 9, 10]",
            "S step/end 1.1",
            "S turn/end 1 completed",
            "E agent/status idle",
            "-- idle",
        ]


@pytest.mark.parametrize("profile", PROFILES)
async def test_g2_tool_turn(profile: Profile) -> None:
    """G2: calls and results in pairs, then a second step without a new header or user message."""
    async with conversation(
        tool_calls(("c1", "echo", {"say": "x"}), ("c2", "echo", {"say": "y"})), text("Done."), profile=profile
    ) as talk:

        async def echo(arguments: Any) -> str:
            return str(arguments["say"])

        schema = {"type": "object", "properties": {"say": {"type": "string"}}}
        talk.harness.tools.register(define_tool("echo", "Says it again.", schema, echo), talk.harness.context)
        talk.followup("a")
        talk.mark("sent")
        await talk.agent.when_idle()
        calls = chunks(*["block-start", "tool-call-delta", "block-end"] * 2, "finish")
        assert talk.trace == [
            *OPENING,
            *FIRST_REQUEST,
            *calls,
            "S assistant/message [7, 8, 9, 10, 11, 12, 13]",
            "S tool/call c1",
            "S tool/result c1",
            "S tool/call c2",
            "S tool/result c2",
            "S step/end 1.1",
            "S step/start 1.2",
            *TEXT,
            "S assistant/message [21, 22, 23, 24]",
            "S step/end 1.2",
            "S turn/end 1 completed",
            "E agent/status idle",
        ]
        second = talk.adapter.requests[1]["messages"]
        assert [m["role"] for m in second] == ["user", "assistant", "user", "user"]


@pytest.mark.parametrize("profile", PROFILES)
async def test_g3_cancel_in_mid_stream_then_a_prompt_before_convergence(profile: Profile) -> None:
    """G3: the partial text is anchored as interrupted, and the latched prompt runs without another wake."""
    gate = Gate()
    start, delta, *rest = text("Half an answer.")
    async with conversation([start, delta, gate, *rest], text("B."), profile=profile) as talk:
        talk.followup("a")
        await gate.reached()
        talk.trace.clear()
        talk.agent.cancel(USER)
        talk.followup("b")
        talk.mark("sent")
        gate.open()
        await talk.agent.when_idle()
        assert talk.trace == [
            "S agent/inbox/spliced next-turn 0 +b",
            "E agent/inbox/inserted b",
            "-- sent",
            "S assistant/message interrupted [7, 8]",
            "S step/end 1.1",
            "S turn/end 1 aborted user",
            "E agent/status idle",
            "E agent/status running",
            "S turn/start 2",
            "S agent/inbox/spliced next-turn 0 -1",
            "E agent/inbox/claimed b,2",
            "S step/start 2.1",
            "S user/message b",
            *TEXT,
            "S assistant/message [17, 18, 19, 20]",
            "S step/end 2.1",
            "S turn/end 2 completed",
            "E agent/status idle",
        ]
        assert talk.adapter.closed == 1


@pytest.mark.parametrize("profile", PROFILES)
async def test_g4_retry(profile: Profile) -> None:
    """G4: a second attempt in the same step, which cites only its own chunks (L-ERR-2, L-ERR-5)."""
    async with conversation(fail(), text("Again."), profile=profile) as talk:

        async def retry(payload: Any, proceed: Any) -> Any:
            talk.mark(f"request-error {payload['failure']['code']}")
            return {"kind": "retry"}

        talk.harness.on("agent/request-error", retry)
        talk.followup("a")
        talk.mark("sent")
        await talk.agent.when_idle()
        assert talk.trace == [
            *OPENING,
            *FIRST_REQUEST,
            *chunks("finish"),
            "-- request-error SERVER",
            *TEXT,
            "S assistant/message [8, 9, 10, 11]",
            "S step/end 1.1",
            "S turn/end 1 completed",
            "E agent/status idle",
        ]


@pytest.mark.parametrize("profile", PROFILES)
async def test_g5_provider_error(profile: Profile) -> None:
    """G5: recovery inside the open step, then step/end, agent/error, turn/end (L-TURN-5)."""
    async with conversation(fail("no capacity", "SERVER", status=503), profile=profile) as talk:
        talk.harness.on("agent/request-error", lambda payload, proceed: talk.mark("request-error"))
        talk.followup("a")
        talk.mark("sent")
        await talk.agent.when_idle()
        assert talk.trace == [
            *OPENING,
            *FIRST_REQUEST,
            *chunks("finish"),
            "-- request-error",
            "S step/end 1.1",
            "E agent/error 1.1",
            "S turn/end 1 error",
            "E agent/status idle",
        ]
        (end,) = talk.records("turn/end")
        assert end["reason"]["error"] == {"message": "no capacity", "code": "SERVER", "status": 503}


@pytest.mark.parametrize("profile", PROFILES)
async def test_g6_rejected(profile: Profile) -> None:
    """G6: a turn without a step."""
    async with conversation(profile=profile) as talk:
        talk.harness.on("agent/pre-step", lambda payload, proceed: {"kind": "reject"})
        talk.followup("a")
        talk.mark("sent")
        await talk.agent.when_idle()
        assert talk.trace == [*OPENING, "S turn/end 1 blocked", "E agent/status idle"]


async def test_the_later_format_embeds_the_stream_and_keeps_the_prompt_on_the_surface() -> None:
    """S-REQ-22, S-CHK-20, VS-1 to VS-5: one settlement record, and live frames around it."""
    frames: list[str] = []
    async with conversation(text("Hello."), session_format=4) as talk:
        talk.harness.on("agent/assistant-stream", lambda payload: frames.append(payload["frame"]["type"]))
        talk.followup("a")
        talk.mark("sent")
        await talk.agent.when_idle()
        assert talk.trace == [
            *OPENING,
            "S step/start 1.1",
            "S system/message",
            "S user/message a",
            "S request/header initial",
            "S request/context",
            "S assistant/message",
            "S step/end 1.1",
            "S turn/end 1 completed",
            "E agent/status idle",
        ]
        assert frames == ["start", *["chunk"] * 4, "end"]
        (settled,) = talk.records("assistant/message")
        assert [record["type"] for record in settled["stream"]] == ["chunk", "text-chunks", "chunk", "chunk"]
