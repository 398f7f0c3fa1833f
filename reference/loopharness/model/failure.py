"""Failures of model calls: facts only; whether to try again is policy (M-301 to M-305)."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final

from loopharness.errors import HarnessError, error_chain
from loopharness.frozen import FrozenDict

__all__ = ["LlmError", "failure_facts", "normalise_failure", "turn_error"]

_FALLBACK: Final = "LLM adapter failed"


def failure_facts(
    message: object,
    code: object,
    status: object = None,
    provider_retry_after_ms: object = None,
    request_id: object = None,
) -> FrozenDict:
    """A frozen failure record `{message, code, status?, providerRetryAfterMs?, requestId?}` (M-301).

    Raises `ValueError` naming the field: message, code and request id must be non-empty strings, the status an
    integer from 100 to 599, the delay a finite number of milliseconds above 0.
    """
    facts: dict[str, Any] = {"message": _text("message", message), "code": _text("code", code)}
    if status is not None:
        if type(status) is not int or not 100 <= status <= 599:
            raise ValueError(f"failure status must be an integer from 100 to 599, got {status!r}")
        facts["status"] = status
    if provider_retry_after_ms is not None:
        delay = provider_retry_after_ms
        if not (type(delay) is int or type(delay) is float) or not isfinite(delay) or delay <= 0:
            raise ValueError(f"failure providerRetryAfterMs must be a finite number above 0, got {delay!r}")
        facts["providerRetryAfterMs"] = delay
    if request_id is not None:
        facts["requestId"] = _text("requestId", request_id)
    return FrozenDict(facts)


def _text(name: str, value: object) -> str:
    if type(value) is not str or not value:
        raise ValueError(f"failure {name} must be a non-empty string, got {value!r}")
    return value


class LlmError(HarnessError):
    """A coded failure of a model call; `failure` is the frozen record (M-302)."""

    def __init__(
        self,
        message: str,
        code: str,
        *,
        status: int | None = None,
        provider_retry_after_ms: float | None = None,
        request_id: str | None = None,
        cause: BaseException | None = None,
    ) -> None:
        self.failure: Final = failure_facts(message, code, status, provider_retry_after_ms, request_id)
        super().__init__(message, code, cause)

    @classmethod
    def of(cls, failure: Mapping[str, Any]) -> LlmError:
        """The error that carries exactly these facts (L-ERR-3, M-304)."""
        return cls(
            failure["message"],
            failure["code"],
            status=failure.get("status"),
            provider_retry_after_ms=failure.get("providerRetryAfterMs"),
            request_id=failure.get("requestId"),
        )


def normalise_failure(error: object) -> FrozenDict:
    """The facts of whatever came out of an adapter (M-303).

    The own record of an error is taken if it is valid and its code is the code of the error. Otherwise the
    message, with the code of a `HarnessError` or `UNKNOWN`; the code of a foreign error is never trusted. An
    empty or hostile message becomes `LLM adapter failed`.
    """
    own = _own(error)
    failure = own.get("failure")
    if isinstance(failure, Mapping) and failure.get("code") == own.get("code"):
        try:
            return failure_facts(
                failure.get("message"),
                failure.get("code"),
                failure.get("status"),
                failure.get("providerRetryAfterMs"),
                failure.get("requestId"),
            )
        except ValueError:
            pass
    code = error.code if isinstance(error, HarnessError) else "UNKNOWN"
    try:
        message = str(error) or _FALLBACK
    except Exception:
        message = _FALLBACK
    return failure_facts(message, code if isinstance(code, str) and code else "UNKNOWN")


def _own(error: object) -> dict[str, Any]:
    """Data that the object itself holds; properties are not invoked."""
    try:
        return vars(error)
    except TypeError:
        return {}


def turn_error(error: object) -> FrozenDict:
    """What `turn/end` records for a failure (L-ERR-7, M-304).

    The facts of an `LlmError` verbatim, wherever it was raised; for anything else its error chain with the
    code `UNKNOWN`.
    """
    if isinstance(error, LlmError):
        return error.failure
    return FrozenDict({"message": error_chain(error), "code": "UNKNOWN"})
