"""Behind the body: post-execute policy, contexts, the finalizer and the one notification (T-205, T-206, T-31x)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from tests.harness.tools import NOTE, Next, decides, error, lanes, raw, run, says, success

from loopharness.bus import Bus
from loopharness.frozen import FrozenDict, is_frozen
from loopharness.signal import AbortController, Signal
from loopharness.tools.execution import Execution
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import ToolRegistry
from loopharness.tools.results import ABORTED

pytestmark = pytest.mark.anyio

# -- policy after ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        ({"kind": "accept"}, success("body", "body", meta={"m": 1})),
        (
            {"kind": "accept", "content": [{"type": "text", "text": "other"}]},
            success("body", "other", meta={"m": 1}),
        ),
        ({"kind": "accept", "value": "new"}, success("new", "new", meta={"m": 1})),
        (
            {"kind": "accept", "additionalContexts": [NOTE]},
            success("body", "body", meta={"m": 1}, additionalContexts=[NOTE]),
        ),
        (
            {
                "kind": "block",
                "feedback": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
            },
            {
                "isError": True,
                "error": {"message": "a\n[image content]\nb"},
                "content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}],
            },
        ),
        (
            {"kind": "block", "feedback": []},
            {"isError": True, "error": {"message": "tool result blocked by post-execute policy"}, "content": []},
        ),
        (ValueError("post broke"), error("post broke")),
    ],
)
async def test_t_205_post_execute_decisions(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, decision: Any, expected: Any
) -> None:
    registry.register(raw("t", says("body"), presentation_meta=lambda a, v: {"m": 1}), bus.root)
    bus.root.on("tools/post-execute", decides(decision))
    assert await run(pipeline) == expected


@pytest.mark.parametrize("decision", [None, {"kind": "accept", "content": [], "value": 1}, {"kind": "later"}])
async def test_t_205_illegal_decisions_fail_the_call(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, decision: Any
) -> None:
    registry.register(raw("t", says("body")), bus.root)
    bus.root.on("tools/post-execute", decides(decision))
    result = await run(pipeline)
    assert result["isError"] is True
    assert "post-execute" in result["error"]["message"]


async def test_t_205_a_failed_result_cannot_get_a_value(bus: Bus, pipeline: ToolPipeline) -> None:
    bus.root.on("tools/post-execute", decides({"kind": "accept", "value": 1}))
    assert (await run(pipeline, "nobody"))["error"]["message"] == "tools/post-execute cannot give a failed call a value"


async def test_a_result_that_is_not_json_fails_the_call(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    registry.register(raw("t", says("body")), bus.root)
    remove = bus.root.on("tools/post-execute", decides({"kind": "accept", "content": [{1}]}))
    assert await run(pipeline) == error("tool result must be losslessly JSON-serializable")
    remove()
    registry.register(raw("f", says("body"), finalize_content=lambda execution, result: [{1}]), bus.root)
    assert await run(pipeline, "f") == error("tool result must be losslessly JSON-serializable")


async def test_t_310_t_311_order_and_loss_of_contexts(bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline) -> None:
    def note(id: str) -> dict[str, Any]:
        return {**NOTE, "id": id}

    def body(arguments: Any, execution: Execution) -> str:
        execution.defer_context(note("body 1"))
        execution.defer_context(note("body 2"))
        if arguments.get("fail"):
            raise ValueError("failed")
        return "ok"

    registry.register(raw("t", body), bus.root)

    async def wrapper(execution: Execution, next: Next) -> Any:
        result = await next()
        return {**result, "additionalContexts": [note("wrapper")]}

    async def post(execution: Execution, result: FrozenDict, next: Next) -> Any:
        return {**await next(), "additionalContexts": [note("post")]}

    bus.root.on("tools/execute", wrapper)
    remove = bus.root.on("tools/post-execute", post)
    expected = ["body 1", "body 2", "wrapper", "post"]
    assert [context["id"] for context in (await run(pipeline))["additionalContexts"]] == expected
    result = await run(pipeline, arguments={"fail": True})
    assert result["isError"]
    assert [context["id"] for context in result["additionalContexts"]] == expected
    remove()
    bus.root.on(
        "tools/post-execute", decides({"kind": "block", "feedback": "no", "additionalContexts": [note("block")]})
    )
    assert [context["id"] for context in (await run(pipeline))["additionalContexts"]] == ["block"]


async def test_t_312_only_a_success_concludes(bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline) -> None:
    def body(arguments: Any, execution: Execution) -> str:
        execution.conclude_turn()
        if arguments.get("fail"):
            raise ValueError("failed")
        return "done"

    registry.register(raw("t", body), bus.root)
    assert await run(pipeline) == success("done", "done", concludesTurn=True)
    assert await run(pipeline, arguments={"fail": True}) == error("failed")
    replacements: list[dict[str, Any]] = [{"content": []}, {"value": "new"}]
    for decision in replacements:
        remove = bus.root.on("tools/post-execute", decides({"kind": "accept", **decision}))
        assert (await run(pipeline))["concludesTurn"] is True
        remove()
    bus.root.on("tools/post-execute", decides({"kind": "block", "feedback": "no"}))
    assert "concludesTurn" not in await run(pipeline)


# -- the end -----------------------------------------------------------------------------------------------------


async def test_t_206_the_finalizer_runs_once_for_every_outcome(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    runs: list[bool] = []

    def finalize(execution: Execution, result: FrozenDict) -> str:
        runs.append(result["isError"])
        return "final"

    aborted = AbortController()
    aborted.abort("why")
    registry.register(raw("t", says(1), finalize_content=finalize), bus.root)
    assert (await run(pipeline))["content"] == [{"type": "text", "text": "final"}]
    assert (await run(pipeline, signal=aborted.signal))["content"] == [{"type": "text", "text": "final"}]
    assert (await run(pipeline, arguments={1}))["isError"] is True
    bus.root.on("tools/pre-execute", decides(ValueError("policy")))
    assert (await run(pipeline))["error"] == {"message": "policy"}
    assert runs == [False, True, True, True]


async def test_t_206_a_raising_finalizer_is_the_result(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    runs: list[object] = []

    def finalize(execution: Execution, result: FrozenDict) -> str:
        runs.append(result)
        raise ValueError("finalizer")

    registry.register(raw("t", says(1), finalize_content=finalize), bus.root)
    assert await run(pipeline) == error("finalizer")
    assert len(runs) == 1


async def test_t_206_the_finalizer_is_the_one_at_the_start_of_the_call(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    remove = registry.register(raw("t", says(1), finalize_content=lambda e, r: "first"), bus.root)
    call = pipeline.call("1", "t", {}, Signal())
    remove()
    registry.register(raw("t", says(2), finalize_content=lambda e, r: "second"), bus.root)
    assert await lanes(pipeline, call) == success(2, "first")


async def test_inv_s14_one_result_notification_contained(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    registry.register(raw("t", says(1)), bus.root)

    def observer(execution: Execution, result: FrozenDict) -> None:
        heard.append((execution.call_id, is_frozen(result), is_frozen(execution.arguments)))
        raise ValueError("observer")

    bus.root.on("tools/result", observer)
    call = pipeline.call("1", "t", {"x": [1]}, Signal())
    with caplog.at_level(logging.WARNING):
        assert await lanes(pipeline, call) == success(1, "1")
    assert heard == [("1", True, True)]
    assert 'agent event "tools/result" listener threw: observer' in caplog.text
    with pytest.raises(RuntimeError, match="finished already"):
        pipeline.announce(call, ABORTED)


async def test_events_are_heard_in_the_scope_of_the_caller(
    bus: Bus, registry: ToolRegistry, pipeline: ToolPipeline
) -> None:
    heard: list[str] = []
    key = object()
    registry.register(raw("t", says(1)), bus.root)
    for name, context in (("own", bus.root.scope(key)), ("foreign", bus.root.scope(object())), ("root", bus.root)):
        context.on("tools/result", lambda e, r, name=name: heard.append(name))
    await lanes(pipeline, pipeline.call("1", "t", {}, Signal(), key=key))
    await run(pipeline)
    assert heard == ["own", "root", "root"]
