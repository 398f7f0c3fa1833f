"""What the store reads: the verdicts of the published loader, field cases, and the layout of a root."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.logs import corpus
from tests.store.support import CWD, FIELD, REAL, ROOT, SHARED, rows

from loopharness.frozen import thaw
from loopharness.store.errors import (
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceNotFoundError,
)
from loopharness.store.layout import Compression, Layout
from loopharness.store.memory import MemoryFiles
from loopharness.store.opening import Opener, Viewed
from loopharness.store.reading import read_stored
from loopharness.store.rows import header_text
from loopspec.surface import SurfaceError

STRICTER = {"block-unknown", "call-args-object"}
"""Accepted by the published loader, refused here: their content would go to the model as it is."""

KEPT_TAIL = {"seq-gap-in-open-tail", "garbage-tail"}
"""The published loader drops rows of these without a word (S-DSK-20); here that takes `lenient`."""


def place(content: bytes, session_id: str, name: str, cwd: str | None = CWD) -> tuple[MemoryFiles, Layout]:
    """A root in memory that holds this one file."""
    files = MemoryFiles()
    compression: Compression = "zstd" if name.endswith("zstd") else "none"
    layout = Layout(ROOT, files, compression)
    header = {"id": session_id, "version": 0} | ({} if cwd is None else {"cwd": cwd})
    files.put(layout.folder_of(header) / name, content)
    return files, layout


def view(content: bytes, session_id: str, name: str, *, lenient: bool = False) -> Viewed:
    files, layout = place(content, session_id, name)
    return Opener(layout, files, lenient=lenient).view(session_id)


@pytest.mark.parametrize("mutation", corpus.mutations(), ids=lambda mutation: mutation["name"])
def test_the_published_loader_is_matched(mutation: dict[str, Any]) -> None:
    """102 broken logs: refused where it refuses, and as many events after repair where it accepts."""
    base = json.loads((REAL / f"{mutation['base']}.jsonl").read_bytes().split(b"\n", 1)[0])
    name = "session.jsonl.zstd" if corpus.is_zstd(mutation["name"]) else "session.jsonl"
    folder_id = mutation.get("dirId") or base["id"]
    refused: Exception | None = None
    events = 0
    try:
        seen = view(corpus.body(mutation["name"]), folder_id, name, lenient=True)
        events = len(seen.events)
    except (SessionPersistenceCorruptionError, SessionFormatUnsupportedError) as error:
        refused = error
    if mutation["name"] in STRICTER:
        assert isinstance(refused, SessionPersistenceCorruptionError)
    elif mutation["load"] == "accepted":
        assert refused is None
        assert events == mutation["loadedEvents"]
    else:
        assert refused is not None
        unsupported = mutation["errorClass"] == "SessionFormatUnsupportedError"
        assert isinstance(refused, SessionFormatUnsupportedError) == unsupported or not unsupported


@pytest.mark.parametrize("name", sorted(KEPT_TAIL))
def test_a_bad_row_is_not_taken_for_a_torn_tail(name: str) -> None:
    mutation = next(item for item in corpus.mutations() if item["name"] == name)
    session_id = json.loads((REAL / f"{mutation['base']}.jsonl").read_bytes().split(b"\n", 1)[0])["id"]
    file = "session.jsonl.zstd" if corpus.is_zstd(name) else "session.jsonl"
    with pytest.raises(SessionPersistenceCorruptionError, match=r"line \d+: .*The \d+ events before it are sound"):
        view(corpus.body(name), session_id, file)


@pytest.mark.parametrize("path", sorted(REAL.glob("*.jsonl.zstd")), ids=lambda path: path.name)
def test_real_logs_are_read_with_the_repair_that_was_made(path: Path) -> None:
    """09a, c and e are torn or open; the published loader's own repair of them is in 09b, d and f."""
    repaired = {"09a-crash-before-repair": "09b-crash-repaired", "09e-torn-multi-frame": "09f-torn-multi-repaired"}
    content = path.read_bytes()
    stem = path.name.removesuffix(".jsonl.zstd")
    session_id = rows_id(content)
    seen = view(content, session_id, "session.jsonl.zstd")
    if stem == "09c-torn-tail":
        assert seen.events == ()
        assert seen.torn is not None
        return
    expected = [row for row in unpacked(REAL / f"{repaired.get(stem, stem)}.jsonl") if "seq" in row]
    assert thaw(list(seen.events)) == expected[: len(seen.events)]
    if stem not in repaired:
        assert len(seen.events) == len(expected)
    else:
        assert seen.closers > 1
        assert seen.events[-1]["data"]["reason"]["kind"] == "interrupted"


def rows_id(content: bytes) -> str:
    """The session's id, from the first frame alone: a torn file has no more to give to a plain decoder."""
    import zstandard

    first = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    found: str = json.loads(first)["id"]
    return found


