"""The LLM service and the scripted model (M-3xx, M-4xx, L-ERR-7, L-ERR-8, L-REQ-13 to L-REQ-15)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

import anyio
import pytest

from loopharness.bus import Bus
from loopharness.errors import HarnessError, error_chain, error_message
from loopharness.frozen import FrozenDict, freeze, thaw
from loopharness.gate import Gate
from loopharness.model import chunks
from loopharness.model.failure import LlmError, failure_facts, normalise_failure, turn_error
from loopharness.model.scripted import ScriptedAdapter, fail, reasoning, text, tool_calls
from loopharness.model.service import LlmService, Request
from loopharness.signal import AbortController, Signal
from loopspec.kernel.prefix import Prefix
from loopspec.stream import assemble, judge_stream, settle

pytestmark = pytest.mark.anyio

CONFIG = {"provider": "p", "model": "m"}
Stream = Callable[[], AsyncIterator[FrozenDict]]


def request(signal: Signal | None = None, **more: Any) -> Request:
    """A request for the route of the tests."""
    return Request.of({**CONFIG, "messages": [], "sessionId": "s", **more}, signal)


async def collect(stream: AsyncIterator[FrozenDict]) -> list[Any]:
    """All chunks, thawed."""
    return [thaw(chunk) async for chunk in stream]


@pytest.fixture
def service(bus: Bus) -> LlmService:
    """A service on the bus."""
    return LlmService(bus)


class Broken(ScriptedAdapter):
    """An adapter that fails at a chosen place."""

    def __init__(self, where: str, error: Exception) -> None:
        super().__init__(always=text("hi"))
        self.where = where
        self.error = error

    async def resolve_model(self, provider: str, model: str, signal: Signal) -> Mapping[str, Any]:
        if self.where == "resolve":
            raise self.error
        return await super().resolve_model(provider, model, signal)

    def stream(self, request: Request) -> AsyncIterator[FrozenDict]:
        if self.where == "dispatch":
            raise self.error
        if self.where == "iterator":
            return cast("AsyncIterator[FrozenDict]", object())
        return super().stream(request)


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


# -- terminal guarantees -----------------------------------------------------------------------------------------


async def test_l_req_8_an_unknown_route_ends_in_one_no_adapter_chunk(service: LlmService) -> None:
    assert await collect(service.stream(request())) == [
        {
            "type": "finish",
            "reason": {
                "kind": "error",
                "failure": {"message": 'no adapter registered for provider "p"', "code": "NO_ADAPTER"},
            },
        }
    ]


@pytest.mark.parametrize("where", ["resolve", "dispatch"])
async def test_m_430_whatever_an_adapter_raises_becomes_one_terminal_chunk(service: LlmService, where: str) -> None:
    service.register_adapter(["p"], Broken(where, LlmError("too many", "RATE_LIMIT", status=429)))
    assert await collect(service.stream(request())) == [
        {
            "type": "finish",
            "reason": {"kind": "error", "failure": {"message": "too many", "code": "RATE_LIMIT", "status": 429}},
        }
    ]


async def test_m_430_an_adapter_that_answers_no_iterator_fails_too(service: LlmService) -> None:
    service.register_adapter(["p"], Broken("iterator", ValueError()))
    [last] = await collect(service.stream(request()))
    assert last["reason"]["kind"] == "error"
    assert last["reason"]["failure"]["code"] == "UNKNOWN"


async def test_m_430_a_failure_in_the_middle_ends_the_stream(service: LlmService) -> None:
    start = chunks.block_start(0, "text")
    service.register_adapter(["p"], ScriptedAdapter([[start, ValueError("lost"), start]]))
    assert await collect(service.stream(request())) == [
        thaw(start),
        {"type": "finish", "reason": {"kind": "error", "failure": {"message": "lost", "code": "UNKNOWN"}}},
    ]


async def test_m_430_chunks_that_are_not_json_are_the_adapters_failure(service: LlmService) -> None:
    bad = FrozenDict({"type": "usage", "usage": {1, 2}})
    service.register_adapter(["p"], Loose([{"type": "usage", "usage": {1, 2}}, bad]))
    [last] = await collect(service.stream(request()))
    assert last["reason"]["kind"] == "error"


class Loose(ScriptedAdapter):
    """An adapter whose chunks are whatever it was given."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__()
        self.items = items

    def stream(self, request: Request) -> AsyncIterator[FrozenDict]:
        async def play() -> AsyncIterator[FrozenDict]:
            for item in self.items:
                yield item

        return play()


