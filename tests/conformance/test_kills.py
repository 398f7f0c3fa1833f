"""The kill matrix stands: every recorded kill still kills, no killer is a false alarm, nothing survives in silence."""

from __future__ import annotations

from typing import Any

import pytest

from loopconform.mutants import equal, matrix, search, surroundings, table
from loopconform.mutants.matrix import Bench
from loopconform.mutants.named import everything, named
from loopconform.mutants.patch import Switch, faulty, original_of
from loopconform.runner.channel import InsideChannel
from loopconform.runner.play import Player
from loopconform.runner.results import Result
from loopspec import driver

FAULTS = {fault.id: fault for fault in everything()}
KILLS = matrix.load()
KILLED = [kill for kill in KILLS.values() if kill.fate == "killed"]
HINT = "to search anew: make kills"


def test_every_fault_has_a_fate() -> None:
    assert list(KILLS) == list(FAULTS), HINT


def test_every_fault_fits() -> None:
    """The text that it changes is there, once."""
    assert all(faulty(fault, original_of(fault)) for fault in FAULTS.values())


def test_there_are_enough_of_them() -> None:
    named_ones = {fault.id for fault in named()}
    assert len(named_ones) >= 60
    assert sum(kill.fault in named_ones for kill in KILLED) >= 60


def test_every_recorded_case_kills_its_fault() -> None:
    """The faulty harness is a process of its own: the judge in this one stays sound."""
    cases = matrix.cases_by_id({kill.case for kill in KILLED})
    gone = sorted({kill.case for kill in KILLED} - set(cases))
    assert not gone, f"these cases are no more; {HINT}"
    bench = Bench(30.0)
    wrong = []
    try:
        for kill in KILLED:
            for _ in range(3):  # a harness that dies of its fault may do so before it has told what fails
                result = bench.play(FAULTS[kill.fault], cases[kill.case], kill.profile)
                if result.verdict != "ADAPTER_ERROR":
                    break
            if result.verdict != "FAIL":
                wrong.append((kill.fault, kill.case, result.verdict, result.reason[:200]))
    finally:
        bench.close()
    assert not wrong, HINT


def is_by_hand(id: str) -> bool:
    area, *_, name = id.split("/")
    return (matrix.CASES / "hand" / area / f"{name}.json").exists()


def test_every_killer_passes_without_the_fault() -> None:
    """Those that are written by hand are played by `test_hand_cases`, under each of their laws."""
    pairs = sorted({(kill.case, kill.profile) for kill in KILLED if not is_by_hand(kill.case)})
    cases = matrix.cases_by_id({id for id, _ in pairs})
    player = Player(InsideChannel, 30.0)
    try:
        wrong = [
            (id, profile, result.verdict, result.reason[:200])
            for id, profile in pairs
            if (result := player.play(cases[id], profile)).verdict != "PASS"
        ]
    finally:
        player.close()
    assert not wrong


def test_no_fault_survives_in_silence() -> None:
    """A hole has its reason in `holes.yaml`; a reason without a hole is stale."""
    holes = {kill.fault: kill.words for kill in KILLS.values() if kill.fate == "hole"}
    assert holes == dict(search.reasons())
    assert all(kill.words for kill in KILLS.values())


def shown(result: Result) -> list[Any]:
    """What an implementation showed in a case."""
    return [message.body for message in result.transcript if message.who == "adapter"]


def test_what_the_law_allows_is_told_apart_and_passes() -> None:
    """Another loop, and none that is wrong: the case that tells them apart passes with the fault and without it."""
    lawful = [kill for kill in KILLS.values() if kill.fate == "lawful"]
    assert lawful == list(search.lawful().values()), HINT
    cases = matrix.cases_by_id({kill.case for kill in lawful})
    bench = Bench(30.0)
    try:
        for kill in lawful:
            sound, other = (bench.play(one, cases[kill.case], kill.profile) for one in (None, FAULTS[kill.fault]))
            assert (sound.verdict, other.verdict) == ("PASS", "PASS"), kill
            assert shown(sound) != shown(other), kill
    finally:
        bench.close()


PROOFS = {
    "equivalent": {bound.name for bound in equal.bounds()},
    "unobservable": {bound.name for bound in surroundings.bounds()},
}
BY_TESTS = (search.ELSEWHERE, search.IN_EVERY_ORDER)
PROVED = [kill for kill in KILLS.values() if kill.fate in PROOFS and not kill.words.startswith(BY_TESTS)]


def test_every_proof_names_bounds_that_there_are() -> None:
    """The proofs themselves are repeated by `make kills`, which looks at everything but the kills anew."""
    named_ones = {kill.fault: set(kill.words.removeprefix(search.UNASKED).split("; ")) for kill in PROVED}
    assert {kill.fault for kill in PROVED if not named_ones[kill.fault] <= PROOFS[kill.fate]} == set(), HINT


QUICK = ("driver one, seed", "scheduler, seed", "creation one", "creation pair")
"""Bounds of some thousand states."""


def test_equivalent_faults_change_no_small_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law's graphs at the quick bounds, with all of them asked beside it."""
    quick = [bound for bound in equal.bounds() if bound.name.startswith(QUICK)]
    monkeypatch.setattr(equal, "bounds", lambda: quick)
    equivalent = [FAULTS[kill.fault] for kill in PROVED if kill.fate == "equivalent"]
    told = FAULTS["driver/stops-too-early"]
    found = equal.findings([*equivalent, told])
    assert [id for id, finding in found.items() if finding.differs] == [told.id], HINT
    for kill in PROVED:
        if kill.fate == "equivalent":
            at_hand = {bound.name for bound in quick} & set(kill.words.split("; "))
            assert set(found[kill.fault].asked) == at_hand, HINT


def test_the_page_is_current() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(tuple(FAULTS.values()), KILLS), HINT


@pytest.mark.parametrize("change", ["text", "always", "swaps"])
def test_a_fault_comes_out_again(change: str) -> None:
    switch = Switch()
    before = dict(driver.MACHINE.rules)
    fault = next(fault for fault in FAULTS.values() if fault.change == change and fault.module == "loopspec.driver")
    sound = original_of(fault)
    switch.to(fault)
    assert original_of(fault) is not sound
    switch.to(None)
    assert original_of(fault) is sound
    assert dict(driver.MACHINE.rules) == before


def test_a_fault_that_does_not_fit_is_an_error() -> None:
    fault = next(named())._replace(old="no such text")
    with pytest.raises(ValueError, match="occurs 0 times, not once"):
        faulty(fault, original_of(fault))
