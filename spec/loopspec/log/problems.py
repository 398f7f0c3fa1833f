"""How an error of a shape becomes a problem that a person can read: the checker rule, where, and what.

Fact sheet: session-log 14.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from loopspec.values import Json

Path: TypeAlias = tuple[str | int, ...]


class Problem(NamedTuple):
    """One thing that is wrong with a row: the checker rule, where, and what."""

    rule: str
    path: Path
    reason: str

    @property
    def where(self) -> str:
        """The place as a JSON path such as `$.data.message.content[0].text`."""
        return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)

    def __str__(self) -> str:
        return f"{self.rule}: {self.where} {self.reason}"


class RowError(ValueError):
    """A row that is not what its format asks for; `problems` lists every fault found in it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


def fault(rule: str, text: str) -> PydanticCustomError:
    """The error of a check that a type cannot express; the checker rule travels as the error's type."""
    return PydanticCustomError(rule, "{text}", {"text": text})


def problems_of(model: type[BaseModel], value: Json, base: Path, rule: str) -> tuple[Problem, ...]:
    """Every shape problem of one value. `base` is its path in the row, `rule` the rule of an ordinary fault."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=False)
        return tuple(_problem(detail, value, base, rule) for detail in details)
    return ()


def _problem(detail: ErrorDetails, value: Json, base: Path, rule: str) -> Problem:
    kind = detail["type"]
    if kind == "missing":
        reason = "is missing"
    elif kind == "extra_forbidden":
        reason = "is not a key of this record"
    elif kind in ("string_too_short", "too_short"):
        reason = "must not be empty"
    elif kind.startswith("union_tag"):
        reason = "does not name a known kind of value"
    else:
        reason = detail["msg"].replace("Input should", "should")
    path = base + _path_in(value, detail["loc"])
    return Problem(kind if kind.startswith("S-") else rule, path, reason)


_TAGS = ("type", "kind", "operation", "mode")


def _path_in(value: Json, loc: tuple[int | str, ...]) -> Path:
    """The validator's location without the tags of unions, which are not keys of the value."""
    path: list[str | int] = []
    here: Json = value
    fresh = True
    for part in loc:
        if fresh and isinstance(here, Mapping) and any(here.get(tag) == part for tag in _TAGS):
            fresh = False
            continue
        path.append(part)
        fresh = True
        if isinstance(here, Mapping):
            here = here.get(part)
        elif isinstance(here, Sequence) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            here = None
    return tuple(path)


def first_lossy(value: Json, path: Path = ()) -> tuple[Path, str] | None:
    """Where a value is not lossless JSON, and why: negative zero or a number that is not finite (S-LNT-8)."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return path, "is not a finite number"
    if isinstance(value, float) and value == 0 and str(value).startswith("-"):
        return path, "is negative zero"
    items: Iterable[tuple[str | int, Json]] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    for key, item in items:
        found = first_lossy(item, (*path, key))
        if found is not None:
            return found
    return None


# -- which rule a payload problem belongs to -----------------------------------------------------------------

_WRAPPED = ("assistant/message", "tool/result", "system/message", "developer/message")


def payload_rule(event_type: str, path: Path) -> str:
    """The checker rule of an ordinary fault at `path` (below `data`) of this event type (section 14)."""
    top = path[0] if path else None
    if event_type == "turn/end" and top == "reason":
        return "S-LNT-47"
    if event_type == "session/end-seed":
        return "S-LNT-90"
    if event_type == "request/header":
        return _header_rule(path)
    if event_type == "user/message":
        return _message_rule(event_type, path)
    if event_type in _WRAPPED and top == "message":
        return _message_rule(event_type, path[1:])
    if event_type == "agent/inbox/spliced" and top == "inserted" and len(path) > 2:
        return _message_rule(event_type, path[2:])
    return "S-LNT-21"


def _header_rule(path: Path) -> str:
    if path[:1] == ("reason",):
        return "S-LNT-81"
    part = path[1] if len(path) > 1 and path[0] == "header" else None
    if part == "config":
        return "S-LNT-79"
    if part == "adapterDefaults":
        return "S-LNT-80"
    if part in ("system", "tools") and len(path) == 2:
        return "S-LNT-78"
    return "S-LNT-21"


def _message_rule(event_type: str, path: Path) -> str:
    top = path[0] if path else None
    if top == "role":
        return "S-LNT-38"
    if event_type == "tool/result" and (path[:2] == ("source", "callId") or top == "toolCallId"):
        return "S-LNT-40"
    if top == "source":
        return "S-LNT-39"
    if top == "id" or path == ("content",):
        return "S-LNT-36"
    if top == "content":
        return "S-LNT-42"
    return "S-LNT-40" if event_type == "tool/result" else "S-LNT-21"


def payload_problems(model: type[BaseModel], event_type: str, data: Json) -> tuple[Problem, ...]:
    """The problems of one payload, each with its rule."""
    found = problems_of(model, data, (), "")
    return tuple(
        Problem(problem.rule or payload_rule(event_type, problem.path), ("data", *problem.path), problem.reason)
        for problem in found
    )
