"""`loopspec chat` in a process of its own, at a pseudo terminal: typing, Ctrl-C, hanging up, going on later."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from tests.model.terminal import CTRL_C, CTRL_D, Terminal, chat, loopspec, records
from tests.model.wire import GUARD, Server, payloads, said, settings

from loopconform.chat.journal import Journal, JournalError
from loopconform.chat.screen import Screen
from loopconform.chat.talk import INTERRUPTED, Options, Talk
from loopconform.check import check_file
from loopconform.cli import main
from loopconform.exit_codes import Exit
from loopconform.stored import load_stored
from loopharness.agent import AgentOptions
from loopharness.harness import open_harness
from loopharness.model.deepseek import open_deepseek

HALF = payloads(*said("Half an ", "answer"), done=False)


def ends(file: Path) -> list[Any]:
    return [data["reason"] for data in records(file, "turn/end")]


def test_a_conversation(server: Server, file: Path, terminals: list[Terminal]) -> None:
    script = server.script(
        {"reasoning": "A guest.", "text": ["Good ", "day."]}, {"calls": [{"name": "clock"}]}, "Late enough."
    )
    at = chat(terminals, script, "--out", file)
    at.expect("\n> ")
    at.type("Hello.\n")
    at.expect("thinking: A guest.\nGood day.\n[")
    at.expect("> ")
    at.type("What time is it?\n")
    at.expect("-> clock {}\n<- ")
    at.expect(" milliseconds since the beginning of 1970, UTC\nLate enough.\n[")
    at.expect("> ")
    at.type("/quit\n")
    assert at.end() == 0
    assert ends(file) == [{"kind": "completed"}] * 2


def test_ctrl_c_once_and_twice(server: Server, file: Path, terminals: list[Terminal]) -> None:
    script = server.script({"body": HALF, "end": "open"}, "Better now.")
    at = chat(terminals, script, "--out", file)
    at.expect("> ")
    at.type("Tell me.\n")
    at.expect("Half an answer")
    at.type(CTRL_C)
    at.expect("[turn ended: aborted]")
    assert script.log()[0]["end"] == "client left"
    at.type("Again, please.\n")
    at.expect("Better now.")
    at.expect("> ")
    at.type(CTRL_C)
    at.expect("[Ctrl-C again ends the program]")
    at.type(CTRL_C)
    assert at.end() == INTERRUPTED
    assert ends(file) == [{"kind": "aborted", "reason": {"kind": "user"}}, {"kind": "completed"}]
    anchor = records(file, "assistant/message")[0]
    assert (anchor["interrupted"], anchor["message"]["content"]) == (True, [{"type": "text", "text": "Half an answer"}])


def test_twice_in_the_middle_of_a_turn(server: Server, file: Path, terminals: list[Terminal]) -> None:
    at = chat(terminals, server.script({"body": HALF, "end": "open"}), "--out", file)
    at.expect("> ")
    at.type("Tell me.\n")
    at.expect("Half an answer")
    at.type(CTRL_C)
    at.expect("[cancelled; Ctrl-C again ends the program]")
    at.type(CTRL_C)
    assert at.end() == INTERRUPTED
    assert ends(file) == [{"kind": "aborted", "reason": {"kind": "user"}}]


def test_what_is_typed_meanwhile_steers(server: Server, file: Path, terminals: list[Terminal]) -> None:
    """It joins the next step of the same turn; what a cancelled turn did not read waits for the next one."""
    script = server.script(
        {"calls": [{"name": "clock"}], "gate": "first"}, {"text": "Both, then.", "gate": "second"}, "Here I am."
    )
    at = chat(terminals, script, "--out", file)
    at.expect("> ")
    at.type("What time is it?\n")
    script.at_gate("first")
    at.type("And in English.\n")
    at.expect("[the model reads this at its next step]")
    script.open("first")
    script.at_gate("second")
    at.type("Forget it.\n")
    at.expect("[the model reads this at its next step]")
    at.type(CTRL_C)
    at.expect("[1 of your messages wait for your next one]")
    at.expect("[turn ended: aborted]")
    at.type("Are you there?\n")
    at.expect("Here I am.")
    at.expect("> ")
    at.type(CTRL_D)
    assert at.end() == 0
    bodies = [entry["body"]["messages"] for entry in script.log()]
    assert [message["role"] for message in bodies[1]] == ["user", "assistant", "tool", "user"]
    assert bodies[1][-1]["content"] == "And in English."
    assert [message["content"] for message in bodies[2][-2:]] == ["Forget it.", "Are you there?"]
    assert len(ends(file)) == 2


@pytest.mark.parametrize("how", ["hang up", "terminate"])
def test_the_terminal_goes_away(how: str, server: Server, file: Path, terminals: list[Terminal]) -> None:
    """K17: the turn is closed, the file is whole, nothing spins on, and the session can be taken up."""
    script = server.script({"body": HALF, "end": "open"}, "Welcome back.")
    at = chat(terminals, script, "--out", file)
    at.expect("> ")
    at.type("Tell me.\n")
    at.expect("Half an answer")
    if how == "hang up":
        at.hang_up()
    else:
        at.process.terminate()
    assert at.end() == 128 + (signal.SIGHUP if how == "hang up" else signal.SIGTERM)
    assert ends(file) == [{"kind": "aborted", "reason": {"kind": "disposed"}}]
    assert script.log()[0]["end"] == "client left"
    if how == "terminate":
        return
    again = loopspec("chat", "--base-url", script.url, "--resume", file, "--once", "I am back.")
    assert (again.returncode, "Welcome back." in again.stdout) == (0, True), again.stderr
    assert [message["content"] for message in script.log()[1]["body"]["messages"]] == [
        "Tell me.",
        "Half an answer",
        "I am back.",
    ]
    assert len(ends(file)) == 2


def test_the_process_is_killed(server: Server, file: Path, terminals: list[Terminal]) -> None:
    """No chance to write anything: what had been written is closed on resume."""
    script = server.script({"body": HALF, "end": "open"}, "Welcome back.")
    at = chat(terminals, script, "--out", file)
    at.expect("> ")
    at.type("Tell me.\n")
    at.expect("Half an answer")
    at.process.kill()
    at.process.wait()
    assert loopspec("chat", "--base-url", script.url, "--resume", file, "--once", "Hello?").returncode == 0
    assert [reason["kind"] for reason in ends(file)] == ["interrupted", "completed"]


# -- without a terminal ----------------------------------------------------------------------------------------


def test_from_a_pipe(server: Server, tmp_path: Path) -> None:
    """One line after the other has been answered; the last one needs no line end. The file is compressed."""
    script = server.script("One.", "Two.", "Three.")
    file = tmp_path / "chat.jsonl.zstd"
    done = loopspec("chat", "--base-url", script.url, "--out", file, text="a\n\nb")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("One.") < done.stdout.index("Two.")
    assert len(ends(file)) == 2
    assert loopspec("chat", "--base-url", script.url, "--resume", file, "--once", "c").returncode == 0
    contents = [message["content"] for message in script.log()[2]["body"]["messages"]]
    assert contents == ["a", "One.", "b", "Two.", "c"]
    assert len(ends(file)) == 3


def test_once_says_how_it_ended(server: Server, file: Path) -> None:
    script = server.script({"status": 400, "error": {"message": "no, \x1b[2Jno"}})
    done = loopspec("chat", "--base-url", script.url, "--out", file, "--once", "a")
    assert done.returncode == 1
    assert "error INVALID_REQUEST: no, \\x1b[2Jno" in done.stdout


def test_slice_seals_the_turn_before(server: Server, file: Path) -> None:
    """The second request carries a tape entry instead of the first turn's answer; user text stays as it is."""
    script = server.script("The first answer, at some length.", "The second answer.")
    arguments = ("chat", "--base-url", script.url, "--slice")
    assert loopspec(*arguments, "--out", file, "--once", "First?").returncode == 0
    assert loopspec(*arguments, "--resume", file, "--once", "Second?").returncode == 0
    replaced = [row for row in records(file, "user/message") if "[slice tape v1" in json.dumps(row)]
    assert len(replaced) == 1
    sent = json.dumps(script.log()[1])
    assert "[slice tape v1" in sent
    assert "First?" in sent
    assert check_file(file).verdict == "clean"


