"""Every way in which a model server goes wrong, over real sockets: one failure code each, and nothing hangs."""

from __future__ import annotations

import json
import socket
from typing import Any

import anyio
import pytest
from tests.model.faults import (
    CLOSED,
    HALF,
    LONG,
    RAW,
    STATUSES,
    STREAMS,
    TRANSPORT,
    WAITS,
    Case,
    refused,
)
from tests.model.wire import KEY, FiresAt, Server, call, delta, hear, payloads, request, said, settings

from loopharness.frozen import thaw
from loopharness.model.deepseek import DeepSeekAdapter, open_deepseek
from loopharness.model.failure import LlmError

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="session")
def raw(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The raw answers as files."""
    folder = tmp_path_factory.mktemp("raw")
    for name, content in RAW.items():
        (folder / name).write_bytes(content)
    return {name: str(folder / name) for name in RAW}


@pytest.mark.parametrize("case", [*STATUSES, *WAITS, *TRANSPORT, *STREAMS], ids=lambda case: case.name)
async def test_fault(case: Case, server: Server, raw: dict[str, str]) -> None:
    answer = dict(case.answer)
    if "file" in answer:
        answer["file"] = raw[answer["file"]]
    script = server.script(answer)
    with anyio.fail_after(60):
        async with open_deepseek(settings(script.url), now_ms=lambda: 10_000) as adapter:
            heard = await hear(adapter, request())
    assert heard.code == case.code
    if case.message:
        assert heard.message == case.message.replace("{url}", script.url)
    if case.text != "?":
        assert heard.text() == case.text
    for name, value in (case.facts or {}).items():
        assert heard.failure is not None
        assert heard.failure.get(name) == value
    script.log()  # nobody is left behind on the other side


def test_the_table_is_long_enough() -> None:
    """Names are unique, and no file of the table is missing from it."""
    cases = (*STATUSES, *WAITS, *TRANSPORT, *STREAMS)
    assert len({case.name for case in cases}) == len(cases) >= 60
    assert {case.answer["file"] for case in cases if "file" in case.answer} == RAW.keys()


async def test_unbounded_wait_is_published_behaviour(server: Server) -> None:
    heard = await call(server.script(refused(429, headers={"retry-after": "9" * 40})).url, profile="dsh-0.1")
    assert heard.failure is not None
    assert heard.failure["providerRetryAfterMs"] == 1e43


# -- nobody there ----------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_connection_refused() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    heard = await call(url)
    assert (heard.code, heard.message) == ("TRANSPORT", f"DeepSeek API request to {url} failed")


async def test_dead_server() -> None:
    """Somebody listens and never accepts: the connection is made by the kernel, and then nothing comes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        heard = await call(f"http://127.0.0.1:{listener.getsockname()[1]}", watch=FiresAt(1))
    assert (heard.code, heard.message) == ("TIMEOUT", "DeepSeek stream idle timeout after 1000ms")


async def test_tls_against_plain_text(server: Server) -> None:
    url = server.url.replace("http://", "https://")
    heard = await call(url)
    assert (heard.code, heard.message) == ("TRANSPORT", f"DeepSeek API request to {url} failed")


async def test_no_such_host() -> None:
    heard = await call("http://nowhere.invalid")
    assert heard.code == "TRANSPORT"


# -- too much --------------------------------------------------------------------------------------------------


async def test_a_line_without_end(server: Server) -> None:
    heard = await call(server.script({"body": "data: " + "x" * 100_000}).url, event_limit=65_536)
    assert (heard.code, heard.message) == (
        "MALFORMED_RESPONSE",
        "malformed response: an event is longer than 65536 bytes",
    )


async def test_a_flood(server: Server) -> None:
    """A server that talks for ever, each event small: what came before the limit is heard, then it is over."""
    script = server.script(
        {"repeat": {"text": payloads(*said(*["blah "] * 50), done=False), "every_ms": 0}, "body": ""}
    )
    heard = await call(script.url, stream_limit=200_000)
    assert (heard.code, heard.message) == (
        "MALFORMED_RESPONSE",
        "malformed response: the stream is longer than 200000 bytes",
    )
    assert script.log()[0]["end"] == "client left"


async def test_a_long_line_within_the_limit(server: Server) -> None:
    text = "long " * 100_000
    heard = await call(server.script({"body": payloads(*said(text), delta("stop"))}).url)
    assert (heard.code, heard.text()) == ("ok", text)


async def test_an_error_body_without_end(server: Server) -> None:
    script = server.script({"status": 500, "body": "x", "repeat": {"text": "y" * 65536, "every_ms": 0}})
    assert (await call(script.url)).code == "SERVER"
    assert script.log()[0]["end"] == "client left"


async def test_a_stream_of_another_type_that_is_cut(server: Server) -> None:
    heard = await call(server.script({"body": HALF, "content_type": "application/json"}).url)
    assert (heard.code, heard.message, heard.text()) == ("STREAM_CLOSED", CLOSED, "Half an answer")


async def test_an_error_object_in_many_reads(server: Server) -> None:
    body = json.dumps({"error": {"message": LONG}})
    heard = await call(
        server.script({"body": body, "content_type": "application/json", "drip": {"bytes": 5, "ms": 1}}).url
    )
    assert (heard.code, heard.message) == ("CONTEXT_WINDOW_EXCEEDED", LONG)


async def test_what_cannot_be_asked_for_needs_no_key(server: Server) -> None:
    script = server.script("Hi.")
    async with open_deepseek(settings(script.url, api_key=lambda: None)) as adapter:
        heard = await hear(adapter, request(reasoningEffort="medium"))
    assert heard.code == "UNSUPPORTED_REASONING_EFFORT"


# -- keys ------------------------------------------------------------------------------------------------------


async def test_a_wrong_key(server: Server) -> None:
    heard = await call(server.script({"text": "Hi."}, key="another").url)
    assert (heard.code, heard.message) == ("AUTH", "Authentication Fails (no such user)")


async def test_the_right_key(server: Server) -> None:
    heard = await call(server.script({"text": "Hi."}, key=KEY).url)
    assert heard.text() == "Hi."


@pytest.mark.parametrize(
    ("key", "code"),
    [
        (None, "MISSING_CREDENTIAL"),
        ("", "INVALID_CREDENTIAL"),
        ("  ", "INVALID_CREDENTIAL"),
        ("schlüssel", "INVALID_CREDENTIAL"),
        ("two words", "INVALID_CREDENTIAL"),
        ("line\nfeed", "INVALID_CREDENTIAL"),
    ],
)
async def test_keys_that_cannot_be(key: str | None, code: str, server: Server) -> None:
    script = server.script({"text": "Hi."})
    heard = await call(script.url, api_key=lambda: key)
    assert heard.code == code
    assert not key or key not in heard.message
    assert script.log() == []


async def test_blanks_around_a_key_are_no_part_of_it(server: Server) -> None:
    assert (await call(server.script({"text": "Hi."}, key=KEY).url, api_key=lambda: f" {KEY}\n")).text() == "Hi."


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 401, "error": {"message": f"wrong key {KEY}"}},
        {"body": payloads({"error": {"message": f"wrong key {KEY}"}})},
        {"body": payloads(f"{{oops {KEY}")},
        {"status": 500, "error": {"message": "x"}, "headers": {"x-request-id": KEY}},
        {"no_answer": True},
        {"text": "fine"},
    ],
)
async def test_the_key_is_nowhere(answer: Any, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """A server that says the key back, and everything that is logged, raised or represented."""
    # the connection's own debug log shows what the server sent; what was sent to it, it never shows
    caplog.set_level("DEBUG" if "headers" not in answer else "INFO")
    adapter = DeepSeekAdapter(settings(server.script(answer).url))
    shown = [repr(adapter), repr(adapter.settings)]
    try:
        with anyio.fail_after(60):
            async for chunk in adapter.stream(request()):
                shown.append(json.dumps(thaw(chunk)))
    except LlmError as error:
        seen: BaseException | None = error
        while seen is not None:
            shown += [repr(seen), str(seen), repr(vars(seen))]
            seen = seen.__cause__ or seen.__context__
    await adapter.aclose()
    assert KEY not in "\n".join([*shown, caplog.text])


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "api.deepseek.com",
        "http://",
        "http://user:secret@host",
        "https://host/?key=secret",
        "https://host/#secret",
        "http://host:99999",
        "http://ho st",
        "http://höst",
        "http://[::1",
    ],
)
def test_urls_that_cannot_be(url: str) -> None:
    with pytest.raises(ValueError, match="base URL") as caught:
        settings(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(("profile", "code"), [("seed", "UNKNOWN"), ("dsh-0.1", "TRANSPORT")])
async def test_a_fault_of_ours_is_not_the_transport(profile: Any, code: str, server: Server) -> None:
    """A message without its content: nothing is sent, and nothing is tried again."""
    script = server.script("Hi.")
    async with open_deepseek(settings(script.url), profile=profile) as adapter:
        heard = await hear(adapter, request(messages=[{"role": "user"}]))
    assert heard.code == code
    assert script.log() == []


# -- connections -----------------------------------------------------------------------------------------------


async def test_connections_are_used_again(server: Server) -> None:
    """A stream that ended well leaves its connection to the next one, unless the machine stood still in between."""
    script = server.script(*["one", "two", "three", "four", "five", "six"])
    async with open_deepseek(settings(script.url)) as adapter:
        for expected in ("one", "two", "three", "four", "five", "six"):
            assert (await hear(adapter, request())).text() == expected
    assert len({entry["connection"] for entry in script.log()}) < 6


async def test_a_server_that_closed_meanwhile_is_asked_again(server: Server) -> None:
    script = server.script({"text": "one", "end": "close"}, "two")
    async with open_deepseek(settings(script.url)) as adapter:
        assert (await hear(adapter, request())).text() == "one"
        assert (await hear(adapter, request())).text() == "two"
