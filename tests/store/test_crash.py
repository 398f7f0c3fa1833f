"""A crash at every byte of the file and at every operation of the writer: resume is legal, and what a flush had
confirmed is there.

Bounds: the scenarios below, every prefix of their compressed files, every operation of their writers, a write cut at
three places, death of the process and of the machine, and one further death at every operation of the resume. Plain
files are cut around every row end and at every eleventh byte. LOOPSPEC_DEEP=1 cuts every scenario in every encoding at
every byte.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import anyio
import pytest
from tests.store.support import CWD, MODEL, ROOT, log_of, must_be_legal, must_be_legal_file, rows, stored, types

from loopharness.gate import Gate
from loopharness.harness import Harness
from loopharness.model.scripted import Response, fail, reasoning, text, tool_calls
from loopharness.session import Session
from loopharness.store.errors import SessionPersistenceCorruptionError, SessionPersistenceError
from loopharness.store.layout import Compression, Layout
from loopharness.store.memory import Crash, MemoryFiles
from loopharness.store.opening import Opener
from loopharness.store.resume import continued

CALLS = tool_calls(("c1", "look", {"what": "a"}), ("c2", "look", {"what": "b"}), say="Looking.")


class Scenario(NamedTuple):
    """A script and what is done with the agent."""

    script: tuple[Response, ...]
    act: Callable[[Harness, Any], Awaitable[None]]


async def _talk(harness: Harness, agent: Any) -> None:
    agent.followup("First.")
    await agent.when_idle()
    agent.inject("By the way.")
    agent.followup("Second \u2028 «ü» 🧵.")
    await agent.when_idle()


async def _queue_and_cancel(harness: Harness, agent: Any) -> None:
    agent.followup("First.")
    agent.followup("Queued.")
    await agent.when_idle()
    agent.inject("Left over.")
    agent.cancel({"kind": "user"})
    agent.followup("Last.")
    await agent.when_idle()


SCENARIOS: dict[str, Scenario] = {
    "tools": Scenario((CALLS, text("Both ", "are ", "there."), text("Second.")), _talk),
    "failure": Scenario((reasoning("hm", "Well."), fail("no luck"), text("rest")), _queue_and_cancel),
}


class Life(NamedTuple):
    """What one life has left: its disk, its events in memory, and (events, bytes) of every confirmed flush."""

    files: MemoryFiles
    events: tuple[Any, ...]
    confirmed: list[tuple[int, int]]


async def live(
    name: str, session_format: int, files: MemoryFiles, compression: Compression = "zstd", *, resume: bool = False
) -> Life:
    """Play a scenario; a dead disk ends it early."""
    scenario, confirmed = SCENARIOS[name], [(0, 0)]
    events: tuple[Any, ...] = ()
    with suppress(SessionPersistenceError, OSError):
        async with stored(
            files, *scenario.script, session_format=session_format, compression=compression, checkpoints=True
        ) as harness:
            flush = harness.sessions.flush

            async def watched(session: Session) -> bool:
                length = len(session.events)
                answer = await flush(session)
                confirmed.append((length, len(log_of(files)) if length else 0))
                return answer

            harness.sessions.flush = watched  # type: ignore[method-assign]
            if resume:
                agent = await harness.resume_agent("main", MODEL)
                confirmed.append((len(agent.session.events), 0))
            else:
                agent = await harness.create_agent("main", MODEL, cwd=CWD)
            session = agent.session
            try:
                await scenario.act(harness, agent)
            finally:
                events = tuple(session.events)
    return Life(files, events, confirmed)


def play(
    name: str, session_format: int, files: MemoryFiles, compression: Compression = "zstd", *, resume: bool = False
) -> Life:
    """`live`, run on asyncio."""
    return anyio.run(partial(live, name, session_format, files, compression, resume=resume))


def cuts(content: bytes, compression: Compression) -> list[int]:
    """Where a file is cut."""
    every = range(len(content) + 1)
    if compression == "zstd" or os.environ.get("LOOPSPEC_DEEP"):
        return list(every)
    ends = [at for at, byte in enumerate(content) if byte == 10]
    near = {at + shift for at in ends for shift in (-1, 0, 1, 2)}
    return [at for at in every if at in near or at % 11 == 0]


CASES: list[tuple[str, int, Compression]] = [("tools", 0, "zstd"), ("tools", 4, "zstd"), ("failure", 0, "none")]
if os.environ.get("LOOPSPEC_DEEP"):
    CASES = [(name, version, kind) for name in SCENARIOS for version in (0, 4) for kind in ("zstd", "none")]


@pytest.mark.parametrize(("name", "session_format", "compression"), CASES)
def test_every_prefix_of_the_file_resumes(name: str, session_format: int, compression: Compression) -> None:
    """Cut at every byte. Before the first batch there is no file at all, so shorter ones may be refused."""
    life = play(name, session_format, MemoryFiles(), compression)
    content = log_of(life.files)
    (path,) = [path for path in life.files.paths() if ".jsonl" in path.name]
    first = min(size for _, size in life.confirmed if size)
    kept = set()
    for length in cuts(content, compression):
        files = MemoryFiles()
        files.put(path, content[:length])
        opener = Opener(Layout(ROOT, files, compression), files)
        try:
            opened = opener.open("main", session_format)
        except SessionPersistenceCorruptionError:
            assert length < first, f"a file of {length} bytes was refused"
            continue
        opened.log.close()
        promised = max(count for count, size in life.confirmed if size <= length)
        assert opened.events[:promised] == life.events[:promised], f"lost at byte {length}"
        state = (len(opened.events), opened.torn is None)
        if state in kept:
            continue
        kept.add(state)
        must_be_legal(opened.header, continued(opened.log.dialect, opened.events))
        again = opener.open("main", session_format)
        assert again.torn is None
        assert again.events[: len(opened.events)] == opened.events, "the repair was not durable"
    assert len(kept) > 4, "the cuts made no difference"


@pytest.mark.parametrize("crash", ["process", "power"])
@pytest.mark.parametrize("session_format", [0, 4])
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_writer_killed_at_any_operation_resumes(
    name: str, session_format: int, crash: Crash, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    whole = play(name, session_format, MemoryFiles())
    total = len(whole.files.operations)
    assert total > 20
    for stop in range(1, total + 1):
        for arrived in (0, 30, 200):
            if arrived and "write" not in whole.files.operations[stop - 1]:
                continue
            dying = play(name, session_format, MemoryFiles(stop, arrived))
            left = dying.files.reborn(crash)
            if not any(".jsonl" in path.name and path.suffix != ".tmp" for path in left.paths()):
                assert max(count for count, _ in dying.confirmed) == 0, "a confirmed session is gone"
                continue
            promised = max(count for count, _ in dying.confirmed)
            after = play(name, session_format, left, resume=True)
            assert after.events[:promised] == dying.events[:promised]
            assert after.events, f"not resumed after operation {stop}"
            must_be_legal_file(log_of(left))


@pytest.mark.parametrize("session_format", [0, 4])
def test_a_resume_killed_at_any_operation_is_resumed(session_format: int) -> None:
    """The repair of a crash inside a tool dies itself, at every operation, with and without the power."""
    torn = _killed_in_a_tool(session_format)
    probe = torn.reborn()
    play("tools", session_format, probe, resume=True)
    reference = rows(log_of(probe))
    count = next(at for at, row in enumerate(reference) if row["type"] == "session/end-seed")
    deaths: tuple[Crash, ...] = ("process", "power")
    for crash in deaths:
        for stop in range(1, 7):
            dying = torn.reborn()
            dying.stop_at, dying.partial = stop, 40
            play("tools", session_format, dying, resume=True)
            left = dying.reborn(crash)
            after = play("tools", session_format, left, resume=True)
            stored_rows = rows(log_of(left))
            assert after.events
            assert [_timeless(row) for row in stored_rows[: count + 1]] == [
                _timeless(row) for row in reference[: count + 1]
            ]
            must_be_legal_file(log_of(left))


def _timeless(row: Any) -> Any:
    return {key: value for key, value in row.items() if key != "time"}


def _killed_in_a_tool(session_format: int) -> MemoryFiles:
    """A disk on which c1 has its result, c2 has begun, and the last frame is torn."""
    files = MemoryFiles()
    snapshots: list[MemoryFiles] = []

    async def run() -> None:
        gate = Gate()
        async with stored(
            files, CALLS, text("Done."), session_format=session_format, checkpoints=True, gates={"b": gate}
        ) as harness:
            agent = await harness.create_agent("main", MODEL, cwd=CWD)
            agent.followup("Look.")
            await gate.reached()
            snapshots.append(files.reborn())
            gate.open()

    anyio.run(run)
    (left,) = snapshots
    (path,) = left.paths()
    left.put(path, left.content(path) + b"\x28\xb5\x2f\xfd\x04")
    return left


def test_the_closers_after_a_kill_in_a_tool() -> None:
    """K12, K19: c1 has its result; c2 was recorded as started, so its outcome is unknown. No body runs again."""
    for session_format in (0, 4):
        files = _killed_in_a_tool(session_format)
        bodies: list[str] = []

        async def run(
            files: MemoryFiles = files, session_format: int = session_format, bodies: list[str] = bodies
        ) -> None:
            async with stored(files, text("Go on."), session_format=session_format, bodies=bodies) as harness:
                agent = await harness.resume_agent("main", MODEL)
                tail = types(agent.session.events)[-5:]
                assert tail[1:] == ["tool/result", "step/end", "turn/end", "session/end-seed"]
                result = agent.session.events[-4]
                assert result["data"]["error"]["code"] == "TOOL_OUTCOME_UNKNOWN"
                assert result["sourceEventSeqs"] == (result["seq"] - 1,)
                agent.followup("And?")
                await agent.when_idle()
                assert agent.session.last_turn == 2

        anyio.run(run)
        assert bodies == []
