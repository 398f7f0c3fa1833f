"""Where the model server is, who asks, and how patient we are (M-501 to M-505)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from loopharness.frozen import FrozenDict, freeze
from loopharness.model.deepseek.convert import EFFORTS, Thinking
from loopharness.model.deepseek.sse import EVENT_LIMIT
from loopharness.model.failure import LlmError

__all__ = ["API_KEY", "BASE_URL", "PROVIDER", "RETRY_POLICY", "DeepSeekSettings"]

PROVIDER: Final = "deepseek-official"
API_KEY: Final = "DEEPSEEK_API_KEY"
BASE_URL: Final = "DEEPSEEK_BASE_URL"
DEFAULT_URL: Final = "https://api.deepseek.com"

MODELS: Final[Mapping[str, str]] = {
    "deepseek-v4-flash": "DeepSeek V4 Flash",
    "deepseek-v4-pro": "DeepSeek V4 Pro",
    "deepseek-v4-flash-vision-exp": "DeepSeek V4 Flash Vision (experimental)",
}
"""The catalogue (M-502); other ids are passed on. All of them are used as text models here."""

RETRY_POLICY: Final[FrozenDict] = freeze(
    {
        "mode": "normal",
        "maxRetries": 5,
        "retryableCodes": ["EMPTY_RESPONSE", "RATE_LIMIT", "SERVER", "TIMEOUT", "TRANSPORT"],
        "initialDelayMs": 500,
        "maxDelayMs": 10000,
        "jitterRatio": 0.1,
    }
)
"""The policy that the adapter recommends (M-602). `STREAM_CLOSED` is not in it: a server that cuts answers at the same
place would be paid for each of them. Give another policy to try cut streams again."""

_LOCAL: Final = ("127.0.0.1", "localhost", "::1")


def _from_environment() -> str | None:
    return os.environ.get(API_KEY)


@dataclass(frozen=True)
class DeepSeekSettings:
    """The settings of one adapter. They do not change; the key is asked for once per call.

    `base_url` defaults to `DEEPSEEK_BASE_URL`, else the public API; `api_key` answers the key, from `DEEPSEEK_API_KEY`
    unless told otherwise. `idle_timeout_ms` is how long the server may be silent; `None` is for ever. `event_limit` and
    `stream_limit` are bytes. Raises `ValueError` for what cannot be.
    """

    base_url: str = field(default_factory=lambda: os.environ.get(BASE_URL) or DEFAULT_URL)
    api_key: Callable[[], str | None] = field(default=_from_environment, repr=False)
    max_tokens: int | None = 256_000
    context_window: int | None = 1_000_000
    idle_timeout_ms: float | None = 300_000
    thinking: Thinking | None = None
    effort: str | None = "high"
    retry_policy: Mapping[str, Any] = field(default_factory=lambda: RETRY_POLICY)
    event_limit: int = EVENT_LIMIT
    stream_limit: int = 1 << 30

    def __post_init__(self) -> None:
        """Refuse a URL that would carry secrets or go wrong, and an effort or thinking that is unknown."""
        try:
            parts = urlsplit(self.base_url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            usable = False
        if not usable:
            raise ValueError("base URL must be http://host[:port][/path] or https://…")
        if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
            raise ValueError(f"base URL must not carry a user, a query or a fragment; the key belongs into {API_KEY}")
        if any(not " " < char < "\x7f" for char in self.base_url):
            raise ValueError("base URL must be printable ASCII without blanks")
        if self.thinking not in (None, "enabled", "disabled"):
            raise ValueError(f"thinking must be 'enabled' or 'disabled', not {self.thinking!r}")
        if self.effort is not None and self.effort not in EFFORTS:
            raise ValueError(f"effort must be one of {', '.join(EFFORTS)}, not {self.effort!r}")
        if self.idle_timeout_ms is not None and not self.idle_timeout_ms > 0:
            raise ValueError(f"idle_timeout_ms must be above 0, not {self.idle_timeout_ms!r}")

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine: then no proxy stands between."""
        return urlsplit(self.base_url).hostname in _LOCAL

    @property
    def is_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return urlsplit(self.base_url).scheme == "https"

    @property
    def url(self) -> str:
        """Where requests go: plain concatenation (M-501)."""
        return f"{self.base_url}/chat/completions"

    def key(self) -> str:
        """The key of one call (M-505). Raises `LlmError`: `MISSING_CREDENTIAL`, `INVALID_CREDENTIAL`; none shows it."""
        given = self.api_key()
        if given is None:
            raise LlmError(f"no DeepSeek API key: set {API_KEY}", "MISSING_CREDENTIAL")
        key = given.strip()
        if not key or any(not " " < char < "\x7f" for char in key):
            raise LlmError(f"the DeepSeek API key in {API_KEY} is empty or not printable ASCII", "INVALID_CREDENTIAL")
        return key

    def facts(self, model: str) -> dict[str, Any]:
        """What is known about a model (M-410, M-502, M-503)."""
        efforts = ("off",) if self.thinking == "disabled" else EFFORTS
        reasoning: dict[str, Any] = {"efforts": list(efforts)}
        if self.thinking == "disabled":
            reasoning["defaultEffort"] = "off"
        elif self.effort is not None:
            reasoning["defaultEffort"] = self.effort
        facts: dict[str, Any] = {"id": model, "name": MODELS.get(model, model), "inputModalities": ["text"]}
        facts["reasoning"] = reasoning
        if self.context_window is not None:
            facts["context"] = {"contextWindow": self.context_window}
        if self.max_tokens is not None:
            facts["defaultMaxTokens"] = self.max_tokens
        return facts
