"""What a script says, as the parts that a harness takes: the chunks of answers, tools, messages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import anyio.lowlevel

from loopconform.script.gates import Gates
from loopconform.script.model import Answer, Gate, Message, Model, Tool
from loopharness.errors import HarnessError
from loopharness.frozen import FrozenDict, dumps, freeze
from loopharness.model import chunks
from loopharness.model.chunks import Chunk
from loopharness.model.failure import LlmError, failure_facts
from loopharness.model.service import Request
from loopharness.signal import Signal
from loopharness.tools.execution import Execution
from loopharness.tools.registry import Tool as HarnessTool
from loopharness.tools.registry import define_tool

__all__ = ["EXHAUSTED", "Chorus", "Item", "ScriptModel", "answer_items", "as_message", "make_tool"]

EXHAUSTED: Final = "SCRIPT_EXHAUSTED"
"""Code of the failure of a model call that finds no answer."""

Item = Chunk | Gate


def as_message(message: Message, new_id: Callable[[], str], source: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A message of the script as the harness takes it (S-MSG-1)."""
    return {
        "id": message.id or new_id(),
        "role": "user",
        "content": [{"type": "text", "text": message.text}],
        "source": message.source or dict(source or {"kind": "user"}),
    }


# -- answers ---------------------------------------------------------------------------------------------------


def answer_items(answer: Answer, new_call_id: Callable[[], str]) -> list[Item]:
    """The chunks of an answer, with its gates between them."""
    items: list[Item] = [] if answer.gate is None else [Gate(gate=answer.gate)]
    if answer.raw is not None:
        return items + [chunk if isinstance(chunk, Gate) else freeze(chunk) for chunk in answer.raw]
    blocks: list[list[Item]] = []
    for kind, pieces in (("reasoning", answer.reasoning), ("text", answer.text)):
        if pieces is not None:
            blocks.append(_text_block(len(blocks), kind, pieces))
    for call in answer.calls:
        blocks.append(_call_block(len(blocks), call.id or new_call_id(), call.name, call.arguments))
    if answer.fail is not None and blocks:
        blocks[-1].pop()  # what a failure cuts off has no end
    for block in blocks:
        items += block
    if answer.usage is not None:
        items.append(_usage(answer))
    return [*items, _finish(answer)]


def _text_block(index: int, kind: str, pieces: Sequence[str | Gate]) -> list[Item]:
    delta = chunks.reasoning_delta if kind == "reasoning" else chunks.text_delta
    whole = "".join(piece for piece in pieces if isinstance(piece, str))
    body: list[Item] = [piece if isinstance(piece, Gate) else delta(index, piece) for piece in pieces]
    return [chunks.block_start(index, kind), *body, chunks.block_end(index, {"type": kind, "text": whole})]


def _call_block(index: int, id: str, name: str, arguments: Any) -> list[Item]:
    raw = arguments if isinstance(arguments, str) else dumps(freeze(arguments))
    block = {"type": "tool-call", "id": id, "name": name, "arguments": raw}
    delta = chunks.tool_call_delta(index, id, raw, name)
    return [chunks.block_start(index, "tool-call"), delta, chunks.block_end(index, block)]


def _usage(answer: Answer) -> Chunk:
    usage = answer.usage
    assert usage is not None
    more = {
        "cacheReadTokens": usage.cache_read,
        "cacheWriteTokens": usage.cache_write,
        "reasoningTokens": usage.reasoning,
    }
    return chunks.usage(usage.input, usage.output, **{key: count for key, count in more.items() if count is not None})


def _finish(answer: Answer) -> Chunk:
    fail = answer.fail
    if fail is None:
        return chunks.finish(answer.finish or ("tool-calls" if answer.calls else "stop"))
    facts = failure_facts(fail.message, fail.code, fail.status, fail.retry_after_ms, fail.request_id)
    return chunks.finish("error", failure=facts)


class ScriptModel:
    """The adapter that plays the answers. `misses` are the calls that found none: turn and step unknown to it."""

    def __init__(self, model: Model, answers: Iterable[Sequence[Item]], gates: Gates) -> None:
        self._model = model
        self._answers = [*answers]
        self._gates = gates
        self.asked = 0
        self.policy: Mapping[str, Any] | None = None

    def retry_policy(self, provider: str) -> Mapping[str, Any] | None:
        """The policy that the script gives, for every provider."""
        return self.policy

    @property
    def misses(self) -> int:
        """How many calls found no answer."""
        return max(0, self.asked - len(self._answers))

    @property
    def left(self) -> int:
        """How many answers nobody asked for."""
        return max(0, len(self._answers) - self.asked)

    async def resolve_model(self, provider: str, model: str, signal: Signal) -> Mapping[str, Any]:
        """The facts that the script gives."""
        facts: dict[str, Any] = {"id": model, "name": model}
        said = self._model
        if said.context_window is not None:
            facts["context"] = {"contextWindow": said.context_window}
        if said.default_max_tokens is not None:
            facts["defaultMaxTokens"] = said.default_max_tokens
        if said.reasoning is not None:
            facts["reasoning"] = {"efforts": said.reasoning.efforts}
            if said.reasoning.default is not None:
                facts["reasoning"]["defaultEffort"] = said.reasoning.default
        return facts

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The next answer."""
        await anyio.lowlevel.checkpoint()
        self.asked += 1
        number = self.asked
        if number > len(self._answers):
            raise LlmError(f"the script has no answer for model call {number}", EXHAUSTED)
        signal: Signal = request["signal"]
        for item in self._answers[number - 1]:
            if not isinstance(item, Gate):
                yield item
            elif not await self._gates.enter(item.gate, signal, f"answer {number} of the model"):
                raise LlmError("the request was aborted", "ABORTED")


class Chorus(ScriptModel):
    """The scripted model, with answers of their own for some agents."""

    def __init__(
        self,
        model: Model,
        shared: Sequence[Sequence[Item]],
        parts: Mapping[str, Sequence[Sequence[Item]]],
        gates: Gates,
        label_of: Callable[[str], str],
    ) -> None:
        super().__init__(model, shared, gates)
        self.parts = {label: ScriptModel(model, answers, gates) for label, answers in parts.items()}
        self._label_of = label_of

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The next answer to the agent that asks."""
        part = self.parts.get(self._label_of(request["sessionId"]))
        return super().stream(request) if part is None else part.stream(request)


# -- tools -----------------------------------------------------------------------------------------------------


class ScriptedToolError(HarnessError):
    """The failure that a script gave to a tool."""


def make_tool(tool: Tool, gates: Gates, new_id: Callable[[], str], session_format: int) -> HarnessTool:
    """A tool of the script. Raises `HarnessError` for parameters outside the supported schema."""
    source = {"kind": "plugin:script"} if session_format == 4 else {"kind": "plugin", "plugin": "script"}

    async def body(arguments: FrozenDict, execution: Execution) -> Any:
        if tool.gate is not None and not await gates.enter(tool.gate, execution.signal, f"tool {tool.name}"):
            return "cancelled"
        for context in tool.contexts:
            execution.defer_context(as_message(context, new_id, source))
        if tool.error is not None:
            if tool.error.code is None:
                raise RuntimeError(tool.error.message)
            raise ScriptedToolError(tool.error.message, tool.error.code)
        if tool.concludes:
            execution.conclude_turn()
        return tool.result

    return define_tool(tool.name, tool.description, tool.parameters, body, concurrent=tool.concurrent)
