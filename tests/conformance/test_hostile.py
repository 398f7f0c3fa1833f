"""Whatever an adapter does: bounded time and memory, ADAPTER_ERROR with a reason, and the run goes on."""

from __future__ import annotations

import os
import shlex
import sys
import threading
from pathlib import Path

import pytest
from tests.conformance.hostile import KINDS

from loopconform.protocol.case import load_case
from loopconform.runner.channel import STDERR_KEPT, AdapterError, ProcessChannel, opener
from loopconform.runner.suite import play_all

HAND = Path("conformance/cases/hand")
SILENCE = "no reply within"
REASONS = {
    "silent": SILENCE,
    "mute_later": SILENCE,
    "garbage": "not a reply of the protocol",
    "invalid": "not a reply of the protocol",
    "unknown": "not a reply of the protocol",
    "flood": "replies to one request",
    "long_line": "longer than",
    "twice": "it closes request",
    "late": "it closes request",
    "ahead": "which has not been sent",
    "dies": "it ended with exit code 3; its last words: out of luck",
    "lies": "never learnt it",
    "never_settles": SILENCE,
    "stderr": SILENCE,
    "other_protocol": "it speaks protocol 7",
    "wrong_closing": "was closed by",
}


def command(kind: str) -> str:
    """How a hostile adapter is started."""
    return shlex.join([sys.executable, str(Path(__file__).with_name("hostile.py")), kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_adapter_is_an_adapter_error_and_the_run_goes_on(kind: str) -> None:
    cases = [load_case(HAND / f"smoke/{name}.json") for name in ("create", "text")]
    timeout = 1.0 if REASONS[kind] == SILENCE else 30.0
    run = play_all(opener(command(kind)), [(case, "seed") for case in cases], timeout=timeout, shrink=False)
    assert [result.verdict for result in run.results] == ["ADAPTER_ERROR"] * 2
    assert all(REASONS[kind] in result.reason for result in run.results), run.results
    assert run.exit_code() == 2


def test_what_cannot_be_started_is_an_adapter_error_too() -> None:
    case = load_case(HAND / "smoke/create.json")
    for bad in ("/no/such/program", "'unbalanced", ""):
        (result,) = play_all(opener(bad), [(case, "seed")], timeout=1).results
        assert result.verdict == "ADAPTER_ERROR"
        assert result.reason


def test_stderr_is_read_and_mostly_forgotten() -> None:
    channel = ProcessChannel(command("stderr"))
    try:
        with pytest.raises(AdapterError, match="no reply"):
            channel.reply(0.5)
        assert 0 < len(channel.stderr) <= 2 * STDERR_KEPT
    finally:
        channel.close()


def test_only_the_adapter_itself_is_ended() -> None:
    """A timed-out adapter is gone, and nobody else is."""
    channel = ProcessChannel(command("silent"))
    other = ProcessChannel(command("silent"))
    pid = channel._process.pid
    channel.close()
    assert channel._process.poll() is not None
    assert other._process.poll() is None
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    other.close()


def test_the_file_of_an_ended_adapter_is_not_taken_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that was about to read when its adapter was ended reads nothing of anybody else's."""
    about_to_read: list[int] = []
    arrived, go_on, read = threading.Event(), threading.Event(), os.read

    def late_read(file: int, size: int) -> bytes:
        if threading.current_thread() is not threading.main_thread():
            about_to_read.append(file)
            if len(about_to_read) == 2:
                arrived.set()
            go_on.wait(10)
        return read(file, size)

    monkeypatch.setattr(os, "read", late_read)
    channel = ProcessChannel(command("silent"))
    assert arrived.wait(10)
    channel.close()
    pipes = [os.pipe() for _ in range(4)]
    given_out = {end for pipe in pipes for end in pipe}
    assert not given_out & set(about_to_read)
    go_on.set()
    for thread in channel._threads:
        thread.join(10)
        assert not thread.is_alive()
    for end in given_out:
        os.close(end)
