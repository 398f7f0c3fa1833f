"""One table of exit codes: each command shows it, the document is it, and each cause gives its code in each command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.cli.test_run import EXAMPLES, loopspec

from loopconform import cli, exit_codes
from loopconform.chat.journal import Journal
from loopconform.exit_codes import COMMANDS, MEANING, PAGE, Exit, code_of, page, words
from loopharness.store import errors
from loopharness.store.files import DISK
from loopharness.store.layout import LOCK_NAME
from loopharness.store.rows import frame

HEADER = b'{"type":"session","version":%d,"id":"x","createdAt":1,"isSeeded":false,"delegationDepth":0}\n'
SEED = b'{"type":"session/end-seed","seq":0,"time":1,"data":{}}\n'
SOUND = HEADER % 4 + SEED

# -- the table -------------------------------------------------------------------------------------------------


def test_the_document_is_written_from_the_table() -> None:
    assert PAGE.read_text() == page(), "run `python -m loopconform.exit_codes`"


def test_every_command_has_its_codes_and_shows_them() -> None:
    assert {name.split()[0] for name in COMMANDS} == set(cli.COMMANDS)
    for name, codes in COMMANDS.items():
        shown = " ".join(loopspec(*name.split(), "--help").output.split())
        for code in codes:
            assert f"{int(code)} {words(name, code)}" in shown, (name, code)


def test_codes_are_distinct_and_those_of_a_cause_mean_one_thing() -> None:
    """From 10 on no command has words of its own, but the suite of `conform` for its own faults."""
    assert len(set(Exit)) == len(Exit.__members__)
    assert cli.EXIT_CRASH == Exit.CRASH
    for name, codes in COMMANDS.items():
        own = {code for code, text in codes.items() if text and code >= Exit.MISSING}
        assert own <= ({Exit.CRASH} if name.startswith("conform") else set()), name
        assert {0, 2} <= set(codes)
        assert set(codes) <= {*range(5), *MEANING}


@pytest.mark.parametrize("name", ["check", "show", "tape", "diff"])
def test_who_judges_answers_0_to_3(name: str) -> None:
    assert set(COMMANDS[name]) - {Exit.CRASH} <= set(range(4))


def test_every_error_of_the_store_has_a_cause() -> None:
    """Also one that is new: what names no cause of its own is looked for in what caused it, or is the disk's."""
    for name in errors.__all__:
        kind = getattr(errors, name)
        if not isinstance(kind, type) or kind is errors.SessionForkError:
            continue
        assert code_of(kind("text")) in MEANING, name
    full = errors.AppendFailedError("text", OSError(28, "No space left on device"))
    assert code_of(full) == Exit.FULL
    assert code_of(errors.SessionForkError("text", "OPEN_TURN")) == Exit.BOUNDARY
    assert code_of(RuntimeError("text")) is None


# -- each cause, in each command that has it ---------------------------------------------------------------------

Use = Callable[[Path, Path], object]
"""Use a session file, and write another one."""


def _run(source: Path, out: Path) -> object:
    script = source.parent / "script.yaml"
    script.write_text(f"resume: {source.name}\nsteps: [{{wait: idle}}]\n")
    return loopspec("run", script, "--out", out).exit_code


def _chat(source: Path, out: Path) -> object:
    """Chat goes on in the same file: a place for a new one is asked for where nothing is taken up."""
    file = ("--resume", source) if source.name != "sound.jsonl" else ("--out", out)
    result = CliRunner().invoke(
        cli.main, [str(item) for item in ("chat", "--base-url", "http://127.0.0.1:9", "--once", "a", *file)]
    )
    return result.exit_code


def _fork(source: Path, out: Path) -> object:
    return loopspec("fork", source, "--out", out).exit_code


def _migrate(source: Path, out: Path) -> object:
    """Of format 0, for there is nothing to do otherwise."""
    if source.exists():
        source.write_bytes(
            source.read_bytes().replace(b'"version":4', b'"version":0').replace(b'"isSeeded":false,', b"")
        )
    return loopspec("migrate", source).exit_code


