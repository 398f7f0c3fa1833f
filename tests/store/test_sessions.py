"""Sessions that end and begin again: resume, fork, migration, locks, lists. On the real disk where that matters."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.store.support import (
    CWD,
    MODEL,
    REAL,
    ROOT,
    SHARED,
    log_of,
    must_be_legal,
    must_be_legal_file,
    rows,
    stored,
    types,
)

from loopconform.check import check_file
from loopharness.frozen import thaw
from loopharness.gate import Gate
from loopharness.harness import open_harness
from loopharness.model.scripted import ScriptedAdapter, text, tool_calls
from loopharness.store.errors import (
    AppendFailedError,
    SessionAlreadyExistsError,
    SessionAlreadyOwnedError,
    SessionForkError,
    SessionFormatUnsupportedError,
    SessionPersistenceCorruptionError,
    SessionPersistenceNotFoundError,
)
from loopharness.store.files import DISK
from loopharness.store.layout import LOCK_NAME
from loopharness.store.memory import MemoryFiles
from loopharness.store.service import SessionPersistence

pytestmark = pytest.mark.anyio

ONCE = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""What is tried takes place on a disk or in another process, so one backend is enough."""

FORMATS = pytest.mark.parametrize("session_format", [0, 4])


# -- resume ----------------------------------------------------------------------------------------------------


@FORMATS
async def test_a_session_goes_on_where_it_was(session_format: int) -> None:
    """C-RES-10 to C-RES-12: header, history, turn numbers; one marker for each life that added something."""
    files = MemoryFiles()
    async with stored(files, text("One."), session_format=session_format) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.followup("First.")
        await agent.when_idle()
        header, messages = agent.session.header, thaw(agent.session.messages)
        length = len(agent.session.events)
    for _ in range(2):  # the second untouched life adds no marker
        async with stored(files, session_format=session_format) as harness:
            agent = await harness.resume_agent("main", MODEL)
            assert agent.status == "idle"
            assert len(agent.session.events) == length + 1
            assert agent.session.events[-1]["type"] == "session/end-seed"
            assert agent.session.events[-1]["data"] == {}
    async with stored(files, text("Two."), session_format=session_format) as harness:
        agent = await harness.resume_agent("main", MODEL)
        assert agent.session.header == header
        assert thaw(agent.session.messages) == messages
        agent.followup("Second.")
        await agent.when_idle()
        assert agent.session.last_turn == 2
        reasons = [e["data"]["reason"] for e in agent.session.events if e["type"] == "request/header"]
        assert reasons == ["initial", "resume"]
    must_be_legal_file(log_of(files))


@FORMATS
async def test_what_waited_in_the_inbox_of_a_dead_process_waits_again(session_format: int) -> None:
    """S-INB-8, C-INB-2: it survives a crash, nobody is woken by it, and it runs first."""
    files = MemoryFiles()
    async with stored(files, session_format=session_format) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("waiting")
        await harness.sessions.flush(agent.session)
        after = files.reborn()
    async with stored(after, text("Now."), session_format=session_format) as harness:
        agent = await harness.resume_agent("main", MODEL)
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        assert agent.status == "idle"
        assert [m["content"][0]["text"] for m in agent.inbox.next_step] == ["waiting"]
        agent.followup("go")
        await agent.when_idle()
        assert [m["content"][0]["text"] for m in agent.session.messages if m["role"] == "user"] == ["waiting", "go"]
    async with stored(files, session_format=session_format) as harness:  # the orderly end has cancelled it
        agent = await harness.resume_agent("main", MODEL)
        assert agent.inbox.next_step == ()


@FORMATS
async def test_the_restart_marker_is_durable_before_the_agent_is_handed_out(session_format: int) -> None:
    files = MemoryFiles()
    async with stored(files, session_format=session_format) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("x")
    async with stored(files, session_format=session_format) as harness:
        await harness.resume_agent("main", MODEL)
        assert rows(log_of(files))[-1]["type"] == "session/end-seed"


async def test_repair_and_marker_are_not_published() -> None:
    """C-RPR-6."""
    files = MemoryFiles()
    gate = Gate()
    async with stored(files, tool_calls(("c1", "look", {"what": "a"})), text("x"), gates={"a": gate}) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.followup("Look.")
        await gate.reached()
        await harness.sessions.flush(agent.session)
        after = files.reborn()
        gate.open()
    heard: list[str] = []
    async with stored(after) as harness:
        harness.on("session/event", lambda session, event: heard.append(event["type"]))
        await harness.resume_agent("main", MODEL)
        assert heard == []


