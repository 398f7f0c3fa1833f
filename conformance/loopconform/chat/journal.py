"""The session file of a running conversation: every event is written as it comes, by the one process that may."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from loopconform.exit_codes import Exit, Unusable, code_of
from loopconform.script.output import OutputError, check_free, pieces, write_session
from loopharness.store.errors import SessionAlreadyOwnedError
from loopharness.store.files import DISK, Lock
from loopharness.store.layout import LOCK_NAME
from loopharness.store.rows import batch_text, frame, header_text
from loopspec.log.place import generation

__all__ = ["Journal", "JournalError"]

Record = Mapping[str, Any]


class JournalError(Unusable):
    """The file cannot be used; the text says why and what to do."""


class Journal:
    """One session file, locked for as long as it is open. Make it with `create` or `resume`.

    Nothing that happens on the disk reaches the loop: what could not be written is kept, and tried again with the next
    event and at the end; `failure` says why. A file that somebody takes away is written anew under its name, and beside
    it when another file has that name by then: `path` is where the conversation is.
    """

    def __init__(self, path: Path, file: int, header: Record | None, events: Sequence[Record]) -> None:
        self.path = path
        self.header: Final = header
        self.events: Final = events
        self.failure: OSError | JournalError | None = None
        self.was_torn = False
        """The end of the file was torn by a crash; what was whole has been kept."""
        self._file = file
        self._lock: Lock | None = None
        self._written = len(events)
        self._unwritten = b""
        self._begun = header is not None
        self._zstd = path.name.endswith((".zstd", ".zst"))

    @classmethod
    def create(cls, path: Path) -> Journal:
        """A file that is not there yet. One in which nothing was said is taken away again. Raises `JournalError`."""
        try:
            check_free(path, force=False)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except OutputError as error:
            text = str(error).replace("--force to replace it", "--resume to go on with it")
            raise JournalError(text, error.code) from error
        except OSError as error:
            raise JournalError(f"{path} cannot be written: {error.strerror}", code_of(error)) from error
        return cls(path, file, None, ())._owned()

    @classmethod
    def resume(cls, path: Path) -> Journal:
        """A file that is there, and sound up to its last whole row. Raises `JournalError`."""
        from loopconform.stored import take_up  # all rules of the format: half of the time that a start takes

        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise JournalError(f"{path} cannot be opened: {reason}", code_of(error)) from error
        first = cls(path, file, None, ())._owned()
        try:
            stored = take_up(path)
            assert stored.header is not None
            torn = stored.report.verdict == "torn"
            if torn or not _ends_well(path):
                file = _mended(path, file, stored.header, stored.events)
        except Unusable as error:
            first.let_go()
            raise JournalError(str(error), error.code) from error
        except BaseException:
            first.let_go()
            raise
        journal = cls(path, file, stored.header, stored.events)
        journal.was_torn = torn
        journal._lock = first._lock
        return journal

    def let_go(self) -> None:
        """Let go of file and locks, and write nothing."""
        os.close(self._file)
        if self._lock is not None:
            self._lock.release()

    def write(self, header: Record, events: Sequence[Record]) -> None:
        """Bring the file up to these events: all of the session, of which the first ones are in it already."""
        if self._begun and self._is_gone():
            self._rescue(header, events)
            return
        if not self._begun:
            self._begun = True
            first = header_text(header)
            self._unwritten += frame(first) if self._zstd else first
        if len(events) > self._written:
            text = batch_text([events[n] for n in range(self._written, len(events))], header["version"])
            self._written = len(events)
            self._unwritten += frame(text) if self._zstd else text
        self._push()

    @property
    def why(self) -> str:
        """Why the last attempt to write failed."""
        return getattr(self.failure, "strerror", None) or str(self.failure)

    def close(self) -> None:
        """Write what is left, make it durable and let go of the file."""
        self._push()
        try:
            os.fsync(self._file)
        except OSError as error:
            self.failure = self.failure or error
        if not self._begun:
            self.path.unlink(missing_ok=True)
        self.let_go()

    def _push(self) -> None:
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._file, self._unwritten) :]
            self.failure = None
        except OSError as error:
            self.failure = error

    def _owned(self) -> Journal:
        """The same file, locked against other conversations, and a session of a store against its writers (S-DSK-35).

        Raises `JournalError`; then everything is let go of.
        """
        try:
            _lock(self._file, self.path)
            if self._is_gone():
                raise JournalError(f"{self.path} was replaced while it was opened: try again", Exit.LOCKED)
            if generation(self.path.name) is not None:
                self._lock = DISK.lock(self.path.absolute().parent / LOCK_NAME, self.path.absolute().parent.name)
        except (SessionAlreadyOwnedError, OSError) as error:
            self.let_go()
            raise JournalError(str(error), code_of(error)) from error
        except BaseException:
            self.let_go()
            raise
        return self

    def _is_gone(self) -> bool:
        """Whether the open file is not the one of that name any more."""
        try:
            return not os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _rescue(self, header: Record, events: Sequence[Record]) -> None:
        """Write everything anew: under the name of the file that is gone, or beside the one that took it."""
        path = self.path
        if os.path.lexists(path):
            stem, dot, ending = path.name.partition(".jsonl")
            path = path.with_name(f"{stem}.rescued-{secrets.token_hex(4)}{dot}{ending}")
        try:
            self._file = _mended(path, self._file, header, events)
        except JournalError as error:
            self.failure = error
            return
        self.path, self._written, self._unwritten, self.failure = path, len(events), b"", None


def _lock(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        text = f"{path} is open in another conversation: end that one first, or copy the file"
        raise JournalError(text, Exit.LOCKED) from error
    except OSError as error:
        raise JournalError(f"{path} cannot be locked: {error.strerror}", code_of(error)) from error


def _ends_well(path: Path) -> bool:
    if path.name.endswith((".zstd", ".zst")):
        return True
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _mended(path: Path, file: int, header: Record, events: Sequence[Record]) -> int:
    """Write the sound rows anew, beside the file and then in its place, and open it instead of the file that was open.

    The remains of a torn write are left out.
    """
    zstd = path.name.endswith((".zstd", ".zst"))
    try:
        write_session(path, pieces(header, events, len(events), zstd=zstd), force=True)
        fresh = os.open(path, os.O_WRONLY | os.O_APPEND)
    except OutputError as error:
        raise JournalError(f"the sound rows cannot be written anew: {error}", error.code) from error
    except OSError as error:
        raise JournalError(f"{path} cannot be opened again: {error.strerror}", code_of(error)) from error
    try:
        _lock(fresh, path)
    except JournalError:
        os.close(fresh)
        raise
    os.close(file)
    return fresh
