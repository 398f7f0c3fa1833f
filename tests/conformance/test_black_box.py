"""Level L1: agents that are seen from outside only. The good one is our own `loopspec chat`; the others misbehave."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from loopconform.black_box.drive import Command, Seen, drive
from loopconform.black_box.judge import CHECKS, judge, run
from loopconform.black_box.scenario import BadScenario, Scenario, load_scenarios

FOLDER = Path(__file__).parents[2] / "conformance" / "cases" / "black-box"
SCENARIOS = {scenario.id: scenario for scenario in load_scenarios([FOLDER])}
CHAT = f"{Path(sys.executable).parent / 'loopspec'} chat --base-url {{url}}"
COMMAND = Command(CHAT + " --out {log} --once {say}", CHAT + " --resume {log} --once {say}")
CALLS = SCENARIOS["two-unknown-tools"]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What our own agent does with two calls of tools that nobody has."""
    return anyio.run(drive, CALLS, COMMAND, tmp_path_factory.mktemp("agent"), 60.0)


def test_our_own_agent_passes_every_check(seen: Seen) -> None:
    judged = judge(CALLS, seen, "seed")
    assert (judged.verdict, judged.passed) == ("PASS", CHECKS)
    assert len(seen.requests) == 2


def rewritten(seen: Seen, folder: Path, change: Any) -> Seen:
    """The same with another log: `change` gets the rows and answers them changed."""
    assert seen.log is not None
    rows = [json.loads(line) for line in seen.log.read_text("utf-8").splitlines()]
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in change(rows)), "utf-8")
    return seen._replace(log=path)


def without_result(rows: list[Any]) -> list[Any]:
    at = next(at for at, row in enumerate(rows) if row.get("type") == "tool/result")
    return rows[:at] + rows[at + 1 :]


def other_answer(rows: list[Any]) -> list[Any]:
    """The results hold another text than the one that the model was told."""
    text = json.dumps(rows).replace('unknown tool \\"neither-this\\"', 'unknown tool \\"other\\"')
    changed: list[Any] = json.loads(text)
    assert changed != rows
    return changed


@pytest.mark.parametrize(
    ("change", "failed"), [(without_result, "log"), (other_answer, "history")], ids=["result lost", "text changed"]
)
def test_a_changed_log_fails(seen: Seen, tmp_path: Path, change: Any, failed: str) -> None:
    judged = judge(CALLS, rewritten(seen, tmp_path, change), "seed")
    assert (judged.verdict, judged.failed) == ("FAIL", failed)
    assert judged.clause
    assert judged.reason


def dropping_last(requests: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    return requests[:-1]


def asking_twice(requests: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    return (requests[0], *requests)


def another_beginning(requests: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    """The second request is as the log says, the first one is not its beginning."""
    first = {**requests[0], "messages": [*requests[0]["messages"], {"role": "user", "content": "not in the log"}]}
    return (first, *requests[1:])


@pytest.mark.parametrize(
    ("change", "failed"), [(dropping_last, "requests"), (asking_twice, "requests"), (another_beginning, "history")]
)
def test_changed_requests_fail(seen: Seen, change: Any, failed: str) -> None:
    judged = judge(CALLS, seen._replace(requests=change(seen.requests)), "seed")
    assert (judged.verdict, judged.failed) == ("FAIL", failed)


def test_a_request_that_is_no_prefix_fails(seen: Seen) -> None:
    """A third request that forgets everything, behind two that the log explains."""
    forgetful = {**seen.requests[0], "messages": [{"role": "user", "content": "again"}]}
    scenario = CALLS.model_copy(update={"requests": 3})
    judged = judge(scenario, seen._replace(requests=(*seen.requests, forgetful)), "seed")
    assert (judged.verdict, judged.failed, judged.clause) == ("FAIL", "prefix", "L-REQ-16")


def test_a_turn_that_ended_otherwise_fails(seen: Seen) -> None:
    scenario = CALLS.model_copy(update={"ends": ("max-tokens",)})
    judged = judge(scenario, seen, "seed")
    assert (judged.verdict, judged.failed) == ("FAIL", "turns")


def python(code: str) -> Command:
    return Command(f"{sys.executable} -c '{code}' {{url}} {{say}} {{log}}")


@pytest.mark.parametrize(
    ("command", "failed", "words"),
    [
        (python("import threading; threading.Event().wait()"), "ended", "did not end"),
        (python("print(1)"), "log", "no session log"),
        (python("while True: print(0)"), "ended", "did not end"),
        (Command("/no/such/agent {url}"), "ended", "cannot be started"),
    ],
    ids=["silent", "without log", "flooding", "missing"],
)
def test_hostile_agents_are_no_verdict(command: Command, failed: str, words: str) -> None:
    (judged,) = run([SCENARIOS["one-answer"]], command, "seed", limit=1)
    assert (judged.verdict, judged.failed) == ("ADAPTER_ERROR", failed)
    assert words in judged.reason


def test_a_log_that_is_none_fails() -> None:
    writes = python('import sys; open(sys.argv[3], "w").write("{}")')
    (judged,) = run([SCENARIOS["one-answer"]], writes, "seed", limit=20)
    assert (judged.verdict, judged.failed) == ("FAIL", "log")


def test_a_second_life_needs_a_second_command() -> None:
    (judged,) = run([SCENARIOS["two-lives"]], Command("true"), "seed")
    assert judged.verdict == "NOT_IMPLEMENTED"


def test_a_bad_scenario_says_where(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("- {id: X}\n")
    with pytest.raises(BadScenario, match=r"bad\.yaml: id: "):
        list(load_scenarios([tmp_path]))


def test_every_scenario_names_its_clauses() -> None:
    assert len(SCENARIOS) >= 10
    assert all(isinstance(scenario, Scenario) and scenario.clauses for scenario in SCENARIOS.values())