async def test_chunks_of_any_adapter_come_out_frozen(service: LlmService) -> None:
    service.register_adapter(["p"], Loose([{"type": "block-start", "index": 0, "blockType": "text"}]))
    async for chunk in service.stream(request()):
        assert type(chunk) is FrozenDict


async def test_m_430_the_kind_is_aborted_under_an_aborted_signal_or_code(service: LlmService) -> None:
    controller = AbortController()
    script: list[list[Any]] = [[ValueError("stopped")], [LlmError("gone", "ABORTED")]]
    service.register_adapter(["p"], ScriptedAdapter(script))
    controller.abort({"kind": "user"})
    [first] = await collect(service.stream(request(controller.signal)))
    [second] = await collect(service.stream(request()))
    assert (first["reason"]["kind"], first["reason"]["failure"]["code"]) == ("aborted", "UNKNOWN")
    assert (second["reason"]["kind"], second["reason"]["failure"]["code"]) == ("aborted", "ABORTED")


async def test_m_421_a_drift_made_by_a_listener_fails_the_stream(bus: Bus, service: LlmService) -> None:
    service.register_adapter(["p"], ScriptedAdapter(always=text("hi")))
    call = await service.prepare_call(CONFIG, Signal())
    loose = cast("Request", {**request()})

    def reroute(seen: dict[str, Any], next: Stream) -> AsyncIterator[FrozenDict]:
        seen["model"] = "other"
        return next()

    bus.root.on("llm/stream", reroute)
    [last] = await collect(call.stream(loose))
    assert last["reason"]["failure"]["code"] == "INVALID_PREPARED_CALL"


async def test_m_113_a_missing_finish_is_not_invented(service: LlmService) -> None:
    start = chunks.block_start(0, "text")
    service.register_adapter(["p"], ScriptedAdapter([[start]]))
    assert await collect(service.stream(request())) == [thaw(start)]


async def test_m_432_an_early_end_closes_the_adapter_and_waits(service: LlmService) -> None:
    adapter = ScriptedAdapter(always=text("a", "b"))
    service.register_adapter(["p"], adapter)
    stream = service.stream(request())
    async with aclosing(cast("Any", stream)):
        await anext(stream)
    assert adapter.closed == 1
    complete = service.stream(request())
    await collect(complete)
    await cast("Any", complete).aclose()
    assert adapter.closed == 1
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


class Counting(ScriptedAdapter):
    """An adapter that counts how often its iterators are closed, whatever their state."""

    closes = 0

    def stream(self, request: Request) -> AsyncIterator[FrozenDict]:
        inner = super().stream(request)
        adapter = self

        class Iterator:
            def __aiter__(self) -> AsyncIterator[FrozenDict]:
                return self

            async def __anext__(self) -> FrozenDict:
                return await anext(inner)

            async def aclose(self) -> None:
                adapter.closes += 1

        return Iterator()


@pytest.mark.parametrize("response", [text("hi"), [ValueError("lost")]])
async def test_m_432_what_has_ended_by_itself_is_not_closed(service: LlmService, response: list[Any]) -> None:
    adapter = Counting(always=response)
    service.register_adapter(["p"], adapter)
    stream = service.stream(request())
    await collect(stream)
    await cast("Any", stream).aclose()
    assert adapter.closes == 0
    early = service.stream(request())
    if len(response) > 1:
        await anext(early)
    await cast("Any", early).aclose()
    assert adapter.closes == (1 if len(response) > 1 else 0)


async def test_m_432_a_failing_close_reaches_the_consumer(service: LlmService) -> None:
    class BadClose(Loose):
        def stream(self, request: Request) -> AsyncIterator[FrozenDict]:
            async def play() -> AsyncIterator[FrozenDict]:
                try:
                    yield chunks.block_start(0, "text")
                finally:
                    raise OSError("cannot close")

            return play()

    service.register_adapter(["p"], BadClose([]))
    stream = service.stream(request())
    await anext(stream)
    with pytest.raises(OSError, match="cannot close"):
        await cast("Any", stream).aclose()


# -- the waterfall -----------------------------------------------------------------------------------------------


