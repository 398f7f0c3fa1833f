"""The initiating agent, carried along asynchronous causality (C-INI-*).

It tells who caused something. It says nothing about whether that agent still lives, and gives no rights (C-INI-9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from loopharness.creation.engine import Engine
from loopharness.creation.errors import CreationError, refusal
from loopspec.creation import refuses_boundary
from loopspec.transaction import AGENTS

if TYPE_CHECKING:
    from loopharness.agent import Agent

__all__ = ["Initiators"]

_current: ContextVar[Agent | None] = ContextVar("loopharness_initiator", default=None)
_chain: ContextVar[tuple[object, ...]] = ContextVar("loopharness_boundaries", default=())


class Initiators:
    """The initiator scope of one harness, and the boundaries that are open in it."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._open: set[object] = set()
        self._exempt: frozenset[object] = frozenset()

    def current(self) -> Agent | None:
        """The initiating agent, `None` outside any boundary (C-INI-1, C-INI-4).

        Raises `agent initiator scope is disposed` once the service is gone (C-INI-7).
        """
        if self._engine.core.fibers[AGENTS] == "gone":
            raise refusal("initiator-closed", "")
        return _current.get()

    def require(self) -> Agent:
        """The initiating agent; raises `no initiating agent is active` when there is none."""
        agent = self.current()
        if agent is None:
            raise CreationError("no initiating agent is active", "NO_INITIATOR")
        return agent

    def run(self, agent: Agent | None, operation: Callable[[], Any]) -> Any:
        """Run an operation inside a boundary for `agent`; with `None` the inherited one is hidden (C-INI-2, C-INI-3).

        What it answers is answered. An awaitable is wrapped: its boundary stays open until it has been awaited to its
        end, and the unload of the service waits for that (C-INI-8).
        Raises `agent initiator scope is disposed` when the service is closing (C-INI-7).
        """
        if refuses_boundary(self._engine.core):
            raise refusal("initiator-closed", "")
        boundary = object()
        with self._inside(agent, boundary):
            answer = operation()
        if not hasattr(answer, "__await__"):
            return answer
        self._open.add(boundary)
        return self._awaited(agent, boundary, answer)

    async def _awaited(self, agent: Agent | None, boundary: object, answer: Any) -> Any:
        try:
            with self._inside(agent, boundary):
                return await answer
        finally:
            self._open.discard(boundary)
            self._engine.over()

    @contextmanager
    def _inside(self, agent: Agent | None, boundary: object) -> Iterator[None]:
        before, chain = _current.set(agent), _chain.set((*_chain.get(), boundary))
        try:
            yield
        finally:
            _chain.reset(chain)
            _current.reset(before)

    @contextmanager
    def driving(self, agent: Agent) -> Iterator[None]:
        """A boundary for a driver, whose runs the machine counts itself (C-INI-5)."""
        before = _current.set(agent)
        try:
            yield
        finally:
            _current.reset(before)

    def close(self) -> None:
        """The unload of the service has been asked for: the chain that asked is not waited for (C-INI-8, R-73)."""
        self._exempt = frozenset(_chain.get())

    @property
    def drained(self) -> bool:
        """No boundary is open but those that wait for this very unload."""
        return not (self._open - self._exempt)
