"""The registry of model adapters and the preparation of a call (M-40x, M-41x, M-42x, L-REQ-15)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.harness.models import CONFIG, collect, request

from loopharness.bus import Bus
from loopharness.errors import HarnessError
from loopharness.gate import Gate
from loopharness.model.failure import LlmError
from loopharness.model.scripted import ScriptedAdapter, text
from loopharness.model.service import LlmService, Request
from loopharness.signal import Signal
from loopspec.stream import assemble, settle

pytestmark = pytest.mark.anyio

# -- the registry of adapters ------------------------------------------------------------------------------------


def test_m_401_registration_is_all_or_nothing(service: LlmService) -> None:
    adapter = ScriptedAdapter()
    service.register_adapter(["taken"], adapter)
    for providers, code in (([], "INVALID_ADAPTER"), (["a", ""], "INVALID_ADAPTER"), (["a", "a"], "DUPLICATE_ADAPTER")):
        with pytest.raises(HarnessError) as caught:
            service.register_adapter(providers, adapter)
        assert caught.value.code == code
    with pytest.raises(HarnessError) as caught:
        service.register_adapter(["a", "taken"], adapter)
    assert caught.value.code == "DUPLICATE_ADAPTER"
    assert service.adapter_of("a") is None


def test_m_402_replace_swaps_without_a_gap_and_not_after_disposal(bus: Bus, service: LlmService) -> None:
    adapter = ScriptedAdapter()
    seen: list[tuple[bool, bool]] = []
    handle = service.register_adapter(["a", "b"], adapter)
    service.register_adapter(["other"], ScriptedAdapter())
    bus.root.on(
        "llm/adapters-updated", lambda: seen.append((bool(service.adapter_of("b")), bool(service.adapter_of("c"))))
    )
    handle.replace(["b", "c"])
    assert seen == [(True, True)]
    assert service.adapter_of("a") is None
    with pytest.raises(HarnessError):
        handle.replace(["b", "other"])
    assert service.adapter_of("b") is adapter
    handle.replace([])
    assert service.adapter_of("b") is None
    handle()
    handle()
    assert len(seen) == 3
    with pytest.raises(HarnessError) as caught:
        handle.replace(["x"])
    assert caught.value.code == "REGISTRATION_DISPOSED"


async def test_m_401_an_owner_takes_its_adapters_along(bus: Bus, service: LlmService) -> None:
    plugin = bus.root.child("plugin")
    service.register_adapter(["a"], ScriptedAdapter(), plugin)
    await plugin.dispose()
    assert service.adapter_of("a") is None


def test_m_404_a_failing_observer_of_updates_is_contained(bus: Bus, service: LlmService) -> None:
    def broken() -> None:
        raise ValueError("no")

    bus.root.on("llm/adapters-updated", broken)
    service.register_adapter(["a"], ScriptedAdapter())
    assert service.adapter_of("a") is not None


# -- preparation -------------------------------------------------------------------------------------------------


async def test_m_411_l_req_15_defaults_are_filled_in_and_marked(service: LlmService) -> None:
    facts = {
        "defaultMaxTokens": 100,
        "reasoning": {"efforts": ["low", "high"], "defaultEffort": "low"},
        "context": {"contextWindow": 1000},
        "inputModalities": ["text"],
    }
    service.register_adapter(["p"], ScriptedAdapter(facts=facts, retry_policy={"mode": "normal"}))
    call = await service.prepare_call(CONFIG, Signal())
    assert call.config == {**CONFIG, "maxTokens": 100, "reasoningEffort": "low"}
    assert call.adapter_defaults == {"maxTokens": True, "reasoningEffort": True}
    assert call.context == {"contextWindow": 1000}
    assert call.input_modalities == ("text",)
    assert call.retry_policy == {
        "mode": "normal",
        "maxRetries": 5,
        "retryableCodes": ("EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"),
        "initialDelayMs": 500,
        "maxDelayMs": 10000,
        "jitterRatio": 0.1,
    }
    explicit = await service.prepare_call({**CONFIG, "maxTokens": 5000, "reasoningEffort": "high"}, Signal())
    assert explicit.config["maxTokens"] == 5000
    assert explicit.adapter_defaults is None
    half = await service.prepare_call({**CONFIG, "maxTokens": 1}, Signal())
    assert half.adapter_defaults == {"reasoningEffort": True}


@pytest.mark.parametrize("facts", [{}, {"reasoning": {"efforts": ["low"]}}])
async def test_m_412_an_effort_the_model_lacks_is_refused(service: LlmService, facts: dict[str, Any]) -> None:
    service.register_adapter(["p"], ScriptedAdapter(facts=facts))
    with pytest.raises(LlmError) as caught:
        await service.prepare_call({**CONFIG, "reasoningEffort": "high"}, Signal())
    assert caught.value.code == "UNSUPPORTED_REASONING_EFFORT"


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"context": {"contextWindow": 0}}, "INVALID_MODEL_CONTEXT"),
        ({"defaultMaxTokens": 1.5}, "INVALID_MODEL_MAX_TOKENS"),
        ({"reasoning": {"efforts": []}}, "INVALID_MODEL_REASONING"),
        ({"reasoning": {"efforts": ["a", "a"]}}, "INVALID_MODEL_REASONING"),
    ],
)
async def test_m_410_impossible_model_facts_are_refused(service: LlmService, facts: dict[str, Any], code: str) -> None:
    service.register_adapter(["p"], ScriptedAdapter(facts=facts))
    with pytest.raises(LlmError) as caught:
        await service.prepare_call(CONFIG, Signal())
    assert caught.value.code == code


async def test_m_422_an_unknown_provider_is_no_adapter(service: LlmService) -> None:
    with pytest.raises(LlmError) as caught:
        await service.prepare_call(CONFIG, Signal())
    assert caught.value.code == "NO_ADAPTER"
    assert str(caught.value) == 'no adapter registered for provider "p"'


async def test_m_420_a_call_stays_with_the_registration_it_found(service: LlmService) -> None:
    gate = Gate()
    old = ScriptedAdapter([text("old")], prepare_gate=gate, retry_policy={"maxRetries": 7})
    handle = service.register_adapter(["p"], old)
    calls: list[Any] = []

    async def prepare() -> None:
        calls.append(await service.prepare_call(CONFIG, Signal()))

    async with anyio.create_task_group() as group:
        group.start_soon(prepare)
        await gate.reached()
        handle()
        service.register_adapter(["p"], ScriptedAdapter([text("new")]))
        gate.open()
    [call] = calls
    assert call.retry_policy is not None
    assert call.retry_policy["maxRetries"] == 7
    assert settle(assemble(await collect(call.stream(request())))).content == ({"type": "text", "text": "old"},)


async def test_m_421_a_prepared_call_opens_once_and_as_prepared(service: LlmService) -> None:
    service.register_adapter(["p"], ScriptedAdapter(always=text("hi")))
    call = await service.prepare_call({**CONFIG, "stop": ["a"]}, Signal())
    for changed in ({"model": "other"}, {"stop": ["b"]}, {"maxTokens": 1}, {"stop": None}):
        fields = {**CONFIG, "stop": ["a"], **changed}
        with pytest.raises(LlmError) as caught:
            call.stream(Request.of({key: value for key, value in fields.items() if value is not None}))
        assert caught.value.code == "INVALID_PREPARED_CALL"
    assert len(await collect(call.stream(request(stop=["a"])))) == 4
    with pytest.raises(LlmError) as caught:
        call.stream(request(stop=["a"]))
    assert caught.value.code == "INVALID_PREPARED_CALL"
