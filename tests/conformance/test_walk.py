"""Random programs: the reference explains itself under every law, and another law is found and shrunk."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from loopconform.commands.conform import command
from loopconform.protocol.case import load_case
from loopconform.runner.channel import opener
from loopconform.runner.fuzz import walk_case
from loopconform.runner.play import Player

SETTINGS = (("seed", 0), ("seed", 4), ("dsh-0.1", 0), ("dsh-0.1.7", 4))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_reference_explains_itself(backend: str) -> None:
    player = Player(opener("python-reference", backend))  # type: ignore[arg-type]
    try:
        for profile, version in SETTINGS:
            result = walk_case(player, f"test {backend}", profile, version, 25)
            assert result.verdict == "PASS", (profile, version, result.fault, result.reason)
    finally:
        player.close()


def test_lives_explain_themselves() -> None:
    """Creation and teardown of several agents, with the same ids again and again."""
    player = Player(opener("python-reference"))
    try:
        for number in range(10):
            result = walk_case(player, f"lives {number}", "seed", 0, 15, lives=True)
            assert result.verdict == "PASS", (number, result.fault, result.reason)
    finally:
        player.close()


def test_the_same_seed_is_the_same_program() -> None:
    player = Player(opener("python-reference"))
    try:
        first, second = (walk_case(player, "same", "seed", 0, 15).case.program for _ in range(2))
    finally:
        player.close()
    assert first == second


def test_another_law_is_found_shrunk_and_kept(tmp_path: Path) -> None:
    """`fuzz` on the reference under the published law, judged by the recommended one."""
    kept = tmp_path / "found.json"
    arguments = ["fuzz", "--adapter", "python-reference:dsh-0.1", "--seed", "5", "--seconds", "60", "--keep", str(kept)]
    outcome = CliRunner().invoke(command, arguments)
    assert outcome.exit_code == 1, outcome.output
    assert "sequenceDiagram" in outcome.output
    assert "FAIL" in outcome.output
    case = load_case(kept)
    assert len(case.program) <= 18
    player = Player(opener("python-reference:dsh-0.1"))
    try:
        assert player.play(case, "seed").verdict == "FAIL"
        assert player.play(case, "dsh-0.1").verdict == "PASS"
    finally:
        player.close()
