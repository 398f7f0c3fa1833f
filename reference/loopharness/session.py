"""The session log in memory and its registry (S-EVT-1 to S-EVT-5, L-LOG-1 to L-LOG-4, C-REGS-*).

A session is one frozen header and a list of frozen events that only grows. An append is a short synchronous
section that nothing can interleave with: freeze, ask the veto, push, fold, tell the observers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from loopharness.archive import Archive
from loopharness.bus import Bus, Context
from loopharness.creation.engine import Engine, Item
from loopharness.creation.errors import refusal
from loopharness.frozen import FrozenDict, NotJsonError, freeze
from loopspec.context import NEVER, Retained, observe
from loopspec.kernel.prefix import Prefix
from loopspec.log.types import SURFACE_TYPES, Dialect
from loopspec.request import canonical_header
from loopspec.surface import Surface, SurfaceError, accept_all, advance, breaches, empty
from loopspec.values import Record

__all__ = ["Session", "SessionDataError", "Sessions", "wall_clock"]

REENTRY: Final = "session append cannot reenter while another append is being published"


def wall_clock() -> int:
    """Unix time in whole milliseconds."""
    return time.time_ns() // 1_000_000


class SessionDataError(TypeError):
    """Data that is not lossless JSON was offered to the log (L-LOG-4). `__cause__` says where and why."""


class Session:
    """One log. `header`, `events` and `surface` are immutable values that may be read and kept at any time;
    `retained` is the runtime-context snapshot that the model still sees (L-CTX-4).

    `dialect` is the log format, `now` gives the time of an event in Unix milliseconds. `events` are those of a
    log that is taken up again: they are folded, not published, and must be frozen and numbered from 0.
    """

    __slots__ = (
        "__weakref__",
        "_archive",
        "_last",
        "_now",
        "_publishing",
        "_shown",
        "_store",
        "dialect",
        "events",
        "header",
        "id",
        "on_published",
        "retained",
        "surface",
    )

    def __init__(
        self,
        header: Mapping[str, Any],
        *,
        dialect: Dialect = "v4",
        now: Callable[[], int] = wall_clock,
        events: Iterable[FrozenDict] = (),
    ) -> None:
        self.header: Final[FrozenDict] = freeze(dict(header))
        self.id: Final[str] = self.header["id"]
        self.dialect: Final[Dialect] = dialect
        self.events: Prefix[FrozenDict] = Prefix()
        self.surface: Surface = empty(dialect)
        self.retained: Retained = NEVER
        self._shown = SURFACE_TYPES[dialect] | {"image/offload"}
        self._last: dict[str, FrozenDict] = {}
        self._now = now
        self._publishing = False
        self.on_published: Callable[[], None] | None = None
        """Called when the publication of an append is over: its driver may have operations waiting for that."""
        self._store: Engine | None = None
        self._archive: Final = events if isinstance(events, Archive) else Archive.of(events)
        self._take_up(self._archive)

    def _take_up(self, archive: Archive) -> None:
        """Fold the events of a log that was there before; what only stands in the log is not looked at twice."""
        shown = self._shown
        concerned: list[tuple[int, FrozenDict]] = []
        for seq, event in archive.open_ones():
            if event["seq"] != seq:
                raise ValueError(f"event {seq} of session {self.id!r} has seq {event['seq']}")
            if event["type"] in shown:
                self.retained = observe(self.dialect, self.retained, event, seq)
                concerned.append((seq, event))
            elif "surfaceOp" in event or "sourceEventSeqs" in event:
                concerned.append((seq, event))
        self.surface = accept_all(self.surface, concerned)
        self._last = archive.last_ones()
        self.events = archive.prefix()

    @property
    def messages(self) -> Prefix[Record]:
        """The model history derived from the log as it is now (S-SUR-10)."""
        return self.surface.messages

    @property
    def header_record(self) -> Record | None:
        """The header of the latest `request/header` in canonical form; `None` before the first (S-REQ-4)."""
        event = self._last.get("request/header")
        return None if event is None else canonical_header(event["data"]["header"])

    @property
    def last_turn(self) -> int:
        """The number of the last `turn/start` in the whole log, 0 before the first (L-PH-6)."""
        event = self._last.get("turn/start")
        return 0 if event is None else int(event["data"]["turn"])

    @property
    def publishing(self) -> bool:
        """True while an append is being decided, committed or published: another one would be refused."""
        return self._publishing

    def now(self) -> int:
        """The time that an event appended now would get, in Unix milliseconds."""
        return self._now()

    def last(self, type: str) -> FrozenDict | None:
        """The latest event of a type, in constant time."""
        return self._last.get(type)

    def of_type(self, type: str, start: int = 0) -> Iterator[FrozenDict]:
        """The events of one type from a seq on, in order; of a log that was taken up no others are opened."""
        yield from self._archive.of_type(type, start)
        for event in self.events[max(start, len(self._archive)) :]:
            if event["type"] == type:
                yield event

    def append(
        self,
        type: str,
        data: Any,
        surface_op: str | Mapping[str, Any] | None = None,
        source_event_seqs: Sequence[int] | None = None,
    ) -> FrozenDict:
        """Add one event and answer it, frozen, with its `seq` and `time` (L-LOG-1, L-LOG-2, C-REGS-10).

        In this order: freeze and check the data; refuse re-entry; let the surface algebra and the
        `internal/dispatch` listeners object; fold and push; tell the `session/event`
        listeners `(session, event)`, whose failures are logged and change nothing. An append that is
        refused leaves no trace.

        Raises `SessionDataError` for data that is not lossless JSON, `RuntimeError` when called from inside
        the publication of another append to this session (L-LOG-3), `SurfaceError` for an operation that the
        surface does not allow, and what an `internal/dispatch` listener raises.
        """
        fields: dict[str, Any] = {"type": type, "seq": len(self.events), "time": 0, "data": None}
        try:
            fields["data"] = freeze(data)
            if source_event_seqs is not None:
                fields["sourceEventSeqs"] = freeze(tuple(source_event_seqs))
            if surface_op is not None:
                fields["surfaceOp"] = freeze(surface_op)
        except NotJsonError as error:
            raise SessionDataError(f'session event "{type}" carries non-JSON-serializable data') from error
        fields["time"] = self._now()
        event = FrozenDict(fields)
        is_inside, self._publishing = self._publishing, True
        try:
            store = self._store
            if store is None or not store.bus.has("session/event"):
                self.check(event)
                self.commit(event)
            else:
                store.publish(self, event)
        finally:
            self._publishing = is_inside
            if self.on_published is not None and not is_inside:
                self.on_published()
        return event

    def check(self, event: FrozenDict) -> None:
        """For the store: refuse what may not join the surface as it says (S-SUR-1 to S-SUR-8)."""
        if event["type"] in self._shown or "surfaceOp" in event or "sourceEventSeqs" in event:
            wrong = breaches(self.surface, event, event["seq"])
            if wrong:
                raise SurfaceError(wrong)

    @property
    def attached(self) -> bool:
        """Whether a store publishes the appends (C-REGS-2)."""
        return self._store is not None

    def attach(self, store: Engine) -> None:
        """For the store: appends are published from now on."""
        self._store = store

    def detach(self) -> None:
        """For the store: appends stay in the log and are not heard (C-REGS-6)."""
        self._store = None

    def published(self) -> None:
        """For the store: the observers of the record are done."""
        self._publishing = False

    def commit(self, event: FrozenDict) -> None:
        """For the store: fold and push one record that has been checked."""
        if event["type"] in self._shown:
            self._show(event)
        self.events = self.events.append(event)
        self._last[event["type"]] = event

    def _show(self, event: FrozenDict) -> None:
        self.surface = advance(self.surface, event, event["seq"])
        self.retained = observe(self.dialect, self.retained, event, event["seq"])

    def __repr__(self) -> str:
        return f"<Session {self.id} with {len(self.events)} events>"


class Sessions:
    """The live sessions, by id, in order of entry (C-REGS-*)."""

    def __init__(self, bus: Bus, engine: Engine | None = None) -> None:
        self._bus = bus
        self._engine: Final = engine or Engine(bus)
        self._unnamed = 0

    def fresh_id(self) -> str:
        """An id for a session that nobody has named: `session-<n>`, counted here, none that is live (C-ID-5)."""
        while True:
            self._unnamed += 1
            id = f"session-{self._unnamed}"
            if id not in self._engine.sessions:
                return id

    def get(self, id: str) -> Session | None:
        """The live session of that id."""
        return self._engine.sessions.get(id)

    def list(self) -> list[Session]:
        """A fresh list of the live sessions."""
        return list(self._engine.sessions.values())

    def create(self, session: Session, context: Context | None = None) -> Callable[[], None]:
        """Enter and announce somebody's own session; `context` owns it. The answer detaches (C-REGS, 3.1).

        Raises what `enter` raises, and what a listener of `session/created` raises: then it has left again.
        """
        item = self._offered(session, context)
        self._engine.register("session", item)
        return _Detach(self._engine, item).owned_by(context)

    def enter(self, session: Session, context: Context | None = None) -> Callable[[], None]:
        """Insert silently and start publishing appends; the answer detaches (C-REGS-2, C-REGS-3).

        The scope of `context` decides for good who hears about this session. Detaching emits
        `session/disposed (session)` if the session was announced, and waits for the end of a dispatch that is
        going on (C-REGS-5).

        Raises `ValueError`: `session "<id>" already exists`, `session "<id>" is already attached to a store`.
        """
        item = self._offered(session, context)
        self._engine.enter("session", item)
        return _Detach(self._engine, item)

    def announce(self, session: Session) -> None:
        """Run the one `session/created (session)` dispatch; its first failure escapes (C-REGS-4, C-DSP-5)."""
        item = self._engine.item_of(session)
        if item is None:
            raise refusal("not-live", session.id)
        self._engine.announce("session", item)

    def _offered(self, session: Session, context: Context | None) -> Item:
        if session.attached:
            raise ValueError(f'session "{session.id}" is already attached to a store')
        item = self._engine.item(session.id)
        item.session = session
        item.key = None if context is None else context.key
        return item

    async def flush(self, session: Session) -> bool:
        """Wait until every `session/flush (session)` listener has settled (C-REGS-8, S-DSK-33).

        Answers whether any took part. Raises the first failure in order of registration.
        """
        self._live(session)
        try:
            return await self._bus.parallel("session/flush", session, key=self._key_of(session)) > 0
        except ExceptionGroup as group:
            first = group.exceptions[0]
            raise first from first.__cause__

    def _key_of(self, session: Session) -> object | None:
        item = self._engine.item_of(session)
        return None if item is None else item.key

    def _live(self, session: Session) -> None:
        if self.get(session.id) is not session:
            raise refusal("not-live", session.id)


class _Detach:
    """Takes one exact session out, once (C-REGA-6)."""

    __slots__ = ("_engine", "_item")

    def __init__(self, engine: Engine, item: Item) -> None:
        self._engine = engine
        self._item: Item | None = item

    def __call__(self) -> None:
        item, self._item = self._item, None
        if item is not None:
            self._engine.withdraw("session", item)

    def owned_by(self, context: Context | None) -> Callable[[], None]:
        """The same as an effect of a context."""
        return self if context is None else context.effect(self, "sessions.create()")
