"""The generated cases: whole, unique, minimal in name, and passed by the reference harness, a sample at a time.

`make conform` plays all of them; here every so many-th is played, and one story is generated anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from loopconform.clauses import mentioned
from loopconform.grid import scenarios
from loopconform.grid.__main__ import GRID
from loopconform.grid.generate import FAMILIES, Dropped, Generator, Kept
from loopconform.grid.spoken import BOOKS, clauses_of
from loopconform.protocol.case import Area, Case, content_hash, load_cases
from loopconform.runner.channel import opener
from loopconform.runner.play import Player

CASES = GRID.parent
EVERY = 17
"""One case in so many is played on each event loop; a prime, so that no column of the grid is left out."""


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return list(load_cases([CASES]))


def test_there_are_enough_with_ids_of_their_own_and_hashes_that_fit(cases: list[Case]) -> None:
    assert len(cases) >= 1_500
    assert len({case.id for case in cases}) == len(cases)
    generated = [case for case in cases if case.id.startswith(("loop/", "life/"))]
    assert all(case.hash == content_hash(case) for case in generated)
    programs = [json.dumps([r.model_dump(mode="json") for r in case.program], sort_keys=True) for case in generated]
    assert len(set(programs)) == len(programs), "a program is there once"


def test_every_area_has_cases(cases: list[Case]) -> None:
    areas = {case.area for case in cases}
    assert areas == set(get_args(Area))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_reference_passes_a_sample(cases: list[Case], backend: str) -> None:
    offset = {"asyncio": 0, "trio": EVERY // 2}[backend]
    player = Player(opener("python-reference", backend))  # type: ignore[arg-type]
    try:
        results = [player.play(case, case.profiles[0]) for case in cases[offset::EVERY]]
    finally:
        player.close()
    assert [f"{result.key}: {result.verdict} {result.reason}" for result in results if result.verdict != "PASS"] == []
    assert len(results) > 100


def test_a_story_generated_anew_is_the_file() -> None:
    family = FAMILIES[0]
    story = next(story for story in scenarios.STORIES if story.name == "cut")
    plain = family.stories[0]
    made = list(Generator().run([family._replace(stories=(plain._replace(gates=(), start=()), story))]))
    assert not [one for one in made if isinstance(one, Dropped)]
    fresh = {one.case.id: one.case for one in made if isinstance(one, Kept)}
    filed = {case.id: case for case in load_cases([GRID / "loop-cut.json"])}
    assert filed.keys() <= fresh.keys(), "places that the plain story has are left out there"
    for id, case in filed.items():
        assert (fresh[id].program, fresh[id].area, fresh[id].title) == (case.program, case.area, case.title)


def test_clauses_are_those_of_the_rules_that_speak() -> None:
    assert set(clauses_of(frozenset({("driver", "send")}))) == set(mentioned(BOOKS["driver"]["send"].__doc__ or ""))
    assert Path(GRID / "loop-plain.json").exists()
