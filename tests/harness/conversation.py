"""A conversation with one agent, watched: every durable record and live event in the order in which it happens.

Records read `S turn/start 1`, events `E agent/status running`, what a test marks itself `-- sent`.

A test acts inside one exact window. `at` is the window of a line of the trace, `during` and `hold` that of an awaited
event, `hold_point` an await point of the driver that no listener can reach, `refuse` vetoes a record. Each of them
is good for one time.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from loopharness.agent import Agent, AgentOptions, user_message
from loopharness.frozen import FrozenDict
from loopharness.gate import Gate
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import Response, ScriptedAdapter, text
from loopharness.model.service import AdapterHandle
from loopharness.tools.execution import Execution
from loopharness.tools.registry import define_tool
from loopspec.kernel.machine import Answer
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


def stalled(gate: Gate, words: str = "Half an answer.") -> Response:
    """An answer that stops at a gate behind its first piece of text."""
    start, delta, *rest = text(words)
    return [start, delta, gate, *rest]


class Veto(Exception):
    """What a refused append raises."""


class Conversation:
    """One agent, its model's script, and the trace so far."""

    def __init__(self, harness: Harness, adapter: ScriptedAdapter) -> None:
        self.harness = harness
        self.adapter = adapter
        self.route: AdapterHandle = harness.llm.register_adapter(["mock"], adapter)
        self.agent: Agent
        self.gate = Gate()
        """Where the first turn of a `busy` conversation stands, in mid-stream."""
        self.trace: list[str] = []
        self._reactions: list[tuple[str, tuple[Callable[[], object], ...]]] = []
        harness.context.on("session/event", self._record)
        for name in LIVE_EVENTS:
            harness.context.on(name, lambda payload, name=name: self._event(name, payload))

    def at(self, line: str, *acts: Callable[[], object]) -> None:
        """Do something inside the window of the next trace line that begins with `line`."""
        self._reactions.append((line, acts))

    def during(self, name: str, *acts: Callable[[], object], answer: Any = None) -> None:
        """Do something inside the next dispatch of an awaited event, then answer `answer`, or let the others answer.

        An exception as the answer is raised.
        """

        def listener(*arguments: Any) -> Any:
            remove()
            for act in acts:
                act()
            return _answered(answer, arguments)

        remove = self.harness.on(name, listener)

    def hold(self, name: str, answer: Any = None) -> Gate:
        """Hold the next dispatch of an awaited event; then answer as `during` does."""
        gate = Gate()

        async def listener(*arguments: Any) -> Any:
            remove()
            await gate.enter()
            said = _answered(answer, arguments)
            return await said if inspect.isawaitable(said) else said

        remove = self.harness.on(name, listener)
        return gate

    def hold_point(self, point: str) -> Gate:
        """Hold the driver at its next await point of this name, before anything runs for it."""
        gate, hooks = Gate(), self.agent._hooks
        hook = hooks[point]

        async def held(*arguments: Any) -> Answer:
            hooks[point] = hook
            await gate.enter()
            return await hook(*arguments)

        hooks[point] = held
        return gate

    def refuse(self, line: str) -> None:
        """Veto the next record whose trace line begins with `line`."""

        def listener(mode: str, name: str, arguments: Any, key: object) -> None:
            if name == "session/event" and record_line(arguments[1]).startswith(line):
                remove()
                raise Veto(line)

        remove = self.harness.on("internal/dispatch", listener)

    def tool(self, name: str, body: Callable[[Execution], Any] | None = None, **more: Any) -> Callable[[], None]:
        """Register a tool; its body gets the execution and may be synchronous."""

        async def run(arguments: Any, execution: Execution) -> Any:
            answer = None if body is None else body(execution)
            answer = await answer if inspect.isawaitable(answer) else answer
            return answer if isinstance(answer, str) else "fine"

        made = define_tool(name, f"The tool {name}.", {"type": "object"}, run, **more)
        return self.harness.tools.register(made, self.harness.context)

    def mark(self, text: str) -> None:
        """Note where the test itself is."""
        self.trace.append(f"-- {text}")

    def _record(self, session: object, event: FrozenDict) -> None:
        self._line(record_line(event))

    def _event(self, name: str, payload: Mapping[str, Any]) -> None:
        self._line(f"E {name}{event_detail(name, payload)}")

    def _line(self, line: str) -> None:
        self.trace.append(line)
        for reaction in list(self._reactions):
            # a reaction before it may have caused such a line itself, which this one has answered
            if line.startswith(reaction[0]) and reaction in self._reactions:
                self._reactions.remove(reaction)
                for act in reaction[1]:
                    act()

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

    def statuses(self) -> list[str]:
        """The changes of status so far."""
        return [line.removeprefix("E agent/status ") for line in self.trace if line.startswith("E agent/status")]

    def count(self, line: str) -> int:
        """How many lines of the trace begin with `line`."""
        return sum(entry.startswith(line) for entry in self.trace)

    def since(self, line: str) -> list[str]:
        """The trace behind the first line that begins with `line`."""
        return self.trace[next(i for i, entry in enumerate(self.trace) if entry.startswith(line)) + 1 :]

    def asked(self, request: int) -> list[str]:
        """What the model was told in one request (0 is the first): the texts of its messages, calls and results."""
        return [_told(message) for message in self.adapter.requests[request]["messages"]]

    async def seen(self, line: str) -> None:
        """Wait until the trace has a line that begins with `line`."""
        if not self.count(line):
            happened = anyio.Event()
            self.at(line, happened.set)
            await happened.wait()

    async def idle(self) -> None:
        """Wait until the agent is idle."""
        await self.agent.when_idle()

    async def release(self) -> None:
        """Let the held stream of a `busy` conversation go on, and wait until the agent is idle."""
        self.gate.open()
        await self.idle()

    def pending(self) -> tuple[list[str], list[str]]:
        """The ids that wait: next-step, next-turn."""
        inbox = self.agent.inbox
        return [m["id"] for m in inbox.next_step], [m["id"] for m in inbox.next_turn]


