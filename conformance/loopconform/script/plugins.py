"""The plugins that a script asks for, on the harness that plays it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from loopconform.script.gates import Gates
from loopconform.script.model import Compaction, Files, Permissions, Retry, Subagents
from loopharness import compaction, permissions, retry, subagent, workspace
from loopharness.harness import Harness
from loopharness.permissions import Answer, Question, Rule
from loopharness.signal import Signal
from loopharness.tools.execution import Execution
from loopharness.workspace import Limits
from loopharness.workspace.plugin import TOOL_NAMES

__all__ = ["Outside", "mount_compaction", "mount_files", "mount_permissions", "mount_retry", "mount_subagents"]


class Outside:
    """The calls that wait for something outside of the program: they look idle and are not."""

    def __init__(self) -> None:
        self.busy = 0
        self._back = anyio.Event()

    async def back(self) -> None:
        """Wait until one of them has come back."""
        await self._back.wait()

    async def around(self, next: Callable[[], Awaitable[Any]]) -> Any:
        """Run something that waits outside."""
        self.busy += 1
        try:
            return await next()
        finally:
            self.busy -= 1
            self._back.set()
            self._back = anyio.Event()


def mount_files(harness: Harness, files: Files, folder: Path, outside: Outside) -> None:
    """The file tools of a script. Raises `ValueError` for a root that is no directory."""
    roots = [folder / root for root in (files.files, *files.more)]
    limits = Limits(command_seconds=files.command_seconds)
    names = files.only or TOOL_NAMES
    workspace.install(harness, *roots, limits=limits, only=names)

    async def around(execution: Execution, next: Callable[[], Awaitable[Any]]) -> Any:
        return await (outside.around(next) if execution.name in names else next())

    harness.on("tools/execute", around)


def mount_permissions(harness: Harness, policy: Permissions, gates: Gates, unasked: Callable[[str], None]) -> None:
    """The permission policy of a script; `unasked` is told the tool of a question that finds no answer."""
    replies = iter(policy.answers or ())

    async def ask(question: Question) -> Answer:
        reply = next(replies, None)
        if reply is None:
            unasked(question.tool)
            return "no"
        if reply.gate is not None:
            await gates.enter(reply.gate, Signal(), f"the question about {question.tool}")
        return reply.say

    rules = [Rule(rule.tool, rule.verdict, rule.where, rule.reason) for rule in policy.rules]
    permissions.install(harness, rules, default=policy.default, asker=None if policy.answers is None else ask)


def mount_retry(harness: Harness, settings: Retry, pass_time: Callable[[float], object]) -> None:
    """Try failed requests again; a backoff takes no real time. The policy itself belongs to the model's adapter."""
    chances = iter(settings.chances)

    async def sleep(seconds: float) -> None:
        await anyio.lowlevel.checkpoint()
        pass_time(seconds)

    retry.install(harness, sleep=sleep, chance=lambda: next(chances, 0.5))


def mount_compaction(harness: Harness, settings: Compaction) -> None:
    """Compaction as a script wants it. Raises `ValueError` for settings that make no sense."""
    compaction.install(harness, compaction.Settings(**settings.model_dump()))


def mount_subagents(harness: Harness, settings: Subagents) -> None:
    """The tool that hands a task to another agent. Raises `ValueError` for a name that is taken."""
    subagent.install(harness, name=settings.name, depth=settings.depth)
