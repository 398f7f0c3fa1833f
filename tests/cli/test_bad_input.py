"""Bad input of `run`, `show` and `check`: one sentence with its place, the documented exit code, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from loopconform import stored
from loopconform.check import check_file
from loopconform.cli import main
from loopconform.exit_codes import MEANING, Exit
from loopconform.script import text

EXAMPLES = Path(__file__).parents[2] / "examples"
HEADER = b'{"type":"session","version":4,"id":"x","createdAt":1000,"isSeeded":false,"delegationDepth":0}\n'
ROW = b'{"type":"turn/start","seq":0,"time":1000,"data":{"turn":1}}\n'


def loopspec(*arguments: object) -> Result:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert result.exit_code in (*range(4), *MEANING), result.output
    return result


def run(folder: Path, script: str | bytes, *options: object) -> Result:
    source = folder / "bad.yaml"
    source.write_bytes(script if isinstance(script, bytes) else script.encode())
    return loopspec("run", source, "--out", folder / "out.jsonl", *options)


# -- logs ------------------------------------------------------------------------------------------------------

LOGS = {
    "empty.jsonl": (b"", 1, "The file is empty."),
    "binary.jsonl": (bytes(range(256)) * 20, 1, "There is no complete header row"),
    "binary": (bytes(range(256)) * 20, 2, "not a session log"),
    "notes.txt": (b"hello\n", 2, "not a session log"),
    "nul.jsonl": (bytes(5000), 1, "There is no complete header row"),
    "other.jsonl": (b'{"type":"session","version":9,"id":"x"}\n', 2, "Format 9 is newer"),
    "utf8.jsonl": (HEADER + ROW.replace(b"turn/start", b"\xff\xfe"), 1, "byte 0xff at byte 10 is not UTF-8"),
    "deep.jsonl": (HEADER + b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", 3, "deeper than 400 levels"),
    "torn.jsonl": (HEADER + ROW + ROW[:20], 1, "torn"),
    "missing.jsonl": (None, 2, "No such file or directory"),
}


@pytest.mark.parametrize("name", LOGS)
@pytest.mark.parametrize("command", ["check", "show"])
def test_a_bad_log_ends_both_commands_alike(tmp_path: Path, command: str, name: str) -> None:
    content, code, words = LOGS[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    result = loopspec(command, path)
    assert result.exit_code == code, result.output
    assert words in result.output
    assert name in result.output


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_file_that_may_not_be_read(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.jsonl"
    path.write_bytes(HEADER)

    usual = Path.open

    def refuse(self: Path, *arguments: Any, **options: Any) -> Any:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return usual(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    result = loopspec(command, path)
    assert result.exit_code == 2
    assert "cannot be read: Permission denied" in result.output


def test_a_directory_is_shown_when_it_holds_one_log(tmp_path: Path) -> None:
    assert loopspec("show", tmp_path).exit_code == 2
    (tmp_path / "a.jsonl").write_bytes(HEADER)
    assert loopspec("show", tmp_path).output.startswith("session x")
    (tmp_path / "b.jsonl").write_bytes(HEADER)
    two = loopspec("show", tmp_path)
    assert two.exit_code == 2
    assert "holds 2 session logs; name one" in two.output


def test_a_file_that_vanishes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, usual = tmp_path / "log.jsonl", check_file
    path.write_bytes(HEADER)

    def vanishing(file: Path, *options: Any) -> Any:
        report = usual(file, *options)
        file.unlink(missing_ok=True)
        return report

    monkeypatch.setattr(stored, "check_file", vanishing)
    result = loopspec("show", path)
    assert (result.exit_code, "No such file or directory" in result.output) == (Exit.USAGE, True), result.output


@pytest.mark.parametrize("times", [1, stored.TRIES])
def test_a_file_that_is_exchanged_while_it_is_read(times: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report and events are of one file; one that never rests is not guessed at. It may grow."""
    path, usual = tmp_path / "log.jsonl", check_file
    path.write_bytes(HEADER + ROW)
    left = iter(range(times))

    def exchanging(file: Path, *options: Any) -> Any:
        report = usual(file, *options)
        if next(left, None) is not None:
            other = file.with_name("other")
            other.write_bytes(HEADER.replace(b'"x"', b'"y"') + ROW)
            os.replace(other, file)
        else:
            with file.open("ab") as stream:
                stream.write(ROW.replace(b'"seq":0', b'"seq":1'))
        return report

    monkeypatch.setattr(stored, "check_file", exchanging)
    found = stored.load_stored(path)
    if times == stored.TRIES:
        assert (found.report.verdict, found.header, found.events) == ("unreadable", None, ())
        return
    assert found.header is not None
    assert (found.header["id"], len(found.events), found.report.rows) == ("y", 2, 1)


