"""The time limits of tools: `timeout_ms` of a definition, enforced around its body (llm-and-tools 9.3).

When the time is over the call's own signal is aborted; the body is still waited for (T-301), and what it answers
becomes `tool call timed out after <ms>ms`. The signal of the caller is untouched: a time limit is a failure, not a
cancel.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import anyio

from loopharness.bus import Context
from loopharness.errors import HarnessError
from loopharness.signal import AbortController, fuse
from loopharness.tools.execution import Execution
from loopharness.tools.registry import ToolRegistry
from loopharness.tools.results import failed_by, with_contexts

__all__ = ["ToolTimeoutError", "install_timeouts"]


class ToolTimeoutError(HarnessError):
    """A body that took longer than its tool allows."""

    def __init__(self, timeout_ms: float) -> None:
        super().__init__(f"tool call timed out after {timeout_ms:g}ms", "TOOL_TIMEOUT")


class Alarm(Protocol):
    """Waits for so many milliseconds. A test can give one that it rings by hand."""

    async def __call__(self, timeout_ms: float) -> None:
        """Return when the time is over."""


async def _clock(timeout_ms: float) -> None:
    await anyio.sleep(timeout_ms / 1000)


def install_timeouts(context: Context, tools: ToolRegistry, alarm: Alarm = _clock) -> Callable[[], None]:
    """Enforce the limits of all tools, until `context` ends or the answer is called."""

    async def limit(execution: Execution, next: Callable[[], Awaitable[Any]]) -> Any:
        tool = tools.get(execution.name, execution.key)
        if tool is None or tool.timeout_ms is None:
            return await next()
        controller, before = AbortController(), execution.signal
        late = ToolTimeoutError(tool.timeout_ms)
        fused, release = fuse(before, controller.signal)
        execution.signal = fused
        result: Any = None
        failure: Exception | None = None

        async def ring(timeout_ms: float) -> None:
            await alarm(timeout_ms)
            controller.abort(late)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(ring, tool.timeout_ms)
                try:
                    result = await next()
                except Exception as error:  # kept out of the group, which would wrap it
                    failure = error
                group.cancel_scope.cancel()
        finally:
            release()
            execution.signal = before
        if failure is not None:
            raise failure
        if fused.reason is late:
            return with_contexts(failed_by(late), result.get("additionalContexts", ()))
        return result

    return context.on("tools/execute", limit)
