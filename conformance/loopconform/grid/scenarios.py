"""Short stories of one agent. Each begins with an agent that is idle, and ends idle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from loopconform.protocol.case import Area

Json = dict[str, Any]


class Scenario(NamedTuple):
    """One story. `plans` prepare it, `start` are the operations of its first tick."""

    name: str
    title: str
    area: Area
    start: tuple[Json, ...] = ()
    plans: tuple[Json, ...] = ()
    tools: tuple[Json, ...] = ()
    cap: int = 10
    session_format: Literal[0, 4] = 0
    gates: tuple[str, ...] = ()
    """The gates that its hooks come to."""
    stored: tuple[Json, ...] = ()
    """Sessions that are stored before it begins; then there is a storage, and requests are told."""
    slice: Json | None = None
    """The settings of the slice policy, where it is mounted."""


def _chunk(chunk: Json) -> Json:
    return {"verb": "plan", "gate": "chunk", "outcome": {"kind": "chunk", "chunk": chunk}}


END: Json = {"verb": "plan", "gate": "chunk", "outcome": {"kind": "end"}}


def text_answer(text: str = "ok") -> tuple[Json, ...]:
    """A stream with one block of text."""
    block = {"type": "block-end", "index": 0, "block": {"type": "text", "text": text}}
    return (_chunk(block), _chunk({"type": "finish", "reason": {"kind": "stop"}}), END)


def tool_answer(*calls: tuple[str, str]) -> tuple[Json, ...]:
    """A stream that calls tools, by call id and name."""
    blocks = tuple(
        _chunk(
            {
                "type": "block-end",
                "index": at,
                "block": {"type": "tool-call", "id": id, "name": name, "arguments": "{}"},
            }
        )
        for at, (id, name) in enumerate(calls)
    )
    return (*blocks, _chunk({"type": "finish", "reason": {"kind": "tool-calls"}}), END)


def finish(kind: str) -> tuple[Json, ...]:
    """A stream with a little text that finishes otherwise: `max-tokens`, or `error`."""
    reason: Json = {"kind": kind}
    if kind == "error":
        reason["failure"] = {"message": "planned", "code": "SERVER"}
    return (*text_answer()[:1], _chunk({"type": "finish", "reason": reason}), END)


def plan(gate: str, kind: str, **fields: Any) -> Json:
    """The outcome of the next arrival at a gate."""
    return {"verb": "plan", "gate": gate, "outcome": {"kind": kind, **fields}}


ASK: Json = {"op": "followup", "message": "m1"}
STEP_GATES = ("assembly", "pre-step", "request", "prepare", "chunk", "turn-stopping")
TOOL_GATES = ("tool-pre", "tool", "tool-post")
PARALLEL = {"name": "p"}
EXCLUSIVE = {"name": "x", "parallel": False}

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("plain", "a turn of one step", "turn", (ASK,), gates=STEP_GATES),
    Scenario("idle", "an idle agent", "wake"),
    Scenario(
        "queued", "two prompts, two turns", "turn", (ASK, {"op": "followup", "message": "m2"}), gates=("pre-step",)
    ),
    Scenario("steered", "a prompt with a message beside it", "turn", (ASK, {"op": "steer", "message": "m2"})),
    Scenario("injected", "a message for the next step waits", "inbox", ({"op": "inject", "message": "m2"}, ASK)),
    Scenario(
        "tool", "a turn with one tool call", "tools", (ASK,), tool_answer(("c1", "p")), (PARALLEL,), gates=TOOL_GATES
    ),
    Scenario(
        "pool",
        "two parallel calls, a pool of one",
        "tools",
        (ASK,),
        tool_answer(("c1", "p"), ("c2", "p")),
        (PARALLEL,),
        cap=1,
        gates=TOOL_GATES,
    ),
    Scenario(
        "barrier",
        "an exclusive call between parallel ones",
        "tools",
        (ASK,),
        tool_answer(("c1", "p"), ("c2", "x"), ("c3", "p")),
        (PARALLEL, EXCLUSIVE),
        gates=("tool",),
    ),
    Scenario(
        "stranger", "a call of a tool that is not there", "tools", (ASK,), tool_answer(("c1", "nobody")), (PARALLEL,)
    ),
    Scenario("failing", "a failure that nobody retries", "retry", (ASK,), finish("error"), gates=("request-error",)),
    Scenario(
        "retried",
        "a failure and another attempt",
        "retry",
        (ASK,),
        (*finish("error"), plan("request-error", "retry")),
    ),
    Scenario("cut", "an answer cut off at max-tokens", "request", (ASK,), finish("max-tokens")),
    Scenario("rejected", "a rejected step", "turn", (ASK,), (plan("pre-step", "reject"),)),
    Scenario(
        "emptied", "a step whose messages are taken out", "turn", (ASK,), (plan("pre-step", "enter", messages=[]),)
    ),
    Scenario("assembly-throws", "prompt assembly throws", "turn", (ASK,), (plan("assembly", "throws"),)),
    Scenario("request-throws", "a request listener throws", "request", (ASK,), (plan("request", "throws"),)),
    Scenario("stream-throws", "the stream throws", "request", (ASK,), (plan("chunk", "throws"),)),
    Scenario("stopping-throws", "a stopping listener throws", "turn", (ASK,), (plan("turn-stopping", "throws"),)),
    Scenario("job", "a maintenance job", "turn", ({"op": "maintenance"},), gates=("maintenance",)),
    Scenario("plain-v4", "a turn of one step, format 4", "log", (ASK,), session_format=4, gates=STEP_GATES),
    Scenario(
        "tool-v4",
        "a turn with one tool call, format 4",
        "log",
        (ASK,),
        tool_answer(("c1", "p")),
        (PARALLEL,),
        session_format=4,
        gates=TOOL_GATES,
    ),
)

VETOED = (
    "agent/inbox/spliced",
    "turn/start",
    "step/start",
    "user/message",
    "request/header",
    "request/context",
    "assistant/chunk",
    "assistant/message",
    "step/end",
    "turn/end",
)
"""Records of a plain turn; each is refused once."""

OUTCOMES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("tool-pre", "throws", {}),
    ("tool-pre", "deny", {}),
    ("tool", "throws", {}),
    ("tool", "success", {"concludes": True}),
    ("tool-post", "throws", {}),
    ("tool-post", "block", {}),
    ("tool-post", "accept", {"contexts": ["m6"]}),
)
"""How a tool call may come out otherwise."""


def veto(record: str) -> Json:
    """The next record of this type is refused."""
    return {"verb": "veto", "record": record}


def variants() -> Iterator[Scenario]:
    """The plain turn with one record refused, and the tool call with another outcome or a record refused."""
    for record in VETOED:
        name = record.replace("/", "-")
        yield Scenario(f"refused-{name}", f"a turn whose {record} is refused once", "turn", (ASK,), (veto(record),))
    calls = tool_answer(("c1", "p"), ("c2", "p"))
    for record in ("tool/call", "tool/result"):
        name = record.replace("/", "-")
        plans = (*calls, veto(record))
        yield Scenario(f"refused-{name}", f"a batch whose {record} is refused", "tools", (ASK,), plans, (PARALLEL,))
    for gate, kind, fields in OUTCOMES:
        plans = (*calls, plan(gate, kind, **fields))
        yield Scenario(f"{gate}-{kind}", f"{gate} comes out as {kind}", "tools", (ASK,), plans, (PARALLEL,))
    plans = (*calls, plan("tool-post", "throws"))
    yield Scenario("batch-fails-v4", "a failed batch, format 4", "log", (ASK,), plans, (PARALLEL,), session_format=4)


STORIES: tuple[Scenario, ...] = (*SCENARIOS, *variants())

OPERATIONS: dict[str, Json] = {
    "followup": {"op": "followup", "message": "m7"},
    "steer": {"op": "steer", "message": "m7"},
    "inject": {"op": "inject", "message": "m7"},
    "queue": {"op": "send", "message": "m7", "target": "next-turn", "wakeup": False},
    "cancel": {"op": "cancel"},
    "cancel-keep": {"op": "cancel", "keepInbox": True},
    "cancel-disposed": {"op": "cancel", "cause": "disposed"},
    "maintenance": {"op": "maintenance"},
    "clear": {"op": "clear"},
    "remove": {"op": "remove", "message": "m2"},
    "replace": {"op": "replace", "message": "m2", "by": "m8"},
    "splice": {"op": "splice", "target": "next-step", "start": 0, "deleteCount": 0, "messages": ["m7"]},
    "splice-out": {"op": "splice", "target": "next-turn", "start": -1, "deleteCount": 1, "messages": ["m7"]},
    "dispose": {"op": "dispose"},
    "append": {"op": "append", "type": "conformance/note"},
    "when-idle": {"op": "when-idle"},
}
"""What may be done at a place."""

AREAS: dict[str, Area] = {
    "followup": "wake", "steer": "wake", "inject": "inbox", "queue": "wake", "cancel": "cancel",
    "cancel-keep": "cancel", "cancel-disposed": "cancel", "maintenance": "turn", "clear": "inbox", "remove": "inbox",
    "replace": "inbox", "splice": "inbox", "splice-out": "inbox", "dispose": "teardown", "append": "log",
    "when-idle": "wake",
}  # fmt: skip

PAIRED = ("followup", "steer", "cancel", "cancel-keep", "maintenance", "dispose")
"""Operations that are also tried in pairs, at the same place and in both orders."""

PAIRED_SCENARIOS = ("plain", "idle", "tool", "job")
