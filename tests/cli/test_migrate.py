"""`loopspec migrate`: old sessions as format 4, sound and ready to go on; nothing is lost, whatever is in the way."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_run import EXAMPLES, loopspec

from loopconform import migration, publishing, stored
from loopconform.check import Options, check_file
from loopconform.exit_codes import Exit
from loopconform.stored import load_stored
from loopharness.store.files import DISK
from loopharness.store.layout import LOCK_NAME
from loopspec.log.migrate import migrate

REAL = Path(__file__).parents[1] / "logs" / "upstream-rc8"
SIMPLE = REAL / "01-simple-turn.jsonl"
TORN = REAL / "09e-torn-multi-frame.jsonl.zstd"
OLD = Path(os.environ.get("LOOPSPEC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "old-formats"


def files(folder: Path) -> dict[str, bytes]:
    """Every file below, locks left out, by its place."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOCK_NAME]
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def told(*arguments: object) -> tuple[int, list[dict[str, Any]]]:
    """Exit code, and what came of each session."""
    result = loopspec("migrate", *arguments, "--format", "json")
    document = json.loads(result.output)
    assert document["exitCode"] == result.exit_code
    return result.exit_code, document["sessions"]


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """A session file of format 0, of our own."""
    path = tmp_path / "talk.jsonl"
    assert loopspec("run", EXAMPLES / "tools.yaml", "--format", 0, "--out", path).exit_code == 0
    return path


def test_all_real_logs_become_clean_logs_elsewhere(tmp_path: Path) -> None:
    """With parents and children together (S-LNT-91); the torn ones only when what is whole was asked for."""
    before = files(REAL)
    code, done = told(REAL, "--to", tmp_path / "new")
    assert code == Exit.TORN
    failed = [Path(item["source"]).name for item in done if item["status"] == "failed"]
    assert failed == ["09c-torn-tail.jsonl.zstd", "09e-torn-multi-frame.jsonl.zstd"]
    assert {item["code"] for item in done if item["status"] == "failed"} == {Exit.TORN}
    assert told(*(REAL / name for name in failed), "--to", tmp_path / "new", "--torn")[0] == Exit.FINE
    assert len(done) == len(files(tmp_path / "new")) == 49
    checked = loopspec("check", tmp_path / "new", "--no-progress")
    assert checked.exit_code == 0, checked.output
    assert files(REAL) == before


def test_beside_the_old_one_and_once_only(talk: Path) -> None:
    before = talk.read_bytes()
    assert told(talk)[1][0]["target"] == str(talk.with_name("talk.v4.jsonl"))
    made = talk.with_name("talk.v4.jsonl")
    assert (check_file(made).verdict, check_file(made).version) == ("clean", 4)
    content = made.read_bytes()
    code, again = told(talk, made)
    assert (code, [item["status"] for item in again]) == (Exit.FINE, ["already format 4"] * 2)
    assert (talk.read_bytes(), made.read_bytes()) == (before, content)


def test_what_is_migrated_goes_on(talk: Path) -> None:
    """With `loopspec run`, and the log stays clean over the seam."""
    assert told(talk, "--in-place")[0] == Exit.FINE
    script = talk.with_name("more.yaml")
    script.write_text("resume: talk.jsonl\nanswers: [Hello again.]\nsteps: [{followup: Hi}]")
    result = loopspec("run", script, "--out", talk.with_name("more.jsonl"))
    assert result.exit_code == 0, result.output
    assert check_file(talk.with_name("more.jsonl")).verdict == "clean"
    assert load_stored(talk.with_name("more.jsonl")).version == 4


def test_what_comes_behind_a_migration_is_of_the_new_format(talk: Path) -> None:
    """A cancel before the request is prepared: there format 4 lets no batch in, and no loop of format 0 does that."""
    assert told(talk, "--in-place")[0] == Exit.FINE
    script = talk.with_name("more.yaml")
    script.write_text("resume: talk.jsonl\nwhen: [{record: step/start, do: [{cancel: user}]}]\nsteps: [{followup: Hi}]")
    assert loopspec("run", script, "--out", talk.with_name("more.jsonl")).exit_code == 0
    report = check_file(talk.with_name("more.jsonl"))
    assert [(item.rule, item.level) for item in report.findings] == [("S-LNT-107", "W")]


