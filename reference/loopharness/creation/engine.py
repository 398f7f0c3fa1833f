"""The creation machine, run live, and the two registries that it decides about.

The engine numbers objects and ids, performs what the machine says about a registry (enter, announce, publish, detach),
and hands every other effect to whoever has signed up for it (`perform`). There is no decision here: which object holds
an id, whether a detach has to wait and whether a disposal is told are the machine's answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from loopharness.bus import Bus
from loopharness.creation.errors import refusal
from loopharness.errors import error_chain
from loopharness.frozen import FrozenDict
from loopharness.interpreter import Interpreter
from loopspec import creation, registry
from loopspec.kernel.machine import Effect, Operation
from loopspec.profile import Law, law
from loopspec.registry import Kind
from loopspec.transaction import Creation

if TYPE_CHECKING:
    from loopharness.agent import Agent
    from loopharness.session import Session

__all__ = ["Engine", "Item"]

_log = logging.getLogger("loopharness")


class Item:
    """What a number of the machine stands for: an agent, a session, or both with their transaction."""

    __slots__ = ("__weakref__", "agent", "entered", "errors", "id", "key", "name", "number", "session")

    def __init__(self, number: int, id: int, name: str) -> None:
        self.number: Final = number
        self.id: Final = id
        self.name: Final = name
        self.session: Session | None = None
        self.agent: Agent | None = None
        self.key: object | None = None
        self.errors: dict[str, Exception] = {}
        """What was raised, by the event or await point that it came out of."""
        self.entered: set[str] = set()

    def error(self, *names: str) -> Exception | None:
        """The error that came out of one of these."""
        return next((self.errors[name] for name in names if name in self.errors), None)


class _Refused(Exception):
    def __init__(self, why: str) -> None:
        self.why: Final = why


class Engine:
    """One live creation machine on one bus."""

    def __init__(self, bus: Bus, its_law: Law | None = None) -> None:
        self.bus: Final = bus
        self.law: Final = its_law or law("seed")
        self.interpreter: Final = Interpreter(creation.MACHINE, creation.initial(self.law, callers=0), self)
        self.sessions: Final[dict[str, Session]] = {}
        self.agents: Final[dict[str, Agent]] = {}
        self.items: Final[dict[int, Item]] = {}
        self.waiting = 0
        """How many routines wait at an await point other than `live`."""
        self._numbers = count(1)
        self._ids: dict[str, list[int]] = {}
        self._id_numbers = count(1)
        self._left: list[Item] = []
        self._record: FrozenDict | None = None
        self._performers: dict[str, Callable[..., None]] = {
            "enter": self._enter,
            "detach": self._detach,
            "session/created": self._session_created,
            "agent/created": self._agent_created,
            "session/event": self._session_event,
            "agent/disposed": self._agent_disposed,
            "session/disposed": self._session_disposed,
        }
        self._parkers: dict[str, Callable[..., None]] = {}
        self.settled: Callable[[], None] = lambda: None
        """Called when a segment is over and somebody waits."""

    def perform(self, effects: Mapping[str, Callable[..., None]], points: Mapping[str, Callable[..., None]]) -> None:
        """Sign up for effects and for the work behind await points, by name."""
        self._performers.update(effects)
        self._parkers.update(points)

    # -- numbers

    @property
    def core(self) -> Creation:
        """The state, as the spec has it."""
        return self.interpreter.config.core

    def item(self, name: str, made: Callable[[int, int, str], Item] = Item) -> Item:
        """A new numbered item under an id."""
        known = self._ids.setdefault(name, [0, 0])
        if not known[1]:
            known[0] = next(self._id_numbers)
        known[1] += 1
        item = made(next(self._numbers), known[0], name)
        self.items[item.number] = item
        return item

    def drop(self, item: Item) -> None:
        """Forget an item that the machine does not mention any more."""
        if self.items.pop(item.number, None) is None:
            return
        known = self._ids[item.name]
        known[1] -= 1
        if not known[1]:
            del self._ids[item.name]

    # -- calling

    def call(self, *operation: Any) -> Any:
        """Call an operation of the machine. Raises `_Refused`; see `ask`."""
        outermost = not self.interpreter.config.stack
        try:
            return self.interpreter.call(operation)
        finally:
            if outermost:
                self.over()

    def ask(self, item: Item, kind: Kind, *operation: Any) -> Any:
        """Call an operation about an item, and raise its refusals as errors for people."""
        try:
            return self.call(*operation)
        except _Refused as refused:
            own = item.error("session/created", "agent/created") if refused.why in ("created", "vetoed") else None
            raise own or refusal(refused.why, item.name, kind) from None

    def over(self) -> None:
        """A segment is over: forget what has left, and let those go on who waited for it."""
        while self._left:
            self.drop(self._left.pop())
        if self.waiting:
            self.settled()

    # -- registries

    def enter(self, kind: Kind, item: Item) -> None:
        """Enter somebody's own object, in silence (C-REGA-3)."""
        self._offer(item, kind, ("enter", kind, item.number, item.id, 0, ("answer", None), ("raise", f"{kind}-exists")))

    def register(self, kind: Kind, item: Item) -> None:
        """Enter and announce somebody's own object (C-REGA-10)."""
        self._offer(item, kind, ("register", kind, item.number, item.id))

    def _offer(self, item: Item, kind: Kind, operation: Operation) -> None:
        try:
            self.ask(item, kind, *operation)
        except Exception:
            if not item.entered:
                self.drop(item)
            raise

    def announce(self, kind: Kind, item: Item) -> None:
        """The one announcement of an object that has entered (C-REGA-4, C-REGS-4)."""
        self.ask(item, kind, "announce_entered", kind, item.number)

    def withdraw(self, kind: Kind, item: Item) -> None:
        """Detach that very object; harmless when it has left (C-REGA-6)."""
        self.call("withdraw", kind, item.number)

    def item_of(self, session: Session) -> Item | None:
        """The item under which a session has entered."""
        number = registry.holder(self.core, "session", self._ids.get(session.id, [0])[0])
        item = self.items.get(number)
        return item if item is not None and item.session is session else None

    def objects(self, numbers: tuple[int, ...]) -> Iterator[Item]:
        """The items of some numbers."""
        return (self.items[number] for number in numbers)

    # -- appends

    def publish(self, session: Session, event: FrozenDict) -> None:
        """Decide about, check, commit and publish one record of an attached session (C-REGS-9, C-REGS-10).

        Raises the refusal of a record inside the publication of another, what the surface does not allow, and what the
        instrumentation raises: then nothing is committed.
        """
        item = self.item_of(session)
        assert item is not None, "a session publishes as long as it has entered (C-REGS-6)"
        self._record = event
        item.errors.pop("session/event", None)
        self.ask(item, "session", "append", item.number)
        veto = item.errors.pop("session/event", None)
        if veto is not None:
            raise veto

    def _session_event(self, number: int) -> None:
        item, event = self.items[number], self._record
        session = item.session
        assert session is not None
        assert event is not None
        self._record = None
        try:
            session.check(event)
            listeners = self.bus.select("emit", "session/event", (session, event), item.key)
            session.commit(event)
            self.bus.deliver(listeners, "session/event", (session, event))
        except Exception as error:
            item.errors["session/event"] = error
        finally:
            session.published()

    # -- performing effects (interpreter.Performer)

    def append(self, record: Effect) -> None:
        """The machine of creation writes no records itself."""
        raise AssertionError(record)

    def refused(self, record: Effect, error: Exception | None) -> None:
        """The same."""
        raise AssertionError(record)

    def notify(self, event: Effect) -> None:
        """Perform a dispatch; tell the machine of an error that comes out of one whose failure matters."""
        performer = self._performers.get(event[0])
        if performer is None:
            return
        try:
            performer(*event[1:])
        except Exception as error:
            name, number = event[0], event[1]
            self.items[number].errors[name] = error
            if creation.open_dispatch(self.interpreter.config.stack[-1].frame):
                self.call("escape", name, number)
            else:
                _log.warning("%s of agent %s threw: %s", name, self.items[number].name, error_chain(error))

    def note(self, change: Effect) -> None:
        """Perform a silent change."""
        performer = self._performers.get(change[0])
        if performer is not None:
            performer(*change[1:])

    def park(self, point: Effect) -> None:
        """Somebody will have to answer."""
        if point[0] != "live":
            self.waiting += 1
        parker = self._parkers.get(point[0])
        if parker is not None:
            parker(*point[1:])

    def begun(self, operation: Operation) -> Operation:
        """No operation of the creation machine waits."""
        return operation

    def left(self, end: Effect, heard: bool) -> None:
        """A call has ended; some ends are effects of their own."""
        performer = self._performers.get(end[0])
        if performer is not None:
            performer(*end[1:])

    def error(self, kind: str) -> Exception:
        """The refusal, for `ask` to translate."""
        return _Refused(kind)

    def _enter(self, kind: Kind, number: int, id: int) -> None:
        item = self.items[number]
        item.entered.add(kind)
        if kind == "session":
            assert item.session is not None
            self.sessions[item.name] = item.session
            item.session.attach(self)
        else:
            assert item.agent is not None
            self.agents[item.name] = item.agent

    def _detach(self, kind: Kind, number: int) -> None:
        item = self.items[number]
        item.entered.discard(kind)
        if kind == "session":
            assert item.session is not None
            del self.sessions[item.name]
            item.session.detach()
        else:
            del self.agents[item.name]
        if type(item) is Item and not item.entered:
            self._left.append(item)

    def _session_created(self, number: int) -> None:
        item = self.items[number]
        self.bus.announce("session/created", item.session, key=item.key)

    def _agent_created(self, number: int) -> None:
        item = self.items[number]
        self.bus.announce("agent/created", {"agent": item.agent}, key=item.key)

    def _agent_disposed(self, number: int) -> None:
        item = self.items[number]
        subject = f'agent "{item.name}": agent/disposed'
        self._told(subject, "agent/disposed", {"agent": item.agent}, item)

    def _session_disposed(self, number: int) -> None:
        item = self.items[number]
        self._told(f'session "{item.name}": session/disposed', "session/disposed", item.session, item)

    def _told(self, subject: str, name: str, payload: object, item: Item) -> None:
        try:
            self.bus.emit(name, payload, key=item.key, subject=subject)
        except Exception as error:  # instrumentation objects; the removal stands (C-REGS-7, C-TDN-13)
            _log.warning("%s dispatch threw: %s", subject, error_chain(error), exc_info=True)
            raise
