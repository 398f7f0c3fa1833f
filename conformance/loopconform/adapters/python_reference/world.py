"""One world: a reference harness with every hook of the protocol in place, and the operations on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from loopconform.adapters.python_reference.gates import Gates, Planned
from loopconform.adapters.python_reference.storage import ATTEMPT, Storage
from loopconform.adapters.python_reference.stream import Stream
from loopconform.protocol.parts import LIVE_EVENTS
from loopconform.protocol.replies import Fulfilled, Live, Problem, Raised, Record, Rejected, Returned, Snapshot
from loopconform.protocol.requests import Open, React, Veto
from loopharness.agent import Agent, AgentOptions
from loopharness.agents import Meta
from loopharness.frozen import FrozenDict, freeze, thaw
from loopharness.harness import Harness
from loopharness.signal import AbortController, Signal
from loopharness.slice import install
from loopharness.tools.registry import define_tool

OPTIONS = AgentOptions(provider="mock", model="m1")
WORDS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan"), "-0": -0.0}


def message(id: str) -> dict[str, Any]:
    """The message of a name."""
    return {"role": "user", "id": id, "content": [{"type": "text", "text": id}], "source": {"kind": "user"}}


def problem(error: BaseException) -> Problem:
    """An error as the protocol has it."""
    code = getattr(error, "code", None)
    return Problem(name=type(error).__name__, message=str(error), code=code if isinstance(code, str) else None)


def ids(messages: Any) -> tuple[str, ...]:
    """The ids of some messages."""
    return tuple([m["id"] for m in messages])


class World:
    """A harness under the suite's hands. `say` sends a reply."""

    def __init__(
        self, harness: Harness, opening: Open, say: Callable[[Any], None], storage: Storage | None = None
    ) -> None:
        self.harness = harness
        self.opening = opening
        self.storage = storage
        self.say = say
        self.gates = Gates({hold.gate: hold.honour for hold in opening.hold}, say)
        self.reactions: list[tuple[int, React, list[int]]] = []
        self.vetoes: list[tuple[Veto, int]] = []
        self.owners = {name: harness.context.child(name) for name in opening.owners}
        self.handles: dict[str, Any] = {}
        self.composed: dict[str, Agent] = {}
        self.signals: dict[str, AbortController] = {}
        self.tools: dict[str, Any] = {}
        if storage is not None:
            storage.gates = self.gates
        self._watched: dict[str, Signal] = {}
        if opening.slice is not None:
            install(harness, opening.slice)  # before our hooks, which are downstream of it
        self._hook()
        harness.settings.max_parallel_tool_calls = opening.cap
        for tool in opening.tools:
            self.tool(tool.name, tool.parallel)

    # -- listening

    def _hook(self) -> None:
        on = self.harness.context.on
        on("session/event", self._on_record)
        on("internal/dispatch", self._on_dispatch)
        for name in LIVE_EVENTS:
            if name.startswith("session/"):
                on(name, lambda session, name=name: self._live(session.id, name, {}))
            elif name == "tools/result":
                on(name, self._on_result)
            elif name not in ("signal/abort", "llm/stream"):
                on(name, lambda payload, name=name: self._on_live(name, payload))
        on("agent/created", self._on_created)
        on("system-prompt/assemble", self._assembly)
        on("agent/pre-step", self._pre_step)
        on("agent/request", self._request)
        on("llm/stream", self._stream)
        on("agent/request-error", self._request_error)
        on("agent/turn-stopping", self._turn_stopping)
        on("tools/pre-execute", self._tool_pre)
        on("tools/post-execute", self._tool_post)
        self.harness.llm.register_adapter(["mock"], self)

    def _on_dispatch(self, mode: str, name: str, arguments: Any, key: object) -> None:
        if name != "session/event":
            return
        session, event = arguments

        def fits(veto: Veto) -> bool:
            return bool(veto.record == event["type"] and veto.agent == session.id)

        due = next((one for one in self.vetoes if one[1] == 1 and fits(one[0])), None)
        if due is not None:
            self.vetoes.remove(due)
            raise Planned("vetoed")
        self.vetoes = [(veto, nth - fits(veto)) for veto, nth in self.vetoes]

    def _on_record(self, session: Any, event: FrozenDict) -> None:
        self._watch(session.id)
        data = {name: value for name, value in thaw(event).items() if name != "time"}
        self.say(Record(type="record", agent=session.id, event=data))
        self._react("record", event["type"], session.id, data.get("data"))

    def _on_live(self, name: str, payload: Mapping[str, Any]) -> None:
        self._watch(payload["agent"].id)
        data: dict[str, Any] = {}
        for field, value in payload.items():
            if field == "message":
                data[field] = {"id": value["id"]}
            elif isinstance(value, BaseException):
                data[field] = problem(value).model_dump()
            elif field not in ("agent", "signal"):
                data[field] = thaw(freeze(value))
        self._live(payload["agent"].id, name, data)

    def _on_result(self, execution: Any, result: Any) -> None:
        data = {"callId": execution.call_id, "isError": result["isError"]}
        self._live(execution.agent.id, "tools/result", data)

    def _live(self, agent: str, name: str, data: dict[str, Any]) -> None:
        self.say(Live(type="live", agent=agent, name=name, data=data))
        self._react("live", name, agent, data)

    def _watch(self, id: str) -> None:
        agent = self.harness.agents.get(id)
        if agent is not None and self._watched.get(id) is not agent.signal:
            self._watched[id] = agent.signal
            agent.signal.on_abort(lambda reason: self._live(id, "signal/abort", {"kind": reason["kind"]}))  # type: ignore[index]

    def _react(self, field: str, name: str, agent: str, data: Any) -> None:
        fired = []
        for armed in list(self.reactions):
            _, reaction, count = armed
            on = reaction.on
            if getattr(on, field) != name or on.agent not in (None, agent) or not _has(data, on.where):
                continue
            count[0] += 1
            if count[0] == on.nth:
                self.reactions.remove(armed)
                fired.append(armed)
        for id, reaction, _ in fired:
            if reaction.queued:
                self.harness.agents.spawn(self._run_later, id, reaction.ops)
            else:
                self.run(id, reaction.ops)

    async def _run_later(self, id: int, ops: Any) -> None:
        self.run(id, ops)

    def _on_created(self, payload: Mapping[str, Any]) -> None:
        agent = payload["agent"]
        self._hear_fresh_signals(agent)
        if "unwind" in self.gates.holds:
            agent.ctx.effect(lambda: self._unwind(agent.id), "conformance")

    def _hear_fresh_signals(self, agent: Agent) -> None:
        """A waiting cancel may abort a signal before anybody was told of it; no event tells of a fresh one."""
        note = agent.note

        def on_note(change: Any) -> None:
            note(change)
            self._watch(agent.id)

        agent.note = on_note  # type: ignore[method-assign]

    async def _unwind(self, agent: str) -> None:
        await self.gates.stand("unwind", agent)

    # -- hooks

    def _initiator(self) -> str:
        return self.harness.agents.require_initiator().id

    async def _assembly(self, assembly: Any, context: Mapping[str, Any], proceed: Any) -> Any:
        await self.gates.stand("assembly", context["agent"].id, signal=context["signal"])
        return await proceed()

    async def _pre_step(self, payload: Mapping[str, Any], proceed: Any) -> Any:
        proposed = payload["messages"]
        outcome = await self.gates.stand("pre-step", payload["agent"].id, "", payload["signal"], ids(proposed))
        if outcome is None or outcome.kind == "done":
            return await proceed()
        if outcome.kind == "reject":
            return {"kind": "reject"}
        return {"kind": "enter", "messages": [m for id in outcome.messages for m in proposed if m["id"] == id]}

    async def _request(self, payload: Mapping[str, Any], proceed: Any) -> Any:
        outcome = await self.gates.stand("request", payload["agent"].id, "", payload["signal"])
        config = await proceed()
        if outcome is not None and outcome.kind == "config":
            return {**config, "model": outcome.model}
        return config

    async def resolve_model(self, provider: str, model: str, signal: Signal) -> Mapping[str, Any]:
        """The model adapter: the gate `prepare`."""
        await self.gates.stand("prepare", self._initiator(), "", signal)
        return {"id": model, "name": model}

    def stream(self, request: Any) -> AsyncIterator[FrozenDict]:
        """Never asked: a listener serves every stream, so that what it throws stays an exception (M-431)."""
        raise AssertionError("a listener serves the streams")

    def _stream(self, request: Any, proceed: Any) -> Stream:
        agent = self._initiator()
        if self.opening.requests:
            fields = {name: thaw(value) for name, value in request.items() if name != "signal"}
            self._live(agent, "llm/stream", {**fields, "messages": [thaw(message) for message in request["messages"]]})
        return Stream(self.gates, agent, request["signal"])

    async def _request_error(self, payload: Mapping[str, Any], proceed: Any) -> Any:
        outcome = await self.gates.stand("request-error", payload["agent"].id, "", payload["signal"])
        return {"kind": "retry"} if outcome is not None and outcome.kind == "retry" else await proceed()

    async def _turn_stopping(self, payload: Mapping[str, Any]) -> None:
        await self.gates.stand("turn-stopping", payload["agent"].id, "", payload["signal"])

    async def _tool_pre(self, execution: Any, proceed: Any) -> Any:
        outcome = await self.gates.stand("tool-pre", execution.agent.id, execution.call_id, execution.signal)
        if outcome is not None and outcome.kind == "deny":
            return {"kind": "deny", "reason": "planned"}
        return await proceed()

    async def _tool_post(self, execution: Any, result: Any, proceed: Any) -> Any:
        outcome = await self.gates.stand("tool-post", execution.agent.id, execution.call_id, execution.signal)
        if outcome is None or outcome.kind == "done":
            return await proceed()
        contexts = [message(id) for id in outcome.contexts]
        if outcome.kind == "block":
            return {"kind": "block", "feedback": "planned", "additionalContexts": contexts}
        return {"kind": "accept", "additionalContexts": contexts}

    def tool(self, name: str, parallel: bool) -> None:
        """Register a tool, in the place of one of that name."""

        async def body(arguments: Any, execution: Any) -> str:
            outcome = await self.gates.stand("tool", execution.agent.id, execution.call_id, execution.signal)
            if outcome is not None and outcome.concludes:
                execution.conclude_turn()
            return "ok" if outcome is None else str(outcome.text)

        self.drop_tool(name)
        made = define_tool(name, name, {"type": "object"}, body, concurrent=parallel)
        self.tools[name] = self.harness.tools.register(made, self.harness.context)

    def drop_tool(self, name: str) -> None:
        """Unregister a tool, if it is there."""
        registered = self.tools.pop(name, None)
        if registered is not None:
            registered()

    # -- operations

    def run(self, id: int, ops: Any) -> None:
        """Run operations in one tick, and report what each of them did."""
        for at, op in enumerate(ops):
            try:
                value = self._perform(id, at, op)
                self._watch(getattr(op, "agent", ""))
            except Exception as error:
                self.say(Raised(type="raised", id=id, op=at, error=problem(error)))
            else:
                self.say(Returned(type="returned", id=id, op=at, value=value))

    def _perform(self, id: int, at: int, op: Any) -> Any:
        kind = op.op
        perform = getattr(self, "_do_" + kind.replace("-", "_"))
        answer = perform(op)
        if hasattr(answer, "__await__"):
            self.harness.agents.spawn(self._report, id, at, answer, op)
            return None
        return answer

    async def _report(self, id: int, at: int, work: Awaitable[Any], op: Any) -> None:
        try:
            value = await work
        except Exception as error:
            self.say(Rejected(type="rejected", id=id, op=at, error=problem(error)))
            return
        if op.op in ("create", "resume", "fork"):
            self.handles[op.agent] = value
        self.say(Fulfilled(type="fulfilled", id=id, op=at))

    def _agent(self, id: str) -> Agent:
        agent = self.harness.agents.get(id)
        if agent is None:
            handle = self.handles.get(id)
            if handle is None and id in self.composed:
                return self.composed[id]
            if handle is None:
                raise LookupError(f"no agent {id!r}")
            return handle.agent  # type: ignore[no-any-return]
        return agent

    def _owner(self, op: Any) -> Any:
        if op.parent is not None:
            return self._agent(op.parent).ctx
        return None if op.owner is None else self.owners[op.owner]

    def _signal(self, name: str | None) -> Signal | None:
        return None if name is None else self.signals.setdefault(name, AbortController()).signal

    def _do_create(self, op: Any) -> Any:
        create = self.harness.agents.create
        return create(op.agent, OPTIONS, **self._circumstances(op))

    def _do_resume(self, op: Any) -> Any:
        before = ATTEMPT.set(op.name or op.agent)
        try:
            return self.harness.agents.resume(op.agent, OPTIONS, **self._circumstances(op))
        finally:
            ATTEMPT.reset(before)

    def _do_fork(self, op: Any) -> Any:
        events = self._agent(op.source).session.events
        seed = events[:] if op.boundary is None else events[: op.boundary + 1]
        meta: Meta = {"parentSession": op.source, "seedLength": len(seed)}
        return self.harness.agents.create(op.agent, OPTIONS, seed=seed, meta=meta)

    def _circumstances(self, op: Any) -> dict[str, Any]:
        """What every create may be given."""

        async def compose(context: Any) -> None:
            self.composed[op.agent] = context.agent
            await self.gates.stand("setup", op.agent, op.name or op.agent)

        setup = compose if op.setup else None
        return {"setup": setup, "signal": self._signal(op.signal), "owner": self._owner(op)}

    def _do_create_now(self, op: Any) -> None:
        self.harness.agents.create_now(op.agent, OPTIONS, owner=self._owner(op))

    def _do_send(self, op: Any) -> None:
        self._agent(op.agent).send(message(op.message), op.target, op.wakeup)

    def _do_followup(self, op: Any) -> None:
        self._agent(op.agent).followup(message(op.message))

    def _do_steer(self, op: Any) -> None:
        self._agent(op.agent).steer(message(op.message))

    def _do_inject(self, op: Any) -> None:
        self._agent(op.agent).inject(message(op.message))

    def _do_splice(self, op: Any) -> Any:
        start, count = (WORDS[n] if isinstance(n, str) else float(n) for n in (op.start, op.delete_count))
        inserted = [message(id) for id in op.messages]
        return ids(self._agent(op.agent).inbox.splice(op.target, start, count, inserted))

    def _do_replace(self, op: Any) -> bool:
        return self._agent(op.agent).inbox.replace(op.message, message(op.by))

    def _do_remove(self, op: Any) -> bool:
        return self._agent(op.agent).inbox.remove(op.message)

    def _do_clear(self, op: Any) -> None:
        self._agent(op.agent).inbox.clear()

    def _do_cancel(self, op: Any) -> None:
        cause = {"kind": op.cause, **({"reason": "planned"} if op.cause == "hook" else {})}
        self._agent(op.agent).cancel(cause, keep_inbox=op.keep_inbox)

    def _do_maintenance(self, op: Any) -> Any:
        return self._agent(op.agent).run_maintenance(
            lambda signal: self.gates.stand("maintenance", op.agent, "", signal)
        )

    def _do_when_idle(self, op: Any) -> Any:
        return self._agent(op.agent).when_idle()

    def _do_dispose(self, op: Any) -> Any:
        handle = self.handles.get(op.agent)
        if handle is None:
            raise LookupError(f"no handle of agent {op.agent!r}")
        return handle.dispose()

    def _do_log(self, op: Any) -> Any:
        return tuple([thaw(event) for event in self._agent(op.agent).session.events])

    def _do_append(self, op: Any) -> None:
        self._agent(op.agent).session.append(op.type, op.data)

    def _do_unload(self, op: Any) -> Any:
        agents = self.harness.agents
        fibers = {**self.owners, "provider": agents.provider, "agents": agents.service}
        return agents.unload(fibers[op.fiber])

    def _do_abort(self, op: Any) -> None:
        self.signals.setdefault(op.signal, AbortController()).abort(Planned(op.reason or "planned"))

    def _do_cap(self, op: Any) -> None:
        self.harness.settings.max_parallel_tool_calls = op.size

    def _do_tool(self, op: Any) -> None:
        self.tool(op.name, op.parallel)

    def _do_drop_tool(self, op: Any) -> None:
        self.drop_tool(op.name)

    # -- reading

    def snapshots(self) -> dict[str, Snapshot]:
        """What can be read of each live agent."""
        return {
            agent.id: Snapshot(
                status=agent.status,
                next_turn=ids(agent.inbox.next_turn),
                next_step=ids(agent.inbox.next_step),
                length=len(agent.session.events),
            )
            for agent in self.harness.agents.list()
        }


def _has(data: Any, where: Mapping[str, Any] | None) -> bool:
    if where is None:
        return True
    return isinstance(data, Mapping) and all(name in data and data[name] == value for name, value in where.items())
