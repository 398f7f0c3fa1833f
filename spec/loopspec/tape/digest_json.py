"""Condensing lists of JSON items: FD-45."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

from loopspec.tape.digest_policy import Condensed, DigestPolicy
from loopspec.tape.text import compact_json, parsed, units
from loopspec.values import Json

FIELDS_SHOWN: Final = 8
_FAILURE: Final = re.compile(
    r"\berror|\bfail|exception|\bfatal|\bpanic|\"(?:status|code|statusCode|status_code)\":\"?[45]\d\d\b|\"ok\":false|"
    r"\"success\":false",
    re.IGNORECASE,
)
_NO_FAILURE: Final = re.compile(r"\"\w*(?:error|fail)\w*\":(?:null|false|0|\"\"|\[\]|\{\})", re.IGNORECASE)


class Listing(NamedTuple):
    """The items of a JSON text, and what stands before and after them. `lines`: one item a line, no commas."""

    items: Sequence[Json]
    before: str = "["
    after: str = "]"
    lines: bool = False


def items_of(text: str, lines: Sequence[str]) -> Listing | None:
    """The list that a text holds: an array, the longest array of an object, or three and more JSON lines."""
    stripped = text.strip()
    if stripped[:1] not in ("[", "{"):
        return None
    try:
        value = parsed(stripped)
    except ValueError:
        return _json_lines(lines)
    if isinstance(value, Mapping):
        return _inner_list(value)
    return Listing(value) if isinstance(value, list) else None


def _json_lines(lines: Sequence[str]) -> Listing | None:
    filled = [line for line in lines if line.strip()]
    if len(filled) < 3 or not all(line.lstrip()[:1] in ("{", "[") for line in filled):
        return None
    try:
        return Listing([parsed(line) for line in filled], "", "", lines=True)
    except ValueError:
        return None


def _inner_list(value: Mapping[str, Json]) -> Listing | None:
    lists = [key for key, item in value.items() if isinstance(item, list) and len(item) >= 2]
    if not lists:
        return None
    longest = max(lists, key=lambda key: len(value[key]))
    keys = list(value)
    at = keys.index(longest)
    before = [f"{compact_json(key)}:{compact_json(value[key])}" for key in keys[:at]]
    after = [f"{compact_json(key)}:{compact_json(value[key])}" for key in keys[at + 1 :]]
    opening = ",".join([*before, f"{compact_json(longest)}:["])
    return Listing(value[longest], "{" + opening, ",".join(["]", *after]) + "}")


def json_body(text: str, listing: Listing, policy: DigestPolicy) -> Condensed | None:
    """The first items, the last ones, those that look like failures, and how many are missing between them."""
    items = listing.items
    if units(text) < policy.min_chars or len(items) < policy.json_min_items:
        return None
    texts = [compact_json(item) for item in items]
    keep = _chosen(texts, policy.json_keep_items)
    body: list[str] = [] if listing.lines else [listing.before]
    rows: list[str] = []
    last = -1
    for at in [*keep, len(items)]:
        if at > last + 1:
            rows.append(_gap(items, texts, last + 1, at))
        if at < len(items):
            rows.append(texts[at])
        last = at
    if listing.lines:
        body += rows
    else:
        body += [f"{row}," for row in rows[:-1]] + rows[-1:] + [listing.after]
    return Condensed(body, len(body))


def _chosen(texts: Sequence[str], keep: float) -> list[int]:
    count = len(texts)
    room = int(min(keep, count))
    head, tail = ceil(0.3 * room), ceil(0.15 * room)
    wanted = [*range(head), *range(max(head, count - tail), count)]
    failures = [at for at, text in enumerate(texts) if _FAILURE.search(_NO_FAILURE.sub("", text))]
    chosen: dict[str, int] = {}
    for at in [*wanted, *failures]:
        if len(chosen) < room:
            chosen.setdefault(texts[at], at)
    return sorted(chosen.values())


def _gap(items: Sequence[Json], texts: Sequence[str], start: int, end: int) -> str:
    seen = set(texts[:start])
    duplicates = 0
    fields: dict[str, None] = {}
    for at in range(start, end):
        duplicates += texts[at] in seen
        seen.add(texts[at])
        if isinstance(items[at], Mapping):
            fields.update(dict.fromkeys(items[at]))
    repeated = f", {duplicates} duplicates" if duplicates else ""
    names = list(fields)
    shown = ", ".join([*names[:FIELDS_SHOWN], *(["…"] if len(names) > FIELDS_SHOWN else [])])
    listed = f"; fields: {shown}" if names else ""
    return f"…[+{end - start} of {len(items)} items omitted{repeated}{listed}]…"
