"""The listeners of a script, on the bus of a harness."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopconform.script.model import Listener, Listeners, PreStep, RequestListener, RetryListener, StoppingListener
from loopconform.script.parts import EXHAUSTED, as_message
from loopharness.agent import Agent
from loopharness.frozen import dumps, freeze
from loopharness.harness import Harness

__all__ = ["listen"]

LOG_NAMES = {"max_tokens": "maxTokens", "reasoning_effort": "reasoningEffort"}
Payload = Mapping[str, Any]
NewId = Callable[[], str]


def listen(harness: Harness, listeners: Listeners, new_id: NewId) -> None:
    """Register all of them, in the order of the script."""
    for pre_step in listeners.pre_step:
        _on_pre_step(harness, pre_step, new_id)
    for request in listeners.request:
        _on_request(harness, request)
    for retry in listeners.request_error:
        _on_request_error(harness, retry, new_id)
    for stopping in listeners.stopping:
        _on_stopping(harness, stopping, new_id)


class _Count:
    """Says whether a listener acts now, and how often it may still."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._left = listener.times

    def acts(self, payload: Payload) -> bool:
        wanted = self._listener
        if wanted.turn not in (None, payload["turn"]):
            return False
        if wanted.step is not None and wanted.step != payload.get("step"):
            return False
        if self._left is not None:
            if self._left == 0:
                return False
            self._left -= 1
        return True


def _on_pre_step(harness: Harness, listener: PreStep, new_id: NewId) -> None:
    count = _Count(listener)

    async def decide(payload: Payload, proceed: Callable[[], Any]) -> Any:
        if not count.acts(payload):
            return await proceed()
        if listener.reject:
            return {"kind": "reject"}
        if listener.rewrite is not None:
            return {"kind": "enter", "messages": tuple(as_message(message, new_id) for message in listener.rewrite)}
        decision = await proceed()
        if decision["kind"] != "enter":
            return decision
        added = tuple(as_message(message, new_id) for message in listener.add or ())
        return {"kind": "enter", "messages": (*decision["messages"], *added)}

    harness.on("agent/pre-step", decide)


def _on_request(harness: Harness, listener: RequestListener) -> None:
    count = _Count(listener)
    set_to = listener.set.model_dump(include=listener.set.model_fields_set)
    given = {LOG_NAMES.get(key, key): value for key, value in set_to.items()}

    async def override(payload: Payload, proceed: Callable[[], Any]) -> Any:
        config = await proceed()
        if not count.acts(payload):
            return config
        return {key: value for key, value in {**config, **given}.items() if value is not None}

    harness.on("agent/request", override)


def _on_request_error(harness: Harness, listener: RetryListener, new_id: NewId) -> None:
    """Retries without a delay, recorded as a retry policy records them (M-603, M-620)."""
    count = _Count(listener)
    policy_key = dumps(["normal", listener.retry, [], 0, 0, 0])
    chains: dict[tuple[Any, ...], tuple[str, int]] = {}

    async def recover(payload: Payload, proceed: Callable[[], Any]) -> Any:
        decision = await proceed()
        if decision is not None or payload["failure"]["code"] == EXHAUSTED or payload["signal"].aborted:
            return decision
        place = {"turn": payload["turn"], "step": payload["step"]}
        chain = (payload["turn"], payload["step"], payload["provider"])
        retry_id, done = chains.get(chain) or (f"retry-{new_id()}", 0)
        if done >= listener.retry or not count.acts(payload):
            return None
        chains[chain] = (retry_id, done + 1)
        agent: Agent = payload["agent"]
        agent.session.append(
            "llm/retry",
            {
                "retryId": retry_id,
                **place,
                "provider": payload["provider"],
                "mode": "normal",
                "policyKey": policy_key,
                "retry": done + 1,
                "maxRetries": listener.retry,
                "delayMs": 0,
                "failure": freeze(dict(payload["failure"])),
            },
        )
        agent.session.append("llm/retry-started", {"retryId": retry_id, **place, "retry": done + 1})
        return {"kind": "retry"}

    harness.on("agent/request-error", recover)


def _on_stopping(harness: Harness, listener: StoppingListener, new_id: NewId) -> None:
    count = _Count(listener)

    async def hand_in(payload: Payload) -> None:
        if count.acts(payload):
            payload["agent"].steer(as_message(listener.steer, new_id))

    harness.on("agent/turn-stopping", hand_in)
