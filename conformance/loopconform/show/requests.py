"""Every model request that a log proves, rebuilt, and told by what is new in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from loopconform.show.story import Line, Tone
from loopconform.show.words import content_words, count, get, items, safe, source_words, words_of
from loopspec.request import reconstruct_requests
from loopspec.values import Record, same_text, same_value

__all__ = ["Unprovable", "request_lines"]

_TONES: dict[Any, Tone] = {"system": "system", "developer": "system", "assistant": "model", "tool": "tool"}


class Unprovable(ValueError):
    """The requests of a log cannot be rebuilt; the text says why."""


def request_lines(header: Record, events: Sequence[Record]) -> Iterator[Line]:
    """One line for each request, with its messages below; `turn` is the turn it belongs to. Raises `Unprovable`."""
    try:
        rebuilt = reconstruct_requests(header, events)
    except Exception as error:  # a log with errors can fail in any way
        raise Unprovable(f"{type(error).__name__}: {error}") from error
    before: dict[str, Any] | None = None
    for number, (anchor, request) in enumerate(rebuilt, 1):
        event = events[anchor]
        line = _line(number, event, request, before)
        before = request
        yield line


def _line(number: int, event: Record, request: dict[str, Any], before: dict[str, Any] | None) -> Line:
    data = event["data"]
    place = f"turn {words_of(get(data, 'turn'))}, step {words_of(get(data, 'step'))}"
    route = f"{words_of(request.get('provider'))}/{words_of(request.get('model'))}"
    messages = request["messages"]
    shared = 0 if before is None else _shared(messages, before["messages"])
    line = Line(None, "step", f"request {number}", f"{route}, {count(len(messages), 'message')}", place)
    line.seq, line.turn = get(event, "seq"), get(data, "turn")
    if before is not None:
        line.children.append(_sharing(shared, len(messages), len(before["messages"])))
    line.children += _fields(request, before)
    for at in range(shared, len(messages)):
        line.children.append(_message(at, messages[at]))
    return line


def _shared(messages: Sequence[Any], earlier: Sequence[Any]) -> int:
    """How many leading messages two requests have in common: what a provider's prefix cache can use."""
    shared = 0
    for mine, theirs in zip(messages, earlier, strict=False):
        if mine is not theirs and not same_value(mine, theirs):
            break
        shared += 1
    return shared


def _sharing(shared: int, now: int, before: int) -> Line:
    same = "no message" if not shared else "the first message" if shared == 1 else f"the first {shared:,} messages"
    text = f"{same} as in the request before, {now - shared:,} new"
    if shared == before:
        return Line(None, "good", "prefix", text)
    return Line(
        None, "warn", "prefix", text, f"{count(before - shared, 'message')} of the request before gone or changed"
    )


def _fields(request: dict[str, Any], before: dict[str, Any] | None) -> Iterator[Line]:
    """Everything but the messages: whole in the first request, changes later."""
    names = [name for name in (*request, *(before or ())) if name not in ("messages", "sessionId")]
    for name in dict.fromkeys(names):
        if before is None:
            if name not in ("provider", "model"):
                yield Line(None, "plain", name, _field_words(name, request[name]))
        elif name not in request:
            yield Line(None, "warn", name, "gone")
        elif name not in before:
            yield Line(None, "warn", name, _field_words(name, request[name]), "new")
        elif not (same_text if name == "tools" else same_value)(request[name], before[name]):
            yield Line(None, "warn", name, _field_words(name, request[name]), "changed")


def _field_words(name: str, value: Any) -> str:
    if name != "tools":
        return safe(value)
    names = [words_of(get(tool, "name")) for tool in items(value)]
    return f"{', '.join(names[:40])}" + (f" and {len(names) - 40} more" if len(names) > 40 else "")


def _message(at: int, message: Any) -> Line:
    role = get(message, "role")
    tone: Tone = _TONES.get(role if isinstance(role, str) else "", "user")
    calls = [
        f"{words_of(get(block, 'name'))}({safe(get(block, 'arguments') or '', 120)})"
        for block in items(get(message, "content"))
        if get(block, "type") == "tool-call"
    ]
    line = Line(
        None, tone, words_of(role), content_words(get(message, "content")), source_words(get(message, "source"))
    )
    line.seq = f"#{at + 1}"
    line.children = [Line(None, "tool", "call", call) for call in calls]
    return line
