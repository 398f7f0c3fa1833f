"""The suite on the published packages: their own law describes them, and what the other one does not allow is known.

Skipped where the packages are not installed: `make conform-dsh` installs them and runs every case.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.peer import require_peer

from loopconform.divergence import disagreements, explanation, length_explained, mixed, reachable, read
from loopconform.divergences import Findings, divergences, document, search
from loopconform.known import BEYOND_THE_ROWS, KNOWN, beyond
from loopconform.known import lines as known_lines
from loopconform.protocol.case import Case, load_case, load_cases
from loopconform.replays.played import play
from loopconform.runner.channel import ProcessChannel
from loopconform.runner.fuzz import walk_case
from loopconform.runner.play import Player
from loopconform.runner.suite import load_expected
from loopconform.tla.instances import TLA
from loopconform.tla.replay import read as read_run

CONFORMANCE = Path(__file__).parents[2] / "conformance"
ADAPTER = CONFORMANCE / "adapters" / "node-dsh"
RACES = CONFORMANCE / "cases" / "races"

SHOWING = {
    "lr-084": ("closing_run_latches",),
    "lr-070": ("closing_run_latches",),
    "lr-009": ("observer_operations_wait",),
    "lr-222": ("any_disposal_bars_latch",),
    "lr-194": ("disposal_drops_latch",),
    "minus-zero": ("minus_zero_is_refused",),
    "lr-150b": ("stopped_pool_stays_stopped",),
    "r-57": ("driver_waits_for_publication",),
    "r-34": ("every_owner_joins",),
    "r-28": ("provider_keeps_order",),
    "r-76": ("disposed_agent_is_silent",),
}
"""Known defects of the published loop by the case that shows them."""


@pytest.fixture(scope="module")
def player() -> Iterator[Player]:
    require_peer()
    player = Player(lambda: ProcessChannel(str(ADAPTER / "run")), timeout=30)
    yield player
    player.close()


def test_they_follow_a_run_that_a_model_checker_found(player: Player) -> None:
    done = play(player, read_run(TLA / "runs" / "MCLoop_published_Witness.json"))
    assert (done.result.verdict, done.whole) == ("PASS", True), done.told()


@pytest.mark.parametrize(("name", "fields"), SHOWING.items(), ids=list(SHOWING))
def test_a_known_defect_is_found_and_explained(player: Player, name: str, fields: tuple[str, ...]) -> None:
    """Green under the law that describes it, red under the other one, for exactly the reason that is known."""
    result = player.play(load_case(RACES / f"{name}.json"), "dsh-0.1")
    assert result.verdict == "PASS", result.fault
    assert [one.fields for one in divergences(result, player.greet(), "dsh-0.1")] == [fields]


def test_no_delay_of_hooks_changes_a_verdict() -> None:
    require_peer()
    delayed = Player(lambda: ProcessChannel(f"{ADAPTER / 'run'} --jitter 7"), timeout=30)
    try:
        for name in ("lr-030", "lr-046", "lr-090", "lr-147", "lr-149", "lr-158", "r-01", "r-60"):
            result = delayed.play(load_case(RACES / f"{name}.json"), "dsh-0.1")
            assert result.verdict == "PASS", (name, result.fault)
    finally:
        delayed.close()


def test_random_programs_are_explained(player: Player) -> None:
    for seed in ("11.0", "11.1", "11.2"):
        result = walk_case(player, seed, "dsh-0.1", 0, length=15)
        assert result.verdict == "PASS", (seed, result.fault)


def test_a_divergence_is_shortened_and_told(player: Player) -> None:
    padded = load_case(RACES / "lr-194.json")
    program = [*padded.program[:3], *load_case(RACES / "lr-050.json").program[3:], *padded.program[3:]]
    result = player.play(padded.with_program(program), "dsh-0.1")
    found: Findings = search(player, [result], "dsh-0.1")
    shown = found.shown["disposal_drops_latch",]
    assert len(shown.case.program) <= len(padded.program) < len(program)
    text = document(found, "dsh-0.1")
    assert "L-MNT-7" in text
    assert "live agent/status" in text
    assert "Not explained" not in text


def test_a_fault_that_no_row_explains_is_told_apart(player: Player) -> None:
    """A transcript with one record left out is wrong under every law."""
    case: Case = load_case(RACES / "lr-013.json")
    result = player.play(case, "dsh-0.1")
    broken = [m for m in result.transcript if m.body.get("event", {}).get("type") != "step/end"]
    heard, hello, rows = read(broken), player.greet(), reachable("seed", "dsh-0.1")
    fault = length_explained(heard, hello, mixed("dsh-0.1", 0, ()))
    assert fault < len(heard)
    at = length_explained(heard, hello, mixed("seed", 0, ()))
    assert not explanation(heard, hello, "seed", rows, (), at).known


def test_expected_failures_name_cases_that_exist() -> None:
    declared = load_expected(ADAPTER / "expected-seed.yaml")
    known = {f"{case.id}@seed" for case in load_cases([CONFORMANCE / "cases"])}
    assert declared
    assert set(declared) <= known


def test_the_rows_that_the_protocol_can_show_are_rows() -> None:
    fields = {row.field for row in disagreements("seed", "dsh-0.1")}
    assert set(reachable("seed", "dsh-0.1")) < fields
    assert {field for fields_ in SHOWING.values() for field in fields_} <= set(reachable("seed", "dsh-0.1"))


def test_what_is_known_names_rows_and_cases_that_exist() -> None:
    """Each known defect is a row that this suite can show, a case, or says why it cannot be shown."""
    fields = {row.field for row in disagreements("seed", "dsh-0.1")}
    cases = {case.id for case in load_cases([CONFORMANCE / "cases"])}
    assert {one.row for one in KNOWN if one.row} <= fields
    assert {one.case for one in KNOWN if one.case} <= cases
    assert set(BEYOND_THE_ROWS) <= cases
    assert beyond(["races/lr-052", *BEYOND_THE_ROWS]) == [
        line for one in BEYOND_THE_ROWS.values() for line in (one, "")
    ]
    assert [one.id for one in KNOWN if not (one.row or one.case or one.why)] == []
    told = known_lines(["closing_run_latches"], ["races/lr-052"])
    assert told[2].startswith("2 of ")
    assert any("`races/lr-052` diverges" in line for line in told)
    assert any("| N-1 |" in line and "**no**" in line for line in told), "not shown, and no reason"
