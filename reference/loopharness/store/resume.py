"""Resume and fork: how a log becomes a live agent again (C-RES-*, C-FRK-*, S-FRK-*).

`continued` and `forked` are pure and say which events a resumed or forked session begins with. `load` gets the
private session of a resume, `fork` makes a child on a harness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from loopharness.archive import Archive
from loopharness.frozen import FrozenDict, freeze
from loopharness.session import Session
from loopharness.store.errors import (
    SessionAlreadyExistsError,
    SessionForkError,
    SessionPersistenceCorruptionError,
)
from loopharness.store.opening import last_open_work
from loopspec.log import repair
from loopspec.log.types import Dialect
from loopspec.surface import SurfaceError
from loopspec.values import SAFE_INTEGER

if TYPE_CHECKING:
    from loopharness.agent import Agent, AgentOptions
    from loopharness.harness import Harness
    from loopharness.store.service import SessionPersistence

__all__ = ["begun", "continued", "fork", "fork_header", "forked", "inherited", "load", "session_of"]

END_SEED: Final = "session/end-seed"
"""The restart marker: what stands before it is history (S-FRK-1, S-FRK-2)."""


def continued(dialect: Dialect, events: Iterable[Mapping[str, Any]]) -> Archive:
    """The events of a stored log, and the closers that it needs, with the time of the last one (S-REP-3, C-RPR-2)."""
    if not isinstance(events, Archive):
        events = Archive.of(event if isinstance(event, FrozenDict) else freeze(dict(event)) for event in events)
    closers = repair.closers(dialect, last_open_work(events))
    return events.followed_by(freeze(dict(closer)) for closer in closers)


def begun(session: Session) -> Session:
    """A session behind its restart marker, which it gets unless it ends with one (S-FRK-1, S-FRK-2)."""
    if not (len(session.events) and session.events[-1]["type"] == END_SEED):
        session.append(END_SEED, {})
    return session


def session_of(
    header: Mapping[str, Any], events: Iterable[Mapping[str, Any]], now: Callable[[], int], begin: bool = True
) -> Session:
    """The private session of a log that is taken up again; `begin`: a restart marker may be due."""
    dialect: Dialect = "v4" if header["version"] == 4 else "v0"
    session = Session(dict(header), dialect=dialect, now=now, events=continued(dialect, events))
    return begun(session) if begin else session


async def load(persistence: SessionPersistence, session_id: str, version: int, now: Callable[[], int]) -> Session:
    """The private session of a stored one, which is reserved from now on (C-RES-3, C-RES-7).

    Raises what `SessionPersistence.open` raises. Then the session is free again, and unchanged but for its repair.
    """
    opened = await persistence.open(session_id, version)
    try:
        return session_of(opened.header, opened.events, now)
    except SurfaceError as error:
        persistence.release(session_id)
        raise SessionPersistenceCorruptionError(f"{opened.log.path}: {error}", cause=error) from error
    except BaseException:
        persistence.release(session_id)
        raise


async def fork(
    harness: Harness,
    source: Session | str,
    boundary: int | None = None,
    child_id: str | None = None,
    options: AgentOptions | None = None,
) -> Agent:
    """A live, idle agent over a new session that begins as a copy of another, up to `boundary` (C-FRK-1, C-FRK-2).

    `source` is a live session or its id; `boundary` an inclusive seq, the last one when it is absent. Without a
    `child_id` the child is called `session-<n>` (C-ID-5). Raises `SessionForkError`.
    """
    if child_id is not None and harness.sessions.get(child_id) is not None:
        raise SessionForkError(f'session "{child_id}" already exists', "SESSION_ALREADY_EXISTS")
    session = _resolved(harness, source)
    prefix = inherited(session, boundary)
    child = await _unnamed(harness) if child_id is None else child_id
    header = fork_header(session.header, child, len(prefix), harness.now())
    if child_id is not None and harness.persistence is not None:
        await harness.persistence.reserve(child)
    events = forked(session.dialect, prefix)
    begin = session.dialect == "v0"
    return await harness.create_agent(options=options, header=header, events=events, begin=begin, source="startup")


def fork_header(source: Mapping[str, Any], child_id: str, length: int, created_at: int) -> dict[str, Any]:
    """The header of a fork child: lineage and `cwd`, nothing else is inherited (C-FRK-4, S-FRK-4, S-FRK-5)."""
    header: dict[str, Any] = {"type": "session", "version": source["version"], "id": child_id, "createdAt": created_at}
    if "cwd" in source:
        header["cwd"] = source["cwd"]
    header["parentSession"] = source["id"]
    header |= {"seedLength": length} if source["version"] == 0 else {"isSeeded": True}
    return {**header, "delegationDepth": 0}


def forked(dialect: Dialect, prefix: tuple[FrozenDict, ...]) -> tuple[FrozenDict, ...]:
    """The events that a fork child begins with; format 0 gets its marker when the session begins (S-FRK-4, S-FRK-5)."""
    if dialect == "v0":
        return prefix
    work = last_open_work(prefix)
    marker = {"type": "session/end-seed", "seq": work.length, "time": work.time, "data": {"inherited": True}}
    closers = repair.closers("v4", work._replace(length=work.length + 1), "forked")
    return (*prefix, freeze(marker), *(freeze(dict(closer)) for closer in closers))


async def _unnamed(harness: Harness) -> str:
    """An id that no live session has, nor a stored one: an earlier process counted from 1, too (C-ID-5, C-RES-9)."""
    while True:
        id = harness.sessions.fresh_id()
        try:
            if harness.persistence is not None:
                await harness.persistence.reserve(id)
        except SessionAlreadyExistsError:
            continue
        return id


def _resolved(harness: Harness, source: Session | str) -> Session:
    if isinstance(source, str):
        session = harness.sessions.get(source)
        if session is None:
            raise SessionForkError(f'session "{source}" not found', "SESSION_NOT_FOUND")
        return session
    if harness.sessions.get(source.id) is not source:
        raise SessionForkError(f'session "{source.id}" is not the live store instance', "SESSION_NOT_LIVE")
    return source


def inherited(session: Session, boundary: int | None) -> tuple[FrozenDict, ...]:
    """What a fork takes over, up to an inclusive seq, by default the last one. Raises `SessionForkError` (C-FRK-3)."""
    events = session.events
    if boundary is None:
        boundary = len(events) - 1
        if boundary < 0:
            return ()
    elif type(boundary) is not int or not 0 <= boundary <= SAFE_INTEGER:
        text = f'fork boundary for session "{session.id}" must be a non-negative safe integer, got {boundary!r}'
        raise SessionForkError(text, "INVALID_BOUNDARY")
    if boundary >= len(events):
        last = len(events) - 1 if len(events) else "none"
        text = f'fork boundary {boundary} does not exist in session "{session.id}" (last seq: {last})'
        raise SessionForkError(text, "INVALID_BOUNDARY")
    prefix = tuple(events[: boundary + 1])
    if session.dialect == "v0":
        turn = last_open_work(prefix).turn
        if turn is not None:
            text = f'fork boundary {boundary} in session "{session.id}" ends inside open turn {turn}'
            raise SessionForkError(text, "OPEN_TURN")
    return prefix
