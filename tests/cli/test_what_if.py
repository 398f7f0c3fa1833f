"""`loopspec what-if`: the question that every reviewer asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from loopconform.cli import main


def asked(*words: str) -> Result:
    return CliRunner().invoke(main, ["what-if", *words])


def test_every_outcome_comes_with_a_run_a_picture_and_a_replay(tmp_path: Path) -> None:
    page, folder, data = tmp_path / "page.md", tmp_path / "replays", tmp_path / "data.json"
    question = ("abort", "steer", "idle", "--profile", "dsh-0.1")
    result = asked(*question, "--output", str(page), "--replays", str(folder), "--json", str(data))
    assert result.exit_code == 0, result.output
    outcomes = json.loads(data.read_text())["outcomes"]
    assert len(outcomes) == 5
    text = page.read_text()
    for number, one in enumerate(outcomes, 1):
        assert f"{number}. {one['meaning']}" in result.output
        assert f"## {one['meaning']}" in text
    assert text.count("```mermaid\nsequenceDiagram\n") == len(outcomes)
    files = sorted(folder.glob("*.json"))
    assert files
    assert len(files) + result.output.count("has no replay") == len(outcomes)
    law = "python-reference:dsh-0.1"
    played = CliRunner().invoke(main, ["conform", "replay", *map(str, files), "--adapter", law])
    assert played.exit_code == 0, played.output
    assert played.output.count("PASS") == len(files)


def test_what_was_explored_is_said() -> None:
    result = asked("chunk", "cancel", "step/end", "--set", "messages=1", "--set", "turns=1")
    assert result.exit_code == 0
    assert "messages 1, cancel user 1, turns 1" in result.output
    assert "explored completely" in result.output
    assert "The turn ends aborted by user." in result.output


def test_there_may_be_more_outcomes_when_something_was_cut_off() -> None:
    beyond = asked("abort", "steer", "idle", "--set", "turns=1")
    assert (beyond.exit_code, "lie beyond the bound" in beyond.output) == (3, True)
    short = asked("abort", "steer", "idle", "--max-states", "1000")
    assert (short.exit_code, "NOT complete" in short.output) == (3, True)


def test_what_does_not_happen_is_said() -> None:
    result = asked("abort", "turn/start", "idle", "--set", "messages=1", "--set", "turns=1")
    assert result.exit_code == 1
    assert "This does not happen within the bound." in result.output


@pytest.mark.parametrize("words", [(), ("abort", "stear"), ("steer", "--set", "wishes=1"), ("steer", "--set", "x")])
def test_a_question_that_nobody_can_put_is_wrong_usage(words: tuple[str, ...]) -> None:
    assert asked(*words).exit_code == 2


def test_the_moments_are_listed() -> None:
    result = asked("--moments")
    assert result.exit_code == 0
    assert "steering is sent, and wakes the agent" in result.output
