"""Every kind of move of the driver machine happens on the live harness, and happens just so.

Programs are derived from the edges of the graph: a small set of paths that together make a move of every class.
Random paths add noise around them. The puppeteer (`puppet.py`) plays a path and compares everything that can be
seen. `test_live_mutants.py` shows that it can fail.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import cache
from typing import NamedTuple

import anyio
import pytest
from tests.stateful.puppet import Puppet, is_playable, lines

from loopharness.collector import collector_paused
from loopspec import driver
from loopspec.attempt import aborted
from loopspec.driver import Driver
from loopspec.kernel.claims import Path
from loopspec.kernel.explore import explore
from loopspec.kernel.machine import Answer, Effect, log_is_locked
from loopspec.kernel.system import Label
from loopspec.profile import Profile, law
from loopspec.worlds.driver_world import DriverEnvironment, bound
from loopspec.worlds.world import Bound, Node, Price, World

Setting = tuple[Profile, int]

SETTINGS: tuple[Setting, ...] = (("seed", 0), ("seed", 4), ("dsh-0.1", 0))

COVER = bound("cover", messages=2, cancel_user=1, jobs=1, turns=2, calls=1, faults=1, refusals=1)
"""Where the programs come from: explored completely, about 175,000 states each."""

NOISE = bound(
    "noise", depth=2, messages=6, cancel_user=2, cancel_disposed=1, jobs=1, turns=6, calls=4, faults=5, edits=2
)
"""Where random programs wander: wider and deeper than any complete exploration."""

BACKENDS = ("asyncio", "trio")


class PlayableEnvironment(DriverEnvironment):
    """The environment without answers that the puppet could not give: an end needs its chunk, a prompt its change."""

    def answers(self, core: Driver, point: Effect) -> Iterator[tuple[Answer, Price]]:
        for answer, price in super().answers(core, point):
            yield (("prepared", True, True, 0) if answer == ("prepared", True, True, 1) else answer), price

    def chunks(self, core: Driver, started: bool) -> Iterator[tuple[Answer, Price]]:
        for answer, price in super().chunks(core, started):
            if started or answer[0] != "end" or (answer[1] == "stop" and not answer[2]):
                yield answer, price


def world(setting: Setting, limits: Bound) -> World[Driver]:
    """The driver under one law, with playable answers."""
    return World(driver.MACHINE, driver.initial(law(*setting)), PlayableEnvironment(), limits)


def class_of(node: Node, move: Label) -> Hashable:
    """The kind of a move: what happens, where the machine stands, and which window is open."""
    (label,) = lines([move])
    core, stack, _, waiting = node.config
    window = stack[-1].window if stack else "none"
    phase = (core.phase, aborted(core), core.closing)
    if label[0] in ("call", "wait"):
        return (*label[:2], *(part for part in label[3:] if not isinstance(part, int)), window, phase, bool(core.latch))
    if label[0] == "answer":
        return ("answer", label[1][0], label[2][0], aborted(core), core.ends)
    frame = stack[-1].frame[0] if stack else "waiting"
    return (*label[:2], frame, log_is_locked(node.config), len(stack) > 1, bool(waiting), phase)


class Programs(NamedTuple):
    """Paths that together make a move of every class, and all classes that there are."""

    paths: tuple[Path[Node], ...]
    classes: frozenset[Hashable]


@cache
def programs(setting: Setting) -> Programs:
    """The programs of one setting: a shortest path to each class, without those that others contain."""
    system = world(setting, COVER)
    with collector_paused():
        found = explore(system, is_final=system.is_final, bound=COVER.as_mapping(), keep_edges=True)
    assert found.complete
    assert found.graph is not None
    first: dict[Hashable, Path[Node]] = {}
    for source, state in enumerate(found.states):
        for label, target in found.graph.moves(source):
            kind = class_of(state, found.graph.labels[label])
            if kind not in first:
                first[kind] = found.path_to(source).then(found.graph.labels[label], found.states[target])
    covered: set[Hashable] = set()
    paths = []
    for kind, path in sorted(first.items(), key=lambda item: -len(item[1])):
        if kind not in covered:
            covered |= classes_of(path)
            paths.append(path)
    return Programs(tuple(paths), frozenset(first))


def classes_of(path: Path[Node]) -> set[Hashable]:
    """The classes of the moves of a path."""
    return {class_of(node, label) for node, label in zip(path.nodes, path.labels, strict=False)}


def play(path: tuple[Label, ...], setting: Setting, backend: str) -> None:
    """Play one path on the live harness; raises `Mismatch` where the harness leaves it."""
    puppet = Puppet(path, setting[1])
    anyio.run(puppet.play, *setting, backend=backend)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_every_class_of_moves_runs_live(setting: Setting) -> None:
    """Each labelled edge class of the complete graph is made on the harness at least once."""
    found = programs(setting)
    ran: set[Hashable] = set()
    for index, path in enumerate(found.paths):
        if is_playable(path.labels):
            play(path.labels, setting, BACKENDS[index % 2])
            ran |= classes_of(path)
    unplayed = found.classes - ran
    print(f"{setting}: {len(found.paths)} programs, {len(ran)} of {len(found.classes)} classes ran live")
    assert all("request/context" in str(kind) for kind in unplayed), unplayed
    assert len(ran) > 300


def wander(system: World[Driver], chance: random.Random, length: int) -> Path[Node]:
    """One random run. Left to itself chance would make calls only: a call is rare here, and an odd answer rarer."""
    (node,) = system.initial()
    path: Path[Node] = Path(node)
    for _ in range(length):
        moves = list(system.moves(node))
        calls = [move for move in moves if move[0][0] in ("call", "wait") and move[0][1] != "maintain"]
        jobs = [move for move in moves if move[0][0] in ("call", "wait") and move[0][1] == "maintain"]
        others = [move for move in moves if move[0][0] not in ("call", "wait")]
        if calls and (not others or chance.random() < 0.1):
            label, node = chance.choice(calls)
        elif jobs and (not others or chance.random() < 0.02):
            label, node = chance.choice(jobs)
        elif others:
            label, node = others[0] if chance.random() < 0.6 else chance.choice(others)
        else:
            break
        path = path.then(label, node)
    return path


FLOOR = {
    ("append", "turn/start"): 200,
    ("append", "turn/end"): 200,
    ("append", "step/start"): 80,
    ("append", "step/end"): 80,
    ("append", "user/message"): 60,
    ("append", "request/header"): 30,
    ("append", "assistant/message"): 20,
    ("notify", "abort"): 90,
    ("notify", "agent/error"): 70,
    ("notify", "agent/inbox/claimed"): 250,
    ("notify", "agent/inbox/discarded"): 100,
    ("notify", "agent/inbox/inserted"): 400,
    ("notify", "agent/status"): 400,
    ("notify", "job"): 40,
    ("park", "chunk"): 50,
    ("park", "pre-step"): 120,
    ("park", "turn-stopping"): 10,
    ("park", "tools"): 1,
    ("park", "recovery"): 1,
    ("leave", "raise"): 60,
    ("leave", "settled"): 200,
}
"""How often each of these must have happened in the random programs of one setting, at least."""


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_random_programs_run_live(setting: Setting) -> None:
    """Noise: 120 random programs a setting, 360 in all, with a floor on how often each rule fired."""
    system = world(setting, NOISE)
    chance = random.Random(f"noise {setting}")
    played = 0
    happened: Counter[tuple[object, ...]] = Counter()
    while played < 120:
        path = wander(system, chance, 200)
        if is_playable(path.labels):
            play(path.labels, setting, BACKENDS[played % 2])
            played += 1
            happened.update(line[:2] for line in lines(path.labels))
    assert not {what: happened[what] for what, least in FLOOR.items() if happened[what] < least}
