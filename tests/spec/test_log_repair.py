"""Repair and fork closers: exactly what a real repair wrote, and legal logs afterwards."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from loopspec import surface as surfaces
from loopspec.log import v0, v4
from loopspec.log.packed import unpack_rows
from loopspec.log.repair import closers, fork, open_work, repair

CORPUS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
EXAMPLE = Path(__file__).parent / "data" / "worked-example.v4.jsonl"


def events_of(path: Path) -> list[dict[str, Any]]:
    return [dict(row) for row in unpack_rows(json.loads(line) for line in path.read_text("utf-8").splitlines()[1:])]


def plain(events: Any) -> Any:
    return json.loads(json.dumps(events))


@pytest.mark.parametrize(("repaired", "results"), [("09b-crash-repaired", 2), ("09f-torn-multi-repaired", 3)])
def test_real_repairs_are_reproduced(repaired: str, results: int) -> None:
    """S-REP-1 to S-REP-3: cut the real log before its first closer, close it again, compare."""
    events = events_of(CORPUS / f"{repaired}.jsonl")
    stored = list(takewhile(lambda event: "interrupted-tool-result-" not in json.dumps(event), events))
    expected = events[len(stored) : len(stored) + results + 2]
    assert [event["type"] for event in expected] == ["tool/result"] * results + ["step/end", "turn/end"]
    assert plain(repair("v0", stored)) == expected


def test_the_raw_crash_gets_what_its_repair_wrote() -> None:
    crashed, repaired = (
        events_of(CORPUS / "09a-crash-before-repair.jsonl"),
        events_of(CORPUS / "09b-crash-repaired.jsonl"),
    )
    added = plain(repair("v0", crashed))
    assert added == repaired[len(crashed) : len(crashed) + len(added)]
    codes = [event["data"]["error"]["code"] for event in added if event["type"] == "tool/result"]
    assert codes == ["TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"]


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_a_balanced_log_gets_nothing_and_repair_balances(path: Path) -> None:
    events = events_of(path)
    if path.stem == "09a-crash-before-repair":
        assert open_work(events).turn == 1
    else:
        assert repair("v0", events) == ()
    assert repair("v0", [*events, *repair("v0", events)]) == ()


def example(cut: int) -> list[dict[str, Any]]:
    return events_of(EXAMPLE)[:cut]


@pytest.mark.parametrize(
    ("cut", "types"),
    [
        (0, []),
        (1, []),
        (2, ["turn/end"]),
        (3, ["turn/end"]),
        (4, ["step/end", "turn/end"]),
        (9, ["tool/result", "step/end", "turn/end"]),
        (10, ["tool/result", "step/end", "turn/end"]),
        (11, ["step/end", "turn/end"]),
        (12, ["turn/end"]),
        (15, ["turn/end"]),
        (16, []),
    ],
)
def test_what_is_closed_at_each_cut(cut: int, types: list[str]) -> None:
    """S-REP-3: the closers of format 4 are legal rows, continue the numbering and repeat the last time."""
    events = example(cut)
    added = repair("v4", events)
    assert [event["type"] for event in added] == types
    assert [event["seq"] for event in added] == list(range(cut, cut + len(added)))
    assert {event["time"] for event in added} <= {events[-1]["time"] if events else 0}
    for event in plain(added):
        assert v4.validate_event(event) == ()
    assert surfaces.fold("v4", [*events, *added]).replacements == 0


def test_the_two_verdicts_of_format_4() -> None:
    not_started, unknown = plain(repair("v4", example(9)))[0], plain(repair("v4", example(10)))[0]
    assert not_started["data"]["message"] == {
        "id": "interrupted-tool-result-c1-9",
        "role": "tool",
        "source": {"kind": "tool", "callId": "c1"},
        "toolCallId": "c1",
        "content": [
            {
                "type": "text",
                "text": "The tool call was interrupted before the Harness recorded it as started. "
                "Retry it if it is still needed.",
            }
        ],
        "isError": True,
    }
    assert not_started["data"]["error"] == {"name": "ToolNotStartedError", "code": "TOOL_NOT_STARTED"}
    assert "sourceEventSeqs" not in not_started
    assert unknown["data"]["error"] == {"name": "ToolOutcomeUnknownError", "code": "TOOL_OUTCOME_UNKNOWN"}
    assert unknown["sourceEventSeqs"] == [9]
    assert unknown["data"]["message"]["id"] == "interrupted-tool-result-c1-10"


def test_a_fork_inside_an_open_turn() -> None:
    """S-FRK-5: the inherited marker first, then closers with the fork's ids and reason."""
    events = example(10)
    added = plain(fork(events))
    assert [event["type"] for event in added] == ["session/end-seed", "tool/result", "step/end", "turn/end"]
    assert [event["seq"] for event in added] == [10, 11, 12, 13]
    assert {event["time"] for event in added} == {events[-1]["time"]}
    assert added[0]["data"] == {"inherited": True}
    assert added[1]["data"]["message"]["id"] == "forked-tool-result-c1-11"
    assert added[1]["sourceEventSeqs"] == [9]
    assert added[3]["data"]["reason"] == {"kind": "forked"}
    for event in added:
        assert v4.validate_event(event) == ()


def test_a_fork_between_turns_adds_only_the_marker() -> None:
    assert [event["type"] for event in fork(example(16))] == ["session/end-seed"]


def test_format_0_has_no_fork_closers() -> None:
    with pytest.raises(ValueError, match="never forked inside an open turn"):
        closers("v0", open_work(example(4)), "forked")


def test_closers_are_legal_rows_of_format_0() -> None:
    for event in plain(repair("v0", events_of(CORPUS / "09a-crash-before-repair.jsonl"))):
        assert v0.validate_event(event) == ()


def test_pending_calls_keep_the_models_order() -> None:
    """A started call keeps its place; results clear calls, boundaries clear everything (S-REP-2)."""

    def event(event_type: str, **data: Any) -> dict[str, Any]:
        return {"type": event_type, "time": 0, "data": {"turn": 1, "step": 1, **data}}

    calls = [{"type": "tool-call", "id": call_id, "name": "f", "arguments": ""} for call_id in ("a", "b", "c")]
    events = [
        event("turn/start"),
        event("step/start"),
        event("assistant/message", message={"content": calls}),
        event("tool/call", callId="b"),
        event("tool/call", callId="a"),
        event("tool/result", message={"source": {"callId": "a"}}),
    ]
    assert open_work(events).pending == (("b", 3), ("c", None))
    assert open_work([*events, event("step/end")]).pending == ()
    assert open_work([*events, event("turn/end")]).pending == ()
