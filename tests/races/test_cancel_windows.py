"""The windows of a turn in which a cancel may fall (agent-loop 5.1): CW1 to CW21."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.conversation import Conversation, busy, conversation
from tests.races.staging import BOTH, LATER, PARENT, REJECT, RETRY, USER, Planned, ran

from loopharness.gate import Gate
from loopharness.model.scripted import fail, text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
CALL = tool_calls(("c1", "work", {}), say="Wait.")
CALLS = tool_calls(("c1", "work", {}), ("c2", "work", {}))
IDLE = "E agent/status idle"
ABORTED = ["S turn/end 1 aborted user", IDLE]
CLOSED = ["S step/end 1.1", *ABORTED]


def keep(talk: Conversation) -> None:
    """Cancel, and keep what is pending."""
    talk.agent.cancel(USER, keep_inbox=True)


async def cancelled_at(talk: Conversation, line: str, *, clear: bool = False) -> list[str]:
    """Prompt, cancel in the window of a line, converge: the trace behind that line."""
    talk.at(line, lambda: talk.agent.cancel(USER) if clear else keep(talk))
    talk.followup("a")
    await talk.idle()
    return talk.since(line)


async def cancelled_during(talk: Conversation, event: str, answer: Any = None) -> None:
    """Prompt, cancel inside the dispatch of an awaited event, mark it, converge."""
    talk.during(event, lambda: keep(talk), lambda: talk.mark("cancelled"), answer=answer)
    talk.followup("a")
    await talk.idle()


@BOTH
async def test_cw1_while_the_agent_becomes_running(profile: Profile) -> None:
    """No `turn/start` at all; idle only after the hand-over; what was kept is still pending."""
    async with conversation(profile=profile) as talk:
        talk.at("E agent/status running", lambda: keep(talk))
        gap = talk.hold_point("gap")
        talk.followup("a")
        await gap.reached()
        assert talk.agent.status == "running"
        assert talk.trace[-1] == "E agent/status running"
        gap.open()
        await talk.idle()
        assert talk.since("E agent/status running") == [IDLE]
        assert talk.pending() == ([], ["a"])


@BOTH
async def test_cw2_observer_of_turn_start(profile: Profile) -> None:
    """The turn ends without a claim; the message is still pending."""
    async with conversation(profile=profile) as talk:
        assert await cancelled_at(talk, "S turn/start 1") == ABORTED
        assert talk.pending() == ([], ["a"])


@pytest.mark.parametrize("window", ["S agent/inbox/spliced next-step 0 -1", "E agent/inbox/claimed s"])
@BOTH
async def test_cw3_observers_and_listeners_of_the_claim(profile: Profile, window: str) -> None:
    """The claim is finished and assembly still called, under the aborted signal; then the turn ends; batch lost."""
    async with conversation(profile=profile) as talk:
        talk.during("system-prompt/assemble", lambda: talk.mark(f"assembly, aborted {talk.agent.signal.aborted}"))
        talk.inject("s")
        behind = await cancelled_at(talk, window)
        whole = [
            "S agent/inbox/spliced next-step 0 -1",
            "S agent/inbox/spliced next-turn 0 -1",
            "E agent/inbox/claimed s,1",
            "E agent/inbox/claimed a,1",
            "-- assembly, aborted True",
            *ABORTED,
        ]
        assert behind == whole[1 if window.startswith("S") else 3 :]
        assert talk.pending() == ([], [])


@BOTH
async def test_cw4_during_assembly(profile: Profile) -> None:
    """The turn ends without a step, and pre-step is not asked; the batch is lost."""
    async with conversation(profile=profile) as talk:
        talk.during("agent/pre-step", lambda: talk.mark("pre-step"))
        await cancelled_during(talk, "system-prompt/assemble")
        assert talk.since("-- cancelled") == ABORTED
        assert talk.pending() == ([], [])


@pytest.mark.parametrize("answer", [None, REJECT, Planned()])
@BOTH
async def test_cw5_during_pre_step(profile: Profile, answer: Any) -> None:
    """The same, also when the listener then rejects or throws."""
    async with conversation(profile=profile) as talk:
        await cancelled_during(talk, "agent/pre-step", answer)
        assert talk.since("-- cancelled") == ABORTED
        assert talk.pending() == ([], [])


@pytest.mark.parametrize("window", ["S step/start 1.1", "S user/message s"])
@BOTH
async def test_cw6_observers_of_the_opening_of_a_step(profile: Profile, window: str) -> None:
    """The batch is still written whole; then the step closes without asking `agent/request`."""
    asked: list[int] = []
    async with conversation(profile=profile) as talk:
        talk.during("agent/request", lambda: asked.append(1))
        talk.inject("s")
        behind = await cancelled_at(talk, window)
        written = ["S user/message s", "S user/message a"]
        assert behind == [*written[0 if "step" in window else 1 :], *CLOSED]
        assert asked == []
        assert not talk.adapter.requests


async def cancelled_in_preparation(talk: Conversation, gate: Gate) -> None:
    """Prompt, cancel while the adapter prepares the call, converge."""
    talk.followup("a")
    await gate.reached()
    keep(talk)
    talk.mark("cancelled")
    gate.open()
    await talk.idle()


@BOTH
async def test_cw7_during_agent_request_or_preparation(profile: Profile) -> None:
    """The step closes without header or context; the batch is in history."""
    async with conversation(profile=profile) as talk:
        await cancelled_during(talk, "agent/request")
        assert talk.since("-- cancelled") == CLOSED
        assert ran(talk) == [["a"]]
    gate = Gate()
    async with conversation(profile=profile, prepare_gate=gate) as talk:
        await cancelled_in_preparation(talk, gate)
        assert talk.since("-- cancelled") == CLOSED
        assert ran(talk) == [["a"]]


@LATER
async def test_cw7_in_the_later_format(profile: Profile) -> None:
    """There the batch is not in history: it would have been written after the preparation."""
    async with conversation(profile=profile, session_format=4) as talk:
        await cancelled_during(talk, "agent/request")
        assert talk.since("S step/start") == ["-- cancelled", *CLOSED]
    gate = Gate()
    async with conversation(profile=profile, session_format=4, prepare_gate=gate) as talk:
        await cancelled_in_preparation(talk, gate)
        assert talk.since("S step/start") == ["-- cancelled", *CLOSED]
        assert talk.pending() == ([], [])


@BOTH
async def test_cw8_observer_of_the_request_header(profile: Profile) -> None:
    """The context record that is due is still written; then the step closes without a request."""
    async with conversation(profile=profile) as talk:
        assert await cancelled_at(talk, "S request/header") == ["S request/context", *CLOSED]
        assert not talk.adapter.requests


@BOTH
async def test_cw9_listener_of_the_stream_before_its_first_chunk(profile: Profile) -> None:
    """No record of the assistant."""
    async with conversation(FINE, profile=profile) as talk:
        await cancelled_during(talk, "llm/stream")
        assert talk.since("-- cancelled") == CLOSED


@LATER
async def test_cw9_in_the_later_format(profile: Profile) -> None:
    """There an attempt is recorded, with no chunk in it."""
    async with conversation(FINE, profile=profile, session_format=4) as talk:
        await cancelled_during(talk, "llm/stream")
        assert talk.since("-- cancelled") == ["S assistant/attempt", *CLOSED]
        (attempt,) = talk.records("assistant/attempt")
        assert list(attempt["stream"]) == []


@BOTH
async def test_cw10_between_two_chunks(profile: Profile) -> None:
    """An interrupted anchor for what could be seen."""
    async with busy(profile=profile) as talk:
        keep(talk)
        await talk.release()
        assert talk.trace == ["S assistant/message interrupted [7, 8]", *CLOSED]
        (anchor,) = talk.records("assistant/message")
        assert [block["text"] for block in anchor["message"]["content"]] == ["Half an answer."]


@pytest.mark.parametrize(("window", "seen"), [("text-delta", True), ("block-start", False)])
@BOTH
async def test_cw10_observer_of_a_chunk(profile: Profile, window: str, seen: bool) -> None:
    """The chunk that is being published counts; without visible text there is no anchor."""
    async with conversation(FINE, profile=profile) as talk:
        behind = await cancelled_at(talk, f"S assistant/chunk {window}")
        assert behind == [*(["S assistant/message interrupted [7, 8]"] if seen else []), *CLOSED]


@BOTH
async def test_cw11_observer_of_the_last_chunk(profile: Profile) -> None:
    """The answer was complete, but is anchored as interrupted, and its tool calls are dropped."""
    async with conversation(CALL, profile=profile) as talk:
        assert await cancelled_at(talk, "S assistant/chunk finish") == [
            "S assistant/message interrupted [7, 8, 9, 10, 11, 12, 13]",
            *CLOSED,
        ]
        (anchor,) = talk.records("assistant/message")
        assert [block["type"] for block in anchor["message"]["content"]] == ["text"]


@BOTH
async def test_cw12_observer_of_an_answer_without_calls(profile: Profile) -> None:
    """The anchor is a normal one; the turn is aborted all the same."""
    async with conversation(FINE, profile=profile) as talk:
        assert await cancelled_at(talk, "S assistant/message") == CLOSED
        assert talk.count("S assistant/message interrupted") == 0


@BOTH
async def test_cw13_observer_of_an_answer_with_calls(profile: Profile) -> None:
    """One synthetic pair for each call."""
    async with conversation(CALLS, profile=profile) as talk:
        talk.tool("work")
        assert await cancelled_at(talk, "S assistant/message") == [
            "S tool/call c1",
            "S tool/result c1 ABORTED_BEFORE_DISPATCH",
            "S tool/call c2",
            "S tool/result c2 ABORTED_BEFORE_DISPATCH",
            *CLOSED,
        ]


@BOTH
async def test_cw14_inside_the_tool_batch(profile: Profile) -> None:
    """The call that runs is drained, the next one gets a synthetic pair, the step closes."""
    gate = Gate()
    async with conversation(CALLS, profile=profile) as talk:
        talk.tool("work", lambda execution: gate.enter())
        talk.followup("a")
        await gate.reached()
        keep(talk)
        gate.open()
        await talk.idle()
        assert talk.since("S tool/call c1") == [
            "S tool/result c1 ABORTED",
            "S tool/call c2",
            "S tool/result c2 ABORTED_BEFORE_DISPATCH",
            *CLOSED,
        ]


@BOTH
async def test_cw15_during_recovery(profile: Profile) -> None:
    """The retry is ignored; no anchor."""
    async with conversation(fail(), profile=profile) as talk:
        await cancelled_during(talk, "agent/request-error", RETRY)
        assert talk.since("-- cancelled") == CLOSED


@pytest.mark.parametrize("failed", [False, True])
@BOTH
async def test_cw16_observer_of_step_end(profile: Profile, failed: bool) -> None:
    """The turn is aborted, also after a failed step: no `turn-stopping`, no `agent/error`."""
    async with conversation(fail() if failed else FINE, profile=profile) as talk:
        talk.during("agent/turn-stopping", lambda: talk.mark("stopping"))
        assert await cancelled_at(talk, "S step/end 1.1") == ABORTED


@BOTH
async def test_cw17_during_turn_stopping(profile: Profile) -> None:
    """The turn is aborted; steering that was added there and kept stays pending."""
    async with conversation(FINE, profile=profile) as talk:
        talk.during("agent/turn-stopping", lambda: talk.steer("s"))
        talk.during("agent/turn-stopping", lambda: keep(talk), lambda: talk.mark("cancelled"))
        talk.followup("a")
        await talk.idle()
        assert talk.since("-- cancelled") == ABORTED
        assert talk.pending() == (["s"], [])


@pytest.mark.parametrize("clear", [False, True])
@BOTH
async def test_cw18_observer_of_turn_end(profile: Profile, clear: bool) -> None:
    """The recorded reason never changes. Published: with input pending the cancel is lost and the next turn runs.
    Seed: it comes after the end of the turn, so that the next one does not open."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.at("S turn/end 1", lambda: talk.agent.cancel(USER, keep_inbox=not clear))
        await talk.release()
        if profile == "dsh-0.1":
            assert talk.ends() == ["completed", "completed"]
            assert ran(talk) == [["a"], ["q"]]
        else:
            assert talk.ends() == ["completed"]
            assert talk.pending() == ([], [] if clear else ["q"])
        assert talk.statuses() == ["idle"]


