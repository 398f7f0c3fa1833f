"""What happens to a store from outside: full disks, files that vanish or are exchanged, links, pipes, names, clocks.

Nothing is lost without a word, nothing hangs, and every error says where. On the real disk.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.store.support import CWD, MODEL, must_be_legal_file, rows, stored

from loopconform.check import check_file
from loopharness.agent import Agent
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import ScriptedAdapter, text
from loopharness.store.errors import (
    AppendFailedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceNotFoundError,
)
from loopharness.store.files import DISK
from loopharness.store.layout import LOCK_NAME
from loopharness.store.service import SessionPersistence

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

FORMATS = pytest.mark.parametrize("session_format", [0, 4])


@asynccontextmanager
async def talking(root: Path, session_format: int = 4) -> AsyncIterator[tuple[Harness, Agent, Path]]:
    """A harness, its agent after one turn that is stored, and the session's file."""
    async with stored(DISK, *[text(f"{n}.") for n in range(9)], root=root, session_format=session_format) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        await say(agent, "first")
        await harness.sessions.flush(agent.session)
        (path,) = root.glob("*/main/session*.zstd")
        yield harness, agent, path


async def say(agent: Agent, words: str) -> None:
    agent.followup(words)
    await agent.when_idle()


def said(path: Path) -> list[str]:
    """What the user said in a stored session, which must be legal."""
    must_be_legal_file(path.read_bytes())
    return [row["data"]["content"][0]["text"] for row in rows(path.read_bytes()) if row["type"] == "user/message"]


# -- the disk --------------------------------------------------------------------------------------------------


