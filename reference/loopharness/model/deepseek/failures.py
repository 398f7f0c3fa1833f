"""What a failure of the model server is called: status, wording, waiting time (M-310, M-311, M-530 to M-533)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

from loopharness.frozen import FrozenDict
from loopharness.model.deepseek.strict_json import NotStrictJson, parse
from loopharness.model.failure import LlmError, failure_facts
from loopspec.profile import Law

__all__ = [
    "RETRY_AFTER_LIMIT_MS",
    "carried_failure",
    "is_overflow",
    "is_quota",
    "request_id",
    "retry_after_ms",
    "status_code",
    "status_failure",
]

RETRY_AFTER_LIMIT_MS: Final = 2_147_483_647
"""The longest waiting time that is recorded, about 25 days: the bound that retry policies have too (M-602, G16)."""

_WORDS_READ: Final = 4096
"""How much of a provider's wording is searched."""

_S: Final = r"[\s_-]+"

_OVERFLOW: Final = re.compile(
    rf"context{_S}(?:length|window){_S}(?:exceed(?:ed|s)?|overflow(?:ed)?|limit{_S}exceeded)"
    rf"|\bmax(?:imum)?{_S}(?:(?:allowed|supported){_S})?context{_S}(?:length|window)"
    rf"|\b(?:request|prompt|input|messages?){_S}(?:(?:is|are){_S})?too{_S}(?:large|long){_S}for{_S}(?:this|the){_S}"
    rf"(?:model(?:['’]s)?{_S})?context"
    rf"|\b(?:input|prompt|request){_S}(?:is{_S})?too{_S}(?:large|long){_S}for{_S}(?:this|the){_S}model"
    rf"|\b(?:input|prompt|request|messages?|conversation)\b[^\n]{{0,40}}?"
    rf"(?:exceed(?:s|ed)?|overflow(?:s|ed)?|(?:is|are){_S}(?:larger|longer){_S}than)\b[^\n]{{0,40}}?"
    rf"(?:model(?:['’]s)?{_S})?\bcontext",
    re.IGNORECASE,
)

_QUOTA: Final = re.compile(
    rf"\binsufficient{_S}(?:quota|balance|credits?)"
    rf"|\b(?:quota|usage{_S}limit){_S}(?:(?:is|was|has{_S}been){_S})?(?:exceeded|exhausted|reached)"
    rf"|\bexceed(?:ed|s)?{_S}(?:(?:your|the){_S})?(?:current{_S})?quota"
    rf"|\b(?:balance|credits?){_S}(?:(?:is|are|has{_S}been|have{_S}been){_S})?(?:exhausted|depleted)"
    rf"|\bout{_S}of{_S}(?:credits?|budget)",
    re.IGNORECASE,
)

_KINDS: Final = (
    ("RATE_LIMIT", re.compile(r"rate[\s_-]*limit|too[\s_-]+many[\s_-]+requests", re.IGNORECASE)),
    ("AUTH", re.compile(r"authenticat|permission|api[\s_-]*key|unauthori[sz]ed", re.IGNORECASE)),
    ("SERVER", re.compile(r"server[\s_-]*error|internal|overload|unavailable", re.IGNORECASE)),
    ("INVALID_REQUEST", re.compile(r"invalid|bad[\s_-]*request", re.IGNORECASE)),
)
"""What the type or code of an error inside a stream stands for; the message is not looked at."""

_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


def is_overflow(words: str) -> bool:
    """M-310  Does this wording say that the request is larger than the model's context?"""
    return _OVERFLOW.search(words[:_WORDS_READ]) is not None


def is_quota(words: str) -> bool:
    """M-311  Does this wording say that what was paid for is used up? A rate limit is no quota."""
    return _QUOTA.search(words[:_WORDS_READ]) is not None


