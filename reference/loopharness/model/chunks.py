"""Stream chunks, one constructor each (llm-and-tools 1.3). They are frozen when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopharness.frozen import FrozenDict, freeze

__all__ = [
    "Chunk",
    "block_end",
    "block_start",
    "finish",
    "reasoning_delta",
    "text_delta",
    "tool_call_delta",
    "usage",
]

Chunk = FrozenDict


def block_start(index: int, block_type: str) -> Chunk:
    """Opens block `index`."""
    return FrozenDict({"type": "block-start", "index": index, "blockType": block_type})


def text_delta(index: int, text: str) -> Chunk:
    """A piece of visible text."""
    return FrozenDict({"type": "text-delta", "index": index, "text": text})


def reasoning_delta(index: int, text: str) -> Chunk:
    """A piece of thinking."""
    return FrozenDict({"type": "reasoning-delta", "index": index, "text": text})


def tool_call_delta(index: int, id: str, arguments_delta: str, name: str | None = None) -> Chunk:
    """A piece of the raw argument text of a call; the id is on every piece, the name need not be."""
    fields: dict[str, Any] = {"type": "tool-call-delta", "index": index, "id": id}
    if name is not None:
        fields["name"] = name
    return FrozenDict({**fields, "argumentsDelta": arguments_delta})


def block_end(index: int, block: Mapping[str, Any]) -> Chunk:
    """Closes block `index` with the complete, authoritative block."""
    return FrozenDict({"type": "block-end", "index": index, "block": freeze(block)})


def usage(input_tokens: int, output_tokens: int, **more: int) -> Chunk:
    """Token counts; `more` takes `cacheReadTokens`, `cacheWriteTokens`, `reasoningTokens` (M-105)."""
    return FrozenDict(
        {"type": "usage", "usage": freeze({"inputTokens": input_tokens, "outputTokens": output_tokens, **more})}
    )


def finish(kind: str, *, failure: Mapping[str, Any] | None = None, replay_state: Any = None) -> Chunk:
    """The terminal chunk: `stop`, `tool-calls`, `max-tokens`, or `error`/`aborted` with the failure (M-106)."""
    reason: dict[str, Any] = {"kind": kind}
    if failure is not None:
        reason["failure"] = failure
    fields: dict[str, Any] = {"type": "finish", "reason": reason}
    if replay_state is not None:
        fields["replayState"] = replay_state
    return FrozenDict(freeze(fields))
