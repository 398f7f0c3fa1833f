"""Time limits of tools (T-301, T-305; llm-and-tools 9.3), with a clock that the test rings by hand."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.harness.conversation import USER, conversation

from loopharness.bus import Bus
from loopharness.gate import Gate
from loopharness.model.scripted import text, tool_calls
from loopharness.signal import AbortController, Signal
from loopharness.tools.execution import Execution
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import Tool, ToolRegistry
from loopharness.tools.results import Result
from loopharness.tools.timeouts import install_timeouts

pytestmark = pytest.mark.anyio


class Bench:
    """One tool with a limit of 50 ms, and its clock."""

    def __init__(self, body: Any, timeout_ms: float | None = 50) -> None:
        self.bus = Bus()
        self.registry = ToolRegistry(self.bus)
        self.registry.register(Tool("t", "", {}, body, timeout_ms=timeout_ms), self.bus.root)
        self.pipeline = ToolPipeline(self.bus, self.registry)
        self.clock = Gate()
        self.set_to: list[float] = []
        install_timeouts(self.bus.root, self.registry, self._alarm)

    async def _alarm(self, timeout_ms: float) -> None:
        self.set_to.append(timeout_ms)
        await self.clock.enter()

    async def call(self, signal: Signal | None = None) -> Result:
        """Call it."""
        call = self.pipeline.call("c1", "t", {}, signal or Signal())
        return await self.pipeline.finalize(call, await self.pipeline.dispatch(call))


LATE = {
    "message": "tool call timed out after 50ms",
    "info": {"name": "ToolTimeoutError", "code": "TOOL_TIMEOUT"},
}


@pytest.mark.parametrize("stubborn", [True, False])
async def test_a_late_body_is_told_waited_for_and_replaced(stubborn: bool) -> None:
    gate, told = Gate(), anyio.Event()

    async def body(arguments: Any, execution: Execution) -> str:
        execution.defer_context({"id": "m", "role": "user", "content": [], "source": {"kind": "user"}})
        execution.signal.on_abort(lambda _: told.set())
        bench.clock.open()
        await told.wait()
        if stubborn:
            await gate.enter()
            return "late"
        raise RuntimeError("I was told to stop")

    bench = Bench(body)
    done: list[Result] = []
    async with anyio.create_task_group() as group:

        async def call() -> None:
            done.append(await bench.call())

        group.start_soon(call)
        await told.wait()
        await anyio.wait_all_tasks_blocked()
        assert len(done) == (not stubborn)
        gate.open()
    assert done[0]["error"] == LATE
    assert len(done[0]["additionalContexts"]) == 1
    assert bench.set_to == [50]


async def test_a_body_in_time_is_left_alone_and_so_is_one_without_a_limit() -> None:
    async def body(arguments: Any, execution: Execution) -> str:
        return "fine"

    for bench in (Bench(body), Bench(body, None)):
        signal = Signal()
        result = await bench.call(signal)
        assert result["value"] == "fine"
        assert signal._listeners in (None, {})


async def test_a_failure_in_time_is_the_bodys_own() -> None:
    async def body(arguments: Any, execution: Execution) -> str:
        raise RuntimeError("own")

    assert (await Bench(body).call())["error"] == {"message": "own"}


@pytest.mark.parametrize("first", ["cancel", "clock"])
async def test_race_24_whoever_comes_first_names_the_end(first: str) -> None:
    controller = AbortController()

    async def body(arguments: Any, execution: Execution) -> str:
        if first == "cancel":
            controller.abort("user")
        bench.clock.open()
        await anyio.wait_all_tasks_blocked()
        controller.abort("user")
        return "done"

    bench = Bench(body)
    result = await bench.call(controller.signal)
    assert result["error"]["info"]["code"] == {"cancel": "ABORTED", "clock": "TOOL_TIMEOUT"}[first]


async def test_every_harness_keeps_time() -> None:
    async with conversation(tool_calls(("c1", "slow", {})), text("Too slow."), session_format=4) as talk:

        async def body(execution: Execution) -> None:
            await execution.signal.wait()

        talk.tool("slow", body, timeout_ms=1)
        talk.followup("a")
        await talk.idle()
        assert talk.records("tool/result")[0]["error"] == {"name": "ToolTimeoutError", "code": "TOOL_TIMEOUT"}
        assert talk.ends() == ["completed"]
        talk.agent.cancel(USER)
