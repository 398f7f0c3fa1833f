"""Cancelling and losing patience: who ends a call first gives the failure its name, and the connection goes with it."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.model.wire import FiresAt, Server, call, delta, hear, payloads, request, said, settings

from loopharness.frozen import thaw
from loopharness.model.deepseek import open_deepseek
from loopharness.model.deepseek.idle import IdleWatch
from loopharness.model.failure import LlmError
from loopharness.signal import AbortController

pytestmark = pytest.mark.anyio

ABORTED = "DeepSeek request aborted by caller"
HALF = payloads(*said("Half an ", "answer"), done=False)


async def drained(stream: Any) -> None:
    """Pull until something is raised."""
    while True:
        await anext(stream)


async def test_cancel_before_anything(server: Server) -> None:
    """K9(c): nothing is sent."""
    script = server.script("Hi.")
    controller = AbortController()
    controller.abort("user")
    heard = await call(script.url, signal=controller.signal)
    assert (heard.code, heard.message, heard.chunks) == ("ABORTED", ABORTED, [])
    assert script.log() == []


async def test_cancel_while_the_answer_is_awaited(server: Server) -> None:
    script = server.script({"text": "Hi.", "gate": "late"})
    controller = AbortController()

    async def stop() -> None:
        await anyio.to_thread.run_sync(script.at_gate, "late")
        controller.abort("user")

    async with anyio.create_task_group() as group:
        group.start_soon(stop)
        heard = await call(script.url, signal=controller.signal)
    assert (heard.code, heard.message) == ("ABORTED", ABORTED)
    assert script.log()[0]["end"] == "client left"


async def test_cancel_in_the_middle(server: Server) -> None:
    script = server.script({"body": HALF, "end": "open"})
    controller = AbortController()
    async with open_deepseek(settings(script.url)) as adapter:
        stream = adapter.stream(request(controller.signal))
        with anyio.fail_after(60):
            first = await anext(stream)
            async with anyio.create_task_group() as group:

                async def rest() -> None:
                    with pytest.raises(LlmError, match=ABORTED):
                        await drained(stream)

                group.start_soon(rest)
                await anyio.wait_all_tasks_blocked()
                controller.abort("user")
        assert thaw(first)["type"] == "block-start"
        # the connection is gone when the call is over, not when the adapter is closed
        assert (await anyio.to_thread.run_sync(script.log))[0]["end"] == "client left"


async def test_cancel_between_two_pulls(server: Server) -> None:
    """What has arrived and was not asked for yet is not given out any more."""
    script = server.script({"body": HALF, "end": "open"})
    controller = AbortController()
    async with open_deepseek(settings(script.url)) as adapter:
        stream = adapter.stream(request(controller.signal))
        await anext(stream)
        controller.abort("user")
        with pytest.raises(LlmError, match=ABORTED):
            await anext(stream)
        assert (await anyio.to_thread.run_sync(script.log))[0]["end"] == "client left"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_cancel_while_the_last_chunks_wait(server: Server) -> None:
    """The server is done, the consumer is not: what it has not pulled is not given out."""
    controller = AbortController()
    body = HALF + payloads(delta("stop"))
    async with open_deepseek(settings(server.script({"body": body}).url)) as adapter:
        stream = adapter.stream(request(controller.signal))
        while (await anext(stream))["type"] != "block-end":
            pass
        controller.abort("user")
        with pytest.raises(LlmError, match=ABORTED):
            await anext(stream)


async def test_cancel_after_the_end_changes_nothing(server: Server) -> None:
    controller = AbortController()
    async with open_deepseek(settings(server.script("Hi.").url)) as adapter:
        stream = adapter.stream(request(controller.signal))
        chunks = [chunk async for chunk in stream]
        controller.abort("user")
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert chunks[-1]["type"] == "finish"


async def test_the_consumer_stops(server: Server) -> None:
    script = server.script({"body": HALF, "end": "open"})
    async with open_deepseek(settings(script.url)) as adapter:
        stream: Any = adapter.stream(request())
        await anext(stream)
        await stream.aclose()
        await stream.aclose()
        assert (await anyio.to_thread.run_sync(script.log))[0]["end"] == "client left"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_closing_what_never_began(server: Server) -> None:
    script = server.script("Hi.")
    async with open_deepseek(settings(script.url)) as adapter:
        stream: Any = adapter.stream(request())
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
    assert script.log() == []


async def test_the_task_is_cancelled_from_outside(server: Server) -> None:
    """No cooperative signal: the scope around the call is cancelled. The connection must not stay behind."""
    script = server.script({"text": "Hi.", "gate": "late"})
    async with open_deepseek(settings(script.url)) as adapter:
        async with anyio.create_task_group() as group:
            group.start_soon(hear, adapter, request())
            await anyio.to_thread.run_sync(script.at_gate, "late")
            group.cancel_scope.cancel()
        assert (await anyio.to_thread.run_sync(script.log))[0]["end"] == "client left"


# -- patience --------------------------------------------------------------------------------------------------


async def test_no_answer_within_the_time(server: Server) -> None:
    """With the real clock: whatever the machine does, a server that never answers is too late."""
    script = server.script({"text": "Hi.", "gate": "never"})
    heard = await call(script.url, idle_timeout_ms=30)
    assert (heard.code, heard.message) == ("TIMEOUT", "DeepSeek stream idle timeout after 30ms")


async def test_an_error_body_that_stalls(server: Server) -> None:
    heard = await call(server.script({"status": 500, "body": "{", "end": "open"}).url, watch=FiresAt(1))
    assert heard.code == "TIMEOUT"


async def test_comments_are_a_sign_of_life(server: Server) -> None:
    watch = FiresAt(3)
    body = [": one\n\n", *(payloads(*said("a"), done=False)), ": two\n\n: three\n\n", "data: : four\n\n"]
    script = server.script({"body": "".join(body), "end": "open"})
    controller = AbortController()
    async with open_deepseek(settings(script.url), watch=lambda _: watch) as adapter:
        stream = adapter.stream(request(controller.signal))
        assert [(await anext(stream))["type"] for _ in range(2)] == ["block-start", "text-delta"]
        async with anyio.create_task_group() as group:

            async def rest() -> None:
                with pytest.raises(LlmError, match=ABORTED):
                    await anext(stream)

            group.start_soon(rest)
            while watch.signs < 4:
                await anyio.lowlevel.checkpoint()
            controller.abort("enough")
    assert watch.signs == 4


async def test_a_published_adapter_takes_a_comment_as_data_for_data(server: Server) -> None:
    watch = FiresAt(99)
    await call(server.script({"body": ": one\n\ndata: : two\n\n"}).url, watch=watch, profile="dsh-0.1")
    assert watch.signs == 1


async def test_payloads_without_a_chunk_are_no_sign_of_life(server: Server) -> None:
    watch = FiresAt(99)
    empty = delta(role="assistant", content=None)
    heard = await call(server.script({"body": payloads(empty, empty, *said("a"), delta("stop"))}).url, watch=watch)
    assert (heard.code, watch.signs) == ("ok", 0)


async def test_the_clock_stands_while_the_consumer_works(server: Server) -> None:
    """One watch per pull, and none between: a slow consumer is not the server's silence."""
    watch = FiresAt(99)
    script = server.script({"body": HALF + payloads(delta("stop")), "hold_after": len(HALF)})
    async with open_deepseek(settings(script.url), watch=lambda _: watch) as adapter:
        stream = adapter.stream(request())
        while (await anext(stream)).get("text") != "answer":
            pass
        pulls = watch.pulls
        script.open("hold")
        rest = [thaw(chunk)["type"] async for chunk in stream]
    assert rest == ["block-end", "finish"]
    assert watch.pulls == pulls + 1


