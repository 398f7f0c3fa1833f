"""The stream of a model call: it ends once, listeners wrap it, requests are frozen (M-43x, L-REQ-8, L-REQ-13)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

import pytest
from tests.harness.models import CONFIG, collect, request

from loopharness.bus import Bus
from loopharness.frozen import FrozenDict, freeze, thaw
from loopharness.model import chunks
from loopharness.model.failure import LlmError
from loopharness.model.scripted import ScriptedAdapter, text
from loopharness.model.service import LlmService, Request
from loopharness.signal import AbortController, Signal
from loopspec.kernel.prefix import Prefix
from loopspec.stream import assemble, settle

pytestmark = pytest.mark.anyio

Stream = Callable[[], AsyncIterator[FrozenDict]]


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
