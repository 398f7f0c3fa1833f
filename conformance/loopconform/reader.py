"""Session logs on disk as rows with their place: physical line, byte offset, frame number.

`read` is the one way in for every command that opens a log. It streams, holds at most one row, and turns every fault of
the container or of a row's text into a `Damage` value. Only `OSError` comes out of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from loopconform.container import ROW_LIMIT, FrameEnd, RawRow, Rows, batches, is_zstd
from loopconform.rowtext import parse, sound
from loopspec.log.damage import Damage

PLAIN_SUFFIXES = (".jsonl",)
ZSTD_SUFFIXES = (".jsonl.zstd", ".jsonl.zst")


class ReadRow(NamedTuple):
    """One physical row. `value` is None when no object came out of it; `damages` say what is wrong with its text."""

    line: int
    frame: int
    offset: int
    value: dict[str, Any] | None
    damages: tuple[Damage, ...] = ()
    starts_object: bool = True


def is_log_name(path: Path) -> bool:
    """Does the name say that this is a session log?"""
    return path.name.endswith((*PLAIN_SUFFIXES, *ZSTD_SUFFIXES))


def looks_like_log(path: Path) -> bool:
    """Does a file of another name begin like a session log? Raises `OSError`."""
    with path.open("rb") as stream:
        head = stream.read(64)
    return is_zstd(head) or head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b'{"type":"session"')


def read(path: Path, *, row_limit: int = ROW_LIMIT) -> Iterator[ReadRow | Damage]:
    """The rows and damages of a log file in file order. Raises `OSError`, also for devices and directories."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise IsADirectoryError(21, "Is a directory") if stat.S_ISDIR(mode) else OSError(0, "Not a regular file")
    with path.open("rb") as stream:
        yield from read_stream(stream, name=path.name, row_limit=row_limit)


def read_stream(stream: BinaryIO, *, name: str = "", row_limit: int = ROW_LIMIT) -> Iterator[ReadRow | Damage]:
    """The same for an open, seekable binary file. The name only serves to compare its suffix with the content."""
    head = stream.read(4)
    stream.seek(0)
    if not head:
        yield Damage("empty-file", 0, 0, 0)
        return
    zstd = is_zstd(head) or (name.endswith(ZSTD_SUFFIXES) and head[:1] not in (b"{", b"\xef"))
    if zstd != name.endswith(ZSTD_SUFFIXES) and name.endswith((*PLAIN_SUFFIXES, *ZSTD_SUFFIXES)):
        held = "zstd frames" if zstd else "plain text"
        yield Damage("suffix-mismatch", 0, 0, 0, detail=f"{name} holds {held}")
    header_seen = False
    explained = False
    in_first_frame = 0
    for item in batches(stream, zstd=zstd, row_limit=row_limit):
        if isinstance(item, Rows):
            header_seen = True
            line, frame, offset, texts = item
            in_first_frame += len(texts) if frame == 1 else 0
            for data in texts:
                value = sound(data)
                if value is not None:
                    yield ReadRow(line, frame, offset, value)
                else:
                    value, damages = parse(RawRow(line, frame, offset, data))
                    yield ReadRow(line, frame, offset, value, damages, data[:1] == b"{")
                line += 1
                offset += 0 if frame else len(data) + 1
        elif isinstance(item, FrameEnd):
            if item.frame == 1 and in_first_frame != 1:
                held = f"{in_first_frame} rows" if in_first_frame else "no complete row"
                yield Damage("first-frame", 1, 1, item.offset, detail=held)
            if not item.checksummed:
                yield Damage("no-checksum", 0, item.frame, item.offset)
        elif (item.frame == 1 and item.kind == "torn-frame") or (item.kind == "torn-row" and not header_seen):
            explained = True
            yield Damage("no-header", 1, item.frame, item.offset, detail=item.detail)
        else:
            explained = True
            yield item
    if not header_seen and not explained:
        yield Damage("no-header", 1, 0, 0, detail="the file holds no complete row")
