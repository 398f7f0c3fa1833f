"""The plugin: hears of failed requests, and does what `loopspec.retry` decides.

One machine per agent. This file keeps what a machine does not: the failure's record, the ids behind the numbers of
chains, the timer, and what the listeners behind this one have answered.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import anyio

from loopharness.bus import Context
from loopharness.errors import error_chain
from loopharness.interpreter import Interpreter
from loopharness.retry.policy import delay_number, policy_from_key, policy_key, policy_of
from loopspec import retry
from loopspec.kernel.machine import Answer, Effect, Operation
from loopspec.retry import Policy, Retry

if TYPE_CHECKING:
    from loopharness.agent import Agent
    from loopharness.harness import Harness

__all__ = ["RetryPlugin", "install"]

_log = logging.getLogger("loopharness")

Sleep = Callable[[float], Awaitable[object]]
Next = Callable[[], Awaitable[Any]]

RETRY: Final = {"kind": "retry"}


def install(
    harness: Harness,
    settings: Mapping[str, Any] | None = None,
    *,
    context: Context | None = None,
    sleep: Sleep = anyio.sleep,
    chance: Callable[[], float] = random.random,
    new_id: Callable[[], str] | None = None,
) -> RetryPlugin:
    """Try failed requests again, for every agent or for those of `context`, until the answer is disposed of.

    Policies belong to providers: an adapter says its own with `retry_policy(provider)`, else the default holds (M-602).
    `sleep` waits for so many seconds, `chance` draws a number from 0 to 1, `new_id` gives each chain of retries its id.
    Raises `ValueError` for any settings, because there are none (M-601).
    """
    if settings:
        names = ", ".join(sorted(settings))
        raise ValueError(f"llm-retry has no settings of its own ({names}): a policy belongs to the adapter's provider")
    return RetryPlugin(harness, context or harness.context, sleep, chance, new_id or harness.new_id)


class RetryPlugin:
    """The mounted plugin. Made by `install`."""

    def __init__(
        self,
        harness: Harness,
        context: Context,
        sleep: Sleep,
        chance: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        self.sleep: Final = sleep
        self.chance: Final = chance
        self.new_id: Final = new_id
        self._over = False
        self._agents: WeakKeyDictionary[Agent, Recoveries] = WeakKeyDictionary()
        self._context = context.child("llm-retry")
        self._context.effect(self._end, "llm-retry")
        self._context.on("agent/request-error", self.recover)

    async def recover(self, payload: Mapping[str, Any], proceed: Next) -> Any:
        """The listener of `agent/request-error`."""
        return await self.of(payload["agent"]).recover(payload, proceed)

    def of(self, agent: Agent) -> Recoveries:
        """The retries of one agent."""
        found = self._agents.get(agent)
        if found is None:
            found = self._agents[agent] = Recoveries(self, agent)
            if self._over:
                found.end()
        return found

    async def dispose(self) -> None:
        """End: nothing is tried again from here on, running waits are cut, and what is under way is awaited (M-621)."""
        await self._context.dispose()

    async def _end(self) -> None:
        self._over = True
        ending = list(self._agents.values())
        for recoveries in ending:
            recoveries.end()
        for recoveries in ending:
            await recoveries.drained.wait()


class Recoveries:
    """The retries of one agent: its machine, and the payloads behind the numbers."""

    def __init__(self, plugin: RetryPlugin, agent: Agent) -> None:
        self.drained: Final = anyio.Event()
        self._plugin = plugin
        self._session = agent.session
        self._ids: dict[int, str] = {}
        self._interpreter: Interpreter[Retry] = Interpreter(retry.MACHINE, self._resumed(agent), self)
        # The recovery under way.
        self._payload: Mapping[str, Any] = {}
        self._policy: Policy = Policy()
        self._cut = anyio.Event()
        self._answer: Any = None
        self._error: Exception | None = None
        self._given: str | None = None

    def _resumed(self, agent: Agent) -> Any:
        """Chains that the log has for the open step, when the plugin came after they had begun (M-612)."""
        chains: list[tuple[str, Policy, int]] = []
        place = (agent.core.turn, agent.core.step)
        for event in reversed(agent.session.events):
            if event["type"] in ("step/start", "turn/start"):
                break
            if event["type"] == "llm/retry" and (event["data"]["turn"], event["data"]["step"]) == place:
                data = event["data"]
                policy = policy_from_key(data["policyKey"])
                if policy is not None and all(known[:2] != (data["provider"], policy) for known in chains):
                    chains.append((data["provider"], policy, data["retry"]))
                    self._ids[-len(chains)] = data["retryId"]
        self._ids = {len(chains) + 1 + number: id for number, id in self._ids.items()}
        return retry.resumed(agent.law, place, tuple(reversed(chains)))

    def end(self) -> None:
        """The plugin ends."""
        self._interpreter.call(("dispose",))

    async def recover(self, payload: Mapping[str, Any], proceed: Next) -> Any:
        """One failure: what the listener answers, or raises."""
        failure, signal, record = payload["failure"], payload["signal"], payload["retryPolicy"]
        policy = None if record is None else policy_of(record)
        place, facts = (payload["turn"], payload["step"]), (failure["code"], failure.get("providerRetryAfterMs", 0))
        chance = self._plugin.chance()
        route = (payload["provider"], retry.NO_POLICY if policy is None else tuple(policy))
        operation = ("recover", *place, *route, *facts, chance, signal.aborted)
        if self._interpreter.config.core.active:
            self._interpreter.call(operation)  # refuses
        self._payload, self._policy, self._given = payload, policy or Policy(), None
        forget = signal.on_abort(lambda _: self._interpreter.call(("abort",)))
        try:
            self._interpreter.call(operation)
            while self._interpreter.config.parked:
                point = self._interpreter.config.parked[0][0]
                answer = await (self._ask(proceed) if point[0] == "downstream" else self._wait(point[1]))
                self._interpreter.resume(answer)
        except BaseException:  # torn down from outside: nobody will answer any more
            self.drained.set()
            raise
        finally:
            forget()
        return self._result()

    def _result(self) -> Any:
        if self._given == "retry":
            return RETRY
        if self._given == "none":
            return None
        if self._error is not None:
            raise self._error
        return self._answer

    async def _ask(self, proceed: Next) -> Answer:
        self._answer, self._error = None, None
        try:
            self._answer = await proceed()
        except Exception as error:
            self._error = error
            return ("throws",)
        again = isinstance(self._answer, Mapping) and self._answer.get("kind") == "retry"
        return ("retry",) if again else ("none",)

    async def _wait(self, milliseconds: float) -> Answer:
        """The backoff: a timer, and the event that cuts it, whichever comes first (INV-R10)."""
        cut = self._cut = anyio.Event()
        elapsed = False

        async def run() -> None:
            nonlocal elapsed
            await self._plugin.sleep(milliseconds / 1000)
            elapsed = not cut.is_set()
            timer.cancel_scope.cancel()

        async with anyio.create_task_group() as timer:
            timer.start_soon(run)
            await cut.wait()
            timer.cancel_scope.cancel()
        return ("elapsed",) if elapsed else ("cut",)

    # -- performing effects (interpreter.Performer)

    def append(self, record: Effect) -> None:
        """Write one of the two records (M-620)."""
        name, number, number_of_retry, *rest = record
        place = {"turn": self._payload["turn"], "step": self._payload["step"]}
        if name == "llm/retry-started":
            self._session.append(name, {"retryId": self._ids[number], **place, "retry": number_of_retry})
            return
        policy = self._policy
        data: dict[str, Any] = {
            "retryId": self._ids.setdefault(number, self._plugin.new_id()),
            **place,
            "provider": self._payload["provider"],
            "mode": policy.mode,
            "policyKey": policy_key(policy),
            "retry": number_of_retry,
        }
        if policy.mode == "normal":
            data["maxRetries"] = policy.max_retries
        data["delayMs"] = delay_number(rest[0])
        data["failure"] = self._payload["failure"]
        self._session.append(name, data)

    def notify(self, event: Effect) -> None:
        """No live event belongs to retries."""

    def note(self, change: Effect) -> None:
        """The timer is to stop, a listener is overruled, or the plugin is drained."""
        if change[0] == "cut":
            self._cut.set()
        elif change[0] == "drained":
            self.drained.set()
        elif self._error is not None:
            _log.warning("a listener of agent/request-error failed; it is overruled: %s", error_chain(self._error))

    def park(self, point: Effect) -> None:
        """The recovery itself answers."""

    def refused(self, record: Effect, error: Exception | None) -> None:
        """The turn gets the reason."""
        self._error = error

    def begun(self, operation: Operation) -> Operation:
        """No operation waits."""
        return operation

    def left(self, end: Effect, heard: bool) -> None:
        """A recovery has ended."""
        if end[0] == "give":
            self._given = end[1]

    def error(self, kind: str) -> Exception:
        """The exception behind `("raise", "busy")`."""
        return RuntimeError("this failure is being recovered from already: a listener has called next() twice")
