"""Every kind of move of the tape machine happens on the live plugin, and happens just so.

Programs are derived from the complete graph: a small set of paths that together make a move of every class. Each is
played on a session with the mounted plugin (`stage.py`).
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any

import anyio
import pytest
from tests.tape import stage

from loopharness.slice import state
from loopspec.kernel.explore import explore
from loopspec.kernel.sequence import edge_cover
from loopspec.kernel.system import Label
from loopspec.tape import config, fold, seal
from loopspec.worlds.tape_world import Budgets, Host, TapeHost

SETTINGS: dict[str, tuple[Budgets, dict[str, Any]]] = {
    "compactions": (Budgets(3, 2, steering=0, compactions=1, resumes=0), {}),
    "losses": (Budgets(3, 0, steering=0, compactions=0, resumes=0, losses=1, reuses=1, long=1), {}),
    "crashes": (Budgets(2, 1, steering=1, compactions=0, resumes=1, cancels=1, losses=1, long=1), {}),
    "kept turns": (Budgets(3, 1, steering=0, compactions=0, resumes=1, cancels=1, reuses=1), {"keep": 1}),
    "capped": (Budgets(2, 0, steering=1, compactions=0, resumes=1, cancels=1, long=1), {"cap": 1, "keep": 1}),
}


def class_of(host: Host, label: Label) -> Hashable:
    """The kind of a move: what happens, when in a turn, and over which surface."""
    name = label if isinstance(label, str) else label[0]
    kinds = tuple(cell.kind for cell in host.tape.cells)
    if name == "entered":
        results = tuple(cell.uid[0] for cell in host.tape.cells if cell.kind == "result")
        return (name, host.left.resumes, len(host.tape.warned), host.left.long, results)
    return (name, host.phase, host.step, kinds if name in ("entry", "fold", "warned") else ())


@cache
def programs(name: str) -> tuple[tuple[Label, ...], ...]:
    """Paths that together make a move of every class."""
    budgets, settings = SETTINGS[name]
    found = explore(TapeHost(budgets, **settings, forgets=False), is_final=lambda s: s.phase == "idle", keep_edges=True)
    assert found.complete
    assert found.graph is not None
    return tuple(path.labels for path in edge_cover(found.graph, class_of).paths)


def play(labels: tuple[Label, ...], name: str, backend: str = "asyncio") -> None:
    """Play one program on the plugin."""
    settings = SETTINGS[name][1]
    anyio.run(stage.play, labels, settings.get("keep", 0), settings.get("cap"), backend=backend)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_class_of_moves_happens_on_the_plugin(name: str) -> None:
    found = programs(name)
    for number, labels in enumerate(found):
        play(labels, name, ("asyncio", "trio")[number % 2])
    print(f"{name}: {len(found)} programs, {sum(map(len, found))} moves")


# -- faults of the plugin that the machine notices --------------------------------------------------------------


def is_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    course = config.course

    def deaf(decision: str, step: int, *, aborted: bool, cap: int | None) -> str:
        return str(course(decision, step, aborted=False, cap=cap))

    monkeypatch.setattr(config, "course", deaf)


def warns_again(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = state.SessionTape.seal

    def forgetful(self: state.SessionTape, *arguments: Any) -> int:
        self._warned.clear()
        return planned(self, *arguments)

    monkeypatch.setattr(state.SessionTape, "seal", forgetful)


def folds_what_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold, "watermark", lambda events: -1)


def looks_for_live_snapshots_only_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "is_snapshot", lambda message: False)


FAULTS = {
    "deaf to an abort": (is_deaf, "crashes"),
    "warns again": (warns_again, "losses"),
    "folds what was shown": (folds_what_was_shown, "crashes"),
    "does not see the new snapshot": (looks_for_live_snapshots_only_behind, "compactions"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_plugin_leaves_the_machine(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, name = FAULTS[fault]
    paths = programs(name)
    change(monkeypatch)
    assert any(parts_with_the_machine(labels, name) for labels in paths)


def parts_with_the_machine(labels: tuple[Label, ...], name: str) -> bool:
    """Whether the plugin leaves this path."""
    try:
        play(labels, name)
    except stage.Mismatch:
        return True
    return False
