"""The reader: whatever bytes there are, a documented outcome, and bounded memory."""

from __future__ import annotations

import io
import json
import os
import tracemalloc
from pathlib import Path
from typing import BinaryIO, cast

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logs import corpus
from tests.logs.building import Builder, legal, many_turns, render, tool_call

from loopconform.check import Options, check_file, run
from loopconform.container import FrameEnd, RawRow, rows
from loopconform.findings import FileReport
from loopconform.reader import ReadRow, read_stream
from loopspec.log.damage import Damage

EXIT_CODES = {0, 1, 2, 3}


def frame(data: bytes, *, checksum: bool = True) -> bytes:
    """One frame as the writer makes it: checksum, no content size."""
    return zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=False).compress(data)


def framed(data: bytes) -> bytes:
    """Header frame and one body frame."""
    head, body = data.split(b"\n", 1)
    return frame(head + b"\n") + frame(body)


def check(data: bytes, tmp_path: Path, name: str = "log.jsonl", **options: int) -> FileReport:
    path = tmp_path / name
    path.write_bytes(data)
    return check_file(path, Options(**options))  # type: ignore[arg-type]


def outcome(data: bytes, tmp_path: Path, name: str = "log.jsonl", **options: int) -> list[tuple[str, int]]:
    return [(found.rule, found.line) for found in check(data, tmp_path, name, **options).findings]


LOG = render(legal(0).rows)
LINES = LOG.splitlines(keepends=True)


# -- rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (b"", "blank"),
        (b"  ", "blank"),
        (b"[1]", "an array"),
        (b"null", "null"),
        (b'"x"', "a string"),
        (b"12", "a number"),
        (b"\0" * 80, "NUL"),
        (b'{"type":"x"', "breaks off"),
        (b'{"type":"a\tb"}', "control character"),
        (b'{"type":NaN}', "NaN"),
        (b'{"type":"x","seq":1}{"type":"y","seq":2}', "a second JSON object begins at column 21"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"not json", "not JSON"),
    ],
)
def test_each_bad_row_has_its_own_sentence(row: bytes, words: str, tmp_path: Path) -> None:
    report = check(b"".join([*LINES[:5], row + b"\n", *LINES[5:]]), tmp_path)
    first = report.findings[0]
    assert (first.rule, first.line) == ("S-LNT-7", 6)
    assert any(words in found.reason for found in report.findings)


@pytest.mark.parametrize(
    ("old", "new", "rule", "words"),
    [
        (b'"turn":1', b'"turn":1,"turn":1', "S-LNT-7", "twice"),
        (b'"turn":1', b'"turn":9007199254740993', "S-LNT-8", "safe"),
        (b'"time":1002', b'"time":-0', "S-LNT-8", "negative zero"),
        (b"\n", b"\r\n", "S-LNT-7", "CR LF"),
    ],
)
def test_rows_that_parse_but_are_not_right(old: bytes, new: bytes, rule: str, words: str, tmp_path: Path) -> None:
    report = check(LOG.replace(old, new, 1), tmp_path)
    assert any(found.rule == rule and words in found.reason for found in report.findings)


def test_byte_order_mark(tmp_path: Path) -> None:
    assert outcome(b"\xef\xbb\xbf" + LOG, tmp_path) == [("S-LNT-7", 1)]


def test_only_line_feeds_end_rows(tmp_path: Path) -> None:
    log = legal(0)
    strange = "a\u2028b\u2029c\u0085d\x0be\x0cf"
    at = next(at for at, row in enumerate(log.rows) if row["type"] == "user/message")
    for row in (log.rows[1]["data"]["inserted"][0], log.rows[at]["data"]):
        row["content"][0]["text"] = strange
    assert outcome(render(log.rows), tmp_path) == []


