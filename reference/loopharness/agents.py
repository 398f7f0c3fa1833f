"""The agents of a harness: create, resume and dispose them, look them up, and know who caused what.

    handle = await harness.agents.create("main", AgentOptions("mock", "m1"), setup=compose)
    handle.agent.followup("Hi!")
    await handle.dispose()

A create or resume is one transaction: it ends with a live agent, or with nothing left of it. Every decision on the
way is `loopspec.creation`'s. Calls begin at once, before they are awaited, as the seed says; a call that nobody awaits
goes on all the same. `owner` is the context that the agent belongs to: it ends with it, at the latest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypedDict

import anyio
import anyio.abc
import anyio.lowlevel

from loopharness.agent import Agent, AgentOptions, Services
from loopharness.bus import Context, Effect
from loopharness.creation import configured, inputs
from loopharness.creation.errors import CreationError, RegistrationError, refusal
from loopharness.creation.initiator import Initiators
from loopharness.creation.order import Composition, Order, Setup
from loopharness.creation.promise import Promise
from loopharness.creation.scheduler import Scheduler
from loopharness.creation.transaction import AgentHandle
from loopharness.creation.transactions import Transactions
from loopharness.session import Session
from loopharness.signal import Signal
from loopharness.store import resume as stored
from loopspec import registry
from loopspec.profile import law
from loopspec.transaction import AGENTS, PROVIDER

if TYPE_CHECKING:
    from loopharness.harness import Harness

__all__ = ["AgentFactory", "AgentHandle", "Agents", "Composition", "Meta", "Setup"]


class Meta(TypedDict, total=False):
    """What the header of a new session may say besides its id; other keys are dropped (C-INP-3)."""

    cwd: str
    parentSession: str
    seedLength: int
    origin: Literal["subagent"]
    delegationDepth: int
    agentPreset: str


class AgentFactory(Protocol):
    """Who makes agents for the registry (C-FAC-3). `owner` is the calling context."""

    def create_agent(
        self,
        owner: Context,
        session_id: str,
        *,
        options: AgentOptions | Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        seed: Iterable[Mapping[str, Any]] | None,
        setup: Setup | None,
        signal: Signal | None,
    ) -> Awaitable[AgentHandle]:
        """Make a new one."""

    def resume(
        self,
        owner: Context,
        session_id: str,
        *,
        options: AgentOptions | Mapping[str, Any] | None,
        setup: Setup | None,
        signal: Signal | None,
    ) -> Awaitable[AgentHandle]:
        """Take up a stored one."""


class AgentLoop:
    """The factory of this harness: it runs the agents of `loopharness.agent`."""

    def __init__(self, harness: Harness, transactions: Transactions) -> None:
        self._harness: Final = harness
        self._transactions: Final = transactions

    def create_agent(
        self,
        owner: Context,
        session_id: str,
        *,
        options: AgentOptions | Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        seed: Iterable[Mapping[str, Any]] | None = None,
        setup: Setup | None = None,
        signal: Signal | None = None,
    ) -> Promise[AgentHandle]:
        """Begin a create (C-TXN-*)."""
        order = self._order(session_id, owner, options, meta, seed)
        order.setup, order.signal, order.storage = setup, signal, self._harness.persistence
        return self._transactions.begin(order).public

    def create_now(
        self, owner: Context, session_id: str, options: AgentOptions | Mapping[str, Any] | None, cwd: str | None
    ) -> Agent:
        """A synchronous create (C-SYN-*)."""
        order = self._order(session_id, owner, options, {} if cwd is None else {"cwd": cwd}, None)
        order.verb, order.storage = "create_now", self._harness.persistence
        return self._transactions.begin(order).public.result().agent

    def _order(
        self,
        session_id: str,
        owner: Context,
        options: AgentOptions | Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        seed: Iterable[Mapping[str, Any]] | None,
    ) -> Order:
        harness = self._harness
        order = Order("create", session_id, owner)
        try:
            order.flaw = "seed"
            order.session = inputs.fresh(session_id, meta or {}, seed, harness.session_format, harness.now)
            order.flaw = "options"
            order.options = inputs.options(options)
            order.flaw = ""
        except (TypeError, ValueError) as error:
            order.fault = error
        return order

    def resume(
        self,
        owner: Context,
        session_id: str,
        *,
        options: AgentOptions | Mapping[str, Any] | None = None,
        setup: Setup | None = None,
        signal: Signal | None = None,
    ) -> Awaitable[AgentHandle]:
        """Begin a resume; it is durable before its handle is given out (C-RES-*, C-RPR-4)."""
        order = Order("resume", session_id, owner, setup=setup, signal=signal, source="resume")
        harness, persistence = self._harness, self._harness.persistence
        try:
            order.options = inputs.options(options)
        except TypeError as error:
            order.flaw, order.fault = "options", error
        if persistence is None:
            order.flaw = "no-persistence"
        else:
            order.storage = persistence
            order.load = lambda: stored.load(persistence, session_id, harness.session_format, harness.now)
        begun = self._transactions.begin(order).public
        return begun if persistence is None else self._durable(begun)

    def take_up(
        self,
        owner: Context,
        header: Mapping[str, Any],
        events: Iterable[Mapping[str, Any]],
        options: AgentOptions | None,
        begin: bool,
        source: Literal["startup", "resume"],
    ) -> Promise[AgentHandle]:
        """Begin over events that somebody has at hand."""
        now = self._harness.now

        async def load() -> Session:
            return stored.session_of(header, events, now, begin)

        order = Order("resume", header["id"], owner, options or AgentOptions(), source=source, load=load)
        return self._transactions.begin(order).public

    async def _durable(self, begun: Promise[AgentHandle]) -> AgentHandle:
        handle = await begun
        try:
            await self._harness.sessions.flush(handle.agent.session)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await handle.dispose()
            raise
        return handle


def _failed(error: Exception) -> Promise[AgentHandle]:
    promise: Promise[AgentHandle] = Promise()
    promise.reject(error)
    return promise


class Agents:
    """The registry of live agents, and the way to new ones."""

    def __init__(self, harness: Harness, group: anyio.abc.TaskGroup) -> None:
        self._harness: Final = harness
        self._engine: Final = harness.engine
        self.initiators: Final = Initiators(self._engine)
        services = Services(
            harness.bus, harness.llm, harness.tools, harness.pipeline, harness.prompt, harness.settings, harness.new_id
        )
        self._transactions: Final = Transactions(
            self._engine,
            self.initiators,
            services,
            lambda session: law(harness.profile, session.header["version"]),
        )
        scheduler = Scheduler(self._engine, self._transactions)
        self._engine.settled = scheduler.call
        self._transactions.open(group)
        group.start_soon(scheduler.serve)
        self.service: Final = harness.context.child("agents")
        self.provider: Final = harness.context.child("agent loop")
        """The contexts of the agents service and of the loop: to dispose one is to unload it (C-OWN-7, C-OWN-11)."""
        self._service_ended: Final = self._transactions.adopt(self.service, AGENTS)
        self._provider_ended: Final = self._transactions.adopt(self.provider, PROVIDER)
        self.loop: Final = AgentLoop(harness, self._transactions)
        self._factory: AgentFactory | None = None
        self.set_factory(self.loop, self.provider)

    # -- looking up

    def get(self, id: str) -> Agent | None:
        """The live agent of that id."""
        return self._engine.agents.get(id)

    def list(self) -> list[Agent]:
        """A fresh list of the live agents, in order of registration."""
        return [*self._engine.agents.values()]

    def roots(self) -> tuple[Agent, ...]:
        """Those that no other agent owns (C-OWN-3)."""
        items = self._engine.objects(registry.roots(self._engine.core))
        return tuple(item.agent for item in items if item.agent is not None)

    def is_owned_by(self, id: str, owner: Agent) -> bool:
        """Whether the live agent of that id was made through the scope of `owner` (INV-22)."""
        agent = self.get(id)
        if agent is None:
            return False
        return registry.is_owned_by(self._engine.core, agent.lifecycle.id, owner.lifecycle.number)

    # -- making

    def create(
        self,
        session_id: str | None = None,
        options: AgentOptions | Mapping[str, Any] | None = None,
        *,
        meta: Meta | None = None,
        seed: Iterable[Mapping[str, Any]] | None = None,
        setup: Setup | None = None,
        signal: Signal | None = None,
        owner: Context | None = None,
    ) -> Awaitable[AgentHandle]:
        """A new agent over a new session. Begins at once; await it for the handle (C-TXN-*).

        `meta` and `seed` (the events that the session begins with) are checked and copied inside this call. `setup`
        composes the unpublished agent through its scoped context. `signal` cancels only until the handle is there.
        Whatever fails, fails when awaited, and is rolled back before.
        """
        factory = self._maker()
        if factory is None:
            return _failed(refusal("no-factory", ""))
        return factory.create_agent(
            owner or self._harness.context,
            self._harness.new_id() if session_id is None else session_id,
            options=options,
            meta=meta,
            seed=seed,
            setup=setup,
            signal=signal,
        )

    def create_now(
        self,
        session_id: str,
        options: AgentOptions | Mapping[str, Any] | None = None,
        *,
        cwd: str | None = None,
        owner: Context | None = None,
    ) -> Agent:
        """The same in one synchronous call, without setup; only its owners end the agent (C-SYN-*).

        Raises at once. After a failed publication the roll-back goes on, and the id is taken until it is over.
        """
        return self.loop.create_now(owner or self._harness.context, session_id, options, cwd)

    def resume(
        self,
        session_id: str,
        options: AgentOptions | Mapping[str, Any] | None = None,
        *,
        setup: Setup | None = None,
        signal: Signal | None = None,
        owner: Context | None = None,
    ) -> Awaitable[AgentHandle]:
        """A live, idle agent over a stored session (C-RES-*). Begins at once; await it for the handle.

        Fails with the errors of the store, with `cannot resume: session persistence is not configured …`, with
        `cannot prepare session "<id>" while it is live`, and like `create`.
        """
        factory = self._maker()
        if factory is None:
            return _failed(refusal("no-factory", ""))
        owner = owner or self._harness.context
        return factory.resume(owner, session_id, options=options, setup=setup, signal=signal)

    def take_up(
        self,
        header: Mapping[str, Any],
        events: Iterable[Mapping[str, Any]] = (),
        options: AgentOptions | None = None,
        *,
        begin: bool = True,
        source: Literal["startup", "resume"] = "resume",
        owner: Context | None = None,
    ) -> Promise[AgentHandle]:
        """A live, idle agent over events at hand: those of a fork, or of a log that was read elsewhere."""
        return self.loop.take_up(owner or self._harness.context, header, events, options, begin, source)

    def handle(self, agent: Agent) -> AgentHandle:
        """The handle of an agent of this harness, for whoever runs the harness."""
        return AgentHandle(self._transactions, agent.lifecycle)

    def set_factory(self, factory: AgentFactory, context: Context | None = None) -> Effect:
        """Claim the one factory slot; it clears with `context`, or when the answer is called (C-FAC-1).

        Raises `an agent factory is already registered`.
        """
        if self._factory is not None:
            raise CreationError("an agent factory is already registered", "FACTORY_EXISTS")
        self._factory = factory

        def clear() -> None:
            self._factory = None

        return (context or self._harness.context).effect(clear, "agents.setFactory()")

    def _maker(self) -> AgentFactory | None:
        """Whoever holds the slot. Behind the end of the loop, which clears it, the loop refuses by its own law."""
        return self._factory or (None if self.provider.active else self.loop)

    def register(self, agent: Agent, context: Context | None = None) -> Effect:
        """Record and announce an agent that somebody has built; the answer takes it out (C-REGA-10).

        Raises `agent "<id>" is already registered`, and what a listener of `agent/created` raises.
        """
        if agent.id != agent.session.id:
            text = f'agent id "{agent.id}" does not match session id "{agent.session.id}"'
            raise RegistrationError(text, "ID_MISMATCH")
        item = self._engine.item(agent.id)
        item.agent, item.key = agent, agent.key
        self._engine.register("agent", item)
        disposer: Callable[[], None] = lambda: self._engine.withdraw("agent", item)  # noqa: E731
        return (context or self._harness.context).effect(disposer, "agents.register()")

    def announce(self, agent: Agent) -> None:
        """Announce an entered agent: refused for every agent that this registry knows (C-REGA-4)."""
        for item in self._engine.items.values():
            if item.agent is agent and "agent" in item.entered:
                self._engine.announce("agent", item)
                return
        raise refusal("not-live", agent.id, "agent")

    def configure(
        self, config: Mapping[str, Any], identities: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Promise[None]:
        """Start the agents of a configuration (`creation.configured`). Raises `ConfigError` before any has started."""
        return configured.start(self._harness, configured.read(config, identities))

    def is_taken(self, id: str) -> bool:
        """Whether one of the two registries holds an id."""
        return id in self._engine.agents or id in self._engine.sessions

    def on_any(self, name: str, listener: Callable[..., Any]) -> Callable[[], None]:
        """Listen to an event of every agent, whatever its scope."""
        return self._harness.context.on(name, listener, everywhere=True)

    def spawn(self, work: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Run work in the harness, beside everybody."""
        self._transactions.spawn(work, *arguments)

    # -- initiators

    def current_initiator(self) -> Agent | None:
        """The agent that caused this call, if any did (C-INI-4)."""
        return self.initiators.current()

    def require_initiator(self) -> Agent:
        """The same; raises `no initiating agent is active`."""
        return self.initiators.require()

    def with_initiator(self, agent: Agent, operation: Callable[[], Any]) -> Any:
        """Run an operation as caused by `agent`; answers what it answers (C-INI-2)."""
        return self.initiators.run(agent, operation)

    def without_initiator(self, operation: Callable[[], Any]) -> Any:
        """Run an operation as caused by nobody."""
        return self.initiators.run(None, operation)

    # -- the end

    def unload(self, context: Context) -> Promise[None]:
        """Begin to dispose a context without awaiting that; the answer settles when it is done (C-ABT-4)."""
        done: Promise[None] = Promise()

        async def dispose() -> None:
            await context.dispose()
            done.resolve(None)

        context.close()
        self._transactions.spawn(dispose)
        return done

    async def shut_down(self) -> None:
        """Unload the loop, then the agents service: agents are drained first, calls are answered (C-OWN-7).

        Raises what the store could not write, if nobody has been told.
        """
        await anyio.lowlevel.checkpoint()
        for context, ended in ((self.provider, self._provider_ended), (self.service, self._service_ended)):
            context.close()
            await ended  # not inside the clean-up, which nothing can interrupt
            await context.dispose()
        failures = self._transactions.failures
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup("several agents could not be stored at their end", failures)

    def abandon(self) -> None:
        """The harness has ended, one way or the other."""
        self._transactions.shut()
