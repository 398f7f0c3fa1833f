"""The checker on real logs, broken real logs, and the field cases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.logs import corpus
from tests.logs.bad import CASES, Bad
from tests.logs.building import legal, many_turns, render

from loopconform.check import Options, check_file, run
from loopconform.findings import FileReport

REAL_LOGS = sorted(path for path in corpus.REAL.iterdir() if path.name.endswith((".jsonl", ".jsonl.zstd")))
TORN = {"09c-torn-tail.jsonl.zstd": 0, "09e-torn-multi-frame.jsonl.zstd": 23}
"""Torn artifacts, and how many event rows `zstdcat` still gives of them."""
MUTATIONS = corpus.mutations()


def _rules(report: FileReport, levels: str = "EW") -> set[str]:
    return {found.rule for found in report.findings if found.level in levels}


@pytest.mark.parametrize("path", REAL_LOGS, ids=lambda path: path.name)
def test_real_logs_are_clean(path: Path) -> None:
    report = check_file(path)
    if path.name in TORN:
        assert report.verdict == "torn"
        assert report.rows == TORN[path.name]
        assert _rules(report) - {"S-LNT-54"} == {"S-LNT-6"}
        assert f"{TORN[path.name]} event rows survive" in " ".join(found.reason for found in report.findings)
    elif path.name.startswith("09a"):
        assert report.verdict == "warnings"
        assert [found.rule for found in report.findings] == ["S-LNT-54"]
    else:
        assert report.verdict == "clean"
        assert _rules(report) == set()


def test_all_real_logs_were_looked_at() -> None:
    assert len(REAL_LOGS) == 49


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation["name"])
def test_mutated_logs(mutation: dict[str, Any], tmp_path: Path) -> None:
    report = check_file(corpus.write(mutation, tmp_path))
    if not mutation["expect"]:
        assert not [found for found in report.findings if found.level == "E"]
        assert report.verdict == "clean"
    missing = set(mutation["expect"]) - {found.rule for found in report.findings}
    assert not missing


DUE_ELSEWHERE = {
    "no-header": "the missing header is due at the first chunk",
    "result-without-call": "the missing call is due at its result",
    "no-step-end": "the missing step/end is due at the next step/start",
    "call-without-result": "the missing result is due at step/end",
    "compaction-no-end": "the missing end is due at the turn's end",
    "compaction-no-summary": "the missing summary is due at the compaction's end",
    "end-seed-twice": "rows were renumbered behind the change",
    "chunk-delta-unopened": "rows were renumbered behind the removed row; the first delta is blamed",
    "header-wrong-id": "the header is right, the directory is not",
    "open-turn-tail": "rows were only removed",
    "torn-last-line": "S-LNT-54 speaks about the row before the torn one",
    "identity": "nothing was changed",
}
"""Mutations whose finding cannot stand at a changed row, with the reason."""
LINE_LEVEL = [item for item in MUTATIONS if not corpus.is_zstd(item["name"]) and item["name"] not in DUE_ELSEWHERE]


@pytest.mark.parametrize("mutation", LINE_LEVEL, ids=lambda mutation: mutation["name"])
def test_the_mutated_line_is_blamed(mutation: dict[str, Any], tmp_path: Path) -> None:
    report = check_file(corpus.write(mutation, tmp_path))
    changed = corpus.changed_lines(mutation)
    for rule in mutation["expect"]:
        blamed = [found.line for found in report.findings if found.rule == rule]
        assert set(blamed) & set(changed), f"{rule} blames {blamed}, changed were {changed[:10]}"
    errors = [found.line for found in report.findings if found.level == "E"]
    assert not errors or min(errors) >= changed[0]


def test_exceptions_exist() -> None:
    assert {item["name"] for item in MUTATIONS} >= set(DUE_ELSEWHERE)


@pytest.mark.parametrize(
    ("name", "rule", "line"),
    [
        ("result-without-call", "S-LNT-69", 54),
        ("no-header", "S-LNT-77", 9),
        ("no-step-end", "S-LNT-50", 62),
        ("call-without-result", "S-LNT-71", 62),
    ],
)
def test_missing_rows_are_blamed_where_they_are_due(name: str, rule: str, line: int, tmp_path: Path) -> None:
    mutation = next(item for item in MUTATIONS if item["name"] == name)
    report = check_file(corpus.write(mutation, tmp_path))
    assert line in [found.line for found in report.findings if found.rule == rule]


# -- field cases -------------------------------------------------------------------------------------------------


def _field(name: str) -> FileReport:
    return check_file(next(path for path in corpus.FIELD.iterdir() if path.name == name))


def _only(name: str) -> Any:
    report = _field(name)
    assert len(report.findings) == 1, report.findings
    return report.findings[0]


@pytest.mark.parametrize(
    "name",
    [
        "K24-line-separators.ok.v0.jsonl",
        "K26-clock-in-snapshot.v0.jsonl",
        "K26-clock-in-system.v0.jsonl",
        "K28-sliding-prune.v0.jsonl",
        "K32-checkpoint-behind-batch.ok.v0.jsonl",
    ],
)
def test_legal_field_cases(name: str) -> None:
    assert _field(name).verdict == "clean"


def test_k15_skipped_calls_in_a_live_turn() -> None:
    report = _field("K15-sibling-cancelled-in-live-turn.bad.v0.jsonl")
    rows, run_of_it = report.findings[:2], report.findings[2:]
    assert [(found.rule, found.line) for found in rows] == [("S-LNT-75", 24), ("S-LNT-75", 26)]
    assert all("not aborted" in found.reason for found in rows)
    # and no run skips calls in a live turn: the next step cannot open
    assert [(found.rule, found.line) for found in run_of_it] == [("S-ACC-1", 28)]
    assert "`aborted`" in run_of_it[0].reason


def test_k17_stray_packed_rows() -> None:
    found = _only("K17-stray-packed-rows-after-turn-end.bad.v0.jsonl")
    assert (found.rule, found.level, found.line) == ("S-LNT-17", "E", 17)
    assert "Corrupt" in found.reason
    assert found.legal == "Without lines 17 and 18 the file is legal."


def test_k17_is_legal_without_the_strays(tmp_path: Path) -> None:
    lines = (corpus.FIELD / "K17-stray-packed-rows-after-turn-end.bad.v0.jsonl").read_bytes().splitlines(keepends=True)
    path = tmp_path / "healed.jsonl"
    path.write_bytes(b"".join(lines[:16] + lines[18:]))
    # the strays are gone, so only the clock of the hand-made file still jumps
    assert {(found.rule, found.line) for found in check_file(path).findings} == {("S-LNT-19", 18)}


def test_k19_crash_in_a_tool() -> None:
    found = _only("K19-crash-mid-tool.v0.jsonl")
    assert found.rule == "S-LNT-54"
    closers = ("c2 (TOOL_OUTCOME_UNKNOWN)", "c3 (TOOL_NOT_STARTED)", "step/end", "turn/end interrupted")
    places = [found.reason.index(closer) for closer in closers]
    assert places == sorted(places)


def test_k19_forgotten_calls() -> None:
    found = _only("K19-forgotten-call.bad.v0.jsonl")
    assert (found.rule, found.line) == ("S-LNT-44", 26)
    assert "Never answered: c2, c3" in found.reason


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zstd"])
def test_k21_two_processes(suffix: str) -> None:
    found = _only(f"K21-two-processes.bad.v0{suffix}")
    assert (found.rule, found.line) == ("S-LNT-17", 31)
    assert found.legal == "The rows from line 31 on are legal when renumbered by one."
    assert "line 30" in found.reason
    assert "forks" in found.reason
    if suffix.endswith("zstd"):
        data = (corpus.FIELD / f"K21-two-processes.bad.v0{suffix}").read_bytes()
        magic = b"\x28\xb5\x2f\xfd"
        fourth = [at for at in range(len(data)) if data[at : at + 4] == magic][3]
        assert (found.frame, found.offset) == (4, fourth)
        assert f"frame 4 at byte offset {fourth}" in found.reason


def test_k24_welded_rows() -> None:
    found = _only("K24-welded-rows.bad.v0.jsonl")
    line = (corpus.FIELD / "K24-welded-rows.bad.v0.jsonl").read_text("utf-8").split("\n")[13]
    column = line.rindex('{"type":"assistant/message"') + 1
    assert (found.rule, found.line, found.column) == ("S-LNT-7", 14, column)
    assert f"a second JSON object begins at column {column} and is row seq 12" in found.reason


def test_k24_two_rows_on_one_line() -> None:
    found = _only("K24-two-rows-on-one-line.bad.v0.jsonl")
    assert (found.rule, found.line) == ("S-LNT-7", 14)
    assert "is row seq 13; both halves are sound" in found.reason


def test_k24_raw_newlines() -> None:
    report = _field("K24-raw-newlines.bad.v0.jsonl")
    assert [(found.rule, found.line) for found in report.findings] == [("S-LNT-7", line) for line in (10, 13, 18)]
    assert all("string not closed" in found.reason for found in report.findings)


def test_k32_checkpoint_inside_a_batch() -> None:
    found = _only("K32-checkpoint-inside-batch.bad.v0.jsonl")
    assert (found.rule, found.level, found.line) == ("S-LNT-106", "E", 52)
    assert "result of c2" in found.reason


def test_k37_empty_call_id() -> None:
    report = _field("K37-empty-call-id.bad.v0.jsonl")
    assert [found.line for found in report.findings if found.rule == "S-LNT-67"] == [14]


# -- other corpora, read in place --------------------------------------------------------------------------------


def _shared(folder: str) -> list[Path]:
    return sorted((corpus.SHARED / folder).rglob("*.jsonl"))


needs_snapshots = pytest.mark.skipif(
    not _shared("v4-snapshots"), reason="the format 4 snapshots may not be copied and are not here"
)
needs_old = pytest.mark.skipif(
    not _shared("old-formats"), reason="the logs of older formats may not be copied and are not here"
)


@needs_snapshots
@pytest.mark.parametrize("path", _shared("v4-snapshots"), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_format_4_snapshots_raise_no_alarm(path: Path) -> None:
    report = check_file(path, Options("snapshot"))
    assert report.verdict == "clean", report.findings
    assert report.events > 0


@needs_snapshots
def test_snapshots_are_not_accepted_as_ordinary_logs() -> None:
    report = check_file(_shared("v4-snapshots")[0])
    assert "S-LNT-17" in _rules(report, "E")


@needs_snapshots
def test_snapshot_forks_equal_their_parents() -> None:
    folder = corpus.SHARED / "v4-snapshots" / "subagent-fork-in-process"
    report = run([folder], Options("snapshot"))
    assert [item.verdict for item in report.files] == ["clean", "clean"]


@needs_old
def test_old_format_0_fixture() -> None:
    path = corpus.SHARED / "old-formats" / "released-v0-real-shapes.jsonl"
    report = check_file(path, Options(accept=False))
    assert _rules(report, "E") == set()
    assert _rules(report, "W") == {"S-LNT-56", "S-LNT-108"}
    # a fixture of shapes without an inbox: no loop ever wrote it
    assert [(found.rule, found.line) for found in check_file(path).findings if found.level == "E"] == [("S-ACC-1", 2)]


@needs_old
@pytest.mark.parametrize("name", ["slice-alpha2-session.v2.jsonl", "slice-v3-session.v3.jsonl"])
def test_older_formats_are_named_and_not_read(name: str) -> None:
    path = corpus.SHARED / "old-formats" / name
    report = check_file(path)
    assert report.verdict == "unsupported"
    assert [found.rule for found in report.findings] == ["S-LNT-11"]
    assert "older format, not supported" in report.findings[0].reason
    assert run([path]).exit_code() == 2


# -- made logs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 4])
def test_made_logs_are_clean(version: int, tmp_path: Path) -> None:
    path = tmp_path / "made.jsonl"
    for rows in (legal(version).rows, many_turns(version, 5, 7).rows):
        path.write_bytes(render(rows))
        assert check_file(path).findings == ()


@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_minimal_bad_logs(make: Any, tmp_path: Path) -> None:
    bad: Bad = make()
    path = tmp_path / "bad.jsonl"
    path.write_bytes(render(bad.rows))
    lines = [found.line for found in check_file(path).findings if found.rule == bad.rule]
    assert bad.line in lines


def test_rules_that_bind_only_our_logs_are_warnings_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    for name in ("v4-results-in-the-wrong-order", "user-message-inside-a-batch"):
        path.write_bytes(render(CASES[name]().rows))
        assert check_file(path, Options(accept=False)).verdict == "findings"
        assert check_file(path, Options("dsh-0.1", accept=False)).verdict == "warnings"
