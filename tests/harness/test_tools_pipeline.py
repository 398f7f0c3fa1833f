"""Tools: registry, schema checks and the three lanes of a call (T-*, L-TOOL-1, L-TOOL-11, L-TOOL-17, L-TOOL-18)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from loopharness.bus import Bus
from loopharness.errors import HarnessError
from loopharness.frozen import FrozenDict, freeze, is_frozen, thaw
from loopharness.gate import Gate
from loopharness.signal import AbortController, Signal
from loopharness.tools.execution import Execution, parse_arguments
from loopharness.tools.pipeline import Call, ToolPipeline
from loopharness.tools.registry import Tool, ToolRegistry, define_tool
from loopharness.tools.results import ABORTED, ABORTED_BEFORE_DISPATCH, failed
from loopharness.tools.schema import check_schema, violations

pytestmark = pytest.mark.anyio

Next = Callable[[], Awaitable[Any]]
OBJECT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
NOTE = {"id": "c", "role": "user", "content": [], "source": {"kind": "plugin:test"}}
FEEDBACK = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
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


@pytest.fixture
def registry(bus: Bus) -> ToolRegistry:
    """A registry on the bus."""
    return ToolRegistry(bus)


@pytest.fixture
def pipeline(bus: Bus, registry: ToolRegistry) -> ToolPipeline:
    """A pipeline over the registry."""
    return ToolPipeline(bus, registry)


async def echo(arguments: Any) -> Any:
    """Answers its arguments."""
    return arguments


def raw(name: str, body: Callable[[Any, Execution], Any], **more: Any) -> Tool:
    """A tool without argument checks."""
    return Tool(name, "", {"type": "object"}, body, **more)


def says(value: Any) -> Callable[[Any, Execution], Any]:
    """A body that answers a value."""
    return lambda arguments, execution: value


async def lanes(pipeline: ToolPipeline, call: Call) -> Any:
    """All lanes of one call, one after another; the final result, thawed."""
    prepared = await pipeline.prepare(call)
    slot = prepared.slot
    if slot is None:
        assert prepared.kind == "dispatch"
        slot = await pipeline.dispatch(call)
    result = await pipeline.finalize(call, slot)
    assert is_frozen(result)
    return thaw(result)


async def run(pipeline: ToolPipeline, name: str = "t", arguments: Any = None, signal: Signal | None = None) -> Any:
    """The final result of a call."""
    return await lanes(pipeline, pipeline.call("1", name, {} if arguments is None else arguments, signal or Signal()))


def error(message: str, name: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The failure with a message."""
    info = {} if name is None else {"info": {"name": name, "code": code}}
    return {
        "isError": True,
        "error": {"message": message, **info},
        "content": [{"type": "text", "text": f"Error: {message}"}],
    }


def success(value: Any, text: str, **more: Any) -> dict[str, Any]:
    """The success with a value and its rendering."""
    return {"isError": False, "value": value, "content": [{"type": "text", "text": text}], **more}


# -- arguments ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", {}),
        ('{"x":1}', {"x": 1}),
        ("3", 3),
        ("null", None),
        ("not json", "not json"),
        (" ", " "),
        ("NaN", "NaN"),
        ("[Infinity]", "[Infinity]"),
        ('{"x":1', '{"x":1'),
        ("\ufeff{}", "\ufeff{}"),
        ("12345678901234567", 12345678901234568),
        ("[" * 100_000, "[" * 100_000),
    ],
)
def test_l_tool_1_t_220_arguments_are_parsed_once_or_passed_on(text: str, value: Any) -> None:
    assert parse_arguments(text) == value


@pytest.mark.parametrize("text", ["-0", "-0.0", "1e999", '{"x":[-0]}'])
async def test_arguments_that_no_log_can_hold_are_refused(
    registry: ToolRegistry, pipeline: ToolPipeline, bus: Bus, text: str
) -> None:
    registry.register(raw("t", says(1)), bus.root)
    expected = error("tool execution arguments must be losslessly JSON-serializable")
    assert await run(pipeline, arguments=parse_arguments(text)) == expected


