"""A model that says what it was told to: for tests, benchmarks and demonstrations.

Each call takes the next response of the script. A response is a list of chunks, with gates, errors and actions
between them. When the script runs out the call fails, the miss is logged as an error and kept in `misses`, and
`finish_script` raises: a test that asked the model once too often cannot pass by accident.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from loopharness.frozen import FrozenDict, dumps, freeze
from loopharness.gate import Gate
from loopharness.model import chunks
from loopharness.model.chunks import Chunk
from loopharness.model.failure import LlmError, failure_facts
from loopharness.model.service import Request
from loopharness.signal import Signal

__all__ = ["Response", "ScriptedAdapter", "fail", "reasoning", "text", "tool_calls"]

_log = logging.getLogger("loopharness")

Item = Chunk | Gate | Exception | Callable[[], object]
Response = Sequence[Item]


def text(*pieces: str, usage: tuple[int, int] | None = None, reason: str = "stop") -> list[Chunk]:
    """An answer in visible text, one delta for each piece."""
    whole = {"type": "text", "text": "".join(pieces)}
    return _closed([("text", [chunks.text_delta(0, piece) for piece in pieces], whole)], usage, reason)


def reasoning(thought: str, answer: str, usage: tuple[int, int] | None = None) -> list[Chunk]:
    """Some thinking, then some text."""
    blocks: list[tuple[str, list[Chunk], Mapping[str, Any]]] = [
        ("reasoning", [chunks.reasoning_delta(0, thought)], {"type": "reasoning", "text": thought}),
        ("text", [chunks.text_delta(1, answer)], {"type": "text", "text": answer}),
    ]
    return _closed(blocks, usage, "stop")


def tool_calls(
    *calls: tuple[str, str, Any], say: str = "", usage: tuple[int, int] | None = None, reason: str = "tool-calls"
) -> list[Chunk]:
    """Calls as `(id, name, arguments)`, after some text if `say` is given.

    Arguments that are a string are sent as they are, anything else as JSON text.
    """
    blocks: list[tuple[str, list[Chunk], Mapping[str, Any]]] = []
    if say:
        blocks.append(("text", [chunks.text_delta(0, say)], {"type": "text", "text": say}))
    for id, name, arguments in calls:
        raw = arguments if isinstance(arguments, str) else dumps(freeze(arguments))
        block = {"type": "tool-call", "id": id, "name": name, "arguments": raw}
        blocks.append(("tool-call", [chunks.tool_call_delta(len(blocks), id, raw, name)], block))
    return _closed(blocks, usage, reason)


def fail(message: str = "scripted failure", code: str = "SERVER", **facts: Any) -> list[Chunk]:
    """A provider failure as its terminal chunk; `facts` as for `failure_facts`."""
    return [chunks.finish("error", failure=failure_facts(message, code, **facts))]


def _closed(
    blocks: Iterable[tuple[str, list[Chunk], Mapping[str, Any]]], usage: tuple[int, int] | None, reason: str
) -> list[Chunk]:
    made: list[Chunk] = []
    for index, (kind, deltas, block) in enumerate(blocks):
        made += [chunks.block_start(index, kind), *deltas, chunks.block_end(index, block)]
    if usage is not None:
        made.append(chunks.usage(*usage))
    return [*made, chunks.finish(reason)]


class ScriptedAdapter:
    """An adapter that plays responses in order, or one response for ever.

    The items of a response: a chunk is sent; a `Gate` holds the stream; an exception is raised; anything else
    is called without arguments, for things that happen between two chunks. `requests` are the calls so far, by
    identity. `closed` counts the streams that their consumer closed before the end.
    """

    def __init__(
        self,
        responses: Iterable[Response] = (),
        *,
        always: Response | None = None,
        facts: Mapping[str, Any] | None = None,
        retry_policy: Mapping[str, Any] | None = None,
        prepare_gate: Gate | None = None,
    ) -> None:
        self._responses: list[Response] = [list(response) for response in responses]
        self._always = None if always is None else list(always)
        self._facts: Final[FrozenDict] = freeze(dict(facts or {}))
        self._policy = retry_policy
        self._prepare_gate = prepare_gate
        self.requests: list[Request] = []
        self.resolved: list[tuple[str, str]] = []
        self.misses: list[str] = []
        self.played = 0
        self.closed = 0

    def say(self, *responses: Response) -> None:
        """Add responses to the end of the script."""
        self._responses += [list(response) for response in responses]

    def retry_policy(self, provider: str) -> Mapping[str, Any] | None:
        """The policy given to the constructor, for every provider."""
        return self._policy

    async def resolve_model(self, provider: str, model: str, signal: Signal) -> Mapping[str, Any]:
        """The facts given to the constructor, with the id and name of the model."""
        self.resolved.append((provider, model))
        if self._prepare_gate is not None:
            await self._prepare_gate.enter()
        return {"id": model, "name": model, **self._facts}

    def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """The next response of the script."""
        self.requests.append(request)
        if self.played < len(self._responses):
            response = self._responses[self.played]
        elif self._always is not None:
            response = self._always
        else:
            raise self._miss(request)
        self.played += 1
        return _Playing(self, response)

    def _miss(self, request: Request) -> LlmError:
        messages = request.get("messages") or ()
        last = dumps(messages[len(messages) - 1])[:200] if len(messages) else "none"
        miss = (
            f"scripted model: call {self.played + len(self.misses) + 1} came, but the script has only "
            f"{len(self._responses)} responses; last message of the request: {last}"
        )
        self.misses.append(miss)
        _log.error(miss)
        return LlmError(miss, "SCRIPT_EXHAUSTED")

    def finish_script(self) -> None:
        """Raise `AssertionError` if a call found no response or a response found no call."""
        if self.misses:
            raise AssertionError("; ".join(self.misses))
        if self.played < len(self._responses):
            raise AssertionError(
                f"scripted model: only {self.played} of {len(self._responses)} responses were asked for"
            )


class _Playing:
    """One response being played."""

    __slots__ = ("_adapter", "_items", "_over")

    def __init__(self, adapter: ScriptedAdapter, response: Response) -> None:
        self._adapter = adapter
        self._items = iter(response)
        self._over = False

    def __aiter__(self) -> _Playing:
        return self

    async def __anext__(self) -> Chunk:
        for item in self._items:
            if isinstance(item, FrozenDict):
                return item
            if isinstance(item, Gate):
                await item.enter()
            elif isinstance(item, Exception):
                self._over = True
                raise item
            else:
                item()
        self._over = True
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if not self._over:
            self._over = True
            self._adapter.closed += 1
