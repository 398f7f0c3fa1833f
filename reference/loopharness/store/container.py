"""Bytes on disk to physical rows: plain files and concatenated zstd frames, in bounded memory.

The walker follows the frame format by hand (magic, descriptor, block headers, checksum) and lets the zstd library
decode one block at a time. So it always knows where a frame begins, which part of it is damaged, and how much of a
torn frame is still readable; and it never holds more than one block (at most 128 KiB of text) plus one unfinished row.

Rows end in LF and in nothing else (`S-DSK-10`). Frame and row faults are reported as `Damage` values among the rows;
what they mean is decided by the rules of `loopspec.log.rules.container`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import zstandard

from loopspec.log.damage import Damage, DamageKind

MAGIC = b"\x28\xb5\x2f\xfd"
ROW_LIMIT = 32 * 1024 * 1024
"""Longest row that is read, in bytes. A longer one is reported as undecided, never as corrupt (field gap G13)."""
TEXT_LIMIT_AFTER_OVERSIZE = 1024 * 1024 * 1024
"""How much of one oversized row is skipped before the reader gives up on the rest of the file."""
WINDOW_LIMIT = 128 * 1024 * 1024
"""Largest zstd window that is decoded, in bytes (the default limit of the zstd command)."""
_CHUNK = 1024 * 1024
_BLOCK_LIMIT = 128 * 1024


class RawRow(NamedTuple):
    """One physical row without its LF. `offset`: byte offset of the row (plain) or of its frame (zstd)."""

    line: int
    frame: int
    offset: int
    data: bytes


class Rows(NamedTuple):
    """Rows that stand together, without their LF: the line of the first one, and the place as in `RawRow`."""

    line: int
    frame: int
    offset: int
    texts: list[bytes]

    def row(self, index: int) -> RawRow:
        """One of them by itself."""
        skipped = 0 if self.frame else sum(len(text) + 1 for text in self.texts[:index])
        return RawRow(self.line + index, self.frame, self.offset + skipped, self.texts[index])

    def from_on(self, index: int) -> Iterator[RawRow]:
        """Each by itself, from that one on."""
        line, frame, position, texts = self
        for number, text in enumerate(texts):
            if number >= index:
                yield RawRow(line + number, frame, position, text)
            if not frame:
                position += len(text) + 1


class FrameEnd(NamedTuple):
    """A complete zstd frame ended: its number from 1, byte offset, and whether it carries a checksum."""

    frame: int
    offset: int
    checksummed: bool


class _Text(NamedTuple):
    frame: int
    offset: int
    data: bytes


Piece = _Text | FrameEnd | Damage
Batch = Rows | FrameEnd | Damage
Item = RawRow | FrameEnd | Damage


def is_zstd(head: bytes) -> bool:
    """Does the file begin like a zstd container (a standard or a skippable frame)?"""
    return head[:4] == MAGIC or _is_skippable(head[:4])


def rows(stream: BinaryIO, *, zstd: bool, row_limit: int = ROW_LIMIT) -> Iterator[Item]:
    """Split an open binary file into rows, frame ends and damages, in file order.

    Reads forward only and once. Raises `OSError` when the file cannot be read; every other trouble is a `Damage`.
    """
    return one_by_one(batches(stream, zstd=zstd, row_limit=row_limit))


def batches(stream: BinaryIO, *, zstd: bool, row_limit: int = ROW_LIMIT) -> Iterator[Batch]:
    """The same with rows as they were read together, for those who have many."""
    pieces = _zstd_pieces(stream) if zstd else _plain_pieces(stream)
    return _split(pieces, row_limit, zstd=zstd)


def one_by_one(items: Iterable[Batch]) -> Iterator[Item]:
    """Every row by itself."""
    for item in items:
        if isinstance(item, Rows):
            yield from item.from_on(0)
        else:
            yield item


def _plain_pieces(stream: BinaryIO) -> Iterator[Piece]:
    offset = 0
    while data := stream.read(_CHUNK):
        yield _Text(0, offset, data)
        offset += len(data)


def _is_skippable(magic: bytes) -> bool:
    return len(magic) == 4 and magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50


def _zstd_pieces(stream: BinaryIO) -> Iterator[Piece]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=WINDOW_LIMIT)
    offset = 0
    frame = 0
    while True:
        magic = stream.read(4)
        if not magic:
            return
        frame += 1
        if len(magic) < 4:
            yield Damage("torn-frame", 0, frame, offset, detail=f"{len(magic)} stray bytes at the end of the file")
            return
        if _is_skippable(magic):
            yield Damage("skippable-frame", 0, frame, offset)
            return
        if magic != MAGIC:
            yield Damage("bad-magic", 0, frame, offset, detail=f"found the bytes {magic.hex(' ')}")
            return
        size = 4
        for part in _one_frame(stream, decompressor, frame, offset):
            if isinstance(part, int):
                size += part
                continue
            yield part
            if isinstance(part, Damage):
                return
        offset += size


def _one_frame(
    stream: BinaryIO, decompressor: zstandard.ZstdDecompressor, frame: int, offset: int
) -> Iterator[Piece | int]:
    """The pieces of one frame whose magic has been read, and at its end the number of bytes that followed it."""

    def torn(where: str) -> Damage:
        return Damage("torn-frame", 0, frame, offset, detail=f"the file ends inside {where}")

    head = stream.read(1)
    if not head:
        yield torn("the frame header")
        return
    descriptor = head[0]
    if descriptor & 0x18:
        yield Damage("reserved-descriptor", 0, frame, offset, detail=f"descriptor 0x{descriptor:02x}")
        return
    checksummed = bool(descriptor & 0x04)
    single = bool(descriptor & 0x20)
    rest = (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    rest += (1 if single else 0, 2, 4, 8)[descriptor >> 6]
    more = stream.read(rest)
    if len(more) < rest:
        yield torn("the frame header")
        return
    decoder = decompressor.decompressobj()
    size = 1 + rest
    try:
        decoder.decompress(MAGIC + head + more)
    except zstandard.ZstdError as error:
        too_big = "memory" in str(error) or "window" in str(error)
        kind: DamageKind = "window-too-large" if too_big else "corrupt-block"
        yield Damage(kind, 0, frame, offset, detail=str(error))
        return
    last = False
    while not last:
        block_head = stream.read(3)
        if len(block_head) < 3:
            yield torn("a block header")
            return
        word = int.from_bytes(block_head, "little")
        last, block_type, length = bool(word & 1), (word >> 1) & 3, word >> 3
        if block_type == 3:
            yield Damage("reserved-block", 0, frame, offset)
            return
        if length > _BLOCK_LIMIT:
            yield Damage("corrupt-block", 0, frame, offset, detail=f"a block claims {length} bytes")
            return
        stored = 1 if block_type == 1 else length
        block = stream.read(stored)
        if len(block) < stored:
            yield torn("a block")
            return
        size += 3 + stored
        try:
            text = decoder.decompress(block_head + block)
        except zstandard.ZstdError as error:
            yield Damage("corrupt-block", 0, frame, offset, detail=str(error))
            return
        if text:
            yield _Text(frame, offset, text)
    if checksummed:
        checksum = stream.read(4)
        if len(checksum) < 4:
            yield torn("the checksum")
            return
        size += 4
        try:
            text = decoder.decompress(checksum)
        except zstandard.ZstdError:
            yield Damage("wrong-checksum", 0, frame, offset)
            return
        if text:
            yield _Text(frame, offset, text)
    yield size
    yield FrameEnd(frame, offset, checksummed)


def _split(pieces: Iterator[Piece], limit: int, *, zstd: bool) -> Iterator[Batch]:
    """Cut the text at LF. A row longer than `limit` is skipped and reported once as `row-too-large`."""
    line = 1
    held: list[bytes] = []
    held_size = 0
    held_at = (0, 0)
    skipping = False
    damaged = False
    for piece in pieces:
        if isinstance(piece, Damage):
            damaged = True
            yield piece._replace(line=line)
            continue
        if isinstance(piece, FrameEnd):
            yield piece
            continue
        frame, position, data = piece
        texts = data.split(b"\n")
        tail = texts.pop()
        if held_size and texts:
            held.append(texts[0])
            whole = b"".join(held)
            if skipping or len(whole) > limit:
                yield Damage("row-too-large", line, *held_at, detail=f"the limit is {limit} bytes")
            else:
                if held_at[0] != frame:
                    yield Damage("row-across-frames", line, *held_at)
                yield Rows(line, *held_at, [whole])
            held, held_size, skipping = [], 0, False
            line += 1
            position += 0 if zstd else len(texts[0]) + 1
            del texts[0]
        for batch in (texts,) if len(data) <= limit else ([text] for text in texts):
            if batch and len(batch[0]) > limit:
                yield Damage("row-too-large", line, frame, position, detail=f"the limit is {limit} bytes")
            elif batch:
                yield Rows(line, frame, position, batch)
            line += len(batch)
            position += 0 if zstd else sum(map(len, batch)) + len(batch)
        if tail:
            if not held_size:
                held_at = (frame, position)
            held_size += len(tail)
            if held_size <= limit:
                held.append(tail)
            else:
                held, skipping = [], True
                if held_size > limit + TEXT_LIMIT_AFTER_OVERSIZE:
                    yield Damage("row-too-large", line, *held_at, detail="gave up inside this row")
                    return
    if not held_size:
        return
    if skipping:
        yield Damage("row-too-large", line, *held_at, detail=f"the limit is {limit} bytes")
    elif zstd and damaged:
        return  # the damage itself has been reported; the unfinished row is part of it
    elif zstd:
        yield Damage("row-unfinished", line, *held_at)
    else:
        yield Damage("torn-row", line, *held_at, detail=f"{held_size} bytes follow the last line feed")
