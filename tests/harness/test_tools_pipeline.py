"""One call through its three lanes: outcomes, policy before the body, and what wraps it (T-20x, T-311, L-TOOL-11)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.harness.tools import ASK, NOTE, OBJECT, Next, Watched, decides, echo, error, lanes, raw, run, says, success

from loopharness.bus import Bus
from loopharness.errors import HarnessError
from loopharness.frozen import is_frozen
from loopharness.signal import AbortController, Signal
from loopharness.tools.execution import Execution
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import Tool, ToolRegistry, define_tool
from loopharness.tools.results import failed

pytestmark = pytest.mark.anyio

# -- outcomes ----------------------------------------------------------------------------------------------------


async def test_t_201_a_success_has_value_and_content(bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline) -> None:
    registry.register(define_tool("t", "", OBJECT, echo), bus.root)
    assert await run(pipeline, arguments={"x": 1}) == success({"x": 1}, '{"x":1}')
    registry.register(raw("text", says("plain")), bus.root)
    assert await run(pipeline, "text") == success("plain", "plain")


async def test_l_tool_11_unknown_tool(pipeline: ToolPipeline) -> None:
    assert await run(pipeline, "nobody") == error('unknown tool "nobody"', "ToolNotFoundError", "UNKNOWN_TOOL")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, 'missing required property "x"'),
        ("raw text", '"arguments" must be an object'),
        ({"x": "1"}, '"x" must be an integer'),
    ],
)
async def test_l_tool_11_invalid_arguments(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, arguments: Any, text: str
) -> None:
    registry.register(define_tool("t", "", OBJECT, echo), bus.root)
    assert await run(pipeline, arguments=arguments) == error(
        f"invalid arguments: {text}", "ToolArgsError", "INVALID_ARGS"
    )


class Hostile(Exception):
    """An error that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("thrown", "expected"),
    [
        (ValueError("plain"), error("plain")),
        (HarnessError("coded", "MY_CODE"), error("coded", "HarnessError", "MY_CODE")),
        (Hostile(), error("<unprintable thrown value>")),
    ],
)
async def test_l_tool_11_a_raising_body(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, thrown: Exception, expected: Any
) -> None:
    def body(arguments: Any, execution: Execution) -> None:
        raise thrown

    registry.register(raw("t", body), bus.root)
    assert await run(pipeline) == expected


def broken_render(arguments: Any, value: Any) -> str:
    raise ValueError("no paint")


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (raw("t", says({1})), "value is not lossless JSON"),
        (raw("t", says(1), output={"type": "string"}), '"value" must be a string'),
        (raw("t", says(1), render=broken_render), "output.render failed: no paint"),
        (raw("t", says(1), render=lambda a, v: [{1}]), "output.render failed: $[0]: set is not a JSON type"),
        (raw("t", says(1), presentation_meta=broken_render), "output.presentationMeta failed: no paint"),
    ],
)
async def test_t_203_bad_output(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, tool: Tool, text: str
) -> None:
    registry.register(tool, bus.root)
    expected = error(f'tool "t" returned invalid output: {text}', "ToolOutputError", "INVALID_TOOL_OUTPUT")
    assert await run(pipeline) == expected


async def test_t_203_render_and_meta_see_the_frozen_value(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    tool = raw(
        "t",
        says({"n": [1]}),
        render=lambda arguments, value: [{"type": "text", "text": f"{arguments['x']} {value['n'][0]}"}],
        presentation_meta=lambda arguments, value: {"frozen": is_frozen(value)},
    )
    registry.register(tool, bus.root)
    expected = success({"n": [1]}, "7 1", meta={"frozen": True})
    assert await run(pipeline, arguments={"x": 7}) == expected
    call = pipeline.call("1", "t", {}, Signal())
    nested = pipeline.call("2", "t", {"x": 7}, Signal(), parent=call.execution)
    assert nested.execution.parent is call.execution.token
    assert nested.execution.root_call_id == "1"
    assert await lanes(pipeline, nested) == success({"n": [1]}, "7 1")  # only root calls have meta


# -- policy before -----------------------------------------------------------------------------------------------


async def test_inv_s15_stages_run_once_in_order(bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline) -> None:
    watched = Watched(bus)
    registry.register(raw("t", lambda a, e: watched.stages.append("body")), bus.root)
    assert await run(pipeline) == success(None, "null")
    assert watched.stages == ["pre-execute", "execute", "body", "post-execute", "result"]


async def test_t_202_a_denial_skips_the_body_but_not_post_execute(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    watched = Watched(bus)
    registry.register(raw("t", lambda a, e: watched.stages.append("body")), bus.root)
    bus.root.on("tools/pre-execute", decides({"kind": "deny", "reason": "not today"}))
    assert await run(pipeline) == error("not today")
    assert watched.stages == ["pre-execute", "post-execute", "result"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ValueError("policy broke"), error("policy broke")),
        (HarnessError("coded", "C"), error("coded", "HarnessError", "C")),
    ],
)
async def test_t_202_a_failing_policy_is_final(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, answer: Any, expected: Any
) -> None:
    watched = Watched(bus)
    registry.register(raw("t", says(1)), bus.root)
    bus.root.on("tools/pre-execute", decides(answer))
    assert await run(pipeline) == expected
    assert watched.stages == ["pre-execute", "result"]


