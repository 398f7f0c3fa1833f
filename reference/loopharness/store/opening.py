"""From a stored session to one that can be written again: lock, torn tail, crash repair, migration.

Everything here blocks and runs in a worker thread. What is answered is durable: nothing that a resumed session
holds can disappear again (C-RPR-4).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from loopharness.archive import Archive
from loopharness.frozen import FrozenDict, freeze
from loopharness.session import Session
from loopharness.store.errors import (
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceNotFoundError,
)
from loopharness.store.files import Files, Lock
from loopharness.store.layout import LOCK_NAME, Artifact, Layout
from loopharness.store.log_file import LogFile
from loopharness.store.reading import VALIDATED, Stored, Torn, read_stored
from loopspec.log import v4
from loopspec.log.migrate import Migrated, MigrationError, migrate
from loopspec.log.migrate_v3 import migrate_v3
from loopspec.log.repair import OpenWork, closers, follow
from loopspec.surface import SurfaceError

__all__ = ["Opened", "Opener", "Viewed", "last_open_work"]

READABLE: Final[Mapping[int, tuple[int, ...]]] = {0: (0,), 4: (0, 3, 4)}
"""Which stored formats can be continued as which: older ones are migrated, newer ones are refused (S-MIG-4)."""


class Opened(NamedTuple):
    """A session that is ours to write: its header, its durable events, its file; `torn` if a crash had torn it."""

    header: FrozenDict
    events: Archive
    log: LogFile
    torn: Torn | None


class Viewed(NamedTuple):
    """A session that was only read. `closers`, already among the events, are what repair would append."""

    header: FrozenDict
    events: Archive
    closers: int
    torn: Torn | None


class Opener:
    """Reads and opens the sessions of one root. `lenient` reads as published loaders do (S-DSK-20, G17)."""

    def __init__(self, layout: Layout, files: Files, pack_chunks: bool = True, lenient: bool = False) -> None:
        self._layout: Final = layout
        self._files: Final = files
        self._pack_chunks: Final = pack_chunks
        self._lenient: Final = lenient

    def view(self, session_id: str, version: int | None = None) -> Viewed:
        """Read a session, take no lock and write nothing (S-MIG-1, S-REP-5). `version`: show it in that format."""
        artifact = self._artifact(session_id)
        stored = self._read(artifact, session_id, (0, 3, 4) if version is None else READABLE[version])
        wanted = version if version is not None else stored.version if stored.version != 3 else 4
        if stored.version != wanted:
            migrated = self._migrated(stored, artifact)
            return Viewed(freeze(migrated.header), Archive.of(_frozen(migrated.events)), 0, stored.torn)
        _check_surface(stored, str(artifact.path))
        added = _frozen(closers(stored.dialect, last_open_work(stored.events)))
        return Viewed(stored.header, stored.events.followed_by(added), len(added), stored.torn)

    def open(self, session_id: str, version: int) -> Opened:
        """Take a session over for writing in that format, and repair what a crash has left.

        Raises `SessionPersistenceNotFoundError`, `SessionAlreadyOwnedError`, `SessionFormatUnsupportedError`,
        `SessionPersistenceCorruptionError`, and `OSError`. Then nothing is held.
        """
        artifact = self._artifact(session_id)
        lock = self._files.lock(artifact.folder / LOCK_NAME, session_id)
        log: LogFile | None = None
        try:
            artifact = self._layout.artifact_in(artifact.folder) or artifact
            self._sweep(artifact)
            stored = self._read(artifact, session_id, READABLE[version])
            if stored.version == version:
                log = LogFile(self._layout, self._files, stored.header, self._pack_chunks)
                return self._continued(stored, log, lock)
            migrated = self._migrated(stored, artifact)
            header, events = freeze(migrated.header), Archive.of(_frozen(migrated.events))
            log = LogFile(self._layout, self._files, header, self._pack_chunks)
            return self._published(header, events, log, lock, stored.torn)
        except BaseException:
            if log is not None:
                log.close()
            lock.release()
            raise

    def _artifact(self, session_id: str) -> Artifact:
        artifact = self._layout.find(session_id)
        if artifact is None:
            raise SessionPersistenceNotFoundError(f'session "{session_id}" not found')
        return artifact

    def _read(self, artifact: Artifact, session_id: str, formats: tuple[int, ...]) -> Stored:
        path = artifact.path
        data = self._files.read(path)
        stored = read_stored(data, str(path), drop_bad_tail=self._lenient, formats=formats)
        header = stored.header
        if header["version"] != artifact.version:
            raise SessionPersistenceCorruptionError(
                f"{path}: line 1: the header says format {header['version']}, unlike the file name", 1
            )
        if header["id"] != session_id:
            raise SessionPersistenceCorruptionError(
                f'{path}: line 1: requested id "{session_id}" does not match header id "{header["id"]}"', 1
            )
        if self._layout.folder_of(header) != artifact.folder:
            raise SessionPersistenceCorruptionError(
                f"{path}: line 1: header id and cwd lead to {self._layout.folder_of(header)}, not here", 1
            )
        return stored

    def _continued(self, stored: Stored, log: LogFile, lock: Lock) -> Opened:
        """The same format goes on: cut, write again what could be saved, close what is open (S-REP-5, S-REP-6).

        Format 4 gets its closers from the agent, as ordinary appends.
        """
        if not self._lenient:
            _refuse_forgotten(stored, str(log.path))
        saved: tuple[FrozenDict, ...] = ()
        size = stored.size
        if stored.torn is not None:
            saved, size = tuple(stored.events[stored.torn.first :]), stored.torn.offset
        added: tuple[FrozenDict, ...] = ()
        if stored.version == 0:
            added = _frozen(closers("v0", last_open_work(stored.events)))
        if saved or added:
            _check_surface(stored, str(log.path))
        log.take(size, lock)
        log.settle()
        if saved or added:
            log.write(saved + added)
        return Opened(stored.header, stored.events.followed_by(added), log, stored.torn)

    def _published(self, header: FrozenDict, events: Archive, log: LogFile, lock: Lock, torn: Torn | None) -> Opened:
        """A migrated session gets its new file at once; the old one stays untouched (S-MIG-1)."""
        temporary = log.path.with_name(f"session.migration.{secrets.token_hex(8)}{self._layout.suffix}.tmp")
        size = log.publish(events, temporary, verify=True)
        log.take(size, lock)
        return Opened(header, events, log, torn)

    def _migrated(self, stored: Stored, artifact: Artifact) -> Migrated:
        try:
            migrated = (migrate if stored.version == 0 else migrate_v3)(stored.header, stored.events)
        except MigrationError as error:
            raise SessionFormatUnsupportedError(
                f"{artifact.path} cannot be carried over from format {stored.version}: {error}", error
            ) from error
        _check_payloads(migrated.events, str(artifact.path))
        _check_surface(
            Stored(freeze(dict(migrated.header)), Archive.of(_frozen(migrated.events)), 0), str(artifact.path)
        )
        return migrated

    def _sweep(self, artifact: Artifact) -> None:
        """Remove the temporary files of writers that died; the lock says that none is at work."""
        for name in self._files.names(artifact.folder):
            if name.startswith("session.") and name.endswith(".tmp"):
                self._files.remove(artifact.folder / name)


def last_open_work(events: Sequence[FrozenDict]) -> OpenWork:
    """What stands open at the end: only the last turn can matter, so only that is looked at (S-REP-2)."""
    start = len(events)
    while start and events[start - 1]["type"] not in ("turn/start", "turn/end"):
        start -= 1
    if not start or events[start - 1]["type"] == "turn/end":
        return OpenWork(length=len(events), time=events[-1]["time"] if events else 0)
    work = OpenWork(length=start - 1)
    for event in events[start - 1 :]:
        work = follow(work, event)
    return work


def _refuse_forgotten(stored: Stored, name: str) -> None:
    """A turn that a later one overran was never repaired, and cannot be repaired in its place (G17, K19)."""
    since: int | None = None
    for seq, kind in enumerate(stored.events.kinds):
        if kind == "turn/start":
            if since is not None:
                calls = [call for call, _ in last_open_work(stored.events[:seq]).pending]
                asked = f"; never answered: {', '.join(calls)}" if calls else ""
                raise SessionPersistenceCorruptionError(
                    f"{name}: event {seq} starts a turn while the one that event {since} has started is open{asked}. "
                    "Open the session in format 4: migration closes such turns"
                )
            since = seq
        elif kind == "turn/end":
            since = None


def _check_payloads(events: Iterable[Mapping[str, Any]], name: str) -> None:
    for event in events:
        if event["type"] in VALIDATED["v4"]:
            problems = v4.validate_data(event["type"], event["data"])
            if problems:
                raise SessionPersistenceCorruptionError(
                    f"{name}: as format 4, event {event['seq']} ({event['type']}) would be wrong: {problems[0]}"
                )


def _check_surface(stored: Stored, name: str) -> None:
    """Nothing is written to a log that no session can be made of."""
    try:
        Session(stored.header, dialect=stored.dialect, events=stored.events)
    except SurfaceError as error:
        raise SessionPersistenceCorruptionError(f"{name}: {error}", cause=error) from error


def _frozen(events: Iterable[Any]) -> tuple[FrozenDict, ...]:
    return tuple([freeze(event if isinstance(event, FrozenDict) else dict(event)) for event in events])