async def test_a_resume_without_persistence_says_so() -> None:
    async with open_harness() as harness:
        with pytest.raises(RuntimeError, match="cannot resume: session persistence is not configured"):
            await harness.resume_agent("main")


async def test_an_impossible_inbox_splice_fails_the_resume_and_frees_the_session() -> None:
    """C-INB-5, C-RES-13."""
    files = MemoryFiles()
    async with stored(files, session_format=0) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("x")
    splice = {"target": "next-turn", "start": 3, "inserted": []}
    from loopharness.store.rows import batch_text, frame

    (path,) = [path for path in files.paths() if ".jsonl" in path.name]
    event = {"type": "agent/inbox/spliced", "seq": 2, "time": 1000, "data": splice}
    files.put(path, files.content(path) + frame(batch_text([event], 0)))
    async with stored(files, session_format=0) as harness:
        for _ in range(2):
            with pytest.raises(ValueError, match="invalid persisted inbox splice at session seq 2"):
                await harness.resume_agent("main", MODEL)
        assert harness.sessions.list() == []


# -- who owns a session (K21, K44) -------------------------------------------------------------------------------


async def test_a_live_session_is_neither_resumed_nor_created_again() -> None:
    """K44: three answers for three states; the live one is untouched, and so is its open turn (C-RES-6)."""
    files, gate = MemoryFiles(), Gate()
    script = (tool_calls(("c1", "look", {"what": "a"})), text("Done."))
    async with stored(files, *script, gates={"a": gate}, checkpoints=True) as harness:
        agent = await harness.create_agent("a", MODEL, cwd=CWD)
        agent.followup("Look.")
        await gate.reached()
        before = log_of(files, "a")
        with pytest.raises(SessionAlreadyOwnedError, match="cannot prepare") as live:
            await harness.resume_agent("a", MODEL)
        assert str(live.value) == 'cannot prepare session "a" while it is live'
        assert live.value.__notes__
        with pytest.raises(SessionAlreadyExistsError, match='session "a" already exists'):
            await harness.create_agent("a", MODEL, cwd=CWD)
        assert log_of(files, "a") == before
        assert harness.persistence is not None
        seen = await harness.persistence.inspect("a")
        assert seen.closers == 3, "reading is allowed, and shows the closers that a resume would write"
        gate.open()
        await agent.when_idle()
        await harness.dispose_agent(agent)
        with pytest.raises(SessionAlreadyExistsError):
            await harness.create_agent("a", MODEL, cwd=CWD)
        again = await harness.resume_agent("a", MODEL)
        assert again.session.last_turn == 1


async def test_two_resumes_at_once_give_one_agent() -> None:
    """C-RES-7."""
    files = MemoryFiles()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("x")
    outcomes: list[object] = []
    async with stored(files) as harness:

        async def resume() -> None:
            try:
                outcomes.append(await harness.resume_agent("main", MODEL))
            except SessionAlreadyOwnedError as error:
                outcomes.append(str(error))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(resume)
    texts = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert texts == ['cannot prepare session "main" while it is live'] * 2


OTHER_PROCESS = """
import sys, anyio
from loopharness.harness import open_harness

async def main():
    async with open_harness(session_format=int(sys.argv[2]), sessions_root=sys.argv[1]) as harness:
        await harness.resume_agent("main")
        print("held", flush=True)
        sys.stdin.readline()

anyio.run(main)
"""


@ONCE
@FORMATS
async def test_another_process_is_refused_by_the_lock(session_format: int, tmp_path: Path) -> None:
    """S-DSK-35, K21: for the life of the handle, and with the holder's name; reading stays possible."""
    async with stored(DISK, root=tmp_path, session_format=session_format) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("x")
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path), str(session_format)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    try:
        async with stored(DISK, root=tmp_path, session_format=session_format) as harness:
            holder = rf"is already owned by an active write handle: process {other.pid}\. Close it there first"
            with pytest.raises(SessionAlreadyOwnedError, match=holder):
                await harness.resume_agent("main", MODEL)
            assert harness.persistence is not None
            assert (await harness.persistence.inspect("main")).events
            assert len(await harness.persistence.list_sessions()) == 1
    finally:
        other.communicate("\n")
    async with stored(DISK, root=tmp_path, session_format=session_format) as harness:
        assert await harness.resume_agent("main", MODEL)


