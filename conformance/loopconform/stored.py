"""Stored sessions as header and events, with everything that is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from loopconform.check import Options, check_file
from loopconform.findings import FileReport
from loopconform.reader import ReadRow, read
from loopspec.log.packed import PackedError, is_packed_row, unpack_event, unpack_row
from loopspec.values import Record

__all__ = ["Stored", "load_stored"]


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
    """Read a session file: its report, and its events up to the first row that cannot be placed. Never raises."""
    options = options or Options()
    report = check_file(path, options)
    header: dict[str, Any] | None = None
    events: list[Record] = []
    lines: list[int] = []
    if report.verdict in ("unreadable", "unsupported"):
        return Stored(None, (), (), report)
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
