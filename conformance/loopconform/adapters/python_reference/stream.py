"""The model streams of a world."""

from __future__ import annotations

from loopconform.adapters.python_reference.gates import Gates
from loopharness.frozen import FrozenDict, freeze
from loopharness.signal import Signal

USUAL = tuple(
    freeze(chunk)
    for chunk in (
        {"type": "block-start", "index": 0, "blockType": "text"},
        {"type": "text-delta", "index": 0, "text": "ok"},
        {"type": "block-end", "index": 0, "block": {"type": "text", "text": "ok"}},
        {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 1}},
        {"type": "finish", "reason": {"kind": "stop"}},
    )
)
"""The usual stream of a model."""


class Stream:
    """One model stream: planned chunks, held ones, or the usual ones."""

    def __init__(self, gates: Gates, agent: str, signal: Signal) -> None:
        self._gates = gates
        self._agent = agent
        self._signal = signal
        self._usual: list[FrozenDict] | None = None
        self._scripted = False
        self._over = False

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> FrozenDict:
        item = None if self._usual is not None else await self._gates.stand("chunk", self._agent, "", self._signal)
        if item is not None:
            self._scripted = True
            if item.kind == "chunk":
                return freeze(item.chunk)  # type: ignore[no-any-return]
            self._over = True
            raise StopAsyncIteration
        if self._scripted:
            self._over = True
            raise StopAsyncIteration
        if self._usual is None:
            self._usual = list(USUAL)
        if not self._usual:
            self._over = True
            raise StopAsyncIteration
        return self._usual.pop(0)

    async def aclose(self) -> None:
        """The gate `close`, unless the stream is over by itself."""
        if not self._over:
            self._over = True
            await self._gates.stand("close", self._agent)