def status_code(status: int, words: str) -> str:
    """The failure code of an HTTP status, with the wording of its body; the order of the questions matters.

    A quota wording wins over 429, whatever `retry-after` says (G16): waiting does not bring money back.
    """
    if status in (401, 403):
        return "AUTH"
    if status == 413:
        return "INVALID_REQUEST"
    if is_quota(words):
        return "QUOTA"
    if status == 429:
        return "RATE_LIMIT"
    if status == 400:
        return "CONTEXT_WINDOW_EXCEEDED" if is_overflow(words) else "INVALID_REQUEST"
    if status >= 500:
        return "SERVER"
    return f"HTTP_{status}"


def status_failure(status: int, headers: Mapping[str, str], body: bytes, now_ms: float, law: Law) -> LlmError:
    """The failure behind a response that is not 2xx (M-530, M-531). `headers` has lower-case names."""
    error = _error_object(body)
    message = error.get("message")
    return LlmError(
        message if isinstance(message, str) and message else f"DeepSeek API error (HTTP {status})",
        status_code(status, _words(error)),
        status=status if 100 <= status <= 599 else None,
        provider_retry_after_ms=retry_after_ms(headers.get("retry-after"), now_ms, law),
        request_id=request_id(headers),
    )


def request_id(headers: Mapping[str, str]) -> str | None:
    """The id that the provider gave the request, for its support (M-531)."""
    return headers.get("x-request-id") or headers.get("x-deepseek-request-id") or None


def retry_after_ms(text: str | None, now_ms: float, law: Law) -> float | None:
    """How long the provider wants to be left alone, in milliseconds; `None` for nothing usable (M-531)."""
    text = (text or "").strip()
    if text.isascii() and text.isdigit():
        delay: float = int(text[:400]) * 1000
        delay = float(delay) if delay < 10**300 else float("inf")
    else:
        try:
            date = parsedate_to_datetime(text)
            delay = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() * 1000 - now_ms
        except (ValueError, TypeError, OverflowError):
            return None
    if law.wire_numbers_are_bounded:
        delay = min(delay, RETRY_AFTER_LIMIT_MS)
    if not 0 < delay < float("inf"):
        return None
    return int(delay) if delay == int(delay) and delay < 2**53 else delay


def carried_failure(payload: Mapping[str, Any]) -> FrozenDict | None:
    """The failure that a payload or a choice of a good stream carries, `None` when it carries none (G5).

    An `error` object or text, `error_message` with `error_type` beside it, or a payload that is an error object
    itself. The code is the one that the status table would give for its status or its wording.
    """
    error = payload.get("error")
    if isinstance(error, str) and error:
        error = {"message": error}
    elif isinstance(payload.get("error_message"), str) and payload["error_message"]:
        kind, code = payload.get("error_type"), payload.get("error_code")
        error = {"message": payload["error_message"], "type": kind, "code": code}
    elif payload.get("object") == "error":
        error = payload
    if not isinstance(error, Mapping) or not error:
        return None
    message = error.get("message")
    if not isinstance(message, str) or not message:
        message = "DeepSeek API reported an error inside the stream"
    status = next((n for n in (error.get("status"), error.get("code")) if type(n) is int and 400 <= n <= 599), None)
    return failure_facts(message, _carried_code(error, status), status)


def _carried_code(error: Mapping[str, Any], status: int | None) -> str:
    words = _words(error)
    if is_overflow(words):
        return "CONTEXT_WINDOW_EXCEEDED"
    if status is not None:
        return status_code(status, words)
    if is_quota(words):
        return "QUOTA"
    names = [name for name in (error.get("code"), error.get("type")) if isinstance(name, str) and name]
    for code, pattern in _KINDS:
        if any(pattern.search(name) for name in names):
            return code
    return next((name.upper() for name in names if _IDENTIFIER.fullmatch(name)), "UNKNOWN")


def _error_object(body: bytes) -> Mapping[str, Any]:
    try:
        whole = parse(body.decode("utf-8", "replace"))
    except NotStrictJson:
        return {}
    error = whole.get("error") if isinstance(whole, dict) else None
    return error if isinstance(error, dict) else {}


def _words(error: Mapping[str, Any]) -> str:
    """Code, type and message, joined by spaces: where the wordings are looked for (M-310)."""
    return " ".join(text for key in ("code", "type", "message") if isinstance(text := error.get(key), str))
