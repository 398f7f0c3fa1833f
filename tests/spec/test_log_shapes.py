"""The models of both formats: every real row passes, and every fault is found, placed and attributed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from loopspec.log import v0, v4
from loopspec.log.problems import Problem, RowError, first_lossy
from loopspec.log.types import KNOWN_TYPES, SCOPES, SURFACE_TYPES, scope_of

CORPUS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
ELSEWHERE = Path(os.environ.get("LOOPSPEC_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
ABSENT = "the {} are not here; set LOOPSPEC_CORPUS to the folder above them"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# -- vocabulary ----------------------------------------------------------------------------------------------


def test_the_vocabulary_has_the_known_size() -> None:
    """S-EVT-10: format 0 knows exactly 48 types; format 4 drops three and adds fourteen."""
    assert len(KNOWN_TYPES["v0"]) == 48
    assert len(KNOWN_TYPES["v4"]) == 48 - 3 + 14
    assert len(KNOWN_TYPES["v0"] - KNOWN_TYPES["v4"]) == 3


def test_every_known_type_has_a_model_and_a_scope() -> None:
    assert set(v0.MODELS) == KNOWN_TYPES["v0"] == set(SCOPES["v0"])
    assert set(v4.MODELS) == KNOWN_TYPES["v4"] == set(SCOPES["v4"])
    assert SURFACE_TYPES["v0"] < SURFACE_TYPES["v4"] < KNOWN_TYPES["v4"]


def test_scopes() -> None:
    assert scope_of("v0", "tool/result") == "step"
    assert scope_of("v0", "tool/result", replaces=True) == "turn"
    assert scope_of("v0", "user/message", replaces=True) == "any"
    assert scope_of("v4", "assistant/chunk") is None
    assert scope_of("v4", "todo/write") == "turn"


# -- real rows -----------------------------------------------------------------------------------------------

REAL = sorted(CORPUS.glob("*.jsonl"))


def test_all_real_logs_are_here() -> None:
    assert len(REAL) == 24


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_every_row_of_the_real_logs_is_valid(path: Path) -> None:
    header, *rows = rows_of(path)
    assert v0.validate_header(header) == ()
    events = [event for row in rows for event in v0.parse_row(row)]
    assert [event.record["seq"] for event in events] == list(range(len(events)))
    for event in events:
        assert (event.model is None) == (event.record["type"] == "x-plugin/note")


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_a_model_holds_the_whole_payload(path: Path) -> None:
    """Nothing is lost or invented between the payload and its model."""
    for row in rows_of(path)[1:]:
        for event in v0.parse_row(row):
            if event.model is not None:
                dumped = event.model.model_dump(mode="json", by_alias=True, exclude_unset=True)
                assert dumped == event.record["data"]


def test_unusual_real_shapes_of_format_0_are_valid() -> None:
    path = ELSEWHERE / "old-formats" / "released-v0-real-shapes.jsonl"
    if not path.exists():
        pytest.skip(ABSENT.format("old-format logs"))
    header, *rows = rows_of(path)
    assert v0.validate_header(header) == ()
    assert sum(1 for row in rows for _ in v0.parse_row(row)) == 24


def test_format_3_is_not_format_4() -> None:
    path = ELSEWHERE / "old-formats" / "slice-v3-session.v3.jsonl"
    if not path.exists():
        pytest.skip(ABSENT.format("old-format logs"))
    header, *rows = rows_of(path)
    assert {problem.rule for problem in v4.validate_header(header)} >= {"S-LNT-11"}
    assert any(problem.rule in ("S-LNT-38", "S-LNT-39") for row in rows for problem in v4.validate_event(row))


# -- snapshot logs of format 4 -------------------------------------------------------------------------------

SNAPSHOTS = sorted((ELSEWHERE / "v4-snapshots").glob("*/*.jsonl"))


def hydrated(path: Path) -> list[dict[str, Any]]:
    """A snapshot log with the normalised fields put back: `seq`, `time`, `cwd` and the tool list."""
    header, *rows = rows_of(path)
    header["cwd"] = "/workspace"
    for seq, row in enumerate(rows):
        row |= {"seq": seq, "time": 1000 + seq}
        tools = row["data"].get("header", {}).get("tools") if row["type"] == "request/header" else None
        if tools is not None:
            row["data"]["header"]["tools"] = [{"name": "t", "description": "", "parameters": {}}]
    return [header, *rows]


def test_the_snapshots_are_valid() -> None:
    if not SNAPSHOTS:
        pytest.skip(ABSENT.format("format 4 snapshot logs"))
    types = set()
    for path in SNAPSHOTS:
        header, *rows = hydrated(path)
        assert (path, v4.validate_header(header)) == (path, ())
        for row in rows:
            event = next(v4.parse_row(row))
            assert event.model is not None
            assert event.model.model_dump(mode="json", by_alias=True, exclude_unset=True) == row["data"]
            types.add(row["type"])
    assert len(SNAPSHOTS) == 38
    assert len(types) == 45


# -- broken logs ---------------------------------------------------------------------------------------------

SHAPE_RULES = {
    f"S-LNT-{number}"
    for number in (9, 11, 12, 13, 18, 20, 21, 22, 23, 24, 25, 26, 36, 38, 39, 40, 41, 42, 47, 78, 79, 80, 81, 90)
}
"""The checker rules that one row decides on its own, at least in part."""

WHOLE_LOG = {"end-seed-twice", "header-resume-mid", "header-initial-late"}
"""Cases whose rows are each fine: only the rest of the log shows the fault."""

MORE = {
    "call-args-object": {"S-LNT-21"},
    "header-row-twice": {"S-LNT-17", "S-LNT-18", "S-LNT-20", "S-LNT-21", "S-LNT-23"},
}
"""Further rules that rightly fire: the `tool/call` row repeats the broken arguments, and a header row is no event."""


def mutations() -> Iterator[tuple[str, list[str], set[str]]]:
    cases = json.loads((CORPUS / "mutations.json").read_text("utf-8"))
    with (CORPUS / "mutations.bodies.json.zstd").open("rb") as file:
        bodies = json.load(zstandard.ZstdDecompressor().stream_reader(file))
    for case in cases["cases"] if isinstance(cases, dict) else cases:
        if case.get("container") != "zstd":
            lines = bodies["plain"][case["name"]].splitlines()
            yield case["name"], lines, set(case["expect"]) & SHAPE_RULES


def rules_of(lines: list[str]) -> set[str]:
    """The rules of every problem that reading row by row finds; rows that are no JSON object are not ours."""
    found: set[str] = set()
    for number, line in enumerate(lines):
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if not isinstance(row, dict):
            continue
        try:
            problems = v0.validate_header(row) if number == 0 else ()
            found |= {problem.rule for problem in problems}
            if number:
                list(v0.parse_row(row))
        except RowError as error:
            found |= {problem.rule for problem in error.problems}
    return found


MUTATIONS = list(mutations())


def test_all_row_level_mutations_are_here() -> None:
    assert len(MUTATIONS) == 93
    assert sum(1 for name, _, rules in MUTATIONS if rules and name not in WHOLE_LOG) == 26


@pytest.mark.parametrize(("name", "lines", "rules"), MUTATIONS, ids=[name for name, _, _ in MUTATIONS])
def test_broken_rows_are_attributed_to_their_rules(name: str, lines: list[str], rules: set[str]) -> None:
    """Exactly the expected shape rules fire, and none on rows that are fine."""
    if name in WHOLE_LOG:
        rules = set()
    assert rules_of(lines) == rules | MORE.get(name, set())


# -- places and reasons --------------------------------------------------------------------------------------

USER: dict[str, Any] = {"id": "u", "role": "user", "content": [], "source": {"kind": "user"}}
STEP: dict[str, Any] = {"turn": 1, "step": 1}
MODEL: dict[str, Any] = {"kind": "model", "provider": "p", "model": "m"}
ANSWER: dict[str, Any] = {"id": "a", "role": "assistant", "content": [], "source": MODEL}
TOOL: dict[str, Any] = {
    "id": "t", "role": "tool", "toolCallId": "c", "content": [], "source": {"kind": "tool", "callId": "c"},
}  # fmt: skip
ROUTE = {"provider": "p", "model": "m"}
HEADER: dict[str, Any] = {"config": ROUTE}
DEVELOPER: dict[str, Any] = {"id": "d", "role": "developer", "content": [], "source": {"kind": "x"}}
ADDITION = {"type": "tool-addition", "toolName": "t"}
CALL_RECORD = {"type": "tool-call-chunks", "time0": 1, "index": 0, "dt": [], "id": "c", "args": ["a"]}
RETRY: dict[str, Any] = {
    **STEP, "retryId": "r", "provider": "p", "mode": "normal", "policyKey": "k", "retry": 1, "maxRetries": 2,
    "delayMs": 1.5, "failure": {"message": "m", "code": "C"},
}  # fmt: skip
SUMMARY: dict[str, Any] = {
    "compactionId": "c", "summary": [], "shadowedRange": {"start": 9, "end": 4}, "shadowedSeqs": [9, 4],
    "shadowedTokenCount": 1, "provider": "p", "model": "m",
}  # fmt: skip
DISPATCH: dict[str, Any] = {
    "rootCallId": "c",
    "parentCallId": "c",
    "subCallId": "c:ptc:1",
    "name": "n",
    "arguments": {},
}
CHILD: dict[str, Any] = {"version": 0, "childId": "c", "childCreatedAt": 1}
GOAL: dict[str, Any] = {"kind": "goal/change", "version": 1}


def reason(**fields: Any) -> dict[str, Any]:
    return {"turn": 1, "reason": fields}


FAULTS: list[tuple[str, Any, str, str]] = [
    ("turn/start", {}, "S-LNT-21", "$.data.turn is missing"),
    ("turn/start", {"turn": True}, "S-LNT-21", "$.data.turn should be a valid integer"),
    ("turn/start", {"turn": 0}, "S-LNT-21", "$.data.turn should be greater than or equal to 1"),
    ("turn/start", {"turn": 1, "trigger": 1}, "S-LNT-21", "$.data.trigger is not a key of this record"),
    ("turn/start", [], "S-LNT-21", "$.data should be a valid dictionary"),
    ("turn/end", reason(kind="odd"), "S-LNT-47", "$.data.reason does not name a known kind of value"),
    ("turn/end", reason(kind="error"), "S-LNT-47", "$.data.reason.error is missing"),
    ("turn/end", reason(kind="aborted", reason={"kind": "hook"}), "S-LNT-47", "$.data.reason.reason.reason is missing"),
    ("turn/end", reason(kind="completed", extra=1), "S-LNT-47", "$.data.reason.extra is not a key"),
    ("turn/end", reason(kind="error", error={"message": "m", "code": "C", "status": 99}), "S-LNT-47", ".error.status"),
    ("user/message", {**USER, "id": ""}, "S-LNT-36", "$.data.id must not be empty"),
    ("user/message", {**USER, "content": "x"}, "S-LNT-36", "$.data.content should"),
    ("user/message", {**USER, "role": "assistant"}, "S-LNT-38", "$.data.role"),
    ("user/message", {**USER, "source": {"kind": ""}}, "S-LNT-39", "$.data.source.kind"),
    ("user/message", {**USER, "source": {"kind": "plugin"}}, "S-LNT-39", '$.data.source kind "plugin"'),
    ("user/message", {**USER, "content": [{"type": "odd"}]}, "S-LNT-42", "$.data.content[0] does not name"),
    ("user/message", {**USER, "content": [{"type": "text", "text": 1}]}, "S-LNT-42", "$.data.content[0].text should"),
    ("user/message", {**USER, "content": [{"type": "text", "text": "", "x": 1}]}, "S-LNT-42", "$.data.content[0].x is"),
    ("user/message", {**USER, "content": [ADDITION]}, "S-LNT-42", "$.data.content[0] does not name"),
    ("user/message", {**USER, "content": [{"type": "tool-result"}]}, "S-LNT-42", "$.data.content[0] does not"),
    ("assistant/message", {**STEP, "message": {**ANSWER, "source": {**MODEL, "replayState": None}}, "stream": []},
     "S-HDR-1", "$.data.message.source.replayState must be absent, not null"),
    ("assistant/message", {**STEP, "message": ANSWER}, "S-LNT-21", "$.data.stream is missing"),
    ("assistant/message", {**STEP, "message": ANSWER, "stream": [], "interrupted": False}, "S-LNT-21", "interrupted"),
    ("assistant/attempt", {**STEP, "stream": [{**CALL_RECORD, "dt": [1]}]}, "S-LNT-9", "$.data.stream[0] 1 members"),
    ("assistant/attempt", {**STEP, "stream": [{**CALL_RECORD, "id": ""}]}, "S-LNT-21", "$.data.stream[0].id"),
    ("assistant/attempt", {**STEP, "stream": [{**CALL_RECORD, "name": ""}]}, "S-LNT-21", "$.data.stream[0].name"),
    ("assistant/attempt", {**STEP, "stream": [{"type": "chunk", "time": 1, "chunk": {"type": "usage"}}]}, "S-LNT-21",
     "$.data.stream[0].chunk.usage is missing"),
    ("tool/result", {**STEP, "message": {**TOOL, "toolCallId": "d"}}, "S-LNT-40", "$.data.message has mismatched"),
    ("tool/result", {**STEP, "message": {**TOOL, "source": {"kind": "user"}}}, "S-LNT-39", "message.source.kind"),
    ("tool/result", {**STEP, "message": {**TOOL, "isError": False}, "error": {"name": "n", "code": "c"}}, "S-LNT-41",
     "error is only allowed when isError is true"),
    ("system/message", {**STEP, "message": {**ANSWER, "role": "system"}}, "S-LNT-39", "$.data.message.source"),
    ("developer/message", {**STEP, "message": {**DEVELOPER, "content": [ADDITION]}}, "S-LNT-34", "headerSeq belongs"),
    ("developer/message", {**STEP, "message": DEVELOPER, "headerSeq": 1}, "S-LNT-34", "headerSeq belongs"),
    ("request/header", {"header": {**HEADER, "system": "s"}, "reason": "initial"}, "S-LNT-78", "$.data.header.system"),
    ("request/header", {"header": {**HEADER, "tools": []}, "reason": "initial"}, "S-LNT-78", "$.data.header.tools"),
    ("request/header", {"header": {"config": {"provider": "p"}}, "reason": "initial"}, "S-LNT-79", "model is missing"),
    ("request/header", {"header": {"config": {**ROUTE, "model": ""}}, "reason": "initial"}, "S-LNT-79", "config.model"),
    ("request/header", {"header": {**HEADER, "adapterDefaults": {}}, "reason": "change"}, "S-LNT-80", "marks nothing"),
    ("request/header", {"header": {**HEADER, "adapterDefaults": {"maxTokens": True}}, "reason": "change"}, "S-LNT-80",
     "marks maxTokens, but config has none"),
    ("request/header", {"header": {**HEADER, "adapterDefaults": {"reasoningEffort": True}}, "reason": "change"},
     "S-LNT-80", "marks reasoningEffort, but config has none"),
    ("request/header", {"header": HEADER, "reason": "fallback"}, "S-LNT-81", "$.data.reason"),
    ("session/end-seed", {"inherited": False}, "S-LNT-90", "$.data.inherited"),
    ("agent/inbox/spliced", {"target": "next-turn", "start": 0, "inserted": [{**USER, "id": ""}]}, "S-LNT-36",
     "$.data.inserted[0].id"),
    ("agent/inbox/spliced", {"target": "next-turn", "start": 0}, "S-LNT-21", "$.data.inserted is missing"),
    ("llm/retry", {**RETRY, "mode": "always"}, "S-LNT-92", "maxRetries belongs to mode normal"),
    ("llm/retry", {**RETRY, "delayMs": 2**31}, "S-LNT-21", "$.data.delayMs"),
    ("compaction/start", {"compactionId": "c"}, "S-LNT-21", "$.data.turn is missing"),
    ("compaction/summary", {**SUMMARY, "llmStreamCall": True}, "S-LNT-21", "llmStreamCall needs rawOutput"),
    ("tool/ptc-dispatch-start", {**DISPATCH, "subCallId": "c:code:1"}, "S-LNT-102", "subCallId must be"),
    ("tool/ptc-dispatch-start", {**DISPATCH, "subCallId": "c:ptc:x"}, "S-LNT-102", "subCallId must be"),
    ("image/offload", {"targets": [{"seq": 1}]}, "S-LNT-21", "$.data.targets[0].imageIndexes is missing"),
    ("goal/change", {**GOAL, "operation": "clear", "cleared": True}, "S-LNT-21", "$.data.clearedAt is missing"),
    ("goal/change", {**GOAL, "operation": "odd"}, "S-LNT-21", "$.data does not name"),
    ("subagent/catalog", {**CHILD, "mode": "unknown"}, "S-LNT-21", "mode unknown exists in version 1 only"),
    ("subagent/catalog", {**CHILD, "mode": "continuable"}, "S-LNT-21", "a continuable child needs a label"),
    ("todo/write", {"todos": [{"content": "c", "status": "odd"}]}, "S-LNT-21", "$.data.todos[0].status"),
    ("feedback/record", {"text": None}, "S-HDR-1", "$.data.text must be absent, not null"),
]  # fmt: skip


@pytest.mark.parametrize(("event_type", "data", "rule", "words"), FAULTS)
def test_every_fault_is_placed_and_attributed(event_type: str, data: Any, rule: str, words: str) -> None:
    found = [problem for problem in v4.validate_data(event_type, data) if problem.rule == rule]
    assert any(words in str(problem) for problem in found), v4.validate_data(event_type, data)


RIGHT: list[tuple[str, Any]] = [
    ("turn/end", reason(kind="aborted", reason={"kind": "hook", "reason": ""})),
    ("turn/end", reason(kind="forked")),
    ("turn/end", reason(kind="error", error={"message": "m", "code": "C", "providerRetryAfterMs": 0.5})),
    ("developer/message", {**STEP, "message": {**DEVELOPER, "content": [ADDITION]}, "headerSeq": 1}),
    ("tool/result", {**STEP, "message": {**TOOL, "isError": True}, "error": {"name": "n", "code": "c", "reason": ""}}),
    ("tool/result", {**STEP, "message": TOOL, "meta": None}),
    ("request/header", {"header": HEADER, "reason": "change", "startsSeries": True}),
    ("llm/retry", RETRY),
    ("llm/retry", {key: value for key, value in {**RETRY, "mode": "always"}.items() if key != "maxRetries"}),
    ("compaction/start", {"compactionId": "c", "turn": None}),
    ("compaction/summary", SUMMARY),
    ("tool/ptc-dispatch-start", DISPATCH),
    ("goal/change", {**GOAL, "operation": "clear", "cleared": True, "clearedAt": 1}),
    ("session/end-seed", {}),
    ("workspace/changes", {"anything": [1]}),
    ("unknown/type", {"anything": 1}),
]


@pytest.mark.parametrize(("event_type", "data"), RIGHT)
def test_right_payloads_have_no_problem(event_type: str, data: Any) -> None:
    assert v4.validate_data(event_type, data) == ()


ROW: dict[str, Any] = {"type": "user/message", "seq": 0, "time": 0, "data": USER, "surfaceOp": "append"}
PLAIN: dict[str, Any] = {"type": "turn/start", "seq": 0, "time": 0, "data": {"turn": 1}}


@pytest.mark.parametrize(
    ("row", "rule", "where"),
    [
        ({**ROW, "note": 1}, "S-LNT-20", "$.note"),
        ({**ROW, "required": True}, "S-LNT-20", "$.required"),
        ({key: value for key, value in ROW.items() if key != "seq"}, "S-LNT-17", "$.seq"),
        ({**ROW, "seq": -1}, "S-LNT-17", "$.seq"),
        ({**ROW, "seq": 1.0}, "S-LNT-17", "$.seq"),
        ({key: value for key, value in ROW.items() if key != "time"}, "S-LNT-18", "$.time"),
        ({**ROW, "time": -1}, "S-LNT-18", "$.time"),
        ({**ROW, "time": 2**53}, "S-LNT-18", "$.time"),
        ({key: value for key, value in ROW.items() if key != "data"}, "S-LNT-21", "$.data"),
        ({**ROW, "ignorable": True}, "S-LNT-22", "$.ignorable"),
        ({**ROW, "ignorable": False}, "S-LNT-22", "$.ignorable"),
        ({**PLAIN, "type": "x/y"}, "S-LNT-23", "$.type"),
        ({**PLAIN, "type": "assistant/chunk"}, "S-LNT-23", "$.type"),
        ({**PLAIN, "surfaceOp": "append"}, "S-LNT-24", "$.surfaceOp"),
        ({**PLAIN, "sourceEventSeqs": [1]}, "S-LNT-24", "$.sourceEventSeqs"),
        ({key: value for key, value in ROW.items() if key != "surfaceOp"}, "S-LNT-25", "$.surfaceOp"),
        ({**ROW, "surfaceOp": {"op": "replace", "start": 1, "end": 1}}, "S-LNT-26", "$.surfaceOp"),
        ({**ROW, "surfaceOp": {"op": "insert", "startSeq": 1, "endSeq": 1}}, "S-LNT-26", "$.surfaceOp"),
        ({**ROW, "sourceEventSeqs": [[0, 9]]}, "S-LNT-28", "$.sourceEventSeqs[0]"),
    ],
)
def test_envelope_faults(row: dict[str, Any], rule: str, where: str) -> None:
    with pytest.raises(RowError) as error:
        list(v4.parse_row(row))
    assert [(problem.rule, problem.where) for problem in error.value.problems] == [(rule, where)]


def test_a_false_marker_marks_nothing() -> None:
    row = {**PLAIN, "type": "x/y", "ignorable": False}
    assert {problem.rule for problem in v4.validate_event(row)} == {"S-LNT-22", "S-LNT-23"}


def test_foreign_events_of_format_4_may_carry_anything() -> None:
    """S-ENV-4; format 0 refuses the metadata."""
    row = {**PLAIN, "type": "x/y", "ignorable": True, "surfaceOp": {"any": 1}, "sourceEventSeqs": [5]}
    assert v4.validate_event(row) == ()
    assert {problem.rule for problem in v0.validate_event(row)} == {"S-LNT-24"}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**54) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
SEEDS: list[dict[str, Any]] = [
    *(row for path in REAL[2:3] for row in rows_of(path)[1:]),
    *rows_of(Path(__file__).parent / "data" / "worked-example.v4.jsonl")[1:],
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(value, (dict, list)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(item, (*path, key))


def put(value: Any, path: tuple[Any, ...], item: Any) -> Any:
    """A copy of a JSON value with the item at one place."""
    if not path:
        return item
    copy = list(value) if isinstance(value, list) else dict(value)
    copy[path[0]] = put(value[path[0]], path[1:], item)
    return copy


def problems_of(parse: Callable[[dict[str, Any]], Iterator[Any]], row: dict[str, Any]) -> tuple[Problem, ...]:
    try:
        list(parse(row))
    except RowError as error:
        return error.problems
    return ()


@given(st.data())
def test_no_row_does_worse_than_being_refused(data: st.DataObject) -> None:
    """Real rows with anything at any place: read, or refused with places that exist or are missing."""
    row = data.draw(st.sampled_from(SEEDS))
    row = put(row, data.draw(st.sampled_from([path for path in places(row) if path])), data.draw(JSON))
    for parse in (v0.parse_row, v4.parse_row):
        for problem in problems_of(parse, row):
            assert problem.where.startswith("$.")
            assert problem.reason


@given(st.dictionaries(st.sampled_from(["type", "version", "id", "createdAt", "cwd", "x"]), JSON))
def test_no_header_does_worse_than_being_refused(row: dict[str, Any]) -> None:
    assert v0.validate_header(row)
    assert v4.validate_header(row)


V4_HEADER: dict[str, Any] = {
    "type": "session", "version": 4, "id": "s", "createdAt": 1, "isSeeded": False, "delegationDepth": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "rule", "where"),
    [
        ({"version": 3}, "S-LNT-11", "$.version"),
        ({"version": True}, "S-LNT-11", "$.version"),
        ({"seedLength": 3}, "S-LNT-12", "$.seedLength"),
        ({"cwd": "relative"}, "S-LNT-13", "$.cwd"),
        ({"cwd": None}, "S-HDR-1", "$.cwd"),
        ({"origin": "fork"}, "S-LNT-13", "$.origin"),
        ({"isSeeded": ...}, "S-LNT-13", "$.isSeeded"),
        ({"delegationDepth": ...}, "S-LNT-13", "$.delegationDepth"),
        ({"createdAt": -1}, "S-LNT-13", "$.createdAt"),
        ({"id": ""}, "S-LNT-13", "$.id"),
    ],
)
def test_header_faults(change: dict[str, Any], rule: str, where: str) -> None:
    row = {key: value for key, value in {**V4_HEADER, **change}.items() if value is not ...}
    assert [(problem.rule, problem.where) for problem in v4.validate_header(row)] == [(rule, where)]


@pytest.mark.parametrize("cwd", ["/workspace", "C:\\work", "c:/work", "\\\\host\\share"])
def test_absolute_paths(cwd: str) -> None:
    assert v4.validate_header({**V4_HEADER, "cwd": cwd}) == ()


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"a": [1, {"b": -0.0}]}, ("a", 1, "b")),
        ([float("inf")], (0,)),
        (float("nan"), ()),
        ({"a": [0, 0.0, 1.5, "-0", None, True]}, None),
    ],
)
def test_what_json_would_lose(value: Any, path: tuple[Any, ...] | None) -> None:
    found = first_lossy(value)
    assert (None if found is None else found[0]) == path
