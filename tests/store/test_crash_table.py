"""`docs/CRASH.md` is what its command writes, and says what it must say."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopconform import crash_cuts
from loopconform.crash_table import document, moments, outcome, twice
from loopharness.archive import Archive
from loopharness.store import checkpoint
from loopharness.store.reading import Stored, read_stored

DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "CRASH.md"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document(), "run `make documents`"


def test_no_cut_of_the_file_loses_what_a_barrier_has_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published table says so, row by row, and would say otherwise."""
    rows = [line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith("| batch ")]
    assert len(rows) == 21
    assert all(row.endswith(" | 0 |") for row in rows)

    def forgetful(content: bytes, name: str) -> Stored:
        stored = read_stored(content, name)
        return stored._replace(events=Archive.of(stored.events[:-1]))

    monkeypatch.setattr(crash_cuts, "read_stored", forgetful)
    header = {"type": "session", "version": 4, "id": "a", "createdAt": 0, "isSeeded": False, "delegationDepth": 0}
    events = [{"type": "turn/start", "seq": seq, "time": 0, "data": {"turn": 1}} for seq in range(2)]
    assert crash_cuts.table(header, events, [1, 2], "none").endswith("| 1 | 0 | 1 |\n")


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
