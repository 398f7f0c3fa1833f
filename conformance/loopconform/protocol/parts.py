"""What both directions of the protocol speak of: gates, outcomes, operations, events to react to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_serializer
from pydantic.alias_generators import to_camel

PROTOCOL_VERSION = 1
"""The version that `hello` names. An adapter of another version is not run."""

Id = Annotated[str, Field(min_length=1, max_length=200)]
"""A name given by the suite: of an agent (its session id), a message, a fiber, a signal, a tool, a call."""

Level = Literal["L0", "L1", "L2"]
Profile = Literal["seed", "dsh-0.1", "dsh-0.1.7"]
Target = Literal["next-step", "next-turn"]

GateName = Literal[
    "setup", "load", "assembly", "pre-step", "request", "prepare", "chunk", "close", "request-error", "tool-pre",
    "tool", "tool-post", "turn-stopping", "maintenance", "flush", "unwind",
]  # fmt: skip
"""The asynchronous extension points at which an adapter can hold the loop."""


class Strict(BaseModel):
    """A message part: camelCase outside, unknown fields refused, absent fields left out."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, serialize_by_alias=True
    )

    @model_serializer(mode="wrap")
    def _without_absent(self, handler: Any) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        return {name: value for name, value in dumped.items() if value is not None}


# -- outcomes -------------------------------------------------------------------------------------------------


class Done(Strict):
    """The hook goes on as it would without the gate. For `pre-step`: enter with the proposed messages."""

    kind: Literal["done"]


class Throws(Strict):
    """The hook throws an error with this message. For `chunk`: the stream throws; for `tool`: the body throws."""

    kind: Literal["throws"]
    message: str = "planned"


class Enter(Strict):
    """`pre-step`: enter with these of the proposed messages, by id and in this order."""

    kind: Literal["enter"]
    messages: tuple[Id, ...]


class Reject(Strict):
    """`pre-step`: reject."""

    kind: Literal["reject"]


class Config(Strict):
    """`request`: propose another model."""

    kind: Literal["config"]
    model: Id


class Chunk(Strict):
    """`chunk`: the stream yields this chunk, in the vocabulary of the harness."""

    kind: Literal["chunk"]
    chunk: dict[str, Any]


class End(Strict):
    """`chunk`: the stream ends."""

    kind: Literal["end"]


class Retry(Strict):
    """`request-error`: ask for another attempt. (`done` asks for none.)"""

    kind: Literal["retry"]


class Deny(Strict):
    """`tool-pre`: the call is denied."""

    kind: Literal["deny"]


class Success(Strict):
    """`tool`: the body answers `text`. `concludes`: it concludes the turn."""

    kind: Literal["success"]
    concludes: bool = False
    text: str = "ok"


class Accept(Strict):
    """`tool-post`: the result is accepted, with these messages as additional contexts."""

    kind: Literal["accept"]
    contexts: tuple[Id, ...] = ()


class Block(Strict):
    """`tool-post`: the result is blocked, with these messages as additional contexts."""

    kind: Literal["block"]
    contexts: tuple[Id, ...] = ()


Outcome = Annotated[
    Done | Throws | Enter | Reject | Config | Chunk | End | Retry | Deny | Success | Accept | Block,
    Field(discriminator="kind"),
]

OUTCOMES: dict[str, tuple[str, ...]] = {
    "pre-step": ("done", "throws", "enter", "reject"),
    "request": ("done", "throws", "config"),
    "chunk": ("chunk", "end", "throws"),
    "request-error": ("done", "throws", "retry"),
    "tool-pre": ("done", "throws", "deny"),
    "tool": ("success", "throws"),
    "tool-post": ("done", "throws", "accept", "block"),
    "close": ("done",),
}
"""The outcomes that a gate can be given; the gates not named here know `done` and `throws`."""


# -- operations -----------------------------------------------------------------------------------------------


class _Operation(Strict):
    pass


class _OnAgent(_Operation):
    agent: Id = "a"


class Create(_OnAgent):
    """Begin to create an agent. `setup`: with a setup function, which stands at the gate `setup`. `as`: the name of
    this attempt, the key of its gates; the agent's id unless given. `signal`: the caller's, see `abort`."""

    op: Literal["create", "create-now", "resume"]
    name: Id | None = Field(default=None, alias="as")
    owner: Id | None = None
    parent: Id | None = None
    signal: Id | None = None
    setup: bool = False


