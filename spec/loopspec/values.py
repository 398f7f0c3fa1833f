"""JSON values as plain data, and what it means that two of them are the same.

Records come from a parser as dicts and lists, and from a harness as read-only mappings and tuples. The law
does not care: a mapping is a mapping and a sequence is a sequence. It does care that `true` is not `1`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""Any JSON value: null, boolean, number, string, sequence, mapping with string keys."""

Record: TypeAlias = Mapping[str, Any]
"""A JSON object: an event, a message, a block, a header, a payload."""

SAFE_INTEGER = 2**53 - 1
"""Largest integer that every reader can hold exactly (fact sheet session-log 0.1, "safe integer")."""


def same_value(left: Json, right: Json) -> bool:
    """Whether two JSON values are equal, whatever the order of keys (S-ENV-7: compare by value)."""
    return _same(left, right, ordered=False)


def same_text(left: Json, right: Json) -> bool:
    """Whether two JSON values have the same JSON text, so the order of keys counts (S-REQ-3 for tools)."""
    return _same(left, right, ordered=True)


def _same(left: Json, right: Json, *, ordered: bool) -> bool:
    if left is right:
        return True
    kind = type(left)
    if kind is type(right):  # what a parser makes is of exactly these types, and most of it is equal
        if kind is str or kind is int:
            return bool(left == right)
        if kind is dict and not ordered:
            if len(left) != len(right):
                return False
            for key, item in left.items():
                if key not in right or not _same(item, right[key], ordered=False):
                    return False
            return True
        if kind is list:
            if len(left) != len(right):
                return False
            return all(_same(mine, theirs, ordered=ordered) for mine, theirs in zip(left, right, strict=True))
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str) and left == right
    if isinstance(left, bool) or isinstance(right, bool) or left is None or right is None:
        return False  # one object each: identity has answered already
    if isinstance(left, Mapping):
        if not isinstance(right, Mapping) or len(left) != len(right):
            return False
        if ordered and list(left) != list(right):
            return False
        return all(key in right and _same(item, right[key], ordered=ordered) for key, item in left.items())
    if isinstance(left, Sequence):
        return (
            isinstance(right, Sequence)
            and len(left) == len(right)
            and all(_same(mine, theirs, ordered=ordered) for mine, theirs in zip(left, right, strict=True))
        )
    return not isinstance(right, (Mapping, Sequence)) and bool(left == right)


def without(record: Record, *names: str) -> dict[str, Any]:
    """A shallow copy of `record` that lacks the named fields."""
    return {name: value for name, value in record.items() if name not in names}


def seqs_of(value: Json) -> tuple[int, ...]:
    """The event numbers in a JSON array; anything that is not an array of integers gives none."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(seq for seq in value if isinstance(seq, int) and not isinstance(seq, bool))
    return ()