def test_in_place_has_the_same_name_and_leaves_nothing_else(talk: Path) -> None:
    assert told(talk, "--in-place")[1][0]["target"] == str(talk)
    assert load_stored(talk).version == 4
    assert [path.name for path in talk.parent.iterdir()] == ["talk.jsonl"]


@pytest.mark.parametrize("in_place", [False, True])
def test_a_session_directory_keeps_its_generations(tmp_path: Path, in_place: bool) -> None:
    """S-DSK-5: the name tells the format. The old one goes when that was asked for, and after the new one is there."""
    folder = tmp_path / "--workspace--" / json.loads(SIMPLE.read_bytes().split(b"\n")[0])["id"]
    folder.mkdir(parents=True)
    shutil.copy(SIMPLE, folder / "session.jsonl")
    assert told(tmp_path, *(["--in-place"] if in_place else []))[0] == Exit.FINE
    names = {"session.v4.jsonl"} if in_place else {"session.jsonl", "session.v4.jsonl"}
    assert {path.name for path in folder.iterdir()} - {LOCK_NAME} == names
    assert loopspec("check", tmp_path).exit_code == 0
    assert {item["status"] for item in told(tmp_path, "--to", tmp_path / "b")[1]} == {"already format 4"}
    assert not (tmp_path / "b").exists()


def test_a_dry_run_writes_nothing(talk: Path) -> None:
    before = files(talk.parent)
    assert told(talk, "--dry-run")[1][0]["status"] == "would be migrated"
    assert told(talk, "--dry-run", "--in-place")[0] == Exit.FINE
    assert files(talk.parent) == before


def test_another_session_in_the_way_is_kept(talk: Path) -> None:
    made = talk.with_name("talk.v4.jsonl")
    for content in (b"precious", b'{"type":"session","version":4,"id":"other"}\n'):
        made.write_bytes(content)
        code, done = told(talk)
        assert (code, done[0]["code"]) == (Exit.EXISTS, Exit.EXISTS)
        assert made.read_bytes() == content


