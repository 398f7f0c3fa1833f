"""The loop within bounds: the driver's surroundings and the scheduler's, around both at once.

A node is `Node(LoopConfig, left, memory)`. What a sender, a listener or a service may do to the driver is
`driver_world`'s, what tools and policies may do to a batch is `scheduler_world`'s; here they are only put side by
side. The batch has no freedom of its own to abort: a cancel does it.

Labels are those of the two worlds, and two more: `("batch", calls)` begins a batch, and its last `leave` is also the
answer that the driver waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from loopspec import loop
from loopspec.driver import Driver
from loopspec.kernel.machine import Config, unbegun
from loopspec.kernel.system import Label
from loopspec.loop import Composition, Loop
from loopspec.profile import Law
from loopspec.properties import loop as properties
from loopspec.properties.claims import Claims, claims_for
from loopspec.worlds.driver_world import DriverEnvironment, bound
from loopspec.worlds.scheduler_world import Freedom, Scene, Scheduling
from loopspec.worlds.world import Advance, Bound, Left, Price, World, forgetful


class Around(NamedTuple):
    """The loop, and what the tools' surroundings remember of a batch (see `scheduler_world.Scene`)."""

    loop: Loop
    scene: Scene | None = None

    @property
    def core(self) -> Driver:
        """The driver's core state."""
        return self.loop.driver.core


class LoopNode(NamedTuple):
    """One state of an exploration."""

    config: Around
    left: Left
    memory: Any


TOOLS = Freedom(
    calls=2,
    caps=(1, 2),
    prepare=("dispatch",),
    body=("success",),
    finalise=(("accept", False, False), ("accept", True, False)),
)
"""Two calls in a pool of one or two; one of them may conclude the turn."""