class Fork(_OnAgent):
    """Begin to create agent `agent` from a copy of `source`'s log, as it is now, up to `boundary` (inclusive seq) if
    given: a seed, with `source` as its parent session."""

    op: Literal["fork"]
    source: Id
    boundary: int | None = None


class Send(_OnAgent):
    """Any send. `followup` is next-turn with wakeup, `steer` next-step with, `inject` next-step without."""

    op: Literal["send"]
    message: Id
    target: Target
    wakeup: bool


class Preset(_OnAgent):
    """A send by one of its presets."""

    op: Literal["followup", "steer", "inject"]
    message: Id


class Splice(_OnAgent):
    """The general mutation of an inbox list. The words stand for numbers that JSON lacks."""

    op: Literal["splice"]
    target: Target
    start: float | Literal["Infinity", "-Infinity", "NaN", "-0"]
    delete_count: float | Literal["Infinity", "-Infinity", "NaN", "-0"] = 0
    messages: tuple[Id, ...] = ()


class Replace(_OnAgent):
    """Put message `by` in the place of pending message `message`. Answers whether that was pending."""

    op: Literal["replace"]
    message: Id
    by: Id


class Remove(_OnAgent):
    """Take a pending message out. Answers whether it was pending."""

    op: Literal["remove"]
    message: Id


class Plain(_OnAgent):
    """`clear` the inbox; begin a `maintenance` job, which stands at that gate; await idleness; dispose the handle;
    answer the whole `log` of the session, every event as the session has it."""

    op: Literal["clear", "maintenance", "when-idle", "dispose", "log"]


class Cancel(_OnAgent):
    """Cancel with a cause."""

    op: Literal["cancel"]
    cause: Literal["user", "parent", "disposed", "hook"] = "user"
    keep_inbox: bool = False


class Append(_OnAgent):
    """Append a foreign record to the agent's session."""

    op: Literal["append"]
    type: Id
    data: dict[str, Any] = Field(default_factory=dict)


class Unload(_Operation):
    """Begin to dispose a fiber: one of `owners`, or `provider` (the loop's own), or `agents` (the agents service)."""

    op: Literal["unload"]
    fiber: Id


class Abort(_Operation):
    """Abort a caller's signal that some `create` was given, with an error that says `reason`; else in your words."""

    op: Literal["abort"]
    signal: Id
    reason: Id | None = None


class Cap(_Operation):
    """Set the size of the tool pool."""

    op: Literal["cap"]
    size: int


class Tool(_Operation):
    """Register a tool, in the place of one of that name. Its body stands at the gate `tool`."""

    op: Literal["tool"]
    name: Id
    parallel: bool = True


class DropTool(_Operation):
    """Unregister a tool."""

    op: Literal["drop-tool"]
    name: Id


class Restart(_Operation):
    """Kill the world without patience and open another like it over the same storage: a crash. Alone in its tick."""

    op: Literal["restart"]


Op = Annotated[
    Create | Fork | Send | Preset | Splice | Replace | Remove | Plain | Cancel | Append | Unload | Abort | Cap | Tool
    | DropTool | Restart,
    Field(discriminator="op"),
]  # fmt: skip

OPS: tuple[str, ...] = (
    "create", "create-now", "resume", "fork", "send", "followup", "steer", "inject", "splice", "replace", "remove",
    "clear", "maintenance", "when-idle", "dispose", "log", "cancel", "append", "unload", "abort", "cap", "tool",
    "drop-tool", "restart",
)  # fmt: skip


# -- events ---------------------------------------------------------------------------------------------------

LIVE_EVENTS: tuple[str, ...] = (
    "session/created", "session/disposed", "agent/created", "agent/session-start", "agent/disposed", "agent/status",
    "agent/inbox/inserted", "agent/inbox/discarded", "agent/inbox/claimed", "agent/error", "tools/result",
    "agent/assistant-stream", "signal/abort", "llm/stream",
)  # fmt: skip
"""The live notifications that an adapter may report. `signal/abort` is the abort of an activity's signal, `llm/stream`
a request on its way to the model, with its `messages`: told only where the opening asks for `requests`."""


class On(Strict):
    """Which dispatch a reaction runs in: the `nth` one of a `record` type or a `live` event, of one agent, whose data
    has these members (`where`, compared with what the adapter reports)."""

    record: Id | None = None
    live: Id | None = None
    agent: Id | None = None
    where: dict[str, Any] | None = None
    nth: int = 1
