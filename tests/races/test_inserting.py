"""Insertion and waking: what happens around a send (agent-loop 19.1, LR-001 to LR-025)."""

from __future__ import annotations

from functools import partial

import pytest
from tests.harness.conversation import busy, conversation, message
from tests.races.staging import BOTH, REENTRY, USER, Attempts, places, ran

from loopharness.model.scripted import text
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")

EMPTY_TURN = ["E agent/status running", "S turn/start 1", "S turn/end 1 completed", "E agent/status idle"]
ARRIVAL = ["S agent/inbox/spliced next-turn 0 +a", "E agent/inbox/inserted a"]
REMOVAL = ["S agent/inbox/spliced next-turn 0 -1 canceled", "E agent/inbox/discarded a"]


@BOTH
async def test_lr_001_the_waking_message_is_removed_while_it_is_announced(profile: Profile) -> None:
    """The turn opens all the same, claims nothing and completes without a step or a request."""
    async with conversation(profile=profile) as talk:
        talk.at("E agent/inbox/inserted a", lambda: talk.agent.inbox.remove("a"))
        talk.followup("a")
        await talk.idle()
        assert talk.trace == [*ARRIVAL, *REMOVAL, *EMPTY_TURN]
        assert not talk.adapter.requests


@BOTH
async def test_lr_002_the_waking_message_is_removed_while_runtime_context_is_due(profile: Profile) -> None:
    """The context alone makes a step, and costs one model call."""
    async with conversation(FINE, profile=profile) as talk:
        talk.harness.prompt.runtime_context(talk.harness.context, "clock", 0, "It is noon.")
        talk.at("E agent/inbox/inserted a", lambda: talk.agent.inbox.remove("a"))
        talk.followup("a")
        await talk.idle()
        (only,) = talk.records("user/message")
        assert only["content"][0]["text"] == (
            "Current runtime context. This snapshot supersedes earlier runtime-context snapshots.\n\nIt is noon."
        )
        assert places(talk) == [(1, 1)]
        assert len(talk.adapter.requests) == 1
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_003_a_clearing_cancel_while_the_waking_message_is_announced(profile: Profile) -> None:
    """The message is discarded before the status flips; then an empty turn, and the cause is recorded nowhere."""
    async with conversation(profile=profile) as talk:
        talk.at("E agent/inbox/inserted a", lambda: talk.agent.cancel(USER))
        talk.followup("a")
        await talk.idle()
        assert talk.trace == [*ARRIVAL, *REMOVAL, *EMPTY_TURN]


@BOTH
async def test_lr_004_a_clearing_cancel_and_another_prompt_while_the_waking_message_is_announced(
    profile: Profile,
) -> None:
    """The second prompt's wake starts the driver; the outer wake finds it and does nothing."""
    async with conversation(FINE, profile=profile) as talk:
        talk.at("E agent/inbox/inserted a", lambda: talk.agent.cancel(USER), lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["b"])]
        assert talk.count("E agent/inbox/discarded a") == 1
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_005_another_prompt_while_the_waking_message_is_announced(profile: Profile) -> None:
    """The inner wake starts the driver, which claims the outer message first; the inner one is the next turn."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.at("E agent/inbox/inserted a", lambda: talk.followup("b"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["running", "idle"]


@pytest.mark.parametrize("kind", ["followup", "steer", "inject"])
@BOTH
async def test_lr_006_a_send_from_the_observer_of_an_insertion(
    profile: Profile, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Published: refused and contained, a warning is all that remains. Seed: it waits for the log, then counts."""
    async with conversation(always=FINE, profile=profile) as talk:
        talk.at("S agent/inbox/spliced next-turn 0 +a", lambda: getattr(talk, kind)("b"))
        talk.followup("a")
        await talk.idle()
        if profile == "dsh-0.1":
            assert talk.count("E agent/inbox/inserted b") == 0
            assert talk.batches() == [(1, 1, ["a"])]
            assert REENTRY in caplog.text
        else:
            assert talk.count("E agent/inbox/inserted b") == 1
            first = [(1, 1, ["a"]), (2, 1, ["b"])] if kind == "followup" else [(1, 1, ["b", "a"])]
            assert talk.batches() == first
            assert REENTRY not in caplog.text


@pytest.mark.parametrize(("profile", "format"), [("seed", 0), ("dsh-0.1", 0), ("dsh-0.1.7", 4)])
async def test_lr_007_a_clearing_cancel_from_the_observer_of_the_waking_insertion(
    profile: Profile, format: int
) -> None:
    """Published, lists empty before: nothing to clear, nothing to abort, the message runs; in 0.1.7 the clear is
    refused, with the same end. Seed: the cancel waits for the log and then discards the message."""
    refused = Attempts()
    async with conversation(always=FINE, profile=profile, session_format=format) as talk:
        cancel = partial(talk.agent.cancel, USER)
        talk.at("S agent/inbox/spliced next-turn 0 +a", lambda: refused.make(cancel))
        talk.followup("a")
        await talk.idle()
        assert refused.errors == ([REENTRY] if profile == "dsh-0.1.7" else [])
        if profile == "seed":
            assert talk.trace == [*ARRIVAL, *REMOVAL, *EMPTY_TURN]
        else:
            assert talk.batches() == [(1, 1, ["a"])]
            assert talk.ends() == ["completed"]


