"""What a model can do, and what an adapter fills into a call because of it (M-410 to M-412)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from loopharness.frozen import FrozenDict
from loopharness.model.failure import LlmError

__all__ = ["CALL_FIELDS", "check_facts", "with_defaults"]

CALL_FIELDS: Final = ("provider", "model", "reasoningEffort", "temperature", "maxTokens", "stop")
"""The fields of a call config, which a prepared call and its request must agree on (M-421)."""


def check_facts(facts: Mapping[str, Any]) -> None:
    """Refuse model facts that cannot be (M-410)."""
    context = facts.get("context")
    if context is not None and not _positive(context.get("contextWindow")):
        raise LlmError("contextWindow of a model must be a positive integer", "INVALID_MODEL_CONTEXT")
    if facts.get("defaultMaxTokens") is not None and not _positive(facts["defaultMaxTokens"]):
        raise LlmError("defaultMaxTokens of a model must be a positive integer", "INVALID_MODEL_MAX_TOKENS")
    reasoning = facts.get("reasoning")
    if reasoning is not None:
        efforts = reasoning.get("efforts") or ()
        if not efforts or len(set(efforts)) != len(efforts):
            raise LlmError("reasoning efforts of a model must be unique, at least one", "INVALID_MODEL_REASONING")


def _positive(value: object) -> bool:
    return type(value) is int and 0 < value < 2**53


def with_defaults(config: FrozenDict, facts: Mapping[str, Any]) -> tuple[FrozenDict, FrozenDict]:
    """The config with what the adapter supplies, and markers for exactly that (M-411, M-412, L-REQ-15)."""
    filled: dict[str, Any] = {}
    if "maxTokens" not in config and facts.get("defaultMaxTokens") is not None:
        filled["maxTokens"] = facts["defaultMaxTokens"]
    reasoning = facts.get("reasoning") or {}
    if "reasoningEffort" not in config and reasoning.get("defaultEffort") is not None:
        filled["reasoningEffort"] = reasoning["defaultEffort"]
    effort = filled.get("reasoningEffort", config.get("reasoningEffort"))
    if effort is not None and effort not in (reasoning.get("efforts") or ()):
        raise LlmError(
            f'model "{config.get("model")}" does not support reasoning effort "{effort}"',
            "UNSUPPORTED_REASONING_EFFORT",
        )
    if not filled:
        return config, FrozenDict()
    markers: dict[str, Any] = {key: True for key in ("reasoningEffort", "maxTokens") if key in filled}
    return FrozenDict({**config, **filled}), FrozenDict(markers)
