"""Sessions of format 0 change hands between our harness and the published packages, again and again.

Each life is a process of its own on their side and a harness of its own on ours. What one derives as model history
at the end of its life, the other derives when it opens the file: compared by value. Nothing here sleeps.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
import zstandard
from click.testing import CliRunner
from tests.interop.peer import Refused, converse, require_peer

from loopconform.check import Options, check_file
from loopconform.cli import main
from loopharness.agent import Agent, AgentOptions
from loopharness.frozen import thaw
from loopharness.gate import Gate
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import Response, ScriptedAdapter, reasoning, text, tool_calls
from loopharness.store.service import SessionPersistence
from loopharness.tools.registry import define_tool

MODEL = AgentOptions(provider="mock", model="m1")
PERSONA = "You are a test agent."
ODD_TEXT = "line one\nline two \u2028 \u2029 \u0085 \x00 «ümläut» 世界 🧵 \ud83d"
LOOK = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
SCRIPT: tuple[Response, ...] = (
    reasoning("hm", "Thought about it."),
    tool_calls(("c1", "look", {"what": "one"}), ("c2", "look", {"what": "two"}), say="Looking."),
    text("Both ", "are ", "there: ", ODD_TEXT),
)
"""Two turns: an answer with reasoning, then two calls and an answer."""
TURNS = ("Think.", f"Look twice. {ODD_TEXT}")
Compression = Literal["zstd", "none"]


def file_of(root: Path) -> Path:
    (found,) = root.glob("*/*/session.jsonl*")
    return found


def rows_of(root: Path) -> list[Any]:
    """The rows of the stored session, without times; read without any code of ours."""
    path = file_of(root)
    content = path.read_bytes()
    if path.suffix == ".zstd":
        content = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True).read()
    return [
        {key: value for key, value in json.loads(line).items() if key not in ("time", "time0", "dt")}
        for line in content.split(b"\n")[:-1]
    ]


def must_be_clean(root: Path) -> None:
    """No finding at all in what the two have written together."""
    report = check_file(file_of(root), Options(profile="dsh-0.1"))
    assert report.verdict == "clean", report.findings


class Life:
    """One life of a session on our harness."""

    def __init__(self, root: Path, compression: Compression = "zstd") -> None:
        self.root = root
        self.compression = compression
        self.opened: list[Any] = []
        self.messages: list[Any] = []
        self.last_turn = 0
        self.events = 0

    def run(self, turns: Sequence[str], script: Sequence[Response], *, create: bool = False) -> Life:
        """Open or create the session `main`, take the turns, and end in an orderly way."""
        anyio.run(self._run, turns, script, create)
        return self

    async def _run(self, turns: Sequence[str], script: Sequence[Response], create: bool) -> None:
        async with _harness(self.root, self.compression, script) as harness:
            agent = await self._begin(harness, create)
            self.opened = thaw(agent.session.messages)
            for said in turns:
                agent.followup(said)
                await agent.when_idle()
            self.messages = thaw(agent.session.messages)
            self.last_turn = agent.session.last_turn
            self.events = len(agent.session.events)

    async def _begin(self, harness: Harness, create: bool) -> Agent:
        if create:
            return await harness.create_agent("main", MODEL, cwd="/workspace")
        return await harness.resume_agent("main", MODEL)


@asynccontextmanager
async def _harness(
    root: Path, compression: Compression, script: Sequence[Response], gate: Gate | None = None
) -> AsyncIterator[Harness]:
    """A harness with model and tool, the way the other side has them. The gate holds every tool body."""
    persistence = SessionPersistence(root, compression=compression)
    async with open_harness(session_format=0, persona=PERSONA, persistence=persistence) as harness:
        harness.llm.register_adapter(["mock"], ScriptedAdapter(script))

        async def look(arguments: dict[str, Any]) -> str:
            if gate is not None:
                await gate.enter()
            return f"found {arguments['what']}"

        harness.tools.register(define_tool("look", "Looks something up.", LOOK, look), harness.context)
        yield harness


def theirs(home: Path, root: Path, compression: Compression, **job: Any) -> dict[str, Any]:
    return converse(home, root=str(root), compression=compression, session="main", cwd="/workspace", **job)


def chunks() -> list[Any]:
    return [thaw(list(response)) for response in SCRIPT]


@pytest.mark.parametrize("compression", ["zstd", "none"])
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_session_changes_hands_six_times(first: str, compression: Compression, tmp_path: Path) -> None:
    home = require_peer()
    left_behind: list[Any] = []
    for life in range(6):
        if (first == "ours") == (life % 2 == 0):
            ours = Life(tmp_path, compression).run(TURNS, SCRIPT, create=life == 0)
            opened, messages, turn = ours.opened, ours.messages, ours.last_turn
        else:
            verb = "create" if life == 0 else "resume"
            answer = theirs(home, tmp_path, compression, verb=verb, turns=list(TURNS), responses=chunks())
            opened, messages, turn = answer["opened"], answer["messages"], answer["lastTurn"]
        assert len(messages) == 7 * (life + 1)
        assert opened == left_behind
        assert turn == 2 * (life + 1)
        left_behind = messages
        must_be_clean(tmp_path)
    assert left_behind[-1]["content"][-1]["text"].endswith(ODD_TEXT)


def test_they_are_killed_in_a_tool_and_we_take_over(tmp_path: Path) -> None:
    """Our closers are those that they would have written themselves, row for row."""
    home = require_peer()
    kept, copy = tmp_path / "kept", tmp_path / "copy"
    job = {"turns": [TURNS[1]], "responses": chunks()[1:], "stop": "tool", "checkpoints": True}
    theirs(home, kept, "zstd", verb="create", **job)
    shutil.copytree(kept, copy)
    by_them = theirs(home, copy, "zstd", verb="resume")
    by_us = Life(kept).run([], [])
    assert by_us.opened == by_them["opened"]
    assert rows_of(kept) == rows_of(copy)
    results = [message for message in by_us.opened if message["source"]["kind"] == "tool"]
    assert [result["source"]["callId"] for result in results] == ["c1", "c2"]
    again = theirs(home, kept, "zstd", verb="resume", turns=["Go on."], responses=[thaw(list(text("Gone on.")))])
    assert again["opened"] == by_us.messages
    must_be_clean(kept)


def test_we_are_killed_in_a_tool_and_they_take_over(tmp_path: Path) -> None:
    home = require_peer()
    live, copy, ours = tmp_path / "live", tmp_path / "copy", tmp_path / "ours"

    async def until_the_tool() -> None:
        gate = Gate()
        async with _harness(live, "zstd", SCRIPT[1:], gate) as harness:
            agent = await harness.create_agent("main", MODEL, cwd="/workspace")
            agent.followup(TURNS[1])
            await gate.reached()
            shutil.copytree(live, copy)  # what a killed process leaves
            shutil.copytree(live, ours)
            gate.open()

    anyio.run(until_the_tool)
    by_us = Life(ours).run([], [])
    by_them = theirs(home, copy, "zstd", verb="resume")
    assert by_them["opened"] == by_us.opened
    assert rows_of(ours) == rows_of(copy)
    must_be_clean(copy)
    back = Life(copy).run(["Go on."], [text("Gone on.")])
    assert back.opened == by_them["messages"]
    must_be_clean(copy)


@pytest.mark.parametrize("parent", ["ours", "theirs"])
def test_a_fork_from_the_command_line_goes_on_with_them(parent: str, tmp_path: Path) -> None:
    """`loopspec fork` of either side's session: they derive the history up to there, talk, and we take up the rest."""
    home = require_peer()
    if parent == "ours":
        Life(tmp_path / "old").run(TURNS, SCRIPT, create=True)
    else:
        theirs(home, tmp_path / "old", "zstd", verb="create", turns=list(TURNS), responses=chunks())
    root = tmp_path / "new"
    fork = ("fork", file_of(tmp_path / "old"), "--turn", 1, "--id", "child", "--out", root)
    made = CliRunner().invoke(main, [str(word) for word in fork])
    assert made.exit_code == 0, made.output
    must_be_clean(root)
    job = {"verb": "resume", "turns": ["Go on."], "responses": [thaw(list(text("Gone on.")))]}
    answer = converse(home, root=str(root), compression="zstd", session="child", cwd="/workspace", **job)
    assert [message["role"] for message in answer["opened"]][-2:] == ["user", "assistant"]
    assert (len(answer["messages"]), answer["lastTurn"]) == (len(answer["opened"]) + 2, 2)
    must_be_clean(root)

    async def again() -> list[Any]:
        async with _harness(root, "zstd", []) as harness:
            agent = await harness.resume_agent("child", MODEL)
            assert agent.session.header["parentSession"] == "main"
            return list(thaw(agent.session.messages))

    assert anyio.run(again) == answer["messages"]


def test_they_refuse_what_format_4_wrote_and_do_not_touch_it(tmp_path: Path) -> None:
    home = require_peer()

    async def write() -> None:
        async with open_harness(session_format=4, sessions_root=tmp_path) as harness:
            harness.llm.register_adapter(["mock"], ScriptedAdapter([text("Hello.")]))
            agent = await harness.create_agent("main", MODEL, cwd="/workspace")
            agent.followup("Hi.")
            await agent.when_idle()

    anyio.run(write)
    (path,) = tmp_path.glob("*/*/session.v4.jsonl.zstd")
    content = path.read_bytes()
    with pytest.raises(Refused, match="not found"):
        theirs(home, tmp_path, "zstd", verb="resume")
    assert path.read_bytes() == content
