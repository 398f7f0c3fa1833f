"""Requests: rebuilt exactly from real logs, and the decisions about header, context and seed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loopspec.log import v0, v4
from loopspec.log.packed import unpack_rows
from loopspec.request import (
    ReconstructionError,
    adapter_defaults,
    build_request,
    canonical_header,
    context_due,
    first_seed,
    fold_header,
    header_reason,
    header_record,
    later_seed,
    propose_header,
    reconstruct_requests,
    route_refusal,
    same_header,
    starts_series,
)

CORPUS = Path(__file__).parents[1] / "logs" / "upstream-rc8"
SCENARIOS = sorted(path.name.removesuffix(".requests.json") for path in CORPUS.glob("*.requests.json"))

WORKED_EXAMPLE = Path(__file__).parent / "data" / "worked-example.v4.jsonl"


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def log_of(scenario: str) -> Path:
    """The log that a scenario's captured requests belong to; a fork's belong to the child."""
    child = CORPUS / f"{scenario}.{scenario}-child.jsonl"
    return child if child.exists() else CORPUS / f"{scenario}.jsonl"


def captured(scenario: str) -> list[dict[str, Any]]:
    requests = json.loads((CORPUS / f"{scenario}.requests.json").read_text("utf-8"))
    return [request for request in requests if "purpose" not in request]


def rebuilt(path: Path) -> list[dict[str, Any]]:
    header, *rows = rows_of(path)
    requests = [one.request for one in reconstruct_requests(header, unpack_rows(rows))]
    return [{**request, "messages": list(request["messages"])} for request in requests]


def rebuilt_by_the_capturing_process(scenario: str) -> list[dict[str, Any]]:
    """The requests after the inherited or crashed part of the log, which another process sent."""
    requests = rebuilt(log_of(scenario))
    if scenario in ("09b-crash-repaired", "09f-torn-multi-repaired", "10-fork"):
        return requests[1:]
    return requests


def test_the_corpus_is_whole() -> None:
    assert len(SCENARIOS) == 22
    assert sum(len(captured(scenario)) for scenario in SCENARIOS) == 48


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_captured_request_is_rebuilt_from_its_log(scenario: str) -> None:
    """S-REQ-10: nothing missing, nothing extra, every field equal."""
    assert rebuilt_by_the_capturing_process(scenario) == captured(scenario)


def test_the_anchor_is_the_first_chunk_of_the_attempt() -> None:
    header, *rows = rows_of(CORPUS / "06-error-and-retry.jsonl")
    events = list(unpack_rows(rows))
    anchors = [one.anchor for one in reconstruct_requests(header, events)]
    assert [(events[at]["type"], events[at - 1]["type"]) for at in anchors] == [
        ("assistant/chunk", "request/context"),
        ("assistant/chunk", "llm/retry-started"),
        ("assistant/chunk", "llm/retry-started"),
        ("assistant/chunk", "user/message"),
        ("assistant/chunk", "user/message"),
    ]


def test_the_worked_example_of_format_4() -> None:
    header, *rows = rows_of(WORKED_EXAMPLE)
    assert v4.validate_header(header) == ()
    events = [event.record for row in rows for event in v4.parse_row(row)]
    assert [
        (one.anchor, [m["id"] for m in one.request["messages"]]) for one in reconstruct_requests(header, events)
    ] == [
        (8, ["s1", "u1"]),
        (13, ["s1", "u1", "a1", "t1"]),
    ]
    for one in reconstruct_requests(header, events):
        assert set(one.request) == {"provider", "model", "messages", "tools", "sessionId"}
        assert one.request["tools"] == events[6]["data"]["header"]["tools"]
        assert (one.request["provider"], one.request["model"]) == ("mock", "m")
        assert one.request["sessionId"] == "example"


def test_a_stream_without_a_header_cannot_be_rebuilt() -> None:
    header, *rows = rows_of(CORPUS / "01-simple-turn.jsonl")
    events = [event for event in unpack_rows(rows) if event["type"] != "request/header"]
    with pytest.raises(ReconstructionError, match="event 6 belongs to a model stream"):
        reconstruct_requests(header, events)


def test_other_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="format 2 is not supported"):
        reconstruct_requests({"version": 2, "id": "x"}, [])


# -- header --------------------------------------------------------------------------------------------------

CONFIG = {"provider": "p", "model": "m"}
TOOL = {"name": "t", "description": "d", "parameters": {"type": "object", "properties": {}}}
FULL: dict[str, Any] = {
    "config": {**CONFIG, "reasoningEffort": "high", "temperature": 0.5, "maxTokens": 9, "stop": ["a", "b"]},
    "adapterDefaults": {"reasoningEffort": True, "maxTokens": True},
    "system": "s",
    "tools": [TOOL, {**TOOL, "name": "u"}],
}


def test_every_header_of_the_corpus_is_canonical() -> None:
    for path in CORPUS.glob("*.jsonl"):
        for row in rows_of(path):
            if row["type"] == "request/header":
                header = row["data"]["header"]
                assert canonical_header(header) is header


@pytest.mark.parametrize(
    ("header", "canonical"),
    [
        ({"config": CONFIG, "system": "", "tools": []}, {"config": CONFIG}),
        ({"config": CONFIG, "adapterDefaults": {}}, {"config": CONFIG}),
        ({"config": CONFIG, "adapterDefaults": {"maxTokens": False}}, {"config": CONFIG}),
        (
            {"config": CONFIG, "adapterDefaults": {"maxTokens": True, "reasoningEffort": False}, "tools": ()},
            {"config": CONFIG, "adapterDefaults": {"maxTokens": True}},
        ),
        (FULL, FULL),
    ],
)
def test_canonical_form(header: dict[str, Any], canonical: dict[str, Any]) -> None:
    assert canonical_header(header) == canonical


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """`FULL` with one place changed, or dropped when the value is `...`."""
    copy: dict[str, Any] = json.loads(json.dumps(FULL))
    here: Any = copy
    for part in path[:-1]:
        here = here[part]
    if value is ...:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("config", "provider"), "q"),
        (("config", "model"), "n"),
        (("config", "reasoningEffort"), "low"),
        (("config", "reasoningEffort"), ...),
        (("config", "temperature"), 0.25),
        (("config", "maxTokens"), 8),
        (("config", "stop"), ["b", "a"]),
        (("config", "stop"), ["a"]),
        (("adapterDefaults", "reasoningEffort"), ...),
        (("adapterDefaults", "maxTokens"), ...),
        (("system",), "other"),
        (("system",), ...),
        (("tools",), ...),
        (("tools",), [{**TOOL, "name": "u"}, TOOL]),
        (("tools", 1, "description"), "changed"),
        (("tools", 1, "parameters"), {"properties": {}, "type": "object"}),
    ],
)
def test_what_makes_two_headers_differ(path: tuple[str | int, ...], value: Any) -> None:
    """S-REQ-3; the last case differs in key order only, and tools compare by text."""
    assert not same_header(FULL, changed(path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("config",), dict(reversed(list(FULL["config"].items())))),
        (("config", "stop"), ("a", "b")),
        (("tools",), (TOOL, {**TOOL, "name": "u"})),
    ],
)
def test_what_does_not(path: tuple[str | int, ...], value: Any) -> None:
    assert same_header(FULL, changed(path, value))


def test_the_fold_takes_the_last_header() -> None:
    def event(header: dict[str, Any]) -> dict[str, Any]:
        return {"type": "request/header", "data": {"header": header, "reason": "change"}}

    other = {"type": "turn/start", "data": {"turn": 1}}
    assert fold_header([other]) is None
    assert fold_header([event(FULL), event({"config": CONFIG, "tools": []}), other]) == {"config": CONFIG}


OTHER = changed(("config", "model"), "n")


@pytest.mark.parametrize(
    ("logged", "proposed", "first", "series", "reason"),
    [
        (None, FULL, True, False, "initial"),
        (FULL, FULL, True, False, "resume"),
        (FULL, OTHER, True, True, "resume"),
        (FULL, FULL, False, False, None),
        (FULL, OTHER, False, False, "change"),
        (FULL, OTHER, False, True, "change"),
        (FULL, FULL, False, True, "series"),
    ],
)
def test_header_reasons(logged: Any, proposed: Any, first: bool, series: bool, reason: str | None) -> None:
    assert header_reason(logged, proposed, first_of_instance=first, starts_series=series) == reason


def test_real_logs_give_the_reasons_that_were_recorded() -> None:
    """Every header of the corpus, decided anew: `first of instance` = no header since the last end-seed."""
    seen = set()
    for path in sorted(CORPUS.glob("*.jsonl")):
        logged, first = None, True
        for event in unpack_rows(rows_of(path)[1:]):
            if event["type"] == "session/end-seed":
                first = True
            if event["type"] == "request/header":
                data = event["data"]
                reason = header_reason(logged, data["header"], first_of_instance=first)
                assert (path.name, event["seq"], reason) == (path.name, event["seq"], data["reason"])
                logged, first = data["header"], False
                seen.add(reason)
    assert seen == {"initial", "resume", "change"}


def test_header_records() -> None:
    assert header_record("change", FULL) == {"header": FULL, "reason": "change"}
    assert header_record("change", FULL, starts_series=True)["startsSeries"] is True
    assert "startsSeries" not in header_record("series", FULL, starts_series=True)
    for reason in ("initial", "resume", "change"):
        assert v0.validate_data("request/header", header_record(reason, FULL)) == ()


@pytest.mark.parametrize(
    ("asked", "now", "last", "tools", "last_tools", "answer"),
    [
        (False, 3, 3, [TOOL], [TOOL], False),
        (False, 3, None, None, (), False),
        (True, 3, 3, [TOOL], [TOOL], True),
        (False, 4, 3, [TOOL], [TOOL], True),
        (False, 3, 3, [TOOL], None, True),
    ],
)
def test_what_starts_a_series(asked: bool, now: int, last: int, tools: Any, last_tools: Any, answer: bool) -> None:
    assert answer == starts_series(
        asked=asked, generation=now, last_generation=last, tools=tools, last_tools=last_tools
    )


@pytest.mark.parametrize(
    ("logged", "window", "update", "due"),
    [
        (None, None, None, {"provider": "p", "model": "m"}),
        (CONFIG, None, None, None),
        (CONFIG, 9, None, {**CONFIG, "contextWindow": 9}),
        ({**CONFIG, "contextWindow": 9}, 9, None, None),
        ({**CONFIG, "contextWindow": 9}, None, None, CONFIG),
        ({**CONFIG, "model": "n"}, None, None, CONFIG),
        ({**CONFIG, "provider": "q"}, None, None, CONFIG),
        (CONFIG, None, "in-history", {**CONFIG, "systemPromptUpdate": "in-history"}),
    ],
)
def test_when_a_context_record_is_due(logged: Any, window: Any, update: Any, due: Any) -> None:
    answer = context_due(logged, provider="p", model="m", context_window=window, system_prompt_update=update)
    assert answer == due


# -- proposal ------------------------------------------------------------------------------------------------

LOGGED = {"config": {**CONFIG, "reasoningEffort": "low"}}


@pytest.mark.parametrize(
    ("options", "logged", "seed"),
    [
        ({}, None, {"provider": "", "model": ""}),
        (CONFIG, None, CONFIG),
        ({**CONFIG, "maxTokens": 5}, None, {**CONFIG, "maxTokens": 5}),
        (CONFIG, LOGGED, {**CONFIG, "reasoningEffort": "low"}),
        ({**CONFIG, "model": "n"}, LOGGED, {"provider": "p", "model": "n"}),
        ({**CONFIG, "provider": "q"}, LOGGED, {"provider": "q", "model": "m"}),
        (CONFIG, {**LOGGED, "adapterDefaults": {"reasoningEffort": True}}, CONFIG),
        (CONFIG, {"config": {**CONFIG, "maxTokens": 7}}, CONFIG),
        ({**CONFIG, "reasoningEffort": "max"}, LOGGED, {**CONFIG, "reasoningEffort": "max"}),
    ],
)
def test_the_seed_of_the_first_request(options: Any, logged: Any, seed: Any) -> None:
    assert first_seed(options, logged) == seed


def test_the_seed_of_later_requests_forgets_what_the_adapter_filled_in() -> None:
    assert later_seed({"config": FULL["config"]}) == FULL["config"]
    assert later_seed(FULL) == {**CONFIG, "temperature": 0.5, "stop": ["a", "b"]}
    one = {"config": FULL["config"], "adapterDefaults": {"maxTokens": True}}
    assert later_seed(one) == {**CONFIG, "reasoningEffort": "high", "temperature": 0.5, "stop": ["a", "b"]}


@pytest.mark.parametrize(
    ("proposed", "prepared", "marks"),
    [
        (CONFIG, CONFIG, None),
        (CONFIG, {**CONFIG, "maxTokens": 5}, {"maxTokens": True}),
        ({**CONFIG, "maxTokens": 5}, {**CONFIG, "maxTokens": 5}, None),
        (CONFIG, FULL["config"], {"maxTokens": True, "reasoningEffort": True}),
    ],
)
def test_markers(proposed: Any, prepared: Any, marks: Any) -> None:
    assert adapter_defaults(proposed, prepared) == marks


def test_a_proposed_header_is_canonical() -> None:
    assert propose_header(CONFIG) == {"config": CONFIG}
    full = propose_header(CONFIG, adapter_defaults=None, system="s", tools=[TOOL])
    assert full == {"config": CONFIG, "system": "s", "tools": [TOOL]}


def test_a_route_is_needed() -> None:
    assert route_refusal("a", CONFIG) is None
    text = (
        'agent "a" has no provider/model: set AgentOptions.provider and AgentOptions.model '
        "or supply both via the agent/request waterfall"
    )
    assert route_refusal("a", {**CONFIG, "model": ""}) == text
    assert route_refusal("a", {"model": "m"}) == text


def test_the_request_has_neither_markers_nor_context() -> None:
    request = build_request(FULL, (), "id")
    assert set(request) == {*FULL["config"], "messages", "system", "tools", "sessionId"}
    assert set(build_request({"config": CONFIG}, (), "id")) == {*CONFIG, "messages", "sessionId"}
