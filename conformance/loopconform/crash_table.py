"""The crash table, `docs/CRASH.md`: what a process that dies at a given moment leaves for its successor.

One conversation is played on a disk in memory. At every record, and when a request goes out, a body begins and a body
ends, the disk is copied as a killed process would leave it; each copy is resumed by a fresh harness, and what comes out
is the table. Nothing in it is written by hand. `python -m loopconform.crash_table` writes it; a test compares.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel

from loopconform.crash_cuts import table
from loopharness.agent import AgentOptions
from loopharness.gate import Gate
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import Response, ScriptedAdapter, text, tool_calls
from loopharness.session import Session
from loopharness.store.errors import SessionPersistenceNotFoundError
from loopharness.store.layout import Compression, Layout
from loopharness.store.memory import MemoryFiles
from loopharness.store.opening import Opener
from loopharness.store.service import SessionPersistence
from loopharness.tools.registry import define_tool

__all__ = ["Moment", "Outcome", "document", "moments", "outcome"]

ROOT = Path("/sessions")
MODEL = AgentOptions(provider="mock", model="m1")
CALLS = ("a", "b", "c")
WORDS = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
UNKNOWN, NOT_STARTED = "TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"

INTRODUCTION = """# What a crash leaves

Written by `python -m loopconform.crash_table`; every row was played, killed and resumed.

One turn: a message is sent; the model asks for the calls a and b, which may run in parallel, and c, which runs alone.
The body of b ends while that of a still works; then a ends, then c runs, then the model answers. A process that dies
behind the moment in the first column is succeeded by a fresh one that resumes the session from its file.

- *typed message*: `history` (the model has it), `inbox` (it waits, and runs at the next waking message), `lost`.
- *call a, b, c*: what the body had done, then what the resumed history says. `unknown` is the result
  TOOL_OUTCOME_UNKNOWN, `not started` is TOOL_NOT_STARTED, `result` is the body's own result, `-` means that the
  history does not mention the call.
- *records lost*: events that the dead process had in memory and its successor has not.
- *twice?* May an effect happen twice? The harness itself never runs a body again. `told` means that the model knows
  that the outcome of a call whose body had begun is unknown; `YES` means that nothing tells it, so it may well ask
  again.

**A typed message is safe from the first request on.** Until the first barrier it is in memory only, and behind it the
message has been claimed: it is no longer in the inbox and not yet in history, and a crash there loses it.

**Finished is not yet committed.** Results are stored in the order of the calls. A body that has ended waits for the
slower ones in front of it, and a crash in that time makes its outcome `unknown` although it was done: the rows marked
with *finished → unknown*. Do not read TOOL_OUTCOME_UNKNOWN as "did not finish".

A machine that loses its power leaves the same: nothing counts as stored before it is synced. Deaths in the middle of a
write, at every operation of the disk and at every byte of the file, are played by `tests/store/test_crash.py`.
"""

WITH = """
## Format {version}, with the checkpoint policy (the default)

Durable before each step, each request and each tool body.
"""

WITHOUT = """
## Format {version}, without it

