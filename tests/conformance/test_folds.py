"""Folding is seen from outside: a policy that folds too much, too little or for too long fails its cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loopconform.protocol.case import Case, load_cases
from loopconform.runner.channel import opener
from loopconform.runner.play import Player
from loopharness.slice import state
from loopspec.tape import fold

FILE = Path(__file__).parents[2] / "conformance" / "cases" / "grid" / "tape-fold.json"
CASES: dict[str, Case] = {case.id.rsplit("/", 1)[1]: case for case in load_cases([FILE])}


def verdict(name: str) -> str:
    player = Player(opener("python-reference"))
    try:
        return player.play(CASES[name], "seed").verdict
    finally:
        player.close()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_reference_folds_as_the_law_says(backend: Any) -> None:
    player = Player(opener("python-reference", backend))
    try:
        some = list(CASES.values())[:: 1 if backend == "asyncio" else 4]
        results = [player.play(case, "seed") for case in some]
    finally:
        player.close()
    assert [(result.case.id, result.reason) for result in results if result.verdict != "PASS"] == []


class Elsewhere:
    """`loopspec.tape.fold` with one answer changed, as the harness sees it."""

    def __init__(self, **changed: Any) -> None:
        self.__dict__.update(changed)

    def __getattr__(self, name: str) -> Any:
        return getattr(fold, name)


def _whatever_was_retrieved(*arguments: Any) -> Any:
    index, seq, settings, policy, owned, _, evidence = arguments
    return fold.candidate(index, seq, settings, policy, owned, (), evidence)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("log", {"candidate": lambda *arguments: None}),
        ("retrieved-gives-way", {"candidate": _whatever_was_retrieved}),
        ("crash-retrieved", {"candidate": _whatever_was_retrieved}),
        ("retrieved-in-part", {"is_full": lambda given: True}),
        ("crash-before", {"watermark": lambda events: -1}),
        ("crash-retrieved", {"is_fold": lambda *arguments: None}),
    ],
)
def test_another_folding_fails(monkeypatch: pytest.MonkeyPatch, name: str, changed: dict[str, Any]) -> None:
    assert verdict(name) == "PASS"
    monkeypatch.setattr(state, "fold", Elsewhere(**changed))
    assert verdict(name) == "FAIL"