@pytest.mark.parametrize("answer", [None, {"kind": "maybe"}, {}, {"kind": "deny", "reason": 5}, {"kind": "deny"}])
async def test_an_illegal_policy_answer_is_final(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, answer: Any
) -> None:
    watched = Watched(bus)
    registry.register(raw("t", says(1)), bus.root)
    bus.root.on("tools/pre-execute", decides(answer))
    assert (await run(pipeline))["isError"] is True
    assert watched.stages == ["pre-execute", "result"]


async def test_t_112_the_first_guard_with_a_reason_wins(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    asked: list[str] = []
    key = object()
    registry.register(raw("t", says(1)), bus.root)

    def guard(name: str, reason: str | None) -> Callable[[Execution], str | None]:
        def ask(execution: Execution) -> str | None:
            asked.append(name)
            return reason

        return ask

    registry.guard(bus.root.scope(key), guard("scoped", "scoped says no"))
    registry.guard(bus.root, guard("first", None))
    remove = registry.guard(bus.root, guard("second", "second says no"))
    assert await run(pipeline) == error("second says no")
    assert asked == ["first", "second"]
    remove()
    asked.clear()
    scoped = pipeline.call("1", "t", {}, Signal(), key=key)
    assert await lanes(pipeline, scoped) == error("scoped says no")
    assert asked == ["first", "scoped"]
    bus.root.on("tools/pre-execute", decides({"kind": "deny", "reason": "policy"}))
    asked.clear()
    assert await run(pipeline) == error("policy")
    assert asked == []  # guards are asked only after an allow


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        ("allowed-once", success(1, "1")),
        ("rejected", error('the user rejected tool "t"')),
        ("unavailable", error('tool "t" requires approval, but no approval channel is available')),
        ("cancelled", error('approval for tool "t" was cancelled')),
    ],
)
async def test_approval_outcomes(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, outcome: str, expected: Any
) -> None:
    asked: list[Any] = []

    async def approve(execution: Execution, reason: str | None) -> str:
        asked.append(reason)
        return outcome

    registry.register(raw("t", says(1)), bus.root)
    bus.root.on("tools/pre-execute", decides({**ASK, "reason": "risky"}))
    pipeline.approval = approve
    assert await lanes(pipeline, pipeline.call("1", "t", {}, Signal(), agent=object())) == expected
    assert asked == ["risky"]


async def test_approval_without_channel_or_agent(bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline) -> None:
    registry.register(raw("t", says(1)), bus.root)
    remove = bus.root.on("tools/pre-execute", decides(ASK))
    assert await run(pipeline) == error('tool "t" requires approval (not yet supported)')
    remove()
    bus.root.on("tools/pre-execute", decides({**ASK, "reason": "risky"}))
    assert await run(pipeline) == error("risky")

    async def approve(execution: Execution, reason: str | None) -> str:
        raise AssertionError("nobody to ask for")

    pipeline.approval = approve
    expected = error('tool "t" requires approval, but the call has no agent to route it through')
    assert await run(pipeline) == expected


# -- around the body ---------------------------------------------------------------------------------------------


async def test_t_204_a_success_made_by_a_wrapper_is_checked_and_rendered_again(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    registry.register(raw("t", says("body"), output={"type": "string"}), bus.root)
    made = {"isError": False, "value": "made", "content": [{"type": "text", "text": "lie"}], "meta": 1}
    remove = bus.root.on("tools/execute", decides({**made, "additionalContexts": [NOTE]}))
    assert await run(pipeline) == success("made", "made", additionalContexts=[NOTE])
    remove()
    remove = bus.root.on("tools/execute", decides({**made, "value": 5}))
    assert (await run(pipeline))["error"]["info"]["code"] == "INVALID_TOOL_OUTPUT"
    remove()
    bus.root.on("tools/execute", decides(failed("mine", content=[{"type": "text", "text": "as it is"}])))
    result = await run(pipeline)
    assert result["error"] == {"message": "mine"}
    assert result["content"] == [{"type": "text", "text": "as it is"}]


async def test_t_311_a_raising_wrapper_is_final_and_loses_contexts(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    def body(arguments: Any, execution: Execution) -> int:
        execution.defer_context(NOTE)
        return 1

    registry.register(raw("t", body), bus.root)
    watched = Watched(bus)

    async def broken(execution: Execution, next: Next) -> Any:
        await next()
        raise ValueError("wrapper")

    bus.root.on("tools/execute", broken)
    assert await run(pipeline) == error("wrapper")
    assert watched.stages == ["pre-execute", "execute", "result"]


async def test_the_signal_can_be_replaced_only_around_the_body(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    timeout, caller = AbortController(), AbortController()
    seen: list[bool] = []
    refused: list[str] = []

    def body(arguments: Any, execution: Execution) -> str:
        seen.append(execution.signal.aborted)
        timeout.abort("timeout")
        seen.append(execution.signal.aborted)
        raise ValueError("timed out")

    async def wrapper(execution: Execution, next: Next) -> Any:
        execution.signal = timeout.signal
        result = await next()
        assert execution.signal is timeout.signal
        return result

    def outside(execution: Execution, *args: Any) -> Any:
        try:
            execution.signal = timeout.signal
        except AttributeError as refusal:
            refused.append(str(refusal))
        return args[-1]()

    registry.register(raw("t", body), bus.root)
    bus.root.on("tools/execute", wrapper)
    bus.root.on("tools/pre-execute", outside)
    bus.root.on("tools/post-execute", outside)
    assert await run(pipeline, signal=caller.signal) == error("timed out")
    assert seen == [False, True]
    assert len(refused) == 2
    assert not caller.signal.aborted
    assert not caller.signal._listeners  # the fused signal was released
