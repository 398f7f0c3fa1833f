"""The loop within the bounds of a question: only what it names may happen, and little more.

There are as many sends as the question names and two more (with tools, one), at least one cancel, and a turn more than
messages: a turn may open when there is nothing left to claim (LR-001). Once all moments of the question have come, the
environment only answers, and the loop runs to its rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from loopspec.kernel.claims import Path
from loopspec.kernel.report import Exploration
from loopspec.kernel.system import Label
from loopspec.profile import Law
from loopspec.properties.questions import CALLS, MOMENTS, NEEDS_TOOLS, Asked, Outcome, Question, ask, has_come, outcome
from loopspec.worlds import driver_world, loop_world
from loopspec.worlds.driver_world import bound
from loopspec.worlds.world import Bound


def machine_of(question: Question) -> str:
    """The machine whose runs answer the question: `loop` when it names tools, else `driver`."""
    return "loop" if NEEDS_TOOLS.intersection(question) else "driver"


def bound_of(question: Question) -> Bound:
    """What a question needs to be put, with one message and one cancel to lead up to it."""
    named = [MOMENTS[name].words[:2] for name in question if MOMENTS[name].is_operation]
    sends = sum(1 for words in named if words[0] == "send")
    cancels = named.count(("cancel", "user"))
    tools = int(machine_of(question) == "loop" or "tools" in question)
    messages = sends + (1 if tools else 2)
    return bound(
        "question",
        messages=messages,
        cancel_user=max(cancels, 1),
        cancel_disposed=named.count(("cancel", "disposed")),
        jobs=max(named.count(("maintain",)), int(bool({"job", "maintenance"}.intersection(question)))),
        turns=messages + 1,
        calls=tools,
        faults=int("recovery" in question or "error" in question),
    )


class LeftAlone:
    """A world whose environment only answers once the question has been put."""

    def __init__(self, world: Any, question: Question) -> None:
        self.world = world
        self.question = question

    def initial(self) -> Iterator[Any]:
        """The first nodes of the world."""
        return iter(self.world.initial())

    def moves(self, node: Any) -> Iterator[tuple[Label, Any]]:
        """The moves of the world; behind the last moment nobody calls."""
        if not has_come(node.memory, self.question):
            return iter(self.world.moves(node))
        return (move for move in self.world.moves(node) if move[0][0] not in CALLS)

    def is_cut(self, node: Any) -> bool:
        """The run goes on beyond the bound."""
        return bool(self.world.is_cut(node))

    def is_final(self, node: Any) -> bool:
        """Where a run may stop: at rest, or cut by the bound."""
        return bool(self.world.is_final(node))


def world(law: Law, question: Question, limits: Bound) -> LeftAlone:
    """The loop of one law, within limits, watched by the one who asks."""

    def advance(asked: Asked, label: Any) -> Asked:
        return ask(asked, label, question)

    if machine_of(question) == "loop":
        return LeftAlone(loop_world.LoopWorld(law, limits, memory=Asked(), advance=advance), question)
    plain = driver_world.world(law, limits)
    plain.memory, plain.advance = Asked(), advance
    return LeftAlone(plain, question)


class Answered(NamedTuple):
    """One outcome, the shortest run to it, and how many states are such an end."""

    outcome: Outcome
    run: Path[Any]
    ends: int


def answers(system: LeftAlone, exploration: Exploration[Any]) -> list[Answered]:
    """Every outcome of a question, in the order of the lengths of their shortest runs."""
    found: dict[Outcome, list[int]] = {}
    for index, node in enumerate(exploration.states):
        if has_come(node.memory, system.question) and system.is_final(node) and not system.is_cut(node):
            found.setdefault(outcome(node.memory), []).append(index)
    return [Answered(one, exploration.path_to(ends[0]), len(ends)) for one, ends in found.items()]


def unanswered(system: LeftAlone, exploration: Exploration[Any]) -> int:
    """How many ends of the question lie beyond the bound."""
    return sum(has_come(node.memory, system.question) and system.is_cut(node) for node in exploration.states)