def test_settings_of_the_tape_are_refused_before_anything_is_opened(server: Server, file: Path, tmp_path: Path) -> None:
    """A retired key says where it went; no session file is left behind."""
    settings_file = tmp_path / "tape.yaml"
    settings_file.write_text("history: {pinFirstTurn: true}\n")
    text = refused("chat", "--slice-config", settings_file, "--out", file, "--once", "a", DEEPSEEK_API_KEY="k")
    assert "pinFirstTurn" in text
    assert not file.exists()


# -- refusals --------------------------------------------------------------------------------------------------


def refused(*arguments: object, code: Exit = Exit.USAGE, **environment: str | None) -> str:
    """The text of a command line that cannot be used."""
    done = CliRunner().invoke(main, [str(argument) for argument in arguments], env=environment)
    assert done.exit_code == code, done.output
    return " ".join(done.output.split())


def test_a_missing_key_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = refused("chat", "--once", "a", DEEPSEEK_API_KEY=None, DEEPSEEK_BASE_URL=None)
    assert "DEEPSEEK_API_KEY is not set" in text
    assert "loopspec mock-model" in text
    assert list(tmp_path.iterdir()) == []


def test_files_that_cannot_be_used(tmp_path: Path, file: Path) -> None:
    local = ("chat", "--base-url", "http://127.0.0.1:9", "--once", "a")
    file.write_text("hello\n")
    assert "--resume to go on with it" in refused(*local, "--out", file, code=Exit.EXISTS)
    assert "cannot be taken up" in refused(*local, "--resume", file, code=Exit.CORRUPT)
    assert file.read_text() == "hello\n"
    assert "cannot be opened" in refused(*local, "--resume", tmp_path / "none.jsonl", code=Exit.MISSING)
    assert "is a directory" in refused(*local, "--out", tmp_path)
    assert "there is no directory" in refused(*local, "--out", tmp_path / "no" / "x.jsonl", code=Exit.MISSING)
    assert "leave --out" in refused(*local, "--resume", file, "--out", file)
    assert "base URL" in refused("chat", "--base-url", "nowhere", "--once", "a")
    assert "secret" not in refused("chat", "--base-url", "https://me:secret@host", "--once", "a")


