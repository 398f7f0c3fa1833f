"""What a model server may answer wrongly, and what the call then ends with: a table of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.model.wire import delta, payloads, said

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
