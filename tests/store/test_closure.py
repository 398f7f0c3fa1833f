"""Every log that the harness writes, it resumes; and no bytes at all make the reader do anything but answer or refuse.

Random conversations with restarts and crashes between them, on both formats (G1). Hypothesis, bounded examples.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.logs import corpus
from tests.store.support import CWD, MODEL, REAL, ROOT, log_of, must_be_legal_file, stored

from loopharness.frozen import thaw
from loopharness.harness import Harness
from loopharness.model import chunks
from loopharness.model.scripted import Response, fail, reasoning, text, tool_calls
from loopharness.store.errors import SessionFormatUnsupportedError, SessionPersistenceCorruptionError
from loopharness.store.layout import Layout
from loopharness.store.memory import MemoryFiles
from loopharness.store.opening import Opener
from loopharness.store.reading import read_header, read_stored

BOUNDED = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, database=None
)

words = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", " ", "\ud83d", "\u2028", "\x00", "a\nb", "🧵", "</tool>", '"', "\\"]),
)
"""Text as people and models write it, half surrogate pairs included."""

calls = st.lists(
    st.tuples(
        st.sampled_from(["c1", "c2", "c3"]),
        st.sampled_from(["look", "look", "nothing-like-it"]),
        st.one_of(st.fixed_dictionaries({"what": words}), words, st.just({}), st.just({"what": 1})),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda call: call[0],
)


@st.composite
def responses(draw: st.DrawFn) -> Response:
    """One answer of the model, sound or not."""
    match draw(st.integers(0, 9)):
        case 0 | 1:
            return text(*draw(st.lists(words, min_size=1, max_size=4)), usage=(3, 4))
        case 2 | 3 | 4:
            return tool_calls(*draw(calls), say=draw(words))
        case 5:
            return reasoning(draw(words), draw(words))
        case 6:
            return fail(draw(words) or "no luck", draw(st.sampled_from(["SERVER", "RATE_LIMIT", "QUOTA"])))
        case 7:
            return text(draw(words), reason="max-tokens")
        case 8:  # breaks off in the middle
            return [*text(draw(words), draw(words))[: draw(st.integers(0, 3))], RuntimeError("cut off")]
        case _:  # says nothing
            return [chunks.finish("stop")]


deeds = st.lists(
    st.one_of(
        st.tuples(st.just("followup"), words),
        st.tuples(st.just("steer"), words),
        st.tuples(st.just("inject"), words),
        st.tuples(st.just("cancel"), st.booleans()),
        st.tuples(st.just("settle"), st.none()),
        st.tuples(st.just("restart"), st.none()),
        st.tuples(st.just("crash"), st.booleans()),
    ),
    min_size=2,
    max_size=8,
)


async def act(harness: Harness, agent: Any, deed: str, argument: Any) -> None:
    """One operation that does not end the life."""
    if deed == "settle":
        await agent.when_idle()
    elif deed == "cancel":
        agent.cancel({"kind": "user"}, keep_inbox=argument)
    else:
        getattr(agent, deed)(argument)


async def play(session_format: int, script: list[Response], todo: list[tuple[str, Any]]) -> None:
    """All lives of one session; at the end of each the next one must find what it left."""
    files = MemoryFiles()
    exists = False
    kept: tuple[Any, ...] = ()
    while todo:
        async with stored(files, *script, session_format=session_format, checkpoints=True, lenient=False) as harness:
            agent = await (
                harness.resume_agent("main", MODEL) if exists else harness.create_agent("main", MODEL, cwd=CWD)
            )
            if exists:
                assert tuple(agent.session.events[: len(kept)]) == kept
            left = files
            deed, argument = "restart", None
            while todo:
                deed, argument = todo.pop(0)
                if deed in ("restart", "crash"):
                    break
                await act(harness, agent, deed, argument)
            if deed == "crash":
                await harness.sessions.flush(agent.session)
                kept = tuple(agent.session.events)
                left = files.reborn("power" if argument else "process")
            await agent.when_idle()
            session = agent.session
        if deed != "crash":
            kept = tuple(session.events)
        files = left
        exists = bool(kept) or bool(files.paths())
        if not exists:
            continue
        must_be_legal_file(log_of(files))
        check_views(files, session_format, kept)


def check_views(files: MemoryFiles, session_format: int, kept: tuple[Any, ...]) -> None:
    """What is read back is what was said, and format 0 can become format 4."""
    opener = Opener(Layout(ROOT, files), files)
    seen = opener.view("main")
    assert thaw(list(seen.events[: len(kept)])) == thaw(list(kept))
    if session_format == 0:
        migrated = opener.view("main", 4)
        assert migrated.header["version"] == 4


@pytest.mark.parametrize("session_format", [0, 4])
@BOUNDED
@given(script=st.lists(responses(), max_size=6), todo=deeds)
def test_every_log_the_harness_writes_it_resumes(
    session_format: int, script: list[Response], todo: list[tuple[str, Any]]
) -> None:
    anyio.run(play, session_format, script, [*todo, ("restart", None), ("settle", None)])


@pytest.mark.parametrize("session_format", [0, 4])
@pytest.mark.parametrize("ids", [("",), ("c1", "c1")], ids=["empty", "twice"])
def test_ids_of_calls_that_an_adapter_gets_wrong(session_format: int, ids: tuple[str, ...]) -> None:
    script: list[Response] = [tool_calls(*[(id, "look", {"what": "a"}) for id in ids]), text("Done.")]
    anyio.run(play, session_format, script, [("followup", "Look."), ("restart", None), ("settle", None)])


# -- the reader and arbitrary bytes ------------------------------------------------------------------------------

REFUSALS = (SessionPersistenceCorruptionError, SessionFormatUnsupportedError)
SEEDS = [path.read_bytes() for path in sorted(REAL.glob("0[1-9]*.jsonl"))]
PACKED = [path.read_bytes() for path in sorted(REAL.glob("*.jsonl.zstd"))]


def read_or_refuse(content: bytes, name: str) -> None:
    """An answer or a refusal, nothing else; and what is answered is consistent."""
    for lenient in (False, True):
        try:
            found = read_stored(content, name, drop_bad_tail=lenient, formats=(0, 3, 4))
        except REFUSALS:
            continue
        assert [event["seq"] for event in found.events] == list(range(len(found.events)))
        assert found.torn is None or 0 <= found.torn.offset <= len(content)
        assert found.torn is None or found.torn.first <= len(found.events)
        assert read_header(content, name) == found.header


def open_or_refuse(content: bytes, name: str) -> None:
    """The same for opening it to go on; a refusal leaves the file as it was and the lock free."""
    header = json.loads(SEEDS[0].split(b"\n", 1)[0])
    for version in (0, 4):
        files = MemoryFiles()
        layout = Layout(ROOT, files, "zstd" if name.endswith("zstd") else "none")
        path = layout.folder_of(header) / name
        files.put(path, content)
        opener = Opener(layout, files)
        try:
            opened = opener.open(header["id"], version)
        except REFUSALS:
            assert files.content(path) == content
            with pytest.raises(REFUSALS):
                opener.open(header["id"], version)
            continue
        opened.log.close()
        again = opener.open(header["id"], version)
        assert again.events == opened.events
        assert again.torn is None


@BOUNDED
@given(st.binary(max_size=200), st.sampled_from(["session.jsonl", "session.jsonl.zstd", "session.v4.jsonl"]))
def test_arbitrary_bytes(content: bytes, name: str) -> None:
    read_or_refuse(content, name)


@settings(BOUNDED, max_examples=120)
@given(st.data())
def test_damaged_real_logs(data: st.DataObject) -> None:
    """Bytes changed, cut out, doubled or put in, anywhere in a real file."""
    packed = data.draw(st.booleans())
    content = data.draw(st.sampled_from(PACKED if packed else SEEDS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(len(content), start + 60)))
        middle = data.draw(st.one_of(st.binary(max_size=8), st.just(content[start:end] * 2)))
        content = content[:start] + middle + content[end:]
    read_or_refuse(content, "session.jsonl.zstd" if packed else "session.jsonl")
    open_or_refuse(content, "session.jsonl.zstd" if packed else "session.jsonl")


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 2**54), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=6,
)


@settings(BOUNDED, max_examples=120)
@given(st.data())
def test_real_logs_with_wrong_values(data: st.DataObject) -> None:
    """Any value at any place of one row: the shape is wrong, the bytes are JSON."""
    lines = data.draw(st.sampled_from(SEEDS)).split(b"\n")[:-1]
    at = data.draw(st.integers(0, len(lines) - 1))
    row: Any = json.loads(lines[at])
    holder, depth = row, data.draw(st.integers(0, 6))
    for _ in range(depth):
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        key = data.draw(st.sampled_from(keys)) if keys else None
        if key is None or not isinstance(holder[key], dict | list) or not holder[key]:
            break
        holder = holder[key]
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    key = data.draw(st.sampled_from(keys))
    if isinstance(holder, dict) and data.draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = data.draw(json_values)
    lines[at] = json.dumps(row).encode()
    content = b"\n".join(lines) + b"\n"
    read_or_refuse(content, "session.jsonl")
    open_or_refuse(content, "session.jsonl")


def test_the_mutations_of_the_corpus_open_or_are_refused() -> None:
    for mutation in corpus.mutations():
        name = "session.jsonl.zstd" if corpus.is_zstd(mutation["name"]) else "session.jsonl"
        read_or_refuse(corpus.body(mutation["name"]), name)


def test_a_bomb_is_refused_in_bounded_memory() -> None:
    """One row of a gigabyte of blanks, in a frame of a few kilobytes."""
    header = SEEDS[0].split(b"\n", 1)[0] + b"\n"
    compressor = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False)
    bomb = compressor.compressobj()
    body = b"".join([*(bomb.compress(b" " * (1 << 20)) for _ in range(64)), bomb.flush()])
    assert len(body) < 50_000
    frame = zstandard.ZstdCompressor(write_checksum=True, write_content_size=False).compress(header)
    with pytest.raises(SessionPersistenceCorruptionError, match="larger than this reader takes"):
        read_stored(frame + body, str(Path("session.jsonl.zstd")))
