"""Stored sessions of format 0 and 3 written as format 4: a file beside the old one, elsewhere, or in its place.

The store does the same when it opens an old session for writing (S-MIG-1); here it is done to files that nobody opens.
A source is locked meanwhile, and kept unless the caller says otherwise. What is written has passed every rule first.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from loopconform.check import Options, Profile
from loopconform.exit_codes import Exit, Unusable, code_of
from loopconform.publishing import publish
from loopconform.reader import ReadRow, read
from loopconform.script.output import pieces
from loopconform.stored import must_be_readable, take_up
from loopharness.store.errors import SessionPersistenceError
from loopharness.store.files import DISK, Lock
from loopharness.store.layout import LOCK_NAME
from loopharness.store.reading import read_stored
from loopspec.log.migrate import Migrated, MigrationError, migrate
from loopspec.log.migrate_v3 import migrate_v3
from loopspec.log.place import generation

__all__ = ["Done", "Manner", "migrate_file", "target_of"]

Record = Mapping[str, Any]
Status = Literal["migrated", "would be migrated", "already format 4", "failed"]

NEW = 4
OLD = (0, 3)
"""Formats that can be carried over."""
TEARS = ("S-LNT-5", "S-LNT-6")
"""The rules whose findings tell how the end of a file is torn."""
NEWER_PROFILE = {"seed": "seed", "dsh-0.1": "dsh-0.1.7", "dsh-0.1.7": "dsh-0.1.7"}
"""What the new file is measured by, for each measure of the old one."""


class Manner(NamedTuple):
    """How to migrate. `to`: the directory to write into. `in_place`: the old file goes. `torn`: take what is whole.
    `dry`: do all but write. `options`: how sources are judged."""

    to: Path | None = None
    in_place: bool = False
    torn: bool = False
    dry: bool = False
    options: Options = Options()


class Done(NamedTuple):
    """What came of one file. `reason` and `code` say why it failed; `dropped` what a torn end has cost."""

    source: Path
    status: Status
    target: Path | None = None
    version: int | None = None
    events: int = 0
    dropped: str = ""
    reason: str = ""
    code: Exit = Exit.FINE


class _Source(NamedTuple):
    header: Record
    events: Sequence[Record]
    dropped: str


def migrate_file(source: Path, below: Path, manner: Manner) -> Done:
    """Migrate one file. `below` is the directory that its place under `manner.to` is counted from. Never raises."""
    version: int | None = None
    try:
        must_be_readable(source)
        path = source.resolve() if manner.in_place else source
        with _held(path, manner):
            before = os.stat(path)
            version = _version(path)
            if version == NEW:
                return Done(source, "already format 4", version=version)
            target = target_of(path, below, manner)
            standing = _standing(path, target)
            if standing is not None:
                return Done(source, "already format 4", standing, version)
            old = _read(path, version, manner)
            migrated = _carried(old, version, path)
            done = Done(source, "migrated", target, version, len(migrated.events), old.dropped)
            if manner.dry:
                return done._replace(status="would be migrated")
            _write(migrated, path, target, before, manner)
            return done
    except Unusable as error:
        return Done(source, "failed", None, version, reason=str(error), code=error.code)
    except SessionPersistenceError as error:
        return Done(source, "failed", None, version, reason=str(error), code=code_of(error) or Exit.DISK)
    except (OSError, ValueError) as error:
        reason = f"{source} cannot be read: {getattr(error, 'strerror', None) or error}"
        return Done(source, "failed", None, version, reason=reason, code=code_of(error) or Exit.DISK)


def target_of(source: Path, below: Path, manner: Manner) -> Path:
    """Where the new file goes. In a session directory the name tells the format (S-DSK-5); elsewhere `.v4` is put in,
    unless it goes to another directory or takes the old one's place."""
    name = source.name
    stem, dot, ending = name.partition(".jsonl")
    if generation(name) is not None:
        name = f"session.v{NEW}{dot}{ending}"
    elif manner.to is None and not manner.in_place:
        name = f"{stem}.v{NEW}{dot}{ending}" if dot else f"{name}.v{NEW}"
    if manner.to is None:
        return source.with_name(name)
    return manner.to / source.absolute().parent.relative_to(below.absolute()) / name


# -- the source ------------------------------------------------------------------------------------------------