def test_lone_surrogates_and_odd_spacing_are_legal(tmp_path: Path) -> None:
    lines = [json.dumps(json.loads(line), ensure_ascii=True) + "\n" for line in LINES]
    lines = [line.replace("Thanks.", "\\ud83d") for line in lines]
    assert outcome("".join(lines).encode(), tmp_path) == []


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [450, 1100, 200_000])
def test_deep_nesting_is_undecided(opening: str, depth: int, tmp_path: Path) -> None:
    closing = "]" if opening == "[" else "}"
    inner = opening * depth + ("1" if opening != "[" else "") + closing * depth
    row = f'{{"type":"todo/write","seq":2,"time":1003,"data":{inner}}}\n'.encode()
    report = check(b"".join([*LINES[:3], row, *LINES[3:]]), tmp_path)
    assert report.verdict == "undecided"
    assert [(found.rule, found.line) for found in report.findings] == [("S-LNT-109", 4)]


def test_many_digits(tmp_path: Path) -> None:
    row = b'{"type":"todo/write","seq":2,"time":' + b"1" * 6000 + b',"data":{}}\n'
    assert ("S-LNT-8", 4) in outcome(b"".join([*LINES[:3], row]), tmp_path)


# -- containers --------------------------------------------------------------------------------------------------


def test_empty_file(tmp_path: Path) -> None:
    for name in ("log.jsonl", "log.jsonl.zstd"):
        assert outcome(b"", tmp_path, name)[0][0] == "S-LNT-1"


def test_header_only_is_a_session(tmp_path: Path) -> None:
    assert outcome(LINES[0], tmp_path) == []
    assert outcome(frame(LINES[0]), tmp_path, "log.jsonl.zstd") == []


def test_header_without_line_feed(tmp_path: Path) -> None:
    assert outcome(LINES[0][:-1], tmp_path) == [("S-LNT-1", 1)]


GOOD = framed(LOG)


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (frame(LOG), "S-LNT-2"),
        (GOOD + b"junk", "S-LNT-3"),
        (GOOD + b"\x50\x2a\x4d\x18\x01\0\0\0x" + frame(b"x\n"), "S-LNT-3"),
        (GOOD[:4] + bytes([GOOD[4] | 0x08]) + GOOD[5:], "S-LNT-3"),
        (GOOD[:4] + bytes([GOOD[4] | 0x10]) + GOOD[5:], "S-LNT-3"),
        (GOOD[:6] + bytes([GOOD[6] | 0x06]) + GOOD[7:], "S-LNT-3"),
        (GOOD[:-1] + bytes([GOOD[-1] ^ 1]), "S-LNT-4"),
        (frame(LINES[0]) + frame(b"".join(LINES[1:]), checksum=False), "S-LNT-4"),
        (frame(LINES[0]) + frame(b"".join(LINES[1:])[:-9]), "S-LNT-5"),
        (frame(LINES[0]) + frame(LINES[1][:9]) + frame(LINES[1][9:] + b"".join(LINES[2:])), "S-LNT-5"),
        (GOOD[:-3], "S-LNT-6"),
        (GOOD + b"\x28\xb5", "S-LNT-6"),
        (LOG, "S-LNT-3"),
    ],
)
def test_container_damage(data: bytes, rule: str, tmp_path: Path) -> None:
    assert [found for found, _ in outcome(data, tmp_path, "log.jsonl.zstd")] == [rule]


def test_empty_frames_are_accepted(tmp_path: Path) -> None:
    assert outcome(frame(LINES[0]) + frame(b"") + frame(b"".join(LINES[1:])), tmp_path, "log.jsonl.zstd") == []


def test_zstd_content_under_a_plain_name(tmp_path: Path) -> None:
    assert [rule for rule, _ in outcome(GOOD, tmp_path, "log.jsonl")] == ["S-LNT-3"]