@pytest.mark.parametrize(("profile", "format"), [("seed", 0), ("dsh-0.1", 0), ("dsh-0.1.7", 4)])
async def test_lr_008_a_clearing_cancel_from_the_observer_of_an_insertion_in_a_turn(
    profile: Profile, format: int
) -> None:
    """Published: the turn aborts, the message is inserted afterwards and parked. 0.1.7: the cancel is lost, the message
    runs next. Seed: the cancel waits, and then takes the message with it."""
    refused = Attempts()
    async with busy(profile=profile, session_format=format) as talk:
        cancel = partial(talk.agent.cancel, USER)
        talk.at("S agent/inbox/spliced next-turn 0 +b", lambda: refused.make(cancel))
        talk.followup("b")
        await talk.release()
        if profile == "dsh-0.1.7":
            assert refused.errors == [REENTRY]
            assert talk.ends() == ["completed", "completed"]
            assert ran(talk) == [["a"], ["b"]]
        else:
            assert refused.errors == []
            assert talk.ends() == ["aborted user"]
            assert talk.pending() == ([], ["b"] if profile == "dsh-0.1" else [])
            assert talk.count("E agent/inbox/discarded b") == (0 if profile == "dsh-0.1" else 1)


@BOTH
async def test_lr_009_the_same_with_something_pending(profile: Profile) -> None:
    """Published: the cancel neither clears nor aborts, and everything runs. Seed: it waits, then does both."""
    refused = Attempts()
    async with busy(profile=profile) as talk:
        talk.followup("q")
        cancel = partial(talk.agent.cancel, USER)
        talk.at("S agent/inbox/spliced next-turn 1 +b", lambda: refused.make(cancel))
        talk.followup("b")
        await talk.release()
        if profile == "dsh-0.1":
            assert refused.errors == [REENTRY]
            assert ran(talk) == [["a"], ["q"], ["b"]]
            assert talk.ends() == ["completed"] * 3
            assert talk.count("E agent/inbox/discarded") == 0
        else:
            assert refused.errors == []
            assert talk.ends() == ["aborted user"]
            assert [line for line in talk.trace if "discarded" in line] == [
                "E agent/inbox/discarded q",
                "E agent/inbox/discarded b",
            ]
        assert talk.pending() == ([], [])


@BOTH
async def test_lr_010_a_keeping_cancel_from_the_observer_of_an_insertion_in_a_turn(profile: Profile) -> None:
    """The turn aborts; the message was classified before that, so it is parked with what was pending."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.at("S agent/inbox/spliced next-turn 1 +b", lambda: talk.agent.cancel(USER, keep_inbox=True))
        talk.followup("b")
        await talk.release()
        assert talk.ends() == ["aborted user"]
        assert talk.pending() == ([], ["q", "b"])
        assert talk.statuses() == ["idle"]


@BOTH
async def test_lr_011_a_clearing_cancel_while_a_prompt_of_a_turn_is_announced(profile: Profile) -> None:
    """The prompt is discarded, the turn aborts, nothing is replayed."""
    async with busy(profile=profile) as talk:
        talk.at("E agent/inbox/inserted b", lambda: talk.agent.cancel(USER))
        talk.followup("b")
        assert talk.trace[-1] == "E agent/inbox/discarded b"
        await talk.release()
        assert talk.ends() == ["aborted user"]
        assert talk.statuses() == ["idle"]
        assert talk.pending() == ([], [])


@BOTH
async def test_lr_012_a_keeping_cancel_while_a_prompt_of_a_turn_is_announced(profile: Profile) -> None:
    """The turn aborts; the prompt is parked, because a send is classified before its insertion."""
    async with busy(profile=profile) as talk:
        talk.at("E agent/inbox/inserted b", lambda: talk.agent.cancel(USER, keep_inbox=True))
        talk.followup("b")
        await talk.release()
        assert talk.ends() == ["aborted user"]
        assert talk.statuses() == ["idle"]
        assert talk.pending() == ([], ["b"])


@BOTH
async def test_lr_013_two_followups_at_once(profile: Profile) -> None:
    """Two turns in one running interval."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.followup("a")
        talk.followup("b")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["running", "idle"]


