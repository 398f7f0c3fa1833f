"""What an agent is made with: how it calls its model, and the services that it works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from loopharness.agent.messages import random_id
from loopharness.bus import Bus
from loopharness.model.service import LlmService
from loopharness.prompt import SystemPrompt
from loopharness.settings import LoopSettings
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import ToolRegistry

__all__ = ["AgentOptions", "Services"]


@dataclass(frozen=True)
class AgentOptions:
    """How an agent calls its model. `max_tokens` caps the output of each request (L-REQ-3)."""

    provider: str = ""
    model: str = ""
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """L-SET-5  Refuse a cap that is not a positive safe integer."""
        cap = self.max_tokens
        if cap is not None and not (type(cap) is int and 0 < cap < 2**53):
            raise TypeError("agent maxTokens must be a positive safe integer")

    def as_record(self) -> dict[str, Any]:
        """The options under the names that requests use."""
        record: dict[str, Any] = {"provider": self.provider, "model": self.model}
        if self.max_tokens is not None:
            record["maxTokens"] = self.max_tokens
        return record


@dataclass(frozen=True)
class Services:
    """What an agent works with."""

    bus: Bus
    llm: LlmService
    tools: ToolRegistry
    pipeline: ToolPipeline
    prompt: SystemPrompt
    settings: LoopSettings
    new_id: Callable[[], str] = random_id
    """Gives every message that is minted here its id."""