@FORMATS
async def test_a_disk_that_fills_up_in_the_middle_of_a_write(
    session_format: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S-DSK-31: half a batch is cut away again, what is queued is kept, and written when there is room."""
    async with talking(tmp_path, session_format) as (harness, agent, path):
        before = path.read_bytes()
        await say(agent, "second")

        def half(file: int, data: Any, usual: Callable[..., int] = os.write) -> int:
            if len(data) < 20:
                raise OSError(errno.ENOSPC, "No space left on device")
            return usual(file, data[: len(data) // 2])

        with monkeypatch.context() as patched:
            patched.setattr(os, "write", half)
            with pytest.raises(AppendFailedError, match=r"could not be written: No space left.*kept") as failed:
                await harness.sessions.flush(agent.session)
        assert isinstance(failed.value.__cause__, OSError)
        assert path.read_bytes() == before
        await harness.sessions.flush(agent.session)
        assert said(path) == ["first", "second"]


async def test_a_disk_that_is_full_from_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the lock can say who holds it. When there is room again, the session is written whole."""

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with stored(DISK, text("Hello."), root=tmp_path) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        await say(agent, "first")
        for _ in range(2):
            with monkeypatch.context() as patched:
                patched.setattr(os, "write", full)
                patched.setattr(os, "fsync", full)
                with pytest.raises(AppendFailedError, match="No space left"):
                    await harness.sessions.flush(agent.session)
        assert not list(tmp_path.rglob("*.jsonl*"))
        await harness.sessions.flush(agent.session)
        (path,) = tmp_path.rglob("session*.zstd")
        assert said(path) == ["first"]


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
async def test_a_root_that_cannot_be_written(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent lives on; the flush says why, and at the end it is told that something is lost."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), str(tmp_path))

    root = tmp_path / "root"
    async with stored(DISK, text("Hello."), root=root) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        await say(agent, "Hi.")
        monkeypatch.setattr(Path, "mkdir", refuse)
        with pytest.raises(AppendFailedError, match=os.strerror(number)):
            await harness.sessions.flush(agent.session)
        with pytest.raises(AppendFailedError):
            await harness.dispose_agent(agent)
        assert harness.persistence is not None
        assert list(harness.persistence.lost) == ["main"]


# -- files that vanish or are exchanged ------------------------------------------------------------------------


@FORMATS
@pytest.mark.parametrize("what", ["file", "folder", "root"])
async def test_what_somebody_removes_is_put_back(
    what: str, session_format: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With all that it held, from the file that is still open; the lock, too, so that nobody else writes there."""
    root = tmp_path / "root"
    async with talking(root, session_format) as (harness, agent, path):
        if what == "file":
            path.unlink()
        else:
            shutil.rmtree(path.parent if what == "folder" else root)
        await say(agent, "second")
        with caplog.at_level(logging.WARNING, "loopharness"):
            await harness.sessions.flush(agent.session)
        assert "was removed, and is put back" in caplog.text
        assert said(path) == ["first", "second"]
        async with stored(DISK, root=root, session_format=session_format) as other:
            with pytest.raises(Exception, match="already owned by an active write handle"):
                await other.resume_agent("main", MODEL)
        await say(agent, "third")
    assert said(path) == ["first", "second", "third"]
    assert not list(root.rglob("*.tmp"))


async def test_a_file_that_was_exchanged_is_not_written_to(tmp_path: Path) -> None:
    """Nor does anything get lost: as soon as the other file is away, all of the session is there again."""
    async with talking(tmp_path) as (harness, agent, path):
        other = path.with_name("other")
        other.write_bytes(b"somebody else's")
        os.replace(other, path)
        await say(agent, "second")
        with pytest.raises(SessionPersistenceCorruptionError, match="was replaced by another file"):
            await harness.sessions.flush(agent.session)
        assert path.read_bytes() == b"somebody else's"
        path.rename(other)
        await harness.sessions.flush(agent.session)
        assert said(path) == ["first", "second"]


async def test_a_put_back_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(tmp_path) as (harness, agent, path):
        path.unlink()
        await say(agent, "second")

        def full(_: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", full)
            with pytest.raises(AppendFailedError, match="No space left"):
                await harness.sessions.flush(agent.session)
        assert [item.name for item in path.parent.iterdir()] == [LOCK_NAME]
        await harness.sessions.flush(agent.session)
        assert said(path) == ["first", "second"]


# -- links and pipes -------------------------------------------------------------------------------------------


async def test_links_to_a_root_and_to_a_session(tmp_path: Path) -> None:
    """They are followed, and have one lock; a link that leads nowhere, or round in a circle, hides no other session."""
    root = tmp_path / "root"
    async with talking(root):
        pass
    link = tmp_path / "link"
    link.symlink_to(root)
    project = root / "--workspace--"
    (project / "main").rename(tmp_path / "elsewhere")
    (project / "main").symlink_to(tmp_path / "elsewhere")
    (project / "nowhere").symlink_to(tmp_path / "gone")
    (project / "round").symlink_to(project / "round")
    async with stored(DISK, text("Again."), root=link) as one, stored(DISK, root=root) as two:
        agent = await one.resume_agent("main", MODEL)
        with pytest.raises(Exception, match="already owned by an active write handle"):
            await two.resume_agent("main", MODEL)
        assert two.persistence is not None
        assert [item.id for item in await two.persistence.list_sessions()] == ["main"]
        await say(agent, "second")
    assert said(tmp_path / "elsewhere" / "session.v4.jsonl.zstd") == ["first", "second"]


@pytest.mark.parametrize("name", ["session.v4.jsonl.zstd", LOCK_NAME])
async def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(name: str, tmp_path: Path) -> None:
    async with talking(tmp_path) as (_, _, path):
        pass
    path.with_name(name).unlink()
    os.mkfifo(path.with_name(name))
    with anyio.fail_after(10):
        async with stored(DISK, root=tmp_path) as harness:
            assert harness.persistence is not None
            listed = await harness.persistence.list_sessions()
            if name == LOCK_NAME:  # it locks as well as a file
                assert (await harness.resume_agent("main", MODEL)).id == listed[0].id
                return
            assert isinstance(listed[0].error, OSError)
            with pytest.raises(OSError, match="Not a regular file"):
                await harness.resume_agent("main", MODEL)


async def test_a_project_that_may_not_be_listed_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G22."""
    async with talking(tmp_path):
        pass
    (tmp_path / "--secret--").mkdir()

    def listed(folder: Path, usual: Callable[..., list[str]] = os.listdir) -> list[str]:
        if folder.name == "--secret--":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return usual(folder)

    monkeypatch.setattr(os, "listdir", listed)
    found = await SessionPersistence(tmp_path).list_sessions()
    assert [(item.id, type(item.error)) for item in found] == [(None, PermissionError), ("main", type(None))]


# -- names and clocks ------------------------------------------------------------------------------------------

ODD = ["a/b", "..", ".", "-", " ", "a\nb", "a\0b", "\u202e", "🧵", "\ud800", "~002E", "CON", "session.lock", "x" * 255]


@FORMATS
async def test_odd_names(session_format: int, tmp_path: Path) -> None:
    """Each session has a directory of its own inside of the root, and is found again."""
    async with stored(DISK, root=tmp_path, session_format=session_format) as harness:
        for name in ODD:
            agent = await harness.create_agent(name, MODEL, cwd=CWD)
            agent.inject(name)
        for name in ("x" * 256, "\n" * 52):
            with pytest.raises(ValueError, match="needs a directory name of"):
                await harness.create_agent(name, MODEL, cwd=CWD)
            with pytest.raises(SessionPersistenceNotFoundError):
                await harness.resume_agent(name, MODEL)
    assert {path.parent.parent.name for path in tmp_path.rglob("session*.zstd")} == {"--workspace--"}
    async with stored(DISK, root=tmp_path, session_format=session_format) as harness:
        assert harness.persistence is not None
        assert sorted(item.id or "" for item in await harness.persistence.list_sessions()) == sorted(ODD)
        for name in ODD:
            assert (await harness.resume_agent(name, MODEL)).id == name
    for path in tmp_path.rglob("session*.zstd"):
        assert check_file(path).verdict in ("clean", "warnings"), path


@FORMATS
async def test_a_clock_that_goes_back(session_format: int, tmp_path: Path) -> None:
    """The order of a log is its seq; times are what the clock said. The checker says so, and the log goes on."""
    clock = iter(range(10_000_000, 0, -997))

    async def life(*words: str) -> None:
        async with open_harness(
            session_format=session_format, now=lambda: next(clock), sessions_root=tmp_path
        ) as harness:
            harness.llm.register_adapter(["mock"], ScriptedAdapter([text("a", "b", "c")] * len(words)))
            create = harness.create_agent if not list(tmp_path.iterdir()) else harness.resume_agent
            agent = await create("main", MODEL)
            for each in words:
                await say(agent, each)

    await life("one", "two")
    await life("three")
    (path,) = tmp_path.glob("*/main/session*.zstd")
    times = [json.loads(json.dumps(row)).get("time") for row in rows(path.read_bytes())]
    known = [time for time in times if time is not None]
    assert known == sorted(known, reverse=True)
    assert said(path) == ["one", "two", "three"]
    report = check_file(path)
    assert {item.level for item in report.findings} == {"W"}, report.findings
    assert {item.rule for item in report.findings} == (
        {"S-LNT-19", "S-LNT-61"} if session_format == 4 else {"S-LNT-19"}
    )