def test_a_file_has_one_conversation(finished: bytes, file: Path) -> None:
    file.write_bytes(finished)
    held = Journal.resume(file)
    try:
        text = refused(*("chat", "--base-url", "http://127.0.0.1:9", "--resume", file, "--once", "a"), code=Exit.LOCKED)
        assert "is open in another conversation" in text
    finally:
        held.close()
    Journal.resume(file).close()


# -- the file --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def finished(server: Server, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a conversation of one turn."""
    path = tmp_path_factory.mktemp("chat") / "finished.jsonl"
    assert loopspec("chat", "--base-url", server.script("One.").url, "--out", path, "--once", "a").returncode == 0
    return path.read_bytes()


@pytest.mark.parametrize("torn", [b'{"type":"turn/st', b'{"type":"turn/start","seq":999', b"\xff\xfe"])
def test_a_torn_end_is_left_out(torn: bytes, finished: bytes, file: Path) -> None:
    file.write_bytes(finished + torn)
    journal = Journal.resume(file)
    assert file.read_bytes() == finished
    with pytest.raises(JournalError, match="open in another conversation"):
        Journal.resume(file)
    journal.close()
    assert len(ends(file)) == 1


def test_a_torn_end_is_taken_up(server: Server, finished: bytes, file: Path) -> None:
    file.write_bytes(finished + b'{"type":"turn/st')
    script = server.script("Two.")
    done = loopspec("chat", "--base-url", script.url, "--resume", file, "--once", "b")
    assert done.returncode == 0
    assert "ended in the middle of a write" in done.stderr
    assert file.read_bytes().startswith(finished)
    assert len(ends(file)) == 2
    assert [message["content"] for message in script.log()[0]["body"]["messages"]] == ["a", "One.", "b"]


HEADER = {"type": "session", "version": 4, "id": "s", "createdAt": 1, "isSeeded": False, "delegationDepth": 0}
EVENT = {"type": "turn/start", "seq": 0, "time": 1, "data": {"turn": 1}}


def test_a_full_disk_is_said_and_nothing_is_lost(file: Path) -> None:
    """What could not be written is kept, and written when there is room again, each row once."""
    full = os.open("/dev/full", os.O_WRONLY)
    journal = Journal(file, full, None, ())
    journal.write(HEADER, [EVENT])
    assert journal.failure is not None
    target = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.dup2(target, full)
    os.close(target)
    journal.write(HEADER, [EVENT, {**EVENT, "seq": 1}])
    assert journal.failure is None
    journal.close()
    rows = [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]
    assert [row.get("seq") for row in rows] == [None, 0, 1]


@pytest.mark.parametrize("another", [False, True])
def test_a_file_that_is_taken_away_is_written_anew(another: bool, finished: bytes, file: Path) -> None:
    """Under its name; beside another file that has the name by then. Nothing that was said is lost."""
    file.write_bytes(finished)
    journal = Journal.resume(file)
    assert journal.header is not None
    file.unlink()
    if another:
        file.write_bytes(b"precious")
    seq, time = len(journal.events), journal.events[-1]["time"]
    marker = {"type": "session/end-seed", "seq": seq, "time": time, "data": {}}
    journal.write(journal.header, [*journal.events, marker])
    journal.close()
    assert journal.failure is None
    assert (journal.path == file) == (not another)
    assert not another or file.read_bytes() == b"precious"
    assert journal.path.read_bytes().startswith(finished)
    assert len(load_stored(journal.path).events) == len(journal.events) + 1
    assert load_stored(journal.path).report.verdict == "clean"


