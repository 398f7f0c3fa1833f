"""A stored session forked into a file of its own: prefix, lineage, marker (C-FRK-*, S-FRK-4, S-FRK-5).

The parent is only read, and may be live. What is written has passed every rule first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loopconform.check import Options
from loopconform.exit_codes import Exit, Unusable, code_of
from loopconform.publishing import publish
from loopconform.script.output import pieces
from loopconform.stored import Stored, take_up
from loopharness.archive import Archive
from loopharness.frozen import freeze
from loopharness.session import Session
from loopharness.store.errors import SessionForkError, SessionPersistenceError
from loopharness.store.files import DISK
from loopharness.store.layout import LOCK_NAME, Layout
from loopharness.store.resume import fork_header, forked, inherited, session_of

__all__ = ["Child", "Place", "boundary_of_turn", "fork_file"]

Record = Mapping[str, Any]


class Place(NamedTuple):
    """Where the child goes: a session file, or below the root directory of a store, there as `zstd` says."""

    path: Path
    is_root: bool
    zstd: bool


class Child(NamedTuple):
    """The session that was written: its header, its events, how many of them are the parent's, and its file."""

    header: Record
    events: tuple[Record, ...]
    inherited: int
    path: Path


def fork_file(
    parent: Path,
    at: Callable[[Stored], int | None],
    child_id: str | None,
    place: Place,
    now: Callable[[], int],
    options: Options,
) -> Child:
    """Write a child of a stored session. `at` gives the inclusive seq where it leaves its parent, `None` for the end.

    Without a `child_id` it gets the first `session-<n>` that is free (C-ID-5). Raises `Unusable`: then nothing is
    written.
    """
    stored = take_up(parent, options)
    assert stored.header is not None
    boundary = at(stored)
    if boundary is None and stored.report.verdict == "torn":
        text = (
            f"{parent} is torn at its end: name a place in what is whole, at the latest --at {len(stored.events) - 1}"
        )
        raise Unusable(text, Exit.TORN)
    try:
        session = _session(stored.header, stored.events)
        prefix = inherited(session, boundary)
        id = _free_id(place, session.id) if child_id is None else child_id
        if id == session.id:
            raise Unusable(f'the child needs an id of its own: "{id}" is that of {parent}', Exit.EXISTS)
        header = fork_header(session.header, id, len(prefix), now())
        events = forked(session.dialect, prefix)
        child = session_of(header, events, now, begin=session.dialect == "v0")
        made = Child(child.header, tuple(child.events), len(prefix), place.path)
        return _written(made, place, options)
    except (SessionForkError, SessionPersistenceError) as error:
        raise Unusable(str(error), code_of(error)) from error
    except OSError as error:
        raise Unusable(f"{place.path} cannot be written: {error.strerror}", code_of(error)) from error
    except ValueError as error:  # an id that no directory can have
        raise Unusable(str(error), Exit.USAGE) from error


def boundary_of_turn(stored: Stored, turn: int) -> int:
    """The seq that ends a turn. Raises `Unusable`."""
    ends = {event["data"]["turn"]: event["seq"] for event in stored.events if event["type"] == "turn/end"}
    if turn in ends:
        return int(ends[turn])
    there = f"the last one that has is turn {max(ends)}" if ends else "none has"
    raise Unusable(f"turn {turn} of this session has not ended; {there}. --at SEQ names any other place", Exit.BOUNDARY)


def _session(header: Record, events: Iterable[Record]) -> Session:
    frozen = Archive.of(freeze(dict(event)) for event in events)
    return Session(dict(header), dialect="v4" if header["version"] == 4 else "v0", events=frozen)


def _layout(place: Place) -> Layout:
    return Layout(place.path, DISK, "zstd" if place.zstd else "none")


def _free_id(place: Place, parent: str) -> str:
    number = 1
    while (id := f"session-{number}") == parent or (place.is_root and _layout(place).find(id) is not None):
        number += 1
    return id


def _written(child: Child, place: Place, options: Options) -> Child:
    content = pieces(child.header, child.events, len(child.events), zstd=place.zstd)
    if not place.is_root:
        publish(place.path, content, options)
        return child
    layout = _layout(place)
    path = layout.path_of(child.header)
    known = layout.find(child.header["id"])
    if known is not None:
        text = f'session "{child.header["id"]}" is stored already, in {known.path}: choose another --id'
        raise Unusable(text, Exit.EXISTS)
    DISK.make_folder(path.parent)
    lock = DISK.lock(path.parent / LOCK_NAME, child.header["id"])
    try:
        publish(path, content, options)
    finally:
        lock.release()
    return child._replace(path=path)
