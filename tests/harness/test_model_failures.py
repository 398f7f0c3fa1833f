"""Failure facts, error chains, and the scripted model (M-30x, L-ERR-7, L-ERR-8)."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from tests.harness.models import collect, request

from loopharness.errors import HarnessError, error_chain, error_message
from loopharness.frozen import FrozenDict, thaw
from loopharness.gate import Gate
from loopharness.model.failure import LlmError, failure_facts, normalise_failure, turn_error
from loopharness.model.scripted import ScriptedAdapter, fail, reasoning, text, tool_calls
from loopharness.model.service import LlmService
from loopspec.stream import assemble, judge_stream, settle

pytestmark = pytest.mark.anyio

# -- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "facts",
    [
        {"message": ""},
        {"code": ""},
        {"code": 5},
        {"status": 99},
        {"status": 600},
        {"status": 200.0},
        {"provider_retry_after_ms": 0},
        {"provider_retry_after_ms": float("inf")},
        {"provider_retry_after_ms": True},
        {"request_id": ""},
    ],
)
def test_m_301_bad_failure_facts_are_refused(facts: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="failure "):
        failure_facts(**{"message": "m", "code": "C", **facts})


def test_m_301_absent_facts_are_absent() -> None:
    assert failure_facts("m", "C") == {"message": "m", "code": "C"}
    full = failure_facts("m", "C", 500, 1.5, "r")
    assert full == {"message": "m", "code": "C", "status": 500, "providerRetryAfterMs": 1.5, "requestId": "r"}


def test_m_302_an_llm_error_carries_its_frozen_record() -> None:
    error = LlmError("m", "C", status=500)
    assert error.failure == {"message": "m", "code": "C", "status": 500}
    assert error.name == "LlmError"
    assert LlmError.of(error.failure).failure == error.failure


class Foreign(Exception):
    """An error of somebody else's."""


def test_m_303_only_own_valid_facts_are_taken() -> None:
    trusted = Foreign("text")
    trusted.code = "C"  # type: ignore[attr-defined]
    trusted.failure = {"message": "facts", "code": "C", "status": 500}  # type: ignore[attr-defined]
    assert normalise_failure(trusted) == {"message": "facts", "code": "C", "status": 500}
    trusted.code = "OTHER"  # type: ignore[attr-defined]
    assert normalise_failure(trusted) == {"message": "text", "code": "UNKNOWN"}
    trusted.failure = {"message": "", "code": "OTHER"}  # type: ignore[attr-defined]
    assert normalise_failure(trusted) == {"message": "text", "code": "UNKNOWN"}
    assert normalise_failure(HarnessError("m", "CODED")) == {"message": "m", "code": "CODED"}
    assert normalise_failure(Foreign()) == {"message": "LLM adapter failed", "code": "UNKNOWN"}


class Hostile(Exception):
    """An error that cannot be looked at."""

    def __str__(self) -> str:
        raise RuntimeError("do not look")

    @property
    def failure(self) -> object:
        raise AssertionError("accessors are not invoked")


def test_m_303_a_hostile_error_is_survived() -> None:
    assert normalise_failure(Hostile()) == {"message": "LLM adapter failed", "code": "UNKNOWN"}


def test_l_err_7_turn_end_gets_facts_or_the_chain() -> None:
    assert turn_error(LlmError("m", "C", status=500)) == {"message": "m", "code": "C", "status": 500}
    assert turn_error(HarnessError("m", "CODED")) == {"message": "m", "code": "UNKNOWN"}
    outer = ValueError("outer")
    outer.__cause__ = KeyError("inner")
    assert turn_error(outer) == {"message": "outer: 'inner'", "code": "UNKNOWN"}


def caused(error: Exception, cause: BaseException) -> Exception:
    """The error with its cause."""
    error.__cause__ = cause
    return error


