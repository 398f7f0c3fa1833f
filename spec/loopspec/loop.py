"""The loop of one agent: the driver and, while a step runs its tools, the scheduler beside it.

Neither machine knows the other. They meet in four places, and only here is said how:

1. the driver waits at `tools`: a batch **begins**, under the signal as it is by then (CW13);
2. the batch **ends**: its last effect is the answer to that await point;
3. the signal is **aborted**: whoever owns it tells the batch within the same effect (L-TOOL-14);
4. both write to **one log**: while a record of the batch is published, the log is locked for the driver too, and
   what has to wait for it begins when the observers of that record are done (L-LOG-3, L-CAN-6).

So the two run in turns, innermost first: a call of the driver that listeners of the batch have made runs to its end
or its first await point before the batch goes on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec import driver, scheduler
from loopspec.attempt import aborted
from loopspec.driver import Driver
from loopspec.kernel.machine import Activation, Answer, Config, Illegal, Machine, Move, Operation, may_call
from loopspec.scheduler import Batch

TOOLS = ("tools",)
"""The await point of the driver at which a batch runs."""


class Loop(NamedTuple):
    """The driver, and the batch of the open step, if one runs."""

    driver: Config[Driver]
    batch: Config[Batch] | None = None


class Composition:
    """The two machines as one. A test may give changed ones."""

    def __init__(self, drives: Machine[Driver] = driver.MACHINE, schedules: Machine[Batch] = scheduler.MACHINE) -> None:
        self.drives = drives
        self.schedules = schedules

    # -- guards

    def batch_is_due(self, loop: Loop) -> bool:
        """L-TOOL-1  The driver waits at `tools`, and no batch has begun for it."""
        return loop.batch is None and not runs(loop) and tools_at(loop.driver) is not None

    def may_call(self, loop: Loop) -> bool:
        """A listener runs, or nobody does: an operation of the driver may be called."""
        if loop.driver.stack or not batch_runs(loop):
            return may_call(loop.driver)
        assert loop.batch is not None
        return loop.batch.stack[-1].window != "closed"

    # -- moves

    def begin(self, loop: Loop, calls: int) -> Loop:
        """L-TOOL-1, CW13  The batch of an answer with so many calls begins. Raises `Illegal` when none is due."""
        if not self.batch_is_due(loop):
            raise Illegal("a batch begins only when the driver waits for its tools")
        core = loop.driver.core
        return loop._replace(batch=scheduler.initial(core.law, calls, aborted(core)))

    def call(self, loop: Loop, operation: Operation, is_publishing: bool = False) -> Loop:
        """Call an operation of the driver, from outside or from a listener of either. `is_publishing`: from an observer
        of a record that is of neither."""
        return loop._replace(driver=self.drives.call(loop.driver, operation, is_publishing or log_is_busy(loop)))

    def answer(self, loop: Loop, answer: Answer, index: int = 0) -> Loop:
        """Answer an await point of the driver. Raises `Illegal` for `tools`, which its batch answers."""
        if loop.driver.parked[index][0] == TOOLS:
            raise Illegal("the await point `tools` is answered by the batch")
        return loop._replace(driver=self.drives.resume(loop.driver, answer, index))

    def step(self, loop: Loop) -> tuple[Move[Any], Loop]:
        """The next effect of whoever runs. Raises `Illegal` when nobody does."""
        if loop.driver.stack or loop.driver.waiting:
            return self._step_driver(loop)
        if loop.batch is None:
            raise Illegal("nothing to step: no synchronous segment is running")
        move = self.schedules.step(loop.batch)
        return move, self.after_batch(loop, move)

    def refuse(self, loop: Loop) -> tuple[Move[Any], Loop]:
        """Instead of `step`, when its append was refused from outside."""
        if loop.driver.stack or loop.driver.waiting:
            move = self.drives.refuse(loop.driver)
            return move, loop._replace(driver=move.config)
        if loop.batch is None:
            raise Illegal("no append to refuse")
        refusal = self.schedules.refuse(loop.batch)
        return refusal, loop._replace(batch=refusal.config)

    def after_batch(self, loop: Loop, move: Move[Batch]) -> Loop:
        """Take over a move of the batch; its end answers the driver (L-TOOL-12, L-TOOL-21)."""
        if move.verb != "leave" or not scheduler.is_over(move.effect):
            return loop._replace(batch=move.config)
        index = tools_at(loop.driver)
        assert index is not None, "a batch runs only while the driver waits for it"
        return Loop(self.drives.resume(loop.driver, move.effect[:1], index))

    def _step_driver(self, loop: Loop) -> tuple[Move[Any], Loop]:
        move = self.drives.step(loop.driver)
        batch = loop.batch
        if batch is not None and move.verb == "begin" and not loop.driver.stack:
            batch = _unheard(batch)  # it had waited for a record of the batch, and not for one of the driver's own
        if batch is not None and move.verb == "notify" and move.effect[0] == "abort":
            batch = self._told(batch)
        return move, Loop(move.config, batch)

    def _told(self, batch: Config[Batch]) -> Config[Batch]:
        """L-TOOL-14  The batch hears of the abort at once, whatever it is at."""
        told = batch._replace(stack=(*batch.stack, Activation(("abort",), "closed", False)))
        return self.schedules.step(told).config


MACHINE = Composition()


def initial(rules: Any) -> Loop:
    """An idle agent under a law, with nothing pending."""
    return Loop(driver.initial(rules))


def tools_at(config: Config[Driver]) -> int | None:
    """Which parked routine of the driver waits for tools, if one does."""
    for index, (point, _) in enumerate(config.parked):
        if point == TOOLS:
            return index
    return None


def batch_runs(loop: Loop) -> bool:
    """True while a synchronous segment of the batch is under way."""
    return loop.batch is not None and bool(loop.batch.stack)


def runs(loop: Loop) -> bool:
    """True while any synchronous segment is under way, or about to begin."""
    return bool(loop.driver.stack or loop.driver.waiting) or batch_runs(loop)


def log_is_busy(loop: Loop) -> bool:
    """L-LOG-3  Observers of a record of the batch run: the log is locked for the driver too."""
    if loop.batch is None or not loop.batch.stack:
        return False
    top = loop.batch.stack[-1]
    return top.locked or top.window == "log"


def _unheard(batch: Config[Batch]) -> Config[Batch]:
    """The listeners of the batch's last effect are done: its window is over."""
    if not batch.stack:
        return batch
    return batch._replace(stack=(*batch.stack[:-1], batch.stack[-1]._replace(window="closed")))
