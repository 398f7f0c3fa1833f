"""A call that is aborted, at each of its stages (T-30x, L-TOOL-15, L-TOOL-18, L-TOOL-19)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from tests.harness.tools import ASK, NOTE, Next, Watched, decides, error, lanes, raw, run, says, success

from loopharness.bus import Bus
from loopharness.frozen import FrozenDict, thaw
from loopharness.gate import Gate
from loopharness.signal import AbortController
from loopharness.tools.execution import Execution
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import ToolRegistry
from loopharness.tools.results import ABORTED, ABORTED_BEFORE_DISPATCH, failed

pytestmark = pytest.mark.anyio

BEFORE = {
    "isError": True,
    "error": {
        "message": "tool call aborted before dispatch",
        "info": {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"},
    },
    "content": [{"type": "text", "text": "Error: tool call aborted before dispatch"}],
}
AFTER = {
    "isError": True,
    "error": {"message": "tool call aborted", "info": {"name": "AbortError", "code": "ABORTED"}},
    "content": [{"type": "text", "text": "Error: tool call aborted"}],
}


def test_l_tool_15_the_two_abort_results_have_exact_texts() -> None:
    assert thaw(ABORTED_BEFORE_DISPATCH) == BEFORE
    assert thaw(ABORTED) == AFTER


async def test_t_302_aborted_at_entry_no_policy_is_asked(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    watched = Watched(bus)
    controller = AbortController()
    controller.abort("why")
    registry.register(raw("t", lambda a, e: watched.stages.append("body")), bus.root)
    assert await run(pipeline, signal=controller.signal) == BEFORE
    assert watched.stages == ["result"]
    bad = await run(pipeline, arguments={1}, signal=controller.signal)
    assert bad == error("tool execution arguments must be losslessly JSON-serializable")


@pytest.mark.parametrize(
    ("answer", "expected"), [({"kind": "allow"}, BEFORE), ({"kind": "deny", "reason": "no"}, error("no"))]
)
async def test_t_303_aborted_during_policy_a_denial_keeps_its_reason(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, answer: Any, expected: Any
) -> None:
    watched = Watched(bus)
    controller = AbortController()

    def policy(execution: Execution, next: Next) -> Any:
        controller.abort("why")
        return answer

    registry.register(raw("t", lambda a, e: watched.stages.append("body")), bus.root)
    bus.root.on("tools/pre-execute", policy)
    assert await run(pipeline, signal=controller.signal) == expected
    assert watched.stages == ["pre-execute", "post-execute", "result"]


async def test_t_303_an_approval_cancelled_by_the_abort(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    controller = AbortController()

    async def approve(execution: Execution, reason: str | None) -> str:
        controller.abort("why")
        return "cancelled"

    registry.register(raw("t", says(1)), bus.root)
    bus.root.on("tools/pre-execute", decides(ASK))
    pipeline.approval = approve
    assert await lanes(pipeline, pipeline.call("1", "t", {}, controller.signal, agent=object())) == BEFORE


@pytest.mark.parametrize("whose", ["caller", "installed"])
async def test_t_304_aborted_in_a_wrapper_the_body_is_not_entered(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, whose: str
) -> None:
    caller, installed = AbortController(), AbortController()
    entered: list[str] = []

    def wrapper(execution: Execution, next: Next) -> Any:
        execution.signal = installed.signal
        (caller if whose == "caller" else installed).abort("why")
        return next()

    registry.register(raw("t", lambda a, e: entered.append("body")), bus.root)
    bus.root.on("tools/execute", wrapper)
    assert await run(pipeline, signal=caller.signal) == BEFORE
    assert entered == []


async def test_t_301_t_306_a_late_success_is_replaced_and_keeps_contexts_only(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    controller = AbortController()
    gate = Gate()

    async def body(arguments: Any, execution: Execution) -> str:
        execution.defer_context(NOTE)
        execution.conclude_turn()
        await gate.enter()
        return "late"

    registry.register(raw("t", body, presentation_meta=lambda a, v: 1), bus.root)
    results: list[Any] = []

    async def caller() -> None:
        results.append(await run(pipeline, signal=controller.signal))

    async with anyio.create_task_group() as group:
        group.start_soon(caller)
        await gate.reached()
        controller.abort("why")
        await anyio.wait_all_tasks_blocked()
        assert results == []  # a started body is waited for
        gate.open()
    assert results == [{**AFTER, "additionalContexts": [NOTE]}]


async def test_t_305_a_wrapper_sees_the_success_that_its_own_signal_has_aborted(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    timeout = AbortController()
    seen: list[Any] = []

    def body(arguments: Any, execution: Execution) -> str:
        timeout.abort("timeout")
        return "late"

    async def wrapper(execution: Execution, next: Next) -> Any:
        execution.signal = timeout.signal
        seen.append(thaw(await next()))
        return failed("tool call timed out")

    registry.register(raw("t", body), bus.root)
    bus.root.on("tools/execute", wrapper)
    assert await run(pipeline) == error("tool call timed out")
    assert seen == [AFTER]


async def test_l_tool_18_a_bodys_own_error_survives_the_abort(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    controller = AbortController()

    def body(arguments: Any, execution: Execution) -> str:
        controller.abort("why")
        raise ValueError("my own")

    registry.register(raw("t", body), bus.root)
    assert await run(pipeline, signal=controller.signal) == error("my own")


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"kind": "accept"}, AFTER),
        ({"kind": "accept", "additionalContexts": [NOTE]}, {**AFTER, "additionalContexts": [NOTE]}),
        (
            {"kind": "block", "feedback": "no"},
            {"isError": True, "error": {"message": "no"}, "content": [{"type": "text", "text": "no"}]},
        ),
        (ValueError("post broke"), error("post broke")),
    ],
)
async def test_t_305_aborted_during_post_execute_only_a_success_is_replaced(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, decision: Any, expected: Any
) -> None:
    controller = AbortController()

    def post(execution: Execution, result: FrozenDict, next: Next) -> Any:
        controller.abort("why")
        if isinstance(decision, Exception):
            raise decision
        return decision

    registry.register(raw("t", says(1)), bus.root)
    bus.root.on("tools/post-execute", post)
    assert await run(pipeline, signal=controller.signal) == expected


async def test_t_305_a_wrappers_success_without_body_is_aborted_before_dispatch(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    controller = AbortController()

    def wrapper(execution: Execution, next: Next) -> Any:
        controller.abort("why")
        return {"isError": False, "value": "cached"}

    registry.register(raw("t", says(1)), bus.root)
    bus.root.on("tools/execute", wrapper)
    assert await run(pipeline, signal=controller.signal) == BEFORE


async def test_l_tool_19_an_abort_by_a_result_observer_changes_nothing(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    controller = AbortController()
    registry.register(raw("t", says(1)), bus.root)
    bus.root.on("tools/result", lambda execution, result: controller.abort("why"))
    assert await run(pipeline, signal=controller.signal) == success(1, "1")
