"""The sessions that are stored, and what a session begins with that is made of one of them.

The law of it is `loopspec.log.repair` (closers), `loopspec.inbox` (restored input) and `loopspec.driver.initial` (the
number of the next turn). What a crash leaves of a log is any beginning of it that holds everything which was written
when nothing ran any more: there is one judge for each of them, until the adapter shows which one it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from loopconform.judge.chronicle import Chronicle, Event, timed
from loopconform.judge.points import Book, Facts
from loopconform.protocol.requests import Stored
from loopspec import driver, inbox
from loopspec import surface as surfaces
from loopspec.log import repair
from loopspec.log.types import KNOWN_TYPES, VERSIONS, Dialect
from loopspec.loop import Loop
from loopspec.profile import Law
from loopspec.surface import SurfaceError

END_SEED = "session/end-seed"

Is = Literal["yes", "no", "perhaps"]


class Start(NamedTuple):
    """What an agent begins with: the log of its session."""

    chronicle: Chronicle

    def loop(self, law: Law, book: Book) -> Loop:
        """L-PH-6, L-IN-16 to L-IN-18, C-INB-1, C-INB-2  Idle, numbers go on, pending input is there and wakes nobody.

        Raises `ValueError` for a log with an impossible splice (C-INB-5).
        """
        events = self.chronicle.events
        turns = [int(event["data"]["turn"]) for event in events if event["type"] == "turn/start"]
        lists = inbox.Lists()
        for event in events[self.chronicle.seed_length :]:
            if event["type"] == "agent/inbox/spliced":
                data = event["data"]
                inserted = tuple(book.number(message["id"]) for message in data["inserted"])
                lists = inbox.replayed(lists, data["target"], data["start"], data.get("removedCount", 0), inserted)
        return Loop(driver.initial(law, turns[-1] if turns else 0, lists))

    def facts(self, book: Book) -> Facts:
        """L-REQ-9, L-REQ-11  The last header and context of the log are those that the next ones are compared with."""
        facts = book.facts()
        for event in self.chronicle.events:
            kind, data = event["type"], event["data"]
            if kind == "request/header":
                tools = data["header"].get("tools", ())
                names = tuple(sorted(str(tool["name"]) for tool in tools))
                facts = facts._replace(logged=(data["header"]["config"]["model"], names))
            elif kind == "request/context":
                facts = facts._replace(context=data["model"])
            elif kind == "system/message":
                facts = facts._replace(prompted=True)
        return facts


class Storage:
    """What is stored, by session id. Without `storage` in the opening nothing ever is."""

    def __init__(self, book: Book, law: Law) -> None:
        self._law = law
        self.is_there = book.opening.storage
        self.dialect: Dialect = VERSIONS[law.session_format]
        self.logs: dict[str, Chronicle] = {}
        """The log of each session of this world, live or not, as far as it is known."""
        self._past: set[str] = set()
        """Sessions that a crash has ended: nothing is written of them any more."""
        self._unreadable: set[str] = set()
        self._strangers: list[Chronicle] = []
        """The logs of sessions whose id another log has: they are never written."""
        for stored in book.opening.stored:
            self._put(stored, book)

    def _put(self, stored: Stored, book: Book) -> None:
        """A session that was stored before the world opened: readable, or refused by every resume."""
        log = Chronicle(self.dialect, stored.events, stored.header.get("seedLength", 0))
        log.settled()
        self.logs[stored.id] = log
        if not self._is_readable(stored, log, book):
            self._unreadable.add(stored.id)

    def _is_readable(self, stored: Stored, log: Chronicle, book: Book) -> bool:
        """S-HDR-1, S-ENV-3, S-SUR-2, L-IN-17  This format, known types, a surface, and an inbox that adds up."""
        if stored.header.get("version") != self._law.session_format:
            return False
        for seq, event in enumerate(log.events):
            is_known = event.get("type") in KNOWN_TYPES[self.dialect] or event.get("ignorable") is True
            if not is_known or event.get("seq") != seq:
                return False
        try:
            surfaces.fold(self.dialect, log.events)
            Start(log).loop(self._law, book)
        except (SurfaceError, ValueError, KeyError):
            return False
        return True

    def has(self, id: str) -> Is:
        """C-RES-5  Whether a resume finds this session. A log that may have been lost perhaps is there."""
        log = self.logs.get(id)
        if not self.is_there or log is None or id in self._unreadable:
            return "no"
        if log.durable or not log.is_whole:
            return "yes"
        if log.events:
            return "perhaps"
        return "no" if self.dialect == "v0" else "perhaps"  # S-DSK-37

    def holds(self, id: str) -> Is:
        """C-RES-9  Whether there is a log of this id, be it one that no resume can read."""
        return "yes" if self.is_there and id in self._unreadable else self.has(id)

    def collides(self, id: str, log: Chronicle) -> None:
        """C-RES-9  A fresh session has begun: nothing of it is written where another log has its id."""
        is_stored = self.holds(id)
        if is_stored == "yes":
            self._strangers.append(log)
        elif is_stored == "perhaps":
            self.logs[id].is_whole = False

    def settled(self, waiting: Iterable[str]) -> None:
        """Nothing runs any more: all is written, but of the sessions of which a batch waits at its gate."""
        waiting = {*waiting, *self._past}
        for id, log in self.logs.items():
            if id not in waiting:
                log.settled()

    def unwritten(self) -> list[str]:
        """Sessions of this world of which something has been appended since all was written last."""
        open_ones = self.logs.items() if self.is_there else ()
        return [id for id, log in open_ones if id not in self._past and len(log.events) > log.durable]

    def remember(self, id: str, log: Chronicle) -> None:
        """This is the log of that session now."""
        if self.logs.get(id) is not log and not any(log is stranger for stranger in self._strangers):
            self.logs[id] = log
            self._past.discard(id)

    def crashed(self) -> None:
        """Whoever was alive is not; what was not written may be lost."""
        self._past |= set(self.logs)

    def resumed(self, id: str) -> tuple[Start, ...]:
        """C-RES-11, C-RES-12, C-RPR-2  What a resume may begin with: a stored log, its closers, the restart marker.

        The longest one is first. None is known of a log of which something was told to nobody.
        """
        log = self.logs.get(id)
        if log is None or not log.is_whole:
            return ()
        longest = len(log.events)
        least = max(log.durable, min(1, longest))
        return tuple(self._begun(log, log.events[:length]) for length in range(longest, least - 1, -1))

    def _begun(self, log: Chronicle, events: list[Event]) -> Start:
        closed = [*events, *map(dict, repair.repair(self.dialect, events))]
        return Start(Chronicle(self.dialect, marked(closed), log.seed_length))

    def forked(self, source: Chronicle, boundary: int | None) -> Start:
        """C-FRK-5, C-FRK-9, S-FRK-5  The prefix up to an inclusive seq, its marker, and in format 4 closers."""
        prefix = source.events if boundary is None else source.events[: boundary + 1]
        if self.dialect == "v4":
            return Start(Chronicle("v4", [*prefix, *map(dict, repair.fork(prefix))]))
        return Start(Chronicle("v0", marked(prefix), len(prefix)))


def marked(events: list[Event]) -> list[Event]:
    """S-FRK-1  The restart marker behind a log, unless it ends with one."""
    if events and events[-1]["type"] == END_SEED:
        return list(events)
    return [*events, timed({"type": END_SEED, "seq": len(events), "data": {}})]


def header_of(id: str, version: int, seed_length: int = 0) -> Mapping[str, Any]:
    """The header of a session that the suite made up."""
    lineage: dict[str, Any] = {"seedLength": seed_length} if seed_length else {}
    if version == 4:
        lineage = {"isSeeded": False}
    return {"type": "session", "version": version, "id": id, "createdAt": 0, **lineage, "delegationDepth": 0}
