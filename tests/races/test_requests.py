"""Request and stream: what may still join a request, and what a disturbed stream leaves (agent-loop 19.6)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.harness.conversation import Conversation, busy, conversation, message
from tests.races.staging import BOTH, LATER, USER, places

from loopharness.gate import Gate
from loopharness.model import chunks
from loopharness.model.failure import failure_facts
from loopharness.model.scripted import ScriptedAdapter, fail, text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
CLOSED = ["S step/end 1.1", "S turn/end 1 aborted user", "E agent/status idle"]


@BOTH
async def test_lr_110_an_inject_while_the_request_is_proposed(profile: Profile) -> None:
    """It is not in this request; the turn gets one more step for it."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.during("agent/request", lambda: talk.inject("i"))
        talk.followup("a")
        await talk.idle()
        assert talk.asked(0) == ["a"]
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["i"])]
        assert talk.asked(1) == ["a", "Fine.", "i"]


@pytest.mark.parametrize(
    ("profile", "format", "told"),
    [("seed", 0, False), ("dsh-0.1", 0, False), ("seed", 4, True), ("dsh-0.1.7", 4, True)],
)
async def test_lr_111_a_message_is_written_while_the_request_is_proposed(
    profile: Profile, format: int, told: bool
) -> None:
    """Format 0 derives the messages first, so it is not in this request; format 4 derives last, so it is.

    In the second turn: nothing but the prompt of the system may open a surface of format 4 (S-SUR-8).
    """
    async with conversation(FINE, FINE, profile=profile, session_format=format) as talk:
        talk.followup("a")
        await talk.idle()
        talk.during("agent/request", lambda: talk.agent.session.append("user/message", message("x"), "append"))
        talk.followup("b")
        await talk.idle()
        assert ("x" in talk.asked(1)) is told
        assert talk.ends() == ["completed", "completed"]


@BOTH
async def test_lr_112_the_adapter_is_replaced_during_preparation(profile: Profile) -> None:
    """The attempt stays with the registration that it began with."""
    gate = Gate()
    async with conversation(FINE, profile=profile, prepare_gate=gate) as talk:
        talk.followup("a")
        await gate.reached()
        other = ScriptedAdapter(always=text("Other."))
        talk.route()
        talk.harness.llm.register_adapter(["mock"], other)
        gate.open()
        await talk.idle()
        assert len(talk.adapter.requests) == 1
        assert not other.requests
        talk.followup("b")
        await talk.idle()
        assert len(other.requests) == 1


async def ended_in_preparation(talk: Conversation, gate: Gate, dispose: bool) -> None:
    """Prompt; cancel or dispose while the adapter prepares the call; converge."""
    talk.followup("a")
    await gate.reached()
    async with anyio.create_task_group() as group:
        if dispose:
            group.start_soon(talk.harness.dispose_agent, talk.agent)
            await talk.agent.signal.wait()
        else:
            talk.agent.cancel(USER)
        gate.open()


@pytest.mark.parametrize("dispose", [False, True])
@BOTH
async def test_lr_113_a_cancel_or_disposal_during_preparation(profile: Profile, dispose: bool) -> None:
    """Aborted, without a header; the batch is in history already."""
    gate = Gate()
    async with conversation(profile=profile, prepare_gate=gate) as talk:
        await ended_in_preparation(talk, gate, dispose)
        await talk.idle()
        assert talk.ends() == ["aborted disposed" if dispose else "aborted user"]
        assert talk.records("request/header", "request/context") == []
        assert talk.batches() == [(1, 1, ["a"])]


@pytest.mark.parametrize("dispose", [False, True])
@LATER
async def test_lr_113_in_the_later_format(profile: Profile, dispose: bool) -> None:
    """There the claimed batch is lost: neither the prompt of the system nor that of the user is in history."""
    gate = Gate()
    async with conversation(profile=profile, session_format=4, prepare_gate=gate) as talk:
        await ended_in_preparation(talk, gate, dispose)
        await talk.idle()
        assert talk.ends() == ["aborted disposed" if dispose else "aborted user"]
        assert talk.records("request/header", "system/message", "user/message") == []
        assert talk.pending() == ([], [])


@BOTH
async def test_lr_114_a_stream_listener_serves_a_route_without_adapter(profile: Profile) -> None:
    """The turn completes; the header has no `adapterDefaults`."""
    spare = ScriptedAdapter([FINE])
    async with conversation(profile=profile, facts={"defaultMaxTokens": 9}) as talk:
        talk.route()
        talk.harness.on("llm/stream", lambda request, proceed: spare.stream(request))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["completed"]
        (header,) = talk.records("request/header")
        assert header["header"]["config"] == {"provider": "mock", "model": "m1"}
        assert "adapterDefaults" not in header["header"]