LIMITED = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
from loopconform.cli import main
main()
"""


def test_a_disk_that_stays_full_has_its_code(server: Server, file: Path) -> None:
    """The conversation goes on to its end; then the program says with its code why the file is not whole."""
    options = ("chat", "--base-url", server.script("One.").url, "--out", str(file), "--once", "a")
    command = (sys.executable, "-B", "-c", LIMITED, *options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=GUARD * 2, check=False)
    assert (done.returncode, "What is said is kept" in done.stdout) == (Exit.FULL, True), done.stdout + done.stderr
    assert "One." in done.stdout
    assert file.stat().st_size == 500


def test_a_conversation_in_which_nothing_was_said_leaves_no_file(file: Path) -> None:
    Journal.create(file).close()
    assert not file.exists()


def test_a_new_file_is_locked(file: Path) -> None:
    journal = Journal.create(file)
    journal.write(HEADER, [EVENT])
    with pytest.raises(JournalError, match="open in another conversation"):
        Journal.resume(file)
    journal.close()


# -- the screen ------------------------------------------------------------------------------------------------


def shown(*chunks: Any, colour: bool = False) -> str:
    """What a screen shows of chunks."""
    reading, writing = os.pipe()
    screen = Screen(writing, colour=colour, prompt=False)
    for chunk in chunks:
        screen.chunk(chunk)
    screen.line_end()
    os.close(writing)
    with os.fdopen(reading) as stream:
        return stream.read()


def test_a_model_cannot_steer_the_terminal() -> None:
    text = "a\x1b]0;title\x07\x9b2J\u202eb\tc\r\nd\re"
    assert shown({"type": "text-delta", "text": text}) == "a\\x1b]0;title\\x07\\x9b2J\\u202eb\tc\nd\\x0de\n"


def test_kinds_are_kept_apart() -> None:
    pieces: Sequence[Any] = [
        {"type": "reasoning-delta", "text": "Hm"},
        {"type": "reasoning-delta", "text": "."},
        {"type": "text-delta", "text": "Yes\n"},
        {"type": "tool-call-delta", "index": 0, "id": "c", "argumentsDelta": ""},
        {"type": "text-delta", "text": "No"},
    ]
    assert shown(*pieces) == "thinking: Hm.\nYes\nNo\n"


def test_a_wait_before_a_retry_is_told() -> None:
    """What was wrong, how long it waits, and which attempt it is; with no limit where there is none."""
    reading, writing = os.pipe()
    screen = Screen(writing, colour=False, prompt=False)
    failure = {"code": "RATE_LIMIT", "message": "too many requests"}
    screen.record({"type": "llm/retry", "data": {"retry": 2, "maxRetries": 5, "delayMs": 1500, "failure": failure}})
    screen.record({"type": "llm/retry", "data": {"retry": 1, "delayMs": 60, "failure": failure}})
    os.close(writing)
    with os.fdopen(reading) as stream:
        assert stream.read().splitlines() == [
            "[RATE_LIMIT: too many requests; retry 2 of 5 in 1.5 seconds]",
            "[RATE_LIMIT: too many requests; retry 1 in 0.1 seconds]",
        ]


def test_a_screen_that_is_gone_is_no_failure() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    screen = Screen(writing, colour=False, prompt=True)
    screen.line("hello")
    screen.ask()
    assert screen.gone
    os.close(writing)


# -- before the first request (K9) -----------------------------------------------------------------------------


@pytest.mark.anyio
async def test_stop_before_the_first_request(server: Server, file: Path) -> None:
    """Ctrl-C between Enter and the first byte: no request goes out, the log shows the aborted turn."""
    script = server.script("Hi.")
    journal = Journal.create(file)
    screen = Screen(os.open(os.devnull, os.O_WRONLY), colour=False, prompt=False)
    async with open_deepseek(settings(script.url)) as adapter, open_harness() as harness:
        harness.llm.register_adapter(["deepseek-official"], adapter)
        agent = await harness.create_agent(options=AgentOptions("deepseek-official", "m1"))
        talk = Talk(agent, screen, journal, Options(adapter.settings, "m1"))
        talk.listen(harness)
        assembling, go_on = anyio.Event(), anyio.Event()

        async def hold(payload: Any, following: Any) -> Any:
            assembling.set()
            await go_on.wait()
            return await following()

        harness.on("agent/pre-step", hold)
        talk.typed("Hello.")
        with anyio.fail_after(GUARD):
            await assembling.wait()
            talk.interrupt()
            go_on.set()
            await agent.when_idle()
    journal.close()
    assert script.log() == []
    assert ends(file) == [{"kind": "aborted", "reason": {"kind": "user"}}]
    assert records(file, "step/start") == []


def test_the_lock_is_one_of_the_whole_file(file: Path) -> None:
    """Any other program can ask for it, as the store does."""
    journal = Journal.create(file)
    other = os.open(file, os.O_RDWR)
    with pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(other)
    journal.close()