async def test_m_433_listeners_wrap_once_per_call_and_the_adapter_starts_at_the_first_pull(
    bus: Bus, service: LlmService
) -> None:
    adapter = ScriptedAdapter(always=text("hi"))
    service.register_adapter(["p"], adapter)
    trace: list[str] = []

    def watcher(seen: Request, next: Stream) -> AsyncIterator[FrozenDict]:
        trace.append(f"listener {len(adapter.requests)}")
        return next()

    bus.root.on("llm/stream", watcher)
    for stream in (service.stream(request()), (await service.prepare_call(CONFIG, Signal())).stream(request())):
        assert adapter.requests == []
        await anext(stream)
        assert len(adapter.requests) == 1
        adapter.requests.clear()
    assert trace == ["listener 0", "listener 0"]


async def test_m_434_a_listener_may_reroute_a_request_that_no_loop_built(bus: Bus, service: LlmService) -> None:
    service.register_adapter(["q"], ScriptedAdapter([text("from q")]))

    def reroute(seen: dict[str, Any], next: Stream) -> AsyncIterator[FrozenDict]:
        seen["provider"] = "q"
        return next()

    bus.root.on("llm/stream", reroute)
    loose = cast("Request", {**request()})
    assert settle(assemble(await collect(service.stream(loose)))).content == ({"type": "text", "text": "from q"},)
    with pytest.raises(TypeError, match="frozen"):  # L-REQ-13, M-433
        service.stream(request())


async def test_m_433_a_short_circuit_needs_no_adapter(bus: Bus, service: LlmService) -> None:
    async def own() -> AsyncIterator[FrozenDict]:
        for chunk in text("mine"):
            yield chunk

    bus.root.on("llm/stream", lambda seen, next: own())
    assert settle(assemble(await collect(service.stream(request())))).content == ({"type": "text", "text": "mine"},)


async def test_m_431_middleware_failures_stay_thrown(bus: Bus, service: LlmService) -> None:
    service.register_adapter(["p"], ScriptedAdapter(always=text("hi")))

    async def broken(inner: AsyncIterator[FrozenDict]) -> AsyncIterator[FrozenDict]:
        async for chunk in inner:
            yield chunk
            raise ValueError("middleware")

    remove = bus.root.on("llm/stream", lambda seen, next: broken(next()))
    with pytest.raises(ValueError, match="middleware"):
        await collect(service.stream(request()))
    remove()

    def immediately(seen: Request, next: Stream) -> AsyncIterator[FrozenDict]:
        raise ValueError("at once")

    bus.root.on("llm/stream", immediately)
    with pytest.raises(ValueError, match="at once"):
        service.stream(request())


async def test_m_432_closing_reaches_an_adapter_that_a_wrapper_forgot(bus: Bus, service: LlmService) -> None:
    adapter = ScriptedAdapter(always=text("a", "b"))
    service.register_adapter(["p"], adapter)

    async def forgetful(inner: AsyncIterator[FrozenDict]) -> AsyncIterator[FrozenDict]:
        async for chunk in inner:
            yield chunk

    bus.root.on("llm/stream", lambda seen, next: forgetful(next()))
    stream = service.stream(request())
    await anext(stream)
    await cast("Any", stream).aclose()
    assert adapter.closed == 1


# -- requests ----------------------------------------------------------------------------------------------------


def test_l_req_13_a_request_is_frozen_except_for_its_signal() -> None:
    controller = AbortController()
    history: Prefix[Any] = Prefix([freeze({"id": "m"})])
    made = Request.of({**CONFIG, "messages": history, "stop": ["x"]}, controller.signal)
    assert made["messages"] is history
    assert made["signal"] is controller.signal
    with pytest.raises(TypeError, match="frozen"):
        made.update(model="x")
    with pytest.raises(AttributeError):
        made["stop"].append("y")
    controller.abort("why")
    assert made["signal"].aborted
    assert "signal" not in Request.of(CONFIG)


def test_l_req_14_the_exact_object_is_remembered_and_no_copy(service: LlmService) -> None:
    made = request()
    twin = request()
    assert not service.is_loop_built(made)
    service.mark_loop_built(made)
    assert service.is_loop_built(made)
    assert not service.is_loop_built(twin)
    assert not service.is_loop_built(Request(made))
    assert not service.is_loop_built({**made})