@BOTH
async def test_cw19_hand_over_to_the_next_turn(profile: Profile) -> None:
    """The next turn never opens, and nothing records why; the input stays."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        gap = talk.hold_point("gap")
        talk.gate.open()
        await gap.reached()
        keep(talk)
        gap.open()
        await talk.idle()
        assert talk.since("S turn/end 1 completed") == [IDLE]
        assert talk.pending() == ([], ["q"])


@BOTH
async def test_cw20_hand_over_after_the_last_turn(profile: Profile) -> None:
    """Nothing happens, but for what LR-071 says of a send behind it."""
    async with busy(profile=profile) as talk:
        gap = talk.hold_point("gap")
        talk.gate.open()
        await gap.reached()
        keep(talk)
        gap.open()
        await talk.idle()
        assert talk.since("S turn/end 1 completed") == [IDLE]


@BOTH
async def test_cw21_listener_of_idle(profile: Profile) -> None:
    """The phase is idle already: the lists are cleared, nothing is aborted."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER, keep_inbox=True)
        talk.inject("i")
        signal = talk.agent.signal
        talk.at(IDLE, lambda: talk.agent.cancel(PARENT))
        await talk.release()
        assert talk.since(IDLE) == ["S agent/inbox/spliced next-step 0 -1 canceled", "E agent/inbox/discarded i"]
        assert signal.reason is USER
        talk.followup("b")
        await talk.idle()
        assert talk.ends() == ["aborted user", "completed"]
