"""Consumed work: which turns count, and when dropped input is reported."""

from __future__ import annotations

from typing import Any

import pytest

from loopspec.accounting import fold_accounts


def turn(number: int, *inside: dict[str, Any], reason: str = "completed") -> list[dict[str, Any]]:
    end = {"turn": number, "reason": {"kind": reason}}
    return [{"type": "turn/start", "data": {"turn": number}}, *inside, {"type": "turn/end", "data": end}]


def splice(removed: int = 0, inserted: int = 0, **extra: Any) -> dict[str, Any]:
    data = {"target": "next-turn", "start": 0, "inserted": [{}] * inserted, **extra}
    return {"type": "agent/inbox/spliced", "data": data | ({"removedCount": removed} if removed else {})}


STEP = {"type": "step/start", "data": {"turn": 1, "step": 1}}
CLAIM, INSERT = splice(1), splice(0, 1)
DROP = splice(1, outcome="canceled")
SWAP = splice(1, 1, outcome="canceled")


@pytest.mark.parametrize(
    ("events", "end", "dropped"),
    [
        ([], None, False),
        (turn(1, STEP), "completed", False),
        (turn(1), None, False),
        (turn(1, CLAIM), None, False),
        (turn(1, CLAIM, reason="blocked"), "blocked", False),
        (turn(1, reason="blocked"), None, False),
        (turn(1, INSERT, reason="blocked"), None, False),
        (turn(1, DROP, reason="aborted"), None, True),
        ([CLAIM, *turn(1, reason="aborted")], None, False),
        ([DROP], None, True),
        ([SWAP], None, False),
        ([DROP, *turn(1)], None, True),
        ([DROP, *turn(1, STEP)], "completed", False),
        ([*turn(1, STEP), DROP], "completed", True),
        ([*turn(1, STEP, reason="error"), *turn(2)], "error", False),
        ([*turn(1, STEP), *turn(2, reason="aborted")], "completed", False),
        ([*turn(1, CLAIM)[:2], {"type": "turn/start", "data": {"turn": 2}}, turn(2, reason="error")[1]], None, False),
    ],
)
def test_accounts(events: list[Any], end: str | None, dropped: bool) -> None:
    """L-ACC-1, L-ACC-2"""
    accounts = fold_accounts(events)
    assert (accounts.end["reason"]["kind"] if accounts.end else None) == end
    assert accounts.dropped_unrun is dropped
