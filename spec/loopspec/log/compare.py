"""Rules that compare a log with something else: captured requests (`S-LNT-84`), the parent's log (`S-LNT-91`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loopspec.log.migrate import SYSTEM_ID
from loopspec.log.packed import PackedError, is_packed_row, unpack_event, unpack_row
from loopspec.log.rule import Violation
from loopspec.request import ReconstructionError, reconstruct_requests
from loopspec.surface import SurfaceError
from loopspec.values import Record, same_value, without

REQUESTS = ("S-LNT-84", "E", "Every rebuilt request equals the captured one.")
INHERITED = ("S-LNT-91", "E", "The inherited rows equal the parent's rows.")

Placed = tuple[int, Record]
"""The physical line of a row and the event in it."""


def _violation(rule: tuple[str, str, str], line: int, seq: int | None, reason: str, legal: str) -> Violation:
    return Violation(rule[0], "E", line, seq, rule[2], reason, legal)


def events_of(rows: Iterable[Placed], dialect: int) -> Iterator[Placed]:
    """The events of stored rows with their lines: packed rows and source ranges opened. Raises `PackedError`."""
    for line, row in rows:
        if dialect == 0 and is_packed_row(row):
            for event in unpack_row(row):
                yield line, event
        else:
            yield line, unpack_event(row) if dialect == 4 else row


def compare_requests(header: Record, placed: Sequence[Placed], captured: Sequence[Any]) -> tuple[Violation, ...]:
    """Rebuild every request of a log and compare it with the captured ones, in order (`S-LNT-84`).

    Captured requests with a `purpose` are auxiliary and skipped. A captured request that the log does not prove is no
    finding: an attempt that failed before its first chunk leaves no trace (`S-REQ-11`). A log that proves more requests
    than were captured is compared from its end: a capture begins with the process that made it, a log may be older.
    """
    wanted = [item for item in captured if not (isinstance(item, Mapping) and "purpose" in item)]
    lines = [line for line, _ in placed]
    try:
        rebuilt = reconstruct_requests(header, [event for _, event in placed])
    except (SurfaceError, ReconstructionError, KeyError, TypeError) as error:
        return (_violation(REQUESTS, 0, None, f"The requests cannot be rebuilt: {error}.", "a log without errors"),)
    found: list[Violation] = []
    at = 0
    rebuilt = rebuilt[-len(wanted) :] if wanted else rebuilt
    spare = len(wanted) - len(rebuilt)
    for anchor, request in rebuilt:
        plain = {**request, "messages": list(request["messages"])}
        skip = next(
            (n for n in range(max(spare, 0) + 1) if at + n < len(wanted) and same_value(plain, wanted[at + n])), None
        )
        if skip is None:
            theirs = wanted[at] if at < len(wanted) else None
            reason = f"The request that the log proves differs from the captured one: {difference(plain, theirs)}."
            found.append(_violation(REQUESTS, lines[anchor], anchor, reason, "equal requests"))
            skip = 0
        spare -= skip
        at += skip + 1
    return tuple(found)


def difference(ours: Any, theirs: Any, path: str = "$") -> str:
    """The first place where two JSON values differ, in words."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in sorted({*ours, *theirs}):
            if name not in theirs or name not in ours:
                return f"{path}.{name} is only in the {'log' if name in ours else 'capture'}"
            if not same_value(ours[name], theirs[name]):
                return difference(ours[name], theirs[name], f"{path}.{name}")
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        for at, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
            if not same_value(mine, other):
                return difference(mine, other, f"{path}[{at}]")
        return f"{path} has {len(ours)} items in the log and {len(theirs)} in the capture"
    return f"{path} is {_short(ours)} in the log and {_short(theirs)} in the capture"


def _short(value: Any) -> str:
    text = "absent" if value is None else repr(value)
    return text if len(text) <= 80 else text[:80] + "…"


def compare_inherited(
    child: Iterable[Placed], parent: Iterable[Placed], count: int, *, snapshot: bool = False
) -> tuple[Violation, ...]:
    """The first `count` events of a fork child against its parent's (`S-LNT-91`). Reports the first difference only.

    `snapshot`: stream times of normalised logs belong to different runs and are not compared. Nor are the ids that a
    migration gives to system messages, for parent and child are migrated each by itself.
    """
    theirs = iter(parent)
    try:
        for seq, (line, event) in enumerate(child):
            if seq >= count:
                break
            other = next(theirs, None)
            if other is None:
                reason = f"The parent has only {seq} events, the child inherits {count}."
                return (_violation(INHERITED, line, seq, reason, "a prefix of the parent's log"),)
            if not same_value(_comparable(event, snapshot), _comparable(other[1], snapshot)):
                reason = (
                    f"This inherited row differs from the parent's at line {other[0]}: {difference(event, other[1])}."
                )
                reason = reason.replace("in the log", "in the child").replace("in the capture", "in the parent")
                return (_violation(INHERITED, line, seq, reason, "the parent's row, unchanged"),)
    except PackedError:
        return ()
    return ()


def _comparable(event: Record, snapshot: bool) -> Record:
    data = event.get("data")
    if event.get("type") == "system/message" and isinstance(data, Mapping):
        message = data.get("message")
        if isinstance(message, Mapping) and str(message.get("id")).startswith(SYSTEM_ID):
            return {**event, "data": {**data, "message": without(message, "id")}}
    if snapshot and isinstance(data, Mapping) and "stream" in data:
        return {**event, "data": {name: value for name, value in data.items() if name != "stream"}}
    return event
