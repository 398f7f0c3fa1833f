"""The adapter: what the LLM service talks to. Each call is one `Attempt` (M-437)."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final

import anyio
import httpx

from loopharness.agent.messages import random_id
from loopharness.model.chunks import Chunk
from loopharness.model.deepseek.attempt import Attempt
from loopharness.model.deepseek.idle import IdleWatch
from loopharness.model.deepseek.settings import DeepSeekSettings
from loopharness.model.service import Request
from loopharness.signal import Signal
from loopspec.profile import Law, Profile, law

__all__ = ["DeepSeekAdapter", "open_deepseek"]


def _unix_ms() -> float:
    return time.time() * 1000


@cache
def _trusted() -> ssl.SSLContext:
    """Who is believed to be a server; reading the list takes longer than many a request."""
    return httpx.create_ssl_context()


class DeepSeekAdapter:
    """The provider `deepseek-official`, or any server that speaks the same protocol.

    `profile` decides the points about the wire (`loopspec.profile`, fields `wire_*`). `now_ms` is the wall clock, for
    waiting times given as a date; `new_id` gives calls that came without an id theirs; `watch` makes the idle watchdog.
    Use `open_deepseek`, or call `aclose` at the end. Redirects are not followed: a key goes to one server only.
    """

    def __init__(
        self,
        settings: DeepSeekSettings | None = None,
        *,
        profile: Profile = "seed",
        now_ms: Callable[[], float] = _unix_ms,
        new_id: Callable[[], str] = random_id,
        watch: Callable[[float | None], IdleWatch] = IdleWatch,
    ) -> None:
        self.settings: Final = settings or DeepSeekSettings()
        self.law: Final[Law] = law(profile)
        self.now_ms: Final = now_ms
        self.new_id: Final = new_id
        self.watch: Final = watch
        self._client: httpx.AsyncClient | None = None

    def __repr__(self) -> str:
        return f"DeepSeekAdapter({self.settings.base_url})"

    def retry_policy(self, provider: str) -> Mapping[str, Any]:
        """The policy of the settings (M-602)."""
        return self.settings.retry_policy

    async def resolve_model(self, provider: str, model: str, signal: Signal) -> Mapping[str, Any]:
        """What is known about a model, without asking anybody (M-410)."""
        return self.settings.facts(model)

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The chunks of one request; nothing is sent before the first pull."""
        return Attempt(self, request)

    @property
    def client(self) -> httpx.AsyncClient:
        """The connections of this adapter; made when they are first needed."""
        if self._client is None:
            local = self.settings.is_local
            self._client = httpx.AsyncClient(
                # on this machine there may be no TLS at all, and a bare context trusts nobody
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if local and not self.settings.is_tls else _trusted(),
                timeout=None,  # waiting has one guard, the idle watchdog
                follow_redirects=False,
                trust_env=not local,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=15),
            )
        return self._client

    async def aclose(self) -> None:
        """Close the connections that are kept for later."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


@asynccontextmanager
async def open_deepseek(settings: DeepSeekSettings | None = None, **more: Any) -> AsyncIterator[DeepSeekAdapter]:
    """An adapter for the time of an `async with` block; `more` goes to `DeepSeekAdapter`."""
    adapter = DeepSeekAdapter(settings, **more)
    try:
        yield adapter
    finally:
        with anyio.CancelScope(shield=True):
            await adapter.aclose()
