"""The wake latch: sends that come while an aborted turn converges (agent-loop 19.2, LR-030 to LR-047)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.harness.conversation import Conversation, busy, conversation, message
from tests.races.staging import BOTH, DISPOSED, NOTHING, PARENT, USER, Verdict, ran

from loopharness.gate import Gate
from loopharness.model.scripted import fail, text
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")


@BOTH
async def test_lr_030_a_followup_while_an_aborted_turn_converges(profile: Profile) -> None:
    """It runs in the next turn, without another wake."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("b")
        await talk.release()
        assert talk.ends() == ["aborted user", "completed"]
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["idle", "running", "idle"]


@BOTH
async def test_lr_031_a_late_followup_while_the_stream_ignores_the_signal(profile: Profile) -> None:
    """The same, however long the convergence takes."""
    early, late = Gate(), Gate()
    start, delta, *rest = text("Slow.")
    async with conversation([start, delta, early, late, *rest], FINE, profile=profile) as talk:
        talk.followup("a")
        await early.reached()
        talk.agent.cancel(USER)
        early.open()
        await late.reached()
        talk.followup("b")
        late.open()
        await talk.idle()
        assert talk.ends() == ["aborted user", "completed"]
        assert talk.batches()[1] == (2, 1, ["b"])


@BOTH
async def test_lr_032_a_steer_while_an_aborted_turn_converges(profile: Profile) -> None:
    """It becomes a prompt, is latched and replayed."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.steer("b")
        assert talk.pending() == ([], ["b"])
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]


@BOTH
async def test_lr_033_an_inject_while_an_aborted_turn_converges(profile: Profile) -> None:
    """It stays a message for the next step, wakes nobody, and is parked."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.inject("i")
        await talk.release()
        assert talk.pending() == (["i"], [])
        assert talk.statuses() == ["idle"]


@BOTH
async def test_lr_034_an_inject_and_a_followup_while_an_aborted_turn_converges(profile: Profile) -> None:
    """The replayed turn takes both in one batch."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.inject("i")
        talk.followup("b")
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["i", "b"])]


@BOTH
async def test_lr_035_the_latched_message_is_removed(profile: Profile) -> None:
    """Nothing is pending: no replay, and no empty turn."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("b")
        assert talk.agent.inbox.remove("b")
        await talk.release()
        assert talk.ends() == ["aborted user"]
        assert talk.statuses() == ["idle"]


@pytest.mark.parametrize("target", ["next-turn", "next-step"])
@BOTH
async def test_lr_036_the_latched_message_is_removed_and_another_one_waits(profile: Profile, target: Any) -> None:
    """The latch is paid by whatever is pending, though that one woke nobody."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("b")
        talk.agent.send(message("q"), target, False)
        assert talk.agent.inbox.remove("b")
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["q"])]


@BOTH
async def test_lr_037_a_clearing_cancel_after_the_latched_send(profile: Profile) -> None:
    """The message is discarded and the latch cleared: a message that comes without a wake is not replayed either."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("b")
        talk.agent.cancel(USER)
        assert talk.count("E agent/inbox/discarded b") == 1
        talk.inject("i")
        await talk.release()
        assert talk.statuses() == ["idle"]
        assert talk.pending() == (["i"], [])


@BOTH
async def test_lr_038_a_clearing_cancel_after_the_latched_send_then_another_one(profile: Profile) -> None:
    """Only the last one runs; the first cause is the recorded one."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("b")
        talk.agent.cancel(PARENT)
        talk.followup("c")
        await talk.release()
        assert talk.ends() == ["aborted user", "completed"]
        assert ran(talk) == [["a"], ["c"]]


@BOTH
async def test_lr_039_a_keeping_cancel_after_the_latched_send(profile: Profile) -> None:
    """Latch and message survive, the first cause is recorded, the message runs."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("b")
        talk.agent.cancel(PARENT, keep_inbox=True)
        await talk.release()
        assert talk.ends() == ["aborted user", "completed"]
        assert ran(talk) == [["a"], ["b"]]


