"""Real session logs are behaviours of the TLA+ model; damaged ones are refused where they are damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from click.testing import CliRunner
from tests.harness import test_golden_traces as golden
from tests.logs.corpus import SHARED
from tests.logs.generated import stored

from loopconform.cli import main
from loopconform.commands.trace_check import followed_in, traces_in
from loopconform.mutants import matrix
from loopconform.protocol.requests import Do
from loopconform.reader import ReadRow, read
from loopconform.replays.traces import write
from loopconform.runner.channel import InsideChannel
from loopconform.runner.play import Player
from loopconform.tla.follow import Verdict, check, printed_in, told
from loopconform.tla.instances import TLA
from loopconform.tla.tlc import read_run
from loopconform.tla.trace import Row, Trace, Unreadable, traces_of
from loopspec.log.state import OPAQUE_ID
from loopspec.profile import law

LOGS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
MODEL = pytest.mark.skipif(not (TLA / "TraceLoop.tla").is_file(), reason="there is no model of the driver")
REAL = sorted(LOGS.glob("*.jsonl"))

Rows = list[dict[str, Any]]


def rows_of(name: str) -> Rows:
    """The rows of one of the real logs."""
    return [row.value for row in read(LOGS / name) if isinstance(row, ReadRow) and row.value is not None]


def without(kind: str) -> Callable[[Rows], Rows]:
    """The rows without the first of a kind."""

    def changed(rows: Rows) -> Rows:
        at = next(at for at, row in enumerate(rows) if row["type"] == kind)
        return rows[:at] + rows[at + 1 :]

    return changed


def swapped(one: str, other: str) -> Callable[[Rows], Rows]:
    """The rows with the first of a kind exchanged with the first of another."""

    def changed(rows: Rows) -> Rows:
        at = next(at for at, row in enumerate(rows) if row["type"] == one)
        to = next(at for at, row in enumerate(rows) if row["type"] == other)
        rows = list(rows)
        rows[at], rows[to] = rows[to], rows[at]
        return rows

    return changed


def exchanged(kind: str) -> Callable[[Rows], Rows]:
    """The rows with the first two of a kind in each other's place."""

    def changed(rows: Rows) -> Rows:
        one, other = [at for at, row in enumerate(rows) if row["type"] == kind][:2]
        rows = list(rows)
        rows[one], rows[other] = rows[other], rows[one]
        return rows

    return changed


def twice(kind: str) -> Callable[[Rows], Rows]:
    """The rows with the first of a kind standing there two times."""

    def changed(rows: Rows) -> Rows:
        at = next(at for at, row in enumerate(rows) if row["type"] == kind)
        return rows[: at + 1] + rows[at:]

    return changed


def ended(kind: str) -> Callable[[Rows], Rows]:
    """The rows with another reason of the first end of a turn."""

    def changed(rows: Rows) -> Rows:
        at = next(at for at, row in enumerate(rows) if row["type"] == "turn/end")
        end = {**rows[at], "data": {**rows[at]["data"], "reason": {"kind": kind}}}
        return [*rows[:at], end, *rows[at + 1 :]]

    return changed


SIMPLE, TOOLS = "01-simple-turn.jsonl", "03-tools-parallel.jsonl"

FAULTS: dict[str, tuple[str, Callable[[Rows], Rows], str, str]] = {
    "an admission is missing": (
        SIMPLE,
        without("user/message"),
        "request/header",
        "no action writes request/header here",
    ),
    "a header is missing": (
        SIMPLE,
        without("request/header"),
        "request/context",
        "no action writes request/context here",
    ),
    "a step is not closed": (SIMPLE, without("step/end"), "turn/end", "no action writes turn/end here"),
    "order of step and turn": (SIMPLE, swapped("step/end", "turn/end"), "turn/end", "no action writes turn/end here"),
    "an end that was not": (
        SIMPLE,
        ended("blocked"),
        "turn/end",
        'of turn/end argument 2 must be "completed", the log has "blocked"',
    ),
    "an anchor is missing": (SIMPLE, without("assistant/message"), "step/end", ""),
    "results are swapped": (
        TOOLS,
        exchanged("tool/result"),
        "tool/result",
        "of tool/result argument 1 must be 1, the log has 2",
    ),
    "a call has two results": (TOOLS, twice("tool/result"), "tool/result", "argument 1 must be 2, the log has 1"),
    "a result is missing": (TOOLS, without("tool/result"), "tool/result", "argument 1 must be 1, the log has 2"),
    "a call is missing": (TOOLS, without("tool/call"), "tool/call", "argument 1 must be 1, the log has 2"),
}
"""What is done to a turn, the row that must be refused, and the words about it."""