async def test_m_435_foreign_replay_state_is_removed_from_the_call(service: LlmService) -> None:
    mine, other = ScriptedAdapter(always=text("hi")), ScriptedAdapter()
    service.register_adapter(["p", "p2"], mine)
    service.register_adapter(["q"], other)

    def assistant(id: str, provider: str) -> FrozenDict:
        source = {"kind": "model", "provider": provider, "model": "m", "replayState": {"response": id}}
        return freeze({"id": id, "role": "assistant", "content": [], "source": source})

    history: Prefix[Any] = Prefix(
        [freeze({"id": "u", "source": {"kind": "user"}}), assistant("a", "p"), assistant("b", "q")]
    )
    await collect(service.stream(request(messages=history)))
    [first] = mine.requests
    assert [message["source"].get("replayState") for message in first["messages"]] == [None, {"response": "a"}, None]
    assert first["messages"][2]["source"]["provider"] == "q"
    longer = history.append(assistant("c", "p2")).append(assistant("d", "gone"))
    await collect(service.stream(request(messages=longer)))
    kept = [message["source"].get("replayState") for message in mine.requests[1]["messages"]]
    assert kept == [None, {"response": "a"}, None, {"response": "c"}, None]
    await collect(service.stream(request(messages=history)))
    assert len(mine.requests[2]["messages"]) == 3
    rewritten: Prefix[Any] = Prefix([assistant("e", "q"), *list(longer)[1:]])
    await collect(service.stream(request(messages=rewritten)))
    assert "replayState" not in mine.requests[3]["messages"][0]["source"]


async def test_a_request_without_foreign_replay_state_reaches_the_adapter_as_it_is(service: LlmService) -> None:
    adapter = ScriptedAdapter(always=text("hi"))
    service.register_adapter(["p"], adapter)
    made = request(messages=Prefix([freeze({"id": "u", "source": {"kind": "user"}})]))
    await collect(service.stream(made))
    assert adapter.requests[0] is made


# -- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [
        {"message": ""},
        {"code": ""},
        {"code": 5},
        {"status": 99},
        {"status": 600},
        {"status": 200.0},
        {"provider_retry_after_ms": 0},
        {"provider_retry_after_ms": float("inf")},
        {"provider_retry_after_ms": True},
        {"request_id": ""},
    ],
)
def test_m_301_bad_failure_facts_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="failure "):
        failure_facts(**{"message": "m", "code": "C", **facts})


def test_m_301_absent_facts_are_absent() -> None:
    assert failure_facts("m", "C") == {"message": "m", "code": "C"}
    full = failure_facts("m", "C", 500, 1.5, "r")
    assert full == {"message": "m", "code": "C", "status": 500, "providerRetryAfterMs": 1.5, "requestId": "r"}


def test_m_302_an_llm_error_carries_its_frozen_record() -> None:
    error = LlmError("m", "C", status=500)
    assert error.failure == {"message": "m", "code": "C", "status": 500}
    assert error.name == "LlmError"
    assert LlmError.of(error.failure).failure == error.failure


class Foreign(Exception):
    """An error of somebody else's."""


def test_m_303_only_own_valid_facts_are_taken() -> None:
    trusted = Foreign("text")
    trusted.code = "C"  # type: ignore[attr-defined]
    trusted.failure = {"message": "facts", "code": "C", "status": 500}  # type: ignore[attr-defined]
    assert normalise_failure(trusted) == {"message": "facts", "code": "C", "status": 500}
    trusted.code = "OTHER"  # type: ignore[attr-defined]
    assert normalise_failure(trusted) == {"message": "text", "code": "UNKNOWN"}
    trusted.failure = {"message": "", "code": "OTHER"}  # type: ignore[attr-defined]
    assert normalise_failure(trusted) == {"message": "text", "code": "UNKNOWN"}
    assert normalise_failure(HarnessError("m", "CODED")) == {"message": "m", "code": "CODED"}
    assert normalise_failure(Foreign()) == {"message": "LLM adapter failed", "code": "UNKNOWN"}


class Hostile(Exception):
    """An error that cannot be looked at."""

    def __str__(self) -> str:
        raise RuntimeError("do not look")

    @property
    def failure(self) -> object:
        raise AssertionError("accessors are not invoked")


def test_m_303_a_hostile_error_is_survived() -> None:
    assert normalise_failure(Hostile()) == {"message": "LLM adapter failed", "code": "UNKNOWN"}


def test_l_err_7_turn_end_gets_facts_or_the_chain() -> None:
    assert turn_error(LlmError("m", "C", status=500)) == {"message": "m", "code": "C", "status": 500}
    assert turn_error(HarnessError("m", "CODED")) == {"message": "m", "code": "UNKNOWN"}
    outer = ValueError("outer")
    outer.__cause__ = KeyError("inner")
    assert turn_error(outer) == {"message": "outer: 'inner'", "code": "UNKNOWN"}


