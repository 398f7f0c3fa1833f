"""When events become durable: the window, the barrier, failures (S-DSK-30 to S-DSK-33). Nothing sleeps."""

from __future__ import annotations

import logging
from collections.abc import Callable
from io import BytesIO
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from tests.store.support import CWD, MODEL, REAL, HandClock, log_of, rows, stored, types

from loopharness.model.scripted import text, tool_calls
from loopharness.store.container import FrameEnd, RawRow
from loopharness.store.container import rows as walk
from loopharness.store.errors import AppendFailedError, SessionHandleClosedError, SessionPersistenceCorruptionError
from loopharness.store.memory import MemoryFiles

pytestmark = pytest.mark.anyio


def frames(content: bytes) -> list[list[str]]:
    """The row types of every zstd frame, by the walker that the checker uses."""
    found: list[list[str]] = []
    for item in walk(BytesIO(content), zstd=True):
        if isinstance(item, RawRow):
            while len(found) < item.frame:
                found.append([])
            found[-1].append(rows(item.data)[0]["type"])
        else:
            assert isinstance(item, FrameEnd)
            assert item.checksummed
    return found


async def test_nothing_is_on_disk_before_the_first_batch() -> None:
    files = MemoryFiles()
    async with stored(files, text("Hello.")) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.followup("Hi.")
        await agent.when_idle()
        assert files.paths() == []
        assert files.operations == []
        await harness.sessions.flush(agent.session)
        assert len(files.paths()) == 1
    assert "cut" not in files.operations


async def test_a_window_is_fixed_and_makes_one_batch() -> None:
    files, clock = MemoryFiles(), HandClock()
    async with stored(files, text("Hello."), text("Again."), clock=clock) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        handle = harness.persistence.handle_of(agent.session) if harness.persistence else None
        assert handle is not None
        agent.followup("Hi.")
        await agent.when_idle()
        assert clock.asked == [0.2], "later events did not open or extend it"
        assert handle.durable == 0
        clock.ring()
        with anyio.fail_after(20):
            while handle.queued:
                await anyio.lowlevel.checkpoint()
        assert handle.durable == len(agent.session.events)
        agent.followup("Again.")
        await agent.when_idle()
        assert clock.asked == [0.2, 0.2], "the first event after a batch opens the next one"
    assert len(frames(log_of(files))) == 3


async def test_a_flush_ends_the_window_and_the_next_event_opens_another() -> None:
    files, clock = MemoryFiles(), HandClock()
    async with stored(files, clock=clock) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("one")
        await anyio.lowlevel.checkpoint()
        await harness.sessions.flush(agent.session)
        agent.inject("two")
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert clock.asked == [0.2, 0.2], "the old window does not count any more"
        assert len(rows(log_of(files))) == 2
        await harness.sessions.flush(agent.session)
        assert len(rows(log_of(files))) == 3