def test_special_files_are_not_read() -> None:
    for command in ("check", "show"):
        assert "Not a regular file" in loopspec(command, "/dev/zero").output
    assert "it is no regular file" in loopspec("run", "/dev/zero").output


MEASURE = """
import resource, sys
from pathlib import Path
from loopconform.cli import main
from loopconform.exit_codes import MEANING, Exit
try:
    main(sys.argv[1:])
finally:
    status = Path("/proc/self/status")  # there the peak is that of this program; ru_maxrss begins with its parent's
    told = status.read_text().split("VmHWM:")[1].split()[0] if status.exists() else 0
    print("peak", int(told or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) // 1024, file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["check", "show"])
def test_a_row_of_200_mb_costs_no_memory(tmp_path: Path, command: str) -> None:
    path = tmp_path / "huge.jsonl"
    path.write_bytes(HEADER + ROW)
    with path.open("r+b") as stream:
        stream.truncate(200 * 1024 * 1024)
        stream.seek(0, os.SEEK_END)
        stream.write(b"\n")
    command_line = [sys.executable, "-c", MEASURE, command, str(path)]
    done = subprocess.run(command_line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "huge.jsonl:3: undecided S-LNT-109" in done.stdout
    if command == "show":
        assert "turn 1" in done.stdout
    assert int(done.stderr.split("peak")[1]) < 250


# -- scripts ---------------------------------------------------------------------------------------------------

SCRIPTS = {
    "empty": (b"", 0, "it is empty"),
    "binary": (bytes(range(256)), 2, "byte 0x80 is not UTF-8 text"),
    "nul": (b"\0\0", 0, "not YAML"),
    "no mapping": (b"- a\n", 1, "a script is a mapping"),
    "alias bomb": (b"about: x\nanswers: &a [x, x]\nsteps: [*a, *a]\n", 2, "anchors and aliases"),
    "loop": (b"about: x\nsteps: &a\n  - *a\n", 2, "anchors and aliases"),
    "tag": (b'steps: !!python/object/apply:os.system ["true"]\n', 1, "the tag"),
    "deep flow": (b"about: x\nsteps: " + b"[" * 100_000, 2, ""),
    "deep map": (b"{a: " * 5_000, 1, "deeper than 64 levels"),
    "deep block": (b"".join(b" " * n + b"-\n" for n in range(900)), 66, "deeper than 64 levels"),
    "huge": (b"steps:\n" + b"  - wait: idle\n" * 80_000, 0, "larger than 1024 KiB"),
    "tab": (b"steps:\n\t- wait: idle\n", 2, "not YAML"),
    "twice": (b"about: a\nsteps: [{wait: idle}]\nabout: b\n", 3, "the key 'about' occurs twice"),
    "two documents": (b"steps: [{wait: idle}]\n---\na: b\n", 2, "a second document"),
    "too large a number": (b"steps: []\ntime_limit: 1e999\n", 2, "too large"),
    "unknown key": (b"steps:\n  - folowup: hi\n", 2, "Did you mean followup?"),
    "unknown key inside": (b"steps: [{wait: idle}]\nanswers:\n  - text: [a, {gat: b}]\n", 3, "Did you mean gate?"),
    "two verbs": (
        b"steps:\n  - wait: idle\n  - {steer: a, inject: b}\n",
        3,
        "exactly one key, this one has 2 (inject, steer)",
    ),
    "no steps": (b"answers: []\n", 1, "the key 'steps' is missing"),
    "wrong type": (b"steps: [{wait: idle}]\nclock: now\n", 2, "clock: it should be a valid integer, not 'now'"),
    "wrong word": (b"steps: [{wait: idle}]\nprofile: sed\n", 2, "Did you mean seed?"),
    "wait for what": (b"steps:\n  - wait: idel\n", 2, "write `wait: idle` or `wait: gate NAME`, not 'idel'"),
    "no such gate": (b"answers:\n  - gate: half\n    text: x\nsteps:\n  - open: gate hlaf\n", 5, "Did you mean half?"),
    "no such record": (b"steps: [{wait: idle}]\nwhen:\n  - {record: turn/strat, do: [{steer: x}]}\n", 3, "turn/start?"),
    "bad chunk": (b"steps: [{wait: idle}]\nanswers:\n  - raw:\n    - {type: text-delta}\n", 4, "index is missing"),
    "bad parameters": (
        b"steps: [{wait: idle}]\ntools:\n  - {name: a}\n  - {name: x, parameters: {patternProperties: {}}}\n",
        4,
        'keyword "patternProperties" is not supported',
    ),
    "tool twice": (b"steps: [{wait: idle}]\ntools:\n  - {name: a}\n  - {name: a}\n", 4, "already registered"),
    "waiting reaction": (
        b"steps: [{wait: idle}]\nwhen:\n  - {record: turn/start, do: [{wait: idle}]}\n",
        3,
        "neither wait nor crash",
    ),
    "resume nothing": (b"steps: [{wait: idle}]\nresume: nope.jsonl\n", 2, "No such file"),
    "resume a directory": (b"steps: [{wait: idle}]\nresume: .\n", 2, "no regular file"),
    "resume a name that cannot be": (b'steps: [{wait: idle}]\nresume: "a\\0b"\n', 2, "cannot be read"),
    "resume and more": (b"steps: [{wait: idle}]\nresume: a\nsession: b\n", 1, "leave them out"),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_bad_script_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    script, line, words = SCRIPTS[name]
    result = run(tmp_path, script)
    assert result.exit_code == (Exit.MISSING if name == "resume nothing" else Exit.USAGE), result.output
    assert f"bad.yaml:{line}: error" in result.output if line else "bad.yaml: error" in result.output
    assert words in result.output
    assert not (tmp_path / "out.jsonl").exists()


def test_the_c_parser_and_the_other_one_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    script = (EXAMPLES / "tools.yaml").read_text()
    first = text.read_text(script)
    monkeypatch.delattr("yaml.CSafeLoader", raising=False)
    assert text.read_text(script) == first


def test_plain_words_are_what_they_look_like() -> None:
    read = text.read_text('[yes, "yes", no, 010, 1.5, true, null, ~, "1", .5, 1e3, -3, 2026-01-01]')
    assert read.data == ["yes", "yes", "no", 10, 1.5, True, None, None, "1", 0.5, 1000.0, -3, "2026-01-01"]


def test_a_log_that_breaks_rules_is_not_taken_up(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_bytes(HEADER + ROW + ROW)
    result = run(tmp_path, b"resume: log.jsonl\nsteps: [{wait: idle}]\n")
    assert result.exit_code == Exit.CORRUPT
    assert "cannot be taken up: line 3, S-LNT-17" in result.output


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zstd"])
def test_a_torn_log_is_taken_up_at_any_byte_where_it_has_a_header(tmp_path: Path, suffix: str) -> None:
    """Bounded: every 97th byte and the last ones. What it then holds is a clean log."""
    crash = tmp_path / f"crash{suffix}"
    assert loopspec("run", EXAMPLES / "crash.yaml", "--out", crash).exit_code == 0
    content = crash.read_bytes()
    script = (EXAMPLES / "resume.yaml").read_text().replace("crash.jsonl", f"torn{suffix}")
    (tmp_path / "resume.yaml").write_text(script)
    taken = 0
    for size in [*range(0, len(content), 97), len(content) - 1]:
        torn = tmp_path / f"torn{suffix}"
        torn.write_bytes(content[:size])
        survives = stored.load_stored(torn)
        sound = survives.report.verdict in ("clean", "warnings", "torn")
        result = loopspec("run", tmp_path / "resume.yaml", "--out", tmp_path / "out.jsonl", "--force")
        assert result.exit_code == (Exit.FINE if sound else Exit.CORRUPT), (size, result.output)
        if result.exit_code == 0:
            taken += 1
            assert loopspec("check", tmp_path / "out.jsonl").exit_code == 0, size
            kept = stored.load_stored(tmp_path / "out.jsonl").events[: len(survives.events)]
            assert kept == survives.events
    assert taken >= 2


# -- outputs ---------------------------------------------------------------------------------------------------

HELLO = EXAMPLES / "hello.yaml"


def test_an_output_that_exists_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    out.write_text("precious")
    result = loopspec("run", HELLO, "--out", out)
    assert result.exit_code == Exit.EXISTS
    assert "exists: give another name, or --force to replace it" in result.output
    assert out.read_text() == "precious"
    assert loopspec("run", HELLO, "--out", out, "--force").exit_code == 0
    assert list(tmp_path.iterdir()) == [out]


def test_an_output_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    from loopconform.script.output import OutputError, write_session

    out = tmp_path / "x.jsonl"
    out.write_text("precious")
    with pytest.raises(OutputError, match="exists"):
        write_session(out, iter([b"row\n"]), force=False)
    assert out.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [out]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    cases = {
        tmp_path: (Exit.USAGE, "is a directory"),
        tmp_path / "no" / "x.jsonl": (Exit.MISSING, "there is no directory"),
        tmp_path / ("a" * 300): (Exit.USAGE, "File name too long"),
        Path("/proc/x.jsonl"): (None, "cannot be written"),
    }
    for out, (code, words) in cases.items():
        result = loopspec("run", HELLO, "--out", out, "--force")
        assert result.exit_code == code or (code is None and result.exit_code >= Exit.MISSING)
        assert words in result.output
    os.mkfifo(tmp_path / "pipe")
    assert "is no regular file" in loopspec("run", HELLO, "--out", tmp_path / "pipe", "--force").output


def test_a_disk_that_fills_up_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    result = loopspec("run", HELLO, "--out", tmp_path / "x.jsonl")
    assert result.exit_code == Exit.FULL
    assert "No space left on device" in result.output
    assert list(tmp_path.iterdir()) == []


# -- conversations that go wrong -------------------------------------------------------------------------------


def test_answers_that_run_out(tmp_path: Path) -> None:
    result = run(tmp_path, "answers:\n  - calls: [{name: nothing}]\nsteps:\n  - followup: hi\n")
    assert result.exit_code == 1
    assert "bad.yaml:2: error" in result.output
    assert (
        "the script has one answer, but the model was asked 2 times, the last time in turn 1, step 2" in result.output
    )
    assert "out.jsonl" in result.output
    assert loopspec("check", tmp_path / "out.jsonl").exit_code == 0


def test_answers_that_nobody_asked_for_are_a_note(tmp_path: Path) -> None:
    result = run(tmp_path, "answers:\n  - a\n  - b\n  - c\nsteps:\n  - followup: hi\n")
    assert result.exit_code == 0
    assert "bad.yaml:3: note" in result.output
    assert "nobody asked for this answer, nor for the 1 after it" in result.output


@pytest.mark.parametrize(
    ("script", "line", "words"),
    [
        (
            "answers: [{gate: g, text: a}]\nsteps:\n  - followup: x\n  - wait: idle\n  - open: gate g\n",
            4,
            "answer 1 of the",
        ),
        ("answers: [{gate: g, text: a}]\nsteps:\n  - followup: x\n", 3, "answer 1 of the model stands at the gate 'g'"),
        (
            "tools: [{name: t, gate: g}]\nanswers: [{calls: [{name: t}]}]\nsteps:\n  - followup: x\n",
            4,
            "tool t stands at",
        ),
        ("steps:\n  - maintenance: {gate: g}\n", 2, "a maintenance job stands at the gate 'g'"),
        (
            "answers: [{gate: g, text: a}]\nsteps:\n  - wait: gate g\n",
            3,
            "nobody comes to the gate 'g': the agent is idle",
        ),
    ],
)
def test_a_conversation_that_never_ends_is_noticed_at_once(tmp_path: Path, script: str, line: int, words: str) -> None:
    """The limit of ten seconds is not needed: when everybody waits, nothing can happen any more."""
    result = run(tmp_path, script)
    assert result.exit_code == 3
    assert f"bad.yaml:{line}: error" in result.output
    assert words in result.output
    assert "seconds" not in result.output
    assert (tmp_path / "out.jsonl").exists()


def test_a_conversation_that_goes_on_too_long_is_given_up(tmp_path: Path) -> None:
    steps = "  - {followup: x}\n  - {wait: idle}\n" * 300
    result = run(tmp_path, f"time_limit: 0.01\nanswers: [{', '.join('a' * 300)}]\nsteps:\n{steps}")
    assert result.exit_code == 3
    assert "the run was not over after 0.01 seconds" in result.output


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ("[{queue: {text: a, id: x}}, {queue: {text: b, id: x}}]", 'message "x" is already pending'),
        ("[{followup: a}, {maintenance: {}}, {open: gate g}]", "already has active work"),
    ],
)
def test_a_step_that_is_refused(tmp_path: Path, steps: str, words: str) -> None:
    result = run(tmp_path, f"answers: [{{gate: g, text: a}}]\nsteps: {steps}\n")
    assert result.exit_code == 1
    assert "was refused" in result.output
    assert words in result.output


def test_wrong_usage() -> None:
    assert "Missing argument SCRIPT" in loopspec("run").output
    assert "No such option" in loopspec("run", HELLO, "--shw").output
    assert "would both write to standard output" in loopspec("run", HELLO, "--show", "--out", "-").output
    for arguments in (["run"], ["run", HELLO, "--shw"], ["show"], ["show", "x", "--turn", "0"]):
        assert loopspec(*arguments).exit_code == 2