async def test_a_stream_that_failed_is_over(server: Server) -> None:
    """A pull behind a failure finds nothing more, whatever the server still says."""
    script = server.script({"body": HALF + payloads(*said(" and more")), "hold_after": len(HALF)})
    async with open_deepseek(settings(script.url), watch=lambda _: FiresAt(2)) as adapter:
        stream = adapter.stream(request())
        with pytest.raises(LlmError, match="idle timeout"):
            await drained(stream)
        script.open("hold")
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


@pytest.mark.parametrize("first", ["watch", "caller"])
async def test_the_first_gives_the_name(first: str, server: Server) -> None:
    """RACE-24  Both happen before the call can notice."""
    script = server.script({"text": "Hi.", "gate": "never"})
    controller = AbortController()
    scopes: list[anyio.CancelScope] = []

    class ByHand(IdleWatch):
        def start(self) -> anyio.CancelScope:
            scopes.append(anyio.CancelScope())
            return scopes[-1]

    found: list[str] = []

    async def asked() -> None:
        found.append((await call(script.url, signal=controller.signal, watch=ByHand(5))).code)

    async with anyio.create_task_group() as group:
        group.start_soon(asked)
        await anyio.to_thread.run_sync(script.at_gate, "never")
        if first == "watch":
            scopes[0].cancel()
            controller.abort("user")
        else:
            controller.abort("user")
            scopes[0].cancel()
    assert found == ["TIMEOUT" if first == "watch" else "ABORTED"]


async def test_a_watch_moves_its_deadline() -> None:
    watch = IdleWatch(60_000)
    scope = watch.start()
    before = scope.deadline
    await anyio.lowlevel.checkpoint()
    scope.deadline = 0
    watch.alive(scope)
    assert scope.deadline >= before
    assert IdleWatch(None).start().deadline == float("inf")