@ONCE
async def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    async with stored(DISK, root=tmp_path) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("x")
    command = [sys.executable, "-c", OTHER_PROCESS, str(tmp_path), "4"]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    other.kill()
    other.communicate()
    async with stored(DISK, root=tmp_path) as harness:
        assert await harness.resume_agent("main", MODEL)


async def test_two_fresh_sessions_of_one_id_end_in_one_file() -> None:
    """Two processes, one disk: the second one's first flush is refused, the first file is untouched (S-DSK-30)."""
    files = MemoryFiles()
    async with stored(files) as one, stored(files) as two:
        first = await one.create_agent("main", MODEL, cwd=CWD)
        second = await two.create_agent("main", MODEL, cwd=CWD)
        first.inject("first")
        second.inject("second")
        await one.sessions.flush(first.session)
        with pytest.raises(SessionAlreadyOwnedError):
            await two.sessions.flush(second.session)
        await one.dispose_agent(first)
        with pytest.raises(SessionAlreadyExistsError, match=r"\(id collision\)"):
            await two.sessions.flush(second.session)
        with pytest.raises(SessionAlreadyExistsError):
            await two.dispose_agent(second)
    assert "first" in json.dumps(rows(log_of(files)))
    assert "second" not in json.dumps(rows(log_of(files)))


async def test_what_a_failed_disposal_could_not_write_is_said() -> None:
    files = MemoryFiles()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("x")
        files.fail_next["create file"] = OSError(28, "No space left on device")
        with pytest.raises(AppendFailedError, match="No space left"):
            await harness.dispose_agent(agent)
        assert harness.sessions.list() == [], "it is detached all the same"


async def test_what_was_said_is_stored_when_the_block_raises() -> None:
    files = MemoryFiles()

    async def broken() -> None:
        async with stored(files, text("Hello.")) as harness:
            agent = await harness.create_agent("main", MODEL, cwd=CWD)
            agent.followup("Hi.")
            await agent.when_idle()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await broken()
    assert types(rows(log_of(files)))[-1] == "turn/end"


# -- lists -------------------------------------------------------------------------------------------------------


async def test_one_unreadable_session_hides_no_other(tmp_path: Path) -> None:
    """G22, on a real disk: garbage, a wrong suffix, a foreign header, an empty directory, a stray file."""
    async with stored(DISK, root=tmp_path) as harness:
        for name in ("good", "bad", "other"):
            agent = await harness.create_agent(name, MODEL, cwd=CWD)
            agent.inject("x")
    project = tmp_path / "--workspace--"
    (project / "bad" / "session.v4.jsonl.zstd").write_bytes(b"garbage, not zstd")
    (project / "plain").mkdir()
    (project / "plain" / "session.v4.jsonl").write_bytes(b"{}\n")
    shutil.copytree(project / "other", project / "moved")
    (project / "empty").mkdir()
    (tmp_path / "stray.txt").write_text("x")
    async with stored(DISK, root=tmp_path) as harness:
        assert harness.persistence is not None
        listed = await harness.persistence.list_sessions()
        assert [item.id for item in listed if item.error is None] == ["good", "other"]
        assert sorted(item.path.name for item in listed if item.error is not None) == ["bad", "moved", "plain"]
        for item in listed:
            assert (item.header is None) != (item.error is None)
            assert item.error is None or isinstance(item.error, SessionPersistenceCorruptionError)
        assert await harness.resume_agent("good", MODEL)


async def test_no_root_is_an_empty_list(tmp_path: Path) -> None:
    async with stored(DISK, root=tmp_path / "nowhere") as harness:
        assert harness.persistence is not None
        assert await harness.persistence.list_sessions() == []
        with pytest.raises(SessionPersistenceNotFoundError):
            await harness.resume_agent("main", MODEL)
    assert not (tmp_path / "nowhere").exists()


@FORMATS
async def test_names_and_modes_on_disk(session_format: int, tmp_path: Path) -> None:
    """S-DSK-1, S-DSK-7."""
    os.umask(0o022)
    root = tmp_path / "root"
    async with stored(DISK, root=root, session_format=session_format) as harness:
        agent = await harness.create_agent("a/b", MODEL, cwd=CWD)
        agent.inject("x")
    name = "session.v4.jsonl.zstd" if session_format == 4 else "session.jsonl.zstd"
    found = {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in root.rglob("*")}
    assert found == {
        "--workspace--": 0o700,
        "--workspace--/a~002Fb": 0o700,
        f"--workspace--/a~002Fb/{name}": 0o600,
        f"--workspace--/a~002Fb/{LOCK_NAME}": 0o600,
    }
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