class Busy(MemoryFiles):
    """A disk during whose next sync something else happens on the event loop."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def begin(self, name: str, *more: Any) -> None:
        act, self.meanwhile = (self.meanwhile, None) if "sync" in name else (None, self.meanwhile)
        if act is not None:
            anyio.from_thread.run_sync(act)
        super().begin(name, *more)


async def test_an_event_that_comes_while_a_batch_is_written_goes_into_the_next_one() -> None:
    files = Busy()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("one")
        files.meanwhile = lambda: agent.inject("two")
        await harness.sessions.flush(agent.session)
        assert files.meanwhile is None
        assert len(rows(log_of(files))) == 2, "a flush is a barrier for what was there when it was asked for"
        await harness.sessions.flush(agent.session)
        assert len(rows(log_of(files))) == 3


async def test_the_first_frame_is_the_header_row_alone() -> None:
    files = MemoryFiles()
    async with stored(files, text("Hello.")) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.followup("Hi.")
        await agent.when_idle()
    content = log_of(files)
    assert frames(content)[0] == ["session"]
    assert content[4] == 0x04, "checksum, no content size, no single segment"


async def test_an_empty_session_is_stored_by_a_flush_in_format_4_only() -> None:
    for session_format, stored_files in ((0, 0), (4, 1)):
        files = MemoryFiles()
        async with stored(files, session_format=session_format) as harness:
            agent = await harness.create_agent("main", MODEL, cwd=CWD)
            await harness.sessions.flush(agent.session)
            assert len(files.paths()) == stored_files


@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_failed_append_is_cut_back_and_its_batch_is_kept(operation: str) -> None:
    files = MemoryFiles()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("one")
        await harness.sessions.flush(agent.session)
        before = log_of(files)
        agent.inject("two")
        files.partial = 7
        files.fail_next[operation] = OSError(28, "No space left on device")
        with pytest.raises(AppendFailedError, match="No space left"):
            await harness.sessions.flush(agent.session)
        assert log_of(files) == before
        await harness.sessions.flush(agent.session)
        assert len(rows(log_of(files))) == 3


async def test_a_failed_append_that_cannot_be_cut_back_is_cut_before_the_next_one() -> None:
    files = MemoryFiles()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("one")
        await harness.sessions.flush(agent.session)
        agent.inject("two")
        files.partial = 7
        files.fail_next["write"] = OSError(28, "No space left on device")
        files.fail_next["cut"] = OSError(5, "Input/output error")
        with pytest.raises(AppendFailedError):
            await harness.sessions.flush(agent.session)
        await harness.sessions.flush(agent.session)
        assert [row["type"] for row in rows(log_of(files))] == ["session"] + ["agent/inbox/spliced"] * 2


async def test_a_failed_creation_leaves_nothing_and_is_tried_again() -> None:
    for operation in ("create file", "write file", "sync file", "link"):
        files = MemoryFiles()
        async with stored(files) as harness:
            agent = await harness.create_agent("main", MODEL, cwd=CWD)
            agent.inject("one")
            files.fail_next[operation] = OSError(28, "No space left on device")
            with pytest.raises(AppendFailedError):
                await harness.sessions.flush(agent.session)
            assert files.paths() == []
            await harness.sessions.flush(agent.session)
            assert len(rows(log_of(files))) == 2


async def test_a_failed_background_write_is_reported_and_waits_for_the_next_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, clock = MemoryFiles(), HandClock()
    async with stored(files, clock=clock) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        assert harness.persistence is not None
        handle = harness.persistence.handle_of(agent.session)
        assert handle is not None
        agent.inject("one")
        files.fail_next["create file"] = OSError(28, "No space left on device")
        with caplog.at_level(logging.ERROR), anyio.fail_after(20):
            while not clock.asked:
                await anyio.lowlevel.checkpoint()
            clock.ring()
            while handle.failure is None:
                await anyio.lowlevel.checkpoint()
        assert "1 events could not be written and are kept" in caplog.text
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert clock.asked == [0.2], "automatic writing is paused"
        agent.inject("two")
        with anyio.fail_after(20):
            while len(clock.asked) < 2:
                await anyio.lowlevel.checkpoint()
            clock.ring()
            while handle.queued:
                await anyio.lowlevel.checkpoint()
        assert len(rows(log_of(files))) == 3


async def test_nothing_is_appended_behind_the_bytes_of_another_writer() -> None:
    """K21: the file is longer than what this process has left."""
    files = MemoryFiles()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("one")
        await harness.sessions.flush(agent.session)
        (path,) = files.paths()
        other = files.open(path)
        size = other.size()
        other.write(size, b"foreign")
        agent.inject("two")
        with pytest.raises(SessionPersistenceCorruptionError, match="another program writes to this file"):
            await harness.sessions.flush(agent.session)
        assert files.content(path)[size:] == b"foreign"
        other.cut(size)
        await harness.sessions.flush(agent.session)


async def test_a_closed_handle_takes_nothing() -> None:
    files = MemoryFiles()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        assert harness.persistence is not None
        handle = harness.persistence.handle_of(agent.session)
        assert handle is not None
        agent.inject("one")
        await harness.dispose_agent(agent)
        assert types(rows(log_of(files)))[-2:] == ["agent/inbox/spliced"] * 2, "the disposal has drained everything"
        with pytest.raises(SessionHandleClosedError, match='session "main" is closed'):
            handle.add(agent.session.events[:1])


async def test_checkpoints_stand_where_the_published_policy_has_them() -> None:
    """Corpus log 17: one frame before each pre-step, each request and each top-level tool body."""
    files = MemoryFiles()
    script = (tool_calls(("c1", "look", {"what": "a"}), ("c2", "look", {"what": "b"})), text("Done."))
    async with stored(files, *script, session_format=0, checkpoints=True) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.followup("Look.")
        await agent.when_idle()
    theirs = frames((REAL / "17-checkpoint-policy.jsonl.zstd").read_bytes())
    ours = frames(log_of(files))
    chunks = ("assistant/chunk", "text-chunks", "tool-call-chunks")
    assert [[t for t in frame if t not in chunks] for frame in ours] == [
        [t for t in frame if t not in chunks] for frame in theirs
    ]
