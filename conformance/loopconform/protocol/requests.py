"""What the suite says to an adapter. One JSON object a line; each gets one reply of its own, see `replies`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from loopconform.protocol.parts import GateName, Id, On, Op, Outcome, Profile, Strict


class Hello(Strict):
    """The first request of a process. Answered by `hello`."""

    verb: Literal["hello"]
    protocol: int


class Hold(Strict):
    """A gate that holds. `honour`: the hook rejects when its signal is aborted; otherwise it is deaf to it."""

    gate: GateName
    honour: bool = False


class ToolSpec(Strict):
    """A tool that is registered when the world opens."""

    name: Id
    parallel: bool = True


class Stored(Strict):
    """A session that is in the storage when the world opens: its header record and its events, as files have them."""

    header: dict[str, Any]
    events: tuple[dict[str, Any], ...] = ()

    @property
    def id(self) -> str:
        """The id of the session."""
        return str(self.header.get("id"))


class Open(Strict):
    """A fresh world; the one before is thrown away, whatever state it is in.

    `hold`: gates that hold; everything else passes at once, with the outcome of a plan or the usual one.
    `owners`: fibers that may own agents. `storage`: keep sessions in a storage, which `stored` are in already.
    `requests`: tell `llm/stream`. `slice`: mount the slice policy (the tape) with these settings, format 4 only.
    """

    verb: Literal["open"]
    profile: Profile = "seed"
    session_format: Literal[0, 4] = 0
    hold: tuple[Hold, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    cap: int = 10
    owners: tuple[Id, ...] = ()
    storage: bool = False
    stored: tuple[Stored, ...] = ()
    requests: bool = False
    slice: dict[str, Any] | None = None


class Do(Strict):
    """Operations to run now, in one tick, none awaited in between."""

    verb: Literal["do"]
    ops: tuple[Op, ...]


class React(Strict):
    """Operations to run inside a synchronous dispatch, once, when it comes.

    `queued`: not inside of it, but in a task that its listener queues: as soon as the runtime gets to it.
    """

    verb: Literal["react"]
    on: On
    ops: tuple[Op, ...]
    queued: bool = False


class Plan(Strict):
    """The outcome of the next arrival of this agent at a gate, which then does not hold. Plans of one gate are used in
    order; a plan with a `key` is for that key only.

    `chunk` plans feed the stream: one for each pull, ended by `end` or `throws`. A stream without any plan says `ok`.
    """

    verb: Literal["plan"]
    gate: GateName
    agent: Id = "a"
    key: str | None = None
    outcome: Outcome


class Veto(Strict):
    """Refuse the agent's next append of this record type: its dispatch throws before it is published.

    `nth`: not the next one, but that many appends later that no other veto has refused.
    """

    verb: Literal["veto"]
    record: Id
    agent: Id = "a"
    nth: Annotated[int, Field(ge=1)] = 1


class Release(Strict):
    """Let the hook that stands at a gate go on with an outcome, after running `ops` in its continuation. A release of a
    gate at which nobody stands does nothing."""

    verb: Literal["release"]
    gate: GateName
    agent: Id = "a"
    key: str = ""
    outcome: Outcome
    ops: tuple[Op, ...] = ()


class Settle(Strict):
    """Answer with `settled` when nothing can run any more but what a gate holds."""

    verb: Literal["settle"]


class Bye(Strict):
    """The end: answer, then exit."""

    verb: Literal["bye"]


Request = Annotated[
    Hello | Open | Do | React | Plan | Veto | Release | Settle | Bye,
    Field(discriminator="verb"),
]

REQUEST: TypeAdapter[Any] = TypeAdapter(Request)


def write_request(id: int, request: Any) -> bytes:
    """One line, its end included."""
    body = request.model_dump(mode="json")
    return json.dumps({"id": id, **body}, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
