"""`loopspec fork`: children that are sound, know their parent and go on; what is refused, and with which code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.cli.test_run import EXAMPLES, loopspec

from loopconform.chat.journal import Journal
from loopconform.check import Options, check_file
from loopconform.exit_codes import Exit
from loopconform.stored import load_stored
from loopharness.agent import AgentOptions
from loopharness.harness import open_harness
from loopharness.model.scripted import ScriptedAdapter, text
from loopharness.store.files import DISK
from loopharness.store.layout import LOCK_NAME

FORMATS = pytest.mark.parametrize("version", [0, 4])


def parent(folder: Path, version: int, example: str = "tools", ending: str = ".jsonl") -> Path:
    path = folder / f"parent{ending}"
    if not path.exists():
        result = loopspec("run", EXAMPLES / f"{example}.yaml", "--format", version, "--out", path)
        assert result.exit_code == 0, result.output
    return path


def told(*arguments: object) -> dict[str, Any]:
    result = loopspec("fork", *arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    made: dict[str, Any] = json.loads(result.output)
    return made


@FORMATS
def test_every_place_gives_a_sound_child_or_a_reason(version: int, tmp_path: Path) -> None:
    """S-FRK-4, S-FRK-5: every seq of a conversation with tools; parent and child are checked together (S-LNT-91)."""
    path = parent(tmp_path, version)
    events = load_stored(path).events
    made = 0
    for seq in range(len(events)):
        out = tmp_path / f"child-{seq}.jsonl"
        result = loopspec("fork", path, "--at", seq, "--id", f"child-{seq}", "--out", out)
        in_turn = sum((e["type"] == "turn/start") - (e["type"] == "turn/end") for e in events[: seq + 1]) > 0
        if version == 0 and in_turn:
            assert (result.exit_code, out.exists()) == (Exit.BOUNDARY, False)
            assert "ends inside open turn" in result.output
            continue
        assert result.exit_code == 0, result.output
        child = load_stored(out)
        assert child.report.verdict in ("clean", "warnings"), (seq, child.report.findings)
        assert child.header is not None
        assert child.events[: seq + 1] == events[: seq + 1]
        assert (child.header["parentSession"], child.header["id"]) == ("tools", f"child-{seq}")
        made += 1
    assert made == (len(events) if version == 4 else 2)
    assert loopspec("check", tmp_path, "--no-progress").exit_code == 0


@FORMATS
def test_a_turn_names_its_end_and_a_child_goes_on(version: int, tmp_path: Path) -> None:
    path = parent(tmp_path, version, ending=".jsonl.zstd")
    child = told(path, "--turn", 1, "--id", "child", "--out", tmp_path / "child.jsonl")
    end = next(event["seq"] for event in load_stored(path).events if event["type"] == "turn/end")
    assert child["inherited"] == end + 1
    script = tmp_path / "more.yaml"
    script.write_text("resume: child.jsonl\nanswers: [Hello again.]\nsteps: [{followup: Hi}]")
    result = loopspec("run", script, "--out", tmp_path / "more.jsonl")
    assert result.exit_code == 0, result.output
    assert check_file(tmp_path / "more.jsonl").verdict == "clean"


@FORMATS
def test_a_store_takes_the_child_up(version: int, tmp_path: Path) -> None:
    """Below a root: place by working directory and id, a free id where none is given (C-ID-5), and it resumes."""
    path, root = parent(tmp_path, version), tmp_path / "root"
    made = [told(path, "--out", root) for _ in range(2)]
    assert [child["id"] for child in made] == ["session-1", "session-2"]
    assert loopspec("check", root, "--no-progress").exit_code == 0

    async def resume() -> int:
        async with open_harness(session_format=version, sessions_root=root) as harness:
            harness.llm.register_adapter(["mock"], ScriptedAdapter([text("Again.")]))
            agent = await harness.resume_agent("session-2", AgentOptions(provider="mock", model="m1"))
            agent.followup("Hi.")
            await agent.when_idle()
            return agent.session.last_turn

    assert anyio.run(resume) == 2
    assert loopspec("check", root, "--no-progress").exit_code == 0


def test_a_child_of_a_child_keeps_the_markers(tmp_path: Path) -> None:
    """S-FRK-6."""
    path = parent(tmp_path, 4)
    told(path, "--id", "child", "--out", tmp_path / "child.jsonl")
    told(tmp_path / "child.jsonl", "--id", "grandchild", "--out", tmp_path / "grandchild.jsonl")
    events = load_stored(tmp_path / "grandchild.jsonl").events
    inherited = [event for event in events if event["data"] == {"inherited": True}]
    assert [event["type"] for event in inherited] == ["session/end-seed"] * 2
    assert loopspec("check", tmp_path, "--no-progress").exit_code == 0


def test_what_is_refused(tmp_path: Path) -> None:
    """Each cause with its code; nothing is written, and what was there is kept."""
    path, out = parent(tmp_path, 4), tmp_path / "child.jsonl"
    taken = tmp_path / "taken.jsonl"
    taken.write_bytes(b"precious")
    root = tmp_path / "root"
    told(path, "--id", "child", "--out", root)
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(path.read_bytes()[:-9])
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(b'{"type":"session","version":9,"id":"x"}\n')
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(path.read_bytes() + b'{"type":"turn/start","seq":0,"time":1,"data":{"turn":1}}\n')
    last = len(load_stored(path).events)
    cases: dict[tuple[object, ...], tuple[Exit, str]] = {
        (path, "--at", last, "--out", out): (Exit.BOUNDARY, f"last seq: {last - 1}"),
        (path, "--at", -1, "--out", out): (Exit.BOUNDARY, "non-negative"),
        (path, "--turn", 9, "--out", out): (Exit.BOUNDARY, "the last one that has is turn 1"),
        (path, "--id", "tools", "--out", out): (Exit.EXISTS, "an id of its own"),
        (path, "--out", taken): (Exit.EXISTS, "exists, and is kept"),
        (path, "--id", "child", "--out", root): (Exit.EXISTS, "choose another --id"),
        (path, "--id", "x" * 300, "--out", root): (Exit.USAGE, "file systems take"),
        (path, "--id", "", "--out", out): (Exit.USAGE, "must not be empty"),
        (path, "--at", 1, "--turn", 1, "--out", out): (Exit.USAGE, "give one of them"),
        (path, "--plain", "--out", out): (Exit.USAGE, "--plain is for a root"),
        (torn, "--out", out): (Exit.TORN, f"at the latest --at {last - 2}"),
        (newer, "--out", out): (Exit.UNSUPPORTED, "Format 9 is newer"),
        (broken, "--out", out): (Exit.CORRUPT, "S-LNT-17"),
        (tmp_path / "none.jsonl", "--out", out): (Exit.MISSING, "No such file"),
    }
    for arguments, (code, words) in cases.items():
        result = loopspec("fork", *arguments)
        assert (result.exit_code, words in " ".join(result.output.split())) == (code, True), result.output
        assert not out.exists()
    assert taken.read_bytes() == b"precious"
    assert loopspec("fork", torn, "--at", last - 2, "--out", out).exit_code == 0


def test_a_live_parent_is_forked(tmp_path: Path) -> None:
    """Nothing is asked of who writes it: the rows up to a place never change."""
    path = parent(tmp_path, 4)
    journal = Journal.resume(path)
    told(path, "--turn", 1, "--id", "child", "--out", tmp_path / "child.jsonl")
    journal.close()
    assert loopspec("check", tmp_path, "--no-progress").exit_code == 0


def test_a_live_place_and_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, root = parent(tmp_path, 4), tmp_path / "root"
    folder = root / "--workspace--" / "child"
    DISK.make_folder(folder)
    lock = DISK.lock(folder / LOCK_NAME, "child")
    assert loopspec("fork", path, "--id", "child", "--out", root).exit_code == Exit.LOCKED
    lock.release()

    def refuse(number: int) -> Any:
        def fail(*_: object) -> None:
            raise OSError(number, "No")

        return fail

    for number, code in ((28, Exit.FULL), (13, Exit.PERMISSION), (30, Exit.PERMISSION), (5, Exit.DISK)):
        with monkeypatch.context() as patched:
            patched.setattr("os.fsync", refuse(number))
            assert loopspec("fork", path, "--id", "child", "--out", root).exit_code == code
    assert [item.name for item in folder.iterdir()] == [LOCK_NAME]
    assert loopspec("fork", path, "--id", "child", "--out", root).exit_code == 0


def test_a_child_that_breaks_a_rule_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: a fork that forgets its marker."""
    monkeypatch.setattr("loopconform.forking.forked", lambda dialect, prefix: prefix)
    path = parent(tmp_path, 4)
    result = loopspec("fork", path, "--at", 8, "--id", "child", "--out", tmp_path / "child.jsonl")
    assert (result.exit_code, "would be no sound log" in result.output) == (Exit.FOUND, True), result.output
    assert not (tmp_path / "child.jsonl").exists()
    assert check_file(path, Options()).verdict == "clean"
