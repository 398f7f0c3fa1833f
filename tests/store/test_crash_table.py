"""`docs/CRASH.md` is what its command writes, and says what it must say."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopconform.crash_table import document, moments, outcome, twice
from loopharness.store import checkpoint

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "CRASH.md"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make documents`"


@pytest.mark.parametrize("version", [0, 4])
def test_a_finished_body_whose_result_is_not_committed_is_reachable(version: int) -> None:
    """K12, G10, `sometimes`: b has ended, a has not; after the crash both are unknown, and nothing runs again."""
    moment = next(moment for moment in moments(version) if moment.name == "body of b has ended")
    assert moment.bodies == {"a": "running", "b": "finished", "c": "not begun"}
    after = outcome(moment, version)
    assert after.calls == ("unknown", "unknown", "not started")
    assert after.typed == "history"
    assert after.turn == "interrupted"


@pytest.mark.parametrize("version", [0, 4])
def test_with_checkpoints_the_model_is_told_of_every_body_that_had_begun(version: int) -> None:
    found = {twice(moment.bodies, outcome(moment, version).calls) for moment in moments(version)}
    assert found == {"no", "told"}


def test_without_the_barrier_in_front_of_the_bodies_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table can show the fault: with a policy that does nothing an effect may happen twice."""

    async def nothing(sessions: object, session: object) -> None:
        return None

    monkeypatch.setattr(checkpoint, "_flush", nothing)
    found = {twice(moment.bodies, outcome(moment, 4).calls) for moment in moments(4)}
    assert "**YES**" in found
