"""Refused appends: what a record leaves when the log does not take it (agent-loop 19.11, LR-200 to LR-209)."""

from __future__ import annotations

import pytest
from tests.harness.conversation import Conversation, Veto, busy, conversation, message
from tests.races.staging import BOTH, USER, ran

from loopharness.model.scripted import fail, text, tool_calls
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
IDLE = "E agent/status idle"


def vetoes(talk: Conversation) -> list[object]:
    """The errors that listeners of `agent/error` are given, as they come."""
    errors: list[object] = []
    talk.harness.on("agent/error", lambda payload: errors.append(payload["error"]))
    return errors


async def next_prompt_runs(talk: Conversation, *ids: str) -> None:
    """The agent lives: another wake runs these prompts in order."""
    talk.followup(ids[-1])
    await talk.idle()
    assert [batch[-1] for batch in ran(talk)[-len(ids) :]] == list(ids)
    assert talk.ends()[-1] == "completed"


@pytest.mark.parametrize("kind", ["followup", "steer", "inject"])
@BOTH
async def test_lr_200_an_insertion(profile: Profile, kind: str) -> None:
    """The error reaches the sender; no list changes, nobody is told, nobody is woken."""
    async with conversation(profile=profile) as talk:
        talk.refuse("S agent/inbox/spliced")
        with pytest.raises(Veto):
            getattr(talk, kind)("a")
        assert talk.trace == []
        assert talk.pending() == ([], [])
        assert talk.agent.status == "idle"


@BOTH
async def test_lr_201_a_turn_start(profile: Profile) -> None:
    """An error of step 0 of the last turn; nothing claimed, the number not consumed, the input parked."""
    async with conversation(always=FINE, profile=profile) as talk:
        errors = vetoes(talk)
        talk.refuse("S turn/start 1")
        talk.followup("a")
        await talk.idle()
        assert talk.since("E agent/status running") == ["E agent/error 0.0", IDLE]
        assert isinstance(errors[0], Veto)
        assert talk.pending() == ([], ["a"])
        await next_prompt_runs(talk, "a", "b")
        assert [turn for turn, _, _ in talk.batches()] == [1, 2]


