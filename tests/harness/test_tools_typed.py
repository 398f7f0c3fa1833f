"""Tools from typed Python functions (T-101, T-103, T-105, T-114, T-203; H-10)."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from tests.harness.conversation import conversation

from loopharness.agent import Agent
from loopharness.bus import Bus
from loopharness.harness import open_harness
from loopharness.model.scripted import text, tool_calls
from loopharness.signal import AbortController, Signal
from loopharness.tools.execution import Execution
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import Tool, ToolRegistry, define_tool
from loopharness.tools.results import Result, ToolArgsError


class Colour(enum.Enum):
    """Some colours."""

    RED = "red"
    BLUE = "blue"


class Note(BaseModel):
    """A note with answers."""

    title: str
    answers: list[Note] = []


@dataclasses.dataclass
class Point:
    """A place."""

    x: int
    y: int = 0


async def find(
    words: str,
    limit: Annotated[int, Field(ge=1, le=9)] = 5,
    order: Literal["new", "old"] = "new",
    since: datetime.date | None = None,
    colour: Colour = Colour.RED,
    at: Point | None = None,
    weights: list[float] | None = None,
    either: int | str = 0,
) -> list[str]:
    """Find notes.

    The newest come first.

    Args:
        words: What to look for,
            in any order.
        limit (int): At most so many.

    Returns:
        Titles.
    """
    return [words, repr(limit), order, repr(since), colour.name, repr(at), repr(weights), repr(either)]


async def called(tool: Tool, arguments: Any, agent: object | None = None, signal: Signal | None = None) -> Result:
    """The result of one call in an ordinary pipeline."""
    bus = Bus()
    registry = ToolRegistry(bus)
    registry.register(tool, bus.root)
    pipeline = ToolPipeline(bus, registry)
    call = pipeline.call("c1", tool.name, arguments, signal or Signal(), agent=agent)
    prepared = await pipeline.prepare(call)
    return await pipeline.finalize(call, prepared.slot or await pipeline.dispatch(call))


def said(result: Result) -> str:
    """The text of a result."""
    return "".join(block["text"] for block in result["content"])


def test_t_101_signature_and_docstring_are_what_the_model_is_told() -> None:
    tool = define_tool(find)
    assert tool.name == "find"
    assert tool.description == "Find notes.\n\nThe newest come first."
    schema = tool.parameters
    assert list(schema["required"]) == ["words"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["words"] == {"type": "string", "description": "What to look for, in any order."}
    assert schema["properties"]["limit"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 9,
        "default": 5,
        "description": "At most so many.",
    }
    assert schema["properties"]["order"]["enum"] == ("new", "old")
    assert "title" not in schema
    assert "$defs" not in schema


def test_a_schema_keeps_only_definitions_that_contain_themselves() -> None:
    def keep(title: str, note: Note, point: Point) -> None:
        """Keep it."""

    schema = define_tool(keep).parameters
    assert list(schema["$defs"]) == ["Note"]
    assert schema["properties"]["note"] == {"$ref": "#/$defs/Note"}
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["point"]["properties"]["x"] == {"type": "integer"}


VALUES = [
    ({"words": "a"}, ["a", "5", "new", "None", "RED", "None", "None", "0"]),
    (
        {"words": "a", "limit": 3.0, "since": "2026-02-03", "colour": "blue", "at": {"x": 1}, "weights": [1, 2.5]},
        ["a", "3", "new", "datetime.date(2026, 2, 3)", "BLUE", "Point(x=1, y=0)", "[1.0, 2.5]", "0"],
    ),
    ({"words": "a", "either": "x", "order": "old"}, ["a", "5", "old", "None", "RED", "None", "None", "'x'"]),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("arguments", "value"), VALUES)
async def test_t_103_what_json_has_no_word_for_is_read_from_its_json_form(arguments: Any, value: list[str]) -> None:
    result = await called(define_tool(find), arguments)
    assert list(result["value"]) == value


VIOLATIONS = [
    ("raw text", ['"arguments" must be an object']),
    ([], ['"arguments" must be an object']),
    ({}, ['missing required property "words"']),
    (
        {"limit": "5", "order": "any", "more": 1, "words": 1},
        [
            '"words" must be a string',
            '"limit" must be an integer',
            '"order" must be one of ["new","old"]',
            '"more" is not a declared property (additionalProperties: false)',
        ],
    ),
    ({"words": "a", "limit": True}, ['"limit" must be an integer']),
    ({"words": "a", "limit": 1.5}, ['"limit" must be an integer']),
    ({"words": "a", "limit": 10}, ['"limit" must be less than or equal to 9']),
    ({"words": "a", "colour": "green"}, ['"colour" must be one of ["red","blue"]']),
    ({"words": "a", "either": []}, ['"either" must be an integer or a string']),
    ({"words": "a", "at": {"y": "1"}}, ['missing required property "at.x"', '"at.y" must be an integer']),
    ({"words": "a", "weights": [1, "2", None]}, ['"weights[1]" must be a number', '"weights[2]" must be a number']),
    ({"words": None}, ['"words" must be a string']),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("arguments", "violations"), VIOLATIONS)
async def test_t_105_violations_say_what_to_change(arguments: Any, violations: list[str]) -> None:
    result = await called(define_tool(find), arguments)
    assert result["error"] == {
        "message": f"invalid arguments: {'; '.join(violations)}",
        "info": {"name": "ToolArgsError", "code": "INVALID_ARGS"},
    }


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["words", "limit", "order", "at", "weights", "either", "x"]), json_values))
@settings(max_examples=150, deadline=None)
def test_t_103_any_json_is_taken_or_refused_with_reasons(arguments: dict[str, Any]) -> None:
    tool = define_tool(find, concurrent=True)
    safe = tool.is_concurrency_safe
    assert safe is not None
    if not safe(arguments):
        with pytest.raises(ToolArgsError, match=r"^invalid arguments: "):
            tool.body(arguments, None)  # type: ignore[arg-type]
    else:
        tool.body(arguments, None).close()  # type: ignore[arg-type]
        assert isinstance(arguments["words"], str)
        assert not isinstance(arguments.get("limit", 5), bool | str)


@pytest.mark.anyio
async def test_what_the_harness_fills_in_is_not_shown_to_the_model() -> None:
    async def look(word: str, execution: Execution, signal: Signal, agent: Agent | None = None) -> str:
        """Look."""
        return f"{word} {execution.call_id} {signal.aborted} {agent}"

    tool = define_tool(look)
    assert list(tool.parameters["properties"]) == ["word"]
    result = await called(tool, {"word": "a"}, agent="somebody", signal=AbortController().signal)
    assert result["value"] == "a c1 False somebody"


@pytest.mark.anyio
async def test_a_tool_that_needs_an_agent_says_so() -> None:
    def whose(agent: Agent) -> str:
        """Whose is it?"""
        return agent.id

    result = await called(define_tool(whose), {})
    assert result["error"]["message"] == 'tool "whose" works only when an agent calls it'


@pytest.mark.anyio
@pytest.mark.parametrize("in_thread", [True, False])
async def test_ordinary_functions_may_block_a_thread_of_their_own(in_thread: bool) -> None:
    def where() -> bool:
        """Which thread is it?"""
        return threading.current_thread() is here

    here = threading.current_thread()
    result = await called(define_tool(where, in_thread=in_thread), {})
    assert result["value"] is not in_thread


class Answering:
    """An object that is a tool."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    async def __call__(self, more: str = "") -> str:
        """Answer."""
        return self.answer + more

    def method(self, more: str) -> str:
        """Answer too."""
        return self.answer + more


