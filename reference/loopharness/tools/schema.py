"""The JSON Schema subset that tools may use, and the texts of its violations (T-104, T-105, H-10).

Nothing is converted: `"1"` is not a number, `true` is not 1. Unknown keywords are refused when a tool is
registered, so that a schema never promises what nobody checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from loopharness.errors import HarnessError
from loopharness.frozen import dumps
from loopspec.values import same_value

__all__ = ["check_schema", "violations"]

_TYPES: Final = ("object", "array", "string", "number", "integer", "boolean", "null")
_ANNOTATIONS: Final = frozenset({"description", "title", "default", "examples"})
_CONSTRAINTS: Final = frozenset(
    {"type", "oneOf", "properties", "required", "additionalProperties", "items", "enum", "const"}
)
_NOUNS: Final[Mapping[str, str]] = {
    "object": "an object",
    "array": "an array",
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "a boolean",
    "null": "null",
}


def check_schema(schema: Any, where: str = "schema") -> None:
    """Refuse a schema outside the subset. Raises `HarnessError` `UNSUPPORTED_SCHEMA`, naming the place (T-104)."""
    if not isinstance(schema, Mapping):
        raise _unsupported(where, "must be an object")
    for keyword in schema:
        if keyword not in _CONSTRAINTS and keyword not in _ANNOTATIONS:
            raise _unsupported(where, f'keyword "{keyword}" is not supported')
    if "type" in schema and schema["type"] not in _TYPES:
        raise _unsupported(where, f"type must be one of {', '.join(_TYPES)}")
    if "oneOf" in schema:
        branches = schema["oneOf"]
        if not _is_list(branches) or len(branches) < 2:
            raise _unsupported(where, "oneOf needs at least two branches")
        for index, branch in enumerate(branches):
            check_schema(branch, f"{where}.oneOf[{index}]")
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise _unsupported(where, "properties must be an object")
    for name, inner in properties.items():
        check_schema(inner, f"{where}.{name}")
    required = schema.get("required", ())
    if not _is_list(required) or any(name not in properties for name in required):
        raise _unsupported(where, "required must list declared properties")
    if not isinstance(schema.get("additionalProperties", True), bool):
        raise _unsupported(where, "additionalProperties must be true or false")
    if "items" in schema:
        check_schema(schema["items"], f"{where}[]")
    scalars = [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else [])]
    if any(isinstance(value, Mapping) or _is_list(value) for value in scalars):
        raise _unsupported(where, "enum and const must hold scalars")


def _unsupported(where: str, why: str) -> HarnessError:
    return HarnessError(f"{where}: {why}", "UNSUPPORTED_SCHEMA")


def violations(schema: Mapping[str, Any], value: Any, root: str = "arguments") -> list[str]:
    """What is wrong with a value, one sentence each; empty when it fits (T-105).

    In an object: missing required properties first, then declared properties in their order, then undeclared
    ones.
    """
    return _check(schema, value, root, "")


def _check(schema: Mapping[str, Any], value: Any, root: str, path: str) -> list[str]:
    shown = f'"{path or root}"'
    if "oneOf" in schema:
        matched = sum(1 for branch in schema["oneOf"] if not _check(branch, value, root, path))
        if matched != 1:
            return [f"{shown} must match exactly one oneOf branch (matched {matched})"]
    kind = schema.get("type")
    if kind is not None and not _is_of(kind, value):
        return [f"{shown} must be {_NOUNS[kind]}"]
    if "enum" in schema and not any(same_value(value, allowed) for allowed in schema["enum"]):
        return [f"{shown} must be one of {dumps(schema['enum'])}"]
    if "const" in schema and not same_value(value, schema["const"]):
        return [f"{shown} must be {dumps(schema['const'])}"]
    found: list[str] = []
    if isinstance(value, Mapping):
        found += _check_object(schema, value, root, path)
    elif _is_list(value) and "items" in schema:
        for index, item in enumerate(value):
            found += _check(schema["items"], item, root, f"{path}[{index}]")
    return found


def _check_object(schema: Mapping[str, Any], value: Mapping[str, Any], root: str, path: str) -> list[str]:
    def inside(name: str) -> str:
        return f"{path}.{name}" if path else name

    properties = schema.get("properties", {})
    found = [f'missing required property "{inside(n)}"' for n in schema.get("required", ()) if n not in value]
    for name, inner in properties.items():
        if name in value:
            found += _check(inner, value[name], root, inside(name))
    if schema.get("additionalProperties") is False:
        for name in value:
            if name not in properties:
                found.append(f'"{inside(name)}" is not a declared property (additionalProperties: false)')
    return found


def _is_of(kind: str, value: Any) -> bool:
    if kind == "object":
        return isinstance(value, Mapping)
    if kind == "array":
        return _is_list(value)
    if kind == "string":
        return isinstance(value, str)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "null":
        return value is None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return kind == "number" or float(value).is_integer()


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