# -- schemas -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (OBJECT, {"x": 1}, []),
        (OBJECT, {"x": 1.0}, []),
        (OBJECT, {}, ['missing required property "x"']),
        (OBJECT, "text", ['"arguments" must be an object']),
        (OBJECT, {"x": "1"}, ['"x" must be an integer']),
        (OBJECT, {"x": True}, ['"x" must be an integer']),
        (OBJECT, {"x": 1.5}, ['"x" must be an integer']),
        ({"type": "array"}, {}, ['"arguments" must be an array']),
        ({"type": "array"}, "text", ['"arguments" must be an array']),
        ({"type": "string"}, 1, ['"arguments" must be a string']),
        ({"type": "number"}, True, ['"arguments" must be a number']),
        ({"type": "boolean"}, 1, ['"arguments" must be a boolean']),
        ({"type": "null"}, False, ['"arguments" must be null']),
        ({"enum": ["a", 1]}, "b", ['"arguments" must be one of ["a",1]']),
        ({"enum": [1]}, True, ['"arguments" must be one of [1]']),
        ({"const": "a"}, "b", ['"arguments" must be "a"']),
        ({"items": {"type": "string"}}, ["a", 1], ['"[1]" must be a string']),
        (
            {"properties": {"a": {"properties": {"b": {"type": "null"}}}}},
            {"a": {"b": 1}},
            ['"a.b" must be null'],
        ),
        (
            {"oneOf": [{"type": "number"}, {"type": "integer"}]},
            1,
            ['"arguments" must match exactly one oneOf branch (matched 2)'],
        ),
        ({"oneOf": [{"type": "number"}, {"type": "string"}]}, 1, []),
        (
            {
                "properties": {"b": {"type": "string"}, "a": {"type": "string"}, "c": {}},
                "required": ["c"],
                "additionalProperties": False,
            },
            {"z": 1, "a": 1, "b": 1},
            [
                'missing required property "c"',
                '"b" must be a string',
                '"a" must be a string',
                '"z" is not a declared property (additionalProperties: false)',
            ],
        ),
    ],
)
def test_t_105_violations_have_exact_texts_in_order(schema: Any, value: Any, expected: list[str]) -> None:
    assert violations(schema, freeze(value)) == expected


@pytest.mark.parametrize(
    "schema",
    [
        [],
        {"type": "date"},
        {"type": ["string", "null"]},
        {"minimum": 1},
        {"oneOf": [{}]},
        {"required": ["x"]},
        {"properties": {"x": {"pattern": "a"}}},
        {"items": {"type": "thing"}},
        {"additionalProperties": {}},
        {"enum": [{}]},
        {"const": []},
    ],
)
def test_t_104_other_schemas_are_refused(schema: Any) -> None:
    with pytest.raises(HarnessError) as caught:
        check_schema(schema)
    assert caught.value.code == "UNSUPPORTED_SCHEMA"


def test_t_104_annotations_are_free() -> None:
    check_schema({"description": "d", "title": "t", "default": {}, "examples": [[]], **OBJECT})


# -- the registry ------------------------------------------------------------------------------------------------


def test_t_102_what_cannot_be_registered(bus: Bus, registry: ToolRegistry) -> None:
    registry.register(raw("t", says(1)), bus.root)
    for tool in (raw("t", says(1)), raw("run_code", says(1)), raw("", says(1))):
        with pytest.raises(ValueError, match=tool.name or "name of a tool"):
            registry.register(tool, bus.root)
    for timeout in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="timeout"):
            registry.register(raw("u", says(1), timeout_ms=timeout), bus.root)
    with pytest.raises(HarnessError) as caught:
        registry.register(raw("u", says(1), output={"minimum": 1}), bus.root)
    assert caught.value.code == "UNSUPPORTED_SCHEMA"
    assert [tool.name for tool in registry.visible()] == ["t"]


def test_t_102_a_failing_change_listener_takes_the_registration_back(bus: Bus, registry: ToolRegistry) -> None:
    heard: list[str] = []

    def listener() -> None:
        heard.append("change")
        if registry.get("bad") is not None:
            raise ValueError("not this one")

    bus.root.scope(object()).on("tools/change", listener)
    remove = registry.register(raw("good", says(1)), bus.root)
    with pytest.raises(ValueError, match="not this one"):
        registry.register(raw("bad", says(1)), bus.root)
    assert registry.get("bad") is None
    remove()
    assert heard == ["change"] * 3


def test_t_110_nearer_layers_hide_farther_ones(bus: Bus, registry: ToolRegistry) -> None:
    parent, child = object(), object()
    bus.link(child, parent)
    tools = {name: raw("t", says(name)) for name in ("global", "parent", "child")}
    registry.register(tools["global"], bus.root)
    registry.register(raw("g", says(1)), bus.root)
    remove_parent = registry.register(tools["parent"], bus.root.scope(parent))
    remove_child = registry.register(tools["child"], bus.root.scope(child))
    assert registry.get("t") is tools["global"]
    assert registry.get("t", object()) is tools["global"]
    assert registry.get("t", parent) is tools["parent"]
    assert registry.get("t", child) is tools["child"]
    assert registry.get("g", child) is not None
    remove_child()
    assert registry.get("t", child) is tools["parent"]
    remove_parent()
    assert registry.get("t", child) is tools["global"]


def test_a_scope_linked_later_sees_its_parents_tools(bus: Bus, registry: ToolRegistry) -> None:
    parent, child = object(), object()
    registry.register(raw("p", says(1)), bus.root.scope(parent))
    assert registry.get("p", child) is None
    bus.link(child, parent)
    assert registry.get("p", child) is not None


