"""Field cases about lost input, lost wakes and siblings (field-cases K02, K04, K06, K08, K15), from their files."""

from __future__ import annotations

import pytest
from tests.races.operations import Look, played
from tests.races.staging import BOTH, ran

from loopspec.accounting import fold_accounts
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio


@BOTH
async def test_k02_a_queue_and_a_clearing_cancel(profile: Profile) -> None:
    """One removal for both prompts, two `discarded` in order, and no trace of them in history."""
    async with played("K02-queue-then-clearing-cancel", profile) as stage:
        talk = stage.talk
        assert [line for line in talk.trace if "canceled" in line or "discarded" in line] == [
            "S agent/inbox/spliced next-turn 0 -2 canceled",
            "E agent/inbox/discarded q1",
            "E agent/inbox/discarded q2",
        ]
        assert ran(talk) == [["u1"]]
        assert stage.states == [Look("idle", [], [], 1)]
        events = list(talk.agent.session.events)
        removal = next(event["seq"] for event in events if event["data"].get("outcome") == "canceled")
        assert fold_accounts(events[: removal + 1]).dropped_unrun


@BOTH
async def test_k02_a_queue_and_a_keeping_cancel(profile: Profile) -> None:
    """Parked without a turn; an inject wakes nobody; the next wake runs everything in order."""
    async with played("K02-queue-then-keeping-cancel", profile) as stage:
        assert stage.states[:2] == [Look("idle", [], ["q1", "q2"], 1), Look("idle", ["i"], ["q1", "q2"], 1)]
        assert stage.talk.batches() == [
            (1, 1, ["u1"]),
            (2, 1, ["i", "q1"]),
            (3, 1, ["q2"]),
            (4, 1, ["go"]),
        ]
        assert stage.states[2] == Look("idle", [], [], 4)


@BOTH
async def test_k04_a_prompt_behind_the_queue_of_a_failed_turn(profile: Profile) -> None:
    """It wakes the agent, and the queue runs first."""
    async with played("K04-continue-behind-the-queue", profile) as stage:
        assert stage.states[0] == Look("idle", [], ["q1", "q2"], 1)
        assert ran(stage.talk) == [["u1"], ["q1"], ["q2"], ["continue"]]
        assert stage.talk.ends() == ["error", "completed", "completed", "completed"]


@BOTH
async def test_k04_the_prompt_is_moved_to_the_front_while_it_is_announced(profile: Profile) -> None:
    """Three records; the move comes before the wake, so one driver runs all in one interval. A `discarded` is told for
    a message that still runs."""
    async with played("K04-continue-moved-to-the-front", profile) as stage:
        talk = stage.talk
        assert ran(talk) == [["u1"], ["continue"], ["q1"], ["q2"]]
        at = talk.trace.index("E agent/inbox/inserted continue")
        assert talk.trace[at - 1 : at + 6] == [
            "S agent/inbox/spliced next-turn 2 +continue",
            "E agent/inbox/inserted continue",
            "S agent/inbox/spliced next-turn 2 -1 canceled",
            "E agent/inbox/discarded continue",
            "S agent/inbox/spliced next-turn 0 +continue",
            "E agent/inbox/inserted continue",
            "E agent/status running",
        ]
        assert talk.statuses() == ["running", "idle", "running", "idle"]


@BOTH
async def test_k06_two_sends_inside_the_idle_notification(profile: Profile) -> None:
    """A nested driver runs both."""
    async with played("K06-two-sends-inside-the-idle-notification", profile) as stage:
        assert ran(stage.talk) == [["u1"], ["m1"], ["m2"]]
        assert stage.talk.statuses() == ["running", "idle", "running", "idle"]
        assert stage.states == [Look("idle", [], [], 3)]


@BOTH
async def test_k06_a_send_in_the_exit_gap(profile: Profile) -> None:
    """Published: parked until somebody pings. Seed: it runs by itself."""
    async with played("K06-send-in-the-exit-gap", profile) as stage:
        parked = Look("idle", [], ["m1"], 1)
        assert stage.states[0] == (parked if profile == "dsh-0.1" else Look("idle", [], [], 2))
        assert ran(stage.talk) == [["u1"], ["m1"], ["ping"]]


@BOTH
async def test_k08_somebody_waits_for_idleness_while_injected_work_runs(profile: Profile) -> None:
    """He is answered only behind the idle of the second run."""
    async with played("K08-idle-waiter-and-injected-work", profile) as stage:
        assert stage.states[0] == Look("running", [], [], 2)
        assert stage.talk.trace[-2:] == ["E agent/status idle", "-- whenIdle answered, idle"]
        assert stage.talk.count("-- whenIdle") == 1
        assert ran(stage.talk) == [["u1"], ["late"]]
        assert stage.talk.statuses() == ["running", "idle", "running", "idle"]


@BOTH
async def test_k15_one_failure_among_three_parallel_calls(profile: Profile) -> None:
    """Three real results in model order; nobody cancels the siblings."""
    async with played("K15-one-failure-among-three", profile) as stage:
        results = stage.talk.records("tool/result")
        assert [data["message"]["source"]["callId"] for data in results] == ["c1", "c2", "c3"]
        assert [data["message"]["content"][0]["isError"] for data in results] == [True, False, False]
        assert results[0]["message"]["content"][0]["content"][0]["text"] == "Error: no such file"
        assert all("ABORTED" not in data.get("error", {}).get("code", "") for data in results)
        assert stage.talk.ends() == ["completed"]