class LoopWorld:
    """The composition under one law, as a `loopspec.kernel.system.System`."""

    def __init__(
        self,
        law: Law,
        limits: Bound,
        freedom: Freedom = TOOLS,
        machine: Composition = loop.MACHINE,
        memory: Any = (),
        advance: Advance = forgetful,
    ) -> None:
        self.law = law
        self.bound = limits
        self.freedom = freedom
        self.machine = machine
        self.memory = memory
        self.advance = advance
        self.environment = DriverEnvironment()
        # The driver's world pays and counts; it never moves anything here.
        self.purse: World[Driver] = World(machine.drives, loop.initial(law).driver, self.environment, limits)
        self._sent = [name for name, _ in limits.budgets].index("messages")
        self._refusals = [name for name, _ in limits.budgets].index("refusals")

    def initial(self) -> Iterator[LoopNode]:
        """An idle agent with full budgets."""
        yield LoopNode(Around(loop.initial(self.law)), tuple(amount for _, amount in self.bound.budgets), self.memory)

    def moves(self, node: LoopNode) -> Iterator[tuple[Label, LoopNode]]:
        """Calls of the driver where a listener or nobody runs; then the next effect, or what answers an await point."""
        around, left, memory = node
        for label, after, price in self._offers(around, left):
            paid = self.purse.paid(left, price)
            if paid is not None:
                yield label, LoopNode(after, paid, self.advance(memory, label))

    def _offers(self, around: Around, left: Left) -> Iterator[tuple[Label, Around, Price]]:
        yield from self._calls(around, left)
        now = around.loop
        if now.driver.stack or now.driver.waiting:
            yield from self._steps(around)
        elif loop.batch_runs(now):
            yield from self._batch(around)
        else:
            yield from self._answers(around)
            if now.batch is not None:
                yield from self._batch(around)

    def _calls(self, around: Around, left: Left) -> Iterator[tuple[Label, Around, Price]]:
        now = around.loop
        if depth_of(now) > self.bound.depth or not self.machine.may_call(now):
            return
        sent = self.bound.budgets[self._sent][1] - left[self._sent]
        for operation, price in self.environment.operations(now.driver.core, sent + 1):
            after = self.machine.call(now, operation)
            verb = "call" if after.driver.waiting is now.driver.waiting else "wait"
            yield (verb, *operation), around._replace(loop=after), price

    def _steps(self, around: Around) -> Iterator[tuple[Label, Around, Price]]:
        """The next effect of the driver, or the refusal of its record."""
        move, after = self.machine.step(around.loop)
        toll = self.environment.toll(move.verb, move.effect)
        yield (move.verb, *move.effect), self._with(around, after), toll
        if move.verb == "append":
            refusal, after = self.machine.refuse(around.loop)
            yield (refusal.verb, *refusal.effect), self._with(around, after), "refusals"

    def _answers(self, around: Around) -> Iterator[tuple[Label, Around, Price]]:
        """Answers to the driver; a batch begins where it waits for its tools."""
        now = around.loop
        if self.machine.batch_is_due(now):
            for calls in range(1, self.freedom.calls + 1):
                yield ("batch", calls), self._with(around, self.machine.begin(now, calls)), ""
            return
        for index, (point, _) in enumerate(now.driver.parked):
            if point != loop.TOOLS:
                for answer, price in self.environment.answers(now.driver.core, point):
                    after = self.machine.answer(now, answer, index)
                    yield ("answer", point, answer), around._replace(loop=after), price

    def _batch(self, around: Around) -> Iterator[tuple[Label, Around, Price]]:
        """What may happen to the batch, as its own world says; its faults are paid like the driver's."""
        assert around.scene is not None
        assert around.loop.batch is not None
        schedules = self.machine.schedules
        surroundings = Scheduling(self.law, self.freedom, schedules)
        scene = around.scene._replace(config=around.loop.batch)
        for label, after in surroundings.moves(scene):
            if label == ("abort",):
                continue
            price = "refusals" if label[0] == "refuse" else "faults" if is_fault(label) else ""
            now = around.loop._replace(batch=after.config)
            if label[0] == "leave":  # of the batch itself, or of its last effect, which answers the driver
                now = self.machine.step(around.loop)[1]
            yield label, Around(now, _remembered(after) if now.batch is not None else None), price

    def _with(self, around: Around, after: Loop) -> Around:
        """Keep the scene while the batch goes on; begin one with the batch."""
        if after.batch is None:
            return Around(after)
        scene = around.scene if around.scene is not None else Scene(EMPTY)
        return Around(after, scene)

    # -- what a run may end with

    def is_cut(self, node: LoopNode) -> bool:
        """True when the next effect cannot be paid for: the run goes on beyond the bound."""
        now = node.config.loop
        if not (now.driver.stack or now.driver.waiting):
            return False
        move, _ = self.machine.step(now)
        return self.purse.paid(node.left, self.environment.toll(move.verb, move.effect)) is None

    def is_final(self, node: LoopNode) -> bool:
        """True where a run may stop: at rest, or cut by the bound."""
        now = node.config.loop
        rests = not loop.runs(now) and not now.driver.parked and now.batch is None
        return rests or self.is_cut(node)


EMPTY: Config[Any] = Config(())
"""Stands for the batch in a remembered scene: the batch itself is kept once, in the loop."""


def _remembered(scene: Scene) -> Scene:
    return scene._replace(config=EMPTY)


def is_fault(label: Label) -> bool:
    """A failure of the tools' machinery."""
    return bool(label[0] == "lose" or label[-1] in ("throws", "rejects"))


def depth_of(now: Loop) -> int:
    """How many calls are in progress or have to wait: those of the driver, and the batch's segment."""
    return len(now.driver.stack) + len(unbegun(now.driver)) + loop.batch_runs(now)


QUICK = bound("quick", messages=1, cancel_user=1, turns=1, calls=1)
"""One message, one answer with tools, one cancel anywhere."""

FAULTS = bound("faults", messages=1, turns=1, calls=1, faults=1, refusals=1)
"""No cancel, but one unusual answer or failure, and one refused record."""

STEER = bound("steer", depth=1, messages=2, cancel_user=1, turns=2, calls=1)
"""A second message, and so a second turn."""

BOUNDS = {one.name: one for one in (QUICK, FAULTS, STEER)}


def world(law: Law, limits: Bound = QUICK, machine: Composition = loop.MACHINE) -> LoopWorld:
    """The loop under a law, within limits, watched by a bystander."""
    return LoopWorld(law, limits, machine=machine, memory=properties.START, advance=properties.watch)


def claims(law: Law, limits: Bound = QUICK) -> Claims:
    """Everything that is checked of it."""
    return claims_for(law, properties.PROMISES, properties.WITNESSES, dict(limits.budgets))