USES: dict[str, Use] = {"run": _run, "chat": _chat, "fork": _fork, "migrate": _migrate}
SOURCES: dict[str, tuple[bytes | None, Exit]] = {
    "missing": (None, Exit.MISSING),
    "newer": (HEADER % 9, Exit.UNSUPPORTED),
    "older": (HEADER % 2, Exit.UNSUPPORTED),
    "corrupt": (SOUND + SEED, Exit.CORRUPT),
    "empty": (b"", Exit.CORRUPT),
    "no log": (b"hello\n", Exit.CORRUPT),
    "too large": (SOUND + b"x" * (33 << 20) + b"\n", Exit.UNDECIDED),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("command", USES)
def test_a_source_that_cannot_be_used(command: str, name: str, tmp_path: Path) -> None:
    content, code = SOURCES[name]
    source, out = tmp_path / f"{name.replace(' ', '-')}.jsonl", tmp_path / "out.jsonl"
    if content is not None:
        source.write_bytes(content)
    assert USES[command](source, out) == code
    assert code in COMMANDS[command]
    assert not out.exists()
    assert not source.exists() or source.read_bytes().count(b"\n") == (content or b"").count(b"\n")


@pytest.mark.parametrize("command", ["run", "fork", "chat"])
def test_a_target_that_cannot_be_used(command: str, tmp_path: Path) -> None:
    source = tmp_path / "sound.jsonl"
    source.write_bytes(SOUND)
    taken = tmp_path / "taken.jsonl"
    taken.write_bytes(b"precious")
    assert USES[command](source, taken) == Exit.EXISTS
    assert taken.read_bytes() == b"precious"
    if command != "fork":  # which makes directories, as a store does
        assert USES[command](source, tmp_path / "no" / "x.jsonl") == Exit.MISSING
    assert USES[command](source, tmp_path / ("a" * 300 + ".jsonl")) == Exit.USAGE


@pytest.mark.parametrize(("number", "code"), [(28, Exit.FULL), (122, Exit.FULL), (30, Exit.PERMISSION), (5, Exit.DISK)])
@pytest.mark.parametrize("command", ["run", "fork", "migrate"])
def test_a_disk_that_fails(
    command: str, number: int, code: Exit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "sound.jsonl"
    source.write_bytes(SOUND)

    def fail(_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    assert USES[command](source, tmp_path / "out.jsonl") == code
    assert not list(tmp_path.glob("*.tmp")) + list(tmp_path.glob("out*")) + list(tmp_path.glob("*.v4.jsonl"))


def test_a_session_that_somebody_writes(tmp_path: Path) -> None:
    """Also one of a store, by its lock (S-DSK-35): a chat and a harness never write one file."""
    path = tmp_path / "held.jsonl"
    path.write_bytes(SOUND)
    held = Journal.resume(path)
    assert _chat(path, path) == Exit.LOCKED
    assert _migrate(path, path) == Exit.LOCKED
    held.close()
    folder = tmp_path / "_no-cwd" / "x"
    folder.mkdir(parents=True)
    (folder / "session.v4.jsonl").write_bytes(SOUND)
    lock = DISK.lock(folder / LOCK_NAME, "x")
    assert _chat(folder / "session.v4.jsonl", path) == Exit.LOCKED
    lock.release()
    held = Journal.resume(folder / "session.v4.jsonl")
    with pytest.raises(errors.SessionAlreadyOwnedError):
        DISK.lock(folder / LOCK_NAME, "x")
    held.close()
    DISK.lock(folder / LOCK_NAME, "x").release()


COMPOSED = {
    "missing": ("{id: a, resumeSessionId: x}", None, Exit.MISSING),
    "newer": ("{id: a, sessionId: x}", HEADER % 9, Exit.UNSUPPORTED),
    "corrupt": ("{id: a, resumeSessionId: x}", SOUND + SEED, Exit.CORRUPT),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_an_agent_of_a_composition_that_cannot_be_started(name: str, tmp_path: Path) -> None:
    agent, content, code = COMPOSED[name]
    folder = tmp_path / "store" / "_no-cwd" / "x"
    if content is not None:
        folder.mkdir(parents=True)
        name = "session.v9.jsonl.zstd" if code == Exit.UNSUPPORTED else "session.v4.jsonl.zstd"
        head, row = content.split(b"\n", 1)
        (folder / name).write_bytes(frame(head + b"\n") + frame(row))
    (tmp_path / "s.yaml").write_text(f"agents: [{agent}]\nsessions: store\nsteps: [{{wait: idle}}]\n")
    result = loopspec("run", tmp_path / "s.yaml", "--out", tmp_path / "out")
    assert result.exit_code == code, result.output


def test_a_stored_session_of_a_composition_that_somebody_holds(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        "agents: [{id: a, sessionId: x}]\nsessions: store\nanswers: [Hello.]\nsteps: [{followup: Hi}]\n"
    )
    assert loopspec("run", tmp_path / "s.yaml", "--out", tmp_path / "out").exit_code == 0
    (path,) = tmp_path.glob("store/*/x/session.v4.jsonl.zstd")
    lock = DISK.lock(path.parent / LOCK_NAME, "x")
    result = loopspec("run", tmp_path / "s.yaml", "--out", tmp_path / "out2")
    assert result.exit_code == Exit.LOCKED, result.output
    lock.release()


def test_a_store_that_fills_up_while_a_composition_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was said is in the files of --out; that it is not in the store is told, and is no success."""
    (tmp_path / "s.yaml").write_text(
        "agents: [{id: a, sessionId: x}]\nsessions: store\nanswers: [Hello.]\nsteps: [{followup: Hi}]\n"
    )

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(DISK.__class__, "create", full)
    result = loopspec("run", tmp_path / "s.yaml", "--out", tmp_path / "out")
    assert result.exit_code == Exit.FULL, result.output
    assert "No space left on device" in result.output
    assert not list(tmp_path.glob("store/*/x/session*.jsonl*"))


def test_a_code_is_what_the_process_ends_with(tmp_path: Path) -> None:
    script = "from loopconform.cli import main; main()"
    command = [sys.executable, "-c", script, "run", str(EXAMPLES / "hello.yaml"), "--out", str(tmp_path / "no" / "x")]
    assert subprocess.run(command, capture_output=True, check=False).returncode == Exit.MISSING
    assert isinstance(cli.main, click.Group)
    assert exit_codes.main() == 0