def caused(error: Exception, cause: BaseException) -> Exception:
    """The error with its cause."""
    error.__cause__ = cause
    return error


def circular() -> Exception:
    """Two errors that cause each other."""
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ValueError("plain"), "plain"),
        (ValueError(), "ValueError"),
        (caused(ValueError("outer"), OSError("inner")), "outer: inner"),
        (caused(ValueError("same"), OSError("same")), "same"),
        (caused(ValueError("a"), caused(ValueError("b"), OSError("c"))), "a: b: c"),
        (ExceptionGroup("many", [ValueError("a"), ValueError("b")]), "many [a; b]"),
        (caused(ExceptionGroup("many", [ValueError("a")]), OSError("why")), "many [a]: why"),
        (circular(), "first: second: <circular cause>"),
        (Hostile(), "<unrenderable value>"),
        (caused(ValueError("outer"), Hostile()), "outer: <unrenderable value>"),
        ({"message": "own"}, "own"),
        ("just text", "just text"),
        (None, "None"),
    ],
)
def test_l_err_8_the_chain_in_one_line(value: object, expected: str) -> None:
    assert error_chain(value) == expected


def test_l_err_8_the_same_cause_twice_is_no_cycle() -> None:
    shared = ValueError("shared")
    group = ExceptionGroup("many", [caused(ValueError("a"), shared), caused(ValueError("b"), shared)])
    assert error_chain(group) == "many [a: shared; b: shared]"


def test_error_message_of_hostile_values() -> None:
    assert error_message(Hostile()) == "<unprintable thrown value>"
    assert error_message(ValueError("m")) == "m"
    assert error_message({"message": "own"}) == "own"


# -- the scripted model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "content"),
    [
        (text("a", "b", usage=(1, 2)), [{"type": "text", "text": "ab"}]),
        (reasoning("hm", "ok"), [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "ok"}]),
        (
            tool_calls(("1", "t", {"x": 1}), ("2", "u", "not json"), say="wait"),
            [
                {"type": "text", "text": "wait"},
                {"type": "tool-call", "id": "1", "name": "t", "arguments": '{"x":1}'},
                {"type": "tool-call", "id": "2", "name": "u", "arguments": "not json"},
            ],
        ),
    ],
)
def test_scripted_responses_keep_the_stream_grammar(response: list[FrozenDict], content: list[Any]) -> None:
    assert judge_stream(response) == ()
    assert [thaw(block) for block in settle(assemble(response)).content] == content


def test_a_scripted_failure_is_a_terminal_chunk() -> None:
    assert [thaw(chunk) for chunk in fail("down", "SERVER", status=503)] == [
        {"type": "finish", "reason": {"kind": "error", "failure": {"message": "down", "code": "SERVER", "status": 503}}}
    ]


async def test_the_script_is_played_in_order_and_a_miss_is_loud(
    service: LlmService, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = ScriptedAdapter([text("one"), text("two")])
    service.register_adapter(["p"], adapter)
    await collect(service.stream(request()))
    with pytest.raises(AssertionError, match="only 1 of 2 responses"):
        adapter.finish_script()
    await collect(service.stream(request()))
    adapter.finish_script()
    with caplog.at_level(logging.ERROR):
        [last] = await collect(service.stream(request(messages=[{"id": "m9"}])))
    assert last["reason"]["failure"]["code"] == "SCRIPT_EXHAUSTED"
    assert 'call 3 came, but the script has only 2 responses; last message of the request: {"id":"m9"}' in caplog.text
    with pytest.raises(AssertionError, match="call 3 came"):
        adapter.finish_script()


async def test_gates_and_actions_stand_between_chunks(service: LlmService) -> None:
    before, after = Gate(), Gate()
    acted: list[str] = []
    [start, delta, *rest] = text("hi")
    adapter = ScriptedAdapter([[before, start, lambda: acted.append("acted"), delta, after, *rest]])
    service.register_adapter(["p"], adapter)
    got: list[Any] = []

    async def consume() -> None:
        async for chunk in service.stream(request()):
            got.append(chunk["type"])

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await before.reached()
        assert got == []
        before.open()
        await after.reached()
        assert got == ["block-start", "text-delta"]
        assert acted == ["acted"]
        after.open()
    assert got == ["block-start", "text-delta", "block-end", "finish"]
