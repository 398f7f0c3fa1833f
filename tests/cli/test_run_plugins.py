"""Scripts that mount file tools, permissions and compaction: what they can say, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.cli.test_run import ends, of, played


def test_a_command_that_takes_time_is_no_standstill(tmp_path: Path) -> None:
    """Everybody in the program waits; somebody outside does not."""
    script = """
    tools: [{files: ., only: [command]}]
    answers: [{calls: [{name: command, arguments: {command: "sleep 0.3; echo slow"}}]}, Done.]
    steps: [{followup: go}, {wait: idle}]
    """
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    assert of(rows, "tool/result")[0]["message"]["content"] == [{"type": "text", "text": "slow\n"}]


def test_a_question_can_be_held_and_cancelled(tmp_path: Path) -> None:
    script = """
    tools: [{files: ., only: [write]}]
    permissions: {answers: [{say: once, gate: asked}]}
    answers: [{calls: [{name: write, arguments: {path: x, content: ""}}]}]
    steps: [{followup: go}, {wait: gate asked}, {cancel: user}, {wait: idle}]
    """
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    assert [data["outcome"] for data in of(rows, "approval/decided")] == ["cancelled"]
    assert ends(rows) == ["aborted"]
    assert not (tmp_path / "x").exists()


def test_a_question_without_an_answer_is_a_fault(tmp_path: Path) -> None:
    script = """
    tools: [{name: look}]
    permissions: {answers: []}
    answers: [{calls: [{name: look}]}, Well.]
    steps: [{followup: go}, {wait: idle}]
    """
    result, rows = played(tmp_path, script)
    assert result.exit_code == 1
    assert "the script has no answer to the question about look" in " ".join(result.output.split())
    assert [data["outcome"] for data in of(rows, "approval/decided")] == ["rejected"]


def test_overflow_is_repaired_with_one_more_answer(tmp_path: Path) -> None:
    words = "word " * 400
    script = f"""
    compaction: {{prune: false}}
    model: {{context_window: 100000}}
    answers: [One., {{fail: {{message: too long, code: CONTEXT_WINDOW_EXCEEDED}}}}, A summary., Two.]
    steps: [{{followup: {words}}}, {{wait: idle}}, {{followup: more}}, {{wait: idle}}]
    """
    result, rows = played(tmp_path, script)
    assert result.exit_code == 0, result.output
    assert ends(rows) == ["completed", "completed"]
    assert [data.get("error") for data in of(rows, "compaction/end")] == [None]


BAD = [
    ("tools: [{files: nowhere}]", 2, "nowhere cannot be a root"),
    ("tools: [{files: ., only: [raed]}]", 2, "Did you mean read?"),
    ("tools: [{files: ., onyl: [read]}]", 2, "Did you mean only?"),
    ("tools: [{files: .}, {name: read}]", 2, 'tool "read" is already registered'),
    ("tools: [{files: .}, {files: .}]", 2, "is already registered"),
    ("tools: [{filse: .}]", 2, "'filse'"),
    ("permissions: {rules: [{tool: x, verdict: maybe}]}", 2, "not 'maybe'"),
    ("permissions: {answers: [perhaps]}", 2, "not 'perhaps'"),
    ("compaction: {retain_ratio: 0.9}", 2, "retainRatio must be at least 0 and below thresholdRatio"),
    ("compaction: {treshold_ratio: 0.9}", 2, "Did you mean threshold_ratio?"),
]


@pytest.mark.parametrize(("line", "number", "text"), BAD)
def test_what_makes_no_sense_is_refused_with_its_line(tmp_path: Path, line: str, number: int, text: str) -> None:
    result, rows = played(tmp_path, f"steps: [{{wait: idle}}]\n{line}\n")
    assert result.exit_code == 2, result.output
    assert f"talk.yaml:{number}" in result.output
    assert text in " ".join(result.output.split())
    assert rows == []
    assert os.listdir(tmp_path) == ["talk.yaml"]


SUBAGENTS = """
    subagents: {depth: 1, answers: [I am the helper.]}
    answers:
    - calls: [{name: delegate, arguments: {task: help}}]
    - text: Thanks.
    when:
    - {record: turn/start, nth: 2, do: [{inject: never}]}
    steps:
    - followup: hi
"""


def test_a_script_may_have_subagents_with_answers_of_their_own(tmp_path: Path) -> None:
    """Their records are none of the script's reactions, and their sessions are not written."""
    result, rows = played(tmp_path, SUBAGENTS)
    assert result.exit_code == 0, result.output
    assert ends(rows) == ["completed"]
    (call,) = of(rows, "tool/result")
    assert "I am the helper." in str(call)
    assert "never" not in str(rows)


def test_answers_for_subagents_are_counted_by_themselves(tmp_path: Path) -> None:
    result, _ = played(tmp_path, SUBAGENTS.replace("[I am the helper.]", "[]"))
    assert result.exit_code == 1
    assert "found no answer for subagents" in " ".join(result.output.split())
    result, _ = played(tmp_path, SUBAGENTS.replace("[I am the helper.]", "[One., Two.]"))
    assert "nobody asked for the last 1 of the answers" in " ".join(result.output.split())