def test_t_111_a_restriction_masks_what_is_inherited(bus: Bus, registry: ToolRegistry) -> None:
    key = object()
    scope = bus.root.scope(key)
    for name in "abc":
        registry.register(raw(name, says(1)), bus.root)
    registry.register(raw("own", says(1)), scope)

    def names() -> str:
        return "".join(tool.name[0] for tool in registry.visible(key))

    assert names() == "abco"
    lift_deny = registry.restrict(scope, deny=["a"])
    assert names() == "bco"
    assert registry.get("a", key) is None
    assert registry.execution_mode("a", {}, key) == "exclusive"
    registry.register(raw("d", says(1)), bus.root)
    assert names() == "bcdo"
    lift_allow = registry.restrict(scope, allow=["b", "a"])
    assert names() == "bo"
    registry.register(raw("e", says(1)), bus.root)
    assert names() == "bo"
    assert [tool.name for tool in registry.visible()] == list("abcde")
    lift_deny()
    assert names() == "abo"
    lift_allow()
    assert names() == "abcdeo"


def test_t_111_restrictions_that_make_no_sense(bus: Bus, registry: ToolRegistry) -> None:
    scope = bus.root.scope(object())
    registry.register(raw("own", says(1)), scope)
    registry.register(raw("g", says(1)), bus.root)
    with pytest.raises(ValueError, match="in a scope only"):
        registry.restrict(bus.root, deny=["g"])
    with pytest.raises(ValueError, match="at least one"):
        registry.restrict(scope)
    with pytest.raises(ValueError, match='"own" is not inherited'):
        registry.restrict(scope, deny=["own"])
    with pytest.raises(ValueError, match='"nobody" is not inherited'):
        registry.restrict(scope, allow=["g", "nobody"])


def test_p_111_schemas_come_in_utf_16_order_and_stay_the_same_object(bus: Bus, registry: ToolRegistry) -> None:
    for name in ("b", "\uff5e", "\U0001f600", "B", "a"):
        registry.register(raw(name, says(1)), bus.root)
    schemas = registry.schemas()
    assert [schema["name"] for schema in schemas] == ["B", "a", "b", "\U0001f600", "\uff5e"]
    assert registry.schemas(object()) is schemas
    assert thaw(schemas[0]) == {"name": "B", "description": "", "parameters": {"type": "object"}}
    registry.register(raw("z", says(1)), bus.root)
    assert registry.schemas() is not schemas


async def test_tools_leave_with_their_owner(bus: Bus, registry: ToolRegistry) -> None:
    plugin = bus.root.child("plugin")
    registry.register(raw("t", says(1)), plugin)
    await plugin.dispose()
    assert registry.get("t") is None


def explode(arguments: Any) -> bool:
    raise ValueError("classifier")


@pytest.mark.parametrize(
    ("classifier", "mode"),
    [
        (None, "exclusive"),
        (lambda arguments: True, "parallel"),
        (lambda arguments: 1, "exclusive"),
        (lambda arguments: "yes", "exclusive"),
        (lambda arguments: False, "exclusive"),
        (explode, "exclusive"),
        (lambda arguments: arguments["x"] > 1, "parallel"),
    ],
)
def test_t_114_l_tool_3_only_true_is_parallel(bus: Bus, registry: ToolRegistry, classifier: Any, mode: str) -> None:
    registry.register(raw("t", says(1), is_concurrency_safe=classifier), bus.root)
    assert registry.execution_mode("t", {"x": 2}) == mode
    assert registry.execution_mode("unknown", {"x": 2}) == "exclusive"


def test_t_103_invalid_arguments_are_never_parallel(bus: Bus, registry: ToolRegistry) -> None:
    registry.register(define_tool("t", "", OBJECT, echo, concurrent=True), bus.root)
    assert registry.execution_mode("t", {"x": 1}) == "parallel"
    assert registry.execution_mode("t", "raw text") == "exclusive"


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


def decides(answer: Any) -> Callable[..., Any]:
    """A listener that answers without asking anybody."""

    def listener(*args: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return listener


class Watched:
    """Which stages a call went through."""

    def __init__(self, bus: Bus) -> None:
        self.stages: list[str] = []
        for stage in ("pre-execute", "execute", "post-execute"):
            bus.root.on(f"tools/{stage}", self._passing(stage))
        bus.root.on("tools/result", lambda execution, result: self.stages.append("result"))

    def _passing(self, stage: str) -> Callable[..., Awaitable[Any]]:
        async def listener(*args: Any) -> Any:
            self.stages.append(stage)
            return await args[-1]()

        return listener


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


ASK = {"kind": "ask"}


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


# -- cancellation ------------------------------------------------------------------------------------------------


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