@pytest.mark.parametrize("name", ["09e-torn-multi-frame.jsonl.zstd", "17-checkpoint-policy.jsonl.zstd"])
def test_frames_cut_at_every_byte(name: str) -> None:
    """Whole frames always survive; a cut is torn, or no header, or (between frames) nothing at all."""
    data = (corpus.REAL / name).read_bytes()
    whole = [item for item in rows(io.BytesIO(data), zstd=True) if isinstance(item, RawRow)]
    frames = [item for item in rows(io.BytesIO(data), zstd=True) if isinstance(item, FrameEnd | Damage)]
    starts = [item.offset for item in frames[1:]]
    for cut in range(1, len(data)):
        items = list(read_stream(io.BytesIO(data[:cut]), name=name))
        kept = [item for item in items if isinstance(item, ReadRow)]
        damages = [item.kind for item in items if isinstance(item, Damage)]
        complete = sum(1 for end in starts if end <= cut)
        assert [item.line for item in kept] == [item.line for item in whole[: len(kept)]]
        if cut in starts:
            assert damages == []
        else:
            assert damages == (["no-header"] if complete == 0 else ["torn-frame"])
            assert len(kept) >= sum(1 for item in whole if item.frame <= complete)


def _small(version: int) -> bytes:
    """One step with a tool call; the turn is open at the end."""
    log = Builder(version)
    log.begin("Go.", "u1")
    log.answer(tool_call("c1"), finish="tool-calls")
    log.result("c1", log.call("c1"))
    return render(log.rows)


@pytest.mark.parametrize("version", [0, 4])
def test_logs_cut_at_every_byte(version: int, tmp_path: Path) -> None:
    """Every byte, through the whole check: torn, or (between two rows) a log that ends early."""
    data = _small(version)
    ends = [at + 1 for at, byte in enumerate(data) if byte == 10]
    for cut in range(len(data)):
        report = check(data[:cut], tmp_path)
        rules = {found.rule for found in report.findings if found.level in "EU"}
        if cut in ends:
            # a prompt behind which no turn opens is a lost wake, or a cut that nobody can tell from one: a warning
            assert rules == set(), cut
            assert ("S-ACC-2" in {found.rule for found in report.findings}) == (cut == ends[1]), cut
        elif cut < ends[0]:
            assert rules == {"S-LNT-1"}, cut
        else:
            assert rules == set(), cut
            assert report.verdict == "torn"
            assert report.rows == sum(1 for end in ends if end <= cut) - 1
    packed = framed(data)
    second = packed.index(b"\x28\xb5\x2f\xfd", 4)
    for cut in range(len(packed)):
        # behind the first frame stands a whole, empty session
        assert run([_written(packed[:cut], tmp_path)]).exit_code() == (0 if cut == second else 1), cut


def _written(data: bytes, root: Path) -> Path:
    path = root / "cut.jsonl.zstd"
    path.write_bytes(data)
    return path


# -- places that are no files ------------------------------------------------------------------------------------


def test_what_cannot_be_read(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe.jsonl"
    os.mkfifo(fifo)
    loop = tmp_path / "loop.jsonl"
    loop.symlink_to(loop)
    for path in (Path("/dev/zero"), fifo, loop, tmp_path / "gone.jsonl", Path("a\0b.jsonl"), Path("x" * 5000)):
        report = run([path])
        assert report.exit_code() == 2, path
        assert report.files[0].verdict == "unreadable"
        assert report.files[0].message
    assert run([tmp_path / "none"]).exit_code() == 2
    assert check_file(tmp_path).verdict == "unreadable"


def test_a_file_that_vanishes_while_it_is_read() -> None:
    class Vanishing(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            if self.tell() > 0:
                raise OSError(5, "Input/output error")
            return super().read(size)

    with pytest.raises(OSError, match="Input/output"):
        list(rows(cast(BinaryIO, Vanishing(LOG * 40_000)), zstd=False))


# -- any bytes at all --------------------------------------------------------------------------------------------

_quiet = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_quiet
@given(data=st.binary(max_size=400), compressed=st.booleans())
def test_any_bytes(data: bytes, compressed: bool, tmp_path: Path) -> None:
    name = "x.jsonl.zstd" if compressed else "x.jsonl"
    path = tmp_path / name
    path.write_bytes(data)
    report = run([path])
    assert report.exit_code() in EXIT_CODES - {0}
    assert report.files[0].findings


@_quiet
@given(data=st.data())
def test_any_damage_to_frames(data: st.DataObject, tmp_path: Path) -> None:
    broken = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] ^= 1 << data.draw(st.integers(0, 7))
    report = check(bytes(broken), tmp_path, "log.jsonl.zstd")
    assert report.verdict != "unreadable"
    kept = [
        item.value for item in read_stream(io.BytesIO(bytes(broken)), name="x.jsonl.zstd") if isinstance(item, ReadRow)
    ]
    # a checksum guards the content, so a flipped bit either shows or changes nothing (as in the window size)
    assert report.findings or kept == [json.loads(line) for line in LINES]


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)


