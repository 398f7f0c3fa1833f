"""What comes in with a create: the header of the new session, its seed, and the options (C-INP-*, C-FRK-7 to 9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from loopharness.agent import AgentOptions
from loopharness.frozen import FrozenDict, NotJsonError, freeze
from loopharness.session import Session
from loopharness.store.resume import begun, forked
from loopspec.log import seed
from loopspec.log.types import Dialect
from loopspec.surface import SurfaceError
from loopspec.values import SAFE_INTEGER

__all__ = ["fresh", "options", "seed_events"]

META: Final = ("cwd", "parentSession", "seedLength", "origin", "delegationDepth", "agentPreset")
OPTIONS: Final = {"provider": "provider", "model": "model", "maxTokens": "max_tokens"}


def options(given: AgentOptions | Mapping[str, Any] | None) -> AgentOptions:
    """Options, also under the names of the wire. Raises `TypeError` (C-INP-5)."""
    if given is None:
        return AgentOptions()
    if isinstance(given, AgentOptions):
        return given
    return AgentOptions(**{OPTIONS[name]: value for name, value in given.items() if name in OPTIONS})


def fresh(
    id: str,
    meta: Mapping[str, Any],
    given: Iterable[Mapping[str, Any]] | None,
    version: int,
    now: Callable[[], int],
) -> Session:
    """The private session of a create. Raises `TypeError` or `ValueError` with the texts of the contract.

    A seed, also an empty one, is followed by a `session/end-seed` unless it ends with one (C-FRK-9); in format 4 that
    marker says that what stands before it is inherited.
    """
    dialect: Dialect = "v4" if version == 4 else "v0"
    header = _header(id, meta, version, now(), given is not None)
    if given is None:
        return Session(header, dialect=dialect, now=now)
    events = seed_events(given)
    prefix = forked(dialect, events) if dialect == "v4" else events
    try:
        session = Session(header, dialect=dialect, now=now, events=prefix)
    except SurfaceError as error:
        raise ValueError(seed.refused(_culprit(header, dialect, events), error)) from error
    return begun(session) if dialect == "v0" else session


def _header(id: str, meta: Mapping[str, Any], version: int, created_at: int, seeded: bool) -> dict[str, Any]:
    known = {name: meta[name] for name in META if name in meta}
    for name in ("cwd", "parentSession", "agentPreset"):
        if name in known and not isinstance(known[name], str):
            raise TypeError(f"session header {name} must be a string")
    if "cwd" in known and not known["cwd"].startswith("/"):
        raise ValueError(f'session header cwd must be an absolute path, got "{known["cwd"]}"')
    for name in ("seedLength", "delegationDepth"):
        if name in known and not (type(known[name]) is int and 0 <= known[name] <= SAFE_INTEGER):
            raise TypeError(f"session header {name} must be a non-negative safe integer")
    if "origin" in known and known["origin"] != "subagent":
        raise TypeError('session header origin must be "subagent"')
    row: dict[str, Any] = {"type": "session", "version": version, "id": id, "createdAt": created_at}
    depth = known.pop("delegationDepth", 0)
    if version == 4:
        known.pop("seedLength", None)
        row["isSeeded"] = seeded
    return {**row, **known, "delegationDepth": depth}


def seed_events(given: Iterable[Mapping[str, Any]]) -> tuple[FrozenDict, ...]:
    """The events of a seed, copied and frozen (C-FRK-7, C-FRK-8)."""
    return tuple(_event(index, event) for index, event in enumerate(given))


def _event(index: int, given: Mapping[str, Any]) -> FrozenDict:
    try:
        event = given if isinstance(given, FrozenDict) else freeze(dict(given))
    except (NotJsonError, TypeError, ValueError) as error:
        raise TypeError(seed.not_json(index)) from error
    wrong = seed.fault(index, event)
    if wrong:
        raise ValueError(wrong)
    return event


def _culprit(header: Mapping[str, Any], dialect: Dialect, events: tuple[FrozenDict, ...]) -> int:
    for index in range(len(events)):
        try:
            Session(header, dialect=dialect, events=events[: index + 1])
        except SurfaceError:
            return index
    return len(events)
