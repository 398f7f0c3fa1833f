"""Retries: cancel, end of the plugin, re-routing and other listeners against a backoff (llm-and-tools 6, 14.5, 17)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.harness.conversation import Conversation, conversation
from tests.races.staging import BOTH, RETRY, USER, Planned

from loopharness import retry
from loopharness.gate import Gate
from loopharness.model.failure import LlmError
from loopharness.model.scripted import Response, ScriptedAdapter, fail, text
from loopharness.retry import RetryPlugin
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

FINE = text("Fine.")
PLAIN = {"initialDelayMs": 500, "maxDelayMs": 2000, "jitterRatio": 0}
ALWAYS = {"mode": "always", "initialDelayMs": 1, "maxDelayMs": 4, "jitterRatio": 0}
KEY = '["normal",5,["EMPTY_RESPONSE","RATE_LIMIT","SERVER","TIMEOUT","TRANSPORT"],500,2000,0]'


class Clock:
    """Backoffs as they are asked for, in seconds. They are over at once, unless a gate holds the next one."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.running = 0
        self.gate: Gate | None = None
        self.rings: Callable[[], object] = lambda: None
        """What happens in the moment in which a timer runs off."""

    async def sleep(self, seconds: float) -> None:
        """One backoff."""
        self.asked.append(seconds)
        self.running += 1
        try:
            if self.gate is not None:
                await self.gate.enter()
        finally:
            self.running -= 1
        self.rings()


class Trial:
    """A conversation with the plugin mounted."""

    def __init__(self, talk: Conversation, plugin: RetryPlugin, clock: Clock) -> None:
        self.talk = talk
        self.plugin = plugin
        self.clock = clock

    async def run(self) -> None:
        """One prompt, to its end."""
        self.talk.followup("a")
        await self.talk.idle()

    def retries(self) -> list[tuple[Any, ...]]:
        """The schedule records: id, provider, retry, delay."""
        found = self.talk.records("llm/retry")
        return [(data["retryId"], data["provider"], data["retry"], data["delayMs"]) for data in found]

    def starts(self) -> list[tuple[str, int]]:
        """The start records: id, retry."""
        return [(data["retryId"], data["retry"]) for data in self.talk.records("llm/retry-started")]

    def error(self) -> str:
        """The code that the last turn ended with."""
        return str(self.talk.records("turn/end")[-1]["reason"]["error"]["code"])

    @property
    def attempts(self) -> int:
        """How many requests were sent."""
        return len(self.talk.adapter.requests)


@asynccontextmanager
async def trial(
    *script: Response,
    profile: Profile = "seed",
    policy: Mapping[str, Any] = PLAIN,
    chances: tuple[float, ...] = (),
    always: Response | None = None,
    session_format: int = 0,
) -> AsyncIterator[Trial]:
    """A conversation whose provider has a policy, with the plugin mounted; random numbers as given, then 0.5."""
    draws = iter(chances)
    numbers = iter(range(1, 100))
    talking = conversation(*script, always=always, profile=profile, retry_policy=policy, session_format=session_format)
    async with talking as talk:
        clock = Clock()
        plugin = retry.install(
            talk.harness, sleep=clock.sleep, chance=lambda: next(draws, 0.5), new_id=lambda: f"r{next(numbers)}"
        )
        yield Trial(talk, plugin, clock)
        assert clock.running == 0, "a timer outlives its turn"


@BOTH
async def test_inv_r4_the_schedule_precedes_the_wait_inside_the_step(profile: Profile) -> None:
    """The whole record, then the wait, then the start, then the next attempt of the same step."""
    async with trial(fail(), FINE, profile=profile) as one:
        await one.run()
        (data,) = one.talk.records("llm/retry")
        assert data == {
            "retryId": "r1",
            "turn": 1,
            "step": 1,
            "provider": "mock",
            "mode": "normal",
            "policyKey": KEY,
            "retry": 1,
            "maxRetries": 5,
            "delayMs": 500,
            "failure": {"message": "scripted failure", "code": "SERVER"},
        }
        assert list(data)[:8] == ["retryId", "turn", "step", "provider", "mode", "policyKey", "retry", "maxRetries"]
        assert one.talk.records("llm/retry-started") == [{"retryId": "r1", "turn": 1, "step": 1, "retry": 1}]
        lines = [line for line in one.talk.trace if "llm/" in line or "step" in line or "chunk finish" in line]
        assert lines == [
            "S step/start 1.1",
            "S assistant/chunk finish",
            "S llm/retry",
            "S llm/retry-started",
            "S assistant/chunk finish",
            "S step/end 1.1",
        ]
        assert one.clock.asked == [0.5]
        assert one.talk.ends() == ["completed"]


