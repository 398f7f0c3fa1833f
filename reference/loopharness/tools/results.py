"""Results of tool calls, and their texts (T-201, T-207, L-TOOL-11; llm-and-tools 9.3).

A result is a frozen object: `{isError: false, value, content, meta?, additionalContexts?, concludesTurn?}` or
`{isError: true, error: {message, info?}, content, meta?, additionalContexts?}`. `value` stays in the process;
`info` is what the log records as `error`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from loopharness.errors import HarnessError, error_message
from loopharness.frozen import FrozenDict, FrozenList, freeze

__all__ = [
    "ABORTED",
    "ABORTED_BEFORE_DISPATCH",
    "Result",
    "ToolArgsError",
    "ToolNotFoundError",
    "ToolOutputError",
    "failed",
    "failed_by",
    "text_content",
    "with_contexts",
    "without_contexts",
]

Result = FrozenDict


class ToolNotFoundError(HarnessError):
    """The model called a tool that it cannot see."""

    def __init__(self, name: str) -> None:
        super().__init__(f'unknown tool "{name}"', "UNKNOWN_TOOL")


class ToolArgsError(HarnessError):
    """The arguments do not fit the tool's parameters."""

    def __init__(self, violations: Iterable[str]) -> None:
        super().__init__(f"invalid arguments: {'; '.join(violations)}", "INVALID_ARGS")


class ToolOutputError(HarnessError):
    """The tool returned what its definition does not allow."""

    def __init__(self, name: str, violations: Iterable[str]) -> None:
        super().__init__(f'tool "{name}" returned invalid output: {"; ".join(violations)}', "INVALID_TOOL_OUTPUT")


def text_content(text: str) -> FrozenList:
    """Content of one text block."""
    return FrozenList((FrozenDict({"type": "text", "text": text}),))


def failed(message: str, *, name: str | None = None, code: str | None = None, content: Any = None) -> Result:
    """A failure; the content is `Error: <message>` unless given."""
    error: dict[str, Any] = {"message": message}
    if name is not None and code is not None:
        error["info"] = FrozenDict({"name": name, "code": code})
    shown = text_content(f"Error: {message}") if content is None else freeze(content)
    return FrozenDict({"isError": True, "error": FrozenDict(error), "content": shown})


def failed_by(error: BaseException) -> Result:
    """The failure that a raised error makes: coded errors say their name and code (T-207)."""
    if isinstance(error, HarnessError):
        return failed(error_message(error), name=error.name, code=error.code)
    return failed(error_message(error))


ABORTED_BEFORE_DISPATCH: Final = failed(
    "tool call aborted before dispatch", name="AbortError", code="ABORTED_BEFORE_DISPATCH"
)
"""The body was never entered (L-TOOL-15, L-TOOL-17)."""

ABORTED: Final = failed("tool call aborted", name="AbortError", code="ABORTED")
"""The body was entered, and its success came after the abort (L-TOOL-18)."""


def with_contexts(result: Result, contexts: Iterable[Mapping[str, Any]]) -> Result:
    """The result with exactly these contexts; none leaves the field out."""
    kept = tuple(contexts)
    bare = without_contexts(result)
    return FrozenDict({**bare, "additionalContexts": freeze(kept)}) if kept else bare


def without_contexts(result: Result) -> Result:
    """The result without contexts."""
    if "additionalContexts" not in result:
        return result
    return FrozenDict({key: value for key, value in result.items() if key != "additionalContexts"})
