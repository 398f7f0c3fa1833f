"""The session file of a running conversation: every event is written as it comes, by the one process that may."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from loopconform.script.output import OutputError, check_free, pieces, write_session
from loopharness.store.rows import batch_text, frame, header_text

if TYPE_CHECKING:
    from loopconform.findings import FileReport

__all__ = ["Journal", "JournalError"]

Record = Mapping[str, Any]


class JournalError(Exception):
    """The file cannot be used; the text says why and what to do."""


class Journal:
    """One session file, locked for as long as it is open. Make it with `create` or `resume`.

    Nothing that happens on the disk reaches the loop: what could not be written is kept, and tried again with the next
    event and at the end; `failure` says why.
    """

    def __init__(self, path: Path, file: int, header: Record | None, events: Sequence[Record]) -> None:
        self.path: Final = path
        self.header: Final = header
        self.events: Final = events
        self.failure: OSError | None = None
        self.was_torn = False
        """The end of the file was torn by a crash; what was whole has been kept."""
        self._file = file
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
        except (OutputError, OSError) as error:
            text = str(error) if isinstance(error, OutputError) else f"{path} cannot be written: {error.strerror}"
            raise JournalError(text.replace("--force to replace it", "--resume to go on with it")) from error
        _lock(file, path)
        return cls(path, file, None, ())

    @classmethod
    def resume(cls, path: Path) -> Journal:
        """A file that is there, and sound up to its last whole row. Raises `JournalError`."""
        from loopconform.stored import load_stored  # all rules of the format: half of the time that a start takes

        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise JournalError(f"{path} cannot be opened: {error.strerror}") from error
        try:
            _lock(file, path)
            stored = load_stored(path)
            report = stored.report
            if stored.header is None or report.verdict not in ("clean", "warnings", "torn"):
                raise JournalError(f"{path} cannot be taken up{_why(report)}. See `loopspec check {path}`")
            if report.verdict == "torn" or not _ends_well(path):
                file = _mended(path, file, stored.header, stored.events)
        except BaseException:
            os.close(file)
            raise
        journal = cls(path, file, stored.header, stored.events)
        journal.was_torn = report.verdict == "torn"
        return journal

    def write(self, header: Record, events: Sequence[Record]) -> None:
        """Bring the file up to these events: all of the session, of which the first ones are in it already."""
        if not self._begun:
            self._begun = True
            first = header_text(header)
            self._unwritten += frame(first) if self._zstd else first
        if len(events) > self._written:
            text = batch_text([events[n] for n in range(self._written, len(events))], header["version"])
            self._written = len(events)
            self._unwritten += frame(text) if self._zstd else text
        self._push()

    def close(self) -> None:
        """Write what is left, make it durable and let go of the file."""
        self._push()
        try:
            os.fsync(self._file)
        except OSError as error:
            self.failure = self.failure or error
        if not self._begun:
            self.path.unlink(missing_ok=True)
        os.close(self._file)

    def _push(self) -> None:
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._file, self._unwritten) :]
            self.failure = None
        except OSError as error:
            self.failure = error


def _lock(file: int, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise JournalError(f"{path} is open in another conversation: end that one first, or copy the file") from error


def _why(report: FileReport) -> str:
    if report.message:
        return f": it {report.message}"
    first = next((item for item in report.findings if item.level in ("E", "U")), None)
    return "" if first is None else f": line {first.line}, {first.rule}: {first.reason.rstrip('.')}"


def _ends_well(path: Path) -> bool:
    if path.name.endswith((".zstd", ".zst")):
        return True
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _mended(path: Path, file: int, header: Record, events: Sequence[Record]) -> int:
    """Write the sound rows anew, beside the file and then in its place; the remains of a torn write are left out."""
    zstd = path.name.endswith((".zstd", ".zst"))
    try:
        write_session(path, pieces(header, events, len(events), zstd=zstd), force=True)
        fresh = os.open(path, os.O_WRONLY | os.O_APPEND)
    except (OutputError, OSError) as error:
        raise JournalError(f"{path} ends in the middle of a row and cannot be mended: {error}") from error
    os.close(file)
    _lock(fresh, path)
    return fresh
