"""A workspace to try the file tools on: call one, look at its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from loopharness.bus import Bus
from loopharness.signal import Signal
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import ToolRegistry
from loopharness.workspace import Limits, Roots, Workspace

QUICK = Limits(grace_seconds=0.2)


class Said(NamedTuple):
    """What came of a call."""

    wrong: bool
    text: str
    code: str


class Bench:
    """The tools on some roots."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        bus = Bus()
        self.registry = ToolRegistry(bus)
        for tool in workspace.tools():
            self.registry.register(tool, bus.root)
        self.pipeline = ToolPipeline(bus, self.registry)

    async def call(self, name: str, signal: Signal | None = None, **arguments: Any) -> Said:
        """Call a tool as a model would."""
        call = self.pipeline.call("c1", name, arguments, signal or Signal())
        prepared = await self.pipeline.prepare(call)
        result = await self.pipeline.finalize(call, prepared.slot or await self.pipeline.dispatch(call))
        text = "".join(block["text"] for block in result["content"])
        return Said(result["isError"], text, result.get("error", {}).get("info", {}).get("code", ""))


@contextmanager
def bench(*roots: Path, limits: Limits = QUICK, environment: Mapping[str, str] | None = None) -> Iterator[Bench]:
    """The tools on these roots, until the end of the block."""
    opened = Roots(*roots)
    try:
        yield Bench(Workspace(opened, limits, environment or {"PATH": "/usr/bin:/bin"}))
    finally:
        opened.close()


def contents(folder: Path) -> dict[str, bytes | str]:
    """Everything below a directory: the bytes of files, the targets of links."""
    found: dict[str, bytes | str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
    return found
