"""What is known of one session's log: the records that were reported, and those that the law says are there unseen.

Closers of a crash, restart markers and seeds are published to nobody (C-RPR-6, S-FRK-2). The law says what they are,
so that the whole log is known all the same, what a model is shown can be derived from it, and what an adapter says
that its log holds can be compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loopconform.judge.points import canonical
from loopspec import surface as surfaces
from loopspec.log.types import Dialect
from loopspec.surface import SurfaceError

Event = dict[str, Any]


class Chronicle:
    """The log of one session. Events have no `time`: it is the implementation's own."""

    def __init__(self, dialect: Dialect, events: Iterable[Event] = (), seed_length: int = 0) -> None:
        """`seed_length`: how many of the first events are inherited, and give no pending input (format 0, L-IN-16)."""
        self.dialect: Dialect = dialect
        self.seed_length = seed_length
        self.events: list[Event] = [timed(event) for event in events]
        self.is_whole = True
        """Nothing was appended that nobody was told of."""
        self.durable = 0
        """So many events are stored for certain, whatever happens."""
        self._surface = surfaces.empty(dialect)
        self._derived = 0

    def add(self, event: Mapping[str, Any]) -> None:
        """A record was published."""
        self.events.append(timed(event))

    def settled(self) -> None:
        """What was queued has been written, as nothing runs any more and no barrier holds (S-DSK-32)."""
        self.durable = len(self.events)

    @property
    def surface(self) -> surfaces.Surface:
        """The surface of the log as it is now. Raises `SurfaceError` for a log that the format refuses."""
        for seq in range(self._derived, len(self.events)):
            self._surface = surfaces.accept(self._surface, self.events[seq], seq)
            self._derived = seq + 1
        return self._surface

    def wrong_messages(self, shown: Any) -> str:
        """L-REQ-1, S-REQ-10  Why these are not the messages of a request that is sent now; empty when they are."""
        if not self.is_whole:
            return ""
        try:
            expected = [canonical(message) for message in surfaces.derive_messages(self.surface)]
        except SurfaceError as error:
            return f"the log has no surface: {error}"
        if not isinstance(shown, list):
            return "the request has no messages"
        found = [canonical(message) for message in shown]
        return _first_difference("message", found, expected)

    def wrong_log(self, shown: Sequence[Mapping[str, Any]]) -> str:
        """Why this is not the log; empty when it is."""
        if not self.is_whole:
            return ""
        return _first_difference(
            "event", [canonical(timed(event)) for event in shown], list(map(canonical, self.events))
        )


def timed(event: Mapping[str, Any]) -> Event:
    """An event at time 0: rules want a time, and nobody compares it."""
    return {**event, "time": 0}


def _first_difference(what: str, shown: list[str], expected: list[str]) -> str:
    for at, (one, other) in enumerate(zip(shown, expected, strict=False)):
        if one != other:
            return f"{what} {at} is {_short(one)}, not {_short(other)}"
    if len(shown) > len(expected):
        return f"{what} {len(expected)} is {_short(shown[len(expected)])}, and the law has none there"
    if len(shown) < len(expected):
        return f"{what} {len(shown)} is missing: {_short(expected[len(shown)])}"
    return ""


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"
