"""The few things that the store asks of a file system, and a disk that does them.

Every method blocks, so the store calls them in worker threads. Tests put another file system in place of `Disk`:
one that stops at the n-th operation, or forgets what was not synced.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from loopharness.store.errors import SessionAlreadyOwnedError

__all__ = ["DISK", "Disk", "Files", "Lock", "OpenFile"]

FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
TRIES: Final = 5
"""How often a read is repeated while somebody writes the file (S-DSK-35)."""


class OpenFile(Protocol):
    """A log file that is open for writing."""

    def size(self) -> int:
        """Its length in bytes."""

    def has_name(self, path: Path) -> bool:
        """Whether this very file, and no other one, still has that name."""

    def read(self, size: int) -> bytes:
        """Its first bytes, also when its name is gone. Raises `OSError` when there are fewer."""

    def write(self, at: int, data: bytes) -> None:
        """Write all of the bytes at that position. Raises `OSError`; some of them may have been written then."""

    def sync(self) -> None:
        """Wait until the content is on the medium."""

    def cut(self, size: int) -> None:
        """Shorten the file."""

    def close(self) -> None:
        """Let go of it; harmless the second time."""


class Lock(Protocol):
    """An exclusive lock that is held."""

    def release(self) -> None:
        """Let go of it; harmless the second time."""


class Files(Protocol):
    """A file system. Paths are absolute; every failure is an `OSError`."""

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, sorted; none when it does not exist, or when its links lead nowhere."""

    def read(self, path: Path, limit: int = -1) -> bytes:
        """The content as it was at one moment, or its first `limit` bytes. Never waits for a pipe or a device."""

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, durably; 0700 (S-DSK-7)."""

    def create(self, path: Path, data: bytes) -> None:
        """Make a new file with this content, 0600, and sync it. Raises `FileExistsError`."""

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, never taking one that exists: `FileExistsError`."""

    def remove(self, path: Path) -> None:
        """Take a name away; harmless when it is gone."""

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on the medium."""

    def open(self, path: Path) -> OpenFile:
        """Open an existing file for writing."""

    def lock(self, path: Path, session_id: str) -> Lock:
        """Take the lock of a session. Raises `SessionAlreadyOwnedError`, which says who holds it."""


class Disk:
    """The real file system."""

    def names(self, folder: Path) -> list[str]:
        try:
            return sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            if error.errno == errno.ELOOP:
                return []
            raise

    def read(self, path: Path, limit: int = -1) -> bytes:
        for _ in range(TRIES):
            with open(path, "rb", opener=_without_waiting) as stream:
                status = os.fstat(stream.fileno())
                if not stat.S_ISREG(status.st_mode):
                    raise OSError(errno.EINVAL, "Not a regular file", str(path))
                before = _identity(status)
                data = stream.read(limit)
            if limit >= 0 or _identity(os.stat(path)) == before:
                return data
        return data

    def make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self.make_folder(folder.parent)
        try:
            folder.mkdir(mode=FOLDER_MODE)
        except FileExistsError:
            return
        self.sync_folder(folder.parent)

    def create(self, path: Path, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, FILE_MODE)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(descriptor)

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def sync_folder(self, folder: Path) -> None:
        if sys.platform == "win32":  # folders cannot be synced there
            return
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def open(self, path: Path) -> OpenFile:
        return _DiskFile(_without_waiting(path, os.O_RDWR | _BINARY))

    def lock(self, path: Path, session_id: str) -> Lock:
        descriptor = _without_waiting(path, os.O_RDWR | os.O_CREAT | _BINARY)
        try:
            _take(descriptor)
        except (BlockingIOError, PermissionError):
            holder = _holder(descriptor)
            os.close(descriptor)
            raise SessionAlreadyOwnedError(owned_text(session_id, holder)) from None
        except BaseException:
            os.close(descriptor)  # a file system without locks: it says so itself
            raise
        with suppress(OSError):  # a full disk: the lock is held all the same, and only nobody knows by whom
            _write_holder(descriptor)
        return _DiskLock(descriptor)


DISK: Final = Disk()

_BINARY: Final = getattr(os, "O_BINARY", 0)


def owned_text(session_id: str, holder: str) -> str:
    """The text of `SessionAlreadyOwnedError`: who holds the session, and what to do (K44)."""
    return (
        f'session "{session_id}" is already owned by an active write handle: {holder}. '
        "Close it there first; until then it can only be read: by `loopspec show`, or SessionPersistence.inspect"
    )


class _DiskFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def has_name(self, path: Path) -> bool:
        try:
            return os.path.samestat(os.stat(path), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def read(self, size: int) -> bytes:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        parts: list[bytes] = []
        while size:
            part = os.read(self._descriptor, size)
            if not part:
                raise OSError(errno.EIO, "The file is shorter than it was")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def write(self, at: int, data: bytes) -> None:
        os.lseek(self._descriptor, at, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        os.fsync(self._descriptor)

    def cut(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _DiskLock:
    """The lock goes with the descriptor, so it cannot outlive the process. The file stays: removing it would race."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _without_waiting(path: str | Path, flags: int) -> int:
    """Open a file; a pipe that somebody has put in its place is not waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0), FILE_MODE)


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _write_holder(descriptor: int) -> None:
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode() + b"\n"
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, text)


def _holder(descriptor: int) -> str:
    """Who wrote the lock file, in words."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        known = json.loads(os.read(descriptor, 4096))
        pid, host = int(known["pid"]), str(known["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
    if host != socket.gethostname():
        return f"process {pid} on {host}"
    return "this process itself" if pid == os.getpid() else f"process {pid}"


if sys.platform == "win32":
    import msvcrt

    def _take(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)  # behind the text, which stays readable
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
