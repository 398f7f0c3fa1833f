"""Bytes of files as text for a model: encodings, binary files, long lines, long outputs."""

from __future__ import annotations

import codecs
from typing import Final

from loopharness.workspace.limits import FileError, shown

__all__ = ["clip", "decoded", "encoding_of", "is_binary"]

_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def encoding_of(head: bytes) -> str:
    """The encoding that the first bytes of a file declare: `utf-8` unless a byte order mark says otherwise."""
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def is_binary(head: bytes) -> bool:
    """Whether the first bytes of a file are no text: a NUL, and no mark of an encoding that has such."""
    return encoding_of(head) == "utf-8" and b"\0" in head


def decoded(raw: bytes, path: str) -> str:
    """The text of a whole file, exactly. Raises `FileError` for what an edit could not write back unchanged."""
    if is_binary(raw[:8192]):
        raise FileError(f"{shown(path)} is a binary file", "BINARY")
    if encoding_of(raw) != "utf-8":
        raise FileError(f"{shown(path)} is not UTF-8 text; only UTF-8 can be edited", "ENCODING")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        text = f"{shown(path)} is not UTF-8 text: byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise FileError(text, "ENCODING") from error


def clip(line: str, limit: int) -> str:
    """A line that is not too long; what is left out is counted."""
    return line if len(line) <= limit else f"{line[:limit]}… [{len(line) - limit} more characters]"
