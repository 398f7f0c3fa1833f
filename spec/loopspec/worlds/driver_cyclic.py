"""The driver without budgets: runs of any length in a finite graph, for claims about what must happen at last.

Turn and step numbers are folded away, and live messages are renamed by first appearance; only what is pending is
capped. Messages are numbered from 101, so that a number above 100 in a frame is a message and any other is not.

Liveness is judged for an environment that has gone *silent*: from any reachable state on nobody calls any more, and
every await point gets a usual answer at last. (Without that, users who send for ever keep an agent running for ever.)
So `silent` keeps every reachable state as a first state, and only the moves that are no calls.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

from loopspec import driver
from loopspec.driver import Driver
from loopspec.inbox import has_pending
from loopspec.kernel.graph import Graph
from loopspec.kernel.liveness import Fairness, LeadsTo
from loopspec.kernel.machine import Config, Operation
from loopspec.profile import Law
from loopspec.worlds.driver_world import CAUSES, SENDS, DriverEnvironment
from loopspec.worlds.world import Bound, Node, Price, World

FIRST = 101


class CyclicEnvironment(DriverEnvironment):
    """Senders that stop at a number of pending messages, and cancels and jobs without end. No faults."""

    def __init__(self, pending: int = 3, causes: tuple[str, ...] = CAUSES) -> None:
        super().__init__(SENDS[:3], causes)
        self.pending = pending

    def operations(self, core: Driver, next_message: int) -> Iterator[tuple[Operation, Price]]:
        """The presets of send below the cap, every cancel, and jobs. All free."""
        live = len(core.next_step) + len(core.next_turn)
        if live < self.pending:
            for target, wakeup in self.sends:
                yield ("send", 0, target, wakeup), ""
        for operation, _ in self.cancels:
            yield operation, ""
        if core.phase == "idle":
            yield ("maintain",), ""


def ids_in(part: Any, names: dict[int, int]) -> None:
    """Give every message in a value its new number, in order of first appearance."""
    for item in part:
        if type(item) is int:
            if item >= FIRST and item not in names:
                names[item] = FIRST + len(names)
        elif isinstance(item, tuple):
            ids_in(item, names)


def renamed(part: Any, names: dict[int, int]) -> Any:
    """The value with its messages renamed."""
    if type(part) is int:
        return names.get(part, part)
    if isinstance(part, tuple):
        items = [renamed(item, names) for item in part]
        return type(part)(*items) if hasattr(part, "_fields") else tuple(items)
    return part


def folded(config: Config[Driver]) -> Config[Driver]:
    """The configuration without turn and step numbers, its live messages numbered by first appearance."""
    core, stack, parked, waiting = config
    names: dict[int, int] = {}
    ids_in((core.next_step, core.next_turn, stack, parked, waiting), names)
    if any(old != new for old, new in names.items()):
        stack, parked, waiting = renamed(stack, names), renamed(parked, names), renamed(waiting, names)
        next_step, next_turn = renamed(core.next_step, names), renamed(core.next_turn, names)
    else:
        next_step, next_turn = core.next_step, core.next_turn
    core = core.put(next_step=next_step, next_turn=next_turn, turn=0, step=min(core.step, 1))
    return Config(core, stack, parked, waiting)


class Cyclic:
    """The folded driver as a system. Labels name messages as the state they start from does; a fresh one is next."""

    def __init__(self, law: Law, pending: int = 3, depth: int = 1, causes: tuple[str, ...] = CAUSES) -> None:
        self.environment = CyclicEnvironment(pending, causes)
        bound = Bound(f"cyclic, {pending} pending", (("turns", 1),), depth)
        self.world = World(driver.MACHINE, driver.initial(law), self.environment, bound)

    def initial(self) -> Iterator[Node]:
        """One node, without budgets."""
        yield Node(folded(self.world.first), (1,), ())

    def moves(self, node: Node) -> Iterator[tuple[Any, Node]]:
        """The moves of the world, folded; nothing is ever spent."""
        names: dict[int, int] = {}
        config = node.config
        ids_in((config.core.next_step, config.core.next_turn, config.stack, config.parked, config.waiting), names)
        fresh = {0: FIRST + len(names)}
        for label, target in self.world.moves(node):
            after = target.config
            if label[:2] in (("call", "send"), ("wait", "send")):
                label = renamed(label[:3], fresh) + label[3:]
                if label[0] == "wait":
                    waiting = (*after.waiting[:-1], label[1:])
                    after = after._replace(waiting=waiting)
                else:
                    top = after.stack[-1]
                    after = after._replace(stack=(*after.stack[:-1], top._replace(frame=label[1:])))
            yield label, Node(folded(after), (1,), ())


def is_call(label: Any) -> bool:
    """The environment acts of its own."""
    return label[0] in ("call", "wait")


def silent(graph: Graph[Node]) -> Graph[Node]:
    """The same states, every one a first state, with the moves that are no calls."""
    first, labels, targets = array("q", [0]), array("i"), array("i")
    for index in range(len(graph.states)):
        for label, target in graph.moves(index):
            if not is_call(graph.labels[label]):
                labels.append(label)
                targets.append(target)
        first.append(len(targets))
    return Graph(graph.states, range(len(graph.states)), graph.labels, first, labels, targets, graph.complete)


FAIRNESS = Fairness(
    key_of=lambda label: "answer" if label[0] == "answer" else "step", weak=frozenset({"answer", "step"})
)
"""Listeners return and every wait is answered: what is not a call happens at last."""


def at_rest(node: Node) -> bool:
    """Nothing runs, nothing waits, and the agent is idle."""
    return not node.config.stack and not node.config.parked and node.config.core.phase == "idle"


def _top(node: Node) -> str:
    return str(node.config.stack[-1].frame[0]) if node.config.stack else ""


def opens(node: Node) -> bool:
    """A turn has just been opened."""
    return any(one.frame[0] == "turn_opened" for one in node.config.stack)


LIVENESS: tuple[LeadsTo[Node], ...] = (
    LeadsTo("LI-30", "Every activity ends, and those who wait for idleness go on.", lambda node: True, at_rest),
    LeadsTo(
        "LI-31",
        "A run that a wake has begun opens a turn, unless it is cancelled before (CW1).",
        lambda node: _top(node) == "open_turn" and node.config.core.signal == "",
        lambda node: opens(node) or node.config.core.signal != "",
    ),
    LeadsTo(
        "LI-32",
        "A prompt that waits behind a live turn with a step is claimed in the same run, unless the run is cancelled.",
        lambda node: (
            node.config.core.phase == "running"
            and node.config.core.signal == ""
            and not node.config.core.closing
            and node.config.core.step > 0
            and bool(node.config.parked)
            and node.config.parked[0][0][0] not in ("gap",)
            and bool(node.config.core.next_turn)
        ),
        lambda node: (
            any(one.frame[0] in ("take_prompt", "tell_claimed") for one in node.config.stack)
            or node.config.core.signal != ""
        ),
    ),
    LeadsTo(
        "LI-33",
        "A latched wake with something pending opens a turn, unless disposal bars it.",
        lambda node: (
            not node.config.stack
            and node.config.core.latch
            and has_pending(node.config.core)
            and not driver.is_barred(node.config.core)
        ),
        lambda node: opens(node) or not has_pending(node.config.core) or driver.is_barred(node.config.core),
    ),
)
