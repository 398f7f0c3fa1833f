"""Maintenance: sends and cancels while a job has the agent (agent-loop 19.10, LR-190 to LR-198)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.harness.conversation import Conversation, busy, conversation
from tests.races.staging import BOTH, DISPOSED, USER, Planned

from loopharness.gate import Gate
from loopharness.model.scripted import text
from loopharness.signal import Signal
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
BUSY = r'^agent "main" already has active work$'


class Job:
    """A job that stands at a gate, then answers `done` or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.gate = Gate()
        self.signal: Signal
        self.ticket: Awaitable[Any]
        self._failure = failure

    async def __call__(self, signal: Signal) -> str:
        self.signal = signal
        await self.gate.enter()
        if self._failure is not None:
            raise self._failure
        return "done"


@asynccontextmanager
async def maintained(job: Job, **more: Any) -> AsyncIterator[Conversation]:
    """An agent whose job is running."""
    async with conversation(always=FINE, **more) as talk:
        job.ticket = talk.agent.run_maintenance(job)
        await job.gate.reached()
        yield talk


@BOTH
async def test_lr_190_a_followup_during_maintenance(profile: Profile) -> None:
    """Latched: nothing is claimed and the status stays idle. The turn opens before the job's caller goes on."""
    job = Job()
    async with maintained(job, profile=profile) as talk:
        talk.followup("b")
        assert talk.agent.status == "idle"
        assert talk.pending() == ([], ["b"])
        job.gate.open()
        assert await job.ticket == "done"
        talk.mark("the caller goes on")
        await talk.idle()
        assert talk.trace.index("S turn/start 1") < talk.trace.index("-- the caller goes on")
        assert talk.batches() == [(1, 1, ["b"])]


@BOTH
async def test_lr_191_the_latched_message_is_removed_during_maintenance(profile: Profile) -> None:
    """No turn."""
    job = Job()
    async with maintained(job, profile=profile) as talk:
        talk.followup("b")
        talk.agent.inbox.remove("b")
        job.gate.open()
        await job.ticket
        await talk.idle()
        assert talk.statuses() == []
        assert talk.count("S turn/start") == 0


@BOTH
async def test_lr_192_a_clearing_cancel_during_maintenance(profile: Profile) -> None:
    """The message is discarded, the latch cleared, the job's signal aborted."""
    job = Job()
    async with maintained(job, profile=profile) as talk:
        talk.followup("b")
        talk.agent.cancel(USER)
        assert talk.trace[-1] == "E agent/inbox/discarded b"
        assert job.signal.reason is USER
        talk.inject("i")
        job.gate.open()
        await job.ticket
        await talk.idle()
        assert talk.statuses() == []
        assert talk.pending() == (["i"], [])


@pytest.mark.parametrize("failure", [None, Planned("broken")])
@pytest.mark.parametrize("kind", ["followup", "steer"])
@BOTH
async def test_lr_193_a_wake_during_aborted_maintenance(profile: Profile, kind: str, failure: Exception | None) -> None:
    """Re-targeted to the prompts and latched; replayed when the job settles, even if it fails."""
    job = Job(failure)
    async with maintained(job, profile=profile) as talk:
        talk.agent.cancel(USER)
        getattr(talk, kind)("c")
        assert talk.pending() == ([], ["c"])
        job.gate.open()
        if failure is None:
            assert await job.ticket == "done"
        else:
            with pytest.raises(Planned):
                await job.ticket
        await talk.idle()
        assert talk.batches() == [(1, 1, ["c"])]


@pytest.mark.parametrize(("profile", "format"), [("seed", 0), ("dsh-0.1", 0), ("dsh-0.1.7", 4)])
async def test_lr_194_a_keeping_disposal_behind_a_latched_followup(profile: Profile, format: int) -> None:
    """Published 0.1: replayed. Seed and 0.1.7: suppressed, the message stays pending."""
    job = Job()
    async with maintained(job, profile=profile, session_format=format) as talk:
        talk.followup("b")
        talk.agent.cancel(DISPOSED, keep_inbox=True)
        job.gate.open()
        await job.ticket
        await talk.idle()
        if profile == "dsh-0.1":
            assert talk.batches() == [(1, 1, ["b"])]
        else:
            assert talk.statuses() == []
            assert talk.pending() == ([], ["b"])


@BOTH
async def test_lr_195_a_second_maintenance(profile: Profile) -> None:
    """Refused at once while a job or a turn has the agent; that job never begins."""
    began: list[Signal] = []
    job = Job()
    async with maintained(job, profile=profile) as talk:
        with pytest.raises(RuntimeError, match=BUSY):
            talk.agent.run_maintenance(began.append)
        job.gate.open()
        await job.ticket
    async with busy(profile=profile) as talk:
        with pytest.raises(RuntimeError, match=BUSY):
            talk.agent.run_maintenance(began.append)
        await talk.release()
        assert talk.ends() == ["completed"]
    assert began == []


@BOTH
async def test_lr_196_an_inject_during_maintenance(profile: Profile) -> None:
    """Pending; it wakes nobody, and runs with the next wake."""
    job = Job()
    async with maintained(job, profile=profile) as talk:
        talk.inject("i")
        job.gate.open()
        await job.ticket
        await talk.idle()
        assert talk.statuses() == []
        talk.followup("b")
        await talk.idle()
        assert talk.batches() == [(1, 1, ["i", "b"])]


@BOTH
async def test_lr_197_a_job_throws_at_once(profile: Profile) -> None:
    """The answer fails, the agent is idle again, and a latch is honoured."""
    async with conversation(FINE, profile=profile) as talk:

        def job(signal: Signal) -> None:
            talk.followup("b")
            raise Planned("broken")

        ticket = talk.agent.run_maintenance(job)
        with pytest.raises(Planned, match="broken"):
            await ticket
        await talk.idle()
        assert talk.batches() == [(1, 1, ["b"])]
        assert talk.agent.status == "idle"


@BOTH
async def test_lr_198_a_steer_during_maintenance(profile: Profile) -> None:
    """It keeps its target, and the replayed turn claims it."""
    job = Job()
    async with maintained(job, profile=profile) as talk:
        talk.steer("s")
        assert talk.pending() == (["s"], [])
        job.gate.open()
        await job.ticket
        await talk.idle()
        assert talk.batches() == [(1, 1, ["s"])]
