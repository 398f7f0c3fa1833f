"""What a create or resume is made of, and its teardown: the payload side of `loopspec.creation`.

Each effect of the machine has one short function here. None of them asks what state a transaction is in.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import anyio.abc

from loopharness.agent import Agent, Services
from loopharness.bus import Context
from loopharness.creation.engine import Engine
from loopharness.creation.initiator import Initiators
from loopharness.creation.order import Order
from loopharness.creation.promise import Promise
from loopharness.creation.transaction import AgentHandle, Transaction
from loopharness.errors import error_chain
from loopharness.session import Session
from loopspec import creation
from loopspec.kernel.machine import Answer
from loopspec.kernel.machine import Effect as Point
from loopspec.profile import Law
from loopspec.transaction import AGENTS, NOWHERE, Owner, find

__all__ = ["Transactions"]

_log = logging.getLogger("loopharness")


class Transactions:
    """All creates and resumes of one harness."""

    def __init__(
        self, engine: Engine, initiators: Initiators, services: Services, its_law: Callable[[Session], Law]
    ) -> None:
        self.engine: Final = engine
        self.initiators: Final = initiators
        self._services: Final = services
        self._law: Final = its_law
        self._scopes: Final = engine.bus.root.child("agent scopes")
        self._group: anyio.abc.TaskGroup | None = None
        self._fibers: dict[Context, int] = {}
        self._unloads: dict[int, Promise[None]] = {}
        self._resting: set[Transaction] = set()
        self._loads: dict[str, anyio.Event] = {}
        """By session id: the load that was begun last, which the next one waits for."""
        self.failures: list[Exception] = []
        """What went wrong in teardowns that nobody asked to be told about."""
        engine.perform(
            {
                "own": self._own,
                "prepare": self._prepare,
                "mint": self._mint,
                "setup": self._setup,
                "commit": self._commit,
                "agent/session-start": self._session_start,
                "resolve": self._resolve,
                "reject": self._reject,
                "start": self._start,
                "latch": self._latch,
                "running": self._running,
                "deactivate": self._deactivate,
                "cancel": self._cancel,
                "unwind": self._unwind,
                "gone": self._gone,
                "unloaded": self._unloaded,
            },
            {"load": self._load, "agent/created": self._announce_late},
        )

    def open(self, group: anyio.abc.TaskGroup) -> None:
        """From now on agents live in this task group."""
        self._group = group

    def spawn(self, work: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Run work that nobody awaits."""
        if self._group is None:
            raise RuntimeError("this harness has ended: create agents inside async with open_harness(…) as harness")
        self._group.start_soon(work, *arguments)

    def of(self, number: int) -> Transaction:
        """The transaction of a number."""
        item = self.engine.items[number]
        assert isinstance(item, Transaction)
        return item

    # -- calls

    def begin(self, order: Order) -> Transaction:
        """Begin a create or resume; everything up to its first await happens inside this call (C-TXN-A)."""
        engine = self.engine
        owner = self._owner(order.owner)
        item = engine.item(order.id, Transaction)
        assert isinstance(item, Transaction)
        item.order = order
        item.public = Promise(lambda: self._abort(item))
        if order.fault is not None:
            item.errors["inputs"] = order.fault
        if order.signal is not None and not order.signal.aborted:
            item.unhook = order.signal.on_abort(lambda _: self._abort(item))
        flaw = "aborted" if order.signal is not None and order.signal.aborted else order.flaw
        engine.call(order.verb, item.number, item.id, owner, flaw)
        return item

    def dispose(self, item: Transaction) -> Promise[None]:
        """Ask for the teardown; the answer is its one promise (C-TDN-1)."""
        item.handled = True
        self.engine.call("dispose", item.number)
        return item.ended

    def _abort(self, item: Transaction) -> None:
        self.engine.call("abort", item.number)

    def _release(self, item: Transaction) -> Promise[None]:
        self.engine.call("release", item.number)
        return item.ended

    def wake(self, item: Transaction) -> bool:
        """Before a waking send: whether the driver may be woken now. Raises when no wake is taken (N-7, N-8)."""
        self.engine.ask(item, "agent", "wake", item.number)
        return item.started

    def hangs(self, item: Transaction) -> bool:
        """The last wake was refused, and has left the agent running for ever (C-REE-6)."""
        member = find(self.engine.core, item.number)
        return member is not None and member.driver == "hung"

    def rested(self, item: Transaction) -> None:
        """The driver of an agent has come to rest."""
        self._resting.add(item)
        if self.engine.waiting or self.engine.interpreter.config.stack:
            self.engine.settled()  # the scheduler reports it, and lets a drain go on
        else:
            self.report_rest()

    def report_rest(self) -> bool:
        """Tell the machine of runs that have ended (INV-27)."""
        reported = False
        while self._resting:
            item = self._resting.pop()
            member = find(self.engine.core, item.number)
            rests = item.agent is not None and item.agent.at_rest
            if member is not None and rests and creation.may_rest(self.engine.core, member):
                self.engine.call("rest", item.number)
                reported = True
        return reported

    # -- fibers

    def adopt(self, context: Context, fiber: int | None = None) -> Promise[None]:
        """Make a context a fiber of the machine, a new one or a given one: its end is an unload (C-OWN-1, C-OWN-6)."""
        number: int = self.engine.call("join") if fiber is None else fiber
        ended: Promise[None] = Promise()
        self._fibers[context], self._unloads[number] = number, ended
        context.on_closing(lambda: self._unload(number))
        context.effect(lambda: ended, "agents.owner()")
        return ended

    def shut(self) -> None:
        """The harness has ended: nobody answers any more, so whatever still unwinds has nobody left to wait for."""
        self._group = None
        for ended in self._unloads.values():
            ended.resolve(None)
        self._unloads.clear()
        for item in self.engine.items.values():
            if isinstance(item, Transaction):
                item.ended.resolve(None)

    def _unload(self, fiber: int) -> None:
        if self._group is None:
            return
        if fiber == AGENTS:
            self.initiators.close()
        self.engine.call("unload", fiber)

    def _owner(self, context: Context) -> Owner:
        agent = context.agent
        if agent is not None and (context.active or context is agent.ctx):
            return ("agent", agent.lifecycle.number)
        known = self._fibers.get(context)
        if known is None:
            if not context.active:
                return ("fiber", NOWHERE)
            self.adopt(context)
            known = self._fibers[context]
        return ("fiber", known)

    def _unloaded(self, fiber: int) -> None:
        for context, number in list(self._fibers.items()):
            if number == fiber:
                del self._fibers[context]
        self._unloads.pop(fiber).resolve(None)

    # -- from the call to the scope

    def _own(self, number: int, id: int) -> None:
        item = self.of(number)
        label = f"agentLoop.lifecycle({item.name})"
        owner = item.order.owner

        # At its owner's end it is the machine that says who is asked and waited for (N-2); a scope waits in its order.
        def end() -> Promise[None] | None:
            if owner.active or (owner.agent is not None and owner is not owner.agent.ctx):
                return self._release(item)
            return item.ended if self._is_awaited(item) else None

        item.owner_effect = owner.effect(end, label)

    def _is_awaited(self, item: Transaction) -> bool:
        """The scope of its owner unwinds, and the machine has it wait for this one (C-OWN-3)."""
        scopes = [point for point, _ in self.engine.interpreter.config.parked if point[0] == "scope"]
        alone = [(*point[:2], (item.number,)) for point in scopes if item.number in point[2]]
        return any(not creation.answers(self.engine.core, point) for point in alone)

    def _load(self, number: int) -> None:
        item = self.of(number)
        before = self._loads.get(item.name)
        loaded = self._loads[item.name] = anyio.Event()
        self.spawn(self._loading, item, before, loaded)

    async def _loading(self, item: Transaction, before: anyio.Event | None, loaded: anyio.Event) -> None:
        """Loads of one id are made one after the other, in the order of the calls (C-RES-7).

        A load that nobody wants any more is given up: it may not pin the id (C-RES-3, R-65).
        """
        assert item.order.load is not None
        try:
            with anyio.CancelScope() as item.loading:
                if before is not None:
                    await before.wait()
                session = await item.order.load()
            if item.loading.cancelled_caught:
                return
        except Exception as error:
            item.errors["load"] = error
            item.outcome = ("missing",)
        else:
            item.session = session
            item.outcome = ("loaded",)
            if item.ended.settled:  # too late: nobody wants it any more (C-ABT-9)
                self._give_back(item)
        finally:
            loaded.set()
            if self._loads.get(item.name) is loaded:
                del self._loads[item.name]
        self.engine.over()

    def _give_back(self, item: Transaction) -> None:
        if item.order.storage is not None and item.order.verb == "resume" and item.session is not None:
            item.order.storage.release(item.name)

    def _prepare(self, number: int, id: int) -> None:
        item = self.of(number)
        item.outcome = None
        if item.order.session is not None:
            item.session = item.order.session
        if item.owner_effect is None:
            self._own(number, id)

    def _mint(self, number: int) -> None:
        item = self.of(number)
        assert item.session is not None
        assert self._group is not None
        item.key = object()
        item.scope = self._scopes.scope(item.key, f"agent {item.name}")
        self.engine.bus.announce("internal/scope", item.scope)
        agent = Agent(item.session, self._services, item.order.options, self._law(item.session), item.key)
        item.agent = item.scope.agent = agent
        item.started = not self.engine.law.driver_waits_for_publication
        agent.join(self, item, item.scope, self._group)

    # -- composition

    def _setup(self, number: int) -> None:
        item = self.of(number)
        order = item.order
        if order.storage is not None and order.verb == "create" and self.engine.law.stored_ids_are_refused:
            item.caller.copy().run(self.spawn, self._composing, item, order.storage.reserve(item.name))
            return
        item.caller.copy().run(self._call_setup, item)

    def _call_setup(self, item: Transaction) -> None:
        answer: Any = None
        try:
            if item.order.setup is not None:
                answer = item.order.setup(item.scope)  # type: ignore[arg-type]
        except Exception as error:
            self._composed(item, None, error)
            return
        if hasattr(answer, "__await__"):
            self.spawn(self._finish_setup, item, answer)
        else:
            self._composed(item, answer, None)

    async def _composing(self, item: Transaction, reserved: Awaitable[None]) -> None:
        """Where sessions are stored, the id is asked for before anything is composed (C-RES-9)."""
        try:
            await reserved
        except Exception as error:
            self._composed(item, None, error)
            return
        self._call_setup(item)

    async def _finish_setup(self, item: Transaction, answer: Awaitable[Any]) -> None:
        try:
            composition = await answer
        except Exception as error:
            self._composed(item, None, error)
        else:
            self._composed(item, composition, None)

    def _composed(self, item: Transaction, composition: Any, error: Exception | None) -> None:
        item.composition = composition
        if error is not None:
            item.errors["setup"] = error
        item.outcome = ("settles",) if error is None else ("throws",)
        if not self.engine.interpreter.config.stack:
            self.engine.over()

    def _commit(self, number: int) -> None:
        item = self.of(number)
        item.outcome = None
        commit = getattr(item.composition, "commit", None)
        if commit is not None:
            commit()

    # -- publication

    def _announce_late(self, number: int) -> None:
        item = self.of(number)
        item.outcome = None
        self.spawn(self._announcing, item)

    async def _announcing(self, item: Transaction) -> None:
        try:
            payload = {"agent": item.agent, "source": item.order.source, "signal": item.stop.signal}
            await self.engine.bus.serial("agent/created", payload, key=item.key)
        except Exception as error:
            item.errors["agent/created"] = error
            item.outcome = ("throws",)
        else:
            item.outcome = ("done",)
        self.engine.over()

    def _session_start(self, number: int) -> None:
        item = self.of(number)
        assert item.agent is not None
        item.agent.events.emit("agent/session-start", {"source": item.order.source})

    def _resolve(self, number: int) -> None:
        item = self.of(number)
        item.public.resolve(AgentHandle(self, item))

    def _reject(self, number: int, why: str) -> None:
        item = self.of(number)
        self._unhook(item)
        item.public.reject(item.rejection(why))
        if item.ended.settled or find(self.engine.core, number) is None:
            item.ended.resolve(None)
            self.engine.drop(item)

    def _unhook(self, item: Transaction) -> None:
        unhook, item.unhook = item.unhook, None
        if unhook is not None:
            unhook()

    # -- the driver

    def _start(self, number: int) -> None:
        self.of(number).started = True

    def _latch(self, number: int) -> None:
        self.of(number).kept = True

    def _running(self, number: int) -> None:
        item = self.of(number)
        kept, item.kept = item.kept, False
        if kept:
            assert item.agent is not None
            item.agent.wake()

    # -- teardown

    def _deactivate(self, number: int, why: str) -> None:
        item = self.of(number)
        if item.loading is not None:
            item.loading.cancel()
        if self.engine.law.created_is_awaited:
            self.spawn(self._stopping, item, why)
        self.engine.settled()

    async def _stopping(self, item: Transaction, why: str) -> None:
        """C-REE-5  Whoever is awaited hears why, behind the request: it may do anything, and nobody calls there."""
        item.stop.abort(item.rejection(why))

    def _cancel(self, number: int) -> None:
        agent = self.of(number).agent
        assert agent is not None
        agent.cancel({"kind": "disposed"})

    def outcome(self, point: Point) -> Answer | None:
        """What has happened at an await point, as far as that is known out here."""
        name = point[0]
        if name in ("load", "setup", "agent/created"):
            return self.of(point[1]).outcome
        if name == "live":
            return ("teardown",)
        if name == "drain":
            return ("done",) if self._is_free(self.of(point[1]).agent) else None
        if name == "scope":
            return ("done",) if self.of(point[1]).unwound else None
        if name == "boundaries":
            return ("done",) if self.initiators.drained else None
        return ("done",)

    def _is_free(self, agent: Agent | None) -> bool:
        """No job and no waiting operation keeps the agent busy (L-IDLE-1). Of its runs the machine knows itself."""
        return agent is None or agent.at_rest or agent.status == "running"

    def answered(self, point: Point) -> None:
        """An await point is about to be answered: a drained agent does nothing any more (INV-15)."""
        if point[0] == "drain":
            self._retire(self.of(point[1]).agent)

    def _retire(self, agent: Agent | None) -> None:
        """N-7  For good, where the law says so; published loops keep a ghost that still runs (C-TDN-17)."""
        if agent is not None and self.engine.law.disposed_agent_is_silent:
            agent.retire()

    def _unwind(self, number: int) -> None:
        self.spawn(self._unwinding, self.of(number))

    async def _unwinding(self, item: Transaction) -> None:
        """The scope takes everything back, newest first; then the store lets go of the session (C-TDN-7, C-TDN-18).

        Where the law unwinds a scope while its driver drains, the store goes on until the session is disposed.
        """
        assert item.scope is not None
        self._give_back(item)
        await item.scope.dispose()
        rests = item.agent is None or item.agent.at_rest
        if item.order.storage is not None and item.session is not None and rests:
            try:
                await item.order.storage.close(item.session)
            except Exception as error:
                item.failure = error
        item.unwound = True
        self.engine.over()

    def _gone(self, number: int, how: str) -> None:
        item = self.of(number)
        self._unhook(item)
        self._retire(item.agent)
        if item.owner_effect is not None:
            item.owner_effect.retire()
        if item.scope is None:
            self._give_back(item)
        failure = item.failure if how == "fulfilled" else item.error("cancel", "agent/disposed")
        if failure is None:
            item.ended.resolve(None)
        else:
            item.ended.reject(failure)
            if not item.handled:
                _log.error('agent "%s" disposal failed: %s', item.name, error_chain(failure))
                self.failures.append(failure)
        if item.public.settled:
            self.engine.drop(item)
