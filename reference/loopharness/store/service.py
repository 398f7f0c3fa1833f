"""The service that keeps sessions on disk (S-DSK-30 to S-DSK-35).

Mounted on a harness it hears what sessions say on the bus, and nothing in the loop knows about it:

- `session/created` gives the session a write handle and queues what it already holds;
- `session/event` queues each event;
- `session/flush` is the barrier: everything queued so far is durable, or it raises;
- `session/disposed` drains and closes the handle.

Other verbs are asked for: `list_sessions`, `inspect`, `open` for a resume, `reserve` before a fresh id is used.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread

from loopharness.bus import Context
from loopharness.errors import error_chain
from loopharness.frozen import FrozenDict
from loopharness.session import Session
from loopharness.store.errors import (
    SessionAlreadyExistsError,
    SessionAlreadyOwnedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceError,
)
from loopharness.store.files import DISK, Files
from loopharness.store.handle import Handle, Timer
from loopharness.store.layout import Compression, Layout, default_root
from loopharness.store.log_file import LogFile
from loopharness.store.opening import Opened, Opener, Viewed
from loopharness.store.reading import read_header

__all__ = ["WINDOW", "Listed", "SessionPersistence"]

_log = logging.getLogger("loopharness")

WINDOW: Final = 0.2
"""How long the first queued event waits for company, in seconds (S-DSK-32)."""

HEADER_BYTES: Final = 1 << 16
"""How much of a file is read for its header row; more only when that was not enough."""


class Listed(NamedTuple):
    """One session of a list. Exactly one of `header` and `error` is there (G22)."""

    path: Path
    header: FrozenDict | None
    error: Exception | None

    @property
    def id(self) -> str | None:
        """The session's id, when its header could be read."""
        return None if self.header is None else str(self.header["id"])


class _Prepared(NamedTuple):
    """A session that was opened for a resume and is not published yet."""

    opened: Opened
    handle: Handle

    def is_of(self, session: Session) -> bool:
        """Whether this is the session that was made of it, and not another one with the same id."""
        events = self.opened.events
        if session.header != self.opened.header or len(session.events) < len(events):
            return False
        return not events or (session.events[0] == events[0] and session.events[len(events) - 1] == events[-1])