@BOTH
async def test_lr_115_nobody_serves_a_route_without_adapter(profile: Profile) -> None:
    """A terminal failure of the stream, offered to recovery without a policy, behind a logged header."""
    offered: list[Any] = []
    async with conversation(profile=profile, retry_policy={"maxRetries": 3}) as talk:
        talk.route()
        talk.harness.on("agent/request-error", lambda payload, proceed: offered.append(payload))
        talk.followup("a")
        await talk.idle()
        assert [(payload["failure"]["code"], payload["retryPolicy"]) for payload in offered] == [("NO_ADAPTER", None)]
        assert talk.since("S request/context") == [
            "S assistant/chunk finish",
            "S step/end 1.1",
            "E agent/error 1.1",
            "S turn/end 1 error",
            "E agent/status idle",
        ]


@BOTH
async def test_lr_116_a_cancel_from_the_observer_of_the_header(profile: Profile) -> None:
    """Header and context stay, no request goes out; the header counts as written, so the next turn has none."""
    async with conversation(FINE, profile=profile) as talk:
        talk.at("S request/header", lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        assert talk.since("S request/header") == ["S request/context", *CLOSED]
        assert not talk.adapter.requests
        talk.followup("b")
        await talk.idle()
        assert talk.ends() == ["aborted user", "completed"]
        assert talk.count("S request/header") == 1


@pytest.mark.parametrize(("profile", "format"), [("seed", 0), ("dsh-0.1", 0), ("seed", 4), ("dsh-0.1.7", 4)])
async def test_lr_117_a_cancel_from_a_listener_of_the_stream(profile: Profile, format: int) -> None:
    """No record of the assistant; in format 4 an attempt."""
    async with conversation(FINE, profile=profile, session_format=format) as talk:
        talk.during("llm/stream", lambda: talk.agent.cancel(USER), lambda: talk.mark("cancelled"))
        talk.followup("a")
        await talk.idle()
        assert talk.since("-- cancelled") == [*(["S assistant/attempt"] if format else []), *CLOSED]
        assert talk.records("assistant/message", "assistant/chunk") == []


SEEN = [chunks.block_start(0, "text"), chunks.text_delta(0, "Half")]
BLANK = [chunks.block_start(0, "text"), chunks.text_delta(0, " \n")]
THOUGHT = [chunks.block_start(0, "reasoning"), chunks.reasoning_delta(0, "Hm.")]
CALLING = [chunks.block_start(0, "tool-call"), chunks.tool_call_delta(0, "c1", '{"x"', "work")]
SAYING_AND_CALLING = [
    *SEEN,
    chunks.block_end(0, {"type": "text", "text": "Half"}),
    chunks.block_start(1, "tool-call"),
    chunks.tool_call_delta(1, "c1", '{"x"', "work"),
]


async def cut(talk: Conversation, gate: Gate) -> None:
    """Prompt, cancel where the stream stands, converge."""
    talk.followup("a")
    await gate.reached()
    talk.agent.cancel(USER)
    gate.open()
    await talk.idle()
    assert talk.trace[-3:] == CLOSED
    assert talk.adapter.closed == 1


def anchored(talk: Conversation) -> list[list[tuple[str, str]]]:
    """The blocks of every anchor, which are all interrupted."""
    anchors = talk.records("assistant/message")
    assert all(anchor["interrupted"] is True for anchor in anchors)
    return [[(block["type"], block["text"]) for block in anchor["message"]["content"]] for anchor in anchors]


@pytest.mark.parametrize(
    ("streamed", "kept"), [(SEEN, [[("text", "Half")]]), (BLANK, []), (THOUGHT, [[("reasoning", "Hm.")]])]
)
@BOTH
async def test_lr_118_a_cancel_between_two_chunks(profile: Profile, streamed: Any, kept: Any) -> None:
    """An interrupted anchor if there is text or reasoning that is not only blank."""
    gate = Gate()
    async with conversation([*streamed, gate, *SEEN], profile=profile) as talk:
        await cut(talk, gate)
        assert anchored(talk) == kept


@pytest.mark.parametrize(("streamed", "kept"), [(SEEN, [[("text", "Half")]]), (BLANK, [])])
@LATER
async def test_lr_118_in_the_later_format(profile: Profile, streamed: Any, kept: Any) -> None:
    """The same; without an anchor there is an attempt that holds the stream."""
    gate = Gate()
    async with conversation([*streamed, gate, *SEEN], profile=profile, session_format=4) as talk:
        await cut(talk, gate)
        assert anchored(talk) == kept
        assert len(talk.records("assistant/attempt")) == (0 if kept else 1)


@BOTH
async def test_lr_119_a_cancel_from_the_observer_of_the_finish(profile: Profile) -> None:
    """An interrupted anchor without its tool calls, and no synthetic pairs."""
    async with conversation(tool_calls(("c1", "work", {}), say="Wait."), profile=profile) as talk:
        talk.at("S assistant/chunk finish", lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        assert anchored(talk) == [[("text", "Wait.")]]
        assert talk.records("tool/call", "tool/result") == []
        assert talk.ends() == ["aborted user"]


@pytest.mark.parametrize(("streamed", "kept"), [(SAYING_AND_CALLING, [[("text", "Half")]]), (CALLING, [])])
@BOTH
async def test_lr_120_a_cancel_inside_a_tool_call(profile: Profile, streamed: Any, kept: Any) -> None:
    """The call is dropped, the text before it kept; without text there is no anchor."""
    gate = Gate()
    async with conversation([*streamed, gate, *SEEN], profile=profile) as talk:
        await cut(talk, gate)
        assert anchored(talk) == kept
        assert talk.records("tool/call") == []


@BOTH
async def test_lr_121_a_cancel_from_the_observer_of_an_answer_without_calls(profile: Profile) -> None:
    """A normal anchor in an aborted turn."""
    async with conversation(FINE, profile=profile) as talk:
        talk.at("S assistant/message", lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        (anchor,) = talk.records("assistant/message")
        assert "interrupted" not in anchor
        assert talk.ends() == ["aborted user"]


@BOTH
async def test_lr_122_a_cancel_from_the_observer_of_an_answer_with_calls(profile: Profile) -> None:
    """A synthetic pair for every call; the tools hear nothing of it."""
    heard: list[str] = []
    async with conversation(tool_calls(("c1", "work", {}), ("c2", "work", {})), profile=profile) as talk:
        talk.tool("work", lambda execution: heard.append(execution.call_id))
        talk.harness.on("tools/result", lambda execution, result: heard.append(execution.call_id))
        talk.at("S assistant/message", lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        texts = [result["message"]["content"][0]["content"][0]["text"] for result in talk.records("tool/result")]
        assert texts == ["Error: tool call aborted before dispatch"] * 2
        assert [call["callId"] for call in talk.records("tool/call")] == ["c1", "c2"]
        assert heard == []


@BOTH
async def test_lr_123_a_chunk_is_vetoed(profile: Profile) -> None:
    """The turn is an error; no anchor, no recovery, and the adapter is closed."""
    async with conversation(FINE, profile=profile) as talk:
        talk.during("agent/request-error", lambda: talk.mark("recovery"))
        talk.refuse("S assistant/chunk text-delta")
        talk.followup("a")
        await talk.idle()
        assert talk.since("S assistant/chunk block-start") == [
            "S step/end 1.1",
            "E agent/error 1.1",
            "S turn/end 1 error",
            "E agent/status idle",
        ]
        assert talk.adapter.closed == 1


@BOTH
async def test_lr_124_the_provider_says_aborted(profile: Profile) -> None:
    """That is a failure of the provider: the turn is an error with its code."""
    over = chunks.finish("aborted", failure=failure_facts("gone", "PROVIDER_ABORTED"))
    async with conversation([over], profile=profile) as talk:
        talk.followup("a")
        await talk.idle()
        (end,) = talk.records("turn/end")
        assert end["reason"] == {"kind": "error", "error": {"message": "gone", "code": "PROVIDER_ABORTED"}}


@BOTH
async def test_lr_125_a_stream_listener_changes_the_request(profile: Profile) -> None:
    """The change raises into the step: the turn is an error."""

    def change(request: Any, proceed: Any) -> Any:
        request["model"] = "m2"
        return proceed()

    async with conversation(FINE, profile=profile) as talk:
        talk.harness.on("llm/stream", change)
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["error"]
        assert talk.records("assistant/chunk", "assistant/message") == []
        assert not talk.adapter.requests


@BOTH
async def test_lr_126_an_adapter_sends_a_followup(profile: Profile) -> None:
    """The next turn of the same run."""
    start, *rest = FINE
    async with conversation(always=FINE, profile=profile) as talk:
        talk.adapter.say([start, lambda: talk.followup("b"), *rest])
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_127_an_inject_into_the_final_answer(profile: Profile) -> None:
    """The turn gets one more step, although the model had finished."""
    async with busy(profile=profile) as talk:
        talk.inject("i")
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["i"])]
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_128_two_finishes_in_one_stream(profile: Profile) -> None:
    """The last one decides; what lies between them is logged and assembled."""
    more = [chunks.block_start(1, "text"), chunks.text_delta(1, "More."), chunks.finish("max-tokens")]
    async with conversation([*FINE, *more], profile=profile) as talk:
        talk.followup("a")
        await talk.idle()
        (anchor,) = talk.records("assistant/message")
        assert [block["text"] for block in anchor["message"]["content"]] == ["Fine.", "More."]
        assert len(talk.records("assistant/chunk")) == 7
        assert talk.ends() == ["max-tokens"]
    async with conversation([chunks.finish("max-tokens"), *FINE], profile=profile) as talk:
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_128_a_failure_before_the_last_finish(profile: Profile) -> None:
    """Only the last finish counts, also when an earlier one was a failure."""
    async with conversation([*fail(), *FINE], profile=profile) as talk:
        talk.during("agent/request-error", lambda: talk.mark("recovery"))
        talk.followup("a")
        await talk.idle()
        assert talk.ends() == ["completed"]
        assert talk.count("-- recovery") == 0
        assert places(talk) == [(1, 1)]
