"""One attempt: a request, a stream, a failure with a name.

What comes over the network is turned into chunks by pure folds (`sse`, `translate`); this file is about the connection:
when to give up waiting, what to call a failure, and that nothing is left open. The key appears in one header and
nowhere else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Final

import anyio
import httpx

from loopharness.frozen import FrozenDict
from loopharness.model.chunks import Chunk
from loopharness.model.deepseek import sse
from loopharness.model.deepseek.convert import body_bytes, wire_body
from loopharness.model.deepseek.failures import carried_failure, status_failure
from loopharness.model.deepseek.strict_json import NotStrictJson, parse
from loopharness.model.deepseek.translate import Translation, WrongShape, ended, translate
from loopharness.model.failure import LlmError
from loopharness.model.service import Request
from loopharness.signal import Signal

if TYPE_CHECKING:
    from loopharness.model.deepseek.adapter import DeepSeekAdapter

__all__ = ["Attempt"]

DONE: Final = "[DONE]"
CLOSED: Final = "SSE stream ended without [DONE]"
ABORTED: Final = "DeepSeek request aborted by caller"

_ERROR_BODY_LIMIT: Final = 1 << 20
"""How much of the body of an error response is read."""

_LEFTOVER_SECONDS: Final = 0.02
"""How long a finished stream may take to end its response, so that its connection can be used again."""

_HEAD_LIMIT: Final = 1 << 16
"""How much of a body without any event is kept, to say what it was instead."""


@cache
def _agent_name() -> str:
    try:
        return f"loopspec/{metadata.version('loopspec')}"
    except metadata.PackageNotFoundError:
        return "loopspec/unknown"


class Attempt:
    """One attempt. Each pull has a scope of its own, which the caller's signal and the watchdog cancel (M-562)."""

    __slots__ = (
        "_adapter",
        "_body",
        "_chunks",
        "_failure",
        "_head",
        "_key",
        "_over",
        "_received",
        "_request",
        "_response",
        "_seen",
        "_sse",
        "_translation",
        "_watch",
    )

    def __init__(self, adapter: DeepSeekAdapter, request: Request) -> None:
        self._adapter = adapter
        self._request = request
        self._watch = adapter.watch(adapter.settings.idle_timeout_ms)
        self._response: httpx.Response | None = None
        self._body: AsyncIterator[bytes] | None = None
        self._sse = sse.Sse(adapter.settings.event_limit, waits=not adapter.law.wire_slips_are_forgiven)
        self._translation = Translation()
        self._chunks: deque[Chunk] = deque()
        self._over = False
        self._failure: LlmError | None = None
        self._received = 0
        self._seen = False
        self._head = b""
        self._key = ""

    def __aiter__(self) -> Attempt:
        return self

    async def __anext__(self) -> Chunk:
        signal = self._request.get("signal")
        if signal is not None and signal.aborted and (self._chunks or self._failure or not self._over):
            await self._stop()
            raise LlmError(ABORTED, "ABORTED")
        if self._chunks:
            return self._chunks.popleft()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._over:
            raise StopAsyncIteration
        try:
            await self._guarded(signal)
        except BaseException:
            await self._stop()
            raise
        return self._chunks.popleft()  # there is one: the work ends with a chunk or raises

    async def aclose(self) -> None:
        """The consumer stops: end the transport and wait for that (M-432, M-563)."""
        await self._stop()

    async def _stop(self) -> None:
        self._over = True
        self._chunks.clear()
        self._failure = None
        response, self._response = self._response, None
        body, self._body = self._body, None
        if response is None:
            return
        with anyio.CancelScope(shield=True):
            with suppress(Exception):  # M-563: the end of what is thrown away cannot fail
                await response.aclose()
            if body is not None:
                with suppress(Exception):  # its generators end here, and not when somebody collects them
                    async for _ in body:
                        pass

    async def _guarded(self, signal: Signal | None) -> None:
        """Work until there is a chunk, under watchdog and signal: who ends it first gives it its name (M-562)."""
        scope = self._watch.start()
        by_caller = False

        def abort(reason: object) -> None:
            nonlocal by_caller
            if not scope.cancel_called:
                by_caller = True
                scope.cancel()

        remove = None if signal is None else signal.on_abort(abort)
        failure: LlmError | None = None
        try:
            with scope:
                try:
                    await self._until_chunk(scope)
                except Exception as error:
                    failure = self._named(error)
        finally:
            if remove is not None:
                remove()
        if by_caller:
            raise LlmError(ABORTED, "ABORTED")
        if scope.cancelled_caught and not self._over:
            raise LlmError(f"DeepSeek stream idle timeout after {_number(self._watch.timeout_ms)}ms", "TIMEOUT")
        if failure is not None:
            await self._fail(failure)

    async def _fail(self, failure: LlmError) -> None:
        """End with a failure, behind what arrived before it: how a stream is cut into reads makes no difference."""
        arrived = list(self._chunks)
        await self._stop()
        if not arrived:
            raise failure
        self._chunks.extend(arrived)
        self._failure = failure

    async def _until_chunk(self, scope: anyio.CancelScope) -> None:
        if self._response is None:
            await self._open()
        while not self._chunks:
            received = await self._read()
            if received is None:
                raise self._eof()
            self._received += len(received)
            if self._received > self._adapter.settings.stream_limit:
                raise _malformed(f"the stream is longer than {self._adapter.settings.stream_limit} bytes")
            await self._take(received, scope)

    async def _take(self, received: bytes, scope: anyio.CancelScope) -> None:
        if not self._seen:
            self._head = (self._head + received)[:_HEAD_LIMIT]
        self._sse, events = sse.feed(self._sse, received)
        for event in events:
            if isinstance(event, sse.TooLong):
                raise _malformed(f"an event is longer than {event.limit} bytes")
            if isinstance(event, sse.Comment) or self._is_comment(event.text):
                self._watch.alive(scope)
            elif self._payload(event.text):
                await self._leftovers()
                return

    # -- sending

    async def _open(self) -> None:
        """Send the request and look at the status. Raises `LlmError`."""
        adapter, request = self._adapter, self._request
        settings = adapter.settings
        content = body_bytes(wire_body(request, settings.thinking))
        self._key = settings.key()
        headers = {
            "authorization": f"Bearer {self._key}",
            "content-type": "application/json",
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "user-agent": _agent_name(),
        }
        if request.get("sessionId"):
            headers["x-deepseek-harness-session-id"] = _header_text(request["sessionId"])
        if request.get("purpose") == "compaction":
            headers["x-deepseek-harness-compact"] = "1"
        try:
            sent = adapter.client.build_request("POST", settings.url, headers=headers, content=content)
            response = self._response = await adapter.client.send(sent, stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            raise self._transport("request to", error) from None
        self._body = response.aiter_bytes()
        if not 200 <= response.status_code < 300:
            raise await self._refused(response)
        if response.status_code in (204, 205):
            raise LlmError("DeepSeek API answered without a body", "EMPTY_RESPONSE", status=response.status_code)

    async def _refused(self, response: httpx.Response) -> LlmError:
        """M-530, M-531  The failure behind a status that is not 2xx; a body that breaks off says what it can."""
        body = b""
        try:
            while len(body) < _ERROR_BODY_LIMIT and (more := await self._read()) is not None:
                body += more
        except LlmError:
            pass
        adapter = self._adapter
        return status_failure(response.status_code, response.headers, body, adapter.now_ms(), adapter.law)

    # -- receiving

    async def _read(self) -> bytes | None:
        """The bytes of one read, `None` at the end. Raises `LlmError` `TRANSPORT`."""
        assert self._body is not None
        try:
            return await anext(self._body)
        except StopAsyncIteration:
            return None
        except (httpx.HTTPError, httpx.StreamError, OSError, anyio.EndOfStream, anyio.BrokenResourceError) as error:
            raise self._transport("stream from", error) from None

    def _is_comment(self, text: str) -> bool:
        """A proxy has sent a comment, or nothing at all, as data."""
        forgiving = self._adapter.law.wire_slips_are_forgiven
        return forgiving and (not text.strip() or text.lstrip().startswith(":"))

    def _payload(self, text: str) -> bool:
        """One event; True when it was the last. Raises `LlmError`."""
        adapter = self._adapter
        self._seen = True
        if text == DONE or (adapter.law.wire_slips_are_forgiven and text.strip() == DONE):
            self._chunks.extend(ended(self._translation, adapter.law, adapter.new_id))
            self._over = True
            return True
        try:
            self._translation, made = translate(self._translation, parse(text), adapter.law)
        except NotStrictJson:
            raise _malformed(f"a payload is not JSON: {text[:120]}") from None
        except WrongShape as error:
            if adapter.law.wire_shapes_are_checked:
                raise _malformed(str(error)) from None
            raise self._transport("stream from", error) from None
        self._chunks.extend(made)
        return False

    def _eof(self) -> LlmError:
        """M-541  The stream ended, and nobody had said that it would."""
        assert self._response is not None
        kind = self._response.headers.get("content-type", "").split(";")[0].strip()
        if self._seen or not self._adapter.law.wire_errors_fail_attempt or kind == "text/event-stream":
            return LlmError(CLOSED, "STREAM_CLOSED")
        try:
            body = parse(self._head.decode("utf-8", "replace"))
        except NotStrictJson:
            body = None
        failure = carried_failure(body) if isinstance(body, dict) else None
        if failure is not None:
            return LlmError.of(failure)
        what = f"; the answer was {kind or 'of no declared type'}, not text/event-stream"
        return LlmError(CLOSED + what, "STREAM_CLOSED")

    async def _leftovers(self) -> None:
        """After `[DONE]`: let the response end if it is about to, then close it. Whatever it says is discarded."""
        with anyio.move_on_after(_LEFTOVER_SECONDS):
            try:
                for _ in range(16):
                    if await self._read() is None:
                        break
            except LlmError:
                pass
        kept = list(self._chunks)
        await self._stop()
        self._chunks.extend(kept)

    # -- failures

    def _named(self, error: Exception) -> LlmError:
        """M-562  A failure that has its name keeps it; the key is never in it.

        Whatever else was raised is a fault of ours, and trying again would only repeat it; published adapters call that
        a transport failure too.
        """
        if not isinstance(error, LlmError):
            if not self._adapter.law.wire_shapes_are_checked:
                error = self._transport("stream from", error)
            else:
                error = LlmError(f"the adapter failed: {type(error).__name__}: {error}", "UNKNOWN", cause=error)
        facts = error.failure
        if self._key and any(isinstance(text, str) and self._key in text for text in facts.values()):
            hidden = {k: v.replace(self._key, "[key]") if isinstance(v, str) else v for k, v in facts.items()}
            error = LlmError.of(FrozenDict(hidden))
        return error

    def _transport(self, which: str, error: BaseException) -> LlmError:
        """M-533  The reason goes along in words only: an exception of the client carries its request, key and all."""
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        if self._key:
            reason = reason.replace(self._key, "[key]")
        message = f"DeepSeek API {which} {self._adapter.settings.base_url} failed"
        return LlmError(message, "TRANSPORT", cause=ConnectionError(reason))


def _malformed(text: str) -> LlmError:
    return LlmError(f"malformed response: {text}", "MALFORMED_RESPONSE")


def _header_text(text: str) -> str:
    """A value that HTTP lets into a header."""
    return "".join(char if " " < char < "\x7f" else "-" for char in text)[:256]


def _number(ms: float | None) -> str:
    return "?" if ms is None else f"{ms:g}" if ms < 1e6 else f"{ms:.0f}"
