"""Payloads to chunks: tool calls with heads that are missing, late or doubled, the end of a stream, usage."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.wire import delta, said

from loopharness.frozen import thaw
from loopharness.model.deepseek.translate import Translation, WrongShape, ended, translate, usage_chunk
from loopharness.model.failure import LlmError
from loopspec import stream
from loopspec.log.v0 import validate_data
from loopspec.profile import Law, law

SEED, PUBLISHED = law("seed"), law("dsh-0.1")


def ids() -> Callable[[], str]:
    """Ids that are counted."""
    numbers = itertools.count(1)
    return lambda: f"new-{next(numbers)}"


def chunks(*payloads: Any, rules: Law = SEED) -> list[Any]:
    """All chunks of a stream that ends with `[DONE]`."""
    state = Translation()
    found: list[Any] = []
    for payload in payloads:
        state, made = translate(state, payload, rules)
        found += made
    return [thaw(chunk) for chunk in [*found, *ended(state, rules, ids())]]


def call(index: int | None = None, id: str | None = None, name: str | None = None, piece: str | None = None) -> Any:
    """The payload of one piece of a tool call; what is `None` is absent."""
    function = {key: value for key, value in (("name", name), ("arguments", piece)) if value is not None}
    head = {key: value for key, value in (("index", index), ("id", id)) if value is not None}
    return delta(tool_calls=[{**head, "function": function}])


def settled(found: list[Any]) -> list[Any]:
    """The blocks that the assembler makes of chunks."""
    return [thaw(block) for block in stream.settle(stream.assemble(found)).content]


def block(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "tool-call", "id": id, "name": name, "arguments": arguments}


# -- heads of tool calls (G1 to G4) ----------------------------------------------------------------------------

CALLS: tuple[tuple[str, list[Any], list[Any] | str], ...] = (
    ("whole", [call(0, "a", "f", "{}")], [block("a", "f", "{}")]),
    ("in pieces", [call(0, "a", "f", ""), call(0, piece="{"), call(0, piece="}")], [block("a", "f", "{}")]),
    (
        "two, interleaved",
        [call(0, "a", "f", "1"), call(1, "b", "g", "2"), call(0, piece="3"), call(1, piece="4")],
        [block("a", "f", "13"), block("b", "g", "24")],
    ),
    (
        "indexes in any order",
        [call(5, "a", "f", "1"), call(2, "b", "g", "2")],
        [block("a", "f", "1"), block("b", "g", "2")],
    ),
    ("head repeated", [call(0, "a", "f", "1"), call(0, "a", "f", "2")], [block("a", "f", "12")]),
    ("no id", [call(0, None, "f", "1"), call(0, piece="2")], [block("new-1", "f", "12")]),
    ("empty id", [call(0, "", "f", "1")], [block("new-1", "f", "1")]),
    ("late id", [call(0, None, "f", "1"), call(0, "a", None, "2")], [block("a", "f", "12")]),
    ("late name", [call(0, "a", None, "1"), call(0, None, "f", "2")], [block("a", "f", "12")]),
    ("empty head later", [call(0, "a", "f", "1"), call(0, "", "", "2")], [block("a", "f", "12")]),
    ("no index", [call(None, "a", "f", "1"), call(None, None, None, "2")], [block("a", "f", "12")]),
    (
        "no index, two",
        [call(None, "a", "f", "1"), call(None, "b", "f", "2")],
        [block("a", "f", "1"), block("b", "f", "2")],
    ),
    (
        "no index, interleaved by id",
        [call(None, "a", "f", "1"), call(None, "b", "f", "2"), call(None, "a", None, "3")],
        [block("a", "f", "13"), block("b", "f", "2")],
    ),
    ("no index, late id", [call(None, None, "f", "1"), call(None, "a", None, "2")], [block("a", "f", "12")]),
    (
        "no index, id with a name",
        [call(None, None, "f", "1"), call(None, "a", "g", "2")],
        [block("new-1", "f", "1"), block("a", "g", "2")],
    ),
    (
        "one index, two ids",
        [call(0, "a", "f", "1"), call(0, "b", "g", "2"), call(0, piece="3")],
        [block("a", "f", "1"), block("b", "g", "23")],
    ),
    ("index comes later", [call(None, "a", "f", "1"), call(0, "a", None, "2")], [block("a", "f", "12")]),
    ("no head at all, once", [call(None, None, "f", "1")], [block("new-1", "f", "1")]),
    ("one id, two indexes", [call(0, "a", "f", "1"), call(1, "a", "f", "2")], 'two tool calls have the id "a"'),
    (
        "a late id that is taken",
        [call(0, "a", "f", "1"), call(1, None, "f", "2"), call(1, "a")],
        'two tool calls have the id "a"',
    ),
    (
        "a late id that is taken by a call without an index",
        [call(None, "a", "f", "1"), call(1, None, "g", "2"), call(1, "a")],
        'two tool calls have the id "a"',
    ),
    ("two names", [call(0, "a", "f", "1"), call(0, None, "g", "2")], 'a tool call is named "f" and then "g"'),
    (
        "no heads, two",
        [call(None, None, "f", "1"), call(None, None, "f", "2")],
        "a tool call has neither an index nor an id, and another one came before it",
    ),
    ("no name", [call(0, "a", None, "1")], "a tool call has no name"),
    ("empty name", [call(0, "a", "", "1")], "a tool call has no name"),
    ("arguments are a list", [call(0, "a", "f", [])], "arguments of a tool call are a list, not text"),  # type: ignore[arg-type]
)


@pytest.mark.parametrize(("payloads", "outcome"), [case[1:] for case in CALLS], ids=[case[0] for case in CALLS])
def test_tool_calls(payloads: list[Any], outcome: list[Any] | str) -> None:
    if isinstance(outcome, str):
        assert failed(payloads) == ("MALFORMED_RESPONSE", f"malformed response: {outcome}")
        return
    found = chunks(*payloads)
    assert [chunk["block"] for chunk in found if chunk["type"] == "block-end"] == outcome
    assert settled(found) == outcome
    without_ends = [chunk for chunk in found if chunk["type"] != "block-end"]
    assert settled(without_ends) == outcome  # deltas alone say the same
    assert stream.judge_stream(found) == ()


def failed(payloads: list[Any]) -> tuple[str, str]:
    """Code and message of the failure of a stream, raised or said in its finish."""
    try:
        failure = chunks(*payloads)[-1]["reason"]["failure"]
    except LlmError as error:
        failure = error.failure
    return failure["code"], failure["message"]


def test_pieces_are_held_back_until_there_is_an_id() -> None:
    found = chunks(call(0, None, "f", "1"), call(0, piece="2"), call(0, "a", None, "3"), call(0, piece="4"))
    deltas = [(chunk["id"], chunk["argumentsDelta"]) for chunk in found if chunk["type"] == "tool-call-delta"]
    assert deltas == [("a", "123"), ("a", "4")]


@pytest.mark.parametrize("head", [(None, None), (None, "f"), ("a", None)])
def test_a_call_that_the_limit_cut_off_needs_no_head(head: tuple[str | None, str | None]) -> None:
    found = chunks(*said("Hi."), call(0, head[0], head[1], "{"), delta("length"))
    assert found[-1]["reason"] == {"kind": "max-tokens"}
    assert settled(found) == [{"type": "text", "text": "Hi."}]
    assert stream.judge_stream(found) == ()
    assert all(chunk.get("id") != "" for chunk in found)
    assert [chunk["index"] for chunk in found if chunk["type"] == "block-end"] == [0]


def test_published_adapters_hand_on_what_is_empty() -> None:
    found = chunks(call(0, None, "f", "1"), rules=PUBLISHED)
    assert [(c["id"], c["argumentsDelta"]) for c in found if c["type"] == "tool-call-delta"] == [("", "1")]
    assert found[-2]["block"] == block("", "f", "1")


def test_published_adapters_merge_and_erase() -> None:
    found = chunks(call(0, "a", "f", "1"), call(0, "b", "g", "2"), call(0, "", "", "3"), rules=PUBLISHED)
    assert [chunk["block"] for chunk in found if chunk["type"] == "block-end"] == [block("", "", "123")]


# -- text ------------------------------------------------------------------------------------------------------


def test_one_block_of_each_kind_in_first_opened_order() -> None:
    found = chunks(
        delta(content="a"), call(0, "c", "f", "{}"), delta(content="b", reasoning_content="r"), delta("stop")
    )
    assert [c["blockType"] for c in found if c["type"] == "block-start"] == ["text", "tool-call", "reasoning"]
    assert settled(found)[0] == {"type": "text", "text": "ab"}
    assert [c["type"] for c in found[-4:]] == ["block-end", "block-end", "block-end", "finish"]


def test_reasoning_comes_before_text_in_one_payload() -> None:
    found = chunks(delta(content="t", reasoning_content="r"))
    assert [c["blockType"] for c in found if c["type"] == "block-start"] == ["reasoning", "text"]


def test_empty_and_null_open_nothing() -> None:
    assert chunks(delta(content=None, reasoning_content=""), *said("", "x"))[0] == {
        "type": "block-start",
        "index": 0,
        "blockType": "text",
    }


def test_halves_of_a_character_are_put_together() -> None:
    found = chunks(*said("a\ud83d", "\ude42b", "\ud83d"))
    assert [c["text"] for c in found if c["type"] == "text-delta"] == ["a", "🙂b", "\ud83d"]
    assert settled(found) == [{"type": "text", "text": "a🙂b\ud83d"}]


def test_choices_are_taken_in_their_order() -> None:
    two = {
        "choices": [
            {"delta": {"content": "a"}, "finish_reason": "length"},
            {"delta": {"content": "b"}, "finish_reason": "stop"},
        ]
    }
    found = chunks(two)
    assert settled(found) == [{"type": "text", "text": "ab"}]
    assert found[-1]["reason"] == {"kind": "stop"}


# -- the end ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("finish", "kind"), [("stop", "stop"), ("tool_calls", "tool-calls"), ("length", "max-tokens"), (None, "stop")]
)
def test_finish(finish: str | None, kind: str) -> None:
    assert chunks(*said("x"), delta(finish))[-1] == {"type": "finish", "reason": {"kind": kind}}


def test_the_last_finish_wins_and_only_text_counts() -> None:
    odd = {"choices": [{"delta": {}, "finish_reason": 7}]}
    assert chunks(*said("x"), delta("length"), delta("stop"), odd)[-1]["reason"] == {"kind": "stop"}


def test_an_unknown_finish_is_a_failure() -> None:
    found = chunks(*said("x"), delta("content_filter"))
    assert found[-1]["reason"]["failure"] == {"message": "model stopped: content_filter", "code": "CONTENT_FILTER"}
    assert found[-2]["type"] == "block-end"


def test_nothing_said_is_a_failure_behind_its_usage() -> None:
    counted = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 0}}
    assert [c["type"] for c in chunks(counted, delta("stop"))] == ["usage", "finish"]
    assert chunks(counted)[-1]["reason"]["failure"]["code"] == "EMPTY_RESPONSE"
    assert chunks(delta("tool_calls"))[-1]["reason"] == {"kind": "tool-calls"}


# -- usage -----------------------------------------------------------------------------------------------------

USAGES: tuple[tuple[Any, Any], ...] = (
    ({"prompt_tokens": 10, "completion_tokens": 5}, {"inputTokens": 10, "outputTokens": 5}),
    (
        {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 6},
        {"inputTokens": 6, "outputTokens": 5, "cacheReadTokens": 4},
    ),
    (
        {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "prompt_cache_hit_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 7},
        },
        {"inputTokens": 3, "outputTokens": 5, "cacheReadTokens": 7},
    ),
    (
        {"prompt_tokens": 10, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 2}},
        {"inputTokens": 10, "outputTokens": 5, "reasoningTokens": 2},
    ),
    (
        {"prompt_tokens": 10, "completion_tokens": 5, "prompt_cache_hit_tokens": 0},
        {"inputTokens": 10, "outputTokens": 5, "cacheReadTokens": 0},
    ),
    (
        {"prompt_tokens": 1, "completion_tokens": 5, "prompt_cache_hit_tokens": 4},
        {"inputTokens": 0, "outputTokens": 5, "cacheReadTokens": 4},
    ),
    ({"prompt_tokens": True, "completion_tokens": 5}, None),
    ({"prompt_tokens": 1.5, "completion_tokens": 5}, None),
    ({"prompt_tokens": 10**30, "completion_tokens": 5}, None),
    ({"prompt_tokens": 10}, None),
    ({}, None),
    (None, None),
    ([], None),
)


@pytest.mark.parametrize(("wire", "counts"), USAGES)
def test_usage(wire: Any, counts: Any) -> None:
    chunk = usage_chunk(wire, SEED)
    assert (None if chunk is None else thaw(chunk["usage"])) == counts


def test_published_usage_may_be_negative() -> None:
    chunk = usage_chunk({"prompt_tokens": 1, "completion_tokens": 5, "prompt_cache_hit_tokens": 4}, PUBLISHED)
    assert chunk is not None
    assert chunk["usage"]["inputTokens"] == -3


def test_the_last_usage_wins_wherever_it_stands() -> None:
    first = {**delta(content="x"), "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    last = {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 2}}
    found = chunks(first, last, {**delta("stop"), "usage": None})
    assert [c["usage"]["inputTokens"] for c in found if c["type"] == "usage"] == [2]
    assert [c["type"] for c in found[-3:]] == ["block-end", "usage", "finish"]


# -- anything --------------------------------------------------------------------------------------------------

SCALARS = st.none() | st.booleans() | st.integers(-3, 10) | st.sampled_from(["", "a", "b", "stop", "length", "é"])
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)


def sound_or_not(sound: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(sound, sound, sound, sound, ANYTHING)


WORDS = st.sampled_from(["", "a", "b", "c"])
PIECES = st.sampled_from(["", "x", "{}", "\ud83d", "\ude42", "🙂"])
FUNCTIONS = st.fixed_dictionaries({}, optional={"name": sound_or_not(WORDS), "arguments": sound_or_not(PIECES)})
TOOL_CALLS = st.fixed_dictionaries(
    {},
    optional={"index": sound_or_not(st.integers(0, 2)), "id": sound_or_not(WORDS), "function": sound_or_not(FUNCTIONS)},
)
DELTAS = st.fixed_dictionaries(
    {},
    optional={
        "content": sound_or_not(PIECES),
        "reasoning_content": sound_or_not(PIECES),
        "tool_calls": sound_or_not(st.lists(sound_or_not(TOOL_CALLS), max_size=2)),
    },
)
FINISHES = st.sampled_from([None, None, "stop", "length", "tool_calls", "odd"])
CHOICES = st.fixed_dictionaries({"delta": sound_or_not(DELTAS), "finish_reason": sound_or_not(FINISHES)})
COUNTS = st.fixed_dictionaries({"prompt_tokens": st.integers(-1, 9), "completion_tokens": st.integers(0, 9)})
PAYLOADS = st.fixed_dictionaries(
    {"choices": sound_or_not(st.lists(sound_or_not(CHOICES), max_size=2))},
    optional={"usage": sound_or_not(COUNTS), "error": ANYTHING},
)


@given(st.lists(sound_or_not(PAYLOADS), max_size=8), st.sampled_from([SEED, PUBLISHED]))
def test_any_stream_is_legal_or_a_typed_failure(payloads: list[Any], rules: Law) -> None:
    """Whatever a server sends: the chunks follow the grammar, a log takes them, and no call is without id and name."""
    state = Translation()
    found: list[Any] = []
    try:
        for payload in payloads:
            state, made = translate(state, payload, rules)
            found += made
        found += ended(state, rules, ids())
    except (LlmError, WrongShape):
        assert stream.judge_stream(found, cut=True) == ()
        return
    assert stream.judge_stream(found) == ()
    if rules is PUBLISHED:
        return
    for chunk in found:
        assert validate_data("assistant/chunk", {"turn": 1, "step": 1, "chunk": chunk}) == ()
    if stream.failure(stream.assemble(found)) is None:
        content = stream.settle(stream.assemble(found)).content
        calls = stream.tool_calls(content)
        assert all(one["id"] and one["name"] for one in calls)
        assert len({one["id"] for one in calls}) == len(calls)
        deltas = [chunk for chunk in found if chunk["type"] != "block-end"]
        assert [block["type"] for block in stream.settle(stream.assemble(deltas)).content] == [
            b["type"] for b in content
        ]
