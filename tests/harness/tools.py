"""A tool call outside of a loop: bodies, all lanes of one call, and the results that are expected."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from loopharness.bus import Bus
from loopharness.frozen import is_frozen, thaw
from loopharness.signal import Signal
from loopharness.tools.execution import Execution
from loopharness.tools.pipeline import Call, ToolPipeline
from loopharness.tools.registry import Tool

Next = Callable[[], Awaitable[Any]]
OBJECT = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
NOTE = {"id": "c", "role": "user", "content": [], "source": {"kind": "plugin:test"}}


async def echo(arguments: Any) -> Any:
    """Answers its arguments."""
    return arguments


def raw(name: str, body: Callable[[Any, Execution], Any], **more: Any) -> Tool:
    """A tool without argument checks."""
    return Tool(name, "", {"type": "object"}, body, **more)


def says(value: Any) -> Callable[[Any, Execution], Any]:
    """A body that answers a value."""
    return lambda arguments, execution: value


async def lanes(pipeline: ToolPipeline, call: Call) -> Any:
    """All lanes of one call, one after another; the final result, thawed."""
    prepared = await pipeline.prepare(call)
    slot = prepared.slot
    if slot is None:
        assert prepared.kind == "dispatch"
        slot = await pipeline.dispatch(call)
    result = await pipeline.finalize(call, slot)
    assert is_frozen(result)
    return thaw(result)


async def run(pipeline: ToolPipeline, name: str = "t", arguments: Any = None, signal: Signal | None = None) -> Any:
    """The final result of a call."""
    return await lanes(pipeline, pipeline.call("1", name, {} if arguments is None else arguments, signal or Signal()))


def error(message: str, name: str | None = None, code: str | None = None) -> dict[str, Any]:
    """The failure with a message."""
    info = {} if name is None else {"info": {"name": name, "code": code}}
    return {
        "isError": True,
        "error": {"message": message, **info},
        "content": [{"type": "text", "text": f"Error: {message}"}],
    }


def success(value: Any, text: str, **more: Any) -> dict[str, Any]:
    """The success with a value and its rendering."""
    return {"isError": False, "value": value, "content": [{"type": "text", "text": text}], **more}


def decides(answer: Any) -> Callable[..., Any]:
    """A listener that answers without asking anybody."""

    def listener(*args: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    return listener


class Watched:
    """Which stages a call went through."""

    def __init__(self, bus: Bus) -> None:
        self.stages: list[str] = []
        for stage in ("pre-execute", "execute", "post-execute"):
            bus.root.on(f"tools/{stage}", self._passing(stage))
        bus.root.on("tools/result", lambda execution, result: self.stages.append("result"))

    def _passing(self, stage: str) -> Callable[..., Awaitable[Any]]:
        async def listener(*args: Any) -> Any:
            self.stages.append(stage)
            return await args[-1]()

        return listener


ASK = {"kind": "ask"}