@BOTH
async def test_lr_014_two_steers_at_once(profile: Profile) -> None:
    """One turn with two steps."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.steer("a")
        talk.steer("b")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["b"])]
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_015_inject_then_followup(profile: Profile) -> None:
    """One step whose batch has the injected message in front."""
    async with conversation(FINE, profile=profile) as talk:
        talk.inject("i")
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["i", "a"])]


@BOTH
async def test_lr_016_followup_then_inject(profile: Profile) -> None:
    """Two steps: the prompt was claimed before the injection came."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.followup("a")
        talk.inject("i")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["i"])]
        assert talk.ends() == ["completed"]


@BOTH
async def test_lr_017_a_prompt_that_wakes_nobody_then_a_steer(profile: Profile) -> None:
    """One step with the steering in front."""
    async with conversation(FINE, profile=profile) as talk:
        talk.agent.send(message("n"), "next-turn", False)
        assert talk.agent.status == "idle"
        talk.steer("s")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["s", "n"])]


@BOTH
async def test_lr_018_sends_while_the_agent_becomes_running(profile: Profile) -> None:
    """The steering and the front of the queue join the first claim; a prompt behind the front is the next turn."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.at("E agent/status running", lambda: talk.steer("s"), lambda: talk.followup("f"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["s", "a"]), (2, 1, ["f"])]
    async with conversation(FINE, profile=profile) as talk:
        talk.at("E agent/status running", lambda: talk.followup("f"))
        talk.steer("s")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["s", "f"])]


@BOTH
async def test_lr_019_an_id_that_is_pending_is_sent_again(profile: Profile) -> None:
    """The send raises; no record, no wake."""
    async with conversation(profile=profile) as talk:
        talk.inject("q")
        talk.trace.clear()
        with pytest.raises(ValueError, match=r'^message "q" is already pending$'):
            talk.followup("q")
        assert talk.trace == []
        assert talk.agent.status == "idle"
        assert talk.pending() == (["q"], [])


@BOTH
async def test_lr_020_an_id_that_was_claimed_is_sent_again(profile: Profile) -> None:
    """It is not pending any more, so it is accepted, and the second turn logs the same id again."""
    async with busy(profile=profile) as talk:
        talk.followup("a")
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["a"])]
        assert talk.ends() == ["completed", "completed"]


@BOTH
async def test_lr_021_a_claimed_message_cannot_be_edited(profile: Profile) -> None:
    """Replace and remove answer false, and nothing changes."""
    answers = Attempts()
    async with conversation(FINE, profile=profile) as talk:
        inbox = talk.agent.inbox
        edits = (lambda: inbox.replace("a", message("b")), lambda: inbox.remove("a"))
        talk.at("E agent/inbox/claimed a", lambda: answers.make(*edits))
        talk.followup("a")
        await talk.idle()
        assert answers.answers == [False, False]
        assert answers.errors == []
        assert talk.batches() == [(1, 1, ["a"])]
        assert talk.count("S agent/inbox/spliced") == 2


@BOTH
async def test_lr_022_sends_while_a_message_is_announced_as_claimed(profile: Profile) -> None:
    """They wait for the boundary behind the first step."""
    async with conversation(FINE, FINE, profile=profile) as talk:
        talk.at("E agent/inbox/claimed a", lambda: talk.steer("s"), lambda: talk.inject("i"))
        talk.followup("a")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["s", "i"])]


@BOTH
async def test_lr_023_an_edit_of_another_message_from_the_observer_of_a_claim(profile: Profile) -> None:
    """The append inside it would be re-entrant: refused, contained, nothing changes. The seed too: it has an answer."""
    refused = Attempts()
    async with conversation(FINE, FINE, profile=profile) as talk:
        inbox = talk.agent.inbox
        talk.agent.send(message("a"), "next-turn", False)
        edits = (lambda: inbox.remove("b"), lambda: inbox.replace("b", message("c")))
        talk.at("S agent/inbox/spliced next-turn 0 -1", lambda: refused.make(*edits))
        talk.followup("b")
        await talk.idle()
        assert refused.errors == [REENTRY, REENTRY]
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]


@BOTH
async def test_lr_024_a_prompt_is_moved_into_the_running_turn(profile: Profile) -> None:
    """A removal and an insertion, two records; it joins the turn at its next boundary."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.trace.clear()
        talk.agent.inbox.remove("q")
        talk.agent.inbox.append("next-step", message("q"))
        assert [line for line in talk.trace if line.startswith("S")] == [
            "S agent/inbox/spliced next-turn 0 -1 canceled",
            "S agent/inbox/spliced next-step 0 +q",
        ]
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (1, 2, ["q"])]


@BOTH
async def test_lr_025_a_pending_prompt_is_replaced(profile: Profile) -> None:
    """The replacement runs, in the place of the other."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.followup("r")
        assert talk.agent.inbox.replace("q", message("p"))
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["p"]), (3, 1, ["r"])]
