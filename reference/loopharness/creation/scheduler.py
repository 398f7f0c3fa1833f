"""Who answers the await points of creation: one task, one answer per scheduler turn.

Which answers are possible is the machine's word (`creation.answers`). What happened outside (a setup that settled, a
scope that has unwound, a driver that rests) is looked up in the items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio
import anyio.lowlevel

from loopharness.creation.engine import Engine
from loopspec import creation
from loopspec.kernel.machine import Answer, Effect

if TYPE_CHECKING:
    from loopharness.creation.transactions import Transactions

__all__ = ["Scheduler"]


class Scheduler:
    """Answers what can be answered, for the lifetime of a harness."""

    def __init__(self, engine: Engine, transactions: Transactions) -> None:
        self._engine: Final = engine
        self._transactions: Final = transactions
        self._wanted: anyio.Event | None = None
        self._called = False

    def call(self) -> None:
        """Something may have become answerable."""
        self._called = True
        if self._wanted is not None:
            self._wanted.set()

    async def serve(self) -> None:
        """Run until cancelled."""
        while True:
            while self._called:
                await anyio.lowlevel.checkpoint()
                if not self._turn():
                    self._called = False
            self._wanted = anyio.Event()
            await self._wanted.wait()
            self._wanted = None

    def _turn(self) -> bool:
        """Give one answer, if any can be given; an unload that was asked for goes first (C-ABT-4, R-18)."""
        engine = self._engine
        if self._transactions.report_rest():
            return True
        chosen: tuple[Answer, int] | None = None
        for index, (point, _) in enumerate(engine.interpreter.config.parked):
            if chosen is not None and point[0] != "tick":
                continue
            answer = self._answer(point)
            if answer is not None and (chosen is None or point[0] == "tick"):
                chosen = answer, index
                if point[0] == "tick":
                    break
        if chosen is None:
            return False
        answer, index = chosen
        point = engine.interpreter.config.parked[index][0]
        if point[0] != "live":
            engine.waiting -= 1
        self._transactions.answered(point)
        engine.interpreter.resume(answer, index)
        engine.over()
        return True

    def _answer(self, point: Effect) -> Answer | None:
        """The answer to one await point, as far as it can be given now."""
        possible = creation.answers(self._engine.core, point)
        if not possible:
            return None
        happened = self._transactions.outcome(point)
        if happened in possible:
            return happened
        return ("deactivated",) if ("deactivated",) in possible else None
