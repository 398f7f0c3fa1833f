"""What the model is told about a typed tool: its docstring, and the JSON Schema without what only machines need."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["described", "plain_schema", "with_descriptions"]

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Return|Raises|Yields|Examples?|Notes?):\s*$")
_ENTRY = re.compile(r"^(\s+)\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The docstring without its sections, and what its `Args:` section says of each parameter."""
    text = inspect.getdoc(function) or ""
    kept: list[str] = []
    about: dict[str, str] = {}
    section, last, indent = "", "", -1
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, last, indent = heading[1], "", -1
            continue
        if section and line.strip() and not line[:1].isspace():
            section = ""
        if not section:
            kept.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            entry = _ENTRY.match(line)
            if entry and indent in (-1, len(entry[1])):
                indent, last = len(entry[1]), entry[2]
                about[last] = entry[3]
            elif last:
                about[last] = f"{about[last]} {line.strip()}".strip()
    return "\n".join(kept).strip(), about


def with_descriptions(schema: Mapping[str, Any], about: Mapping[str, str]) -> dict[str, Any]:
    """The schema with what the docstring says of each property that has no description of its own."""
    properties = {
        name: {**inner, "description": about[name]} if name in about and "description" not in inner else inner
        for name, inner in schema.get("properties", {}).items()
    }
    return {**schema, "properties": properties}


def plain_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema without generated titles, and with every definition in its place unless it contains itself."""
    defs = schema.get("$defs", {})
    recursive = {name for name in defs if name in _reached(defs, name)}
    plain: dict[str, Any] = _inlined(
        {key: value for key, value in schema.items() if key not in ("$defs", "title")}, defs, recursive
    )
    plain.setdefault("properties", {})
    if recursive:
        plain["$defs"] = {name: _inlined(defs[name], defs, recursive) for name in sorted(recursive)}
    return plain


def _reached(defs: Mapping[str, Any], start: str) -> set[str]:
    """The definitions that one of them mentions, directly or not."""
    found: set[str] = set()
    todo = [start]
    while todo:
        for name in _mentioned(defs[todo.pop()]):
            if name not in found:
                found.add(name)
                todo.append(name)
    return found


def _mentioned(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix("#/$defs/")
        for inner in value.values():
            yield from _mentioned(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _mentioned(inner)


def _inlined(schema: Any, defs: Mapping[str, Any], recursive: set[str]) -> Any:
    if isinstance(schema, list):
        return [_inlined(item, defs, recursive) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    reference = schema.get("$ref", "").removeprefix("#/$defs/")
    if reference and reference not in recursive:
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**defs[reference], **rest}, defs, recursive)
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title":
            continue
        if key == "properties":
            plain[key] = {name: _inlined(inner, defs, recursive) for name, inner in value.items()}
        elif key in ("default", "enum", "const", "examples"):
            plain[key] = value
        else:
            plain[key] = _inlined(value, defs, recursive)
    return plain
