"""Plays a path of the machine's graph on the live harness, and watches that the harness does exactly that.

A path is the list of labels of an exploration (`loopspec.worlds.world`): calls, answers, and what the machine does.
The puppeteer makes the calls in exactly the window where the path has them, and gives the answers through the
real extension points: an assembly listener, a pre-step listener, a model adapter, a job. Everything else on the
path is an expectation: a record in the session, an event on the bus, a refusal, a return value, an await point.

Only three await points have no public extension point and are answered by a hook of the test: the scheduler ticks
`gap` and `tick`, and `tools`, which stands for a whole batch here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from typing import Any

import anyio
from tests.harness.conversation import message

from loopharness.agent import Agent, AgentOptions
from loopharness.frozen import FrozenDict
from loopharness.harness import Harness, open_harness
from loopharness.model import chunks
from loopharness.model.failure import failure_facts
from loopspec.kernel.machine import Answer, Effect
from loopspec.kernel.system import Label
from loopspec.profile import Profile

Line = tuple[Any, ...]
"""One label of a path: `(verb, name, …)`."""

CALLS = (("call",), ("wait",))
"""Verbs of an operation that is called: it begins at once, or waits until the log is free."""

SILENT = ("note", "begin")
"""Verbs of the path that nobody outside can see."""

CALL = {"type": "tool-call", "id": "c", "name": "t", "arguments": ""}

EVENTS = ("agent/status", "agent/inbox/inserted", "agent/inbox/discarded", "agent/inbox/claimed", "agent/error")


class Mismatch(AssertionError):
    """The harness did something else than the path says."""


class Planned(Exception):
    """What a listener raises because the path says `throws`."""


class Over(Exception):
    """The path is over, wherever the agent stands: nobody waits for it."""


class Veto(Exception):
    """What refuses an append because the path says `refuse`."""


def number(id: str) -> int:
    """Message ids are `m1`, `m2`, …"""
    return int(id[1:])


def lines(path: Iterable[Label]) -> list[Line]:
    """The labels of a path as plain tuples."""
    return [label if isinstance(label, tuple) else (label,) for label in path]


def is_playable(path: Iterable[Label]) -> bool:
    """False for paths whose answers no real stream or log could give.

    A failure, a cut at max-tokens and a tool call are chunks themselves, so they need a published chunk; and a
    context record that was refused is due again, which the environment of the exploration does not remember.
    """
    started = False
    for label in lines(path):
        if label[:2] == ("park", "chunk"):
            started = bool(label[2])
        if label[0] == "answer" and label[1][0] == "chunk" and label[2][0] == "end":
            finish, calls = label[2][1], label[2][2]
            if not started and (finish != "stop" or calls):
                return False
        if label[:2] == ("refuse", "request/context"):
            return False
    return True


class Puppet:
    """One path being played on one agent."""

    def __init__(self, path: Iterable[Label], session_format: int) -> None:
        self.path = [label for label in lines(path) if label[0] not in SILENT]
        self.at = 0
        self.embedded = session_format == 4
        self.fired: set[str] = set()
        self.agent: Agent
        self.failure: BaseException | None = None
        self._answers: dict[str, anyio.Event] = {}
        self._given: dict[str, Answer] = {}
        self._arrived: dict[str, anyio.Event] = {}
        self._signal: object = None

    # -- the path

    def peek(self) -> Line:
        """The next label, or an empty one at the end."""
        return self.path[self.at] if self.at < len(self.path) else ()

    def see(self, *label: Any) -> None:
        """Something happened: it must be what the path says."""
        if self.at >= len(self.path):
            return  # the path ends here; what the harness does afterwards nobody has predicted
        expected = self.path[self.at]
        if expected != label:
            self.failure = self.failure or self.mismatch(f"the harness did {label}")
            self.at = len(self.path)
            return
        self.fired.add(str(label[0:2]))
        self.at += 1

    def mismatch(self, what: str) -> Mismatch:
        """The path so far, what it says next, and what happened instead."""
        before = "\n".join(map(str, self.path[max(0, self.at - 12) : self.at]))
        return Mismatch(f"at {self.at}:\n{before}\nthe path says {self.peek()}, {what}")

    def act(self) -> None:
        """In a window: make the calls that the path has here."""
        self._watch_signal()
        while self.peek()[:1] in CALLS:
            self.call()

    def call(self) -> None:
        """Make one call; its refusal is part of the path, so it stays here."""
        label = self.peek()
        self.at += 1
        _, name, *arguments = label
        agent = self.agent
        try:
            if name == "send":
                agent.send(message(f"m{arguments[0]}"), arguments[1], arguments[2])
            elif name == "cancel":
                agent.cancel({"kind": arguments[0]}, keep_inbox=arguments[1])
            elif name == "maintain":
                agent.run_maintenance(self._job)
            elif name == "remove":
                agent.inbox.remove(f"m{arguments[0]}")
            elif name == "replace":
                agent.inbox.replace(f"m{arguments[0]}", message(f"m{arguments[1]}"))
            elif name == "clear_inbox":
                agent.inbox.clear()
            else:
                target, start, delete_count, inserted = arguments
                agent.inbox.splice(target, start, delete_count, [message(f"m{n}") for n in inserted])
        except (ValueError, RuntimeError, Veto):
            pass

    # -- what can be seen

    def on_record(self, session: object, event: FrozenDict) -> None:
        """A record was appended: its observers run now."""
        self.see("append", *effect_of(event))
        self.act()

    def on_event(self, name: str, payload: Mapping[str, Any]) -> None:
        """A live event: its listeners run now."""
        if name == "agent/status":
            detail: tuple[Any, ...] = (payload["status"],)
        elif name == "agent/inbox/claimed":
            detail = (number(payload["message"]["id"]), payload["turn"])
        elif name == "agent/error":
            detail = (payload["turn"], payload["step"])
        elif name == "agent/assistant-stream":
            detail = (payload["frame"]["type"],)
        else:
            detail = (number(payload["message"]["id"]),)
        self._watch_signal()
        self.see("notify", name, *detail)
        self.act()

    def on_dispatch(self, mode: str, name: str, arguments: Any, key: object) -> None:
        """Before a record is published: refuse it if the path says so."""
        if name == "session/event" and self.peek()[:2] == ("refuse", arguments[1]["type"]):
            raise Veto

    def _watch_signal(self) -> None:
        signal = self.agent.signal
        if signal is not self._signal:
            self._signal = signal
            signal.on_abort(self._on_abort)

    def _on_abort(self, reason: Any) -> None:
        self.see("notify", "abort", reason["kind"])
        self.act()

    def _job(self, signal: object) -> Awaitable[Any]:
        self._watch_signal()
        self.see("notify", "job")
        self.act()
        return self.gate(("maintenance",))

    # -- await points

    async def gate(self, point: Effect) -> Answer:
        """Stand at an await point until the path answers it."""
        name = point[0]
        self._watch_signal()
        self._arrived.setdefault(name, anyio.Event()).set()
        await self._answers.setdefault(name, anyio.Event()).wait()
        del self._answers[name], self._arrived[name]
        return self._given.pop(name)

    async def passed(self, point: Effect) -> Answer:
        """The same, where `throws` is an exception of the listener."""
        answer = await self.gate(point)
        if answer[0] == "throws":
            raise Planned
        return answer

    async def assembly(self, assembly: Any, context: Any, proceed: Any) -> Any:
        await self.passed(("assembly",))
        return await proceed()

    async def pre_step(self, payload: Any, proceed: Any) -> Any:
        answer = await self.passed(("pre-step",))
        if answer[0] == "reject":
            return {"kind": "reject"}
        return {"kind": "enter", "messages": [m for m in payload["messages"] if number(m["id"]) in answer[1]]}

    async def request(self, payload: Any, proceed: Any) -> Any:
        await self.passed(("request",))
        config = await proceed()
        for label in self.path[self.at :]:
            if label[:2] == ("answer", ("prepare",)):
                changed = label[2][0] == "prepared" and label[2][1]
                return {**config, "model": config["model"] + "+"} if changed else config
        return config

    async def recovery(self, payload: Any, proceed: Any) -> Any:
        answer = await self.passed(("recovery",))
        return {"kind": "retry"} if answer[0] == "retry" else None

    async def stopping(self, payload: Any) -> None:
        await self.passed(("turn-stopping",))

    async def hook(self, *point: Any) -> Answer:
        return await self.passed(point)

    # -- playing

    async def play(self, profile: Profile, session_format: int) -> None:
        """Play the whole path. Raises `Mismatch` where the harness leaves it."""
        try:
            async with open_harness(profile, session_format, now=lambda: 0) as harness:
                await self._perform(harness)
                raise Over
        except Over:
            pass

    async def _perform(self, harness: Harness) -> None:
        context = harness.context
        harness.llm.register_adapter(["mock"], PuppetAdapter(self))
        self.agent = agent = await harness.create_agent("main", AgentOptions(provider="mock", model="m1"))
        context.on("session/event", self.on_record)
        context.on("internal/dispatch", self.on_dispatch)
        for name in (*EVENTS, "agent/assistant-stream"):
            context.on(name, lambda payload, name=name: self.on_event(name, payload))
        context.on("system-prompt/assemble", self.assembly)
        context.on("agent/pre-step", self.pre_step)
        context.on("agent/request", self.request)
        # A listener serves the stream: what it raises stays an exception, unlike an adapter's (M-431).
        context.on("llm/stream", lambda request, proceed: PuppetStream(self))
        context.on("agent/request-error", self.recovery)
        context.on("agent/turn-stopping", self.stopping)
        for name in ("tools", "gap", "tick"):
            agent._hooks[name] = lambda *arguments, name=name: self.hook(name, *arguments)
        self._tap(agent)
        with anyio.fail_after(20):
            await self._run()

    def _tap(self, agent: Agent) -> None:
        """See the effects that have no public trace of their own: await points, refusals, returns, fresh signals."""
        park, refused, left, note = agent.park, agent.refused, agent.left, agent.note

        def on_note(change: Effect) -> None:
            note(change)
            self._watch_signal()

        def on_park(point: Effect) -> None:
            self.see("park", *self._point(point))
            park(point)

        def on_refused(record: Effect, error: Exception | None) -> None:
            self.see("refuse", *self._renumbered(record))
            refused(record, error)

        def on_left(end: Effect, heard: bool) -> None:
            self.see("leave", *self._renumbered_end(end))
            left(end, heard)

        agent.park, agent.refused, agent.left = on_park, on_refused, on_left  # type: ignore[method-assign]
        agent.note = on_note  # type: ignore[method-assign]

    def _point(self, point: Effect) -> Effect:
        if point[0] == "pre-step":
            return ("pre-step", tuple(number(self.agent.messages.of(n)["id"]) for n in point[1]))
        return point

    def _renumbered(self, record: Effect) -> Effect:
        """A refused record with the path's message numbers instead of the harness's own."""
        messages = self.agent.messages
        if record[0] == "agent/inbox/spliced":
            inserted = tuple(number(messages.of(n)["id"]) for n in record[4])
            return (*record[:4], inserted, record[5])
        if record[0] == "user/message":
            return (record[0], number(messages.of(record[1])["id"]))
        return record

    def _renumbered_end(self, end: Effect) -> Effect:
        """Removed messages are checked by their number: the payloads are dropped by now."""
        if end[0] == "return" and isinstance(end[1], tuple):
            expected = self.peek()
            return expected[1:] if len(expected) == 3 and len(expected[2]) == len(end[1]) else end
        return end

    async def _run(self) -> None:
        while self.at < len(self.path) and self.failure is None:
            label = self.peek()
            if label[:1] in CALLS:
                self.call()
            elif label[0] == "answer":
                point, answer = label[1], label[2]
                name = point[0]
                await self._arrived.setdefault(name, anyio.Event()).wait()
                self.at += 1
                self._given[name] = answer
                progress = self.at
                self._answers[name].set()
                while self.at == progress and self.at < len(self.path) and self.failure is None:
                    await anyio.lowlevel.checkpoint()
            else:
                raise self.mismatch("the harness did nothing")
        if self.failure is not None:
            raise self.failure


class PuppetAdapter:
    """A model whose facts and chunks come from the path."""

    def __init__(self, puppet: Puppet) -> None:
        self.puppet = puppet

    async def resolve_model(self, provider: str, model: str, signal: object) -> Mapping[str, Any]:
        await self.puppet.passed(("prepare",))
        return {"id": model, "name": model}

    def stream(self, request: object) -> AsyncIterator[FrozenDict]:
        raise AssertionError("the puppeteer's listener serves every stream")


class PuppetStream:
    """One stream: a chunk when the path publishes one, of the kind that its end needs."""

    def __init__(self, puppet: Puppet) -> None:
        self.puppet = puppet

    def __aiter__(self) -> PuppetStream:
        return self

    async def __anext__(self) -> FrozenDict:
        answer = await self.puppet.gate(("chunk",))
        if answer[0] == "chunk":
            return self._chunk()
        if answer[0] == "throws":
            raise Planned
        raise StopAsyncIteration

    def _chunk(self) -> FrozenDict:
        """Look ahead to the end of this attempt: what must this chunk have been?"""
        puppet = self.puppet
        text = chunks.block_end(0, {"type": "text", "text": "visible"})
        rest = puppet.path[puppet.at :]
        for index, label in enumerate(rest):
            if label[:2] == ("append", "assistant/message") and label[2] == "interrupted":
                return text
            if label[0] != "answer" or (label[1][0] == "chunk" and label[2][0] == "chunk"):
                continue
            if label[1][0] == "close":
                return text if label[2][1] else chunks.block_start(0, "text")
            if label[1][0] != "chunk":
                break
            if label[2][0] == "end":
                following = next((seen for seen in rest[index + 1 :] if seen[0] in ("append", "refuse", "park")), ())
                if following[1:3] == ("assistant/message", "interrupted"):
                    return text
                _, finish, calls, _ = label[2]
                if finish == "failure":
                    return chunks.finish("error", failure=failure_facts("planned", "SERVER"))
                if finish == "max-tokens":
                    return chunks.finish("max-tokens")
                return (
                    chunks.block_end(0, {"type": "tool-call", "id": "c", "name": "t", "arguments": ""})
                    if calls
                    else text
                )
            return text if label[2][1] else chunks.block_start(0, "text")
        return text

    async def aclose(self) -> None:
        await self.puppet.gate(("close",))


def effect_of(event: FrozenDict) -> Effect:
    """The effect that a durable record stands for, with the path's message numbers."""
    kind, data = event["type"], event["data"]
    match kind:
        case "agent/inbox/spliced":
            inserted = tuple(number(m["id"]) for m in data["inserted"])
            return (kind, data["target"], data["start"], data.get("removedCount", 0), inserted, data.get("outcome", ""))
        case "turn/start":
            return (kind, data["turn"])
        case "turn/end":
            reason = data["reason"]
            cause = (reason["reason"]["kind"],) if reason["kind"] == "aborted" else ()
            return (kind, data["turn"], reason["kind"], *cause)
        case "step/start" | "step/end":
            return (kind, data["turn"], data["step"])
        case "user/message":
            return (kind, number(data["id"]))
        case "request/header":
            return (kind, data["reason"] != "initial")
        case "assistant/message":
            return (kind, "interrupted" if "interrupted" in data else "settled")
    return (kind,)