def _answered(answer: Any, arguments: tuple[Any, ...]) -> Any:
    if isinstance(answer, Exception):
        raise answer
    if answer is not None:
        return answer
    return arguments[-1]() if callable(arguments[-1]) else None


def _told(message: Mapping[str, Any]) -> str:
    return " ".join(str(block.get("text", block.get("name", block["type"]))) for block in message["content"])


def record_line(event: FrozenDict) -> str:
    """The trace line of a record."""
    return f"S {event['type']}{record_detail(event)}"


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
    header: Mapping[str, Any] | None = None,
    events: tuple[FrozenDict, ...] = (),
    **options: Any,
) -> AsyncIterator[Conversation]:
    """A harness with one agent `main` on a scripted model; the agent's prompt is empty and it has no tools.

    `header` and `events` are those of a session that is taken up again.
    """
    async with open_harness(profile, session_format, now=lambda: 1000) as harness:
        adapter = ScriptedAdapter([*script], always=always, **options)
        talk = Conversation(harness, adapter)
        model = AgentOptions(provider="mock", model="m1")
        talk.agent = await harness.create_agent("main", model, header=header, events=events)
        yield talk
        assert not adapter.misses


@asynccontextmanager
async def busy(*script: Response, always: Response | None = None, **more: Any) -> AsyncIterator[Conversation]:
    """A conversation whose first turn, with prompt `a`, stands in mid-stream at `talk.gate`. Its trace begins here."""
    gate = Gate()
    async with conversation(stalled(gate), *script, always=always or text("Fine."), **more) as talk:
        talk.gate = gate
        talk.followup("a")
        await gate.reached()
        talk.trace.clear()
        yield talk
