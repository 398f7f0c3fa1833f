"""As much HTTP as a mock model needs: read one request, however badly it was sent."""

from __future__ import annotations

from typing import Final, NamedTuple

import anyio
from anyio.abc import ByteReceiveStream

__all__ = ["BadRequest", "Incoming", "Reader"]

_HEAD_LIMIT: Final = 1 << 16
_BODY_LIMIT: Final = 256 * 1024 * 1024


class BadRequest(Exception):
    """The client does not speak HTTP as we know it; the text says what is wrong."""


class Incoming(NamedTuple):
    """One request. Header names are lower-case; a header that comes twice has its last value."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Reader:
    """Reads requests from a connection, one after the other."""

    def __init__(self, stream: ByteReceiveStream) -> None:
        self._stream = stream
        self._buffer = b""

    async def request(self) -> Incoming | None:
        """The next request, `None` when the client has left. Raises `BadRequest`."""
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > _HEAD_LIMIT:
                raise BadRequest("the head of the request is too long")
            if not await self._more():
                if self._buffer:
                    raise BadRequest("the client left in the middle of a head")
                return None
            if not self._buffer[:1].isalpha():
                raise BadRequest("the client does not speak HTTP; over TLS it cannot reach a mock model")
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        if len(words) != 3:
            raise BadRequest(f"no request line: {first[:100]!r}")
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > _BODY_LIMIT or "transfer-encoding" in headers:
            raise BadRequest("the body must have a content-length")
        while len(self._buffer) < int(length):
            if not await self._more():
                raise BadRequest("the client left in the middle of a body")
        body, self._buffer = self._buffer[: int(length)], self._buffer[int(length) :]
        return Incoming(words[0], words[1], headers, body)

    async def left(self) -> None:
        """Return when the client has left; what it sends meanwhile is kept."""
        while await self._more():
            pass

    async def _more(self) -> bool:
        try:
            self._buffer += await self._stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True
