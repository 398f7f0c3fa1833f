"""Whole session files put in their place: written beside it, judged, and only then given the name."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from loopconform.check import Options, check_file
from loopconform.exit_codes import Exit, Unusable, code_of
from loopharness.store.files import DISK

__all__ = ["publish"]


def publish(target: Path, content: Iterable[bytes], options: Options, *, instead: bool = False) -> None:
    """Write a session file, its directory too, judge it as `loopspec check` does, and give it its name in one step.

    `instead`: it takes the place of the file that has the name; otherwise a file that is there is kept. Raises
    `Unusable`: then nothing is left behind, and nothing has been changed.
    """
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            DISK.make_folder(target.absolute().parent)
            DISK.create(temporary, b"".join(content))
            _must_be_sound(temporary, target, options)
            if instead:
                os.replace(temporary, target)
                DISK.sync_folder(target.parent)
            else:
                _link(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError as error:
        raise Unusable(f"{target} exists, and is kept", Exit.EXISTS) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Unusable(f"{target} cannot be written: {reason}", code_of(error)) from error


def _link(temporary: Path, target: Path) -> None:
    """Give a new file its name, durably, or not at all."""
    DISK.link(temporary, target)
    try:
        DISK.sync_folder(target.parent)
    except OSError:
        target.unlink()
        raise


def _must_be_sound(written: Path, target: Path, options: Options) -> None:
    report = check_file(written, options)
    if report.verdict in ("clean", "warnings"):
        return
    first = next((item for item in report.findings if item.level in ("E", "U")), None)
    reason = report.message if first is None else f"line {first.line}, {first.rule}: {first.reason}"
    raise Unusable(f"{target} is not written, because it would be no sound log: {reason}", Exit.FOUND)
