"""The header row and the envelope of an event, as far as both formats share them.

Fact sheet: session-log 2 and 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple, TypeAlias

from pydantic import AfterValidator, BaseModel

from loopspec.log.common import Count, Maybe, Shape, Text
from loopspec.log.problems import Problem, fault, problems_of
from loopspec.log.types import REPLACE_FIELDS, SURFACE_TYPES, Dialect
from loopspec.values import SAFE_INTEGER, Json, Record

# -- session header row (section 3) --------------------------------------------------------------------------


def _absolute(path: str) -> str:
    drive = len(path) > 2 and path[0].isalpha() and path[1] == ":" and path[2] in "/\\"
    if not (path.startswith(("/", "\\\\")) or drive):
        raise fault("S-LNT-13", f'must be an absolute path, not "{path}"')
    return path


AbsolutePath: TypeAlias = Annotated[str, AfterValidator(_absolute)]


class SessionHeader(Shape):
    type: Literal["session"]
    id: Text
    created_at: Count
    cwd: Maybe[AbsolutePath] = None
    parent_session: Maybe[Text] = None
    origin: Maybe[Literal["subagent"]] = None
    agent_preset: Maybe[Text] = None


def header_problems(model: type[SessionHeader], row: Record) -> tuple[Problem, ...]:
    """The problems of a header row: S-LNT-11 for the version, S-LNT-12 for the keys, S-LNT-13 for the rest."""
    found = problems_of(model, row, (), "S-LNT-13")
    return tuple(
        problem._replace(rule="S-LNT-11")
        if problem.path == ("version",)
        else problem._replace(rule="S-LNT-12")
        if problem.reason == "is not a key of this record"
        else problem
        for problem in found
    )


# -- envelope (section 2) ------------------------------------------------------------------------------------

ENVELOPE_KEYS = frozenset({"type", "seq", "time", "data", "ignorable", "surfaceOp", "sourceEventSeqs"})


class Event(NamedTuple):
    """A row that passed: the event as stored, and its payload as a model (`None` for foreign types)."""

    record: Record
    model: BaseModel | None


def envelope_problems(dialect: Dialect, row: Record, *, known: bool) -> tuple[Problem, ...]:
    """The problems of an event's envelope (S-ENV-1 to S-ENV-5), surface metadata in its form only.

    Whether sources and endpoints exist is the surface's business. `known`: the type is known to the format.
    """
    found: list[Problem] = []
    for key in row:
        if key not in ENVELOPE_KEYS:
            found.append(Problem("S-LNT-20", (key,), "is not a key of an event"))
    for key, rule in (("type", "S-LNT-20"), ("seq", "S-LNT-17"), ("time", "S-LNT-18"), ("data", "S-LNT-21")):
        if key not in row:
            found.append(Problem(rule, (key,), "is missing"))
    if "type" in row and not isinstance(row["type"], str):
        found.append(Problem("S-LNT-20", ("type",), "must be a string"))
    if "seq" in row and not _integer(row["seq"], 0):
        found.append(Problem("S-LNT-17", ("seq",), "must be a non-negative safe integer"))
    if "time" in row and not _integer(row["time"], -SAFE_INTEGER):
        found.append(Problem("S-LNT-18", ("time",), "must be a safe integer"))
    elif "time" in row and row["time"] < 0:
        found.append(Problem("S-LNT-18", ("time",), "must not be negative"))
    if "ignorable" in row and (row["ignorable"] is not True or known):
        text = "never marks a known type" if known else "is either absent or true"
        found.append(Problem("S-LNT-22", ("ignorable",), text))
    return (*found, *_metadata_problems(dialect, row, known=known))


def _metadata_problems(dialect: Dialect, row: Record, *, known: bool) -> tuple[Problem, ...]:
    event_type = row.get("type")
    if not isinstance(event_type, str):
        return ()
    if event_type not in SURFACE_TYPES[dialect]:
        if dialect == "v4" and not known and row.get("ignorable") is True:
            return ()  # opaque there (S-ENV-4)
        return tuple(
            Problem("S-LNT-24", (key,), f'does not belong on "{event_type}", which is log-only')
            for key in ("surfaceOp", "sourceEventSeqs")
            if key in row
        )
    if "surfaceOp" not in row:
        return (Problem("S-LNT-25", ("surfaceOp",), "is missing"),)
    operation, (start, end) = row["surfaceOp"], REPLACE_FIELDS[dialect]
    replace = isinstance(operation, Mapping) and set(operation) == {"op", start, end}
    if operation == "append" or (
        replace and operation["op"] == "replace" and _integer(operation[start], 0) and _integer(operation[end], 0)
    ):
        return ()
    text = f'must be "append" or exactly {{"op": "replace", "{start}": seq, "{end}": seq}}'
    return (Problem("S-LNT-26", ("surfaceOp",), text),)


def _integer(value: Json, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= SAFE_INTEGER
