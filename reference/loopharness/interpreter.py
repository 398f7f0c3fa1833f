"""Runs a spec machine live: takes each effect, has it performed, and asks for the next one.

The interpreter decides nothing and knows no machine by name. Listeners run while an effect is performed; what
they call comes in through `call` again, as a nested activation of the same configuration.
"""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from loopspec.kernel.machine import Answer, Config, Effect, Machine, Operation

__all__ = ["Interpreter", "Performer"]

S = TypeVar("S")

PARKED: Effect = ("parked",)


class Performer(Protocol):
    """Who performs the effects of one machine."""

    def append(self, record: Effect) -> None:
        """Write a durable record and run its observers. Whatever this raises refuses the append."""

    def notify(self, event: Effect) -> None:
        """Publish a live event to every listener. Must not raise."""

    def note(self, change: Effect) -> None:
        """Take notice of a silent change. Must not raise."""

    def park(self, point: Effect) -> None:
        """An await point was reached: have somebody answer it with `Interpreter.resume`, later."""

    def refused(self, record: Effect, error: Exception | None) -> None:
        """An append was refused with `error`, or, when it is None, because the log was locked (L-LOG-3)."""

    def begun(self, operation: Operation) -> Operation:
        """An operation that had waited begins; the answer begins in its place, for what has changed meanwhile."""

    def left(self, end: Effect, heard: bool) -> None:
        """A synchronous call ended. `heard` is false for an operation that had waited: its caller has gone."""

    def error(self, kind: str) -> Exception:
        """The exception for an operation that ended with `("raise", kind)`."""


class Interpreter(Generic[S]):
    """One live machine. `config` is its configuration now, an immutable value that anyone may read and keep."""

    __slots__ = ("config", "machine", "performer")

    def __init__(self, machine: Machine[S], config: Config[S], performer: Performer) -> None:
        self.machine = machine
        self.config = config
        self.performer = performer

    def start(self) -> None:
        """Run a machine whose first configuration has something on its stack."""
        self._run(len(self.config.stack))

    def call(self, operation: Operation, log_is_busy: bool = False) -> Any:
        """Call an operation and run it to its end or its first await point; answer what it returned.

        `log_is_busy` tells that another record of the same log is being published. An operation that has to wait
        for the log answers `None` and begins when the log is free. Raises what the performer makes of
        `("raise", kind)`.
        """
        before = self.config
        after = self.config = self.machine.call(before, operation, log_is_busy)
        depth = len(after.stack)
        if depth == len(before.stack):
            return None
        end = self._run(depth, log_is_busy=log_is_busy)
        if end[0] == "raise":
            raise self.performer.error(end[1])
        return end[1] if end[0] == "return" else None

    def resume(self, answer: Answer, index: int = 0) -> None:
        """Answer an await point, and run until the routine waits again or ends."""
        self.config = self.machine.resume(self.config, answer, index)
        self._run(1)

    def begin_waiting(self) -> None:
        """The log is free again: begin and finish what has waited for it, unless a running segment will."""
        if self.config.waiting and not self.config.stack:
            self._run(1, running=False)

    def _run(self, depth: int, running: bool = True, log_is_busy: bool = False) -> Effect:
        """Perform effects until the activation at height `depth` has ended; the outermost one also begins and
        finishes every operation that has waited, unless the log is busy: then whoever publishes there does."""
        performer, step = self.performer, self.machine.step
        end = PARKED
        outermost = depth == 1 and not log_is_busy
        while running or (outermost and (self.config.stack or self.config.waiting)):
            before = self.config
            verb, effect, self.config = step(before)
            if verb == "append":
                self._append(before, effect)
            elif verb == "notify":
                performer.notify(effect)
            elif verb == "note":
                performer.note(effect)
            elif verb == "refuse":
                performer.refused(effect, None)
            elif verb == "begin":
                top = self.config.stack[-1]._replace(frame=performer.begun(effect))
                self.config = self.config._replace(stack=(*self.config.stack[:-1], top))
            elif verb == "park" or verb == "leave":
                ours = running and len(self.config.stack) < depth
                if verb == "park":
                    performer.park(effect)
                else:
                    performer.left(effect, ours)
                if ours:
                    running = False
                    end = effect if verb == "leave" else PARKED
        return end

    def _append(self, before: Config[S], record: Effect) -> None:
        after = self.config
        try:
            self.performer.append(record)
        except Exception as error:
            refusal = self.machine.refuse(before).config
            untouched = self.config is after
            self.config = refusal if untouched else self.machine.withdraw(self.config, refusal.stack[-1].frame)
            self.performer.refused(record, error)