def trace(rows: Rows, name: str = "x") -> Trace:
    """The only trace of some rows."""
    (found,) = traces_of(name, rows[0], enumerate(rows[1:], 2))
    return found


CASES = (
    "cancel/mid-stream", "inbox/replace-and-remove", "tools/contexts-and-conclusion", "tools/exclusive-barrier",
    "tools/model-order", "turn/maintenance", "turn/refused-opening", "wake/latch",
)  # fmt: skip
"""Cases whose traces are followed in format 0."""

LATER_CASES = ("tools/completed-result-refused", "tools/completed-last-completion-refused")
"""Cases whose traces are followed in format 4."""


def traces_of_cases(ids: tuple[str, ...], profile: str, place: Path) -> dict[str, list[Trace]]:
    """The traces that the conformance runner writes of some cases, played on the reference, by case."""
    cases = matrix.cases_by_id(set(ids))
    player = Player(InsideChannel, 30.0)
    found: dict[str, list[Trace]] = {}
    try:
        for id in ids:
            result = player.play(cases[id], profile)
            assert result.verdict == "PASS", result.reason
            files = write(result, place)
            found[id] = [trace for file in files for trace in followed_in(file, "dsh-0.1")[2]]
    finally:
        player.close()
    return found


def altered(trace: Trace, change: Callable[[list[Row]], list[Row]]) -> Trace:
    """The trace with other rows."""
    return replace(trace, rows=change(list(trace.rows)))


def lacking(*label: Any) -> Callable[[list[Row]], list[Row]]:
    """The rows without the first whose label begins like this."""

    def changed(rows: list[Row]) -> list[Row]:
        at = next(at for at, row in enumerate(rows) if row.label[: len(label)] == label)
        return rows[:at] + rows[at + 1 :]

    return changed


def results_swapped(rows: list[Row]) -> list[Row]:
    """The rows with the first two results in each other's place."""
    one, other = [at for at, row in enumerate(rows) if row.label[1] == "tool/result"][:2]
    rows[one], rows[other] = rows[other], rows[one]
    return rows


TRACE_FAULTS: dict[str, tuple[Callable[[list[Row]], list[Row]], tuple[Any, ...]]] = {
    "results are swapped": (results_swapped, ("append", "tool/result", 2, "success")),
    "a step is not closed": (lacking("append", "step/end"), ("append", "step/start", 1, 2)),
    "a record is dropped": (lacking("append", "agent/inbox/spliced"), ("notify", "agent/inbox/inserted", 1)),
    "an event is dropped": (lacking("notify", "agent/inbox/claimed"), ("append", "step/start", 1, 1)),
}
"""What is done to the trace of `tools/model-order`, and the row at which TLC is stuck."""