def test_a_file_that_appears_meanwhile_is_kept(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = talk.with_name("talk.v4.jsonl")
    usual = publishing.publish

    def late(target: Path, *arguments: Any, **options: Any) -> None:
        target.write_bytes(b"precious")
        usual(target, *arguments, **options)

    monkeypatch.setattr(migration, "publish", late)
    assert told(talk)[0] == Exit.EXISTS
    assert made.read_bytes() == b"precious"
    assert not list(talk.parent.glob("*.tmp"))


def test_a_source_that_changes_meanwhile_is_kept(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = stored.take_up

    def late(path: Path, options: Options | None = None) -> Any:
        found = usual(path, options)
        path.write_bytes(path.read_bytes() + b'{"type":"turn/start"')
        return found

    monkeypatch.setattr(migration, "take_up", late)
    code, done = told(talk, "--in-place")
    assert (code, "changed while it was read" in done[0]["reason"]) == (Exit.LOCKED, True)
    assert talk.read_bytes().endswith(b'"turn/start"')


def test_who_writes_a_session_keeps_it(talk: Path, tmp_path: Path) -> None:
    with talk.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert told(talk)[0] == Exit.LOCKED
    folder = tmp_path / "root" / "--workspace--" / "tools"
    folder.mkdir(parents=True)
    shutil.copy(talk, folder / "session.jsonl")
    lock = DISK.lock(folder / LOCK_NAME, "tools")
    for to in ((), ("--to", tmp_path / "b")):
        code, done = told(folder, *to)
        assert (code, "this process itself" in done[0]["reason"]) == (Exit.LOCKED, True)
    lock.release()
    assert told(folder)[0] == Exit.FINE


def test_a_full_disk_leaves_everything_as_it_was(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    before = files(talk.parent)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        for manner in ([], ["--in-place"], ["--to", talk.with_name("b")]):
            assert told(talk, *manner)[0] == Exit.FULL
    assert files(talk.parent) == before


@pytest.mark.parametrize("in_place", [False, True])
def test_a_directory_that_cannot_be_synced(talk: Path, in_place: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that may not be durable is taken back, and in no case is the old file gone before the new one is safe."""

    def fail(self: object, folder: Path) -> None:
        raise OSError(5, "Input/output error")

    folder = talk.parent / "--workspace--" / "tools"
    folder.mkdir(parents=True)
    old = folder / "session.jsonl"
    shutil.copy(talk, old)
    monkeypatch.setattr(DISK.__class__, "sync_folder", fail)
    assert told(old, *(["--in-place"] if in_place else []))[0] == Exit.DISK
    assert {item.name for item in folder.iterdir()} - {LOCK_NAME} == {"session.jsonl"}
    assert load_stored(old).version == 0


def test_a_result_that_breaks_a_rule_is_not_written(talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(*old: Any) -> Any:
        new = migrate(*old)
        return new._replace(events=(new.events[0], *new.events))

    monkeypatch.setattr(migration, "migrate", twice)
    code, done = told(talk, "--in-place")
    assert (code, "would be no sound log: line 3, S-LNT-17" in done[0]["reason"]) == (Exit.FOUND, True)
    assert load_stored(talk).version == 0


@pytest.mark.skipif(not OLD.exists(), reason="the corpus of old formats is not on this machine")
def test_older_formats(tmp_path: Path) -> None:
    """Format 3 as far as the facts carry, format 2 not; several causes are no one cause."""
    third, second = OLD / "slice-v3-session.v3.jsonl", OLD / "slice-alpha2-session.v2.jsonl"
    code, done = told(third, second, "--to", tmp_path)
    assert (code, [item["status"] for item in done]) == (Exit.UNSUPPORTED, ["migrated", "failed"])
    assert "is of format 2; to format 4 can be carried over: 0 and 3" in done[1]["reason"]
    assert check_file(tmp_path / third.name).verdict == "clean"
    (tmp_path / "garbage.jsonl").write_bytes(b"garbage\n")
    code, done = told(second, tmp_path / "garbage.jsonl", tmp_path / "none.jsonl")
    assert (code, [item["code"] for item in done]) == (Exit.FOUND, [Exit.UNSUPPORTED, Exit.CORRUPT, Exit.MISSING])


def test_each_cause_has_its_code(tmp_path: Path) -> None:
    header = b'{"type":"session","version":%d,"id":"x","createdAt":1,"delegationDepth":0}\n'
    cases = {
        "newer": (header % 9, Exit.UNSUPPORTED),
        "corrupt": (header % 0 + b'{"type":"turn/start","seq":7,"time":1,"data":{"turn":1}}\n', Exit.CORRUPT),
        "empty": (b"", Exit.CORRUPT),
        "torn header": (header[:30], Exit.CORRUPT),
        "torn": (header % 0 + b'{"type":"turn/st', Exit.TORN),
    }
    for name, (content, code) in cases.items():
        path = tmp_path / f"{name}.jsonl"
        path.write_bytes(content)
        assert told(path)[0] == code, name
    assert told(tmp_path / "torn.jsonl", "--torn")[1][0]["dropped"]
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert told(tmp_path / "pipe.jsonl")[0] == Exit.USAGE
    (tmp_path / "nothing").mkdir()
    assert told(tmp_path / "nothing")[0] == Exit.USAGE
    assert loopspec("migrate", tmp_path, "--to", tmp_path, "--in-place").exit_code == Exit.USAGE


def test_text_names_every_session_and_escapes_what_is_odd(tmp_path: Path) -> None:
    odd = tmp_path / "a\nb\u202e.jsonl"
    shutil.copy(SIMPLE, odd)
    result = loopspec("migrate", odd)
    assert result.exit_code == 0, result.output
    assert "\\x0a" in result.output
    assert "\u202e" not in result.output
    assert result.output.splitlines()[-1] == "1 migrated"


def test_a_link_stays_a_link(talk: Path) -> None:
    link = talk.with_name("link.jsonl")
    link.symlink_to(talk)
    assert told(link, "--in-place")[0] == Exit.FINE
    assert link.is_symlink()
    assert load_stored(talk).version == 4
