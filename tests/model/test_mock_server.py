"""The mock model by itself: that its faults are where the script says, and that it tells what went wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from tests.model.conftest import LOOPSPEC
from tests.model.wire import FIELD_CASES, GUARD, Script, Server, call

from loopconform.cli import main
from loopconform.commands.mock_model import _load
from loopharness.model.mock_server.plan import Action, End, Pause, Send, Stall, WaitGate, plan
from loopharness.model.mock_server.script import Answer
from loopharness.model.mock_server.script import Script as Shape

pytestmark = pytest.mark.anyio


def planned(**fields: Any) -> list[Action]:
    """The plan of one answer, without its head."""
    script = Shape(answers=[Answer(**fields)])
    actions = plan(script.answers[0], script, Path(), 1, {}, 0)
    return [action for action in actions if not (isinstance(action, Send) and action.data.startswith(b"HTTP/"))]


@pytest.mark.parametrize("at", range(9))
@pytest.mark.parametrize(
    ("fault", "expected"), [("cut_after", End("close")), ("reset_after", End("reset")), ("stall_after", Stall())]
)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_fault_is_at_its_byte(at: int, fault: str, expected: Action, size: int) -> None:
    actions = planned(body="abcdefgh", drip={"bytes": size}, **{fault: at})
    assert b"".join(action.data for action in actions if isinstance(action, Send)) == b"abcdefgh"[:at]
    assert actions[-1] == expected
    assert sum(not isinstance(action, Send) for action in actions) == 1


def test_what_is_held_goes_on() -> None:
    assert planned(body="abcd", hold_after=2, hold_gate="g", cut_after=3) == [
        Send(b"ab", 2),
        WaitGate("g"),
        Send(b"c", 1),
        End("close"),
    ]


def test_a_slow_body() -> None:
    assert planned(body="abc", drip={"bytes": 2, "ms": 5}) == [
        Send(b"ab", 2),
        Pause(5),
        Send(b"c", 1),
        Pause(5),
        End("close"),
    ]


def test_framing() -> None:
    assert planned(body="abc", framing="chunked") == [Send(b"3\r\nabc\r\n0\r\n\r\n", 3), End("keep")]
    assert planned(body="abc", framing="chunked", end="close") == [Send(b"3\r\nabc\r\n", 3), End("close")]
    assert planned(body="abc", framing="length") == [Send(b"abc", 3), End("keep")]
    assert planned(body="abc") == [Send(b"abc", 3), End("close")]
    assert planned(body="abc", content_length=1) == [Send(b"abc", 3), End("close")]
    assert planned(no_answer=True) == [End("close")]


@pytest.mark.parametrize(
    "answer",
    [
        {"text": "a", "body": "b"},
        {"file": "a.sse", "error": {}},
        {"calls": [{"name": "f"}], "body_hex": "00"},
        {"texts": "a"},
        {"status": 9},
        {"drip": {"bytes": 0}},
        {"end": "never"},
    ],
)
def test_scripts_that_cannot_be(answer: Any, server: Server) -> None:
    refused = server.client.put("/-/bad", content=json.dumps({"answers": [answer]}))
    assert refused.status_code == 422
    assert server.client.get("/-/bad").status_code == 404


async def test_used_up(server: Server) -> None:
    script = server.script("one")
    assert (await call(script.url)).text() == "one"
    heard = await call(script.url)
    assert (heard.code, heard.message) == ("SERVER", "the script has 1 answers, and this is request 2")


@pytest.mark.parametrize(("after", "texts"), [("repeat", "abbb"), ("loop", "abab")])
async def test_after_the_last_answer(after: str, texts: str, server: Server) -> None:
    script = server.script("a", "b", after=after)
    assert "".join([(await call(script.url)).text() for _ in range(4)]) == texts


async def test_a_file_that_is_not_there(server: Server) -> None:
    heard = await call(server.script({"file": "/nowhere/x.sse"}).url)
    assert (heard.code, heard.message) == ("SERVER", "/nowhere/x.sse cannot be read: No such file or directory")


@pytest.mark.parametrize(
    ("expect", "difference"),
    [
        ({"body": {"model": "m2"}}, 'body.model is "m1" instead of "m2"'),
        ({"body": {"temperature": 1}}, "body.temperature is missing"),
        ({"body": {"stream": 1}}, "body.stream is true instead of 1"),
        ({"messages": []}, "messages has 1 entries instead of 0"),
        ({"messages": [{"role": "user"}]}, "messages[0].content is there, and should not be"),
        ({"messages_file": "/nowhere/x.json"}, "/nowhere/x.json cannot be read: No such file or directory"),
        ({"same_as": 1}, "same_as: there was no request 1 before this one"),
    ],
)
async def test_expectations(expect: Any, difference: str, server: Server) -> None:
    script = server.script({"text": "x", "expect": expect})
    heard = await call(script.url)
    assert heard.message == f"the request is not what the script expects: {difference}"
    assert script.log()[0]["mismatch"] == difference


async def test_the_same_bytes_again(server: Server) -> None:
    script = server.script("a", {"text": "b", "expect": {"same_as": 1, "body": {"model": "m1"}}})
    assert [(await call(script.url)).text() for _ in range(2)] == ["a", "b"]


def talk_raw(script: Script, data: bytes) -> bytes:
    """Send bytes, and read all that comes."""
    host, port = script.server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=GUARD) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while more := connection.recv(65536):
            found += more
        return found


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02",
        b"GET\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"GET / HTT",
        b"A" * 70_000,
        b"",
        b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nab",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
def test_a_client_that_does_not_speak_http(data: bytes, server: Server) -> None:
    """The connection is closed, and the server lives on."""
    script = server.script("a")
    assert talk_raw(script, data) == b""
    assert script.left() == 1


def test_nothing_is_served_elsewhere(server: Server) -> None:
    answer = server.client.get("/nowhere")
    assert answer.status_code == 404
    assert "nothing is served at GET /nowhere" in answer.json()["error"]["message"]


def test_a_body_that_is_no_json(server: Server) -> None:
    script = server.script("a")
    assert (
        httpx.post(f"{script.url}/chat/completions", content=b"hello", trust_env=False, verify=False).status_code == 200
    )
    assert script.log()[0]["body"] == {"not-json": "hello"}


# -- the command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "files"),
    [
        (signal.SIGINT, ["a.yaml", "b.yaml"]),
        (signal.SIGTERM, [str(FIELD_CASES / "K20-1-tool-call.sse"), str(FIELD_CASES / "K20-3-final.sse")]),
    ],
)
async def test_the_command(how: signal.Signals, files: list[str], tmp_path: Path) -> None:
    """It prints its URLs, answers, writes its log, and ends without a word."""
    (tmp_path / "a.yaml").write_text("answers: [First.]\n")
    (tmp_path / "b.yaml").write_text("answers:\n  - text: Second.\n    usage: none\nafter: repeat\n")
    log = tmp_path / "log.jsonl"
    arguments = (*LOOPSPEC, "mock-model", *files, "--log", str(log))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=tmp_path, text=True) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().strip()
            if how == signal.SIGINT:
                assert [process.stdout.readline().strip() for _ in range(2)] == [f"{url}/a", f"{url}/b"]
                texts = [(await call(at)).text() for at in (url, f"{url}/b", f"{url}/b")]
                assert texts == ["First.", "Second.", "Second."]
            else:
                assert (await call(url)).blocks("tool-call")[0]["name"] == "write"
                assert [(await call(url)).text() for _ in range(2)] == ["Written."] * 2
            assert httpx.get(f"{url}/-/a", trust_env=False, verify=False).status_code == 404  # nobody steers it
            process.send_signal(how)
            assert process.wait(GUARD) == 0
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["event"] for row in rows] == ["request", "answered"] * 3
    assert "authorization" in rows[0]["headers"]
    assert "sk-" not in log.read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("answers: []\n", "bad.yaml:1: answers:"),
        ("answers:\n  - text: a\n  - texxt: b\n", "bad.yaml:3: answers.1.texxt:"),
        ("answers: [", "bad.yaml"),
        (None, "cannot be read"),
    ],
)
def test_a_script_that_cannot_be_used(content: str | None, words: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    if content is not None:
        path.write_text(content)
    done = CliRunner().invoke(main, ["mock-model", str(path)])
    assert done.exit_code == 2
    assert words in "".join(done.output.split("\n"))


def test_ports_and_names(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("answers: [a]\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.yaml").write_text("answers: [a]\n")
    twice = CliRunner().invoke(main, ["mock-model", str(tmp_path / "a.yaml"), str(other / "a.yaml")])
    assert (twice.exit_code, "two scripts are called" in twice.output) == (2, True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = CliRunner().invoke(main, ["mock-model", str(tmp_path / "a.yaml"), "--port", str(port)])
    assert (done.exit_code, f"port {port} cannot be used" in done.output) == (2, True)


def test_nothing_to_serve() -> None:
    done = CliRunner().invoke(main, ["mock-model"])
    assert (done.exit_code, "Missing argument SCRIPTS" in done.output) == (2, True)


def test_the_schema() -> None:
    done = CliRunner().invoke(main, ["mock-model", "--schema"])
    assert "cut_after" in json.loads(done.output)["$defs"]["Answer"]["properties"]


def test_the_examples_are_scripts() -> None:
    examples = sorted((Path(__file__).parents[2] / "examples" / "mock").glob("*.yaml"))
    assert list(_load(tuple(examples))) == ["agent", "busy", "faults", "hello"]