@BOTH
async def test_lr_040_a_wake_behind_what_a_keeping_cancel_kept(profile: Profile) -> None:
    """The replay takes the kept messages first: one turn for them, the next for the wake."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.inject("s")
        talk.agent.cancel(USER, keep_inbox=True)
        talk.followup("w")
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["s", "q"]), (3, 1, ["w"])]
        assert talk.statuses() == ["idle", "running", "idle"]


@pytest.mark.parametrize("keep", [False, True])
@BOTH
async def test_lr_041_a_followup_from_a_listener_of_the_abort(profile: Profile, keep: bool) -> None:
    """The signal is aborted by then: the send is latched and replayed, also when the cancel clears."""
    async with busy(profile=profile) as talk:
        talk.agent.signal.on_abort(lambda reason: talk.steer("b"))
        talk.agent.cancel(USER, keep_inbox=keep)
        assert talk.pending() == ([], ["b"])
        await talk.release()
        assert talk.ends() == ["aborted user", "completed"]
        assert talk.batches()[1] == (2, 1, ["b"])


@BOTH
async def test_lr_042_a_followup_while_the_first_cancel_still_has_to_clear(profile: Profile) -> None:
    """It lands in a list that is cleared next, and is discarded too, though that list was empty before."""
    async with busy(profile=profile) as talk:
        talk.inject("s")
        talk.at("E agent/inbox/discarded s", lambda: talk.followup("d"))
        talk.agent.cancel(USER)
        assert talk.count("E agent/inbox/discarded d") == 1
        await talk.release()
        assert talk.statuses() == ["idle"]
        assert talk.pending() == ([], [])


@pytest.mark.parametrize("kind", ["followup", "steer"])
@BOTH
async def test_lr_042_a_wake_while_a_second_cancel_still_has_to_clear(profile: Profile, kind: str) -> None:
    """After an abort a steer is a prompt as well: both are discarded with the prompts."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.inject("s")
        talk.at("E agent/inbox/discarded s", lambda: getattr(talk, kind)("d"))
        talk.agent.cancel(USER)
        assert talk.count("E agent/inbox/discarded d") == 1
        await talk.release()
        assert talk.statuses() == ["idle"]


async def parked(talk: Conversation, lists: tuple[list[str], list[str]]) -> None:
    """Nothing is replayed, and the lists still hold this."""
    await talk.release()
    assert talk.statuses() == ["idle"]
    assert talk.ends() == ["aborted user"]
    assert talk.pending() == lists


@BOTH
async def test_lr_043_a_wake_while_the_first_cancel_discards_its_last_message(profile: Profile) -> None:
    """It survives and is parked: the signal is not aborted yet, so it is never latched."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.at("E agent/inbox/discarded q", lambda: talk.followup("d"))
        talk.agent.cancel(USER)
        await parked(talk, ([], ["d"]))


@BOTH
async def test_lr_043_a_steer_after_the_first_cancel_has_cleared_next_step(profile: Profile) -> None:
    """It survives in next-step, which is not cleared again, and is parked."""
    async with busy(profile=profile) as talk:
        talk.inject("s")
        talk.at("E agent/inbox/discarded s", lambda: talk.steer("d"))
        talk.agent.cancel(USER)
        await parked(talk, (["d"], []))


@BOTH
async def test_lr_043_a_wake_while_a_second_cancel_discards_its_last_message(profile: Profile) -> None:
    """It is latched, and the cancel clears the latch right after."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("q")
        talk.at("E agent/inbox/discarded q", lambda: talk.followup("d"))
        talk.agent.cancel(USER)
        await parked(talk, ([], ["d"]))


@BOTH
async def test_lr_043_a_wake_while_a_cancel_of_maintenance_discards_its_last_message(profile: Profile) -> None:
    """The same with a job in the place of the turn."""
    job = Gate()
    async with conversation(profile=profile) as talk:
        ticket = talk.agent.run_maintenance(lambda signal: job.enter())
        talk.followup("q")
        talk.at("E agent/inbox/discarded q", lambda: talk.followup("d"))
        talk.agent.cancel(USER)
        job.open()
        await ticket
        await talk.idle()
        assert talk.statuses() == []
        assert talk.pending() == ([], ["d"])


