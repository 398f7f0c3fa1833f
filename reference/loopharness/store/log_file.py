"""One session file that is open for writing: create it, append batches, cut a torn tail away.

Everything here blocks and runs in one worker thread at a time. A batch is durable or not there: when a write or a
sync fails the file is cut back to what it was (S-DSK-31).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loopharness.store.errors import SessionAlreadyExistsError, SessionPersistenceCorruptionError
from loopharness.store.files import Files, Lock, OpenFile
from loopharness.store.layout import LOCK_NAME, Artifact, Layout
from loopharness.store.rows import batch_text, frame, header_text
from loopspec.log.types import VERSIONS, Dialect

__all__ = ["LogFile"]

_log = logging.getLogger("loopharness")


class LogFile:
    """The file of one session, and its lock. `header` says what is written first, and where.

    Made by `LogFile(...)` for a session that is not stored, or by `take` for one that is.
    """

    def __init__(self, layout: Layout, files: Files, header: Mapping[str, Any], pack_chunks: bool = True) -> None:
        self.header: Final = header
        self.path: Final = layout.path_of(header)
        self._layout: Final = layout
        self._files: Final = files
        self._pack_chunks: Final = pack_chunks
        self._version: Final[int] = header["version"]
        self._lock: Lock | None = None
        self._file: OpenFile | None = None
        self._size = 0
        self._dirty = False
        """Bytes of a failed batch may stand behind `_size`, and could not be cut away yet."""

    @property
    def dialect(self) -> Dialect:
        """The dialect that is written."""
        return VERSIONS[self._version]

    @property
    def exists(self) -> bool:
        """Whether anything of this session has been stored."""
        return self._file is not None

    def take(self, size: int, lock: Lock) -> None:
        """Go on with a file that exists, `size` bytes of which are sound; the caller has locked it."""
        self._lock = lock
        self._file = self._files.open(self.path)
        self._size = size
        self._dirty = self._file.size() != size

    def write(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Make one batch durable; the first one creates the file (S-DSK-30, S-DSK-31).

        An empty batch creates a file with a header and nothing else, where there is none (S-DSK-37). Raises
        `OSError` and the errors of the store; the file is then as it was before.
        """
        if self._file is None:
            self._create(events)
        elif events:
            self._append(self._file, self._encoded(batch_text(events, self._version, pack_chunks=self._pack_chunks)))

    def settle(self) -> None:
        """Cut away what a torn or failed write has left behind the sound part."""
        if self._file is not None and self._dirty:
            self._file.cut(self._size)
            self._file.sync()
            self._dirty = False

    def content(self, events: Sequence[Mapping[str, Any]]) -> bytes:
        """A whole file with one batch behind the header."""
        content = self._encoded(header_text(self.header))
        if events:
            content += self._encoded(batch_text(events, self._version, pack_chunks=self._pack_chunks))
        return content

    def close(self) -> None:
        """Let go of file and lock; harmless the second time."""
        if self._file is not None:
            self._file.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def publish(self, events: Sequence[Mapping[str, Any]], temporary: Path, verify: bool = False) -> int:
        """Put a whole new file in place, all at once, and answer its size. Raises `FileExistsError`."""
        content = self.content(events)
        self._place(content, temporary, verify)
        return len(content)

    def _create(self, events: Sequence[Mapping[str, Any]]) -> None:
        self._files.make_folder(self.path.parent)
        if self._lock is None:
            self._lock = self._files.lock(self.path.parent / LOCK_NAME, self.header["id"])
        try:
            known = self._layout.find(self.header["id"])
            if known is not None:
                raise SessionAlreadyExistsError(collision_text(self.header["id"], known))
            size = self.publish(events, self._temporary())
            self._file = self._files.open(self.path)
            self._size = size
        except BaseException:
            if self._file is None:
                self._lock.release()
                self._lock = None
            raise

    def _append(self, file: OpenFile, data: bytes) -> None:
        if not file.has_name(self.path):
            file = self._put_back(file)
        self.settle()
        if file.size() != self._size:
            raise SessionPersistenceCorruptionError(
                f"{self.path} is {file.size()} bytes long, but this process has left {self._size}: another program "
                "writes to this file. Nothing more is appended to it"
            )
        try:
            file.write(self._size, data)
            file.sync()
        except OSError:
            self._dirty = True
            self.settle()
            raise
        self._size += len(data)

    def _place(self, content: bytes, temporary: Path, verify: bool = False) -> None:
        try:
            self._files.create(temporary, content)
            if verify and self._files.read(temporary) != content:
                raise SessionPersistenceCorruptionError(f"{temporary} does not hold what was written to it")
            self._files.link(temporary, self.path)
            self._files.sync_folder(self.path.parent)
        finally:
            self._files.remove(temporary)

    def _put_back(self, file: OpenFile) -> OpenFile:
        """Somebody took the file away: what it held gets its name again, and nothing is lost.

        Raises `SessionPersistenceCorruptionError` when another file has the name by now.
        """
        folder = self.path.parent
        if self.path.name in self._files.names(folder):
            raise SessionPersistenceCorruptionError(
                f"{self.path} was replaced by another file while this process wrote to it. Nothing more is appended: "
                "move that file away, and what is queued is written with what was there"
            )
        content = file.read(self._size)
        self._files.make_folder(folder)
        if LOCK_NAME not in self._files.names(folder):
            lock = self._files.lock(folder / LOCK_NAME, self.header["id"])
            if self._lock is not None:
                self._lock.release()
            self._lock = lock
        self._place(content, self._temporary())
        file.close()
        self._file = self._files.open(self.path)
        self._dirty = False
        _log.warning("session %s: %s was removed, and is put back with all it held", self.header["id"], self.path)
        return self._file

    def _temporary(self) -> Path:
        return self.path.with_name(f"{self.path.name}.{secrets.token_hex(6)}.tmp")

    def _encoded(self, text: bytes) -> bytes:
        return frame(text) if self._layout.compression == "zstd" else text


def collision_text(session_id: str, known: Artifact) -> str:
    """A stored log stands where a fresh session wants to be (C-RES-9)."""
    return (
        f'session "{session_id}" already has a persisted log on disk that does not match this live session '
        f"(id collision): {known.path}"
    )
