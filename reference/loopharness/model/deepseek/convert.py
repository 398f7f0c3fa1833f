"""A request as the wire has it: pure functions from messages and tools to the body of the POST (M-510 to M-524).

The body is a function of the request alone, so that two attempts at the same request send the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from loopharness.frozen import dumps
from loopharness.model.failure import LlmError

__all__ = ["EFFORTS", "NO_OUTPUT", "body_bytes", "thinking_fields", "wire_body", "wire_messages", "wire_tools"]

EFFORTS: Final = ("off", "low", "high", "max")
"""The reasoning efforts that can be asked for; `off` never crosses the wire (M-503)."""

NO_OUTPUT: Final = "(no output)"
"""What stands for a tool result without text (M-521)."""

Thinking = Literal["enabled", "disabled"]
WireMessage = dict[str, Any]


def wire_body(request: Mapping[str, Any], thinking: Thinking | None = None) -> dict[str, Any]:
    """The body of a request. Optional fields are left out, never null (M-510).

    `thinking` is what the deployment says about it. Raises `LlmError`: `UNSUPPORTED_REASONING_EFFORT`,
    `UNSUPPORTED_CONTENT`.
    """
    body: dict[str, Any] = {
        "model": request["model"],
        "messages": wire_messages(request),
        "stream": True,
        "stream_options": {"include_usage": True},
        **thinking_fields(request, thinking),
    }
    tools = wire_tools(request.get("tools") or ())
    if tools:
        body["tools"] = tools
    for name, field in (("temperature", "temperature"), ("max_tokens", "maxTokens"), ("stop", "stop")):
        if request.get(field) is not None:
            body[name] = request[field]
    return body


def body_bytes(body: Mapping[str, Any]) -> bytes:
    """The body as bytes. Half of a surrogate pair, which UTF-8 cannot hold, becomes a JSON escape."""
    return dumps(body).encode("utf-8", "backslashreplace")


def thinking_fields(request: Mapping[str, Any], deployment: Thinking | None) -> dict[str, Any]:
    """M-511  `thinking` and `reasoning_effort`. Raises `LlmError` `UNSUPPORTED_REASONING_EFFORT`."""
    if request.get("purpose") == "session-title":
        return {"thinking": {"type": "disabled"}}
    effort = request.get("reasoningEffort")
    if effort is not None and (effort not in EFFORTS or (deployment == "disabled" and effort != "off")):
        raise LlmError(
            f'model "{request["model"]}" does not support reasoning effort "{effort}"', "UNSUPPORTED_REASONING_EFFORT"
        )
    if effort is None:
        return {} if deployment is None else {"thinking": {"type": deployment}}
    if effort == "off":
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, "reasoning_effort": effort}


def wire_tools(tools: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools, in the order of the request."""
    return [
        {"type": "function", "function": {key: tool[key] for key in ("name", "description", "parameters")}}
        for tool in tools
    ]


def wire_messages(request: Mapping[str, Any]) -> list[WireMessage]:
    """All messages, the system prompt of format 0 first (M-520)."""
    found: list[WireMessage] = []
    if request.get("system") is not None:
        found.append({"role": "system", "content": request["system"]})
    for message in request["messages"]:
        found += _wire(message)
    return found


# -- one message -----------------------------------------------------------------------------------------------


def _wire(message: Mapping[str, Any]) -> list[WireMessage]:
    """What becomes of one message; a role that the wire does not know becomes nothing."""
    match message["role"]:
        case "user":
            return _user(message)
        case "assistant":
            return _assistant(message)
        case "tool":
            return _tool(message)
        case "system" | "developer":
            return _system(message)
    return []


def _user(message: Mapping[str, Any]) -> list[WireMessage]:
    """M-521  Text first, then its tool results, one message each; an empty message stays an empty message."""
    content = message["content"]
    results = [_result(b["toolCallId"], b["content"]) for b in content if b["type"] == "tool-result"]
    text = _text_of(content)
    if text or not results:
        return [{"role": "user", "content": text}, *results]
    return results


def _tool(message: Mapping[str, Any]) -> list[WireMessage]:
    """The tool message of format 4 (V-06)."""
    return [_result(message["toolCallId"], message["content"])]


def _result(call_id: str, content: Iterable[Mapping[str, Any]]) -> WireMessage:
    """Whether a result is an error has no form on the wire; the text says so."""
    return {"role": "tool", "tool_call_id": call_id, "content": _text_of(content) or NO_OUTPUT}


def _assistant(message: Mapping[str, Any]) -> list[WireMessage]:
    """M-522  Content is a string, never null; all reasoning goes back, with or without tool calls (K30).

    A message that carried no reasoning gets no `reasoning_content`, not even an empty one (A-09): what the model did
    not say is not made up. A server that insists answers 400, and the session goes on with the effort `off` (K34).
    """
    content = message["content"]
    wire: WireMessage = {"role": "assistant", "content": _text_of(content)}
    reasoning = "".join(block["text"] for block in content if block["type"] == "reasoning")
    if reasoning:
        wire["reasoning_content"] = reasoning
    calls = [
        {"id": b["id"], "type": "function", "function": {"name": b["name"], "arguments": b["arguments"]}}
        for b in content
        if b["type"] == "tool-call"
    ]
    if calls:
        wire["tool_calls"] = calls
    return [wire]


def _system(message: Mapping[str, Any]) -> list[WireMessage]:
    """The system prompt of format 4, and developer messages, as far as they have text."""
    text = _text_of(message["content"])
    return [{"role": "system", "content": text}] if text else []


def _text_of(content: Iterable[Mapping[str, Any]]) -> str:
    """The text blocks, joined without a separator. Unknown blocks are skipped, an image is refused (M-523)."""
    pieces: list[str] = []
    for block in content:
        if block["type"] == "text":
            pieces.append(block["text"])
        elif block["type"] == "image":
            raise LlmError("this model takes text only, and a message carries an image", "UNSUPPORTED_CONTENT")
    return "".join(pieces)
