"""Writing and editing files: into a new file beside the old one, which then takes its name. These functions block.

So a reader never sees half a file, a link that leads elsewhere is never written through, and another name of the same
file (a hard link, perhaps outside of the root) keeps its contents (K50).
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress

from loopharness.workspace.limits import FileError, Limits, shown
from loopharness.workspace.roots import Place, Roots
from loopharness.workspace.text import decoded

__all__ = ["edit", "write"]


def write(roots: Roots, path: str, content: str, limits: Limits) -> str:
    """Make or replace a file; missing directories are made. Answers what was done."""
    data = _encoded(content)
    if len(data) > limits.edit:
        raise FileError(f"the content has {len(data):,} bytes; {limits.edit:,} is the most in one go", "TOO_LARGE")
    with roots.find(path, make_folders=True) as place:
        _replace(place, data, place.stat)
        done = "made" if place.stat is None else "replaced"
    return f"{done} {shown(path)}, {len(data):,} bytes"


def edit(roots: Roots, path: str, old: str, new: str, all_places: bool, limits: Limits) -> str:
    """Put `new` in the place of `old`, which must occur exactly once unless all places are meant."""
    if not old:
        raise FileError("old is empty: give the text to replace, or write the whole file", "EMPTY")
    if old == new:
        raise FileError("old and new are the same text: nothing would change", "SAME")
    with roots.find(path) as place:
        with os.fdopen(place.open_file(), "rb") as file:
            before = os.fstat(file.fileno())
            raw = file.read(limits.edit + 1)
        if len(raw) > limits.edit:
            raise FileError(f"{shown(path)} has more than {limits.edit:,} bytes; use a command", "TOO_LARGE")
        text = decoded(raw, path)
        count = text.count(old)
        if count == 0:
            raise FileError(f"old does not occur in {shown(path)}{_hint(text, old)}", "NO_MATCH")
        if count > 1 and not all_places:
            advice = "give more of its surroundings, or set all"
            raise FileError(f"old occurs {count} times in {shown(path)}: {advice}", "SEVERAL_MATCHES")
        data = _encoded(text.replace(old, new))
        if len(data) > limits.edit:
            raise FileError(f"the file would have more than {limits.edit:,} bytes", "TOO_LARGE")
        _replace(place, data, before)
        line = text.count("\n", 0, text.index(old)) + 1
    return f"edited {shown(path)}: {count} place{'' if count == 1 else 's'}, the first in line {line}"


def _hint(text: str, old: str) -> str:
    if "\r\n" in text and old.replace("\n", "\r\n") in text:
        return "; its lines end in CR LF, so old has to, too"
    if old.strip() and old.strip() in text:
        return "; without the blanks around it, it does"
    return "; read the file again, and copy the text exactly"


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise FileError(f"the text holds half a character at {error.start}: no file can", "ENCODING") from None


def _replace(place: Place, data: bytes, expected: os.stat_result | None) -> None:
    """Give new contents to a name, unless something else has happened to it since it was looked at."""
    if place.is_folder:
        raise FileError(f"{shown(place.path)} is a directory", "IS_DIRECTORY")
    if place.stat is not None and not stat.S_ISREG(place.stat.st_mode):
        raise FileError(f"{shown(place.path)} is no regular file", "NOT_REGULAR")
    temporary = f".{secrets.token_hex(8)}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o666, dir_fd=place.folder), "wb") as file:
            file.write(data)
            if expected is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(expected.st_mode) & 0o777)
        if not _same(expected, _now(place)):
            raise FileError(f"{shown(place.path)} has changed meanwhile; read it again", "CHANGED")
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=place.folder)
        raise


def _now(place: Place) -> os.stat_result | None:
    try:
        return os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _same(left: os.stat_result | None, right: os.stat_result | None) -> bool:
    if left is None or right is None:
        return left is right
    fields = ("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns")
    return all(getattr(left, field) == getattr(right, field) for field in fields)
