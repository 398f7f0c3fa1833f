"""Contexts, listeners, scopes and dispatch (C-SCP-*, C-DSP-*, RC-09).

A `Bus` is one process-wide set of listeners. Code never talks to it directly but through a `Context`, which
owns what is registered through it: dispose the context and all of it is taken back, newest first. A context
may carry a *scope key*; listeners registered there hear only the events of that key (C-SCP-3).

The dispatch modes:

| mode        | awaited | a listener throws                    | result                                        |
|-------------|---------|--------------------------------------|-----------------------------------------------|
| `emit`      | no      | logged; the others still run         | none                                          |
| `announce`  | no      | escapes; later listeners do not run  | none                                          |
| `bail`      | no      | escapes; later listeners do not run  | first answer that is not `None` or `False`    |
| `serial`    | in turn | escapes; later listeners do not run  | first answer that is not `None` or `False`    |
| `parallel`  | all     | raised after all have settled        | number of listeners                           |
| `waterfall` | nested  | escapes through the outer listeners  | the answer of the outermost listener          |
| `wrap`      | no      | escapes through the outer listeners  | the same for listeners that are not awaited   |

Every dispatch works on the listeners registered when it starts: one added meanwhile is not called, one removed
meanwhile still is (C-DSP-1).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from loopharness.errors import error_chain

__all__ = ["EVERYONE", "AgentEvents", "Bus", "Context", "Effect", "Listener"]

_log = logging.getLogger("loopharness")

Listener = Callable[..., Any]
Disposer = Callable[[], Any]
_Registrations = tuple["_Registration", ...]

INSTRUMENTATION: Final = "internal/dispatch"

EVERYONE: Final = object()
"""A dispatch key that reaches the listeners of every scope: for changes of a registry that all of them share."""


class _Registration:
    __slots__ = ("call", "everywhere", "key")

    def __init__(self, call: Listener, key: object, everywhere: bool) -> None:
        self.call = call
        self.key = key
        self.everywhere = everywhere


class Bus:
    """All listeners, and the parent relation between scope keys. Make one, then work with `bus.root`."""

    def __init__(self) -> None:
        self._listeners: dict[str, _Registrations] = {}
        self._tagged: dict[str, int] = {}
        self._parents: dict[object, tuple[object, object]] = {}
        self.root: Final = Context(self, None, None, "root")

    def link(self, key: object, parent: object, binder: object = None) -> None:
        """Make `parent` the parent scope of `key`: registrations inherit down, events go up (C-SCP-4).

        Set once; only the same non-`None` `binder` may change it later. Raises `ValueError` with
        `scope is already bound` or for a cycle.
        """
        bound = self._parents.get(key)
        if bound is not None and (binder is None or bound[1] is not binder):
            raise ValueError("scope is already bound to a parent; only the code that bound it may change that")
        above: object | None = parent
        while above is not None:
            if above is key:
                raise ValueError("scope cannot be its own ancestor")
            above = self._parents[above][0] if above in self._parents else None
        self._parents[key] = (parent, binder)

    def unlink(self, key: object) -> None:
        """Forget the parent of a scope that is gone."""
        self._parents.pop(key, None)

    def chain(self, key: object | None) -> tuple[object, ...]:
        """The scope and its ancestors, farthest first: the order in which layers are merged (T-110)."""
        if key is None:
            return ()
        if key not in self._parents:
            return (key,)
        found = [key]
        while key in self._parents:
            key = self._parents[key][0]
            found.append(key)
        return tuple(reversed(found))

    def has(self, name: str) -> bool:
        """True if a dispatch of `name` could reach a listener or instrumentation: callers may skip the payload."""
        return name in self._listeners or INSTRUMENTATION in self._listeners

    def _add(self, name: str, registration: _Registration, prepend: bool) -> Callable[[], None]:
        old = self._listeners.get(name, ())
        self._listeners[name] = (registration, *old) if prepend else (*old, registration)
        if registration.key is not None and not registration.everywhere:
            self._tagged[name] = self._tagged.get(name, 0) + 1

        def remove() -> None:
            now = self._listeners.get(name, ())
            left = tuple(r for r in now if r is not registration)
            if len(left) == len(now):
                return
            if left:
                self._listeners[name] = left
            else:
                del self._listeners[name]
            if registration.key is not None and not registration.everywhere:
                self._tagged[name] -= 1

        return remove

    def select(self, mode: str, name: str, args: tuple[Any, ...], key: object | None) -> _Registrations:
        """The listeners of one dispatch, in order, after the instrumentation has agreed (C-DSP-2, C-SCP-3).

        `internal/dispatch` listeners get `(mode, name, args, key)`; what they raise reaches the dispatcher and
        nothing is delivered.
        """
        if INSTRUMENTATION in self._listeners and not name.startswith("internal/"):
            for watcher in self._listeners[INSTRUMENTATION]:
                watcher.call(mode, name, args, key)
        listeners = self._listeners.get(name)
        if listeners is None:
            return ()
        if key is EVERYONE or not self._tagged.get(name):
            return listeners
        admitted = self.chain(key)
        return tuple(r for r in listeners if r.everywhere or r.key is None or any(r.key is tag for tag in admitted))

    def emit(self, name: str, *args: Any, key: object | None = None, subject: str | None = None) -> None:
        """Notify every listener; failures are logged and go nowhere else (C-DSP-4, L-ERR-11).

        `subject` replaces `agent event "<name>"` at the start of the warning.
        """
        if name in self._listeners or INSTRUMENTATION in self._listeners:
            self.deliver(self.select("emit", name, args, key), name, args, subject)

    def deliver(self, listeners: _Registrations, name: str, args: tuple[Any, ...], subject: str | None = None) -> None:
        """The second half of `emit`, for a dispatcher that does something between selection and delivery."""
        for registration in listeners:
            try:
                answer = registration.call(*args)
                if answer is not None and hasattr(answer, "__await__"):
                    _drop(answer)
                    raise TypeError("the listener is asynchronous, but nothing waits for this event")
            except Exception as error:
                about = subject or f'agent event "{name}"'
                _log.warning("%s listener threw: %s", about, error_chain(error), exc_info=True)

    def announce(self, name: str, *args: Any, key: object | None = None) -> None:
        """Notify listeners until one throws; that reaches the caller (C-DSP-5)."""
        for registration in self.select("announce", name, args, key):
            _drop(registration.call(*args))

    def bail(self, name: str, *args: Any, key: object | None = None) -> Any:
        """Ask in order of registration; the first answer that is neither `None` nor `False` (C-DSP-3)."""
        for registration in self.select("bail", name, args, key):
            answer = registration.call(*args)
            if answer is not None and answer is not False:
                return answer
        return None

    async def serial(self, name: str, *args: Any, key: object | None = None) -> Any:
        """Ask and await in order; the first answer that is neither `None` nor `False` stops (L-TURN-13)."""
        for registration in self.select("serial", name, args, key):
            answer = registration.call(*args)
            if answer is not None and hasattr(answer, "__await__"):
                answer = await answer
            if answer is not None and answer is not False:
                return answer
        return None

    async def parallel(self, name: str, *args: Any, key: object | None = None) -> int:
        """Start every listener, wait for all, then raise what failed, in listener order, as one group.

        Answers how many listeners took part (C-DSP-3, C-REGS-8).
        """
        listeners = self.select("parallel", name, args, key)
        failures: dict[int, Exception] = {}

        async def run(index: int, listener: Listener) -> None:
            try:
                answer = listener(*args)
                if answer is not None and hasattr(answer, "__await__"):
                    await answer
            except Exception as error:
                failures[index] = error

        async with anyio.create_task_group() as group:
            for index, registration in enumerate(listeners):
                group.start_soon(run, index, registration.call)
        if failures:
            raise ExceptionGroup(f'event "{name}" listeners failed', [failures[i] for i in sorted(failures)])
        return len(listeners)

    async def waterfall(self, name: str, *args: Any, base: Callable[[], Any], key: object | None = None) -> Any:
        """Nested middleware: the first registered listener is outermost, `base` is innermost (RC-09).

        A listener is called with `(*args, next)`; `await next()` runs the rest, not calling it short-circuits.
        A second `next()` goes on where the list stands; with nobody left it runs the base again (C-DSP-6).
        Listeners and the base may be synchronous.
        """
        listeners = self.select("waterfall", name, args, key)
        if not listeners:
            answer = base()
            return await answer if hasattr(answer, "__await__") else answer
        remaining = iter(listeners)

        async def proceed() -> Any:
            registration = next(remaining, None)
            answer = base() if registration is None else registration.call(*args, proceed)
            return await answer if hasattr(answer, "__await__") else answer

        return await proceed()

    def wrap(self, name: str, *args: Any, base: Callable[[], Any], key: object | None = None) -> Any:
        """A waterfall whose listeners answer at once, such as `llm/stream` (M-433)."""
        listeners = self.select("waterfall", name, args, key)
        if not listeners:
            return base()
        remaining = iter(listeners)

        def proceed() -> Any:
            registration = next(remaining, None)
            return base() if registration is None else registration.call(*args, proceed)

        return proceed()


def _drop(answer: Any) -> None:
    """Nobody awaits this answer: close a coroutine, so that it does not complain when it is collected."""
    close = getattr(answer, "close", None)
    if hasattr(answer, "__await__") and close is not None:
        close()


class Effect:
    """One thing to be taken back. Call it, or await `dispose()` to join a clean-up already in progress."""

    __slots__ = ("_context", "_disposer", "_finished", "label")

    def __init__(self, context: Context, disposer: Disposer, label: str) -> None:
        self._context = context
        self._disposer: Disposer | None = disposer
        self._finished: anyio.Event | None = None
        self.label: Final = label

    def __call__(self) -> None:
        """Take it back now. Only for synchronous disposers; harmless the second time."""
        disposer, self._disposer = self._disposer, None
        if disposer is None:
            return
        answer = disposer()
        if hasattr(answer, "__await__"):
            _drop(answer)
            self._disposer = disposer
            raise TypeError(f"the clean-up of {self.label!r} is asynchronous: await its dispose() instead")
        self._context._effects.pop(self, None)

    def retire(self) -> None:
        """Forget it without taking anything back: what it stood for has ended by itself (C-OWN-2)."""
        self._disposer = None
        self._context._effects.pop(self, None)

    async def dispose(self) -> None:
        """Take it back and wait until that is done; a second call waits for the first (C-DSP-8).

        The clean-up itself cannot be cancelled from outside. What it raises reaches the first caller.
        """
        if self._disposer is None:
            if self._finished is not None:
                await self._finished.wait()
            return
        finished = self._finished = anyio.Event()
        disposer, self._disposer = self._disposer, None
        try:
            with anyio.CancelScope(shield=True):
                answer = disposer()
                if hasattr(answer, "__await__"):
                    await answer
        finally:
            self._context._effects.pop(self, None)
            finished.set()


class Context:
    """A place to register things, and the owner of what was registered through it (C-SCP-1, C-TDN-7).

    `key` is the nearest scope tag: `None` for untagged contexts.
    """

    __slots__ = ("_closing", "_disposing", "_effects", "_own", "active", "agent", "bus", "key", "label")

    def __init__(self, bus: Bus, parent: Context | None, key: object | None, label: str) -> None:
        self.bus: Final = bus
        self.key: Final = key
        self.label: Final = label
        self.active = True
        self.agent: Any = None if parent is None else parent.agent
        """The agent whose scope this is (C-SET-2); inherited by the contexts made from it."""
        self._effects: dict[Effect, None] = {}
        self._closing: list[Callable[[], object]] = []
        self._disposing: anyio.Event | None = None
        self._own = parent.effect(self._unwind, f"context {label}") if parent is not None else None

    def child(self, label: str) -> Context:
        """A context that ends with this one, or earlier; same scope."""
        return Context(self.bus, self, self.key, label)

    def scope(self, key: object, label: str | None = None) -> Context:
        """A child context with a scope tag of its own; the key is any object, compared by identity."""
        return Context(self.bus, self, key, label or f"scope {key!r}")

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What would be taken back now, oldest first."""
        return tuple(self._effects)

    def on_closing(self, call: Callable[[], object]) -> None:
        """Call this when the context takes nothing new any more, before anything is taken back (C-ABT-4)."""
        self._closing.append(call)

    def close(self) -> None:
        """Take nothing new any more; `dispose` takes the rest back. Harmless the second time."""
        if self.active:
            self.active = False
            for call in self._closing:
                call()
            self._closing.clear()

    def effect(self, disposer: Disposer, label: str = "effect") -> Effect:
        """Register a clean-up, synchronous or not.

        Raises `RuntimeError`: `cannot create effect on inactive context` once disposal has begun (C-TDN-16).
        """
        if not self.active:
            raise RuntimeError("cannot create effect on inactive context")
        made = Effect(self, disposer, label)
        self._effects[made] = None
        return made

    def on(
        self, name: str, listener: Listener, *, prepend: bool = False, everywhere: bool = False
    ) -> Callable[[], None]:
        """Listen to `name`; the returned function stops that, harmless the second time.

        `prepend` puts the listener outside all existing ones. `everywhere` hears the event for every scope,
        whatever the tag of this context (C-SCP-3, there called `global`).
        """
        if not self.active:
            raise RuntimeError("cannot create effect on inactive context")
        return self.effect(
            self.bus._add(name, _Registration(listener, self.key, everywhere), prepend), f"listener {name}"
        )

    async def dispose(self) -> None:
        """Take everything back, newest first, one after another; failures are logged (C-TDN-7).

        Memoised: every caller waits for the one unwinding (C-SCP-2). Do not await it from inside one of its
        own clean-ups.
        """
        if self._own is not None:
            await self._own.dispose()
        if self._disposing is not None:
            await self._disposing.wait()
        elif self._own is None:
            with anyio.CancelScope(shield=True):
                await self._unwind()

    async def _unwind(self) -> None:
        self.close()
        self._disposing = anyio.Event()
        try:
            while self._effects:
                effect = next(reversed(self._effects))
                try:
                    await effect.dispose()
                except Exception as error:
                    text = error_chain(error)
                    _log.warning("%s: clean-up of %s threw: %s", self.label, effect.label, text, exc_info=True)
                self._effects.pop(effect, None)
        finally:
            self._disposing.set()

    # The dispatch modes, with the scope of this context as the default key.

    def emit(self, name: str, *args: Any) -> None:
        """`Bus.emit` for the scope of this context."""
        self.bus.emit(name, *args, key=self.key)

    async def serial(self, name: str, *args: Any) -> Any:
        """`Bus.serial` for the scope of this context."""
        return await self.bus.serial(name, *args, key=self.key)

    async def waterfall(self, name: str, *args: Any, base: Callable[[], Any]) -> Any:
        """`Bus.waterfall` for the scope of this context."""
        return await self.bus.waterfall(name, *args, base=base, key=self.key)


class AgentEvents:
    """Events of one agent: the payload always names it, and its scope decides who hears (C-SCP-5)."""

    __slots__ = ("_agent", "_bus", "_key")

    def __init__(self, bus: Bus, agent: object, key: object) -> None:
        self._bus = bus
        self._agent = agent
        self._key = key

    def emit(self, name: str, payload: Mapping[str, Any]) -> None:
        """A contained notification with one argument, `{...payload, agent}`."""
        if self._bus.has(name):
            self._bus.emit(name, {**payload, "agent": self._agent}, key=self._key)

    def serial(self, name: str, payload: Mapping[str, Any]) -> Awaitable[Any]:
        """An awaited serial dispatch with one argument, `{...payload, agent}`."""
        return self._bus.serial(name, {**payload, "agent": self._agent}, key=self._key)

    def waterfall(self, name: str, payload: Mapping[str, Any], base: Callable[[], Any]) -> Awaitable[Any]:
        """An awaited waterfall whose listeners get `({...payload, agent}, next)`."""
        return self._bus.waterfall(name, {**payload, "agent": self._agent}, base=base, key=self._key)
