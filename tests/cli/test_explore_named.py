"""`loopspec explore creation` and `scheduler`: fixed explorations, by name."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from loopconform.cli import main


def test_creation_is_explored_by_name() -> None:
    result = CliRunner().invoke(main, ["explore", "creation", "--bound", "arbitration", "--show", "R-02"])
    assert result.exit_code == 0, result.output
    assert "creation arbitration under seed" in result.output
    assert "4,156" in result.output
    assert "call create 2 1" in result.output


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["creation", "--bound", "nix"], "there are single"),
        (["scheduler", "--bound", "nix"], "there are windows"),
        (["scheduler", "--profile", "dsh-0.1.7"], "is not explored under dsh-0.1.7"),
        (["creation", "--set", "creates=9"], "bounds of this machine are fixed"),
        (["creation", "--session-format", "4"], "no log of its own"),
    ],
)
def test_what_cannot_be_chosen_is_said(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(main, ["explore", *arguments])
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())