async def test_inv_r1_delays_grow_with_chance_until_the_budget_is_spent() -> None:
    """450 then 1100 as drawn, one chain, then the failure stands (M-610, 14.5 46)."""
    policy = {"maxRetries": 2, "initialDelayMs": 500, "maxDelayMs": 10000, "jitterRatio": 0.1}
    async with trial(policy=policy, chances=(0.0, 1.0, 0.3), always=fail()) as one:
        await one.run()
        assert one.retries() == [("r1", "mock", 1, 450), ("r1", "mock", 2, 1100)]
        assert one.starts() == [("r1", 1), ("r1", 2)]
        assert one.attempts == 3
        assert one.error() == "SERVER"


@pytest.mark.parametrize(("asked", "delay"), [(700, 700), (2000, 2000), (2001, None)])
async def test_m_610_retry_after_within_the_cap(asked: float, delay: float | None) -> None:
    """Taken as it is, without chance; above the cap a normal policy hands the failure on."""
    async with trial(fail(code="RATE_LIMIT", provider_retry_after_ms=asked), FINE, chances=(1.0,)) as one:
        if delay is None:
            one.talk.adapter.say()
        await one.run()
        assert [row[3] for row in one.retries()] == ([] if delay is None else [delay])
        assert one.talk.ends() == (["error"] if delay is None else ["completed"])
        one.talk.adapter.misses.clear()


async def test_m_601_what_no_policy_names_goes_to_the_others() -> None:
    """`AUTH` arms no timer; another listener may still want it."""
    async with trial(fail(code="AUTH"), FINE) as one:
        one.talk.during("agent/request-error", answer=RETRY)
        await one.run()
        assert (one.retries(), one.clock.asked, one.attempts) == ([], [], 2)


async def test_m_422_a_route_that_nobody_serves_has_no_policy() -> None:
    """Handed on; the turn ends with `NO_ADAPTER`."""
    async with trial() as one:
        one.talk.route()
        await one.run()
        assert (one.retries(), one.error()) == ([], "NO_ADAPTER")


@BOTH
async def test_race_16_the_timer_ties_with_a_cancel(profile: Profile) -> None:
    """The timer runs off, then comes a cancel, then somebody looks. `dsh-0.1` records a start that nothing follows."""
    async with trial(fail(), profile=profile) as one:
        recoveries = one.plugin.of(one.talk.agent)
        wait = recoveries._wait

        async def wait_and_cancel(milliseconds: float) -> Any:
            answer = await wait(milliseconds)
            one.talk.agent.cancel(USER)
            return answer

        recoveries._wait = wait_and_cancel  # type: ignore[method-assign]
        await one.run()
        assert one.clock.asked == [0.5]
        assert (one.talk.ends(), one.attempts) == (["aborted user"], 1)
        assert one.starts() == ([] if profile == "seed" else [("r1", 1)])


@BOTH
async def test_race_16_a_cancel_from_an_observer_of_the_start(profile: Profile) -> None:
    """The start is in the log and no attempt follows: the loop looks at its signal after the recovery."""
    async with trial(fail(), profile=profile) as one:
        one.talk.at("S llm/retry-started", lambda: one.talk.agent.cancel(USER))
        await one.run()
        assert (one.starts(), one.attempts, one.talk.ends()) == ([("r1", 1)], 1, ["aborted user"])


@BOTH
async def test_m_622_a_cancel_during_the_wait(profile: Profile) -> None:
    """No start, no attempt, no timer left."""
    async with trial(fail(), profile=profile) as one:
        one.clock.gate = Gate()
        one.talk.followup("a")
        await one.clock.gate.reached()
        one.talk.agent.cancel(USER)
        await one.talk.idle()
        assert (len(one.retries()), one.starts(), one.attempts) == (1, [], 1)
        assert one.talk.ends() == ["aborted user"]
        assert one.clock.running == 0


@BOTH
async def test_inv_r9_a_cancel_from_an_observer_of_the_schedule(profile: Profile) -> None:
    """No timer begins."""
    async with trial(fail(), profile=profile) as one:
        one.talk.at("S llm/retry", lambda: one.talk.agent.cancel(USER))
        await one.run()
        assert (len(one.retries()), one.clock.asked, one.talk.ends()) == (1, [], ["aborted user"])


@BOTH
async def test_inv_r9_a_cancel_by_an_earlier_listener(profile: Profile) -> None:
    """Nothing is recorded."""
    async with trial(fail(), profile=profile) as one:

        def cancels(payload: Any, proceed: Any) -> Any:
            one.talk.agent.cancel(USER)
            return proceed()

        one.talk.harness.context.on("agent/request-error", cancels, prepend=True)
        await one.run()
        assert (one.retries(), one.talk.ends()) == ([], ["aborted user"])


