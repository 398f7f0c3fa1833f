"""Compaction as a plugin: it makes history smaller before a step and after an overflow, by public means only.

    compaction.install(harness)

What is too large, what may be replaced and what that must cost is decided in `loopspec.compaction`; this file asks the
model for the summary and writes the records (M-702 to M-710):

    compaction/start · compaction/summary · user/message (replaces) · compaction/end

The bracket is closed once on every way out, with the error where there is one, before the turn goes on (G9). A failure
here is a warning: the turn goes on as if nobody had tried.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from loopharness.agent import Agent
from loopharness.bus import Context
from loopharness.errors import HarnessError, error_chain
from loopharness.frozen import FrozenDict, dumps, freeze
from loopharness.harness import Harness
from loopharness.model.service import Request
from loopharness.session import Session
from loopharness.signal import Signal
from loopspec import compaction as law
from loopspec import request as requests
from loopspec import stream
from loopspec.compaction import Anchor, Cut, Settings
from loopspec.values import Record

__all__ = ["Compaction", "CompactionError", "Settings", "install"]

_log = logging.getLogger("loopharness")

Next = Callable[[], Awaitable[Any]]


class CompactionError(HarnessError):
    """A compaction that came to nothing. The log says the same at its `compaction/end`."""


class _Summary(NamedTuple):
    """What the model answered."""

    text: tuple[Record, ...]
    raw: tuple[Record, ...]
    usage: Record | None


class _Meter:
    """How large the next request of a session will be (M-701): what was priced stays priced while it stays."""

    __slots__ = ("_anchor", "_count", "_generation", "_messages", "_tools", "_tools_price")

    def __init__(self, session: Session) -> None:
        self._generation = -1
        self._count = 0
        self._messages = 0
        self._tools: Any = None
        self._tools_price = 0
        self._anchor = self._restored(session)

    def size(self, session: Session) -> int | None:
        """The estimate; `None` before the first request."""
        header = session.header_record
        return None if header is None else law.measured(header, self._priced(session, header), self._anchor)

    def settle(self, session: Session, usage: Record | None) -> None:
        """The model has answered, and its message has just joined the history."""
        header = session.header_record
        if header is not None:
            self._anchor = law.anchored(header, usage, self._priced(session, header)) or self._anchor

    def _priced(self, session: Session, header: Record) -> int:
        messages = session.messages
        if session.surface.generation != self._generation:
            self._generation, self._count, self._messages = session.surface.generation, 0, 0
        for at in range(self._count, len(messages)):
            self._messages += law.message_price(messages[at])
        self._count = len(messages)
        return self._messages + self._header_price(header)

    def _header_price(self, header: Record) -> int:
        tools = header.get("tools", ())
        if tools is not self._tools:
            self._tools = tools
            self._tools_price = law.header_price({}, (dumps(freeze(tool)) for tool in tools))
        return self._tools_price + law.header_price(header, ())

    def _restored(self, session: Session) -> Anchor | None:
        """The count of the last answer in a log that was taken up, while nothing before it has changed since."""
        last, header = session.last("assistant/message"), session.header_record
        if last is None or header is None or "usage" not in last["data"]:
            return None
        nodes, seq = session.surface.nodes, last["seq"]
        at = nodes.position(seq)
        written = session.last("request/header")
        if at is None or written is None or written["seq"] > seq or any(node > seq for node in nodes[:at]):
            return None
        told = sum(law.node_price(event) for event in session.surface.events[: at + 1])
        return law.anchored(header, last["data"]["usage"], told + self._header_price(header))


class Compaction:
    """The mounted plugin. Made by `install`."""

    def __init__(self, harness: Harness, settings: Settings, overrides: Mapping[str, Settings]) -> None:
        self.settings: Final = settings
        self._overrides: Final = dict(overrides)
        self._harness: Final = harness
        self._meters: WeakKeyDictionary[Session, _Meter] = WeakKeyDictionary()
        self._repairs: WeakKeyDictionary[Agent, int] = WeakKeyDictionary()
        self._told: set[tuple[str, str]] = set()

    def mount(self, context: Context) -> None:
        """Begin to listen."""
        context.on("session/event", self._observe)
        context.on("agent/status", self._rest)
        context.on("agent/pre-step", self._relieve)
        context.on("agent/request-error", self._repair)

    def size(self, session: Session) -> int | None:
        """How many tokens the next request of a session is expected to have; `None` before its first one."""
        return self._meter(session).size(session)

    async def compact(self, agent: Agent, command_id: str | None = None) -> None:
        """Compact the history of an idle agent now, as its only activity (M-707).

        `command_id` names what asked for it, in the log. Raises `CompactionError` (`cancelled` when the agent was
        cancelled meanwhile) and `RuntimeError` when the agent has other work.
        """

        async def job(signal: Signal) -> None:
            config = self._config(agent.session)
            if config is None:
                raise CompactionError("nothing has been said yet", "NOTHING")
            settings = self.settings_for(config["provider"], config["model"])
            window = self._window(agent.session)
            retain = law.retained(window, settings) if window else settings.retain_tokens or 0
            try:
                await self._replace(agent, None, retain, settings, signal, command_id)
            except CompactionError as error:
                if signal.aborted:
                    raise CompactionError("the compaction was cancelled", "cancelled") from error
                raise

        await agent.run_maintenance(job)

    def settings_for(self, provider: str, model: str) -> Settings:
        """The settings of a route: those for `provider/model`, else those for all."""
        return self._overrides.get(f"{provider}/{model}", self.settings)

    # -- listening

    def _observe(self, session: Session, event: FrozenDict) -> None:
        if event["type"] == "assistant/message":
            self._meter(session).settle(session, event["data"].get("usage"))
            agent = self._harness.agents.get(session.id)
            if agent is not None:
                self._repairs.pop(agent, None)

    def _rest(self, payload: Mapping[str, Any]) -> None:
        if payload["status"] == "idle":
            self._repairs.pop(payload["agent"], None)

    async def _relieve(self, payload: Mapping[str, Any], next: Next) -> Any:
        """M-704  Pressure, looked at before every step; whatever comes of it, the step is proposed."""
        agent, signal = payload["agent"], payload["signal"]
        try:
            await self._under_pressure(agent, payload["turn"], signal)
        except Exception as error:
            self._warn(agent.session, f"the history could not be compacted: {error_chain(error)}")
        return await next()

    async def _under_pressure(self, agent: Agent, turn: int, signal: Signal) -> None:
        session, config = agent.session, self._config(agent.session)
        if config is None or signal.aborted:
            return
        settings = self.settings_for(config["provider"], config["model"])
        window = self._window(session)
        if not settings.auto:
            return
        if window is None:
            self._warn_once(session, config)
            return
        retain = law.retained(window, settings)
        for attempt in range(1 + settings.compaction_retries):
            if not self._presses(session, window, settings) or signal.aborted:
                return
            shortened = attempt == 0 and self._prune(session, retain, settings)
            if shortened and not self._presses(session, window, settings):
                return
            await self._replace(agent, turn, retain, settings, signal)

    def _presses(self, session: Session, window: int, settings: Settings) -> bool:
        size = self.size(session)
        return size is not None and law.presses(size, window, settings)

    async def _repair(self, payload: Mapping[str, Any], next: Next) -> Any:
        """M-705  Overflow: make room, and let the same step try again if something was replaced."""
        agent, signal, failure = payload["agent"], payload["signal"], payload["failure"]
        session, config = agent.session, self._config(agent.session)
        if config is None:
            return await next()
        settings = self.settings_for(config["provider"], config["model"])
        repairs = self._repairs.get(agent, 0)
        if not settings.auto or not law.may_repair(failure["code"], repairs, signal.aborted, settings):
            return await next()
        before = session.surface.generation
        try:
            self._prune(session, 0, settings)
            await self._replace(agent, payload["turn"], 0, settings, signal)
        except Exception as error:
            self._warn(session, f"the history could not be compacted: {error_chain(error)}")
        if not law.repaired(before, session.surface.generation, signal.aborted):
            return await next()
        self._repairs[agent] = repairs + 1
        return {"kind": "retry"}

    # -- changing the surface

    def _prune(self, session: Session, retain: int, settings: Settings) -> bool:
        """M-709  Shorten long results; whether there were any."""
        found = law.prunable(session.surface, retain, settings) if settings.prune else ()
        for pruned in found:
            seq = pruned.seq
            span = {"start": seq, "end": seq}
            fact = {"shadowedRange": span, "shadowedSeqs": [seq], "shadowedTokenCount": pruned.price}
            session.append("compaction/prune", fact)
            session.append("tool/result", freeze(dict(pruned.data)), _replacing(session, seq, seq), [seq])
        return bool(found)

    async def _replace(
        self,
        agent: Agent,
        turn: int | None,
        retain: int,
        settings: Settings,
        signal: Signal,
        command_id: str | None = None,
    ) -> None:
        """M-707  One attempt: the bracket, the summary, the replacement. Raises `CompactionError`."""
        session = agent.session
        last = [session.last(f"{name}") for name in ("compaction/start", "compaction/end", "session/end-seed")]
        if law.blocked(*(-1 if event is None else event["seq"] for event in last)):
            raise CompactionError("an earlier compaction is not finished", "BLOCKED")
        chosen = law.cut(session.surface, retain)
        if chosen is None:
            raise CompactionError("there is no part of the history that could be replaced", "NOTHING")
        named = {} if command_id is None else {"sourceCommandId": command_id}
        id = self._harness.new_id()
        bracket = {"compactionId": id, **named, "turn": turn}
        started = session.append("compaction/start", bracket)["seq"]
        why = "it was abandoned"
        try:
            await self._write(session, chosen, settings, signal, id, named, started)
            why = ""
        except Exception as error:
            why = error_chain(error)
            raise
        finally:
            session.append("compaction/end", {**bracket, "error": why} if why else bracket)

    async def _write(
        self,
        session: Session,
        chosen: Cut,
        settings: Settings,
        signal: Signal,
        id: str,
        named: Mapping[str, str],
        started: int,
    ) -> None:
        surface = session.surface
        summary = await self._summarise(session, chosen, settings, signal)
        if session.surface is not surface:
            raise CompactionError("the history changed while its summary was written", "CHANGED")
        message = {
            "id": self._harness.new_id(),
            "role": "user",
            "content": law.checkpoint_content(summary.text),
            "source": law.checkpoint_source(session.dialect, id, named.get("sourceCommandId")),
        }
        if not law.pays(chosen, message):
            raise CompactionError("the summary is longer than what it stands for", "TOO_LONG")
        header = session.header_record
        assert header is not None
        fact: dict[str, Any] = {
            "compactionId": id,
            **named,
            "summary": summary.text,
            "rawOutput": summary.raw,
            "llmStreamCall": True,
            "shadowedRange": {"start": chosen.start, "end": chosen.end},
            "shadowedSeqs": chosen.seqs,
            "shadowedTokenCount": chosen.price,
            "provider": header["config"]["provider"],
            "model": header["config"]["model"],
            "maxTokens": settings.max_tokens,
        }
        if summary.usage is not None:
            fact["usage"] = summary.usage
        told = session.append("compaction/summary", fact)["seq"]
        sources = [started, told, *chosen.seqs]
        session.append("user/message", freeze(message), _replacing(session, chosen.start, chosen.end), sources)

    async def _summarise(self, session: Session, chosen: Cut, settings: Settings, signal: Signal) -> _Summary:
        """M-710  Ask the model, with the very beginning of the request that it knows already. One attempt."""
        header, surface = session.header_record, session.surface
        assert header is not None
        end = surface.nodes.position(chosen.end)
        assert end is not None
        kind = {"kind": "plugin", "plugin": "compact-basic"} if session.dialect == "v0" else {"kind": "compact-basic"}
        ask = freeze(
            {
                "id": self._harness.new_id(),
                "role": "user",
                "content": [{"type": "text", "text": law.INSTRUCTION}],
                "source": kind,
            }
        )
        messages = surface.messages.first(surface.before[end + 1]).append(ask)
        fields = requests.build_request(header, messages, session.id)
        request = Request.of({**fields, "maxTokens": settings.max_tokens, "purpose": "compaction"}, signal)
        answer = self._harness.llm.stream(request)
        assembly = stream.EMPTY
        try:
            async for chunk in answer:
                if signal.aborted:
                    break
                assembly = stream.absorb(assembly, chunk)
        finally:
            close = getattr(answer, "aclose", None)
            if close is not None:
                await close()
        if signal.aborted:
            raise CompactionError("the turn was cancelled while the summary was written", "ABORTED")
        return _read(assembly)

    # -- facts

    def _meter(self, session: Session) -> _Meter:
        meter = self._meters.get(session)
        if meter is None:
            meter = self._meters[session] = _Meter(session)
        return meter

    @staticmethod
    def _config(session: Session) -> Record | None:
        header = session.header_record
        config: Record | None = None if header is None else header["config"]
        return config

    @staticmethod
    def _window(session: Session) -> int | None:
        """The context window of the model that was asked last, as the log has it (S-REQ-8)."""
        context = session.last("request/context")
        return None if context is None else context["data"].get("contextWindow")

    def _warn_once(self, session: Session, config: Record) -> None:
        route = (config["provider"], config["model"])
        if route not in self._told:
            self._told.add(route)
            self._warn(session, f"the context window of {'/'.join(route)} is not known: its history is not compacted")

    @staticmethod
    def _warn(session: Session, text: str) -> None:
        _log.warning("session %s: %s", session.id, text)


def _replacing(session: Session, start: int, end: int) -> dict[str, Any]:
    """The surface operation that replaces a range (S-SUR-2)."""
    if session.dialect == "v0":
        return {"op": "replace", "start": start, "end": end}
    return {"op": "replace", "startSeq": start, "endSeq": end}


def _read(assembly: stream.Assembly) -> _Summary:
    """The summary in the model's answer. Half a summary is none: what it lost, nobody would know (M-704)."""
    failure = stream.failure(assembly)
    if failure is not None:
        raise CompactionError(f"{failure['code']}: {failure['message']}", "MODEL")
    settled = stream.settle(assembly)
    if settled.finish["kind"] == "max-tokens":
        raise CompactionError("the summary was cut off at its token limit", "CUT_OFF")
    text = law.summary_of(settled.content)
    if not text:
        raise CompactionError("the model answered without a summary", "EMPTY")
    return _Summary(text, settled.content, settled.usage)


def install(
    harness: Harness,
    settings: Settings | None = None,
    overrides: Mapping[str, Settings] | None = None,
    context: Context | None = None,
) -> Compaction:
    """Mount compaction, until `context` (or the harness) ends. `overrides` are settings for `provider/model`.

    Raises `ValueError` for settings that make no sense.
    """
    plugin = Compaction(
        harness,
        law.checked(settings or Settings()),
        {route: law.checked(own) for route, own in (overrides or {}).items()},
    )
    plugin.mount((context or harness.context).child("compaction"))
    return plugin
