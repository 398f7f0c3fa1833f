"""The DeepSeek adapter: chat completions over HTTP, streamed (llm-and-tools 5)."""

from loopharness.model.deepseek.adapter import DeepSeekAdapter, open_deepseek
from loopharness.model.deepseek.settings import DeepSeekSettings

__all__ = ["DeepSeekAdapter", "DeepSeekSettings", "open_deepseek"]
