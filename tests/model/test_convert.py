"""Messages and tools to the body of a request: pure, and exact to the byte where a prompt cache looks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.model.wire import user

from loopharness.frozen import freeze
from loopharness.model.deepseek.convert import body_bytes, thinking_fields, wire_body, wire_messages
from loopharness.model.failure import LlmError


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def called(id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"type": "tool-call", "id": id, "name": "f", "arguments": arguments}


def result(id: str, *content: Any, error: bool = False) -> dict[str, Any]:
    return {"type": "tool-result", "toolCallId": id, "content": list(content), "isError": error}


def wire(*messages: Any, **more: Any) -> Any:
    return wire_messages(freeze({"messages": list(messages), **more}))


def message(role: str, *content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "id": "m", "content": list(content), **more}


def wire_call(id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


REASONING = {"type": "reasoning", "text": "Hm."}

MESSAGES: tuple[tuple[str, Any, list[Any]], ...] = (
    (
        "text blocks are joined without a separator",
        message("user", text("a"), text("b")),
        [{"role": "user", "content": "ab"}],
    ),
    ("an empty message stays", message("user"), [{"role": "user", "content": ""}]),
    ("unknown blocks are skipped", message("user", {"type": "file"}, text("a")), [{"role": "user", "content": "a"}]),
    (
        "text before results",
        message("user", result("c1", text("r")), text("a")),
        [{"role": "user", "content": "a"}, {"role": "tool", "tool_call_id": "c1", "content": "r"}],
    ),
    (
        "results alone",
        message("user", result("c1", text("r"), text("s")), result("c2", error=True)),
        [
            {"role": "tool", "tool_call_id": "c1", "content": "rs"},
            {"role": "tool", "tool_call_id": "c2", "content": "(no output)"},
        ],
    ),
    (
        "tool messages of format 4",
        message("tool", text("r"), toolCallId="c1", isError=True),
        [{"role": "tool", "tool_call_id": "c1", "content": "r"}],
    ),
    (
        "the same without text",
        message("tool", toolCallId="c1"),
        [{"role": "tool", "tool_call_id": "c1", "content": "(no output)"}],
    ),
    ("an assistant without text says nothing, not null", message("assistant"), [{"role": "assistant", "content": ""}]),
    (
        "all reasoning goes back, without calls too",
        message("assistant", REASONING, text("a"), REASONING),
        [{"role": "assistant", "content": "a", "reasoning_content": "Hm.Hm."}],
    ),
    (
        "calls keep their raw arguments",
        message("assistant", REASONING, called("c1", '{  "a":1'), called("c2")),
        [
            {
                "role": "assistant",
                "content": "",
                "reasoning_content": "Hm.",
                "tool_calls": [wire_call("c1", '{  "a":1'), wire_call("c2")],
            }
        ],
    ),
    (
        "no reasoning is made up for a call without any (A-09)",
        message("assistant", called("c1")),
        [{"role": "assistant", "content": "", "tool_calls": [wire_call("c1")]}],
    ),
    (
        "empty reasoning is none",
        message("assistant", {"type": "reasoning", "text": ""}, text("a")),
        [{"role": "assistant", "content": "a"}],
    ),
    ("a prompt of format 4", message("system", text("Be kind.")), [{"role": "system", "content": "Be kind."}]),
    ("an emptied prompt", message("system"), []),
    (
        "a developer message",
        message("developer", text("x"), {"type": "tool-addition"}),
        [{"role": "system", "content": "x"}],
    ),
    ("a developer message about tools only", message("developer", {"type": "tool-addition"}), []),
    ("a role of the future", message("oracle", text("x")), []),
)


@pytest.mark.parametrize(("given", "expected"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_messages(given: Any, expected: list[Any]) -> None:
    assert wire(given) == expected


def test_the_prompt_of_format_0_comes_first() -> None:
    assert wire(user("a"), system="Be kind.")[0] == {"role": "system", "content": "Be kind."}
    assert wire(user("a"), system="")[0] == {"role": "system", "content": ""}


def test_a_longer_history_extends_a_shorter_one() -> None:
    """What was sent stays as it was: the prefix that a cache recognises."""
    history = [case[1] for case in MESSAGES]
    whole = wire(*history)
    for length in range(len(history)):
        shorter = wire(*history[:length])
        assert whole[: len(shorter)] == shorter


@pytest.mark.parametrize("place", ["user", "result", "tool", "assistant"])
def test_an_image_is_refused(place: str) -> None:
    image = {"type": "image", "attachment": {}}
    messages = {
        "user": message("user", image),
        "result": message("user", result("c", image)),
        "tool": message("tool", image, toolCallId="c"),
        "assistant": message("assistant", image),
    }
    with pytest.raises(LlmError) as caught:
        wire(messages[place])
    assert caught.value.code == "UNSUPPORTED_CONTENT"


# -- body ------------------------------------------------------------------------------------------------------


def body(**more: Any) -> dict[str, Any]:
    return wire_body(freeze({"provider": "p", "model": "m", "messages": [user("a")], "sessionId": "s", **more}))


def test_the_smallest_body() -> None:
    assert body() == {
        "model": "m",
        "messages": [{"role": "user", "content": "a"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_every_field() -> None:
    tool = {"name": "f", "description": "d", "parameters": {"type": "object"}, "deferLoading": True}
    made = body(tools=[tool], temperature=0, maxTokens=9, stop=["x"], reasoningEffort="max", system="S")
    assert list(made) == [
        "model", "messages", "stream", "stream_options", "thinking", "reasoning_effort", "tools", "temperature",
        "max_tokens", "stop",
    ]  # fmt: skip
    assert made["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    ]
    assert (made["temperature"], made["max_tokens"], list(made["stop"])) == (0, 9, ["x"])


def test_nothing_is_null() -> None:
    assert set(body(tools=[], temperature=None, maxTokens=None, stop=None, reasoningEffort=None)) == set(body())


ENABLED, DISABLED = {"thinking": {"type": "enabled"}}, {"thinking": {"type": "disabled"}}
REFUSED = None


@pytest.mark.parametrize(
    ("effort", "deployment", "fields"),
    [
        (None, None, {}),
        (None, "enabled", ENABLED),
        (None, "disabled", DISABLED),
        ("off", None, DISABLED),
        ("off", "enabled", DISABLED),
        ("off", "disabled", DISABLED),
        ("low", None, {**ENABLED, "reasoning_effort": "low"}),
        ("high", "enabled", {**ENABLED, "reasoning_effort": "high"}),
        ("max", None, {**ENABLED, "reasoning_effort": "max"}),
        ("low", "disabled", REFUSED),
        ("medium", None, REFUSED),
    ],
)
def test_thinking(effort: Any, deployment: Any, fields: Any) -> None:
    request = {"model": "m", "reasoningEffort": effort}
    if fields is None:
        with pytest.raises(LlmError, match="does not support reasoning effort") as caught:
            thinking_fields(request, deployment)
        assert caught.value.code == "UNSUPPORTED_REASONING_EFFORT"
    else:
        assert thinking_fields(request, deployment) == fields


def test_a_title_is_not_thought_about() -> None:
    assert thinking_fields({"model": "m", "reasoningEffort": "max", "purpose": "session-title"}, "enabled") == DISABLED


def test_bytes() -> None:
    made = body_bytes({"a": "Grüße 🙂\u2028", "b": "\ud83d", "c": [1, {"d": None}]})
    assert made == '{"a":"Grüße 🙂\u2028","b":"\\ud83d","c":[1,{"d":null}]}'.encode()
    assert json.loads(made)["b"] == "\ud83d"
