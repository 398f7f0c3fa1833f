"""Session files written in one go: all of it or nothing, and never over a file that nobody offered."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from loopconform.exit_codes import Exit, Unusable, code_of
from loopharness.store.files import DISK
from loopharness.store.rows import batch_text, frame, header_text

__all__ = ["OutputError", "check_free", "pieces", "write_session"]

Record = Mapping[str, Any]


class OutputError(Unusable):
    """The session cannot be written there; the text says why and what to do."""


def check_free(path: Path, force: bool) -> None:
    """Refuse a place that cannot be written before anything is played. Raises `OutputError`."""
    try:
        folder_there, taken, is_folder = path.parent.is_dir(), os.path.lexists(path), path.is_dir()
        special = taken and not is_folder and not path.is_file()
    except (OSError, ValueError) as error:
        raise _failed(path, error) from error
    if not folder_there:
        raise OutputError(f"{path} cannot be written: there is no directory {path.parent}", Exit.MISSING)
    if is_folder:
        raise OutputError(f"{path} is a directory: give the name of a file in it", Exit.USAGE)
    if special:
        raise OutputError(f"{path} is no regular file: give another name, or - for standard output", Exit.USAGE)
    if taken and not force:
        raise _taken(path)
    if not os.access(path.parent, os.W_OK):
        text = f"{path} cannot be written: no permission to write into {path.parent}"
        raise OutputError(text, Exit.PERMISSION)


def pieces(
    header: Record, events: Sequence[Record], earlier: int, *, zstd: bool, pack_chunks: bool = True
) -> Iterator[bytes]:
    """The bytes of a session file: the header row, the `earlier` events as they were, then one batch for each turn."""
    version = header["version"]
    first = header_text(header)
    yield frame(first) if zstd else first
    for batch in _batches(events, earlier):
        text = batch_text(batch, version, pack_chunks=pack_chunks)
        yield frame(text) if zstd else text


def _batches(events: Sequence[Record], earlier: int) -> Iterator[Sequence[Record]]:
    start = 0
    for seq, event in enumerate(events):
        if seq + 1 == earlier or (seq >= earlier and event["type"] == "turn/end"):
            yield events[start : seq + 1]
            start = seq + 1
    if start < len(events):
        yield events[start:]


def write_session(path: Path, content: Iterator[bytes], force: bool) -> None:
    """Write a file beside its final name, then give it that name. Raises `OutputError`; then nothing is left behind."""
    try:
        temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.tmp")
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                _fill(stream, content)
            if force:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)
            with suppress(OSError):  # the file is there; some file systems cannot sync a directory
                DISK.sync_folder(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except FileExistsError as error:
        raise _taken(path) from error
    except (OSError, ValueError) as error:
        raise _failed(path, error) from error


def _taken(path: Path) -> OutputError:
    return OutputError(f"{path} exists: give another name, or --force to replace it", Exit.EXISTS)


def _failed(path: Path, error: Exception) -> OutputError:
    return OutputError(f"{path} cannot be written: {getattr(error, 'strerror', None) or error}", code_of(error))


def _fill(stream: BinaryIO, content: Iterator[bytes]) -> None:
    for piece in content:
        stream.write(piece)
    stream.flush()
    os.fsync(stream.fileno())
