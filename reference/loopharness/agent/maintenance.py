"""Maintenance jobs: the tickets their callers hold, and the running of the job itself (L-MNT-*)."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

import anyio

from loopharness.signal import Signal

if TYPE_CHECKING:
    from loopharness.agent.agent import Agent

__all__ = ["Job", "Maintenance", "Ticket"]

Job = Callable[[Signal], Any]
"""Called with the activity's signal; answers a value or an awaitable of one."""


class Ticket:
    """What `run_maintenance` answers: await it for the job's value, or for what the job raised."""

    __slots__ = ("_done", "_error", "_value", "job")

    def __init__(self, job: Job) -> None:
        self.job = job
        self._done = anyio.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._wait().__await__()

    async def _wait(self) -> Any:
        await self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def settle(self, value: Any = None, error: BaseException | None = None) -> None:
        """The job is over."""
        self._value, self._error = value, error
        self._done.set()


class Maintenance:
    """The jobs of one agent. At most one runs; others wait for the log to be free, in order of their calls."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._tickets: deque[Ticket] = deque()
        self._running: Ticket | None = None
        self._awaitable: Awaitable[Any] | None = None

    def ticket(self, job: Job) -> Ticket:
        """A ticket for a job that is about to be asked for."""
        made = Ticket(job)
        self._tickets.append(made)
        return made

    def withdraw(self, ticket: Ticket) -> None:
        """The call was refused, or what it started has raised at once."""
        if ticket in self._tickets:
            self._tickets.remove(ticket)

    def refuse(self, error: Exception) -> None:
        """The operation of the oldest waiting ticket failed, if there is one (a busy agent)."""
        if self._tickets and "already has active work" in str(error):
            self._tickets.popleft().settle(error=error)

    def begin(self, signal: Signal) -> None:
        """The synchronous part of the job (L-MNT-2); what it raises becomes the ticket's error (LR-197)."""
        ticket = self._running = self._tickets.popleft()
        self._awaitable = None
        try:
            answer = ticket.job(signal)
            if hasattr(answer, "__await__"):
                self._awaitable = answer
            else:
                ticket._value = answer
        except Exception as error:
            ticket._error = error

    async def run(self) -> None:
        """The rest of the job, in the agent's own task group; then the agent goes on before the caller does."""
        ticket, awaitable = self._running, self._awaitable
        assert ticket is not None
        if awaitable is not None:
            try:
                ticket._value = await awaitable
            except Exception as error:
                ticket._error = error
        self._agent.resume(("done",))
        ticket.settle(ticket._value, ticket._error)