def golden_traces() -> list[Trace]:
    """The logs of the golden traces G1 to G6, under the law of published loops."""
    written: list[Rows] = []

    def keeping(*arguments: Any) -> Rows:
        written.append(stored(*arguments))
        return written[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(golden, "stored", keeping)
        for name, play in vars(golden).items():
            if name.startswith("test_g"):
                anyio.run(play, "dsh-0.1")
    return [trace(rows, f"G{number}") for number, rows in enumerate(written, 1)]


class Followed(NamedTuple):
    """What came of everything in format 0: whole logs and traces, and damaged ones by the name of the fault."""

    logs: list[Verdict]
    golden: list[Verdict]
    cases: list[Verdict]
    damaged_logs: dict[str, Verdict]
    damaged_traces: dict[str, Verdict]


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """All of it, in one run of TLC (and the refused ones in a second)."""
    logs = [one for file in REAL for one in traces_in(file)[1]]
    cases = traces_of_cases(CASES, "dsh-0.1", tmp_path_factory.mktemp("traces"))
    observed = [one for found in cases.values() for one in found]
    (order,) = cases["tools/model-order"]
    broken = [trace(change(rows_of(name))) for name, change, _, _ in FAULTS.values()]
    altered_ones = [altered(order, change) for change, _ in TRACE_FAULTS.values()]
    whole = golden_traces()
    verdicts = iter(check([*logs, *whole, *observed, *broken, *altered_ones], law("dsh-0.1")))
    return Followed(
        [next(verdicts) for _ in logs],
        [next(verdicts) for _ in whole],
        [next(verdicts) for _ in observed],
        {name: next(verdicts) for name in FAULTS},
        {name: next(verdicts) for name in TRACE_FAULTS},
    )


@MODEL
@pytest.mark.tlc
def test_real_logs_golden_traces_and_traces_of_cases_are_behaviours_of_the_model(followed: Followed) -> None:
    assert len(followed.logs) > len(REAL)
    assert all(one.trace.rows and one.trace.events for one in followed.cases)
    assert len(followed.golden) >= 6
    for whole, least in ((followed.logs, 500), (followed.golden, 70), (followed.cases, 150)):
        assert [told(one.trace.name, one) for one in whole if not one.accepted] == []
        assert sum(one.explained for one in whole) == sum(len(one.trace.rows) for one in whole) > least


@MODEL
@pytest.mark.tlc
@pytest.mark.parametrize("name", list(FAULTS))
def test_a_damaged_log_is_refused_where_it_is_damaged(name: str, followed: Followed) -> None:
    verdict = followed.damaged_logs[name]
    _, _, refused, words = FAULTS[name]
    assert verdict.row is not None
    assert verdict.row.label[1] == refused
    assert words in verdict.reason()
    assert verdict.candidates
    assert told("x", verdict)[0].startswith("REFUSED   x: line ")


@MODEL
@pytest.mark.tlc
@pytest.mark.parametrize("name", list(TRACE_FAULTS))
def test_a_damaged_trace_is_refused_where_it_is_damaged(name: str, followed: Followed) -> None:
    verdict = followed.damaged_traces[name]
    assert verdict.row is not None
    assert verdict.row.label == TRACE_FAULTS[name][1]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    torn = LOGS / "09c-torn-tail.jsonl.zstd"
    (tmp_path / "no.jsonl").write_text("{}\n")
    result = CliRunner().invoke(main, ["trace-check", str(torn), str(tmp_path / "no.jsonl")])
    assert result.exit_code == 2
    assert "damaged" in result.output
    assert "does not begin with a session header" in result.output
    rows = rows_of("01-simple-turn.jsonl")
    rows[2] = {**rows[2], "data": {"turn": 5}}
    with pytest.raises(Unreadable, match="line 3: turn/start cannot stand here: turn 1 comes next"):
        trace(rows)


def test_drivers_of_a_log() -> None:
    """A restart begins another driver; the closers of a repair stand outside of both."""
    (first, second, third) = traces_in(LOGS / "08-resume.jsonl")[1]
    assert [one.turn for one in (first, second, third)] == [0, 1, 2]
    before, after = traces_in(LOGS / "09b-crash-repaired.jsonl")[1]
    assert before.rows[-1].label[1] == "tool/call"
    assert after.rows[0].label[:2] == ("append", "agent/inbox/spliced")


def test_what_a_row_says_of_its_turn() -> None:
    rows = trace(rows_of("01-simple-turn.jsonl")).rows
    (opened,) = [row for row in rows if row.label[1] == "step/start"]
    assert opened.batch == (1,)
    assert not opened.fails
    assert opened.cancels == frozenset()
    cancelled = traces_in(LOGS / "04-cancel-mid-stream.jsonl")[1][0].rows
    anchor = next(row for row in cancelled if row.label[1:] == ("assistant/message", "interrupted"))
    assert anchor.cancels == {"user"}
    assert anchor.fails


def test_what_a_model_prints() -> None:
    output = '<<"explained", 1, 3>>\n<<"candidate", 1, <<"append",\n  "turn/end", 1>>>>\nnoise\n'
    done = read_run(output, 0)
    assert list(printed_in(done)) == [("explained", 1, 3), ("candidate", 1, ("append", "turn/end", 1))]
    assert Verdict(Trace("x"), 0).accepted


SNAPSHOTS = sorted((SHARED / "v4-snapshots").glob("*/*.v4.jsonl"))
EXAMPLES = Path(__file__).parents[2] / "examples"
PLAYED = ("cancel-mid-stream", "crash", "hello", "retry", "steer-and-queue", "tools")


@MODEL
@pytest.mark.tlc
def test_what_is_written_in_format_4_is_a_behaviour_of_the_model(tmp_path: Path) -> None:
    """By the command, in one run of TLC: what the examples leave behind, the traces of cases, some logs of published
    packages where they lie; and a log without its last anchor, which is refused."""
    for name in PLAYED:
        file = tmp_path / f"{name}.jsonl"
        played = CliRunner().invoke(
            main, ["run", str(EXAMPLES / f"{name}.yaml"), "--format", "4", "--out", str(file), "--profile", "seed"]
        )
        assert played.exit_code == 0, played.output
        version, traces = traces_in(file)
        assert (version, len(traces)) == (4, 1), name
    hello = (tmp_path / "hello.jsonl").read_text().splitlines(keepends=True)
    broken = tmp_path / "broken.jsonl"
    broken.write_text("".join(line for line in hello if '"type":"assistant/message"' not in line))
    traces_of_cases(LATER_CASES, "seed", tmp_path)
    result = CliRunner().invoke(main, ["trace-check", "--profile", "seed", str(tmp_path), *map(str, SNAPSHOTS[:8])])
    assert result.exit_code == 1, result.output
    told_ones = [line for line in result.output.splitlines() if not line.startswith("  ")]
    assert sorted(line.split()[0] for line in told_ones if "ACCEPTED" not in line) == ["REFUSED"], result.output
    assert len(told_ones) >= len(PLAYED) + len(LATER_CASES) + 1 + len(SNAPSHOTS[:8])
    (refused,) = (line for line in told_ones if line.startswith("REFUSED"))
    assert f"{broken}: line" in refused
    assert "step/end 1 1" in refused


@pytest.mark.skipif(not SNAPSHOTS, reason=f"the corpus of logs in format 4 is not at {SHARED}; set LOOPSPEC_CORPUS")
def test_snapshots_whose_messages_have_no_names_are_undecided() -> None:
    """They are named, and not refused."""
    unnamed = [file for file in SNAPSHOTS if '"id":"{{messageId}}"' in file.read_text()]
    assert len(unnamed) == 3
    result = CliRunner().invoke(main, ["trace-check", *map(str, unnamed)])
    assert result.exit_code == 3
    assert result.output.count("UNDETERMINED") == 3
    assert result.output.count("no message can be told from another") == 3


def test_messages_without_names_leave_a_log_undecided() -> None:
    """The placeholder of a test's snapshot stands for every message id."""
    text = json.dumps(rows_of(SIMPLE))
    for id in {row["data"]["id"] for row in rows_of(SIMPLE) if row["type"] == "user/message"}:
        text = text.replace(id, OPAQUE_ID)
    (verdict,) = check([trace(json.loads(text))], law("dsh-0.1"))
    assert (verdict.accepted, verdict.refused, verdict.row) == (False, False, None)
    assert told("x", verdict) == [
        f"UNDETERMINED x: its message ids are all the placeholder {OPAQUE_ID}, so no message can be told from another"
    ]


def test_agents_that_go_on_from_a_log_are_undecided(tmp_path: Path) -> None:
    case = matrix.cases_by_id({"tools/model-order"})["tools/model-order"]
    player = Player(InsideChannel, 30.0)
    try:
        result = player.play(case, "seed")
    finally:
        player.close()
    restart = Do.model_validate({"verb": "do", "ops": [{"op": "restart"}]})
    other = case.model_copy(update={"program": (*case.program, restart)})
    (file,) = write(result._replace(case=other), tmp_path)
    profile, version, (one,) = followed_in(file, "dsh-0.1")
    assert (profile, version) == ("seed", 0)
    assert one.undecided == "an agent goes on from a stored log, which the trace does not show"
    (file,) = write(result._replace(transcript=result.transcript * 500), tmp_path)[:1]
    assert "the transcript ends" in followed_in(file, "dsh-0.1")[2][0].undecided


def test_the_runner_writes_traces(tmp_path: Path) -> None:
    arguments = ["--adapter", "python-reference", "--case", "smoke/tool", "--traces", str(tmp_path / "x")]
    done = CliRunner().invoke(main, ["conform", *arguments])
    assert done.exit_code == 0, done.output
    (file,) = (tmp_path / "x").iterdir()
    assert file.name == "smoke.tool@seed.a1.jsonl"
    _, _, (one,) = followed_in(file, "dsh-0.1")
    assert {"agent/status", "agent/inbox/inserted", "agent/inbox/claimed"} <= one.events
    file.write_text(file.read_text() + "{")
    result = CliRunner().invoke(main, ["trace-check", str(tmp_path / "x")])
    assert result.exit_code == 2
    assert "is not JSON" in result.output