@pytest.mark.parametrize("record", ["S turn/start 1", "S turn/end 1"])
@BOTH
async def test_lr_201_and_lr_208_a_followup_from_the_listener_of_that_error(profile: Profile, record: str) -> None:
    """The run has decided to end. Published: parked. Seed: latched and replayed."""
    async with conversation(always=FINE, profile=profile) as talk:
        talk.refuse(record)
        talk.at("E agent/error", lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        assert (talk.pending()[1][-1:] == ["b"]) is (profile == "dsh-0.1")
        assert (["b"] in ran(talk)) is (profile == "seed")


@BOTH
async def test_lr_202_the_second_record_of_a_claim(profile: Profile) -> None:
    """The steering is gone without a word, the turn is an error, the prompt stays."""
    async with conversation(always=FINE, profile=profile) as talk:
        talk.refuse("S agent/inbox/spliced next-turn 0 -1")
        talk.inject("s")
        talk.followup("a")
        await talk.idle()
        assert talk.since("S turn/start 1") == [
            "S agent/inbox/spliced next-step 0 -1",
            "E agent/error 1.0",
            "S turn/end 1 error",
            IDLE,
        ]
        assert talk.pending() == ([], ["a"])
        await next_prompt_runs(talk, "a", "b")


@BOTH
async def test_lr_203_a_step_start(profile: Profile) -> None:
    """No step; the turn is an error; the batch is lost."""
    async with conversation(always=FINE, profile=profile) as talk:
        talk.refuse("S step/start 1.1")
        talk.followup("a")
        await talk.idle()
        assert talk.since("E agent/inbox/claimed") == ["E agent/error 1.0", "S turn/end 1 error", IDLE]
        assert talk.pending() == ([], [])
        await next_prompt_runs(talk, "b")


@BOTH
async def test_lr_204_an_entered_message(profile: Profile) -> None:
    """The ones before it stay, the rest is lost; the step is closed, the turn is an error."""
    async with conversation(always=FINE, profile=profile) as talk:
        talk.refuse("S user/message t")
        talk.inject("s")
        talk.inject("t")
        talk.followup("a")
        await talk.idle()
        assert talk.since("S step/start 1.1") == [
            "S user/message s",
            "S step/end 1.1",
            "E agent/error 1.1",
            "S turn/end 1 error",
            IDLE,
        ]
        assert not talk.adapter.requests
        await next_prompt_runs(talk, "b")


@pytest.mark.parametrize(
    "record", ["request/header", "request/context", "assistant/chunk block-end", "assistant/message"]
)
@BOTH
async def test_lr_205_a_record_of_the_request(profile: Profile, record: str) -> None:
    """The step is closed, the turn is an error, recovery is not asked."""
    async with conversation(always=FINE, profile=profile) as talk:
        talk.during("agent/request-error", lambda: talk.mark("recovery"))
        talk.refuse(f"S {record}")
        talk.followup("a")
        await talk.idle()
        assert talk.trace[-4:] == ["S step/end 1.1", "E agent/error 1.1", "S turn/end 1 error", IDLE]
        assert talk.count("-- recovery") == 0
        assert talk.records("assistant/message") == []
        await next_prompt_runs(talk, "b")


@pytest.mark.parametrize(
    ("record", "left"),
    [
        ("tool/call c2", ["S tool/call c1", "S tool/result c1"]),
        ("tool/result c1", ["S tool/call c1"]),
    ],
)
@BOTH
async def test_lr_206_a_record_of_the_tool_batch(profile: Profile, record: str, left: list[str]) -> None:
    """A failure of the scheduler: nothing more starts, nothing is made up, the turn is an error."""
    script = tool_calls(("c1", "work", {}), ("c2", "work", {}), ("c3", "work", {}))
    async with conversation(script, always=FINE, profile=profile) as talk:
        talk.tool("work")
        talk.refuse(f"S {record}")
        talk.followup("a")
        await talk.idle()
        assert talk.since("S assistant/message") == [
            *left,
            "S step/end 1.1",
            "E agent/error 1.1",
            "S turn/end 1 error",
            IDLE,
        ]


@pytest.mark.parametrize("companion", [False, True])
@BOTH
async def test_lr_207_a_step_end(profile: Profile, companion: bool) -> None:
    """The turn is an error. With a companion that guards the log, the end of a turn with an open step is refused as
    well: a second error, and idle all the same."""
    async with conversation(always=FINE, profile=profile) as talk:
        talk.refuse("S step/end 1.1")
        if companion:
            talk.refuse("S turn/end 1")
        talk.followup("a")
        await talk.idle()
        end = "E agent/error 1.1" if companion else "S turn/end 1 error"
        assert talk.since("S assistant/message") == ["E agent/error 1.1", end, IDLE]
        talk.followup("b")
        await talk.idle()
        assert talk.batches()[-1] == (2, 1, ["b"])


@pytest.mark.parametrize("failed", [False, True])
@BOTH
async def test_lr_208_a_turn_end(profile: Profile, failed: bool) -> None:
    """An error, the run ends and does not drain, the number is consumed."""
    async with conversation(*([fail()] if failed else []), always=FINE, profile=profile) as talk:
        talk.refuse("S turn/end 1")
        talk.followup("a")
        talk.followup("q")
        await talk.idle()
        errors = ["E agent/error 1.1"] * (2 if failed else 1)
        assert talk.since("S step/end 1.1") == [*errors, IDLE]
        assert talk.pending() == ([], ["q"])
        await next_prompt_runs(talk, "q", "b")
        assert [turn for turn, _, _ in talk.batches()] == [1, 2, 3]


@BOTH
async def test_lr_209_a_discard_inside_a_cancel(profile: Profile) -> None:
    """The error leaves `cancel` before the abort: nothing is aborted, and what could not be discarded runs."""
    async with busy(profile=profile) as talk:
        talk.inject("s")
        talk.agent.send(message("q"), "next-turn", False)
        talk.refuse("S agent/inbox/spliced next-turn 0 -1 canceled")
        with pytest.raises(Veto):
            talk.agent.cancel(USER)
        assert not talk.agent.signal.aborted
        await talk.release()
        assert talk.count("E agent/inbox/discarded") == 1
        assert talk.ends() == ["completed", "completed"]
        assert ran(talk) == [["a"], ["q"]]
