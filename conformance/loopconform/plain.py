"""Text that came out of a log, made safe for terminals, XML and JSON readers."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import click


class Refused(click.ClickException):
    """What was asked for cannot be done: one sentence, and the exit code of wrong usage."""

    exit_code = 2


def printable(text: str) -> str:
    """The text with control characters, lone surrogates and bidirectional controls written as escapes."""
    return "".join(char if _is_plain(char) else _escape(char) for char in text)


def _is_plain(char: str) -> bool:
    code = ord(char)
    if code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000 or code in (0xFFFE, 0xFFFF):
        return False
    return not (0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069 or code in (0x2028, 0x2029))


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"


def uri(file: str) -> str:
    """The URI of a file: relative below the working directory, absolute elsewhere."""
    absolute = os.path.abspath(file)
    relative = os.path.relpath(absolute)
    if relative.split(os.sep)[0] == os.pardir:
        return "file://" + quote(os.fsencode(absolute))
    return quote(os.fsencode(Path(relative).as_posix()))
