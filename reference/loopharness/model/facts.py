"""What a model can do, and what an adapter fills into a call because of it (M-410 to M-412)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopharness.frozen import FrozenDict, freeze
from loopharness.model.failure import LlmError
from loopspec.request import adapter_defaults, supplied, supports_effort

__all__ = ["check_facts", "with_defaults"]


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


def with_defaults(config: FrozenDict, facts: Mapping[str, Any]) -> tuple[FrozenDict, FrozenDict | None]:
    """The config with what the adapter supplies, and the markers of exactly that (M-411, M-412, L-REQ-15)."""
    filled = supplied(config, facts)
    prepared = FrozenDict({**config, **filled}) if filled else config
    if not supports_effort(prepared, facts):
        raise LlmError(
            f'model "{config.get("model")}" does not support reasoning effort "{prepared["reasoningEffort"]}"',
            "UNSUPPORTED_REASONING_EFFORT",
        )
    markers = adapter_defaults(config, prepared)
    return prepared, None if markers is None else FrozenDict(freeze(markers))
