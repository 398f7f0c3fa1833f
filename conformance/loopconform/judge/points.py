"""What a state of the judge is made of, and the book of everything that was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeVar

from loopconform.protocol.requests import Open, Plan, Release, Veto
from loopspec import stream
from loopspec.kernel.machine import Effect
from loopspec.loop import Loop
from loopspec.tape.recall import RECALL_TOOLS

Place = tuple[str, str]
"""A gate and its key."""

_Item = TypeVar("_Item")


def distinct(items: Iterable[_Item]) -> tuple[_Item, ...]:
    """Each item once, in the order in which they came, so that a fault is told in the same words every time."""
    return tuple(dict.fromkeys(items))


USUAL: tuple[dict[str, Any], ...] = (
    {"type": "block-start", "index": 0, "blockType": "text"},
    {"type": "text-delta", "index": 0, "text": "ok"},
    {"type": "block-end", "index": 0, "block": {"type": "text", "text": "ok"}},
    {"type": "usage", "usage": {"inputTokens": 1, "outputTokens": 1}},
    {"type": "finish", "reason": {"kind": "stop"}},
)
"""The usual stream of a model, as the protocol has it."""


class Facts(NamedTuple):
    """What the answers of the surroundings hang on: tools, headers, the stream of the open attempt."""

    tools: tuple[tuple[str, bool], ...] = ()
    """Registered tools by name, each with whether it may run beside others."""
    cap: int = 10
    listed: tuple[str, ...] = ()
    """The tools that the prompt of this step lists."""
    model: str = "m1"
    """The model that this attempt calls."""
    logged: tuple[Any, ...] = ()
    """Model and tools of the last header."""
    context: str = ""
    """The model of the last context record."""
    owed: tuple[Any, ...] = ()
    """Entries of the tape that are planned and not appended yet."""
    decided: tuple[Any, ...] = ()
    """Which await point is answered behind them, how, and what comes next: `fold`, or nothing."""
    recalled: tuple[tuple[int, str], ...] = ()
    """The page that each call of a recall tool gets."""
    generation: int | None = None
    """The generation of the surface that the last request of this driver has shown."""
    asked: bool = False
    """The request of this attempt has been told."""
    prompted: bool = False
    """The system prompt is on the surface (format 4)."""
    chunk: str = ""
    """The chunk that was pulled last, as canonical JSON."""
    stream: tuple[str, ...] = ()
    """The published chunks of this attempt."""
    sources: tuple[int, ...] = ()
    """Their seqs."""
    mode: str = ""
    """How this stream goes: not begun, `usual` or `scripted`."""
    calls: tuple[tuple[str, str], ...] = ()
    """Id and tool of each call of the last answer, in model order."""
    started: tuple[tuple[int, int], ...] = ()
    """The seq of each call's record."""
    barred: tuple[int, ...] = ()
    """Dispatches whose body was refused entry."""
    concluding: tuple[int, ...] = ()
    """Calls whose body concluded the turn."""
    contexts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """The additional contexts of each call."""
    texts: tuple[tuple[int, str], ...] = ()
    """What the body of each call has answered, where that is not `ok`."""
    scanned: int | None = None
    """How far the results of the log were looked at for folding; `None` before the first pre-step."""
    worked: tuple[str, ...] = ()
    """How jobs came out whose promises have not settled: `done`, `throws`, or `refused` at their start."""


class Frame(NamedTuple):
    """Operations that run in one tick. `request` is 0 for what the harness does by itself.

    `state`: the next one is `ready`, or one is `running` at `height` of the driver's stack, or it has `ended`.
    """

    request: int
    ops: tuple[int, ...]
    next: int = 0
    state: Literal["ready", "running", "ended"] = "ready"
    height: int = 0
    result: Effect = ()


class Block(NamedTuple):
    """Operations that will run as soon as nobody else does. `release`: then the gate of this release opens."""

    request: int
    ops: tuple[int, ...]
    release: Place | None = None


class Point(NamedTuple):
    """One explanation of what was seen of one agent."""

    loop: Loop
    facts: Facts
    frames: tuple[Frame, ...] = ()
    blocks: tuple[Block, ...] = ()
    arrived: tuple[Place, ...] = ()
    """Gates at which a hook was reported, and stands still."""
    released: tuple[tuple[Place, int], ...] = ()
    """Those of them that may go on, with the request that says so."""
    plans: tuple[int, ...] = ()
    vetoes: tuple[tuple[int, int], ...] = ()
    """Refusals to come: the request, and which append of its type from here on it is."""
    gate: Literal["open", "shut", "latched"] = "open"
    """Whether the driver may start (N-1)."""
    starting: bool = False
    """The announcement is over but for its listeners: the gate opens when they are done."""
    doomed: Literal["no", "perhaps", "yes"] = "no"
    """Whether the disposal of the agent has cancelled it, or may do so by itself."""