# -- fork --------------------------------------------------------------------------------------------------------


@FORMATS
async def test_a_fork_is_a_session_of_its_own(session_format: int) -> None:
    """C-FRK-4, S-FRK-4 to S-FRK-7: prefix, lineage, marker; then both go their own ways, also after a resume."""
    files = MemoryFiles()
    async with stored(files, *[text(f"{n}.") for n in range(9)], session_format=session_format) as harness:
        agent = await harness.create_agent("parent", MODEL, cwd=CWD)
        for said in ("one", "two"):
            agent.followup(said)
            await agent.when_idle()
        boundary = next(e["seq"] for e in agent.session.events if e["type"] == "turn/end")
        child = await harness.fork_agent("parent", boundary, "child", MODEL)
        assert child.session.events[: boundary + 1] == agent.session.events[: boundary + 1]
        marker = child.session.events[boundary + 1]
        assert marker["type"] == "session/end-seed"
        assert len(child.session.events) == boundary + 2
        header = child.session.header
        assert (header["parentSession"], header["cwd"], header["delegationDepth"]) == ("parent", CWD, 0)
        if session_format == 0:
            assert header["seedLength"] == boundary + 1
            assert marker["data"] == {}
        else:
            assert header["isSeeded"] is True
            assert marker["data"] == {"inherited": True}
            assert marker["time"] == agent.session.events[boundary]["time"]
        child.followup("three")
        await child.when_idle()
        assert child.session.last_turn == 2
    async with stored(files, text("x"), session_format=session_format) as harness:
        again = await harness.resume_agent("child", MODEL)
        assert len(again.session.messages) == len(child.session.messages)
        grandchild = await harness.fork_agent(again.session, child_id="grandchild", options=MODEL)
        assert grandchild.session.header["parentSession"] == "child"
    for name in ("parent", "child", "grandchild"):
        must_be_legal_file(log_of(files, name))


@FORMATS
async def test_a_fork_that_nobody_named(session_format: int) -> None:
    """C-ID-5: `session-<n>`, and none that is live; nor one that an earlier process has stored (C-RES-9)."""
    files = MemoryFiles()
    async with stored(files, text("One."), session_format=session_format) as harness:
        agent = await harness.create_agent("session-2", MODEL, cwd=CWD)
        agent.followup("Hi.")
        await agent.when_idle()
        assert [(await harness.fork_agent(agent.session, options=MODEL)).id for _ in range(2)] == [
            "session-1",
            "session-3",
        ]
    async with stored(files, session_format=session_format) as harness:
        again = await harness.resume_agent("session-1", MODEL)
        child = await harness.fork_agent(again.session, options=MODEL)
        assert (child.id, child.session.header["parentSession"]) == ("session-4", "session-1")
    async with open_harness(session_format=session_format) as harness:
        alone = await harness.create_agent("main", MODEL)
        assert (await harness.fork_agent(alone.session, options=MODEL)).id == "session-1"


@FORMATS
async def test_what_a_fork_refuses(session_format: int) -> None:
    """C-FRK-2, in that order."""
    files, gate = MemoryFiles(), Gate()
    script = (tool_calls(("c1", "look", {"what": "a"})), text("Done."))
    async with stored(files, *script, session_format=session_format, gates={"a": gate}) as harness:
        agent = await harness.create_agent("parent", MODEL, cwd=CWD)
        agent.followup("Look.")
        await gate.reached()
        last = len(agent.session.events) - 1
        refusals: list[tuple[tuple[Any, ...], str, str]] = [
            (("nobody", None, "parent"), "SESSION_ALREADY_EXISTS", 'session "parent" already exists'),
            (("nobody", -1), "SESSION_NOT_FOUND", 'session "nobody" not found'),
            (("parent", -1), "INVALID_BOUNDARY", "must be a non-negative safe integer, got -1"),
            (("parent", True), "INVALID_BOUNDARY", "must be a non-negative safe integer, got True"),
            (("parent", last + 1), "INVALID_BOUNDARY", f'does not exist in session "parent" (last seq: {last})'),
        ]
        if session_format == 0:
            refusals.append((("parent", last), "OPEN_TURN", f'fork boundary {last} in session "parent" ends inside'))
        for arguments, code, words in refusals:
            with pytest.raises(SessionForkError, match=re.escape(words)) as refusal:
                await harness.fork_agent(*arguments)
            assert refusal.value.code == code
        gate.open()
        await agent.when_idle()
        gone = agent.session
        await harness.dispose_agent(agent)
        with pytest.raises(SessionForkError, match="is not the live store instance") as refusal:
            await harness.fork_agent(gone)
        assert refusal.value.code == "SESSION_NOT_LIVE"


