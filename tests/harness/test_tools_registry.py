"""The registry of tools: layers, restrictions, order, owners, and who may run beside others (T-102, T-110 to T-114)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.tools import OBJECT, echo, raw, says

from loopharness.bus import Bus
from loopharness.errors import HarnessError
from loopharness.frozen import thaw
from loopharness.tools.registry import ToolRegistry, define_tool

pytestmark = pytest.mark.anyio


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