def circular() -> Exception:
    """Two errors that cause each other."""
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return first


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ValueError("plain"), "plain"),
        (ValueError(), "ValueError"),
        (caused(ValueError("outer"), OSError("inner")), "outer: inner"),
        (caused(ValueError("same"), OSError("same")), "same"),
        (caused(ValueError("a"), caused(ValueError("b"), OSError("c"))), "a: b: c"),
        (ExceptionGroup("many", [ValueError("a"), ValueError("b")]), "many [a; b]"),
        (caused(ExceptionGroup("many", [ValueError("a")]), OSError("why")), "many [a]: why"),
        (circular(), "first: second: <circular cause>"),
        (Hostile(), "<unrenderable value>"),
        (caused(ValueError("outer"), Hostile()), "outer: <unrenderable value>"),
        ({"message": "own"}, "own"),
        ("just text", "just text"),
        (None, "None"),
    ],
)
def test_l_err_8_the_chain_in_one_line(value: object, expected: str) -> None:
    assert error_chain(value) == expected


def test_l_err_8_the_same_cause_twice_is_no_cycle() -> None:
    shared = ValueError("shared")
    group = ExceptionGroup("many", [caused(ValueError("a"), shared), caused(ValueError("b"), shared)])
    assert error_chain(group) == "many [a: shared; b: shared]"


def test_error_message_of_hostile_values() -> None:
    assert error_message(Hostile()) == "<unprintable thrown value>"
    assert error_message(ValueError("m")) == "m"
    assert error_message({"message": "own"}) == "own"


# -- the scripted model ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "content"),
    [
        (text("a", "b", usage=(1, 2)), [{"type": "text", "text": "ab"}]),
        (reasoning("hm", "ok"), [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "ok"}]),
        (
            tool_calls(("1", "t", {"x": 1}), ("2", "u", "not json"), say="wait"),
            [
                {"type": "text", "text": "wait"},
                {"type": "tool-call", "id": "1", "name": "t", "arguments": '{"x":1}'},
                {"type": "tool-call", "id": "2", "name": "u", "arguments": "not json"},
            ],
        ),
    ],
)
def test_scripted_responses_keep_the_stream_grammar(response: list[FrozenDict], content: list[Any]) -> None:
    assert judge_stream(response) == ()
    assert [thaw(block) for block in settle(assemble(response)).content] == content


def test_a_scripted_failure_is_a_terminal_chunk() -> None:
    assert [thaw(chunk) for chunk in fail("down", "SERVER", status=503)] == [
        {"type": "finish", "reason": {"kind": "error", "failure": {"message": "down", "code": "SERVER", "status": 503}}}
    ]


async def test_the_script_is_played_in_order_and_a_miss_is_loud(
    service: LlmService, caplog: pytest.LogCaptureFixture
) -> None:
    adapter = ScriptedAdapter([text("one"), text("two")])
    service.register_adapter(["p"], adapter)
    await collect(service.stream(request()))
    with pytest.raises(AssertionError, match="only 1 of 2 responses"):
        adapter.finish_script()
    await collect(service.stream(request()))
    adapter.finish_script()
    with caplog.at_level(logging.ERROR):
        [last] = await collect(service.stream(request(messages=[{"id": "m9"}])))
    assert last["reason"]["failure"]["code"] == "SCRIPT_EXHAUSTED"
    assert 'call 3 came, but the script has only 2 responses; last message of the request: {"id":"m9"}' in caplog.text
    with pytest.raises(AssertionError, match="call 3 came"):
        adapter.finish_script()


async def test_gates_and_actions_stand_between_chunks(service: LlmService) -> None:
    before, after = Gate(), Gate()
    acted: list[str] = []
    [start, delta, *rest] = text("hi")
    adapter = ScriptedAdapter([[before, start, lambda: acted.append("acted"), delta, after, *rest]])
    service.register_adapter(["p"], adapter)
    got: list[Any] = []

    async def consume() -> None:
        async for chunk in service.stream(request()):
            got.append(chunk["type"])

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await before.reached()
        assert got == []
        before.open()
        await after.reached()
        assert got == ["block-start", "text-delta"]
        assert acted == ["acted"]
        after.open()
    assert got == ["block-start", "text-delta", "block-end", "finish"]
