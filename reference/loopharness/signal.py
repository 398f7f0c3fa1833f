"""Cooperative cancellation (RC-08, L-CAN-3, L-CAN-7).

Nothing is ever raced or abandoned: whoever works under a signal looks at it, and whoever does not is waited
for. This has nothing to do with the cancellation of tasks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import anyio

__all__ = ["AbortController", "Aborted", "Signal", "fuse"]

_log = logging.getLogger("loopharness")

Listener = Callable[[object], object]


class Aborted(Exception):
    """Raised by `Signal.check`. `reason` is the very object that was given to `abort`."""

    def __init__(self, reason: object) -> None:
        super().__init__("aborted")
        self.reason: Final = reason


class Signal:
    """The read side: one per turn, shared by everything that runs for it (L-CAN-8)."""

    __slots__ = ("__weakref__", "_aborted", "_listeners", "_reason")

    def __init__(self) -> None:
        self._aborted = False
        self._reason: object = None
        self._listeners: dict[object, Listener] | None = None

    @property
    def aborted(self) -> bool:
        """True from the first `abort` on."""
        return self._aborted

    @property
    def reason(self) -> object:
        """The first reason, by identity; `None` while live."""
        return self._reason

    def check(self) -> None:
        """Raise `Aborted` with the reason if the signal is aborted."""
        if self._aborted:
            raise Aborted(self._reason)

    def on_abort(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(reason)` synchronously inside `abort`, in order of registration.

        A listener added after the abort is not called. The returned function takes it off again, also while
        an abort is being announced; calling it twice is harmless.
        """
        if self._aborted:
            return _nothing
        if self._listeners is None:
            self._listeners = {}
        listeners, key = self._listeners, object()
        listeners[key] = listener

        def remove() -> None:
            listeners.pop(key, None)

        return remove

    async def wait(self) -> object:
        """Return the reason once the signal is aborted; at once if it is already."""
        if not self._aborted:
            event = anyio.Event()
            remove = self.on_abort(lambda _reason: event.set())
            try:
                await event.wait()
            finally:
                remove()
        return self._reason


class AbortController:
    """The write side: whoever holds it can cancel."""

    __slots__ = ("signal",)

    def __init__(self) -> None:
        self.signal: Final = Signal()

    def abort(self, reason: object) -> bool:
        """Abort with `reason` and run the listeners; False and nothing else if it was aborted before.

        A listener that fails is logged; the others still run.
        """
        signal = self.signal
        if signal._aborted:
            return False
        signal._aborted = True
        signal._reason = reason
        listeners, signal._listeners = signal._listeners, None
        if listeners:
            for key in list(listeners):
                listener = listeners.pop(key, None)
                if listener is None:
                    continue
                try:
                    listener(reason)
                except Exception:
                    _log.warning("abort listener threw", exc_info=True)
        return True


def fuse(*signals: Signal) -> tuple[Signal, Callable[[], None]]:
    """A signal that follows several others, with the reason of the first to abort, and its release (T-304).

    Call the release when the work is over, so that a long-lived signal does not collect dead listeners.
    """
    distinct = list(dict.fromkeys(signals))
    if len(distinct) == 1:
        return distinct[0], _nothing
    controller = AbortController()
    removers: list[Callable[[], None]] = []
    for signal in distinct:
        if signal.aborted:
            controller.abort(signal.reason)
            break
        removers.append(signal.on_abort(controller.abort))

    def release() -> None:
        for remove in removers:
            remove()

    return controller.signal, release


def _nothing() -> None:
    return None