def unpacked(path: Path) -> list[dict[str, Any]]:
    """Rows with packed rows opened, by the corpus' own code."""
    return [json.loads(line) for line in corpus.unpacked(path)]


# -- field cases -----------------------------------------------------------------------------------------------


def field(name: str) -> bytes:
    return (FIELD / name).read_bytes()


def field_id(name: str) -> str:
    found: str = json.loads(field(name).split(b"\n", 1)[0])["id"]
    return found


@pytest.mark.parametrize(
    ("name", "line", "text"),
    [
        ("K17-stray-packed-rows-after-turn-end.bad.v0.jsonl", 17, "expected seq 15, found 13"),
        ("K21-two-processes.bad.v0.jsonl", 31, "expected seq 29, found 28; a second writer"),
        ("K24-welded-rows.bad.v0.jsonl", None, "not JSON"),
        ("K24-two-rows-on-one-line.bad.v0.jsonl", None, "not JSON"),
        ("K24-raw-newlines.bad.v0.jsonl", None, "not JSON"),
        ("K37-empty-call-id.bad.v0.jsonl", None, ""),
        ("K19-forgotten-call.bad.v0.jsonl", None, "never answered: c2, c3"),
    ],
)
def test_a_damaged_log_is_refused_with_its_line(name: str, line: int | None, text: str) -> None:
    session_id = field_id(name)
    header = json.loads(field(name).split(b"\n", 1)[0])
    files, layout = place(field(name), session_id, "session.jsonl", header.get("cwd"))
    before = files.content(files.paths()[0])
    with pytest.raises(SessionPersistenceCorruptionError) as refusal:
        Opener(layout, files).open(session_id, 0)
    assert text in str(refusal.value)
    assert line is None or refusal.value.line == line
    assert files.content(files.paths()[0]) == before
    with pytest.raises(SessionPersistenceCorruptionError):  # and not SessionAlreadyOwnedError
        Opener(layout, files).open(session_id, 0)


def test_only_a_line_feed_ends_a_row() -> None:
    name = "K24-line-separators.ok.v0.jsonl"
    header = json.loads(field(name).split(b"\n", 1)[0])
    files, layout = place(field(name), header["id"], "session.jsonl", header.get("cwd"))
    opened = Opener(layout, files).open(header["id"], 0)
    text = json.dumps(thaw(list(opened.events)))
    assert "\\u2028" in text
    assert "\\u2029" in text
    assert "\\u0085" in text


def test_the_closers_of_a_crash_in_a_tool_are_exact() -> None:
    """K19, against closers that were written down by hand."""
    name = "K19-crash-mid-tool.v0.jsonl"
    expected = SHARED / "field-cases" / "K19-expected-closers.json"
    if not expected.exists():
        pytest.skip("the corpus of field cases is not on this machine")
    header = json.loads(field(name).split(b"\n", 1)[0])
    files, layout = place(field(name), header["id"], "session.jsonl", header.get("cwd"))
    opened = Opener(layout, files).open(header["id"], 0)
    closers = json.loads(expected.read_bytes())
    closers = closers["closers"] if isinstance(closers, dict) else closers
    assert thaw(list(opened.events))[-len(closers) :] == closers
    (path,) = [path for path in files.paths() if path.suffix != ".lock"]
    assert rows(files.content(path))[-len(closers) :] == closers, "and they are durable"


# -- layout ----------------------------------------------------------------------------------------------------


def log(session_id: str, version: int = 0, cwd: str | None = CWD) -> bytes:
    header: dict[str, Any] = {"type": "session", "version": version, "id": session_id, "createdAt": 1}
    if cwd is not None:
        header["cwd"] = cwd
    if version == 4:
        header["isSeeded"] = False
    return header_text({**header, "delegationDepth": 0})


def open_plain(*stored_files: tuple[str, bytes], version: int = 0, session_id: str = "a") -> Any:
    files = MemoryFiles()
    for name, content in stored_files:
        files.put(ROOT / name, content)
    return Opener(Layout(ROOT, files, "none"), files).open(session_id, version)


def test_paths() -> None:
    layout = Layout(ROOT, MemoryFiles())
    assert layout.path_of({"id": "s", "cwd": "/workspace", "version": 0}) == ROOT / "--workspace--/s/session.jsonl.zstd"
    assert layout.path_of({"id": "s", "version": 4}) == ROOT / "_no-cwd/s/session.v4.jsonl.zstd"
    assert layout.path_of({"id": "..", "version": 4}).parent == ROOT / "_no-cwd/~002E~002E"
    assert layout.folder_of({"id": "a/b", "cwd": "/ü:x\\y"}).relative_to(ROOT) == Path("--~00FC-x-y--/a~002Fb")
    with pytest.raises(ValueError, match="must not be empty"):
        layout.folder_of({"id": ""})
    with pytest.raises(ValueError, match="file systems take 255"):
        layout.folder_of({"id": "x" * 256})


