"""Reading, listing and searching files. These functions block: run them in a thread.

`stopped` is asked now and then; once it says yes, a function answers with what it has.
"""

from __future__ import annotations

import codecs
import fnmatch
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import re2  # type: ignore[import-untyped]

from loopharness.workspace.limits import FileError, Limits, shown
from loopharness.workspace.roots import Place, Roots
from loopharness.workspace.text import clip, encoding_of, is_binary

__all__ = ["list_folder", "read", "search"]

Stopped = Callable[[], bool]

_CHUNK: Final = 64 * 1024
_DEPTH: Final = 64
_SKIPPED: Final = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"})
"""Directories that a search does not look into unless it is told to start there."""


# -- read ------------------------------------------------------------------------------------------------------


def read(roots: Roots, path: str, offset: int, limit: int | None, limits: Limits, stopped: Stopped) -> str:
    """Lines of a text file from line `offset`, counted from 1; what was left out stands in a last line in brackets."""
    with roots.find(path) as place:
        fd = place.open_file()
        with os.fdopen(fd, "rb") as file:
            size = os.fstat(fd).st_size
            head = file.peek(8192)[:8192]
            if is_binary(head):
                text = f"{shown(path)} is a binary file of {size:,} bytes; use a command to look into it"
                raise FileError(text, "BINARY")
            lines = _Lines(encoding_of(head), limits)
            taken = _window(lines.of(file, stopped), offset, limit, limits)
    if size == 0 and not taken.text:
        return "[the file is empty]"
    if taken.lines == 0 and not lines.cut:
        return f"[the file has {lines.number} lines; none from line {offset} on]"
    notes = []
    if taken.more or lines.cut:
        last = offset + taken.lines - 1
        notes.append(f"lines {offset} to {last} of a file of {size:,} bytes; read on with offset {last + 1}")
    if lines.cut:
        notes.append(f"only the first {limits.scan:,} bytes were looked at")
    if lines.broken:
        notes.append(f"bytes that are not {lines.encoding} are shown as �")
    return taken.text + "".join(f"\n[{note}]" for note in notes)


class _Lines:
    """The lines of a file, each of bounded length, as they come."""

    def __init__(self, encoding: str, limits: Limits) -> None:
        self.encoding = encoding
        self.number = 0
        self.cut = False
        self.broken = False
        self._limit = limits.line
        self._scan = limits.scan

    def of(self, file: Any, stopped: Stopped) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder("utf-8-sig" if self.encoding == "utf-8" else self.encoding)("replace")
        line, dropped, seen = "", 0, 0
        while not stopped():
            chunk = file.read(_CHUNK)
            seen += len(chunk)
            text = decoder.decode(chunk, final=not chunk)
            self.broken = self.broken or "�" in text
            *whole, rest = text.split("\n")
            for part in whole:
                yield self._ended(line, part, dropped)
                line, dropped = "", 0
            room = max(0, self._limit + 1 - len(line))
            line, dropped = line + rest[:room], dropped + len(rest[room:])
            if not chunk:
                if line:
                    yield self._ended(line, "", dropped)
                return
            if seen >= self._scan:
                self.cut = True
                return

    def _ended(self, start: str, rest: str, dropped: int) -> str:
        self.number += 1
        line = start + rest
        if dropped or len(line) > self._limit:
            return f"{line[: self._limit]}… [{dropped + len(line) - self._limit} more characters]"
        return line


class _Taken(NamedTuple):
    text: str
    lines: int
    more: bool


def _window(lines: Iterator[str], offset: int, limit: int | None, limits: Limits) -> _Taken:
    taken: list[str] = []
    size = 0
    for number, line in enumerate(lines, 1):
        if number < offset:
            continue
        size += len(line.encode("utf-8", "replace")) + 1
        if (limit is not None and len(taken) >= limit) or (size > limits.output and taken):
            return _Taken("\n".join(taken), len(taken), True)
        taken.append(line)
    return _Taken("\n".join(taken), len(taken), False)


# -- list ------------------------------------------------------------------------------------------------------


def list_folder(roots: Roots, path: str, depth: int, limits: Limits, stopped: Stopped) -> str:
    """The entries of a directory, sorted: directories with a slash, files with their size, links with their target."""
    with roots.find(path) as place:
        fd = place.open_folder()
        rows: list[str] = []
        try:
            complete = _list(fd, "", depth, rows, limits, stopped)
        finally:
            os.close(fd)
    if not rows:
        return "[the directory is empty]"
    note = "" if complete else f"\n[only the first {len(rows):,} entries; list a directory below for the others]"
    return "\n".join(rows) + note


def _list(fd: int, prefix: str, depth: int, rows: list[str], limits: Limits, stopped: Stopped) -> bool:
    for name in sorted(os.listdir(fd)):
        if len(rows) >= limits.entries or stopped():
            return False
        with suppress(FileNotFoundError):  # it has gone since
            there = os.stat(name, dir_fd=fd, follow_symlinks=False)
            rows.append(_row(fd, name, prefix, there))
            if stat.S_ISDIR(there.st_mode) and depth > 1:
                inner = _enter(fd, name)
                if inner is not None:
                    try:
                        if not _list(inner, f"{prefix}{name}/", depth - 1, rows, limits, stopped):
                            return False
                    finally:
                        os.close(inner)
    return True