Worst case: no window of the write-behind ends during the turn, and nobody flushes.
"""


class Moment(NamedTuple):
    """One place to die: what has just happened, the disk, how many events there are, what the bodies have done."""

    name: str
    disk: MemoryFiles
    events: int
    bodies: Mapping[str, str]


class Outcome(NamedTuple):
    """What a successor finds. `calls`: what the history says of each call."""

    typed: str
    calls: tuple[str, ...]
    kept: int
    turn: str


class _Row(NamedTuple):
    names: tuple[str, ...]
    lost: tuple[int, int]
    outcome: Outcome
    bodies: tuple[str, ...]


async def _never(seconds: float) -> None:
    await anyio.sleep_forever()


class _Played:
    """One run of the conversation, dying nowhere."""

    def __init__(self, version: int, checkpoints: bool) -> None:
        self.version = version
        self.checkpoints = checkpoints
        self.files = MemoryFiles()
        self.moments: list[Moment] = []
        self.bodies = dict.fromkeys(CALLS, "not begun")
        self.gates = {name: Gate() for name in CALLS}
        self.session: Session | None = None

    def note(self, name: str) -> None:
        events = 0 if self.session is None else len(self.session.events)
        self.moments.append(Moment(name, self.files.reborn(), events, dict(self.bodies)))

    async def body(self, arguments: dict[str, Any]) -> str:
        name = arguments["what"]
        self.bodies[name] = "running"
        self.note(f"body of {name} has begun")
        await self.gates[name].enter()
        self.bodies[name] = "finished"
        self.note(f"body of {name} has ended")
        return f"found {name}"

    def record(self, session: Session, event: Mapping[str, Any]) -> None:
        self.session = session
        self.note(_record_name(event))

    async def run(self) -> list[Moment]:
        asked = [(f"c{name}", "alone" if name == "c" else "look", {"what": name}) for name in CALLS]
        sent: Response = [lambda: self.note("the first request is out"), *tool_calls(*asked)]
        answer: Response = [lambda: self.note("the second request is out"), *text("All ", "three ", "done.")]
        counter = itertools.count(1)
        persistence = SessionPersistence(ROOT, files=self.files, timer=_never)
        async with open_harness(
            session_format=self.version,
            now=lambda: 1000,
            new_id=lambda: f"id-{next(counter)}",
            persistence=persistence,
            checkpoints=self.checkpoints,
        ) as harness:
            _furnish(harness, ScriptedAdapter([sent, answer]), self.body)
            harness.on("session/event", self.record)
            agent = await harness.create_agent("main", MODEL, cwd="/workspace")
            agent.followup("Do all three.")
            await self.gates["a"].reached()
            self.gates["b"].open()
            while self.bodies["b"] != "finished":
                await anyio.lowlevel.checkpoint()
            self.gates["a"].open()
            self.gates["c"].open()
            await agent.when_idle()
            self.note("the agent is idle")
            count = len(agent.session.events)
            await harness.sessions.flush(agent.session)
            self.note("the next flush is over")
            return [moment for moment in self.moments if moment.events <= count]


def _furnish(harness: Harness, adapter: ScriptedAdapter, body: Any) -> None:
    harness.llm.register_adapter(["mock"], adapter)
    harness.tools.register(define_tool("look", "Looks.", WORDS, body, concurrent=True), harness.context)
    harness.tools.register(define_tool("alone", "Works alone.", WORDS, body), harness.context)


def _record_name(event: Mapping[str, Any]) -> str:
    data = event["data"]
    match event["type"]:
        case "agent/inbox/spliced":
            return "message accepted" if data["inserted"] else "message claimed"
        case "tool/call":
            return f"tool/call {data['callId'][1:]}"
        case "tool/result":
            return f"tool/result {data['message']['source']['callId'][1:]}"
        case "assistant/chunk":
            return "chunks arrive"
    return str(event["type"])


def moments(version: int, checkpoints: bool = True) -> list[Moment]:
    """Every place to die, in order."""
    return anyio.run(_Played(version, checkpoints).run)


def outcome(moment: Moment, version: int) -> Outcome:
    """What a fresh harness finds after that death."""
    return anyio.run(_outcome, moment.disk.reborn(), version)


async def _outcome(disk: MemoryFiles, version: int) -> Outcome:
    async def body(arguments: dict[str, Any]) -> str:
        raise AssertionError("a resume has run a body")

    persistence = SessionPersistence(ROOT, files=disk, timer=_never)
    async with open_harness(session_format=version, now=lambda: 2000, persistence=persistence) as harness:
        _furnish(harness, ScriptedAdapter([]), body)
        try:
            before = await persistence.inspect("main")
            agent = await harness.resume_agent("main", MODEL)
        except SessionPersistenceNotFoundError:
            return Outcome("lost", ("-",) * len(CALLS), 0, "no session")
        assert (await persistence.inspect("main")).closers == 0, "what is handed out is durable"
        events = agent.session.events
        ends = [event["data"]["reason"]["kind"] for event in events if event["type"] == "turn/end"]
        waiting = agent.inbox.next_turn + agent.inbox.next_step
        entered = any(message["source"]["kind"] == "user" for message in agent.session.messages)
        typed = "history" if entered else "inbox" if waiting else "lost"
        kept = len(before.events) - before.closers
        return Outcome(typed, tuple(_call_outcome(events, name) for name in CALLS), kept, ends[-1] if ends else "none")


def _call_outcome(events: Any, name: str) -> str:
    for event in events:
        if event["type"] == "tool/result" and event["data"]["message"]["source"]["callId"] == f"c{name}":
            code = event["data"].get("error", {}).get("code")
            return {UNKNOWN: "unknown", NOT_STARTED: "not started"}.get(code, "result")
    return "-"


def twice(bodies: Mapping[str, str] | tuple[str, ...], calls: tuple[str, ...]) -> str:
    """May the effect of a body happen twice? `bodies` and `calls` in the order of `CALLS`."""
    done = bodies if isinstance(bodies, tuple) else tuple(bodies[name] for name in CALLS)
    begun = [said for did, said in zip(done, calls, strict=True) if did != "not begun"]
    if any(said in ("-", "not started") for said in begun):
        return "**YES**"
    return "told" if "unknown" in begun else "no"


def _rows(version: int, checkpoints: bool) -> list[_Row]:
    found: list[_Row] = []
    for moment in moments(version, checkpoints):
        after = outcome(moment, version)
        lost = moment.events - after.kept
        bodies = tuple(moment.bodies[name] for name in CALLS)
        last = found[-1] if found else None
        if last is not None and last.outcome == after and last.bodies == bodies:
            names = last.names if last.names[-1] == moment.name else (*last.names, moment.name)
            low, high = last.lost
            found[-1] = _Row(names, (min(low, lost), max(high, lost)), after, bodies)
        else:
            found.append(_Row((moment.name,), (lost, lost), after, bodies))
    return found


def _table(version: int, checkpoints: bool) -> str:
    lines = [
        "| behind | typed message | call a | call b | call c | records lost | turn ends as | twice? |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in _rows(version, checkpoints):
        first, last = row.names[0], row.names[-1]
        where = first if first == last else f"{first} … {last}"
        low, high = row.lost
        cells = [f"{did} → {said}" for did, said in zip(row.bodies, row.outcome.calls, strict=True)]
        count = str(low) if low == high else f"{low} to {high}"
        answer = twice(row.bodies, row.outcome.calls)
        lines.append(
            f"| {where} | {row.outcome.typed} | {' | '.join(cells)} | {count} | {row.outcome.turn} | {answer} |"
        )
    return "\n".join(lines) + "\n"


CUTS = """
## Format {version}, the file cut at every byte: {container}
"""


def _cut(version: int, compression: Compression) -> str:
    """The file of the conversation in the batches in which its barriers wrote it."""
    disks = {b"".join(map(moment.disk.content, moment.disk.paths())): moment.disk for moment in moments(version)}
    seen = [Opener(Layout(ROOT, disk), disk).view("main") for disk in disks.values() if disk.paths()]
    ends = [len(view.events) - view.closers for view in seen]
    return table(seen[-1].header, list(seen[-1].events), ends, compression)


def document() -> str:
    """The whole of `docs/CRASH.md`."""
    parts = [INTRODUCTION]
    for version in (4, 0):
        parts += [WITH.format(version=version), "\n", _table(version, True)]
    parts += [WITHOUT.format(version=4), "\n", _table(4, False)]
    for version in (4, 0):
        parts += [CUTS.format(version=version, container="zstd frames, the default"), _cut(version, "zstd")]
    parts += [CUTS.format(version=4, container="plain rows"), _cut(4, "none")]
    return "".join(parts)


def main(path: Path = Path("docs/CRASH.md")) -> None:
    """Write the document."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
