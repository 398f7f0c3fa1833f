"""Logs of random conversations on the live harness, and logs with one fault seeded into them.

`log(number)` is the same log each time: profile, format, script, and what senders and listeners do come from the
number. Senders act in windows of the trace and in the middle of streams and tools.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import anyio
from tests.harness.conversation import Conversation, conversation, message

from loopharness.model.scripted import Response, fail, text, tool_calls
from loopharness.store.rows import event_rows, header_row, row_text
from loopharness.tools.registry import define_tool
from loopspec.profile import Profile

Rows = list[dict[str, Any]]
SETTINGS: tuple[tuple[Profile, int], ...] = (("seed", 0), ("seed", 4), ("dsh-0.1", 0))

_LINES = (
    "E agent/status running",
    "E agent/status idle",
    "E agent/inbox/inserted",
    "E agent/inbox/claimed",
    "E agent/error",
    "S turn/start",
    "S turn/end",
    "S step/start",
    "S step/end",
    "S user/message",
    "S request/header",
    "S assistant/message",
    "S tool/call",
    "S tool/result",
)
_CAUSES = ({"kind": "user"}, {"kind": "parent"}, {"kind": "hook", "reason": "no"})


class Generated(NamedTuple):
    """One generated log: the profile that wrote it, and its rows as they stand in a file, the header first."""

    profile: Profile
    rows: Rows


def log(number: int) -> Generated:
    """The log of this number. Always the same."""
    source = random.Random(f"log {number}")
    profile, session_format = SETTINGS[number % len(SETTINGS)]
    return Generated(profile, anyio.run(_converse, source, profile, session_format))


async def _converse(source: random.Random, profile: Profile, session_format: int) -> Rows:
    ids = iter(range(1, 1000))
    script: list[Response] = []

    async with conversation(always=text("Always."), profile=profile, session_format=session_format) as talk:

        def fresh() -> str:
            return f"m{next(ids)}"

        def act() -> None:
            """One operation of a sender or listener; what is refused is refused."""
            agent = talk.agent
            choice = source.random()
            pending = [m["id"] for m in (*agent.inbox.next_step, *agent.inbox.next_turn)]
            try:
                if choice < 0.3:
                    talk.followup(fresh())
                elif choice < 0.5:
                    talk.steer(fresh())
                elif choice < 0.65:
                    talk.inject(fresh())
                elif choice < 0.78:
                    agent.cancel(source.choice(_CAUSES), keep_inbox=source.random() < 0.6)
                elif choice < 0.86 and pending:
                    agent.inbox.remove(source.choice(pending))
                elif choice < 0.93 and pending:
                    agent.inbox.replace(source.choice(pending), message(fresh()))
                elif choice < 0.97:
                    # never a prompt: this call wakes nobody, which no record would tell from a lost wake
                    start, count = source.choice((0, 1, -1)), source.choice((0, 1))
                    agent.inbox.splice("next-step", start, count, [message(fresh())])
                else:
                    talk.followup(fresh())
            except (RuntimeError, ValueError):
                pass

        calls = iter(range(1, 1000))

        def answer() -> Response:
            choice = source.random()
            if choice < 0.35:
                said: list[Any] = list(text(*["word "] * source.randrange(1, 6), usage=(9, 4)))
            elif choice < 0.75:
                names = [f"c{next(calls)}" for _ in range(source.randrange(1, 4))]
                say = "Let me see." if source.random() < 0.3 else ""
                kinds = ("parallel", "exclusive", "broken", "unknown")
                given = [(name, source.choice(kinds), {"say": name}) for name in names]
                said = list(tool_calls(*given, say=say))
            elif choice < 0.85:
                said = list(fail("no capacity", source.choice(("SERVER", "RATE_LIMIT"))))
            elif choice < 0.93:
                said = list(text("Cut off", reason="max-tokens"))
            else:
                said = list(text(""))
            if source.random() < 0.3:
                said.insert(source.randrange(len(said)), act)
            return said

        script += [answer() for _ in range(source.randrange(1, 6))]
        talk.adapter.say(*script)
        tools = talk.harness.tools
        schema = {"type": "object", "properties": {"say": {"type": "string"}}}

        async def body(arguments: Any) -> str:
            if source.random() < 0.3:
                act()
            await anyio.lowlevel.checkpoint()
            return str(arguments["say"])

        async def broken(arguments: Any) -> str:
            raise RuntimeError("it does not work")

        for name, run in (("parallel", body), ("exclusive", body), ("broken", broken)):
            tool = define_tool(name, "For tests.", schema, run, concurrent=name == "parallel")
            tools.register(tool, talk.harness.context)

        def decide(payload: Any, proceed: Callable[[], Any]) -> Any:
            choice = source.random()
            if choice < 0.06:
                return {"kind": "reject"}
            if choice < 0.1:
                raise RuntimeError("no")
            if choice < 0.2:
                act()
            return proceed()

        def recover(payload: Any, proceed: Callable[[], Any]) -> Any:
            return {"kind": "retry"} if source.random() < 0.5 else proceed()

        talk.harness.on("agent/pre-step", decide)
        talk.harness.on("agent/request-error", recover)
        for _ in range(source.randrange(0, 5)):
            talk.at(source.choice(_LINES), act)
        for _ in range(source.randrange(1, 5)):
            act()
            if source.random() < 0.7:
                await talk.agent.when_idle()
        talk.followup(fresh())
        await talk.agent.when_idle()
        return stored(talk, session_format)


def stored(talk: Conversation, session_format: int) -> Rows:
    """The rows of a file that holds the session of this conversation as it is now."""
    session = talk.agent.session
    packed = event_rows(list(session.events), session_format)
    return [json.loads(row_text(row)) for row in (header_row(session.header), *packed)]


# -- one fault ---------------------------------------------------------------------------------------------------


class Faulty(NamedTuple):
    """A log with one fault: what was done, and the lines where it stands."""

    profile: Profile
    rows: Rows
    fault: str
    lines: tuple[int, ...]


def faulty(number: int) -> Faulty:
    """The log of this number with one fault in it. Seqs and citations are put right, so that only the fault shows."""
    made = log(number)
    source = random.Random(f"fault {number}")
    rows: Rows = json.loads(json.dumps(made.rows))
    for _ in range(50):
        fault = source.choice(_FAULTS)
        copy: Rows = json.loads(json.dumps(rows))
        lines = fault(copy, source)
        if lines and copy != rows:
            return Faulty(made.profile, copy, fault.__name__.strip("_"), lines)
    raise AssertionError("no fault fits this log")


def _renumber(rows: Rows, order: list[int | None]) -> None:
    """Give every row its seq again; `order` is the old position of each row. Citations follow their rows."""
    seqs: dict[int, int] = {}
    seq = 0
    for row, old in zip(rows[1:], order[1:], strict=True):
        size = len(row["data"].get("texts", row["data"].get("args", ()))) if "seq0" in row else 1
        key = "seq0" if "seq0" in row else "seq"
        for member in range(size):
            if old is not None:
                seqs[row[key] + member] = seq + member
        row[key] = seq
        seq += size
    for row in rows[1:]:
        if "sourceEventSeqs" in row:
            row["sourceEventSeqs"] = [_moved(item, seqs) for item in row["sourceEventSeqs"] if _kept(item, seqs)]


def _kept(item: Any, seqs: dict[int, int]) -> bool:
    return isinstance(item, list) or item in seqs


def _moved(item: Any, seqs: dict[int, int]) -> Any:
    return [seqs.get(one, one) for one in item] if isinstance(item, list) else seqs[item]


def _loop_rows(rows: Rows) -> list[int]:
    return [at for at in range(1, len(rows)) if rows[at]["type"] not in ("session", "assistant/chunk", "text-chunks")]


def _drop_row(rows: Rows, source: random.Random) -> tuple[int, ...]:
    at = source.choice(_loop_rows(rows))
    order: list[int | None] = list(range(len(rows)))
    del rows[at], order[at]
    _renumber(rows, order)
    return (at + 1,)


def _repeat_row(rows: Rows, source: random.Random) -> tuple[int, ...]:
    at = source.choice(_loop_rows(rows))
    order: list[int | None] = list(range(len(rows)))
    rows.insert(at + 1, json.loads(json.dumps(rows[at])))
    order.insert(at + 1, None)
    _renumber(rows, order)
    return (at + 2,)


def _swap_rows(rows: Rows, source: random.Random) -> tuple[int, ...]:
    at = source.choice([at for at in _loop_rows(rows) if at + 1 < len(rows)] or [0])
    if not at or "seq0" in rows[at + 1]:
        return ()
    order: list[int | None] = list(range(len(rows)))
    rows[at], rows[at + 1] = rows[at + 1], rows[at]
    order[at], order[at + 1] = order[at + 1], order[at]
    times = sorted((rows[at]["time"], rows[at + 1]["time"]))
    rows[at]["time"], rows[at + 1]["time"] = times
    _renumber(rows, order)
    return (at + 1, at + 2)


def _wrong_number(rows: Rows, source: random.Random) -> tuple[int, ...]:
    places = [(at, key) for at in range(1, len(rows)) for key in ("turn", "step") if key in rows[at]["data"]]
    if not places:
        return ()
    at, key = source.choice(places)
    rows[at]["data"][key] += source.choice((-1, 1, 5))
    return (at + 1,)


def _other_reason(rows: Rows, source: random.Random) -> tuple[int, ...]:
    places = [at for at in range(1, len(rows)) if rows[at]["type"] == "turn/end"]
    if not places:
        return ()
    at = source.choice(places)
    kinds = ("completed", "blocked", "max-tokens", "aborted", "error")
    kind = source.choice([kind for kind in kinds if kind != rows[at]["data"]["reason"]["kind"]])
    reason: dict[str, Any] = {"kind": kind}
    if kind == "aborted":
        reason["reason"] = {"kind": "user"}
    if kind == "error":
        reason["error"] = {"message": "no", "code": "UNKNOWN"}
    rows[at]["data"]["reason"] = reason
    return (at + 1,)


def _other_splice(rows: Rows, source: random.Random) -> tuple[int, ...]:
    places = [at for at in range(1, len(rows)) if rows[at]["type"] == "agent/inbox/spliced"]
    if not places:
        return ()
    at = source.choice(places)
    data = rows[at]["data"]
    choice = source.randrange(4)
    if choice == 0:
        data["target"] = "next-step" if data["target"] == "next-turn" else "next-turn"
    elif choice == 1:
        data["start"] += 1
    elif choice == 2 and "removedCount" in data:
        data["outcome"] = "canceled"
    else:
        data.pop("outcome", None)
    return (at + 1,)


def _other_call(rows: Rows, source: random.Random) -> tuple[int, ...]:
    places = [at for at in range(1, len(rows)) if rows[at]["type"] == "tool/call"]
    if not places:
        return ()
    at = source.choice(places)
    rows[at]["data"][source.choice(("callId", "name", "arguments"))] = "something else"
    return (at + 1,)


def _other_result(rows: Rows, source: random.Random) -> tuple[int, ...]:
    places = [at for at in range(1, len(rows)) if rows[at]["type"] == "tool/result"]
    if not places:
        return ()
    at = source.choice(places)
    if source.random() < 0.5:
        rows[at]["sourceEventSeqs"] = [0]
    else:
        rows[at]["data"]["error"] = {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}
        message = rows[at]["data"]["message"]
        (message["content"][0] if message["role"] == "user" else message)["isError"] = True
    return (at + 1,)


def _other_answer(rows: Rows, source: random.Random) -> tuple[int, ...]:
    places = [at for at in range(1, len(rows)) if rows[at]["type"] == "assistant/message"]
    if not places:
        return ()
    at = source.choice(places)
    data = rows[at]["data"]
    if source.random() < 0.5:
        data["message"]["content"] = [{"type": "text", "text": "invented"}]
    elif "interrupted" in data:
        del data["interrupted"]
    else:
        data["interrupted"] = True
    return (at + 1,)


def _other_header(rows: Rows, source: random.Random) -> tuple[int, ...]:
    places = [at for at in range(1, len(rows)) if rows[at]["type"] == "request/header"]
    if not places:
        return ()
    at = source.choice(places)
    rows[at]["data"]["reason"] = source.choice(("resume", "change", "initial"))
    return (at + 1,)


_FAULTS: tuple[Callable[[Rows, random.Random], tuple[int, ...]], ...] = (
    _drop_row,
    _drop_row,
    _repeat_row,
    _swap_rows,
    _swap_rows,
    _wrong_number,
    _other_reason,
    _other_splice,
    _other_call,
    _other_result,
    _other_answer,
    _other_header,
)
