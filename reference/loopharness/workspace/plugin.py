"""The tools `read`, `list`, `search`, `write`, `edit` and `command`, mounted on a harness.

They refuse every path that leads out of their roots (`roots`), and so guard against mistakes: of a model, of a link in
a repository, of a race. They are no sandbox. A command is a program with all the rights of the user; where that is too
much, do not mount it, ask before it runs (`loopharness.permissions`), or run the whole harness in a container.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import anyio.to_thread
from pydantic import Field

from loopharness.bus import Context
from loopharness.errors import HarnessError
from loopharness.harness import Harness
from loopharness.signal import Signal
from loopharness.tools.registry import Tool, define_tool
from loopharness.workspace import changes, command, files
from loopharness.workspace.limits import Limits, shown
from loopharness.workspace.roots import Roots

__all__ = ["TOOL_NAMES", "Workspace", "install"]

TOOL_NAMES: Final = ("read", "list", "search", "write", "edit", "command")
READ_ONLY: Final = ("read", "list", "search")


class CommandTimeoutError(HarnessError):
    """A command took longer than it may; the message holds what it had printed."""


class Workspace:
    """The mounted tools. Made by `install`."""

    def __init__(self, roots: Roots, limits: Limits, environment: Mapping[str, str]) -> None:
        self.roots: Final = roots
        self.limits: Final = limits
        self.environment: Final = environment

    def tools(self) -> list[Tool]:
        """All six. Reading goes side by side; what changes something has the workspace for itself (T-114)."""
        return [
            define_tool(self.read, concurrent=True),
            define_tool(self.list, concurrent=True),
            define_tool(self.search, concurrent=True),
            define_tool(self.write),
            define_tool(self.edit),
            define_tool(self.command),
        ]

    async def read(
        self,
        path: Annotated[str, Field(description="The file, relative to the root or absolute.")],
        signal: Signal,
        offset: Annotated[int, Field(ge=1, description="The first line, counted from 1.")] = 1,
        limit: Annotated[int | None, Field(ge=1, description="How many lines at most.")] = None,
    ) -> str:
        """Read a text file. A long one is cut, and the last line then says how to read on."""
        return await self._aside(files.read, self.roots, path, offset, limit, self.limits, _stopped(signal))

    async def list(
        self,
        signal: Signal,
        path: Annotated[str, Field(description="The directory; the root unless given.")] = ".",
        depth: Annotated[int, Field(ge=1, le=8, description="How many levels down.")] = 1,
    ) -> str:
        """List a directory: directories end in a slash, files have a size, links a target."""
        return await self._aside(files.list_folder, self.roots, path, depth, self.limits, _stopped(signal))

    async def search(
        self,
        pattern: Annotated[str, Field(min_length=1, max_length=1000, description="A regular expression, one line.")],
        signal: Signal,
        path: Annotated[str, Field(description="Where to look; the root unless given.")] = ".",
        files: Annotated[str, Field(description="Only files with such names, for example *.py or src/*.py.")] = "*",
        ignore_case: bool = False,
    ) -> str:
        """Search text files for a regular expression (RE2). Answers matching lines as path:line: text."""
        return await self._aside(_search, self.roots, pattern, path, files, ignore_case, self.limits, _stopped(signal))

    async def write(
        self,
        path: Annotated[str, Field(description="The file, relative to the root or absolute.")],
        content: Annotated[str, Field(description="Everything that the file shall hold.")],
    ) -> str:
        """Make a file, or replace one as a whole. Missing directories are made."""
        return await self._aside(changes.write, self.roots, path, content, self.limits)

    async def edit(
        self,
        path: Annotated[str, Field(description="The file, relative to the root or absolute.")],
        old: Annotated[str, Field(description="The exact text to replace; it must occur once.")],
        new: Annotated[str, Field(description="The text to put in its place.")],
        all: Annotated[bool, Field(description="Replace every occurrence.")] = False,
    ) -> str:
        """Replace a piece of text in a file."""
        return await self._aside(changes.edit, self.roots, path, old, new, all, self.limits)

    async def command(
        self,
        command: Annotated[str, Field(min_length=1, description="A command line for /bin/sh.")],
        signal: Signal,
        cwd: Annotated[str, Field(description="The directory to run it in; the root unless given.")] = ".",
        timeout: Annotated[float | None, Field(gt=0, description="Seconds after which it is ended.")] = None,
    ) -> str:
        """Run a command and wait for it. Output and errors come together; what it leaves running is ended."""
        seconds = self.limits.command_seconds if timeout is None else timeout
        seconds = min(seconds, self.limits.most_command_seconds)
        ran = await _run(self.roots, command, cwd, seconds, self.limits, signal, self.environment)
        if ran.how == "timed out":
            output = f"\nIts output until then:\n{ran.output}" if ran.output else "\nIt had printed nothing."
            raise CommandTimeoutError(f"the command was ended after {seconds:g} seconds{output}", "TOOL_TIMEOUT")
        return _told(ran)

    @staticmethod
    async def _aside(work: Callable[..., str], *arguments: Any) -> str:
        return await anyio.to_thread.run_sync(functools.partial(work, *arguments))


_search = files.search
_run = command.run


def _stopped(signal: Signal) -> Callable[[], bool]:
    return lambda: signal.aborted


def _told(ran: command.Ran) -> str:
    """The output, and how it ended unless it ended well."""
    if ran.code == 0:
        return ran.output or "[no output]"
    how = f"exit code {ran.code}" if ran.code > 0 else f"killed by signal {-ran.code}"
    return f"{ran.output.rstrip()}\n[{how}]".lstrip("\n")


def install(
    harness: Harness,
    *roots: str | Path,
    limits: Limits | None = None,
    only: Sequence[str] = TOOL_NAMES,
    environment: Mapping[str, str] | None = None,
    context: Context | None = None,
) -> Workspace:
    """Mount file tools and commands for these directories, until `context` (or the harness) ends.

    `only` names the tools to mount. A command sees `environment`, by default a few harmless variables of this process.
    Raises `ValueError` for a root that is no directory, an unknown tool, and a name that is taken; then nothing is
    mounted.
    """
    unknown = [name for name in only if name not in TOOL_NAMES]
    if unknown:
        raise ValueError(f"there is no file tool {shown(unknown[0])}; there are {', '.join(TOOL_NAMES)}")
    opened = Roots(*roots)
    own = (context or harness.context).child("workspace")
    own.effect(opened.close, "roots of the file tools")
    seen = {name: os.environ[name] for name in command.KEPT_VARIABLES if name in os.environ}
    workspace = Workspace(opened, limits or Limits(), {**seen, "TERM": "dumb"} if environment is None else environment)
    undo: list[Callable[[], None]] = []
    try:
        for tool in workspace.tools():
            if tool.name in only:
                undo.append(harness.tools.register(tool, own))
    except BaseException:
        for take_back in reversed(undo):
            take_back()
        opened.close()
        raise
    return workspace