@_quiet
@given(row=_json, at=st.integers(1, len(LINES)))
def test_any_json_row(row: object, at: int, tmp_path: Path) -> None:
    text = json.dumps(row).encode() + b"\n"
    report = check(b"".join([*LINES[:at], text, *LINES[at:]]), tmp_path)
    assert report.verdict == "findings"


# -- bounded memory ----------------------------------------------------------------------------------------------


class Repeated(io.RawIOBase):
    """A stream of one header line and then a block repeated, without holding it."""

    def __init__(self, head: bytes, block: bytes, times: int) -> None:
        self._parts = iter([head, *([block] * times)])
        self._rest = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        while not self._rest:
            part = next(self._parts, None)
            if part is None:
                return b""
            self._rest = part
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


MIB = 1024 * 1024


def _peak(stream: io.RawIOBase, *, zstd: bool = False, limit: int = 4 * MIB) -> tuple[int, int, list[str]]:
    tracemalloc.start()
    try:
        count = 0
        kinds: list[str] = []
        for item in rows(cast(BinaryIO, stream), zstd=zstd, row_limit=limit):
            count += 1
            if isinstance(item, Damage):
                kinds.append(item.kind)
        return tracemalloc.get_traced_memory()[1], count, kinds
    finally:
        tracemalloc.stop()


def test_a_line_of_200_megabytes_takes_bounded_memory() -> None:
    peak, _, kinds = _peak(Repeated(LINES[0], b"x" * MIB, 200))
    assert kinds == ["row-too-large"]
    assert peak < 16 * MIB


def test_a_million_rows_take_bounded_memory() -> None:
    peak, count, kinds = _peak(Repeated(LINES[0], LINES[1] * 1000, 1000))
    assert count == 1_000_001
    assert kinds == []
    assert peak < 16 * MIB


def test_a_decompression_bomb_takes_bounded_memory() -> None:
    bomb = frame(LINES[0]) + frame(b"\0" * (300 * MIB))
    assert len(bomb) < MIB // 8
    peak, _, kinds = _peak(cast(io.RawIOBase, io.BytesIO(bomb)), zstd=True)
    assert kinds[0] == "row-too-large"
    assert peak < 16 * MIB


def test_an_oversized_row_is_undecided(tmp_path: Path) -> None:
    report = check(LINES[0] + b'{"type":"x' + b"y" * 100_000 + b'"}\n' + LINES[1], tmp_path, row_limit=65_536)
    assert report.verdict == "undecided"
    assert [(found.rule, found.level, found.line) for found in report.findings] == [("S-LNT-109", "U", 2)]


def test_checking_a_long_log_keeps_no_texts(tmp_path: Path) -> None:
    """What the checker keeps of a log grows with its messages, not with its texts or its deltas."""
    peaks = []
    for words in (10, 400):
        log = many_turns(0, 60, words)
        path = tmp_path / f"{words}.jsonl"
        path.write_bytes(render(log.rows))
        tracemalloc.start()
        report = check_file(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert report.verdict == "clean"
    assert peaks[1] < peaks[0] + 8 * MIB