@BOTH
async def test_lr_044_what_a_keeping_cancel_kept_waits_for_a_wake(profile: Profile) -> None:
    """Parked through the convergence; the next wake finds it in front."""
    async with busy(profile=profile) as talk:
        talk.followup("q")
        talk.agent.cancel(USER, keep_inbox=True)
        await talk.release()
        assert talk.pending() == ([], ["q"])
        assert talk.statuses() == ["idle"]
        talk.followup("w")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["q"]), (3, 1, ["w"])]


@BOTH
async def test_lr_045_a_followup_from_the_idle_notification_before_a_replay(profile: Profile) -> None:
    """Its driver runs the latched message first, then the new one; the replay finds it and does nothing."""
    async with busy(profile=profile) as talk:
        talk.agent.cancel(USER)
        talk.followup("b")
        talk.at("E agent/status idle", lambda: talk.followup("c"))
        await talk.release()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"]), (3, 1, ["c"])]
        assert talk.statuses() == ["idle", "running", "idle"]


async def maintained(
    talk: Conversation, cancel: Callable[[], object] = lambda: None, waits: list[str] | None = None
) -> None:
    """Start a job in the closing idle notification, act, and check what waits while the job runs."""
    job = Gate()
    talk.agent.cancel(USER)
    talk.followup("b")

    def begin() -> None:
        talk.agent.run_maintenance(lambda signal: job.enter())
        cancel()

    talk.at("E agent/status idle", begin)
    talk.gate.open()
    await job.reached()
    assert talk.statuses() == ["idle"]
    assert talk.pending() == ([], ["b"])
    job.open()
    await talk.idle()


@pytest.mark.parametrize("cancelled", [False, True])
@BOTH
async def test_lr_046_maintenance_from_the_idle_notification_before_a_replay(profile: Profile, cancelled: bool) -> None:
    """The latch moves behind the job, also when the job is cancelled by a user who keeps the inbox."""
    async with busy(profile=profile) as talk:
        cancel = (lambda: talk.agent.cancel(USER, keep_inbox=True)) if cancelled else (lambda: None)
        await maintained(talk, cancel)
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.statuses() == ["idle", "running", "idle"]


@BOTH
async def test_lr_046_the_same_with_a_job_that_disposal_cancels(profile: Profile) -> None:
    """The latch is dropped; the message waits for a later wake and runs first then."""
    async with busy(profile=profile) as talk:
        await maintained(talk, lambda: talk.agent.cancel(DISPOSED, keep_inbox=True))
        assert talk.statuses() == ["idle"]
        assert talk.pending() == ([], ["b"])
        talk.followup("w")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"]), (3, 1, ["w"])]


@BOTH
async def test_lr_047_an_abort_in_the_tick_behind_an_empty_verdict_of_a_later_step(profile: Profile) -> None:
    """Published: the turn completes, the cause is lost, the run goes on with the latched message under a fresh latch.
    Seed: there is no such tick; the last moment for a cancel is the reading of the verdict, and it aborts the turn."""
    async with conversation(FINE, fail(), profile=profile) as talk:

        def interfere() -> None:
            talk.agent.cancel(USER, keep_inbox=True)
            talk.followup("b")
            talk.followup("c")

        stopping = talk.hold("agent/turn-stopping")
        talk.followup("a")
        await stopping.reached()
        talk.steer("s")
        if profile == "dsh-0.1":
            talk.during("agent/pre-step", answer=NOTHING)
            tick = talk.hold_point("tick")
            stopping.open()
            await tick.reached()
            interfere()
            tick.open()
        else:
            talk.during("agent/pre-step", answer=Verdict(NOTHING, interfere))
            stopping.open()
        await talk.idle()
        assert talk.batches() == [(1, 1, ["a"]), (2, 1, ["b"])]
        assert talk.pending() == ([], ["c"])
        if profile == "dsh-0.1":
            assert talk.ends() == ["completed", "error"]
            assert talk.statuses() == ["running", "idle"]
        else:
            assert talk.ends() == ["aborted user", "error"]
            assert talk.statuses() == ["running", "idle", "running", "idle"]
