"""Stored sessions as header and events, with everything that is wrong with them."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from loopconform.check import Options, check_file
from loopconform.exit_codes import Exit, Unusable, code_of
from loopconform.findings import FileReport
from loopconform.reader import ReadRow, read
from loopspec.log.packed import PackedError, is_packed_row, unpack_event, unpack_row
from loopspec.values import Record

__all__ = ["Stored", "load_stored", "must_be_readable", "take_up"]

TRIES = 3
"""How often a file is read anew that was replaced or cut while it was read."""


class Stored(NamedTuple):
    """What survives of a session file: the header row (None when there is none), the events whose place is certain,
    and the report of `loopspec check` on the file. `lines` gives the physical line of each event."""

    header: dict[str, Any] | None
    events: tuple[Record, ...]
    lines: tuple[int, ...]
    report: FileReport

    @property
    def version(self) -> int:
        """The format, 0 or 4."""
        return 0 if self.report.version is None else self.report.version


def load_stored(path: Path, options: Options | None = None) -> Stored:
    """Read a session file: its report, and its events up to the first row that cannot be placed. Never raises.

    Report and events are of one file: one that is exchanged or cut meanwhile is read anew. It may grow.
    """
    options = options or Options()
    for _ in range(TRIES):
        before = _identity(path)
        report = check_file(path, options)
        if report.verdict in ("unreadable", "unsupported"):
            return Stored(None, (), (), report)
        try:
            stored = _read(path, options, report)
        except (OSError, ValueError) as error:
            message = f"cannot be read: {getattr(error, 'strerror', None) or error}"
            return Stored(None, (), (), FileReport(report.file, "unreadable", message=message))
        after = _identity(path)
        if before[:2] == after[:2] and before[2] <= after[2]:
            return stored
    message = "cannot be read: somebody replaces or cuts it again and again"
    return Stored(None, (), (), FileReport(str(path), "unreadable", message=message))


def take_up(path: Path, options: Options | None = None) -> Stored:
    """A stored session to go on with: every row sound, or torn behind its last whole row. Raises `Unusable`."""
    must_be_readable(path)
    stored = load_stored(path, options)
    report = stored.report
    if stored.header is not None and report.verdict in ("clean", "warnings", "torn"):
        return stored
    first = next((item for item in report.findings if item.level in ("E", "U")), None)
    reason = f": {report.message}" if report.message else ""
    if first is not None:
        reason = f": line {first.line}, {first.rule}: {first.reason.rstrip('.')}"
    code = {"unreadable": Exit.DISK, "unsupported": Exit.UNSUPPORTED, "torn": Exit.TORN, "undecided": Exit.UNDECIDED}
    raise Unusable(
        f"{path} cannot be taken up{reason}. Look at it with `loopspec check`", code.get(report.verdict, Exit.CORRUPT)
    )


def must_be_readable(path: Path) -> None:
    """Refuse what is no file, or may not be read. Raises `Unusable`; never waits for a pipe."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Unusable(f"{path} is no regular file: give the name of a session file", Exit.USAGE)
        path.open("rb").close()
    except (OSError, ValueError) as error:
        raise Unusable(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}", code_of(error)) from error


def _identity(path: Path) -> tuple[int, int, int]:
    """Which file it is, and how long; zeros when there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return (0, 0, 0)
    return (status.st_dev, status.st_ino, status.st_size)


def _read(path: Path, options: Options, report: FileReport) -> Stored:
    header: dict[str, Any] | None = None
    events: list[Record] = []
    lines: list[int] = []
    for item in read(path, row_limit=options.row_limit):
        if not isinstance(item, ReadRow):
            if item.kind == "row-too-large":
                break
            continue
        if item.line == 1:
            header = item.value
            if header is None or header.get("type") != "session" or header.get("version") not in (0, 4):
                return Stored(None, (), (), report)
            continue
        opened = _opened(item.value, header["version"] if header else 0, len(events))
        if opened is None:
            break
        events += opened
        lines += [item.line] * len(opened)
    return Stored(header, tuple(events), tuple(lines), report)


def _opened(row: dict[str, Any] | None, version: int, seq: int) -> tuple[Record, ...] | None:
    """The events of a row, or None when it is none or not the next one."""
    if row is None:
        return None
    try:
        if version == 0 and is_packed_row(row):
            events = unpack_row(row)
        else:
            events = (unpack_event(row) if version == 4 else row,)
    except (PackedError, KeyError, TypeError):
        return None
    first = events[0]
    sound = isinstance(first.get("type"), str) and isinstance(first.get("data"), dict)
    return events if sound and first.get("seq", seq) == seq else None
