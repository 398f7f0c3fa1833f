"""Requests, and a model adapter that fails wherever it is told to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from loopharness.frozen import FrozenDict, thaw
from loopharness.model.service import Request
from loopharness.signal import Signal

CONFIG = {"provider": "p", "model": "m"}


def request(signal: Signal | None = None, **more: Any) -> Request:
    """A request for the route of the tests."""
    return Request.of({**CONFIG, "messages": [], "sessionId": "s", **more}, signal)


async def collect(stream: AsyncIterator[FrozenDict]) -> list[Any]:
    """All chunks, thawed."""
    return [thaw(chunk) async for chunk in stream]
