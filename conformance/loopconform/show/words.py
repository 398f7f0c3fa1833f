"""Words for pieces of a log.

Every function takes any JSON whatever, and answers short text that a terminal can show.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from loopconform.plain import printable

CUT = 240
"""Characters of a text that are shown; the note behind it says how many more there are."""


def safe(value: Any, limit: int = CUT) -> str:
    """A text on one line, cut and harmless; anything that is no text as JSON."""
    text = value if isinstance(value, str) else as_json(value)
    shown = text[:limit].replace("\r\n", "\n").replace("\n", " ⏎ ").replace("\t", "  ")
    left = len(text) - limit
    return printable(shown) + (f" … (+{left:,} characters)" if left > 0 else "")


def as_json(value: Any) -> str:
    """Compact JSON text of a JSON value; not yet safe for a terminal."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=list)
    except (TypeError, ValueError, RecursionError):
        return "(not JSON)"


def get(value: Any, *path: str) -> Any:
    """What lies at a path of keys; None when there is nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def items(value: Any) -> Sequence[Any]:
    """A JSON array; anything else counts as empty."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def words_of(value: Any) -> str:
    """A scalar as a word; nothing for None."""
    return "" if value is None else safe(value, 80)


def content_words(content: Any, limit: int = CUT) -> str:
    """The blocks of a message on one line."""
    shown: list[str] = []
    calls: list[str] = []
    for block in items(content):
        kind = get(block, "type")
        if kind == "text":
            shown.append(safe(get(block, "text") or "", limit))
        elif kind == "reasoning":
            shown.append(f"(thinking: {safe(get(block, 'text') or '', limit)})")
        elif kind == "tool-call":
            calls.append(words_of(get(block, "name")))
        elif kind == "tool-result":
            shown.append(content_words(get(block, "content"), limit))
        elif kind in ("image", "file"):
            name = get(block, "attachment", "name") or get(block, "attachment", "attachmentId")
            shown.append(f"[{kind} {words_of(name)}]")
        else:
            shown.append(safe(block, limit))
    if calls:
        shown.append(f"[calls {', '.join(calls)}]")
    return " ".join(part for part in shown if part) or "(empty)"


def message_words(message: Any, limit: int = CUT) -> str:
    """A pending message: its id and its text."""
    return f"{words_of(get(message, 'id'))} “{content_words(get(message, 'content'), limit)}”"


def failure_words(failure: Any) -> str:
    """A failure of the provider: code, message, status."""
    status = get(failure, "status")
    tail = f" ({status})" if isinstance(status, int) else ""
    return f"{words_of(get(failure, 'code'))}: {safe(get(failure, 'message') or '', CUT)}{tail}"


def usage_words(usage: Any) -> str:
    """Token counts."""
    names = (
        ("inputTokens", "in"),
        ("outputTokens", "out"),
        ("cacheReadTokens", "cached"),
        ("reasoningTokens", "thinking"),
    )
    shown = [f"{count:,} {word}" for key, word in names if isinstance(count := get(usage, key), int)]
    return f"{', '.join(shown)} tokens" if shown else ""


def source_words(source: Any) -> str:
    """Who a message comes from, when it is no human prompt."""
    kind = get(source, "kind")
    if kind in (None, "user", "model", "tool", "system-prompt"):
        return ""
    plugin = get(source, "plugin")
    return f" from {words_of(kind)}" + (f" {words_of(plugin)}" if plugin else "")


def moment(milliseconds: Any) -> str:
    """A Unix time in milliseconds, in UTC."""
    try:
        when = datetime.datetime.fromtimestamp(milliseconds / 1000, datetime.UTC)
        return when.strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return words_of(milliseconds)


def span(first: Any, last: Any) -> str:
    """The time between two moments."""
    if type(first) is not int or type(last) is not int:
        return ""
    gap = last - first
    return f"{gap:,} ms" if abs(gap) < 10_000 else f"{gap / 1000:,.1f} s"


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
