"""Server-sent events, as a pure fold over bytes (M-540).

`feed` takes the bytes of one read and answers the events that have become complete; how a stream is cut into reads
makes no difference. An event counts once its blank line has arrived. LF, CR and CRLF end a line; a byte order mark in
front of the stream is skipped; lines that begin with a colon are comments; fields other than `data` are ignored.
Bytes that are no UTF-8 become U+FFFD.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

from loopspec.kernel.prefix import Prefix

__all__ = ["EVENT_LIMIT", "Comment", "Data", "Event", "Sse", "TooLong", "feed"]

EVENT_LIMIT: Final = 16 * 1024 * 1024
"""How many bytes of one unfinished event are kept. A server that goes on beyond that is not listened to any more."""

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")


class Data(NamedTuple):
    """A complete event: its `data` lines, joined with line feeds."""

    text: str


class Comment(NamedTuple):
    """A comment line: a sign of life and nothing else."""

    text: str


class TooLong(NamedTuple):
    """One event is longer than the limit; nothing follows."""

    limit: int


Event: TypeAlias = Data | Comment | TooLong


class Sse(NamedTuple):
    """Where the fold stands.

    `line` are the pieces of the unfinished line, `data` the data lines of the unfinished event; `line_size` and
    `data_size` are their bytes. `after_cr`: the last byte was a CR, so that a LF now belongs to it. `begun`: the first
    line is over. `waits`: a CR in the last place ends its line only when another byte comes (G6).
    """

    limit: int = EVENT_LIMIT
    waits: bool = False
    line: Prefix[bytes] = Prefix()
    line_size: int = 0
    data: Prefix[str] = Prefix()
    data_size: int = 0
    after_cr: bool = False
    begun: bool = False
    over: bool = False


def feed(state: Sse, received: bytes) -> tuple[Sse, tuple[Event, ...]]:
    """Take the bytes of one read in; answers the events that they complete, in order. Never fails."""
    if state.over or not received:
        return state, ()
    if state.after_cr and state.waits:
        received = b"\r" + received
    elif state.after_cr and received[:1] == b"\n":
        received = received[1:]
    ends_in_cr = received[-1:] == b"\r"
    if ends_in_cr and state.waits:
        received = received[:-1]
    *complete, rest = _LINE_END.split(received)
    state = state._replace(after_cr=ends_in_cr)
    events: list[Event] = []
    for end in complete:
        state, event = _line_ended(state, end)
        if event is not None:
            events.append(event)
        if state.over:
            return state, tuple(events)
    state, event = _line_grew(state, rest)
    if event is not None:
        events.append(event)
    return state, tuple(events)


def _line_ended(state: Sse, end: bytes) -> tuple[Sse, Event | None]:
    """A line is complete; `end` is the part of it that came last."""
    if state.data_size + state.line_size + len(end) > state.limit:
        return _too_long(state)
    line = b"".join((*state.line, end)) if len(state.line) else end
    if not state.begun and line.startswith(_BOM):
        line = line[len(_BOM) :]
    state = state._replace(line=Prefix(), line_size=0, begun=True)
    if not line:
        return _event_ended(state)
    if line.startswith(b":"):
        return state, Comment(_text(line[1:]))
    name, _, value = line.partition(b":")
    if name != b"data":
        return state, None
    value = value.removeprefix(b" ")
    return state._replace(data=state.data.append(_text(value)), data_size=state.data_size + len(value) + 1), None


def _event_ended(state: Sse) -> tuple[Sse, Event | None]:
    """A blank line: an event if there was any data line, though it may have been empty."""
    if not len(state.data):
        return state, None
    return state._replace(data=Prefix(), data_size=0), Data("\n".join(state.data))


def _line_grew(state: Sse, rest: bytes) -> tuple[Sse, Event | None]:
    if not rest:
        return state, None
    size = state.line_size + len(rest)
    if state.data_size + size > state.limit:
        return _too_long(state)
    return state._replace(line=state.line.append(rest), line_size=size), None


def _too_long(state: Sse) -> tuple[Sse, Event | None]:
    return Sse(state.limit, state.waits, over=True), TooLong(state.limit)


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