@BOTH
async def test_race_17_the_plugin_ends_during_the_wait(profile: Profile) -> None:
    """The original failure is the end of the turn; it is not an abort. The end waits for the recovery."""
    async with trial(fail(), profile=profile) as one:
        one.clock.gate = Gate()
        one.talk.followup("a")
        await one.clock.gate.reached()
        await one.plugin.dispose()
        assert one.clock.running == 0
        await one.talk.idle()
        assert (one.talk.ends(), one.error(), one.starts()) == (["error"], "SERVER", [])


@BOTH
async def test_race_18_always_waits_for_the_others(profile: Profile) -> None:
    """A listener behind that never settles holds the turn, its cancel and the end of the plugin; then all go on."""
    async with trial(fail(), profile=profile, policy=ALWAYS) as one:
        gate = one.talk.hold("agent/request-error", answer=RETRY)
        one.talk.followup("a")
        await gate.reached()
        one.talk.agent.cancel(USER)
        ended: list[str] = []

        async def end() -> None:
            await one.plugin.dispose()
            ended.append("ended")

        async with anyio.create_task_group() as group:
            group.start_soon(end)
            await anyio.wait_all_tasks_blocked()
            assert (ended, one.talk.ends(), one.talk.agent.status) == ([], [], "running")
            gate.open()
        await one.talk.idle()
        assert (ended, one.talk.ends(), one.attempts, one.retries()) == (["ended"], ["aborted user"], 1, [])


@BOTH
async def test_race_19_another_route_between_attempts(profile: Profile) -> None:
    """A `change` header inside the step, and a chain of its own; back again, the first chain goes on (M-612)."""
    async with trial(fail(), fail(), profile=profile) as one:
        other = ScriptedAdapter([fail(), FINE], retry_policy={**PLAIN, "maxRetries": 3})
        one.talk.harness.llm.register_adapter(["other"], other)
        routes = iter(["mock", "other", "mock", "other"])
        one.talk.harness.on("agent/request", lambda payload, proceed: {"provider": next(routes), "model": "m1"})
        await one.run()
        assert [row[:3] for row in one.retries()] == [("r1", "mock", 1), ("r2", "other", 1), ("r1", "mock", 2)]
        assert [data["reason"] for data in one.talk.records("request/header")] == ["initial", *["change"] * 3]
        assert one.talk.ends() == ["completed"]


@BOTH
async def test_race_12_the_route_is_replaced_in_flight(profile: Profile) -> None:
    """The failure is judged by the policy of who served it; the next attempt has the new one, and its own chain."""
    gate = Gate()
    async with trial([gate, *fail()], profile=profile, policy={**PLAIN, "maxRetries": 1}) as one:
        one.talk.followup("a")
        await gate.reached()
        one.talk.route()
        new = ScriptedAdapter([fail(), FINE], retry_policy={**PLAIN, "initialDelayMs": 7})
        one.talk.harness.llm.register_adapter(["mock"], new)
        gate.open()
        await one.talk.idle()
        assert one.retries() == [("r1", "mock", 1, 500), ("r2", "mock", 1, 7)]
        assert (one.attempts, len(new.requests), one.talk.ends()) == (1, 2, ["completed"])


async def test_race_20_overflow_and_transient_failures_alternate() -> None:
    """Each has its own budget: the repair by a listener behind costs no retry, and the other way round."""
    overflow = fail(code="CONTEXT_WINDOW_EXCEEDED")
    async with trial(fail(), overflow, fail(), FINE) as one:
        repairs: list[str] = []

        async def repair(payload: Any, proceed: Any) -> Any:
            if payload["failure"]["code"] == "CONTEXT_WINDOW_EXCEEDED" and not repairs:
                repairs.append("repaired")
                return RETRY
            return await proceed()

        one.talk.harness.on("agent/request-error", repair)
        await one.run()
        assert [row[2] for row in one.retries()] == [1, 2]
        assert (repairs, one.attempts, one.talk.ends()) == (["repaired"], 4, ["completed"])


async def test_race_20_under_always_an_overflow_that_nobody_repairs_is_tried_for_ever() -> None:
    """The same oversized request again and again, until somebody cancels."""
    async with trial(policy=ALWAYS, always=fail(code="CONTEXT_WINDOW_EXCEEDED")) as one:
        one.clock.rings = lambda: one.talk.agent.cancel(USER) if len(one.clock.asked) == 5 else None
        await one.run()
        assert [row[3] for row in one.retries()][:5] == [1, 2, 4, 4, 4]
        sent = [request["messages"] for request in one.talk.adapter.requests]
        assert all(messages == sent[0] for messages in sent)
        assert one.talk.ends() == ["aborted user"]


