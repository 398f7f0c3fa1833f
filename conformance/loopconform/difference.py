"""Are two session logs the same behaviour? The first difference that matters, ids and times normalised.

Two logs are compared record by record (`seq`, type, data, surface operation, sources). Not compared are times and
durations, where a session lies, and the words of errors that no model ever reads. Ids that somebody made up at random
(of messages, retries, compactions, …) are named by their first appearance in each log; ids that callers or models give
are compared as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple

from loopspec.values import same_value

Placed = tuple[int, Mapping[str, Any]]
"""The physical line of a row, and the event in it."""

_TIMES = frozenset(("time", "time0", "dt", "durationMs", "createdAt", "updatedAt", "acceptedAt", "clearedAt"))
_RANDOM = frozenset(
    ("retryId", "compactionId", "commandId", "sourceCommandId", "rpcId", "runId", "childId", "senderSessionId")
)
_SYNTHETIC = ("interrupted-tool-result-", "forked-tool-result-")
_MESSAGE = frozenset(("id", "role", "content"))
_WORDLESS = {
    "turn/end": ("reason", "error", "message"),
    "llm/retry": ("failure", "message"),
    "compaction/end": ("error",),
    "assistant/chunk": ("chunk", "reason", "failure", "message"),
}
"""Where the words of a failure stand that no model reads; its code is compared."""


class Difference(NamedTuple):
    """The first difference: the seq, the lines (None where that log has ended), the path in the record, both values."""

    seq: int
    lines: tuple[int | None, int | None]
    kinds: tuple[str | None, str | None]
    path: str
    values: tuple[Any, Any]


class _Names:
    """Random ids of one log, by first appearance."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def name(self, given: str) -> str:
        return self._known.setdefault(given, f"<id {len(self._known) + 1}>")


def normalised(event: Mapping[str, Any], names: _Names) -> dict[str, Any]:
    """The event as it is compared."""
    kind = event.get("type")
    plain = {key: _value(value, names) for key, value in event.items() if key not in _TIMES}
    path = _WORDLESS.get(kind) if isinstance(kind, str) else None
    if path is not None:
        _without(plain.get("data"), path)
    return plain


def _value(value: Any, names: _Names) -> Any:
    if isinstance(value, Mapping):
        is_message = value.keys() >= _MESSAGE
        return {
            key: names.name(item)
            if isinstance(item, str) and (key in _RANDOM or (is_message and key == "id"))
            else _value(item, names)
            for key, item in value.items()
            if key not in _TIMES
        }
    if isinstance(value, list | tuple):
        return [_value(item, names) for item in value]
    return value


def _without(value: Any, path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value.pop(path[-1], None)


def _header(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row[key] for key in ("version", "delegationDepth", "origin", "seedLength", "isSeeded") if key in row}


def first_difference(
    headers: tuple[Mapping[str, Any], Mapping[str, Any]], left: Iterable[Placed], right: Iterable[Placed]
) -> Difference | None:
    """Compare two logs; None when they are the same behaviour. Reads no further than the first difference."""
    mine, other = _header(headers[0]), _header(headers[1])
    if not same_value(mine, other):
        path, values = _first(mine, other, "$")
        return Difference(-1, (1, 1), ("session", "session"), path, values)
    ours, theirs = _Names(), _Names()
    for seq, (a, b) in enumerate(zip_longest(left, right)):
        if a is None or b is None:
            kinds = (None if a is None else a[1].get("type"), None if b is None else b[1].get("type"))
            return Difference(seq, (a[0] if a else None, b[0] if b else None), kinds, "", (None, None))
        one, two = normalised(a[1], ours), normalised(b[1], theirs)
        if one != two and not same_value(one, two):
            kinds = (one.get("type"), two.get("type"))
            path, values = ("$.type", kinds) if kinds[0] != kinds[1] else _first(one, two, "$")
            return Difference(seq, (a[0], b[0]), kinds, path, values)
    return None


def _first(ours: Any, theirs: Any, path: str) -> tuple[str, tuple[Any, Any]]:
    """The first place where two values differ, and what stands there."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for key in [*ours, *(key for key in theirs if key not in ours)]:
            if key not in ours or key not in theirs or not same_value(ours[key], theirs[key]):
                return _first(ours.get(key, ABSENT), theirs.get(key, ABSENT), f"{path}.{key}")
    if isinstance(ours, list) and isinstance(theirs, list):
        for at in range(max(len(ours), len(theirs))):
            mine = ours[at] if at < len(ours) else ABSENT
            other = theirs[at] if at < len(theirs) else ABSENT
            if mine is ABSENT or other is ABSENT or not same_value(mine, other):
                return _first(mine, other, f"{path}[{at}]")
    return path, (ours, theirs)


class _Absent:
    """Stands for a value that one side does not have."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()
