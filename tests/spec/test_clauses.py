"""The clause index of `spec/README.md` says what the docstrings of the law say."""

from __future__ import annotations

from pathlib import Path

from loopconform.clauses import mentioned, updated

SPEC = Path(__file__).parents[2] / "spec"


def test_the_index_is_what_make_documents_writes() -> None:
    """A rule that states a clause is in the index; run `make documents` when this fails."""
    readme = (SPEC / "README.md").read_text(encoding="utf-8")
    assert updated(readme, SPEC / "loopspec") == readme


def test_clauses_are_found_in_text() -> None:
    """Single ids, lists and ranges."""
    assert set(mentioned("L-CAN-1 to L-CAN-3, CW16  and LR-008 (S-REQ-20)")) == {
        "L-CAN-1", "L-CAN-2", "L-CAN-3", "CW16", "LR-008", "S-REQ-20",
    }  # fmt: skip
    assert not list(mentioned("UTF-8 and V4 are no clauses"))


def test_the_driver_states_every_clause_that_it_must() -> None:
    """The families of the driver are in the index, by its own rules (agent-loop 2 to 7)."""
    readme = (SPEC / "README.md").read_text(encoding="utf-8")
    for clause in (
        "L-SEND-4",
        "L-WAKE-5",
        "L-CAN-1",
        "L-MNT-4",
        "L-TURN-7",
        "L-PRE-9",
        "L-STR-9",
        "L-ERR-1",
        "L-IN-13",
    ):
        assert f"| {clause} | " in readme, clause
