"""Prompt assembly: layers, order, rendering, tools (P-*)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from loopharness.bus import Bus
from loopharness.frozen import thaw
from loopharness.prompt import IDENTITY, UNLISTED, Assembly, Part, SystemPrompt, interpolate
from loopharness.signal import Signal
from loopharness.tools.registry import Tool, ToolRegistry

pytestmark = pytest.mark.anyio

Next = Callable[[], Awaitable[Assembly]]
About = Mapping[str, Any]


@pytest.fixture
def registry(bus: Bus) -> ToolRegistry:
    """A tool registry on the bus."""
    return ToolRegistry(bus)


@pytest.fixture
def prompt(bus: Bus, registry: ToolRegistry) -> SystemPrompt:
    """A prompt without an identity text."""
    return SystemPrompt(bus, registry, identity="")


def add_tools(registry: ToolRegistry, bus: Bus, *names: str) -> None:
    """Register tools by name."""
    for name in names:
        registry.register(Tool(name, "", {}, lambda arguments, execution: None), bus.root)


async def tool_names(prompt: SystemPrompt) -> list[str]:
    """The names of the assembled tools."""
    return [tool["name"] for tool in (await prompt.assemble()).tools]


# -- sections ----------------------------------------------------------------------------------------------------


async def test_p_102_built_in_sections(bus: Bus) -> None:
    assert (await SystemPrompt(bus).assemble()).system == IDENTITY
    assert (await SystemPrompt(bus, identity="", persona="Be brief.").assemble()).system == "Be brief."
    both = SystemPrompt(bus, persona="Be brief.")
    both.section(bus.root.scope("key"), "deployment:persona", 0, "Be long.")
    assert (await both.assemble()).system == f"{IDENTITY}\n\nBe brief."
    assert (await both.assemble(key="key")).system == f"{IDENTITY}\n\nBe long."


async def test_p_120_sections_are_ordered_stably_and_joined_by_blank_lines(bus: Bus, prompt: SystemPrompt) -> None:
    prompt.section(bus.root, "late", 10, "late")
    prompt.section(bus.root, "tie 1", 5, "tie 1")
    prompt.section(bus.root, "empty", 5, "")
    prompt.section(bus.root, "tie 2", 5, "tie 2")
    prompt.section(bus.root, "early", -5.5, "early")
    assert (await prompt.assemble()).system == "early\n\ntie 1\n\ntie 2\n\nlate"


async def test_an_empty_prompt_is_the_empty_text(prompt: SystemPrompt) -> None:
    assert (await prompt.assemble()).system == ""


async def test_p_101_layers_hide_by_name_and_leave_with_their_owner(bus: Bus, prompt: SystemPrompt) -> None:
    key = object()
    scope = bus.root.scope(key)
    prompt.section(bus.root, "s", 1, "global")
    prompt.section(scope, "s", 1, "scoped")
    assert (await prompt.assemble()).system == "global"
    assert (await prompt.assemble(key=key)).system == "scoped"
    await scope.dispose()
    assert (await prompt.assemble(key=key)).system == "global"


async def test_p_101_duplicates_and_bad_orders_are_refused(bus: Bus, prompt: SystemPrompt) -> None:
    prompt.section(bus.root, "s", 1, "one")
    with pytest.raises(ValueError, match="already registered"):
        prompt.section(bus.root, "s", 1, "two")
    with pytest.raises(ValueError, match="finite"):
        prompt.section(bus.root, "t", float("nan"), "")
    with pytest.raises(ValueError, match="finite"):
        prompt.runtime_context(bus.root, "t", float("inf"), "")
    for name in ("Upper", "1digit", "with-dash", "new\n", ""):
        with pytest.raises(ValueError, match="must match"):
            prompt.variable(bus.root, name, lambda about: "x")
    assert (await prompt.assemble()).system == "one"


async def test_a_failing_change_listener_takes_the_registration_back(bus: Bus, prompt: SystemPrompt) -> None:
    heard: list[str] = []
    remove = bus.root.scope(object()).on("system-prompt/change", lambda: heard.append("change"))
    prompt.section(bus.root, "s", 1, "kept")()
    assert heard == ["change", "change"]
    remove()

    def broken() -> None:
        raise ValueError("no change")

    bus.root.on("system-prompt/change", broken)
    with pytest.raises(ValueError, match="no change"):
        prompt.section(bus.root, "s", 1, "refused")
    assert (await prompt.assemble()).system == ""


async def test_texts_may_be_functions_of_agent_scope_and_signal(bus: Bus, prompt: SystemPrompt) -> None:
    agent, key, signal = object(), object(), Signal()
    seen: list[About] = []

    async def slow(about: About) -> str:
        seen.append(about)
        return "slow"

    def quick(about: About) -> str:
        seen.append(about)
        return "quick"

    prompt.section(bus.root, "slow", 1, slow)
    prompt.section(bus.root, "quick", 2, quick)
    assert (await prompt.assemble(agent, signal, key=key)).system == "slow\n\nquick"
    assert [dict(about) for about in seen] == [{"agent": agent, "scope": key, "signal": signal}] * 2


async def test_p_110_one_complete_section_is_the_whole_prompt(bus: Bus, prompt: SystemPrompt) -> None:
    prompt.section(bus.root, "a", 1, "a")
    prompt.section(bus.root, "whole", 2, "whole", complete=True)
    assert (await prompt.assemble()).system == "whole"
    prompt.section(bus.root, "more", 3, "more", complete=True)
    with pytest.raises(ValueError, match="only one section"):
        await prompt.assemble()


# -- rendering ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("plain", "plain"),
        ("{{a}}", "A"),
        ("x{{a}}y{{b}}z", "xAy{{a}}z"),  # values are not looked through again
        ("{{empty}}!", "!"),
        ("a lone {{ stays", "a lone {{ stays"),
        ("{{a}} and a lone {{", "A and a lone {{"),
        ("} }} {", "} }} {"),
        ("}} {{", "}} {{"),
    ],
)
def test_p_120_interpolation(text: str, rendered: str) -> None:
    assert interpolate(text, {"a": "A", "b": "{{a}}", "empty": ""}, "s") == rendered


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{{nobody}}", 'variable "nobody" is unknown'),
        ("{{none}}", 'variable "none" has no value'),
        ("{{__class__}}", "malformed"),
        ("{{keys}}", 'variable "keys" is unknown'),
        ("{{Upper}}", "malformed"),
        ("{{ a }}", "malformed"),
        ("{{}}", "malformed"),
        ("{{a-b}}", "malformed"),
        ("{{ x {{a}}", "malformed"),
        ("{{{a}}}", "malformed"),
    ],
)
def test_p_120_bad_references_are_refused_with_their_place(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as caught:
        interpolate(text, {"a": "A", "none": None}, "the section")
    assert '"the section"' in str(caught.value)


async def test_p_103_variables_are_functions_and_may_lack_a_value_until_referenced(
    bus: Bus, prompt: SystemPrompt
) -> None:
    async def cwd(about: About) -> str:
        return "/home"

    prompt.variable(bus.root, "cwd", cwd)
    prompt.variable(bus.root, "model", lambda about: None)
    prompt.section(bus.root, "s", 1, "in {{cwd}}")
    assert (await prompt.assemble()).system == "in /home"
    prompt.variable(bus.root.scope("key"), "cwd", lambda about: "/scoped")
    assert (await prompt.assemble(key="key")).system == "in /scoped"


async def test_l_pre_7_a_section_fails_when_the_system_text_is_read(bus: Bus, prompt: SystemPrompt) -> None:
    prompt.section(bus.root, "s", 1, "{{nobody}}")
    assembled = await prompt.assemble()
    for _ in range(2):
        with pytest.raises(ValueError, match='variable "nobody" is unknown'):
            _ = assembled.system


async def test_l_pre_7_a_context_fails_the_assembly(bus: Bus, prompt: SystemPrompt) -> None:
    prompt.runtime_context(bus.root, "c", 1, "{{nobody}}")
    with pytest.raises(ValueError, match='variable "nobody" is unknown'):
        await prompt.assemble()


# -- runtime context ---------------------------------------------------------------------------------------------


async def test_p_201_contexts_are_rendered_in_order_and_empty_ones_dropped(bus: Bus, prompt: SystemPrompt) -> None:
    prompt.variable(bus.root, "day", lambda about: "Monday")
    prompt.runtime_context(bus.root, "b", 2, "b")
    prompt.runtime_context(bus.root, "none", 1, lambda about: None)
    prompt.runtime_context(bus.root, "a", 1, "{{day}}")
    assert thaw((await prompt.assemble()).contexts) == [{"name": "a", "text": "Monday"}, {"name": "b", "text": "b"}]


async def test_suppressed_contexts_are_not_even_asked(bus: Bus, prompt: SystemPrompt) -> None:
    asked: list[str] = []

    def context(about: About) -> str:
        asked.append("asked")
        return "c"

    def adds(assembly: Assembly, about: About, next: Next) -> Assembly:
        return assembly._replace(contexts=(Part("late", 1, "late"),))

    prompt.runtime_context(bus.root, "c", 1, context)
    lift = prompt.suppress_runtime_context(bus.root)
    bus.root.on("system-prompt/assemble", adds)
    assert (await prompt.assemble()).contexts == ()
    assert asked == []
    lift()
    assert thaw((await prompt.assemble()).contexts) == [{"name": "late", "text": "late"}]


# -- the waterfall -----------------------------------------------------------------------------------------------


async def test_the_answer_of_the_waterfall_is_authoritative(
    bus: Bus, registry: ToolRegistry, prompt: SystemPrompt
) -> None:
    key = object()
    add_tools(registry, bus, "b", "a")
    prompt.section(bus.root, "s", 1, "s")
    seen: list[list[str]] = []

    async def listener(assembly: Assembly, about: About, next: Next) -> Assembly:
        seen.append([tool["name"] for tool in assembly.tools])  # ordered before the waterfall (P-111)
        inner = await next()
        sections = (Part("added", 0, "{{who}}"), *inner.sections)
        return inner._replace(sections=sections, tools=inner.tools[:1], variables={"who": "me"})

    bus.root.scope(key).on("system-prompt/assemble", listener)
    assembled = await prompt.assemble(key=key)
    assert seen == [["a", "b"]]
    assert assembled.system == "me\n\ns"
    assert [tool["name"] for tool in assembled.tools] == ["a"]
    assert (await prompt.assemble()).system == "s"


async def test_p_112_a_failing_listener_fails_the_assembly(bus: Bus, prompt: SystemPrompt) -> None:
    def broken(assembly: Assembly, about: About, next: Next) -> Assembly:
        raise ValueError("no prompt today")

    bus.root.on("system-prompt/assemble", broken)
    with pytest.raises(ValueError, match="no prompt today"):
        await prompt.assemble()


# -- tools -------------------------------------------------------------------------------------------------------


async def test_p_111_tools_are_lexicographic_and_shared_while_nothing_changes(
    bus: Bus, registry: ToolRegistry, prompt: SystemPrompt
) -> None:
    add_tools(registry, bus, "b", "c", "B", "a")
    assert await tool_names(prompt) == ["B", "a", "b", "c"]
    assert (await prompt.assemble()).tools is (await prompt.assemble()).tools


async def test_p_101_providers_add_schemas(bus: Bus, registry: ToolRegistry, prompt: SystemPrompt) -> None:
    add_tools(registry, bus, "b")
    mine = {"name": "a", "description": "", "parameters": {"type": "object"}}
    prompt.tool_provider(bus.root, lambda about: {"schemas": [mine]})
    assembled = await prompt.assemble()
    assert [tool["name"] for tool in assembled.tools] == ["a", "b"]
    mine["parameters"] = {}
    assert thaw(assembled.tools[0])["parameters"] == {"type": "object"}


async def test_p_111_a_configured_order(bus: Bus, registry: ToolRegistry) -> None:
    prompt = SystemPrompt(bus, registry, tool_order=["z", UNLISTED, "a"])
    add_tools(registry, bus, "a", "b", "c", "z")
    assert await tool_names(prompt) == ["z", "b", "c", "a"]
    key = object()
    scope = bus.root.scope(key)
    registry.restrict(scope, deny=["z"])
    assert [tool["name"] for tool in (await prompt.assemble(key=key)).tools] == ["b", "c", "a"]


async def test_p_111_an_order_that_names_an_unknown_tool_fails_every_assembly(bus: Bus, registry: ToolRegistry) -> None:
    prompt = SystemPrompt(bus, registry, tool_order=["nobody", UNLISTED])
    with pytest.raises(ValueError, match="unknown tools: nobody"):
        await prompt.assemble()
    prompt.tool_provider(bus.root, lambda about: {"schemas": [], "knownNames": ["nobody"]})
    assert await tool_names(prompt) == []


@pytest.mark.parametrize("order", [["a"], [UNLISTED, UNLISTED], ["a", "a", UNLISTED], []])
def test_p_111_orders_without_sense_fail_at_once(bus: Bus, order: list[str]) -> None:
    with pytest.raises(ValueError, match="tool order"):
        SystemPrompt(bus, tool_order=order)


async def test_p_111_the_marker_is_not_a_tool(bus: Bus, registry: ToolRegistry, prompt: SystemPrompt) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        add_tools(registry, bus, UNLISTED)
    prompt.tool_provider(bus.root, lambda about: {"schemas": [{"name": UNLISTED}]})
    with pytest.raises(ValueError, match="cannot be the name"):
        await prompt.assemble()
