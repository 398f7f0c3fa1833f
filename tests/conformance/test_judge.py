"""The judge can say no: a recording of the reference passes, and with anything wrong in it, it does not.

Each fault is one that some implementation could have: a record or event that is missing, comes twice or in another
order, a wrong value in it, a hook that runs too early or not at all, a promise that never settles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.recorded import (
    Run,
    Studio,
    altered,
    doubled,
    hand,
    judged,
    places,
    swapped,
    without,
)

CASES = (
    "cancel/mid-stream",
    "turn/maintenance",
    "retry/same-step",
    "tools/abort-in-the-pool",
    "tools/contexts-and-conclusion",
    "creation/same-id-twice",
    "teardown/running",
)


@pytest.fixture(scope="module")
def studio() -> Iterator[Studio]:
    made = Studio()
    yield made
    made.close()


def recording(studio: Studio, id: str, profile: str = "seed") -> Run:
    result, run = studio.record(hand(id), profile)
    assert result.verdict == "PASS", result
    assert judged(hand(id), profile, run).verdict == "PASS"
    return run


def verdicts(id: str, runs: Iterator[Run]) -> list[str]:
    return [judged(hand(id), "seed", run).verdict for run in runs]


SEEN = ("record", "live", "returned", "gate")


@pytest.mark.parametrize("id", CASES)
def test_nothing_may_be_missing(studio: Studio, id: str) -> None:
    """Whatever message is left out, the law notices."""
    run = recording(studio, id)
    for at, index in places(run, *SEEN, "fulfilled", "rejected"):
        result = judged(hand(id), "seed", without(run, at, index))
        assert result.verdict == "FAIL", (run[at][index], result.reason)


@pytest.mark.parametrize("id", CASES)
def test_nothing_may_come_twice(studio: Studio, id: str) -> None:
    """Whatever message is said twice, the law notices."""
    run = recording(studio, id)
    for at, index in places(run, *SEEN, "fulfilled", "rejected"):
        result = judged(hand(id), "seed", doubled(run, at, index))
        assert result.verdict == "FAIL", (run[at][index], result.reason)


@pytest.mark.parametrize("id", CASES)
def test_the_order_matters(studio: Studio, id: str) -> None:
    """Records, live events and returns of one agent are one total order."""
    run = recording(studio, id)
    tried = 0
    for at, index in places(run, "record", "live", "returned"):
        if at + 1 and index + 1 < len(run[at]) and run[at][index + 1]["type"] in ("record", "live", "returned"):
            changed = swapped(run, at, index)
            if changed is None or changed == run:
                continue
            result = judged(hand(id), "seed", changed)
            assert result.verdict == "FAIL", (run[at][index : index + 2], result.reason)
            tried += 1
    assert tried > 5 or id == "creation/same-id-twice"


WRONG: dict[str, tuple[tuple[tuple[Any, ...], Any], ...]] = {
    "turn/start": ((("data", "turn"), 9),),
    "turn/end": ((("data", "reason", "kind"), "blocked"), (("data", "reason"), {"kind": "error"})),
    "step/start": ((("data", "step"), 9),),
    "step/end": ((("data", "turn"), 9),),
    "user/message": ((("data", "id"), "m9"),),
    "request/header": ((("data", "reason"), "resume"),),
    "request/context": ((("data", "model"), "m9"), (("data", "provider"), "m9")),
    "assistant/chunk": ((("data", "chunk", "index"), 9), (("data", "step"), 9), (("data", "turn"), 9)),
    "assistant/message": (
        (("data", "message", "content"), []),
        (("data", "message", "source", "model"), "m9"),
        (("data", "usage"), {"inputTokens": 9}),
        (("data", "step"), 9),
        (("sourceEventSeqs",), []),
    ),
    "tool/call": ((("data", "callId"), "c9"), (("data", "arguments"), "{ }"), (("data", "name"), "q")),
    "tool/result": ((("data", "message", "source", "callId"), "c9"), (("data", "turn"), 9), (("sourceEventSeqs",), [])),
    "agent/inbox/spliced": ((("data", "start"), 9),),
}
"""For each type of record: values, and a wrong one in the place of each."""


@pytest.mark.parametrize("id", ["smoke/text", "tools/model-order", "cancel/mid-stream", "retry/given-up"])
def test_values_matter(studio: Studio, id: str) -> None:
    """A wrong value is noticed, and so are a wrong seq and a missing surface operation."""
    run = recording(studio, id)
    for at, index in places(run, "record"):
        event = run[at][index]["event"]
        wrongs = [*WRONG[event["type"]], (("seq",), 99)]
        if "surfaceOp" in event:
            wrongs.append((("surfaceOp",), "replace"))
        for path, wrong in wrongs:
            assert judged(hand(id), "seed", altered(run, at, index, "event", *path, to=wrong)).verdict == "FAIL", event


def test_promises_come_when_they_may(studio: Studio) -> None:
    """The promise of a job tells how it came out (L-MNT-2); whoever waits for idleness waits for it (L-IDLE-1)."""
    run = recording(studio, "turn/maintenance")
    ((at, index),) = [place for place in places(run, "fulfilled") if run[place[0]][place[1]]["id"] > 2]
    failed = [list(replies) for replies in run]
    failed[at][index] = {**run[at][index], "type": "rejected", "error": {"name": "Error"}}
    assert judged(hand("turn/maintenance"), "seed", failed).verdict == "FAIL"


@pytest.mark.parametrize(
    ("id", "words", "verdict"),
    [
        ("resume/live-beside-an-unload", "agent loop is not active", "PASS"),
        ("resume/live-beside-an-unload", 'agent "a" setup aborted: owner disposed during setup', "FAIL"),
        ("resume/live-beside-an-unload", 'agent "a" creation aborted', "FAIL"),
        ("resume/live-beside-an-abort", "first", "PASS"),
        ("resume/live-beside-an-abort", "agent loop is not active", "FAIL"),
        ("creation/first-error", "second", "FAIL"),
        ("creation/first-error", "in words of its own", "PASS"),
    ],
)
def test_whoever_says_why_says_what_is_lawful(studio: Studio, id: str, words: str, verdict: str) -> None:
    """A load may be overtaken (C-RES-3), by what there is; of two errors of one signal only the first counts."""
    run = recording(studio, id)
    ((at, index),) = places(run, "rejected")
    changed = altered(run, at, index, "error", "message", to=words)
    assert judged(hand(id), "seed", changed).verdict == verdict


def test_live_values_matter(studio: Studio) -> None:
    run = recording(studio, "smoke/text")
    for at, index in places(run, "live"):
        data = run[at][index]["data"]
        for name in data.keys() & {"status", "message", "turn"}:
            changed = altered(run, at, index, "data", name, to={"id": "m9"} if name == "message" else "nonsense")
            assert judged(hand("smoke/text"), "seed", changed).verdict == "FAIL", run[at][index]


def test_what_settled_says_matters(studio: Studio) -> None:
    """Parked hooks, registries and snapshots are compared at every `settled`."""
    id = "inbox/replace-and-remove"
    run = recording(studio, id)
    nobody: dict[str, Any] = {}
    for at, index in places(run, "settled"):
        settled = run[at][index]
        changes = [altered(run, at, index, "sessions", to=["a", "b"]), altered(run, at, index, "agents", to=nobody)]
        for field, wrong in (("status", None), ("length", 99), ("nextTurn", ["m9"]), ("nextStep", ["m9"])):
            value = {"idle": "running", "running": "idle"}[settled["agents"]["a"]["status"]] if wrong is None else wrong
            changes.append(altered(run, at, index, "agents", "a", field, to=value))
        extra = {"gate": "turn-stopping", "agent": "a", "key": ""}
        changes.append(altered(run, at, index, "parked", to=[*settled["parked"], extra]))
        if settled["parked"]:
            changes.append(altered(run, at, index, "parked", to=[]))
        for changed in changes:
            assert judged(hand(id), "seed", changed).verdict == "FAIL", changed[at][index]


def test_a_failure_names_clause_guard_and_what_was_legal(studio: Studio) -> None:
    """The wake that is lost: the second turn of `wake/latch` never opens."""
    run = recording(studio, "wake/latch")
    (at, index), *_ = [place for place in places(run, "live") if run[place[0]][place[1]]["data"] == {"status": "idle"}]
    cut = [list(replies) for replies in run]
    del cut[at][index + 1 : -1]
    result = judged(hand("wake/latch"), "seed", cut)
    assert result.fault is not None
    assert result.fault.clause.startswith("L-PH-3")
    assert result.fault.legal == ("live agent/status running",)
    assert "something is still to happen" in result.reason
    assert any("turn/end" in line for line in result.fault.before)


def test_a_guard_is_named_when_its_other_answer_explains_the_message(studio: Studio) -> None:
    """A second header that nothing has made due (L-REQ-9)."""
    id = "inbox/two-followups"
    run = recording(studio, id)
    headers = [place for place in places(run, "record") if _type(run, *place) == "request/header"]
    (at, index) = [place for place in places(run, "record") if _type(run, *place) == "user/message"][-1]
    assert len(headers) == 1
    header = altered(run, *headers[0], "event", "data", "reason", to="change")[headers[0][0]][headers[0][1]]
    header["event"]["seq"] = run[at][index]["event"]["seq"] + 1
    wrong = [list(replies) for replies in run]
    wrong[at].insert(index + 1, header)
    fault = judged(hand(id), "seed", wrong).fault
    assert fault is not None
    assert fault.guard.startswith("header_is_due (no)")


def _type(run: Run, at: int, index: int) -> str:
    return str(run[at][index]["event"]["type"])
