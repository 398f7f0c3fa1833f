"""Field cases K37, K38 and K40 over real sockets: each input with its outcome under `seed`, and where it differs under
`dsh-0.1`."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from tests.model.wire import FIELD_CASES, FiresAt, Server, call

pytestmark = pytest.mark.anyio

GREETING = "Grüße, 世界"
HALF = "Half an answer"
TOO_LONG = "This model's maximum context length is 1000 tokens, your prompt has 1200."


class Case(NamedTuple):
    """One file: the code that the call ends with, the text seen, and the code under `dsh-0.1` if it is another."""

    file: str
    code: str
    text: str = ""
    published: str = ""
    message: str = ""


CLOSED = "SSE stream ended without [DONE]"

CASES = (
    # K38, where a stream ends
    Case("K38-eof-in-text.sse", "STREAM_CLOSED", HALF, message=CLOSED),
    Case("K38-eof-in-tool-arguments.sse", "STREAM_CLOSED"),
    Case("K38-eof-after-complete-call.sse", "STREAM_CLOSED"),
    Case("K38-eof-after-finish.sse", "STREAM_CLOSED", HALF),
    Case("K38-done-without-blank-line.sse", "STREAM_CLOSED", HALF),
    Case("K38-done-without-finish.sse", "ok", HALF),
    Case("K38-done-with-trailing-space.sse", "ok", HALF, "MALFORMED_RESPONSE"),
    Case("K38-proxy-text-line-then-close.sse", "STREAM_CLOSED"),
    Case("K38-garbage-after-done.sse", "ok", HALF),
    Case("K38-empty-body.sse", "STREAM_CLOSED", message=CLOSED),
    Case("K38-only-done.sse", "EMPTY_RESPONSE", message="model returned a completed response with no content"),
    # K38, framing
    Case("K38-crlf.sse", "ok", GREETING),
    Case("K38-cr-only.sse", "ok", GREETING, "STREAM_CLOSED"),
    Case("K38-bom.sse", "ok", GREETING),
    Case("K38-no-space-after-colon.sse", "ok", GREETING),
    Case("K38-comments.sse", "ok", GREETING),
    Case("K38-comment-as-data.sse", "ok", GREETING, "MALFORMED_RESPONSE"),
    Case("K38-other-fields.sse", "ok", GREETING),
    Case("K38-multi-line-data.sse", "ok", GREETING),
    Case("K38-empty-data.sse", "ok", GREETING, "MALFORMED_RESPONSE"),
    # K40, errors and odd shapes inside a 200
    Case("K40-error-object.sse", "CONTEXT_WINDOW_EXCEEDED", "", "EMPTY_RESPONSE", TOO_LONG),
    Case("K40-error-object-no-done.sse", "CONTEXT_WINDOW_EXCEEDED", "", "STREAM_CLOSED", TOO_LONG),
    Case("K40-error-beside-null-choices.sse", "CONTEXT_WINDOW_EXCEEDED", "", "EMPTY_RESPONSE", TOO_LONG),
    Case("K40-error-after-text.sse", "CONTEXT_WINDOW_EXCEEDED", HALF, "ok", TOO_LONG),
    Case("K40-error-in-choice.sse", "CONTEXT_WINDOW_EXCEEDED", "", "ERROR", TOO_LONG),
    Case("K40-usage-only.sse", "EMPTY_RESPONSE"),
    Case("K40-usage-first.sse", "ok", HALF),
    Case("K40-usage-null-everywhere.sse", "ok", HALF),
    Case("K40-null-payload.sse", "MALFORMED_RESPONSE", HALF, "TRANSPORT"),
    Case("K40-null-choice.sse", "MALFORMED_RESPONSE", HALF, "TRANSPORT"),
    Case("K40-not-json.sse", "MALFORMED_RESPONSE", HALF, message="malformed response: a payload is not JSON: {oops"),
    Case("K40-html-200.http", "STREAM_CLOSED", message=f"{CLOSED}; the answer was text/html, not text/event-stream"),
    Case("K40-json-200.http", "CONTEXT_WINDOW_EXCEEDED", "", "STREAM_CLOSED", TOO_LONG),
    # K37, heads of tool calls
    Case("K37-no-id.sse", "ok"),
    Case("K37-two-calls-no-id.sse", "ok"),
    Case("K37-empty-id.sse", "ok"),
    Case("K37-late-id.sse", "ok"),
    Case("K37-id-repeated-empty-later.sse", "ok"),
    Case("K37-no-index.sse", "ok"),
    Case("K37-two-calls-no-index.sse", "ok"),
    Case("K37-no-name.sse", "MALFORMED_RESPONSE", "", "ok", "malformed response: a tool call has no name"),
    Case("K37-arguments-as-object.sse", "MALFORMED_RESPONSE", "", "ok"),
)

TIMED = {"K38-split-reads.json", "K38-stall.json", "K38-open-after-done.json"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
async def test_seed(case: Case, server: Server) -> None:
    heard = await call(server.files(case.file).url)
    assert (heard.code, heard.text()) == (case.code, case.text)
    if case.message:
        assert heard.message == case.message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
async def test_published(case: Case, server: Server) -> None:
    heard = await call(server.files(case.file).url, profile="dsh-0.1")
    assert heard.code == (case.published or case.code)


def test_every_file_is_used() -> None:
    """K30, K34 and K20 are runs of the loop; the three timed ones are below."""
    files = {path.name for path in FIELD_CASES.iterdir() if path.name.startswith(("K37", "K38", "K40"))}
    logs = {name for name in files if name.startswith("K37-empty-call-id")}
    assert files - logs == {case.file for case in CASES} | TIMED


READ_A = {"type": "tool-call", "name": "read", "arguments": '{"path":"a.txt"}'}
READ_B = {"type": "tool-call", "name": "read", "arguments": '{"path":"b.txt"}'}


@pytest.mark.parametrize(
    ("file", "calls"),
    [
        ("K37-no-id.sse", [{**READ_A, "id": "minted-1"}]),
        ("K37-two-calls-no-id.sse", [{**READ_A, "id": "minted-1"}, {**READ_B, "id": "minted-2"}]),
        ("K37-empty-id.sse", [{**READ_A, "id": "minted-1"}]),
        ("K37-late-id.sse", [{**READ_A, "id": "c1"}]),
        ("K37-id-repeated-empty-later.sse", [{**READ_A, "id": "c1"}]),
        ("K37-no-index.sse", [{**READ_A, "id": "c1"}]),
        ("K37-two-calls-no-index.sse", [{**READ_A, "id": "c1"}, {**READ_B, "id": "c2"}]),
    ],
)
async def test_calls_have_ids_of_their_own(file: str, calls: list[Any], server: Server) -> None:
    heard = await call(server.files(file).url)
    assert heard.blocks("tool-call") == calls
    deltas = [chunk for chunk in heard.chunks if chunk["type"] == "tool-call-delta"]
    for at, expected in enumerate(calls):
        assert {d["id"] for d in deltas if d["index"] == at} == {expected["id"]}
        assert "".join(d["argumentsDelta"] for d in deltas if d["index"] == at) == expected["arguments"]


@pytest.mark.parametrize(
    ("file", "calls"),
    [
        ("K37-no-id.sse", [{**READ_A, "id": ""}]),
        ("K37-empty-id.sse", [{**READ_A, "id": ""}]),
        ("K37-id-repeated-empty-later.sse", [{**READ_A, "id": "", "name": ""}]),
        ("K37-no-name.sse", [{**READ_A, "id": "c1", "name": ""}]),
        ("K37-arguments-as-object.sse", [{**READ_A, "id": "c1", "arguments": "[object Object]"}]),
        (
            "K37-two-calls-no-index.sse",
            [{**READ_A, "id": "c2", "arguments": '{"path":"a.txt"}{"path":"b.txt"}'}],
        ),
    ],
)
async def test_published_calls(file: str, calls: list[Any], server: Server) -> None:
    heard = await call(server.files(file).url, profile="dsh-0.1")
    assert heard.blocks("tool-call") == calls


def timed(file: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((FIELD_CASES / file).read_text())
    return data


async def test_split_reads(server: Server) -> None:
    heard = await call(server.script({"body_hex": timed("K38-split-reads.json")["writes"], "drip": {"bytes": 1}}).url)
    assert (heard.code, heard.text()) == ("ok", GREETING)


async def test_open_after_done(server: Server) -> None:
    """The server never closes: the call ends all the same, and lets go of the connection."""
    script = server.script({"body": timed("K38-open-after-done.json")["writes"], "end": "open"})
    heard = await call(script.url)
    assert (heard.code, heard.text()) == ("ok", GREETING)
    assert script.log()[0]["end"] == "client left"


async def test_stall(server: Server) -> None:
    script = server.script({"body": timed("K38-stall.json")["writes"], "end": "open"})
    heard = await call(script.url, watch=FiresAt(2))
    assert (heard.code, heard.text("reasoning-delta")) == ("TIMEOUT", "Thinking about")
    assert heard.message == "DeepSeek stream idle timeout after 1000ms"
    assert script.log()[0]["end"] == "client left"
