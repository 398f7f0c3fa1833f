"""One physical row to one JSON object, with a sentence for every way in which that can fail.

Ordinary rows take a short path: parse, write again, compare. A row that comes out byte for byte as it went in has no
duplicate key, no odd spacing, no carriage return, no negative zero and no integer beyond 2^53 - 1. Everything else
goes the long way, which looks closer and explains.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from loopconform.container import RawRow
from loopspec.log.damage import Damage, DamageKind

DEPTH_LIMIT = 400
"""Deepest nesting of one row that the rules look into. Deeper rows are undecided, not corrupt."""
_SAFE = 2**53 - 1
_STRICT = orjson.OPT_STRICT_INTEGER
_loads, _dumps = orjson.loads, orjson.dumps
_INTEGER_FIELDS = frozenset(
    (
        *("seq", "seq0", "time", "time0", "createdAt", "updatedAt", "childCreatedAt", "turn", "step"),
        *("delegationDepth", "seedLength", "start", "end", "startSeq", "endSeq", "removedCount", "index"),
        *("retry", "maxRetries", "headerSeq", "throughSeq", "sourceEventSeq", "status", "bytes", "width", "height"),
        *("inputTokens", "outputTokens", "totalTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"),
    )
)

Parsed = tuple[dict[str, Any] | None, tuple[Damage, ...]]


def parse(row: RawRow) -> Parsed:
    """The row's object (None when there is none) and what is wrong with its text. Never raises."""
    value = sound(row.data)
    return _careful(row) if value is None else (value, ())


def sound(data: bytes) -> dict[str, Any] | None:
    """The object of a row whose text nothing is wrong with; None when it needs a closer look.

    Nesting: the writer gives up on less than `DEPTH_LIMIT` levels.
    """
    try:
        value = _loads(data)
        if type(value) is dict and _dumps(value, None, _STRICT) == data and b"-0.0" not in data:
            return value
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        pass
    return None


def _careful(row: RawRow) -> Parsed:
    faults: list[Damage] = []

    def fault(kind: DamageKind, detail: str, column: int = 0) -> None:
        faults.append(Damage(kind, row.line, row.frame, row.offset, detail, column))

    data = row.data
    if data.startswith(b"\xef\xbb\xbf"):
        fault("bad-row", "it begins with a byte order mark", 1)
        data = data[3:]
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(data[: error.start].decode("utf-8", "replace")) + 1
        fault("bad-row", f"byte 0x{data[error.start]:02x} at byte {error.start + 1} is not UTF-8", column)
        text = data.decode("utf-8", "replace")
    if text.endswith("\r"):
        fault("carriage-return", "it ends in CR LF; only LF ends a row", len(text))
        text = text[:-1]
    if not text.strip(" \t\r"):
        fault("bad-row", "the row is blank", 1)
        return None, tuple(faults)
    notes: list[tuple[DamageKind, str]] = []
    try:
        value = _decoder(notes).decode(text)
    except RecursionError:
        fault("row-too-deep", f"its nesting is deeper than {DEPTH_LIMIT} levels")
        return None, tuple(faults)
    except ValueError as error:
        detail, column = _diagnose(text, error)
        fault("bad-row", detail, column)
        return None, tuple(faults)
    for kind, detail in notes:
        fault(kind, detail)
    if not isinstance(value, dict):
        fault("bad-row", f"it holds {_kind_of(value)}, not an object", 1)
        return None, tuple(faults)
    if _deeper_than(value, DEPTH_LIMIT):
        fault("row-too-deep", f"its nesting is deeper than {DEPTH_LIMIT} levels")
        return None, tuple(faults)
    return value, tuple(faults)


def _decoder(notes: list[tuple[DamageKind, str]]) -> json.JSONDecoder:
    seen: set[str] = set()

    def note(kind: DamageKind, detail: str) -> None:
        if detail not in seen and len(seen) < 8:
            seen.add(detail)
            notes.append((kind, detail))

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) < len(items):
            names = [name for name, _ in items]
            twice = next(name for name in names if names.count(name) > 1)
            note("duplicate-key", f"the key {_quoted(twice)} occurs twice in one object")
        for name in _INTEGER_FIELDS.intersection(found):
            number = found[name]
            if type(number) in (int, float) and abs(number) > _SAFE:
                note("number", f"{name} is beyond the safe integers (2^53 - 1)")
        return found

    def integer(digits: str) -> int | float:
        if digits == "-0":
            note("number", "it contains a negative zero (-0)")
            return 0
        return int(digits) if len(digits) < 400 else fraction(digits)

    def fraction(digits: str) -> int | float:
        number = float(digits)
        if number == 0 and digits.startswith("-"):
            note("number", "it contains a negative zero (-0)")
            return 0
        if number in (float("inf"), float("-inf")):
            note("number", "it contains a number too large for a double")
        return int(number) if abs(number) <= _SAFE and number.is_integer() else number

    def constant(name: str) -> Any:
        raise ValueError(f"{name} is not JSON")

    return json.JSONDecoder(
        object_pairs_hook=pairs, parse_int=integer, parse_float=fraction, parse_constant=constant, strict=True
    )


def _diagnose(text: str, error: ValueError) -> tuple[str, int]:
    """Why the text is not one JSON object, in words, and the column (from 1) where it shows."""
    if text.count("\0") > len(text) // 2:
        return f"it is a run of {text.count(chr(0))} NUL characters, as a crash of the file system leaves behind", 1
    second = _second_object(text)
    if second is not None:
        column, seq, first_is_whole = second
        which = f" and is row seq {seq}" if seq is not None else ""
        state = "both halves are sound" if first_is_whole else "the row in front of it is cut off"
        return f"a second JSON object begins at column {column}{which}; {state}", column
    if not isinstance(error, json.JSONDecodeError):
        return str(error), 1
    column = error.pos + 1
    if error.msg.startswith("Unterminated string"):
        return f"string not closed: the one that begins at column {column} (a raw line feed inside a string?)", column
    if error.msg.startswith("Invalid control character"):
        return f"a raw control character (U+{ord(text[error.pos]):04X}) stands inside a string", column
    if error.pos >= len(text.rstrip()):
        return "it breaks off before its object is complete", column
    return f"not JSON: {error.msg[0].lower()}{error.msg[1:]} at column {column}", column


def _second_object(text: str) -> tuple[int, int | None, bool] | None:
    """Column, seq and soundness of the first half, when the end of the line is a complete row of its own."""
    plain = json.JSONDecoder()
    at = 1
    for _ in range(64):
        at = text.find('{"type":"', at)
        if at < 0:
            return None
        try:
            value, end = plain.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if end == len(text) and isinstance(value, dict) and ("seq" in value or "seq0" in value):
            seq = value.get("seq", value.get("seq0"))
            return at + 1, seq if isinstance(seq, int) else None, _is_object(text[:at])
        at += 1
    return None


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _deeper_than(value: object, limit: int) -> bool:
    level: list[object] = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _kind_of(value: object) -> str:
    if value is None:
        return "null"
    names = {list: "an array", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return names.get(type(value), "something else")


def _quoted(name: str) -> str:
    return json.dumps(name if len(name) <= 60 else name[:60] + "…", ensure_ascii=True)