@contextmanager
def _held(path: Path, manner: Manner) -> Iterator[None]:
    """Nobody writes this session meanwhile: neither a conversation nor a harness. Raises `Unusable` and `OSError`."""
    with ExitStack() as stack:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        stack.callback(os.close, file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Unusable(f"{path} is open in a conversation: end that one first", Exit.LOCKED) from error
        if generation(path.name) is not None:
            lock = path.absolute().parent / LOCK_NAME
            if lock.exists() or not (manner.dry or manner.to):
                stack.callback(_lock(lock, manner).release)
        yield


def _lock(path: Path, manner: Manner) -> Lock | _NoLock:
    """The lock of the session; where nothing is written beside the source, one that cannot be taken is no obstacle."""
    try:
        return DISK.lock(path, path.parent.name)
    except OSError:
        if manner.dry or manner.to:
            return _NoLock()
        raise


class _NoLock:
    def release(self) -> None:
        pass


def _version(path: Path) -> int:
    """The format that the header names. Raises `Unusable` for one that cannot be carried over, and for no header."""
    header = _header(path)
    version = None if header is None or header.get("type") != "session" else header.get("version")
    if type(version) is not int:
        return take_up(path).version
    if version in (*OLD, NEW):
        return version
    known = " and ".join(str(number) for number in OLD)
    raise Unusable(f"{path} is of format {version}; to format {NEW} can be carried over: {known}", Exit.UNSUPPORTED)


def _header(path: Path) -> Record | None:
    return next((item.value for item in read(path) if isinstance(item, ReadRow)), None)


def _read(path: Path, version: int, manner: Manner) -> _Source:
    """All that the source holds. Raises `Unusable`, `SessionPersistenceError` and `OSError`."""
    if version == 0:
        stored = take_up(path, manner.options)
        assert stored.header is not None
        torn = stored.report.verdict == "torn"
        reason = next((item.reason for item in stored.report.findings if torn and item.rule in TEARS), "")
        source = _Source(stored.header, stored.events, reason)
    else:
        old = read_stored(DISK.read(path), str(path), formats=(version,))
        source = _Source(old.header, old.events, "" if old.torn is None else old.torn.reason)
    if source.dropped and not manner.torn:
        whole = f"--torn takes the {len(source.events)} whole events"
        raise Unusable(f"{path} is torn at its end: {source.dropped.rstrip('.')}. {whole}", Exit.TORN)
    return source


def _carried(old: _Source, version: int, path: Path) -> Migrated:
    try:
        return (migrate if version == 0 else migrate_v3)(old.header, old.events)
    except MigrationError as error:
        text = f"{path} cannot be carried over from format {version}: {error}"
    except (KeyError, TypeError, IndexError) as error:
        text = f"{path} cannot be carried over: an event has not the shape of format {version} ({error!r})"
    raise Unusable(text, Exit.UNSUPPORTED)


# -- the target ------------------------------------------------------------------------------------------------


def _standing(path: Path, target: Path) -> Path | None:
    """The file that holds this session in format 4 already. Raises `Unusable` when another one is in the way."""
    beside = sorted(path.parent.glob(f"session.v{NEW}.jsonl*")) if generation(path.name) is not None else []
    if beside:
        return beside[0]
    if target == path or not os.path.lexists(target):
        return None
    try:
        ours, theirs = _header(path), _header(target)
    except OSError:
        ours = theirs = None
    if ours is not None and theirs is not None and (theirs.get("version"), theirs.get("id")) == (NEW, ours.get("id")):
        return target
    raise Unusable(f"{target} exists, and is kept: it is another session", Exit.EXISTS)


def _write(migrated: Migrated, path: Path, target: Path, before: os.stat_result, manner: Manner) -> None:
    """Put the new file in its place; then, where that was asked for, the old one goes. Raises `Unusable`."""
    now = os.stat(path)
    if (before.st_ino, before.st_size, before.st_mtime_ns) != (now.st_ino, now.st_size, now.st_mtime_ns):
        raise Unusable(f"{path} was changed while it was read: try again", Exit.LOCKED)
    profile = cast(Profile, NEWER_PROFILE[manner.options.profile])
    zstd = target.name.endswith((".zstd", ".zst"))
    content = pieces(migrated.header, migrated.events, len(migrated.events), zstd=zstd)
    publish(target, content, manner.options._replace(profile=profile), instead=target == path)
    if manner.in_place and target != path:
        DISK.remove(path)
        DISK.sync_folder(path.parent)
