"""`retry:` in a script: the policy of the model's provider, and a random source that is written down."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from loopconform.cli import main

EXAMPLE = Path(__file__).parents[2] / "examples" / "retry-policy.yaml"


def test_the_example_waits_as_it_was_asked_and_then_as_the_policy_says(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    result = CliRunner().invoke(main, ["run", str(EXAMPLE), "--out", str(out)])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    retries = [row["data"] for row in rows if row.get("type") == "llm/retry"]
    assert [(data["retry"], data["delayMs"], data["failure"]["code"]) for data in retries] == [
        (1, 1500, "RATE_LIMIT"),
        (2, 1100, "TRANSPORT"),
    ]
    starts = [row["data"]["retry"] for row in rows if row.get("type") == "llm/retry-started"]
    assert starts == [1, 2]
    assert CliRunner().invoke(main, ["check", str(out)]).exit_code == 0


def test_an_impossible_policy_is_said_with_its_line(tmp_path: Path) -> None:
    script = tmp_path / "bad.yaml"
    script.write_text("retry:\n  initial_delay_ms: 20\n  max_delay_ms: 10\nanswers: [hi]\nsteps: [{followup: a}]\n")
    result = CliRunner().invoke(main, ["run", str(script)])
    assert result.exit_code == 2
    assert "initialDelayMs must not be above maxDelayMs" in " ".join(result.output.split())
