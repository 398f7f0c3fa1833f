"""Every named fault of the driver is seen in the running harness.

For each mutant, programs are searched on which the faulty machine and the sound one part, by walking both in step,
shortest first. Each is played on the harness with the fault in place and without: what can be seen must differ.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.spec import mutation
from tests.spec.mutants_driver import BOOKS, BOUNDS, MODULES, MUTANTS
from tests.spec.mutation import Mutant
from tests.stateful.puppet import SILENT, Mismatch, is_playable, lines
from tests.stateful.test_programs import play, world

from loopspec.driver import Driver
from loopspec.kernel.machine import Illegal
from loopspec.kernel.system import Label
from loopspec.worlds.driver_world import bound
from loopspec.worlds.world import Node, World

FAULTS = tuple(mutant for mutant in MUTANTS if not mutant.killer.startswith("equivalent"))

UNSEEN = {
    "first header missing": "A log without a header differs anyway; a resumed one shows it, in tests/harness.",
    "barred wakes latch": "A barred latch is dropped when the activity ends anyway (L-MNT-7); its claim sees it.",
    "old latch stays": "It takes four messages and two faults (LR-047), too far for this search; see tests/races.",
}
"""Faults that no playable path shows from outside, each with the reason. The shorter the better."""


class Fault:
    """A mutant that can be switched on and off quickly."""

    def __init__(self, mutant: Mutant) -> None:
        self.holders: list[tuple[Any, str, Any]] = [
            (book, mutant.target, book[mutant.target]) for book in BOOKS.values() if mutant.target in book
        ]
        if not self.holders:
            self.holders = [
                (vars(module), mutant.target, getattr(module, mutant.target))
                for module in MODULES.values()
                if hasattr(module, mutant.target)
            ]
        assert self.holders
        self.wrong = mutation.changed(self.holders[0][2], mutant.old, mutant.new)

    @contextmanager
    def on(self) -> Iterator[None]:
        """The fault is in place inside this block."""
        for holder, name, _ in self.holders:
            holder[name] = self.wrong
        try:
            yield
        finally:
            for holder, name, sound in self.holders:
                holder[name] = sound


Pair = tuple[Node | None, Node | None]
"""The same program on the faulty and on the sound machine; `None` where that machine has left the path."""

TRIES = 60
"""Programs played for a mutant before it counts as unseen."""

WIDER = {
    "latch stays": bound("wider", depth=0, messages=3, cancel_user=2, turns=2),
    "last cause wins": bound("wider", depth=0, messages=1, cancel_user=1, cancel_disposed=1, turns=1),
}
"""Bounds for faults that are seen only later than the promise that they break."""

CHOSEN = ("call", "wait", "answer")
"""Verbs that the environment chooses: it may choose them on either machine."""


def followed(system: World[Driver], node: Node, label: Label) -> Node | None:
    """Where a label leads from a node, whatever the environment thinks it costs; `None` if the machine refuses."""
    config = node.config
    (line,) = lines([label])
    try:
        if line[0] == "answer":
            points = [point for point, _ in config.parked]
            after = system.machine.resume(config, line[2], points.index(line[1]))
        else:
            after = system.machine.call(config, line[1:])
    except (Illegal, ValueError):
        return None
    return node._replace(config=after)


def telling_paths(mutant: Mutant, fault: Fault, limit: int = 40_000) -> Iterator[list[Label]]:
    """Paths of either machine from where the two part on, shortest first."""
    system = world((mutant.profile, mutant.session_format), WIDER.get(mutant.name) or BOUNDS[mutant.bound])
    (first,) = system.initial()
    parents: dict[Pair, tuple[Pair, Label] | None] = {(first, first): None}
    queue: deque[Pair] = deque(parents)

    def path_to(pair: Pair) -> list[Label]:
        labels: list[Label] = []
        step = parents[pair]
        while step is not None:
            pair, label = step
            labels.append(label)
            step = parents[pair]
        return labels[::-1]

    def moves(node: Node | None) -> dict[Label, Node]:
        return {} if node is None else dict(system.moves(node))

    while queue and len(parents) < limit:
        pair = queue.popleft()
        wrong, sound = pair
        sound_moves = moves(sound)
        with fault.on():
            try:
                wrong_moves = moves(wrong)
                chosen = {
                    label: followed(system, wrong, label) for label in sound_moves if wrong and label[0] in CHOSEN
                }
            except Exception:
                continue  # a fault that crashes the machine: another path has to show it
        for label in [*wrong_moves, *(label for label in sound_moves if label not in wrong_moves)]:
            after_wrong, after_sound = wrong_moves.get(label), sound_moves.get(label)
            if label[0] in CHOSEN:
                after_wrong = after_wrong or chosen.get(label)
                if after_sound is None and sound is not None:
                    after_sound = followed(system, sound, label)
            after = (after_wrong, after_sound)
            if after in parents:
                continue
            parents[after] = (pair, label)
            queue.append(after)
            if None in after and label[0] not in (*SILENT, *CHOSEN):
                yield path_to(after)


def behaviour(path: list[Label], mutant: Mutant) -> str:
    """What the harness as it is now does on a path: `stays`, or where and how it leaves."""
    try:
        play(tuple(path), (mutant.profile, mutant.session_format), "asyncio")
    except (Mismatch, TimeoutError) as error:
        return str(error)
    return "stays"


@pytest.mark.parametrize("mutant", FAULTS, ids=lambda mutant: mutant.name)
def test_a_fault_is_seen_in_the_running_harness(mutant: Mutant) -> None:
    """Some program makes the faulty harness and the sound one do different things."""
    fault = Fault(mutant)
    tried = 0
    for path in telling_paths(mutant, fault):
        if not is_playable(path):
            continue
        tried += 1
        with fault.on():
            wrong = behaviour(path, mutant)
        if wrong != behaviour(path, mutant):
            print(f"{mutant.name}: seen after {len(path)} moves, in program {tried}")
            assert mutant.name not in UNSEEN, "it is seen after all: take it off the list"
            return
        if tried == TRIES:
            break
    assert mutant.name in UNSEEN, f"{mutant.sentence} {tried} programs tried, none told the harnesses apart."
