"""The runner: verdicts that are never merged, exit codes, declarations, selections, reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tests.conformance.recorded import HAND, hand

from loopconform.cli import main
from loopconform.commands.conform import command
from loopconform.commands.conform_repeat import RACES, exit_code
from loopconform.protocol.case import Case, load_cases
from loopconform.protocol.replies import HelloReply
from loopconform.runner.channel import opener
from loopconform.runner.play import missing
from loopconform.runner.repeat import Repeated, lets_tasks_race
from loopconform.runner.repeat_page import Row
from loopconform.runner.results import Result, Run, Verdict
from loopconform.runner.suite import ExpectedError, jobs_of, judged, load_expected, play_all

OTHER = "python-reference:dsh-0.1"


def invoke(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(command, arguments)
    return outcome.exit_code, outcome.output


def hello(**more: Any) -> HelloReply:
    body = {"type": "hello", "id": 0, "protocol": 1, "implementation": {"name": "x"}, "level": "L2"}
    return HelloReply.model_validate({**body, "profiles": ["seed"], "ops": ["create", "followup"], **more})


# -- verdicts ------------------------------------------------------------------------------------------------------


def test_what_the_adapter_cannot_do_is_not_implemented_and_says_what() -> None:
    assert missing(hand("smoke/gate"), "seed", hello()) == ("NOT_IMPLEMENTED", "the adapter has no gate:pre-step")
    assert missing(hand("smoke/gate"), "seed", hello(gates=["pre-step"])) is None
    refused = missing(hand("turn/refused-opening"), "seed", hello())
    assert refused == ("NOT_IMPLEMENTED", "the adapter has no vetoes")


def test_a_level_that_is_too_low_is_undetermined() -> None:
    verdict = missing(hand("smoke/gate"), "seed", hello(level="L1"))
    assert verdict == ("UNDETERMINED", "the case needs level L2, the adapter has L1")


def test_an_adapter_of_one_law_is_judged_by_any_and_one_of_several_by_its_own() -> None:
    assert missing(hand("smoke/text"), "dsh-0.1", hello()) is None
    both = hello(profiles=["seed", "dsh-0.1"])
    assert missing(hand("smoke/text"), "dsh-0.1.7", both) == (
        "NOT_IMPLEMENTED",
        "the profile dsh-0.1.7 is not one of seed, dsh-0.1",
    )


def result(verdict: Verdict, id: str = "smoke/text") -> Result:
    return Result(hand(id), "seed", verdict, "because")


@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        (["PASS"], 0),
        (["PASS", "FAIL", "ADAPTER_ERROR"], 1),
        (["ADAPTER_ERROR", "UNDETERMINED"], 2),
        (["UNDETERMINED", "NOT_IMPLEMENTED"], 3),
        (["PASS", "NOT_IMPLEMENTED"], 4),
        (["HARNESS_ERROR", "FAIL"], 70),
        ([], 2),
    ],
)
def test_exit_codes(verdicts: list[Verdict], code: int) -> None:
    results = tuple(result(verdict) for verdict in verdicts)
    assert Run("x", "x", results, wanted=len(results)).exit_code() == code


def test_what_was_not_run_is_no_success() -> None:
    """The expected checks are the denominator."""
    assert Run("x", "x", (result("PASS"),), wanted=2).exit_code() == 2


def test_a_fault_of_the_suite_is_a_harness_error_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr("loopconform.judge.court.Court.reply", broken)
    run = play_all(opener("python-reference"), [(hand("smoke/text"), "seed"), (hand("smoke/create"), "seed")])
    assert [one.verdict for one in run.results] == ["HARNESS_ERROR"] * 2
    assert "ZeroDivisionError: ours" in run.results[0].reason


# -- declarations --------------------------------------------------------------------------------------------------


def test_a_declared_failure_does_not_fail_the_run_and_a_stale_one_does(tmp_path: Path) -> None:
    declared = tmp_path / "expected.yaml"
    arguments = ["--adapter", OTHER, "--cases", str(HAND), "--case", "wake/error-listener", "--no-shrink"]
    assert invoke(*arguments)[0] == 1
    declared.write_text("wake/error-listener: FAIL\n")
    code, text = invoke(*arguments, "--expected-failures", str(declared))
    assert (code, "1 came out as declared" in text) == (0, True)
    code, text = invoke(*arguments, "--profile", "dsh-0.1", "--expected-failures", str(declared))
    assert (code, "stale" in text) == (1, True)


def test_a_declaration_may_name_the_profile_and_is_not_stale_when_it_was_not_run() -> None:
    run = Run("x", "x", (result("FAIL"),), wanted=1)
    assert judged(run, {"smoke/text@seed": "FAIL"}).exit_code() == 0
    assert judged(run, {"smoke/text@dsh-0.1": "FAIL"}).exit_code() == 1
    assert judged(run, {"smoke/text": "FAIL", "smoke/gate": "FAIL"}).stale == ()
    assert judged(run, {"smoke/text": "ADAPTER_ERROR"}).stale


@pytest.mark.parametrize("text", ["- a\n", "smoke/text: PASS\n", "1: FAIL\n", "{", "\xff"])
def test_a_bad_file_of_declarations_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "expected.yaml"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ExpectedError, match=r"expected\.yaml"):
        load_expected(path)


# -- selection -----------------------------------------------------------------------------------------------------


def test_selections() -> None:
    cases = list(load_cases([HAND]))
    assert [case.id for case, _ in jobs_of(cases, ids=["smoke/t*"])] == ["smoke/text", "smoke/tool"]
    assert {case.id for case, _ in jobs_of(cases, areas=["retry"])} == {"retry/same-step", "retry/given-up"}
    both = ("seed", "dsh-0.1")
    asked = sum(profile in case.profiles for case in cases for profile in both)
    assert len(cases) < len(jobs_of(cases, profiles=both)) == asked < 2 * len(cases)
    with pytest.raises(ValueError, match="no case is called"):
        jobs_of(cases, ids=["smoke/nothing"])
    with pytest.raises(ValueError, match="nothing is selected"):
        jobs_of(cases, level="L0")


def test_the_first_cases_have_every_report_too(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    code, _ = invoke("smoke", "--adapter", "python-reference", "--format", "json", "--output", str(report))
    document = json.loads(report.read_text())
    assert (code, document["summary"]["PASS"], document["wanted"]) == (0, 5, 5)


def test_wrong_usage_is_told_apart() -> None:
    assert invoke()[0] == 2
    code, text = invoke("--adapter", "python-reference", "--cases", str(HAND), "--case", "nowhere")
    assert (code, "no case is called 'nowhere'" in text) == (2, True)


# -- reports -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def failing() -> Run:
    cases: list[Case] = [hand("smoke/text"), hand("wake/error-listener"), hand("turn/refused-opening")]
    return play_all(opener(OTHER), [(case, "seed") for case in cases], workers=2, name=OTHER)


def test_results_come_in_the_order_of_the_cases(failing: Run) -> None:
    assert [one.verdict for one in failing.results] == ["PASS", "FAIL", "PASS"]
    assert failing.implementation == "python-reference dsh-0.1"


def test_the_formats(failing: Run, tmp_path: Path) -> None:
    from loopconform.runner import report

    document = json.loads(report.render_json(failing, "1"))
    assert document["summary"]["FAIL"] == 1
    assert document["wanted"] == 3
    bad = next(one for one in document["results"] if one["verdict"] == "FAIL")
    assert bad["fault"]["clause"].startswith("L-PH-3")
    assert bad["diagram"].startswith("sequenceDiagram")
    assert bad["program"][0]["verb"] == "open"
    assert bad["transcript"]
    suite = ElementTree.fromstring(report.render_junit(failing))[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "0")
    sarif = json.loads(report.render_sarif(failing, "1"))["runs"][0]
    assert len(sarif["results"]) == 1
    assert sarif["results"][0]["ruleId"] == sarif["tool"]["driver"]["rules"][0]["id"]


def test_smoke_and_validate() -> None:
    outcome = CliRunner().invoke(main, ["conform", "smoke", "--adapter", "python-reference"])
    assert outcome.exit_code == 0, outcome.output
    assert "5 of 5 expected checks passed" in outcome.output
    adapter = str(Path("conformance/adapters/python-reference"))
    arguments = ["conform", "--adapter", adapter, "--cases", str(HAND), "--case", "smoke/create", "--validate"]
    outcome = CliRunner().invoke(main, arguments)
    assert outcome.exit_code == 0, outcome.output
    assert '✓ {"type":"hello"' in outcome.output
    assert outcome.output.count("✓") >= 8


# -- repetitions ---------------------------------------------------------------------------------------------------


def test_several_traces_are_a_failure_unless_the_program_lets_two_tasks_race() -> None:
    races = {case.id: case for case in load_cases([RACES])}
    assert lets_tasks_race(races["races/lr-070"])
    assert lets_tasks_race(races["races/parallel-calls"])
    assert not lets_tasks_race(races["races/lr-147"]), "its bodies stand at gates"
    assert not lets_tasks_race(races["races/exclusive-calls"])
    assert not lets_tasks_race(races["races/lr-001"])
    steady = Repeated("races/x", "seed", {"PASS": 3}, traces=1)
    assert exit_code([steady], any_trace=False) == 0
    assert exit_code([steady._replace(traces=2)], any_trace=False) == 1
    assert exit_code([steady._replace(traces=2)], any_trace=True) == 0
    assert exit_code([steady._replace(traces=2, free=True)], any_trace=False) == 0
    assert exit_code([steady._replace(verdicts={"PASS": 2, "FAIL": 1}, free=True)], any_trace=True) == 1


def test_repetitions_are_played_and_compared() -> None:
    code, text = invoke("repeat", "--adapter", "python-reference", "--times", "3", "--case", "races/lr-001")
    assert (code, text) == (0, "3 of 3 repetitions passed; 1 of 1 cases with one trace\n")


def test_the_page_of_repetitions_has_one_row_for_each_way(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    common = ("--adapter", "python-reference", "--case", "races/lr-001", "--case", "races/lr-013", "-j", "2")
    for times in ("2", "3"):
        invoke("repeat", *common, "--times", times, "--page", str(page))
    invoke("repeat", *common, "--times", "1", "--backend", "trio", "--page", str(page))
    assert page.read_text(encoding="utf-8").splitlines()[-2:] == [
        "| python-reference asyncio | seed | 2 | 3 | 6 of 6 | 2 | none |",
        "| python-reference trio | seed | 2 | 1 | 2 of 2 | 2 | none |",
    ]
    several = Repeated("races/x", "seed", {"PASS": 3}, traces=2, free=True)
    assert str(Row("a", "seed", 3, (several,))) == "| a | seed | 1 | 3 | 3 of 3 | 0 | `races/x` 2 |"
