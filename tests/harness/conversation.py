"""A conversation with one agent, watched: every durable record and live event in the order in which it happens.

Records read `S turn/start 1`, events `E agent/status running`, what a test marks itself `-- sent`. Listeners can be
given to single lines of the trace (`at`), so that a test can act inside exactly that window.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from loopharness.agent import Agent, AgentOptions, user_message
from loopharness.frozen import FrozenDict
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import Response, ScriptedAdapter
from loopspec.profile import Profile

LIVE_EVENTS = (
    "agent/status",
    "agent/inbox/inserted",
    "agent/inbox/discarded",
    "agent/inbox/claimed",
    "agent/error",
)

USER = {"kind": "user"}


def message(id: str) -> dict[str, Any]:
    """A user message whose id and text are the same short word."""
    return {**user_message(id), "id": id}


class Conversation:
    """One agent, its model's script, and the trace so far."""

    def __init__(self, harness: Harness, adapter: ScriptedAdapter) -> None:
        self.harness = harness
        self.adapter = adapter
        self.agent: Agent
        self.trace: list[str] = []
        self._reactions: list[tuple[str, Callable[[], object]]] = []
        harness.context.on("session/event", self._record)
        for name in LIVE_EVENTS:
            harness.context.on(name, lambda payload, name=name: self._event(name, payload))

    def at(self, line: str, act: Callable[[], object]) -> None:
        """Run `act` once, inside the window of the next trace line that begins with `line`."""
        self._reactions.append((line, act))

    def mark(self, text: str) -> None:
        """Note where the test itself is."""
        self.trace.append(f"-- {text}")

    def _record(self, session: object, event: FrozenDict) -> None:
        self._line(f"S {event['type']}{record_detail(event)}")

    def _event(self, name: str, payload: Mapping[str, Any]) -> None:
        self._line(f"E {name}{event_detail(name, payload)}")

    def _line(self, line: str) -> None:
        self.trace.append(line)
        for reaction in list(self._reactions):
            if line.startswith(reaction[0]):
                self._reactions.remove(reaction)
                reaction[1]()

    def followup(self, id: str) -> None:
        """Send a message that wakes the agent for a turn of its own."""
        self.agent.followup(message(id))

    def steer(self, id: str) -> None:
        """Send a message for the next step, waking the agent."""
        self.agent.steer(message(id))

    def inject(self, id: str) -> None:
        """Send a message for the next step, waking nobody."""
        self.agent.inject(message(id))

    def records(self, *types: str) -> list[FrozenDict]:
        """The data of all records of these types."""
        return [event["data"] for event in self.agent.session.events if event["type"] in types]

    def batches(self) -> list[tuple[int, int, list[str]]]:
        """What entered history, step by step: turn, step, message ids."""
        found: list[tuple[int, int, list[str]]] = []
        for event in self.agent.session.events:
            data = event["data"]
            if event["type"] == "step/start":
                found.append((data["turn"], data["step"], []))
            elif event["type"] == "user/message":
                found[-1][2].append(data["id"])
        return found

    def ends(self) -> list[str]:
        """How each turn ended: the reason's kind, with the cause of an abort behind it."""
        reasons = [data["reason"] for data in self.records("turn/end")]
        return [r["kind"] + (f" {r['reason']['kind']}" if r["kind"] == "aborted" else "") for r in reasons]

    def pending(self) -> tuple[list[str], list[str]]:
        """The ids that wait: next-step, next-turn."""
        inbox = self.agent.inbox
        return [m["id"] for m in inbox.next_step], [m["id"] for m in inbox.next_turn]


def record_detail(event: FrozenDict) -> str:
    """The part of a record that a trace line shows."""
    data = event["data"]
    match event["type"]:
        case "agent/inbox/spliced":
            inserted = "".join(f" +{m['id']}" for m in data["inserted"])
            removed = f" -{data['removedCount']}" if "removedCount" in data else ""
            outcome = " canceled" if "outcome" in data else ""
            return f" {data['target']} {data['start']}{removed}{inserted}{outcome}"
        case "turn/start":
            return f" {data['turn']}"
        case "turn/end":
            reason = data["reason"]
            return f" {data['turn']} {reason['kind']}" + (
                f" {reason['reason']['kind']}" if reason["kind"] == "aborted" else ""
            )
        case "step/start" | "step/end":
            return f" {data['turn']}.{data['step']}"
        case "user/message":
            return f" {data['id']}"
        case "request/header":
            return f" {data['reason']}"
        case "assistant/chunk":
            return f" {data['chunk']['type']}"
        case "assistant/message":
            text = " interrupted" if "interrupted" in data else ""
            return text + f" {list(event['sourceEventSeqs'])}" if "sourceEventSeqs" in event else text
        case "tool/call":
            return f" {data['callId']}"
        case "tool/result":
            return f" {data['message']['source']['callId']} {data.get('error', {}).get('code', '')}".rstrip()
    return ""


def event_detail(name: str, payload: Mapping[str, Any]) -> str:
    """The part of a live event that a trace line shows."""
    match name:
        case "agent/status":
            return f" {payload['status']}"
        case "agent/inbox/claimed":
            return f" {payload['message']['id']},{payload['turn']}"
        case "agent/error":
            return f" {payload['turn']}.{payload['step']}"
    return f" {payload['message']['id']}"


@asynccontextmanager
async def conversation(
    *script: Response,
    always: Response | None = None,
    profile: Profile = "seed",
    session_format: int = 0,
    **options: Any,
) -> AsyncIterator[Conversation]:
    """A harness with one agent `main` on a scripted model; the agent's prompt is empty and it has no tools."""
    async with open_harness(profile, session_format, now=lambda: 1000) as harness:
        adapter = ScriptedAdapter([*script], always=always, **options)
        harness.llm.register_adapter(["mock"], adapter)
        talk = Conversation(harness, adapter)
        talk.agent = await harness.create_agent("main", AgentOptions(provider="mock", model="m1"))
        yield talk