def test_the_highest_generation_counts() -> None:
    opened = open_plain(
        ("--workspace--/a/session.jsonl", b"not looked at\n"),
        ("--workspace--/a/session.v4.jsonl", log("a", 4)),
        version=4,
    )
    assert opened.header["version"] == 4


@pytest.mark.parametrize(
    ("stored_files", "text"),
    [
        ([("--workspace--/a/session.jsonl.zstd", b"x")], 'used with compression "none"'),
        ([("--workspace--/a.jsonl", b"x")], "outside a session directory"),
        ([("--workspace--/a.jsonl.zstd", b"x")], "outside a session directory"),
        (
            [("--workspace--/a/session.jsonl", log("a")), ("--other--/a/session.jsonl", log("a", cwd="/other"))],
            "stored in two projects",
        ),
        ([("--workspace--/a/session.jsonl", log("b"))], 'requested id "a" does not match header id "b"'),
        ([("--workspace--/a/session.jsonl", log("a", cwd="/elsewhere"))], "lead to /sessions/--elsewhere--/a"),
        ([("--workspace--/a/session.v4.jsonl", log("a"))], "unlike the file name"),
        ([("--workspace--/a/session.jsonl", b"")], "no complete header row"),
        ([("--workspace--/a/session.jsonl", log("a")[:-1])], "header row is incomplete"),
        ([("--workspace--/a/session.jsonl", b'{"type":"turn/start"}\n')], "no session header"),
    ],
)
def test_what_is_not_one_session_in_one_place_is_refused(stored_files: list[tuple[str, bytes]], text: str) -> None:
    with pytest.raises(SessionPersistenceCorruptionError, match=text):
        open_plain(*stored_files, version=4 if "v4" in stored_files[0][0] else 0)


def test_newer_and_older_formats_are_told_apart() -> None:
    with pytest.raises(SessionFormatUnsupportedError, match=r"in format 0 here. Open it with session_format 4"):
        open_plain(("--workspace--/a/session.v4.jsonl", log("a", 4)))
    with pytest.raises(SessionFormatUnsupportedError, match="format 7, which is newer"):
        open_plain(("--workspace--/a/session.v7.jsonl", log("a", 7)), version=4)
    with pytest.raises(SessionFormatUnsupportedError, match="older format 2"):
        open_plain(("--workspace--/a/session.v2.jsonl", log("a", 2)), version=4)


def test_an_unknown_id_is_not_found() -> None:
    with pytest.raises(SessionPersistenceNotFoundError, match='session "nobody" not found'):
        open_plain(("--workspace--/a/session.jsonl", log("a")), session_id="nobody")
    with pytest.raises(SessionPersistenceNotFoundError):
        open_plain(session_id="x" * 300)


def test_an_unknown_event_is_unsupported_unless_it_may_be_ignored() -> None:
    event = b'{"type":"future/thing","seq":0,"time":1,"data":{}%s}\n'
    path = "--workspace--/a/session.jsonl"
    with pytest.raises(SessionFormatUnsupportedError, match=r'line 2: the event type "future/thing" is unknown'):
        open_plain((path, log("a") + event % b""))
    assert len(open_plain((path, log("a") + event % b',"ignorable":true')).events) == 1


def test_half_a_surrogate_pair_and_large_numbers_are_read() -> None:
    row = rb'{"type":"sandbox/mode","seq":0,"time":1,"data":{"mode":"\ud83d","n":123456789012345678901234567890}}'
    stored_rows = read_stored(log("a") + row + b"\n", "session.jsonl")
    assert stored_rows.events[0]["data"]["mode"] == "\ud83d"
    with pytest.raises(SessionPersistenceCorruptionError, match="NaN is not JSON"):
        read_stored(log("a") + row.replace(b"123456789012345678901234567890", b"NaN") + b"\n", "session.jsonl")


def test_a_surface_that_cannot_be_is_corruption_before_anything_is_written() -> None:
    """An open turn with an impossible replace: nothing is appended to such a log."""
    message = {"id": "m", "role": "user", "content": [], "source": {"kind": "user"}}
    replace = {"op": "replace", "start": 0, "end": 0}
    events = [
        {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}},
        {"type": "user/message", "seq": 1, "time": 1, "data": message, "sourceEventSeqs": [0], "surfaceOp": replace},
    ]
    content = log("a") + b"".join(json.dumps(event).encode() + b"\n" for event in events)
    files = MemoryFiles()
    files.put(ROOT / "--workspace--/a/session.jsonl", content)
    with pytest.raises(SessionPersistenceCorruptionError) as refusal:
        Opener(Layout(ROOT, files, "none"), files).open("a", 0)
    assert isinstance(refusal.value.__cause__, SurfaceError)
    assert files.content(ROOT / "--workspace--/a/session.jsonl") == content
