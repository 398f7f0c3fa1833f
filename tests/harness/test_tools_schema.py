"""Arguments and schemas of tools: what is parsed, what is refused, in which words (L-TOOL-1, T-104, T-105, T-220)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.tools import OBJECT, error, raw, run, says

from loopharness.bus import Bus
from loopharness.errors import HarnessError
from loopharness.frozen import freeze
from loopharness.tools.execution import parse_arguments
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import ToolRegistry
from loopharness.tools.schema import check_schema, violations

pytestmark = pytest.mark.anyio

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
