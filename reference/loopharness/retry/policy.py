"""Retry policies as adapters and settings write them: read, checked, completed, and written again (M-602, M-603)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from loopharness.frozen import FrozenDict, dumps, freeze
from loopspec.retry import Policy, always, key_parts, plain, policy_refusal

__all__ = ["policy_from_key", "policy_key", "policy_of", "policy_record", "resolved_policy"]

_BACKOFF: Final = {"initialDelayMs": "initial", "maxDelayMs": "longest", "jitterRatio": "jitter"}
_NORMAL: Final = {"maxRetries": "max_retries", "retryableCodes": "codes", **_BACKOFF}


def policy_of(record: Mapping[str, Any]) -> Policy:
    """The policy that a record says; what it leaves out has the value of the default policy (M-602).

    Raises `ValueError` for a key that its mode does not know, and for a value out of bounds.
    """
    mode = record.get("mode", "normal")
    known = _BACKOFF if mode == "always" else _NORMAL
    unknown = sorted(set(record) - set(known) - {"mode"})
    if unknown:
        names = ", ".join(known)
        raise ValueError(f"a retry policy of mode {mode!r} has no {', '.join(map(repr, unknown))}; it has {names}")
    given = {field: record[name] for name, field in known.items() if name in record}
    if "codes" in given:
        if isinstance(given["codes"], str):
            raise ValueError(f"retryableCodes is a list of codes, not the text {given['codes']!r}")
        given["codes"] = tuple(given["codes"])
    policy = always()._replace(**given) if mode == "always" else Policy(mode)._replace(**given)
    refusal = policy_refusal(policy)
    if refusal is not None:
        raise ValueError(refusal)
    return policy._replace(codes=tuple(sorted(policy.codes)))


def policy_record(policy: Policy) -> FrozenDict:
    """A policy as a record with every field that its mode has."""
    fields = _BACKOFF if policy.mode == "always" else _NORMAL
    values = {name: getattr(policy, field) for name, field in fields.items()}
    record: FrozenDict = freeze({"mode": policy.mode, **values})
    return record


def resolved_policy(record: Mapping[str, Any] | None) -> FrozenDict:
    """What a registration captures: an adapter's own policy, completed, else the normal default (M-403).

    Raises `ValueError` for a policy that is none.
    """
    return policy_record(Policy() if record is None else policy_of(record))


def policy_key(policy: Policy) -> str:
    """The text by which two policies are the same (M-603, H-11)."""
    return dumps(freeze(list(key_parts(policy))))


def policy_from_key(key: str) -> Policy | None:
    """The policy behind a key of the log, or `None` when it is not one of ours."""
    try:
        mode, *parts = json.loads(key)
        policy = always(*parts) if mode == "always" else Policy(mode, parts[0], tuple(parts[1]), *parts[2:])
        known = policy_refusal(policy) is None and policy_key(policy) == key
    except (ValueError, TypeError, IndexError):
        return None
    return policy if known else None


def delay_number(milliseconds: float) -> float:
    """A delay as it is recorded: nothing is rounded, and a whole number has no fraction (H-08, H-11)."""
    return plain(milliseconds)
