"""The tables of the tests of the pure parts, as checks that can be run again with a fault in place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from tests.model import faults, test_convert, test_failures, test_sse, test_translate

from loopharness.frozen import freeze
from loopharness.model.deepseek import convert, failures, sse, translate
from loopspec.profile import law

MODULES: Mapping[str, Any] = {
    "sse": sse,
    "translate": translate,
    "convert": convert,
    "failures": failures,
    "test_sse": test_sse,
    "test_translate": test_translate,
    "test_convert": test_convert,
    "test_failures": test_failures,
}
"""Where a function is looked up by its name: the modules that have it, and the tests that import it from them."""


def sse_rules() -> None:
    """Every rule of framing."""
    for _, stream, events in test_sse.RULES:
        assert test_sse.fed(stream) == events


def sse_cuts() -> None:
    """Every rule, cut into two reads at each byte, and into single bytes."""
    for _, stream, events in test_sse.RULES:
        for at in range(len(stream) + 1):
            assert test_sse.fed(stream[:at], stream[at:]) == events
        assert test_sse.fed(*(stream[at : at + 1] for at in range(len(stream)))) == events


def sse_last_cr() -> None:
    """What a CR in the last place means."""
    test_sse.test_a_cr_ends_its_line_at_once()
    test_sse.test_a_published_framer_waits_for_one_more_byte()


def sse_limits() -> None:
    """The bound of an event."""
    for stream in (b"data: " + b"x" * 100, b": " + b"x" * 100 + b"\n", b"data: xxxxxxxxx\n" * 10, b"data:\n" * 100):
        for step in (1, 7, 1000):
            test_sse.test_an_event_beyond_the_limit_ends_everything(stream, step)
    test_sse.test_the_limit_is_for_one_event()
    test_sse.test_a_long_line_in_small_reads_is_not_copied_again_and_again()


def calls() -> None:
    """Heads of tool calls."""
    for _, payloads, outcome in test_translate.CALLS:
        test_translate.test_tool_calls(payloads, outcome)
    test_translate.test_pieces_are_held_back_until_there_is_an_id()
    for head in ((None, None), (None, "f"), ("a", None)):
        test_translate.test_a_call_that_the_limit_cut_off_needs_no_head(head)
    test_translate.test_published_adapters_merge_and_erase()
    test_translate.test_published_adapters_hand_on_what_is_empty()


def texts() -> None:
    """Text, reasoning, the end."""
    test_translate.test_one_block_of_each_kind_in_first_opened_order()
    test_translate.test_reasoning_comes_before_text_in_one_payload()
    test_translate.test_empty_and_null_open_nothing()
    test_translate.test_halves_of_a_character_are_put_together()
    test_translate.test_choices_are_taken_in_their_order()
    test_translate.test_the_last_finish_wins_and_only_text_counts()
    test_translate.test_an_unknown_finish_is_a_failure()
    test_translate.test_nothing_said_is_a_failure_behind_its_usage()
    for finish, kind in (("stop", "stop"), ("tool_calls", "tool-calls"), ("length", "max-tokens"), (None, "stop")):
        test_translate.test_finish(finish, kind)


def usages() -> None:
    """Token counts."""
    for wire, counts in test_translate.USAGES:
        test_translate.test_usage(wire, counts)
    test_translate.test_published_usage_may_be_negative()
    test_translate.test_the_last_usage_wins_wherever_it_stands()


def shapes() -> None:
    """JSON of the wrong shape is a failure of its own."""
    wrong: Iterable[Any] = (
        None,
        7,
        {"choices": {}},
        {"choices": [None]},
        {"choices": [{"delta": "x"}]},
        {"choices": [{"delta": {"content": 5}}]},
        {"choices": [{"delta": {"tool_calls": {}}}]},
        {"choices": [{"delta": {"tool_calls": [None]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": -1}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": 5}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": "f"}]}}]},
    )
    for payload in wrong:
        with pytest.raises(translate.WrongShape):
            test_translate.chunks(payload)


def carried() -> None:
    """Errors inside a good stream."""
    table: Iterable[tuple[Any, str | None, str | None]] = (
        ({"error": {"message": "m", "type": "server_error"}}, "m", "SERVER"),
        ({"error": {"message": "m", "code": 429}}, "m", "RATE_LIMIT"),
        ({"error": {"message": "m", "code": 200}}, "m", "UNKNOWN"),
        ({"error": {"message": "m", "status": 401}}, "m", "AUTH"),
        ({"error": {"message": "m", "code": "odd_thing"}}, "m", "ODD_THING"),
        ({"error": {"message": "m", "code": "odd thing"}}, "m", "UNKNOWN"),
        ({"error": {"message": "insufficient credits"}}, "insufficient credits", "QUOTA"),
        ({"error": {"message": faults.LONG, "code": 500}}, faults.LONG, "CONTEXT_WINDOW_EXCEEDED"),
        ({"error": "broken"}, "broken", "UNKNOWN"),
        ({"error_message": "m", "error_type": "BadRequestError"}, "m", "INVALID_REQUEST"),
        ({"object": "error", "message": "m", "code": 404}, "m", "HTTP_404"),
        ({"error": {"code": 1}}, "DeepSeek API reported an error inside the stream", "UNKNOWN"),
        ({"error": None}, None, None),
        ({"error": {}}, None, None),
        ({"error": ""}, None, None),
        ({"object": "chat.completion.chunk", "message": "m"}, None, None),
    )
    for payload, message, code in table:
        found = failures.carried_failure(payload)
        assert (
            (message, code) == (None, None) if found is None else (found["message"], found["code"]) == (message, code)
        )
    for payload in ({"error": {"message": "m"}}, {"choices": [{"delta": {}, "error": {"message": "m"}}]}):
        assert test_translate.failed([payload]) == ("UNKNOWN", "m")
        test_translate.chunks(payload, rules=law("dsh-0.1"))


def statuses() -> None:
    """The status table, without a network."""
    for case in (*faults.STATUSES, *faults.WAITS):
        if "error" in case.answer:
            body = json.dumps({"error": case.answer["error"]}).encode()
            made = failures.status_failure(case.answer["status"], case.answer["headers"], body, 10_000, law("seed"))
            assert made.code == case.code
            assert not case.message or made.message == case.message
            for name, value in (case.facts or {}).items():
                assert made.failure.get(name) == value


def wordings() -> None:
    """Overflow and quota."""
    for words in test_failures.OVERFLOWS:
        test_failures.test_overflow(words)
    for words in test_failures.NO_OVERFLOWS:
        test_failures.test_no_overflow(words)
    for words in test_failures.QUOTAS:
        test_failures.test_quota(words)
    for words in test_failures.NO_QUOTAS:
        test_failures.test_no_quota(words)


def messages() -> None:
    """Messages on the wire."""
    for _, given, expected in test_convert.MESSAGES:
        assert convert.wire_messages(freeze({"messages": [given]})) == expected
    for place in ("user", "result", "tool", "assistant"):
        test_convert.test_an_image_is_refused(place)
    test_convert.test_the_prompt_of_format_0_comes_first()


def bodies() -> None:
    """The body of a request."""
    test_convert.test_the_smallest_body()
    test_convert.test_every_field()
    test_convert.test_nothing_is_null()
    test_convert.test_bytes()


def thinking() -> None:
    """Effort and thinking."""
    for effort, deployment, fields in (
        (None, None, {}),
        (None, "enabled", test_convert.ENABLED),
        ("off", "enabled", test_convert.DISABLED),
        ("off", "disabled", test_convert.DISABLED),
        ("low", None, {**test_convert.ENABLED, "reasoning_effort": "low"}),
        ("low", "disabled", None),
        ("medium", None, None),
    ):
        test_convert.test_thinking(effort, deployment, fields)
    test_convert.test_a_title_is_not_thought_about()


CHECKS: Mapping[str, Callable[[], None]] = {
    check.__name__: check
    for check in (
        sse_rules,
        sse_cuts,
        sse_last_cr,
        sse_limits,
        calls,
        texts,
        usages,
        shapes,
        carried,
        statuses,
        wordings,
        messages,
        bodies,
        thinking,
    )
}