class Book:
    """Everything that was asked for, by request number, and the numbers of messages."""

    def __init__(self, opening: Open, events: frozenset[str], partial: frozenset[str] = frozenset()) -> None:
        """`events`: the live events that the adapter reports; `partial`: those that it cannot hear every time."""
        self.opening = opening
        self.events = events
        self.partial = partial
        self.holds: dict[str, bool] = {hold.gate: hold.honour for hold in opening.hold}
        self.ops: dict[tuple[int, int], Any] = {}
        self.releases: dict[int, Release] = {}
        self.plans: dict[int, Plan] = {}
        self.vetoes: dict[int, Veto] = {}
        self.vain: set[tuple[int, int]] = set()
        """Disposals by a handle whose agent has ended before: they concern no live agent."""
        self.observing: dict[tuple[int, int], frozenset[bool]] = {}
        """Disposals by an observer of the agent's own record: whether input is pending, as far as can be told."""
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def number(self, message: str) -> int:
        """The number of a message, given in order of first mention."""
        known = self._numbers.setdefault(message, len(self._numbers) + 1)
        self._names[known] = message
        return known

    def name(self, number: int) -> str:
        """The message of a number."""
        return self._names.get(number, f"#{number}")

    @property
    def tells_requests(self) -> bool:
        """Requests are asked for, and the adapter can tell them."""
        return self.opening.requests and "llm/stream" in self.events

    def facts(self) -> Facts:
        """What holds when the world opens."""
        own = [(tool.name, tool.parallel) for tool in self.opening.tools]
        recall = [] if self.opening.slice is None else [(name, True) for name in RECALL_TOOLS]
        tools = tuple(sorted((*own, *recall)))
        return Facts(tools=tools, cap=self.opening.cap)


def canonical(value: Any) -> str:
    """JSON text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


@lru_cache(maxsize=4096)
def assembled(chunks: tuple[str, ...]) -> stream.Assembly:
    """The stream that some published chunks make."""
    return stream.assemble([json.loads(chunk) for chunk in chunks])


def is_visible(facts: Facts) -> bool:
    """Whether something of the open stream would survive an abort (L-STR-9)."""
    return bool(stream.settle_interrupted(assembled(facts.stream)).content)


def call_number(facts: Facts, call_id: str) -> int:
    """The number of a call of the last answer, 0 for a stranger."""
    return next((at for at, (id, _) in enumerate(facts.calls, 1) if id == call_id), 0)


def tool_of(facts: Facts, call: int) -> bool | None:
    """Whether the tool of a call may run beside others; `None` when it is not registered."""
    return dict(facts.tools).get(facts.calls[call - 1][1])


DRIVER_GATES: Mapping[str, str] = {
    "assembly": "assembly",
    "pre-step": "pre-step",
    "request": "request",
    "prepare": "prepare",
    "chunk": "chunk",
    "close": "close",
    "recovery": "request-error",
    "turn-stopping": "turn-stopping",
    "maintenance": "maintenance",
}
"""The gate of each await point of the driver that has one."""

BATCH_GATES: Mapping[str, str] = {"prepare": "tool-pre", "body": "tool", "finalise": "tool-post"}


def places(point: Point) -> list[Place]:
    """Where hooks stand or are about to: the await points that have a public extension point."""
    found: list[Place] = []
    for at, _ in point.loop.driver.parked:
        gate = DRIVER_GATES.get(at[0])
        if gate is not None and not (gate == "chunk" and point.facts.mode == "usual"):
            found.append((gate, ""))
    if any(one.frame[0] == "await_job" for one in point.loop.driver.stack):
        found.append(("maintenance", ""))
    batch = point.loop.batch
    if batch is not None:
        for at, _ in batch.parked:
            gate = BATCH_GATES.get(at[0])
            if gate is None or (at[0] == "prepare" and at[2] != "policy"):
                continue
            if at[0] == "body" and at[1] not in batch.core.entered:
                continue
            found.append((gate, point.facts.calls[at[1] - 1][0]))
    return found