@pytest.mark.parametrize("how", ["throws", "throws later", "retries"])
async def test_m_623_under_always_the_others_come_first(how: str) -> None:
    """Their retry wins and leaves no record; their error is overruled."""
    async with trial(fail(code="AUTH"), FINE, policy=ALWAYS) as one:

        async def later(payload: Any, proceed: Any) -> Any:
            await anyio.lowlevel.checkpoint()
            raise Planned

        if how == "throws later":
            one.talk.harness.on("agent/request-error", later)
        else:
            one.talk.during("agent/request-error", answer=RETRY if how == "retries" else Planned())
        await one.run()
        assert one.attempts == 2
        assert len(one.retries()) == (0 if how == "retries" else 1)
        if how != "retries":
            (data,) = one.talk.records("llm/retry")
            assert "maxRetries" not in data
            assert data["policyKey"] == '["always",1,4,0]'


async def test_m_621_a_callback_used_after_the_end() -> None:
    """It answers at once, and asks nobody."""
    async with trial(fail()) as one:
        kept = one.plugin.recover
        await one.plugin.dispose()
        asked: list[Any] = []

        async def proceed() -> Any:
            asked.append("asked")

        one.talk.harness.on("agent/request-error", lambda payload, _: kept(payload, proceed))
        await one.run()
        assert (asked, one.retries(), one.talk.ends()) == ([], [], ["error"])


async def test_m_612_a_plugin_that_comes_late_continues_the_chain_of_the_log() -> None:
    """Mounted again in the middle of a step, it counts on, under the same id."""
    async with trial(fail(), fail(), FINE) as one:
        mounted: list[RetryPlugin] = []

        async def remount() -> None:
            await one.plugin.dispose()
            mounted.append(retry.install(one.talk.harness, sleep=one.clock.sleep, chance=lambda: 0.5))

        calls = iter(range(9))

        async def between(payload: Any, proceed: Any) -> Any:
            if next(calls) == 1:
                await remount()
                return await mounted[0].recover(payload, proceed)
            return await proceed()

        one.talk.harness.context.on("agent/request-error", between, prepend=True)
        await one.run()
        assert [row[:3] for row in one.retries()] == [("r1", "mock", 1), ("r1", "mock", 2)]
        assert one.talk.ends() == ["completed"]


async def test_m_621_a_failure_handed_on_twice() -> None:
    """A listener that calls next() twice at once gets an error for the second."""
    async with trial(fail()) as one:
        texts: list[str] = []
        one.clock.gate = Gate()

        async def twice(payload: Any, proceed: Any) -> Any:
            async def again() -> None:
                try:
                    await one.plugin.recover(payload, proceed)
                except RuntimeError as error:
                    texts.append(str(error))
                assert one.clock.gate is not None
                one.clock.gate.open()

            async with anyio.create_task_group() as group:
                group.start_soon(proceed)
                await one.clock.gate.reached()  # type: ignore[union-attr]
                group.start_soon(again)

        one.talk.harness.context.on("agent/request-error", twice, prepend=True)
        await one.run()
        assert texts == ["this failure is being recovered from already: a listener has called next() twice"]
        assert len(one.retries()) == 1


async def test_l_err_4_a_refused_record_is_the_error_of_the_turn() -> None:
    """The veto reaches the turn; nothing is tried again."""
    async with trial(fail()) as one:
        one.talk.refuse("S llm/retry")
        await one.run()
        assert (one.retries(), one.attempts, one.talk.ends(), one.error()) == ([], 1, ["error"], "UNKNOWN")


@pytest.mark.parametrize("session_format", [0, 4])
async def test_inv_r7_a_failed_attempt_leaves_nothing_on_the_surface(session_format: int) -> None:
    """Half an answer and half a call fail: no message, no call; the retried request does not know of them (INV-R8)."""
    half = [*text("Half.")[:2], *fail("connection reset", "TRANSPORT")]
    async with trial(half, FINE, session_format=session_format) as one:
        await one.run()
        first, second = [request["messages"] for request in one.talk.adapter.requests]
        assert first == second
        (anchor,) = one.talk.records("assistant/message")
        assert anchor["message"]["content"] == ({"type": "text", "text": "Fine."},)
        assert one.talk.records("tool/call") == []
        if session_format == 4:
            assert len(one.talk.records("assistant/attempt")) == 1


async def test_m_601_settings_are_refused() -> None:
    """A policy in the plugin's own configuration is an error that says where it belongs."""
    async with conversation() as talk:
        with pytest.raises(ValueError, match="llm-retry has no settings of its own"):
            retry.install(talk.harness, {"maxRetries": 3})


async def test_inv_r10_an_agent_is_disposed_during_its_wait() -> None:
    """The turn is aborted, and no timer is left."""
    async with trial(fail()) as one:
        one.clock.gate = Gate()
        one.talk.followup("a")
        await one.clock.gate.reached()
        await one.talk.harness.dispose_agent(one.talk.agent)
        assert one.clock.running == 0
        assert one.talk.ends() == ["aborted disposed"]
        assert isinstance(one.talk.agent.failure, LlmError)
