"""What an adapter says to the suite. One JSON object a line, told apart by `type`.

Each request is closed by exactly one of `ok`, `hello`, `settled`, `unsupported`. Everything that happens before that
line happened, for the suite, before the request was done.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from loopconform.protocol.parts import GateName, Id, Level, Profile, Strict


class Problem(Strict):
    """An error, as the language has it. `code` where it has one."""

    name: str = ""
    message: str = ""
    code: str | None = None


class Implementation(Strict):
    """Who speaks."""

    name: Id
    version: str = ""
    language: str = ""


class HelloReply(Strict):
    """Closes `hello`. `profiles`: the laws it can be opened under (most have one). `gates`: those it can hold.
    `ops`: operations it can run. `events`: live events it reports; `partial`: those of them
    that it cannot hear every time. `vetoes`: it can refuse appends. `storage`: sessions can be stored. `slice`: it has
    the slice policy."""

    type: Literal["hello"]
    id: int
    protocol: int
    implementation: Implementation
    level: Level
    profiles: tuple[Profile, ...]
    session_formats: tuple[Literal[0, 4], ...] = (0,)
    gates: tuple[GateName, ...] = ()
    ops: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()
    vetoes: bool = False
    storage: bool = False
    slice: bool = False


class Ok(Strict):
    """Closes a request."""

    type: Literal["ok"]
    id: int


class Unsupported(Strict):
    """Closes a request that this implementation cannot follow, and says why. The case counts as not implemented."""

    type: Literal["unsupported"]
    id: int
    reason: str


class Returned(Strict):
    """Operation `op` (from 0) of request `id` returned: a boolean, ids of messages, events, or nothing. Of an
    asynchronous one it tells that the call has returned; `fulfilled` or `rejected` follows."""

    type: Literal["returned"]
    id: int
    op: int
    value: bool | tuple[str, ...] | tuple[dict[str, Any], ...] | None = None


class Raised(Strict):
    """Operation `op` of request `id` threw."""

    type: Literal["raised"]
    id: int
    op: int
    error: Problem


class Fulfilled(Strict):
    """The promise of an asynchronous operation was fulfilled."""

    type: Literal["fulfilled"]
    id: int
    op: int


class Rejected(Strict):
    """The promise of an asynchronous operation was rejected."""

    type: Literal["rejected"]
    id: int
    op: int
    error: Problem


class Record(Strict):
    """A durable record was published: the event as the session has it, `time` may be left out."""

    type: Literal["record"]
    agent: Id
    event: dict[str, Any]


class Live(Strict):
    """A live notification was dispatched. `data` is its payload without `agent`; an error is `{name, message, code?}`,
    a message need only have its `id`."""

    type: Literal["live"]
    agent: Id
    name: Id
    data: dict[str, Any] = Field(default_factory=dict)


class Gate(Strict):
    """A hook arrived at a gate that holds. `key`: the call id for tools, the attempt's name for setup and load.
    `data`: for `pre-step` the ids of the proposed messages."""

    type: Literal["gate"]
    gate: GateName
    agent: Id
    key: str = ""
    messages: tuple[str, ...] | None = None


class Parked(Strict):
    """Somebody stands at a gate."""

    gate: GateName
    agent: Id
    key: str = ""


class Snapshot(Strict):
    """What can be read of a live agent: its status, the ids in its inbox, and the length of its log."""

    status: Literal["idle", "running"]
    next_turn: tuple[str, ...] = ()
    next_step: tuple[str, ...] = ()
    length: int


class Settled(Strict):
    """Closes `settle`: who stands at which gate (in any order), and what can be read.

    `agents`: the live agents by id, those of the agents registry. `sessions`: the ids in the session registry."""

    type: Literal["settled"]
    id: int
    parked: tuple[Parked, ...] = ()
    agents: dict[str, Snapshot] = Field(default_factory=dict)
    sessions: tuple[str, ...] | None = None


Reply = Annotated[
    HelloReply | Ok | Unsupported | Returned | Raised | Fulfilled | Rejected | Record | Live | Gate | Settled,
    Field(discriminator="type"),
]

REPLY: TypeAdapter[Any] = TypeAdapter(Reply)

CLOSING = (HelloReply, Ok, Unsupported, Settled)
"""The replies that close a request."""


def read_reply(line: bytes | str) -> Any:
    """One line of an adapter. Raises `ValueError` (pydantic's) that says what is wrong with it."""
    return REPLY.validate_json(line)
