"""Hooks that wait: plans, gates that hold, and who stands where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from loopconform.protocol.replies import Gate, Parked
from loopharness.signal import Signal


class Planned(Exception):
    """What a hook throws because it was told to."""


class _Standing:
    def __init__(self, gate: str, agent: str, key: str) -> None:
        self.place = (gate, agent, key)
        self.released = anyio.Event()
        self.outcome: Any = None
        self.go_on: Callable[[], None] = lambda: None
        self.aborted: object = None


class Gates:
    """All gates of one world. `say` tells the suite of an arrival."""

    def __init__(self, holds: dict[str, bool], say: Callable[[Any], None]) -> None:
        """`holds`: the gates that hold, each with whether it honours an abort."""
        self.holds = holds
        self._say = say
        self._plans: list[Any] = []
        self._standing: list[_Standing] = []

    def plan(self, plan: Any) -> None:
        """Remember the outcome of an arrival."""
        self._plans.append(plan)

    def planned(self, gate: str, agent: str, key: str = "") -> Any:
        """The outcome planned for an arrival, used up; `None` when there is none."""
        for at, plan in enumerate(self._plans):
            if plan.gate == gate and plan.agent == agent and plan.key in (None, key):
                return self._plans.pop(at).outcome
        return None

    async def stand(
        self,
        gate: str,
        agent: str,
        key: str = "",
        signal: Signal | None = None,
        messages: tuple[str, ...] | None = None,
    ) -> Any:
        """The outcome for a hook that arrives: planned, or by a release; `None` when it may pass as it likes.

        Raises `Planned` where the outcome is `throws`, and for a gate that honours an abort of `signal`.
        """
        outcome = self.planned(gate, agent, key)
        if outcome is None and gate in self.holds:
            outcome = await self._wait(gate, agent, key, signal if self.holds[gate] else None, messages)
        if outcome is not None and outcome.kind == "throws":
            raise Planned(outcome.message)
        return outcome

    async def _wait(
        self, gate: str, agent: str, key: str, signal: Signal | None, messages: tuple[str, ...] | None
    ) -> Any:
        standing = _Standing(gate, agent, key)
        self._standing.append(standing)
        self._say(Gate(type="gate", gate=gate, agent=agent, key=key, messages=messages))
        unhook = None

        def abort(reason: object) -> None:
            standing.aborted = reason or "aborted"
            self._leave(standing)

        if signal is not None:
            if signal.aborted:
                abort(signal.reason)
            unhook = signal.on_abort(abort)
        try:
            await standing.released.wait()
        finally:
            self._leave(standing)
            if unhook is not None:
                unhook()
        if standing.aborted is not None:
            raise Planned("aborted")
        standing.go_on()
        return standing.outcome

    def _leave(self, standing: _Standing) -> None:
        if standing in self._standing:
            self._standing.remove(standing)
        standing.released.set()

    def release(self, gate: str, agent: str, key: str, outcome: Any, go_on: Callable[[], None]) -> bool:
        """Let the first hook at a gate go on; false when nobody stands there."""
        for standing in self._standing:
            if standing.place == (gate, agent, key):
                standing.outcome, standing.go_on = outcome, go_on
                self._leave(standing)
                return True
        return False

    def abandon(self) -> None:
        """Let everybody go, now and later: the world is thrown away, and clean-up work cannot be cancelled."""
        self.holds = {}
        self._plans = []
        for standing in list(self._standing):
            self._leave(standing)

    def parked(self) -> tuple[Parked, ...]:
        """Who stands where."""
        return tuple(
            Parked(gate=gate, agent=agent, key=key)
            for gate, agent, key in (standing.place for standing in self._standing)
        )
