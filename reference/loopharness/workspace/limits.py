"""How much a tool may read, write, show and wait, and the error that says no."""

from __future__ import annotations

from typing import NamedTuple

from loopharness.errors import HarnessError
from loopharness.frozen import dumps

__all__ = ["FileError", "Limits", "shown"]


class Limits(NamedTuple):
    """Sizes in bytes, times in seconds."""

    output: int = 64 * 1024
    """What one result may say; a longer one is cut, and says so."""
    line: int = 2_000
    """Characters of one line."""
    scan: int = 64 * 1024 * 1024
    """What one call may look through."""
    edit: int = 8 * 1024 * 1024
    """The largest file that is edited, or written in one go."""
    entries: int = 1_000
    """Entries of one listing."""
    matches: int = 200
    """Matches of one search."""
    command_seconds: float = 120
    """How long a command may take unless it asks for less or more."""
    most_command_seconds: float = 3600
    """The longest time that a command may ask for."""
    grace_seconds: float = 2
    """How long a command has between being asked to end and being killed."""


class FileError(HarnessError):
    """Something about a file or directory that the model can act on."""

    def __init__(self, message: str, code: str = "FILE") -> None:
        super().__init__(message, code)


def shown(path: str) -> str:
    """A path in a message: quoted, printable, and not endless."""
    cut = path if len(path) <= 300 else path[:300] + "…"
    try:
        return dumps(cut)
    except (ValueError, UnicodeError):
        return ascii(cut)