class SessionPersistence:
    """The sessions under one root directory, on a harness (`mount`).

    `root` defaults to `~/.dsh/sessions`; `compression` is that of every file in it; `window` is in seconds;
    `pack_chunks` concerns format 0 (S-CHK-10). `files` and `timer` are the disk and the clock. `lenient` reads and
    resumes what published loaders read and resume, silent loss included.
    """

    def __init__(
        self,
        root: Path | str | None = None,
        *,
        compression: Compression = "zstd",
        window: float = WINDOW,
        pack_chunks: bool = True,
        files: Files = DISK,
        timer: Timer = anyio.sleep,
        lenient: bool = False,
    ) -> None:
        self.layout: Final = Layout(default_root() if root is None else Path(root), files, compression)
        self._files: Final = files
        self._opener: Final = Opener(self.layout, files, pack_chunks, lenient)
        self._pack_chunks: Final = pack_chunks
        self._window: Final = window
        self._timer: Final = timer
        self._group: anyio.abc.TaskGroup | None = None
        self._handles: dict[str, tuple[Session, Handle]] = {}
        self._prepared: dict[str, _Prepared] = {}
        self._reserved: dict[str, anyio.Event] = {}
        self.lost: Final[dict[str, Exception]] = {}
        """Why the last events of a session could not be written when it was closed, by its id."""

    def mount(self, context: Context, group: anyio.abc.TaskGroup) -> None:
        """Listen to the sessions of every scope; `group` runs the write-behind and must outlive them."""
        self._group = group
        context.on("session/created", self._created, everywhere=True)
        context.on("session/event", self._appended, everywhere=True)
        context.on("session/flush", self._flushed, everywhere=True)
        context.on("session/disposed", self._disposed, everywhere=True)

    # -- reading

    async def list_sessions(self) -> list[Listed]:
        """Every stored session, by project and directory name. One that cannot be read hides no other (G22)."""
        return await anyio.to_thread.run_sync(self._list)

    async def inspect(self, session_id: str, version: int | None = None) -> Viewed:
        """Read a session, live here or elsewhere or not at all; nothing is locked, repaired or migrated on disk.

        Answers what a resume would start from: an open turn has its closers. `version`: show it in that format.
        Raises the errors of the store.
        """
        return await anyio.to_thread.run_sync(self._opener.view, session_id, version)

    # -- taking sessions over

    async def open(self, session_id: str, version: int) -> Opened:
        """Take write ownership of a stored session in that format, repaired and durable (S-REP-5, S-MIG-1).

        It stays reserved until a session made of it is published, or `release` gives it back; another `open`
        waits for that (C-RES-7). Raises `SessionAlreadyOwnedError` with
        `cannot prepare session "<id>" while it is live` (C-RES-6), and the errors of `Opener.open`.
        """
        await self._settled(session_id)
        if session_id in self._handles:
            error = SessionAlreadyOwnedError(f'cannot prepare session "{session_id}" while it is live')
            error.add_note("An agent of this process holds it: talk to that one, dispose it first, or use inspect.")
            raise error
        self._reserved[session_id] = anyio.Event()
        try:
            opened = await self.take_over(session_id, version)
            self._prepared[session_id] = _Prepared(opened, self._handle(opened.log, len(opened.events)))
        except BaseException:
            self._reserved.pop(session_id).set()
            raise
        if opened.torn is not None:
            text = "session %s: its file ended in the middle of a write (%s); %d events were kept"
            _log.warning(text, session_id, opened.torn.reason, len(opened.events))
        return opened

    async def take_over(self, session_id: str, version: int) -> Opened:
        """The load itself; the session is reserved for it already. Raises the errors of `Opener.open`."""
        return await anyio.to_thread.run_sync(self._opener.open, session_id, version)

    def release(self, session_id: str) -> None:
        """Give back a session that was opened and not published; harmless otherwise (C-RES-13)."""
        prepared = self._prepared.pop(session_id, None)
        if prepared is not None:
            prepared.handle.abandon()
            self._reserved.pop(session_id).set()

    async def reserve(self, session_id: str) -> None:
        """Make sure that a fresh session may have this id. Raises `SessionAlreadyExistsError` (C-RES-9)."""
        await self._settled(session_id)
        if session_id in self._handles:
            raise SessionAlreadyExistsError(f'session "{session_id}" already exists')
        known = await anyio.to_thread.run_sync(self.layout.find, session_id)
        if known is not None:
            error = SessionAlreadyExistsError(f'session "{session_id}" already exists')
            error.add_note(f"It is stored in {known.path}: resume it, or choose another id.")
            raise error

    # -- live sessions

    def handle_of(self, session: Session) -> Handle | None:
        """The write handle of a live session."""
        known = self._handles.get(session.id)
        return known[1] if known is not None and known[0] is session else None

    async def close(self, session: Session) -> None:
        """Drain a session and let go of it; a second call waits for the first. Raises what the draining raised."""
        handle = self.handle_of(session)
        if handle is None:
            return
        if handle.closing:
            await handle.closed.wait()
            return
        try:
            await handle.close()
        except Exception as error:
            self.lost[session.id] = error
            raise
        finally:
            del self._handles[session.id]

    async def close_all(self) -> None:
        """Drain and close every session; failures are reported, each for itself."""
        for session, _ in list(self._handles.values()):
            await self._close_quietly(session)
        for session_id in list(self._prepared):
            self.release(session_id)

    # -- inside

    async def _settled(self, session_id: str) -> None:
        """Wait until nobody else is opening or closing this session."""
        while True:
            known = self._handles.get(session_id)
            if known is not None and known[1].closing:
                await known[1].closed.wait()
                await anyio.lowlevel.checkpoint()
            elif session_id in self._reserved:
                await self._reserved[session_id].wait()
            else:
                return

    def _handle(self, log: LogFile, durable: int) -> Handle:
        if self._group is None:
            raise RuntimeError("this SessionPersistence is not mounted on a harness")
        header_only = log.header["version"] != 0  # format 0 never stores a header alone (S-DSK-37)
        return Handle(log, durable, self._group, self._timer, self._window, header_only)

    def _created(self, session: Session) -> None:
        prepared = self._prepared.get(session.id)
        if prepared is not None and prepared.is_of(session):
            del self._prepared[session.id]
            self._reserved.pop(session.id).set()
            handle = prepared.handle
        elif session.id in self._reserved or session.id in self._handles:
            raise ValueError(f'cannot publish session "{session.id}": persisted state already owns this identity')
        else:
            log = LogFile(self.layout, self._files, session.header, self._pack_chunks)
            handle = self._handle(log, 0)
        self._handles[session.id] = (session, handle)
        handle.add(session.events[handle.durable :])

    def _appended(self, session: Session, event: FrozenDict) -> None:
        handle = self.handle_of(session)
        if handle is not None:
            handle.add((event,))

    async def _flushed(self, session: Session) -> None:
        handle = self.handle_of(session)
        if handle is not None:
            await handle.flush()

    def _disposed(self, session: Session) -> None:
        handle = self.handle_of(session)
        if handle is not None and not handle.closing and self._group is not None:
            self._group.start_soon(self._close_quietly, session)

    async def _close_quietly(self, session: Session) -> None:
        try:
            await self.close(session)
        except Exception as error:
            _log.error("session %s: its last events could not be written: %s", session.id, error_chain(error))

    def _list(self) -> list[Listed]:
        listed: list[Listed] = []
        for project in self.layout.projects():
            try:
                folders = self.layout.folders(project)
            except OSError as error:
                listed.append(Listed(project, None, error))
                continue
            listed += [item for folder in folders if (item := self._contained(folder)) is not None]
        return listed

    def _contained(self, folder: Path) -> Listed | None:
        try:
            return self._listed(folder)
        except (SessionPersistenceError, OSError, ValueError) as error:
            return Listed(folder, None, error)

    def _listed(self, folder: Path) -> Listed | None:
        artifact = self.layout.artifact_in(folder)
        if artifact is None:
            return None
        path = artifact.path
        try:
            header = read_header(self._files.read(path, HEADER_BYTES), str(path))
        except SessionPersistenceError:
            header = read_header(self._files.read(path), str(path))
        if not isinstance(header.get("id"), str):
            raise SessionPersistenceCorruptionError(f"{path}: line 1: the header has no id", 1)
        if self.layout.folder_of(header) != folder:
            raise SessionPersistenceCorruptionError(f"{path}: line 1: header id and cwd do not lead here", 1)
        return Listed(path, header, None)
