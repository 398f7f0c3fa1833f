"""A script file to a `Script`, or to sentences that say what is wrong with it, where, and what would be right."""

from __future__ import annotations

import difflib
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from loopconform.script.model import Script
from loopconform.script.text import PathKey, Read, ScriptError, read_file
from loopspec.log.v0 import validate_data

WORDING: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"^(Input|List|String|Dictionary) should", "it should"),
    (r"a valid dictionary( or instance of \w+)?", "a mapping"),
    (r"a valid list", "a list"),
    (r" after validation, not 0$", ", not none"),
    (r" after validation", ""),
    (r"^([A-Z])(?=[a-z])", lambda first: first[0].lower()),
)
"""What pydantic says, and how people say it."""

SHOWN = 20
"""Faults of one script that are reported; more of them add nothing."""


class Fault(NamedTuple):
    """One fault of a script: its line (0 when there is none), the path of the key, the reason, and some advice."""

    line: int
    where: str
    reason: str
    advice: str = ""


class BadScript(ValueError):
    """A script that cannot be played. `code` is the exit code: another one than that of wrong usage when the script is
    right, and the session that it takes up is not."""

    def __init__(self, faults: list[Fault], code: int = 2) -> None:
        super().__init__("; ".join(fault.reason for fault in faults))
        self.faults = faults
        self.code = code


class Loaded(NamedTuple):
    """A script with the line of each of its values."""

    script: Script
    lines: Mapping[PathKey, int]

    def line(self, *path: str | int) -> int:
        """The line of a value, or of the nearest thing around it."""
        return nearest_line(self.lines, path)


def load(path: Path) -> Loaded:
    """Read and validate a script. Raises `BadScript`."""
    return validated(read_script(path))


def read_script(path: Path) -> Read:
    """The data of a script file, not validated. Raises `BadScript`."""
    try:
        return read_file(path)
    except ScriptError as error:
        raise BadScript([Fault(error.line, "", error.reason, error.advice)]) from error


def validated(read: Read) -> Loaded:
    """Validate the data of a script. Raises `BadScript`."""
    if not isinstance(read.data, dict):
        advice = "Its top level has keys such as answers and steps; start with examples/hello.yaml."
        raise BadScript([Fault(1, "", "a script is a mapping", advice)])
    try:
        loaded = Loaded(Script.model_validate(read.data), read.lines)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        raise refused(details, read) from error
    check_late(loaded)
    return loaded


def refused(details: list[ErrorDetails], read: Read, root: type[BaseModel] = Script) -> BadScript:
    """What pydantic says about the data of a script, as faults with lines and advice."""
    faults = dict.fromkeys(_fault(detail, read, root) for detail in details)
    return BadScript(sorted(faults, key=lambda fault: fault.line)[:SHOWN])


def check_late(loaded: Loaded) -> None:
    """What can only be said when all parts are known. Raises `BadScript`."""
    late = [*_unknown_gates(loaded), *_bad_chunks(loaded)]
    if late:
        raise BadScript(sorted(late, key=lambda fault: fault.line)[:SHOWN])


def _unknown_gates(loaded: Loaded) -> Iterator[Fault]:
    known = sorted({name for _, name in loaded.script.gates()})
    for path, step in loaded.script.all_steps():
        for key, point in (("wait", step.wait), ("open", step.open)):
            name = (point or "").removeprefix("gate ")
            if point and point != "idle" and name not in known:
                reason = f"no answer, tool or job has a gate {name!r}"
                advice = near(name, known) or "Put `{gate: NAME}` between the pieces of an answer's text."
                yield Fault(loaded.line(*path, key), shown_path((*path, key)), reason, advice)


def _bad_chunks(loaded: Loaded) -> Iterator[Fault]:
    """Raw chunks of a wrong shape: the harness trusts its adapters with these, so nobody else would notice."""
    for at, answer in enumerate(loaded.script.answers):
        for n, chunk in enumerate(answer.raw or ()):
            if isinstance(chunk, dict):
                problems = validate_data("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk})
                if problems:
                    path: PathKey = ("answers", at, "raw", n)
                    key = problems[0].where.removeprefix("data.")
                    yield Fault(loaded.line(*path), shown_path(path), f"no chunk: {key} {problems[0].reason}")


def nearest_line(lines: Mapping[PathKey, int], path: PathKey) -> int:
    """The line of the value at a path, or of the nearest thing around it."""
    for end in range(len(path), -1, -1):
        line = lines.get(path[:end])
        if line is not None:
            return line
    return 0


def shown_path(path: PathKey) -> str:
    """A path as people count: the second step is `steps[2]`."""
    return "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


def _fault(detail: ErrorDetails, read: Read, root: type[BaseModel]) -> Fault:
    path = _real_path(detail["loc"], read.data)
    where = shown_path(path)
    kind, message = detail["type"], detail["msg"].removeprefix("Value error, ")
    line = nearest_line(read.lines, path)
    if kind == "extra_forbidden":
        return Fault(line, where, f"there is no key {path[-1]!r} here", near(str(path[-1]), _keys_at(path[:-1], root)))
    if kind == "missing":
        return Fault(line, where, f"the key {detail['loc'][-1]!r} is missing")
    for theirs, ours in WORDING:
        message = re.sub(theirs, ours, message)
    if kind.endswith("_type") or kind in ("literal_error", "string_pattern_mismatch"):
        given = detail["input"]
        choices = _choices(message) if kind == "literal_error" else []
        message += f", not {_shown(given)}"
        if isinstance(given, str) and choices:
            return Fault(line, where, message, near(given, choices, list_all=False))
    if kind == "string_pattern_mismatch" and path and path[-1] in ("wait", "open"):
        right = "`wait: idle` or `wait: gate NAME`" if path[-1] == "wait" else "`open: gate NAME`"
        message = f"write {right}, not {_shown(detail['input'])}"
    return Fault(line, where, message)


def _choices(message: str) -> list[str]:
    return message.split("'")[1::2]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def near(given: str, known: list[str], *, list_all: bool = True) -> str:
    """Advice for a wrong word: the nearest one, or the choices."""
    best = difflib.get_close_matches(given, known, n=1, cutoff=0.5)
    if best:
        return f"Did you mean {best[0]}?"
    return f"The choices are {', '.join(known)}." if known and list_all else ""


def _real_path(loc: tuple[int | str, ...], data: Any) -> PathKey:
    """The location without the names of union members that pydantic puts into it."""
    path: list[int | str] = []
    for part in loc:
        if _has(data, part):
            data = data[part]
            path.append(part)
    return tuple(path)


def _has(data: Any, part: int | str) -> bool:
    if isinstance(data, list):
        return isinstance(part, int) and part < len(data)
    return isinstance(data, dict) and part in data


def _keys_at(path: PathKey, root: type[BaseModel]) -> list[str]:
    """The keys that a script may have at a path."""
    kinds: list[Any] = [root]
    for part in path:
        inner: list[Any] = []
        for kind in kinds:
            if isinstance(part, int):
                inner += typing.get_args(kind)[:1] if typing.get_origin(kind) is list else []
            elif typing.get_origin(kind) is dict:
                inner += typing.get_args(kind)[1:]
            elif isinstance(kind, type) and issubclass(kind, BaseModel):
                inner += [f.annotation for name, f in kind.model_fields.items() if part in (f.alias, name)]
        kinds = [member for kind in inner for member in _members(kind)]
    models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return [field.alias or name for kind in models for name, field in kind.model_fields.items()]


def _members(kind: Any) -> list[Any]:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _members(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return [member for option in typing.get_args(kind) for member in _members(option)]
    return [kind]