async def test_a_fork_in_an_open_turn_is_closed_in_the_child() -> None:
    """S-FRK-5, format 4: closers of the kind `forked`; the parent works on."""
    files, gate = MemoryFiles(), Gate()
    script = (tool_calls(("c1", "look", {"what": "a"}), ("c2", "look", {"what": "b"})), text("Done."), text("Child."))
    async with stored(files, *script, gates={"a": gate}) as harness:
        agent = await harness.create_agent("parent", MODEL, cwd=CWD)
        agent.followup("Look.")
        await gate.reached()
        child = await harness.fork_agent(agent.session, child_id="child", options=MODEL)
        tail = child.session.events[len(agent.session.events) :]
        assert types(tail) == ["session/end-seed", "tool/result", "tool/result", "step/end", "turn/end"]
        assert tail[-1]["data"]["reason"] == {"kind": "forked"}
        assert [e["data"]["message"]["id"] for e in tail[1:3]] == [
            f"forked-tool-result-{call}-{e['seq']}" for call, e in zip(("c1", "c2"), tail[1:3], strict=True)
        ]
        gate.open()
        await agent.when_idle()
        assert agent.session.events[-1]["data"]["reason"] == {"kind": "completed"}
        child.followup("Go on.")
        await child.when_idle()
    must_be_legal_file(log_of(files, "child"))


# -- migration ---------------------------------------------------------------------------------------------------


@ONCE
@pytest.mark.parametrize("path", sorted(REAL.glob("*.jsonl.zstd")), ids=lambda path: path.name)
async def test_real_format_0_sessions_go_on_as_format_4(path: Path, tmp_path: Path) -> None:
    """S-MIG-1: published when opened for writing, header frame and one body frame; the old file stays as it was."""
    content = path.read_bytes()
    session_id, cwd = _identity(content)
    files = MemoryFiles()
    folder = ROOT / "--workspace--" / session_id
    assert cwd == CWD
    files.put(folder / "session.jsonl.zstd", content)
    async with stored(files, text("Go on."), session_format=4) as harness:
        assert harness.persistence is not None
        seen = await harness.persistence.inspect(session_id, 4)
        assert files.paths() == [folder / "session.jsonl.zstd"], "reading writes nothing"
        agent = await harness.resume_agent(session_id, MODEL)
        migrated = files.content(folder / "session.v4.jsonl.zstd")
        assert tuple(agent.session.events[: len(seen.events)]) == seen.events
        agent.followup("And?")
        await agent.when_idle()
    assert files.content(folder / "session.jsonl.zstd") == content
    body = 1 if seen.events else 0
    marker = 0 if seen.events and seen.events[-1]["type"] == "session/end-seed" else 1
    assert migrated.count(b"\x28\xb5\x2f\xfd") == 1 + body + marker
    assert not [name for name in files.paths() if name.suffix == ".tmp"]
    header, *events = rows(files.content(folder / "session.v4.jsonl.zstd"))
    must_be_legal(header, events)
    (tmp_path / "log.jsonl.zstd").write_bytes(files.content(folder / "session.v4.jsonl.zstd"))
    report = check_file(tmp_path / "log.jsonl.zstd")
    assert report.verdict in ("clean", "warnings"), report.findings
    async with stored(files, session_format=4) as harness:
        again = await harness.resume_agent(session_id, MODEL)
        assert again.session.header["version"] == 4
    async with stored(files, session_format=0) as harness:
        with pytest.raises(SessionFormatUnsupportedError, match="session_format 4"):
            await harness.resume_agent(session_id, MODEL)


def _identity(content: bytes) -> tuple[str, str]:
    import zstandard

    header = json.loads(zstandard.ZstdDecompressor().decompressobj().decompress(content))
    return header["id"], header["cwd"]


