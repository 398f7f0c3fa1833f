"""One call is sent once; an answer's calls can be told apart; delays; and header histories that a log must prove."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopspec import calls, stream
from loopspec import request as requests
from loopspec.retry import Policy, local_delay, policy_refusal


def prepared() -> Any:
    """A call that registration 7 serves."""
    waiting = calls.MACHINE.step(calls.MACHINE.call(calls.NEW, ("prepare", 7))).config
    return calls.MACHINE.step(calls.MACHINE.resume(waiting, ("facts",))).config


def sent(call: Any, drifts: bool = False) -> tuple[Any, Any]:
    """How a dispatch ends, and the call after it."""
    move = calls.MACHINE.step(calls.MACHINE.call(call, ("dispatch", drifts)))
    return move.effect, move.config


def test_inv_l5_a_call_is_sent_once_and_only_when_it_was_prepared() -> None:
    refused = ("raise", "INVALID_PREPARED_CALL")
    assert sent(calls.NEW)[0] == refused
    first, after = sent(prepared())
    assert first == ("return", 7)
    assert sent(after)[0] == refused


def test_m_421_a_drift_is_refused_and_costs_nothing() -> None:
    end, after = sent(prepared(), drifts=True)
    assert end == ("raise", "INVALID_PREPARED_CALL")
    assert sent(after)[0] == ("return", 7)


@pytest.mark.parametrize(
    ("ids", "text"),
    [(["a", "b"], None), ([], None), ([""], "call 1 of the answer has no id"), (["a", "b", "a"], "have the id 'a'")],
)
def test_race_23_calls_need_ids_of_their_own(ids: list[str], text: str | None) -> None:
    content = [{"type": "tool-call", "id": id, "name": "n", "arguments": ""} for id in ids]
    failure = stream.call_ids_failure([{"type": "text", "text": "t"}, *content])
    assert (failure is None) == (text is None)
    if failure is not None and text is not None:
        assert text in failure["message"]
        assert failure["code"] == "MALFORMED_RESPONSE"


@pytest.mark.parametrize(
    ("policy", "retry", "chance", "delay"),
    [
        (Policy(initial=500, longest=10000, jitter=0.1), 1, 0.0, 450),
        (Policy(initial=500, longest=10000, jitter=0.1), 2, 1.0, 1100),
        (Policy(initial=1.5, longest=100, jitter=0.5), 9, 0.25, 75),
        (Policy(initial=0.5, longest=100, jitter=1), 10**9, 0.0, 0),
        (Policy(initial=1.1, longest=4, jitter=0), 3, 0.5, 4),
    ],
)
def test_m_610_delays_by_hand(policy: Policy, retry: int, chance: float, delay: float) -> None:
    assert local_delay(policy, retry, chance) == pytest.approx(delay)


@given(
    st.floats(1e-300, 2**31 - 1), st.floats(1e-300, 2**31 - 1), st.floats(0, 1), st.integers(1, 5000), st.floats(0, 1)
)
@settings(max_examples=100, deadline=None)
def test_inv_r5_a_delay_is_within_its_policy(one: float, two: float, jitter: float, retry: int, chance: float) -> None:
    policy = Policy(initial=min(one, two), longest=max(one, two), jitter=jitter)
    assert policy_refusal(policy) is None
    assert 0 <= local_delay(policy, retry, chance) <= policy.longest


HEADERS = st.fixed_dictionaries(
    {"config": st.fixed_dictionaries({"provider": st.sampled_from("ab"), "model": st.just("m")},
                                     optional={"maxTokens": st.integers(1, 3), "reasoningEffort": st.just("low")})},
    optional={"adapterDefaults": st.fixed_dictionaries({}, optional={"maxTokens": st.booleans()}),
              "system": st.sampled_from(["", "s"]), "tools": st.lists(st.just({"name": "t"}), max_size=1)},
)  # fmt: skip


@given(st.lists(st.one_of(HEADERS, st.just("ask")), min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_inv_l4_each_request_of_a_history_is_that_of_the_last_header(history: list[Any]) -> None:
    """Headers and attempts in any order: what the log proves is the last header before each attempt, by hand."""
    events: list[Any] = []
    expected: list[Any] = []
    last: Any = None
    for item in history:
        if item != "ask":
            last = item
            events.append({"type": "request/header", "data": {"header": item, "reason": "change"}})
        elif last is not None:
            fields = {name: last[name] for name in ("system", "tools") if last.get(name)}
            expected.append({**last["config"], "messages": [], **fields, "sessionId": "s"})
            events += [
                {"type": "step/start", "data": {"turn": 1, "step": 1}},
                {"type": "assistant/chunk", "data": {"chunk": {"type": "finish", "reason": {"kind": "stop"}}}},
            ]
    found = requests.reconstruct_requests({"version": 0, "id": "s"}, [{**e, "seq": n} for n, e in enumerate(events)])
    assert [{**one.request, "messages": list(one.request["messages"])} for one in found] == expected
    assert all(requests.parts(one.request, want) == () for one, want in zip(found, expected, strict=True))


def test_parts_are_named() -> None:
    """Provider and effort count too."""
    sent_request = {"provider": "a", "model": "m", "reasoningEffort": "low", "messages": [1]}
    assert requests.parts(sent_request, {**sent_request, "provider": "b"}) == ("provider",)
    assert requests.parts(sent_request, {"provider": "a", "model": "m", "messages": [2]}) == (
        "reasoningEffort",
        "messages",
    )