def _row(fd: int, name: str, prefix: str, there: os.stat_result) -> str:
    label = prefix + _printable(name)
    if stat.S_ISDIR(there.st_mode):
        return f"{label}/"
    if stat.S_ISLNK(there.st_mode):
        return f"{label} -> {_printable(os.readlink(name, dir_fd=fd))}"
    if stat.S_ISREG(there.st_mode):
        return f"{label}  {there.st_size:,} bytes"
    return f"{label}  [special file]"


def _printable(name: str) -> str:
    """A name of a file on one line: names may hold anything but a slash and NUL."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def _enter(fd: int, name: str) -> int | None:
    """A directory inside an open one, if it is one and may be read; a link is not followed."""
    try:
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return None


# -- search ----------------------------------------------------------------------------------------------------


class _Search:
    """One search on its way through a tree."""

    def __init__(self, pattern: Any, files: str, limits: Limits, stopped: Stopped) -> None:
        self.pattern = pattern
        self.files = files
        self.limits = limits
        self.stopped = stopped
        self.rows: list[str] = []
        self.size = 0
        self.seen = 0
        self.looked_at = 0
        self.why = ""

    @property
    def over(self) -> bool:
        """Whether to go no further; `why` says why."""
        if not self.why:
            if len(self.rows) >= self.limits.matches or self.size > self.limits.output:
                self.why = f"only the first {len(self.rows):,} matches; narrow the pattern or the path"
            elif self.seen > self.limits.scan:
                self.why = f"stopped after {self.limits.scan:,} bytes of files; narrow the path"
            elif self.stopped():
                self.why = "stopped"
        return bool(self.why)

    def folder(self, fd: int, prefix: str, depth: int) -> None:
        """Everything below an open directory, in order of names; links are not followed."""
        for name in sorted(os.listdir(fd)):
            if self.over:
                return
            try:
                there = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(there.st_mode):
                inner = None if name in _SKIPPED or depth >= _DEPTH else _enter(fd, name)
                if inner is not None:
                    try:
                        self.folder(inner, f"{prefix}{name}/", depth + 1)
                    finally:
                        os.close(inner)
            elif stat.S_ISREG(there.st_mode) and self._wanted(prefix + name, name):
                self._file(Place(fd, name, prefix + name, there, _NOWHERE, ()), prefix + name)

    def _wanted(self, path: str, name: str) -> bool:
        return fnmatch.fnmatchcase(path if "/" in self.files else name, self.files)

    def _file(self, place: Place, label: str) -> None:
        with suppress(OSError, FileError), os.fdopen(place.open_file(), "rb") as file:
            self.file(file, label)

    def file(self, file: Any, label: str) -> None:
        """The lines of one open file."""
        head = file.peek(8192)[:8192]
        self.looked_at += 1
        if is_binary(head):
            return
        lines = _Lines(encoding_of(head), self.limits._replace(line=max(self.limits.line, 10_000)))
        for line in lines.of(_Counted(file, self), self.stopped):
            if self.pattern.search(line.encode("utf-8", "replace")) is not None:
                row = f"{_printable(label)}:{lines.number}: {clip(line.rstrip(chr(13)), 300)}"
                self.rows.append(row)
                self.size += len(row) + 1
                if self.over:
                    return


_NOWHERE: Any = None


class _Counted:
    """A file whose bytes count for the whole search."""

    def __init__(self, file: Any, search: _Search) -> None:
        self._file = file
        self._search = search

    def read(self, size: int) -> bytes:
        chunk: bytes = self._file.read(size)
        self._search.seen += len(chunk)
        return chunk


def search(
    roots: Roots, pattern: str, path: str, files: str, ignore_case: bool, limits: Limits, stopped: Stopped
) -> str:
    """The lines that match, as `path:line: text`; binary files, links and version control are passed over."""
    hunt = _Search(_compiled(pattern, ignore_case), files, limits, stopped)
    with roots.find(path) as place:
        if place.is_folder:
            prefix = "" if path in (".", "./") else path.rstrip("/") + "/"
            fd = place.open_folder()
            try:
                hunt.folder(fd, prefix, 1)
            finally:
                os.close(fd)
        else:
            with os.fdopen(place.open_file(), "rb") as file:
                hunt.file(file, path)
    if not hunt.rows:
        among = f"{hunt.looked_at} file{'' if hunt.looked_at == 1 else 's'}"
        return f"[no match in {among}{'; ' + hunt.why if hunt.why else ''}]"
    return "\n".join(hunt.rows) + (f"\n[{hunt.why}]" if hunt.why else "")


def _compiled(pattern: str, ignore_case: bool) -> Any:
    """The pattern of a model, matched in linear time. Raises `FileError` for one that cannot be used."""
    options: Any = re2.Options()
    options.case_sensitive = not ignore_case
    options.log_errors = False
    options.max_mem = 8 << 20
    options.encoding = re2.Options.Encoding.UTF8
    try:
        return re2.compile(pattern.encode("utf-8", "replace"), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
        raise FileError(
            f"pattern {shown(pattern)} cannot be used: {reason}. Look-around and back-references do not exist here.",
            "PATTERN",
        ) from None
