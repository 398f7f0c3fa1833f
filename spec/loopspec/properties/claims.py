"""How a promise is written down, and what becomes of it under a law whose own facts break it.

A `Promise` is a sentence with a judge. Judges of moves look at what a bystander saw before, the label, and what was
seen after; only judges of nodes may look at the machine, and never at the field that they are about alone.

Some published laws break some promises; the facts say where. Then the promise is not dropped: it is turned round, and
the exploration must *reach* the break, under the row that documents it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from loopspec.kernel.claims import Answer, Invariant, Sometimes, SometimesStep, Step
from loopspec.profile import Law
from loopspec.worlds.world import Node

Label = tuple[Any, ...]
"""The labels of a world are tuples: `(verb, …)`."""

MoveJudge = Callable[[Any, Label, Any, Law], Answer]
NodeJudge = Callable[[Node, Law], Answer]


@dataclass(frozen=True)
class Promise:
    """One named promise.

    `move` judges (seen before, label, seen after, law); `node` judges a node. `broken` names the race or window that
    breaks it, for the laws that say so.
    """

    name: str
    sentence: str
    move: MoveJudge | None = None
    node: NodeJudge | None = None
    broken: Callable[[Law], str] = lambda law: ""
    verbs: frozenset[str] = frozenset()
    """The verbs of the moves that it is about; all, if empty."""
    needs: tuple[str, ...] = ()
    """Budgets without which it cannot be broken."""


J = TypeVar("J", bound=Callable[..., Answer])


class Promises(list[Promise]):
    """The promises of one machine, in order; `promise` enters the judge below it."""

    def promise(
        self,
        name: str,
        sentence: str,
        on: str = "",
        broken: Callable[[Law], str] = lambda law: "",
        of_nodes: bool = False,
        needs: tuple[str, ...] = (),
    ) -> Callable[[J], J]:
        """Enter a judge under its name: of moves with one of the verbs `on` (all, if empty), or `of_nodes`."""

        def enter(judge: J) -> J:
            move, node = (None, judge) if of_nodes else (judge, None)
            self.append(Promise(name, sentence, move, node, broken, frozenset(on.split()), needs))
            return judge

        return enter


def is_written(label: Label, *records: str) -> bool:
    """The label writes one of these records."""
    return bool(label[0] == "append" and label[1] in records)


def is_told(label: Label, event: str) -> bool:
    """The label publishes such an event."""
    return bool(label[0] == "notify" and label[1] == event)


@dataclass(frozen=True)
class Witness:
    """Something that must be reachable: under every law, or where `applies` says so. Otherwise it must never be."""

    name: str
    sentence: str
    move: Callable[[Any, Label, Any], bool] | None = None
    node: Callable[[Node], bool] | None = None
    applies: Callable[[Law], bool] = lambda law: True
    needs: tuple[str, ...] = ()
    """Budgets without which it cannot be reached (`jobs`, `messages=3`); below them it is not asked for."""


@dataclass(frozen=True)
class Claims:
    """Everything that one exploration checks, ready for `loopspec.kernel.explore.explore`."""

    invariants: tuple[Invariant[Node], ...]
    steps: tuple[Step[Node], ...]
    sometimes: tuple[Sometimes[Node] | SometimesStep[Node], ...]


def _move_step(promise: Promise, judge: MoveJudge, law: Law) -> Step[Node]:
    verbs = promise.verbs

    def predicate(before: Node, label: Any, after: Node) -> Answer:
        return label[0] not in verbs or judge(before.memory, label, after.memory, law)

    def always(before: Node, label: Any, after: Node) -> Answer:
        return judge(before.memory, label, after.memory, law)

    return Step(promise.name, promise.sentence, predicate if verbs else always)


def _move_witness(name: str, sentence: str, judge: Callable[[Any, Label, Any], bool]) -> SometimesStep[Node]:
    def predicate(before: Node, label: Any, after: Node) -> bool:
        return judge(before.memory, label, after.memory)

    return SometimesStep(name, sentence, predicate)


def claims_for(
    law: Law, promises: Iterable[Promise], witnesses: Iterable[Witness], budgets: dict[str, int] | None = None
) -> Claims:
    """The claims under a law. `budgets` leaves out the witnesses that need more than there is; by default none."""
    invariants: list[Invariant[Node]] = []
    steps: list[Step[Node]] = []
    sometimes: list[Sometimes[Node] | SometimesStep[Node]] = []
    for promise in promises:
        row = promise.broken(law)
        if row:
            if budgets is None or _affordable(promise.needs, budgets):
                sometimes.append(_turned_round(promise, row, law))
        elif promise.move is not None:
            steps.append(_move_step(promise, promise.move, law))
        else:
            assert promise.node is not None
            judge = promise.node
            invariants.append(Invariant(promise.name, promise.sentence, _bound_to(judge, law)))
    for witness in witnesses:
        if not witness.applies(law):
            never = f"never {witness.name}"
            sentence = f"This does not happen: {witness.sentence}"
            if witness.move is not None:
                steps.append(Step(never, sentence, _never_move(witness.move)))
            elif witness.node is not None:
                invariants.append(Invariant(never, sentence, _never_node(witness.node)))
        elif budgets is None or _affordable(witness.needs, budgets):
            if witness.move is not None:
                sometimes.append(_move_witness(witness.name, witness.sentence, witness.move))
            elif witness.node is not None:
                sometimes.append(Sometimes(witness.name, witness.sentence, witness.node))
    return Claims(tuple(invariants), tuple(steps), tuple(sometimes))


def _affordable(needs: tuple[str, ...], budgets: dict[str, int]) -> bool:
    return all(budgets.get(name, 0) >= int(least or 1) for name, _, least in (need.partition("=") for need in needs))


def _bound_to(judge: NodeJudge, law: Law) -> Callable[[Node], Answer]:
    return lambda node: judge(node, law)


def _never_move(judge: Callable[[Any, Label, Any], bool]) -> Callable[[Node, Any, Node], Answer]:
    return lambda before, label, after: not judge(before.memory, label, after.memory)


def _never_node(judge: Callable[[Node], bool]) -> Callable[[Node], Answer]:
    return lambda node: not judge(node)


def _turned_round(promise: Promise, row: str, law: Law) -> Sometimes[Node] | SometimesStep[Node]:
    name = f"{promise.name} is broken by {row}"
    sentence = f"Under this law a run breaks the promise: {promise.sentence}"
    if promise.move is not None:
        move = promise.move
        return _move_witness(name, sentence, lambda before, label, after: move(before, label, after, law) is not True)
    assert promise.node is not None
    node_judge = promise.node
    return Sometimes(name, sentence, lambda node: node_judge(node, law) is not True)
