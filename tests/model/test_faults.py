"""Every way in which a model server goes wrong, over real sockets: one failure code each, and nothing hangs."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple

import anyio
import pytest
from tests.model.wire import KEY, FiresAt, Server, call, delta, hear, payloads, request, said, settings

from loopharness.frozen import thaw
from loopharness.model.deepseek import DeepSeekAdapter, open_deepseek
from loopharness.model.failure import LlmError

pytestmark = pytest.mark.anyio

HALF = payloads(*said("Half an ", "answer"), done=False)
WHOLE = payloads(*said("Half an ", "answer"), delta("stop"))


def refused(status: int, message: str | None = None, headers: Mapping[str, str] | None = None, **more: Any) -> Any:
    """A status with an error object, which may be empty."""
    fields = {} if message is None else {"message": message}
    return {"status": status, "error": {**fields, **more}, "headers": dict(headers or {})}


class Case(NamedTuple):
    """An answer, and what the call ends with."""

    name: str
    answer: Mapping[str, Any]
    code: str
    message: str = ""
    text: str = ""
    facts: Mapping[str, Any] | None = None


LONG = "This model's maximum context length is 1000 tokens, your prompt has 1200."
BAD = "malformed response: "
STREAM_FAILED = "DeepSeek API stream from {url} failed"
REQUEST_FAILED = "DeepSeek API request to {url} failed"
CLOSED = "SSE stream ended without [DONE]"

STATUSES = (
    Case("401", refused(401, "no such key"), "AUTH", "no such key", facts={"status": 401}),
    Case("403", refused(403), "AUTH", "DeepSeek API error (HTTP 403)"),
    Case("401 with quota words", refused(401, "insufficient balance"), "AUTH"),
    Case("402 with quota words", refused(402, "Insufficient Balance"), "QUOTA", facts={"status": 402}),
    Case("402 without", refused(402, "pay"), "HTTP_402"),
    Case("404", refused(404, "no such model"), "HTTP_404"),
    Case("413", refused(413, "too big"), "INVALID_REQUEST"),
    Case("413 with quota words", refused(413, "quota exceeded"), "INVALID_REQUEST"),
    Case("422", refused(422, "bad field"), "HTTP_422"),
    Case("422 with quota words", refused(422, "you exceeded your current quota"), "QUOTA"),
    Case("429", refused(429, "rate limit reached"), "RATE_LIMIT"),
    Case("429 with quota words", refused(429, "usage limit reached"), "QUOTA"),
    Case("400 overflow in the message", refused(400, LONG), "CONTEXT_WINDOW_EXCEEDED", LONG),
    Case("400 overflow in the code", refused(400, "no", code="context_length_exceeded"), "CONTEXT_WINDOW_EXCEEDED"),
    Case("400 other", refused(400, "temperature exceeds maximum allowed value"), "INVALID_REQUEST"),
    Case("500", refused(500, "down"), "SERVER", "down"),
    Case("503", refused(503, "overloaded"), "SERVER"),
    Case("599", refused(599), "SERVER", facts={"status": 599}),
    Case("status beyond the table", refused(701), "SERVER"),
    Case("418", refused(418), "HTTP_418"),
    Case("304", {"status": 304, "framing": "length"}, "HTTP_304"),
    Case("redirect", {"status": 302, "body": "", "headers": {"Location": "http://127.0.0.1:1/"}}, "HTTP_302"),
    Case("permanent redirect", {"status": 308, "body": "", "headers": {"Location": "/elsewhere"}}, "HTTP_308"),
    Case("204", {"status": 204, "framing": "length", "body": ""}, "EMPTY_RESPONSE"),
    Case("error body is no JSON", {"status": 500, "body": "<html>"}, "SERVER", "DeepSeek API error (HTTP 500)"),
    Case("error body is a list", {"status": 500, "body": "[1]"}, "SERVER", "DeepSeek API error (HTTP 500)"),
    Case("error is text", {"status": 500, "body": '{"error":"x"}'}, "SERVER", "DeepSeek API error (HTTP 500)"),
    Case("error message is a number", {"status": 400, "body": '{"error":{"message":7}}'}, "INVALID_REQUEST"),
    Case("error body is cut off", {"status": 500, "body": "{", "content_length": 90}, "SERVER"),
    Case("error body is reset", {**refused(429, "slow down"), "reset_after": 3}, "RATE_LIMIT"),
    Case("error body without end", {"status": 500, "body": "x" * (1 << 21)}, "SERVER"),
    Case("error body is no UTF-8", {"status": 502, "body_hex": "ff00fe"}, "SERVER"),
)

WAITS = (
    Case("seconds", refused(429, headers={"retry-after": "7"}), "RATE_LIMIT", facts={"providerRetryAfterMs": 7000}),
    Case("zero", refused(429, headers={"retry-after": "0"}), "RATE_LIMIT", facts={"providerRetryAfterMs": None}),
    Case("words", refused(429, headers={"retry-after": "soon"}), "RATE_LIMIT", facts={"providerRetryAfterMs": None}),
    Case("negative", refused(429, headers={"retry-after": "-5"}), "RATE_LIMIT", facts={"providerRetryAfterMs": None}),
    Case(
        "date",
        refused(429, headers={"retry-after": "Thu, 01 Jan 1970 00:00:12 GMT"}),
        "RATE_LIMIT",
        facts={"providerRetryAfterMs": 2000},
    ),
    Case(
        "date without a zone",
        refused(429, headers={"retry-after": "Thu, 01 Jan 1970 00:00:12 -0000"}),
        "RATE_LIMIT",
        facts={"providerRetryAfterMs": 2000},
    ),
    Case(
        "date in the past",
        refused(429, headers={"retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"}),
        "RATE_LIMIT",
        facts={"providerRetryAfterMs": None},
    ),
    Case(
        "forty digits",
        refused(429, headers={"retry-after": "9" * 40}),
        "RATE_LIMIT",
        facts={"providerRetryAfterMs": 2147483647},
    ),
    Case(
        "four hundred digits",
        refused(503, headers={"retry-after": "9" * 400}),
        "SERVER",
        facts={"providerRetryAfterMs": 2147483647},
    ),
    Case("request id", refused(500, headers={"x-request-id": "r-1"}), "SERVER", facts={"requestId": "r-1"}),
    Case(
        "its other name", refused(500, headers={"x-deepseek-request-id": "r-2"}), "SERVER", facts={"requestId": "r-2"}
    ),
    Case("an empty request id", refused(500, headers={"x-request-id": ""}), "SERVER", facts={"requestId": None}),
)

TRANSPORT = (
    Case("closed without an answer", {"no_answer": True}, "TRANSPORT", REQUEST_FAILED),
    Case("reset before the answer", {"body": "", "reset_after": 0}, "TRANSPORT", "", ""),
    Case("no HTTP", {"file": "no-http.http"}, "TRANSPORT", REQUEST_FAILED),
    Case("head without end", {"file": "endless-head.http"}, "TRANSPORT", REQUEST_FAILED),
    Case("head cut off", {"file": "cut-head.http"}, "TRANSPORT", REQUEST_FAILED),
    Case("two content lengths", {"file": "two-lengths.http"}, "TRANSPORT", REQUEST_FAILED),
    Case("bad chunk size", {"file": "bad-chunk.http"}, "TRANSPORT", STREAM_FAILED),
    Case("reset in the middle", {"body": HALF, "reset_after": len(HALF)}, "TRANSPORT", STREAM_FAILED, "?"),
    Case(
        "chunked, cut",
        {"body": HALF, "framing": "chunked", "end": "close"},
        "TRANSPORT",
        STREAM_FAILED,
        "Half an answer",
    ),
    Case(
        "longer length declared", {"body": HALF, "content_length": 9999}, "TRANSPORT", STREAM_FAILED, "Half an answer"
    ),
    Case("no gzip after all", {"body": WHOLE, "headers": {"Content-Encoding": "gzip"}}, "TRANSPORT", STREAM_FAILED),
)

STREAMS = (
    Case(
        "shorter length declared",
        {"body": WHOLE, "content_length": len(WHOLE) - 5},
        "STREAM_CLOSED",
        CLOSED,
        "Half an answer",
    ),
    Case("length zero", {"body": WHOLE, "content_length": 0}, "STREAM_CLOSED", CLOSED),
    Case("cut in a character", {"body": payloads(*said("Grüße")), "cut_after": 53}, "STREAM_CLOSED", CLOSED),
    Case(
        "cut before the blank line",
        {"body": WHOLE, "cut_after": len(WHOLE) - 1},
        "STREAM_CLOSED",
        CLOSED,
        "Half an answer",
    ),
    Case(
        "half closed",
        {"body": HALF, "framing": "close", "end": "half-close"},
        "STREAM_CLOSED",
        CLOSED,
        "Half an answer",
    ),
    Case(
        "half closed after the end",
        {"body": WHOLE, "framing": "close", "end": "half-close"},
        "ok",
        "",
        "Half an answer",
    ),
    Case("reset after the end", {"body": WHOLE, "framing": "close", "end": "reset"}, "ok", "", "Half an answer"),
    Case("gzip", {"body": WHOLE, "gzip": True}, "ok", "", "Half an answer"),
    Case("gzip, cut", {"body": WHOLE, "gzip": True, "cut_after": 60}, "STREAM_CLOSED", CLOSED),
    Case("one byte at a time", {"body": WHOLE, "drip": {"bytes": 1}}, "ok", "", "Half an answer"),
    Case(
        "one byte at a time, chunked",
        {"body": WHOLE, "framing": "chunked", "drip": {"bytes": 1}},
        "ok",
        "",
        "Half an answer",
    ),
    Case("no content type", {"body": WHOLE, "content_type": ""}, "ok", "", "Half an answer"),
    Case("content type of JSON", {"body": WHOLE, "content_type": "application/json"}, "ok", "", "Half an answer"),
    Case(
        "garbage in another type",
        {"body": "nonsense\n\n", "content_type": "text/plain"},
        "STREAM_CLOSED",
        CLOSED + "; the answer was text/plain, not text/event-stream",
    ),
    Case(
        "garbage without a type",
        {"body": "nonsense\n\n", "content_type": ""},
        "STREAM_CLOSED",
        CLOSED + "; the answer was of no declared type, not text/event-stream",
    ),
    Case("binary garbage", {"body_hex": bytes(range(256)).hex() * 8}, "STREAM_CLOSED", CLOSED),
    Case("usage is missing", {"text": "Hi.", "usage": "none"}, "ok", "", "Hi."),
    Case("usage is odd", {"text": "Hi.", "usage": {"prompt_tokens": "many"}}, "ok", "", "Hi."),
    Case("nothing was said", {"text": ""}, "EMPTY_RESPONSE", "model returned a completed response with no content"),
    Case("reasoning only", {"reasoning": "Hm."}, "ok"),
    Case("nothing, but cut by the limit", {"text": "", "finish": "length"}, "ok"),
    Case(
        "content filter",
        {"text": "He", "finish": "content_filter"},
        "CONTENT_FILTER",
        "model stopped: content_filter",
        "He",
    ),
    Case("no resources", {"text": "", "finish": "insufficient_system_resource"}, "INSUFFICIENT_SYSTEM_RESOURCE"),
    Case("deep nesting", {"body": payloads('{"choices":' + "[" * 3000)}, "MALFORMED_RESPONSE"),
    Case(
        "NaN",
        {"body": payloads('{"choices":NaN}')},
        "MALFORMED_RESPONSE",
        BAD + 'a payload is not JSON: {"choices":NaN}',
    ),
    Case("a number", {"body": payloads("7")}, "MALFORMED_RESPONSE", BAD + "a payload is a number, not an object"),
    Case("choices is an object", {"body": payloads({"choices": {}})}, "MALFORMED_RESPONSE"),
    Case(
        "content is a list",
        {"body": payloads(delta(content=[]))},
        "MALFORMED_RESPONSE",
        BAD + "content is a list, not text",
    ),
    Case("delta is text", {"body": payloads({"choices": [{"delta": "x"}]})}, "MALFORMED_RESPONSE"),
    Case("tool calls are an object", {"body": payloads(delta(tool_calls={}))}, "MALFORMED_RESPONSE"),
    Case("a tool call is null", {"body": payloads(delta(tool_calls=[None]))}, "MALFORMED_RESPONSE"),
    Case(
        "function is text", {"body": payloads(delta(tool_calls=[{"index": 0, "function": "f"}]))}, "MALFORMED_RESPONSE"
    ),
    Case("index is text", {"body": payloads(delta(tool_calls=[{"index": "0", "id": "c"}]))}, "MALFORMED_RESPONSE"),
    Case("id is a number", {"body": payloads(delta(tool_calls=[{"index": 0, "id": 5}]))}, "MALFORMED_RESPONSE"),
    Case(
        "error text in the stream",
        {"body": payloads(*said("Half"), {"error": "server_error"})},
        "UNKNOWN",
        "server_error",
        "Half",
    ),
    Case(
        "error with a status",
        {"body": payloads({"error": {"message": "m", "code": 429}})},
        "RATE_LIMIT",
        "m",
        facts={"status": 429},
    ),
    Case("error of a server", {"body": payloads({"error": {"message": "m", "type": "server_error"}})}, "SERVER"),
    Case(
        "error of a limit", {"body": payloads({"error": {"message": "m", "type": "rate_limit_exceeded"}})}, "RATE_LIMIT"
    ),
    Case("error of money", {"body": payloads({"error": {"message": "insufficient credits"}})}, "QUOTA"),
    Case("error of a name", {"body": payloads({"error": {"message": "m", "code": "odd_thing"}})}, "ODD_THING"),
    Case(
        "error without a name",
        {"body": payloads({"error": {"x": 1}})},
        "UNKNOWN",
        "DeepSeek API reported an error inside the stream",
    ),
    Case(
        "error object by itself",
        {"body": payloads({"object": "error", "message": "bad", "code": 400})},
        "INVALID_REQUEST",
        "bad",
    ),
    Case("null error beside an answer", {"body": payloads({**delta(content="Hi."), "error": None})}, "ok", "", "Hi."),
)

RAW = {
    "no-http.http": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "endless-head.http": b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 300_000,
    "cut-head.http": b"HTTP/1.1 200 OK\r\nContent-Type: text/ev",
    "two-lengths.http": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "bad-chunk.http": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
}


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