async def test_a_format_3_session_goes_on_as_format_4() -> None:
    source = SHARED / "old-formats" / "slice-v3-session.v3.jsonl"
    if not source.exists():
        pytest.skip("the corpus of old formats is not on this machine")
    content = source.read_bytes()
    old = rows(content)
    files = MemoryFiles()
    files.put(ROOT / "_no-cwd" / old[0]["id"] / "session.v3.jsonl", content)
    async with stored(files, text("Go on."), compression="none") as harness:
        agent = await harness.resume_agent(old[0]["id"], MODEL)
        kinds = {m["source"]["kind"] for m in agent.session.messages}
        assert kinds == {"system-prompt", "user", "model", "plugin:slice:history", "runtime-context"}
        agent.followup("And?")
        await agent.when_idle()
    (path,) = [path for path in files.paths() if "v4" in path.name]
    new = rows(files.content(path))
    must_be_legal(new[0], new[1:])
    assert [row["seq"] for row in new[1 : len(old)]] == [row["seq"] for row in old[1:]], "nothing has moved (S-MIG-3)"
    results = [row["data"]["message"] for row in new if row["type"] == "tool/result"]
    assert {message["role"] for message in results} == {"tool"}
    assert files.content(ROOT / "_no-cwd" / old[0]["id"] / "session.v3.jsonl") == content


@ONCE
async def test_a_migration_that_dies_is_made_again() -> None:
    content = (REAL / "03-tools-parallel.jsonl.zstd").read_bytes()
    session_id, _ = _identity(content)
    folder = ROOT / "--workspace--" / session_id
    for stop in range(1, 7):
        files = MemoryFiles(stop, partial=100)
        files.put(folder / "session.jsonl.zstd", content)
        async with stored(files) as harness:
            with pytest.raises(OSError, match=r"dead|killed"):
                await harness.resume_agent(session_id, MODEL)
        for crash in ("process", "power"):
            left = files.reborn(crash)
            async with stored(left, text("x")) as harness:
                agent = await harness.resume_agent(session_id, MODEL)
                assert agent.session.last_turn == 1
            assert not [path for path in left.paths() if path.suffix == ".tmp"]


# -- the guide's commands ----------------------------------------------------------------------------------------


@FORMATS
async def test_the_commands_of_the_guide_show_the_session(session_format: int, tmp_path: Path) -> None:
    """Guide, section 13, as written there for format 0; format 4 has its own file name (S-DSK-6)."""
    for tool in ("zstdcat", "jq"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed (Debian packages zstd and jq)")
    root = tmp_path / ".dsh" / "sessions"
    script = (tool_calls(("c1", "look", {"what": "a"})), text("Done."))
    async with stored(DISK, *script, root=root, session_format=session_format) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.followup("Look.")
        await agent.when_idle()
        length = len(agent.session.events)
    name = "session.v4.jsonl.zstd" if session_format == 4 else "session.jsonl.zstd"

    def shell(command: str) -> list[str]:
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.replace("session.jsonl.zstd", name)],
            env=environment,
            capture_output=True,
            check=True,
        )
        return done.stdout.decode().split("\n")[:-1]

    tail = shell("zstdcat ~/.dsh/sessions/*/*/session.jsonl.zstd | tail -30")
    assert json.loads(tail[-1])["type"] == "turn/end"
    picked = shell(
        "zstdcat ~/.dsh/sessions/*/*/session.jsonl.zstd "
        """| jq -r 'select(.type | test("turn/|step/|assistant/message|tool/call|tool/result")) """
        """| [.type, (.seq|tostring)] | @tsv'"""
    )
    assert [line.split("\t")[0] for line in picked] == [
        "turn/start",
        *["step/start", "assistant/message", "tool/call", "tool/result", "step/end"],
        *["step/start", "assistant/message", "step/end", "turn/end"],
    ]
    assert int(picked[-1].split("\t")[1]) == length - 1
    found = shell('zstdcat ~/.dsh/sessions/*/*/session.jsonl.zstd | grep -E "agent/" | head')
    assert {json.loads(line)["type"] for line in found} == {"agent/inbox/spliced"}


async def test_a_service_that_is_not_mounted_says_so() -> None:
    files = MemoryFiles()
    async with stored(files) as harness:
        agent = await harness.create_agent("main", MODEL, cwd=CWD)
        agent.inject("x")
    with pytest.raises(RuntimeError, match="not mounted"):
        await SessionPersistence(ROOT, files=files).open("main", 4)
    async with open_harness(sessions_root=None) as harness:
        assert harness.persistence is None
        harness.llm.register_adapter(["mock"], ScriptedAdapter([]))