@pytest.mark.anyio
async def test_methods_and_objects_are_functions() -> None:
    there = Answering("yes")
    assert (await called(define_tool(there, name="there"), {"more": "!"}))["value"] == "yes!"
    tool = define_tool(there.method)
    assert (tool.name, tool.description, list(tool.parameters["properties"])) == ("method", "Answer too.", ["more"])
    assert (await called(tool, {"more": "?"}))["value"] == "yes?"


def answers_nothing() -> None:
    """Nothing."""


def answers_a_point() -> Point:
    """A point."""
    return Point(1)


def answers_wrongly() -> list[int]:
    """Not what it says."""
    return ["a"]  # type: ignore[list-item]


def answers_anything() -> Any:
    """Not JSON."""
    return object()


@pytest.mark.anyio
async def test_t_203_the_answer_is_made_json_and_must_be_what_is_promised() -> None:
    assert said(await called(define_tool(answers_nothing), {})) == ""
    assert said(await called(define_tool(answers_a_point), {})) == '{"x":1,"y":0}'
    for function in (answers_wrongly, answers_anything):
        result = await called(define_tool(function), {})
        assert result["error"]["info"]["code"] == "INVALID_TOOL_OUTPUT"


def no_annotation(word) -> None:  # type: ignore[no-untyped-def]
    """Bad."""


def any_number(*words: str) -> None:
    """Bad."""


def no_name(word: str, /) -> None:
    """Bad."""


def no_schema(call: Callable[[], None]) -> None:
    """Bad."""


def unknown_name(word: Unheard) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Bad."""


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (no_annotation, "parameter word needs a type"),
        (any_number, "cannot be given by name"),
        (no_name, "cannot be given by name"),
        (no_schema, "have no JSON Schema"),
        (unknown_name, "cannot be resolved"),
    ],
)
def test_signatures_that_no_json_object_can_fill_are_refused(function: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        define_tool(function)


@pytest.mark.anyio
async def test_a_typed_tool_works_in_a_turn() -> None:
    async with conversation(
        tool_calls(("c1", "find", {"words": "a", "limit": 2}), ("c2", "find", {"limit": 2})), text("Done.")
    ) as talk:
        talk.harness.tools.register(
            define_tool(find, concurrent=lambda arguments: arguments["limit"] == 2), talk.harness.context
        )
        talk.followup("a")
        await talk.idle()
        assert talk.asked(1)[-2:] == ["tool-result", "tool-result"]
        results = talk.records("tool/result")
        assert [result.get("error", {}).get("code") for result in results] == [None, "INVALID_ARGS"]


@pytest.mark.anyio
async def test_the_example_of_the_readme_is_true() -> None:
    blocks = (Path(__file__).parents[2] / "README.md").read_text().split("```python\n")[1:]
    (example,) = [block.split("```")[0] for block in blocks if "define_tool" in block]
    async with open_harness() as harness:
        exec(example, {"harness": harness})
        tool = harness.tools.get("mean")
        assert tool is not None
        assert tool.parameters["properties"]["numbers"]["description"] == "The pressures, at least one."
        assert (await called(tool, {"numbers": [3.0, 3.1, 2.9]}))["value"] == "3.0 bar"
        wrong = await called(tool, {"numbers": [], "unit": "at"})
        assert said(wrong) == (
            'Error: invalid arguments: "numbers" must have at least 1 item after validation, not 0; '
            '"unit" must be one of ["bar","psi"]'
        )
