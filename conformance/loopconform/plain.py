"""Text that came out of a log, made safe for terminals, XML and JSON readers."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import quote

import click


class Refused(click.ClickException):
    """What was asked for cannot be done: one sentence, and an exit code, that of wrong usage where none is given."""

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = code  # type: ignore[misc]  # click declares it for the class


_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def printable(text: str) -> str:
    """The text with control characters, lone surrogates and bidirectional controls written as escapes."""
    return _UNSAFE.sub(_escape, text)


def _escape(char: re.Match[str]) -> str:
    code = ord(char[0])
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"


def uri(file: str) -> str:
    """The URI of a file: relative below the working directory, absolute elsewhere."""
    absolute = os.path.abspath(file)
    relative = os.path.relpath(absolute)
    if relative.split(os.sep)[0] == os.pardir:
        return "file://" + quote(os.fsencode(absolute))
    return quote(os.fsencode(Path(relative).as_posix()))
