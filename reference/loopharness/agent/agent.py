"""The agent: the driver machine, run live.

Whatever an agent decides is decided in `loopspec.driver`. This shell numbers messages, performs each effect
(append a record, emit an event), answers each await point by running the hooks that belong to it, and reads its
public state off the machine. There is no question about phase, latch or turn in this file.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from loopharness.agent.attempt import Attempts
from loopharness.agent.maintenance import Job, Maintenance
from loopharness.agent.messages import CauseKind, Messages, accepted, user_message
from loopharness.agent.options import AgentOptions, Services
from loopharness.agent.pending import Inbox, Message
from loopharness.agent.records import Recorder
from loopharness.bus import AgentEvents, Context
from loopharness.creation.errors import CreationError, refusal
from loopharness.errors import error_chain
from loopharness.frozen import FrozenDict, freeze
from loopharness.interpreter import Interpreter
from loopharness.session import REENTRY, Session, SessionDataError
from loopharness.signal import AbortController, Signal
from loopharness.tools.batch import ToolBatch
from loopspec import context as contexts
from loopspec import driver
from loopspec.driver import Driver
from loopspec.inbox import Ids, Target
from loopspec.kernel.machine import Answer, Effect, Operation
from loopspec.profile import Law
from loopspec.values import Record

if TYPE_CHECKING:
    from loopharness.creation.transaction import Transaction
    from loopharness.creation.transactions import Transactions

__all__ = ["Agent"]

_log = logging.getLogger("loopharness")


class Agent:
    """One driver bound to one session; `agent.id` is the session's id (L-VOC-1).

    The sending calls are synchronous and answer nothing: a waking send on an idle agent has opened its turn when
    it returns (L-SEND-6). They work only while the agent's scope runs, and only in the thread of its event loop.

    What a caller may conclude: `discarded` says that a message left the inbox, also when it was replaced or
    moved and will still run; a second `idle` may be stale, so look at `status` and not at the last event (L-PH-5).
    A claimed message is not pending any more: `keep_inbox` cannot keep it, and it is lost when its turn is
    rejected, fails or is cancelled before its step opens (L-IN-15).
    """

    def __init__(self, session: Session, services: Services, options: AgentOptions, law: Law, key: object) -> None:
        """Make the driver of a session, idle, with the turn number and pending input of its log (L-PH-6, L-IN-16).

        Raises `ValueError` with `invalid persisted inbox splice at session seq <n>` (L-IN-17).
        """
        self.session: Final = session
        self.id: Final = session.id
        self.services: Final = services
        self.options: Final = options
        self.law: Final = law
        self.messages: Final = Messages()
        self.inbox: Final = Inbox(self)
        self.key: Final = key
        self.events: Final = AgentEvents(services.bus, self, key)
        self.attempts: Final = Attempts(self)
        self.failure: object = None
        """What was raised last inside the turn; the machine says whether it becomes the turn's error."""
        self._controller = AbortController()
        self.signal: Signal = self._controller.signal
        self._recorder = Recorder(self)
        self._maintenance = Maintenance(self)
        lists = self._recorder.restored_lists()
        self._interpreter = Interpreter(driver.MACHINE, driver.initial(law, session.last_turn, lists), self)
        session.on_published = self._log_is_free
        self._contexts: Sequence[Record] = ()
        self._claimed: list[int] = []
        self._gone: list[int] = []
        """Numbers of messages that left the inbox; frames on the stack may still mention them."""
        self.ctx: Context
        """The agent's own scope: what is registered here is heard by this agent alone, and ends with it."""
        self.lifecycle: Transaction
        self._transactions: Transactions | None = None
        self._retired = False
        self._barred: CreationError | None = None
        """Why the run that is about to begin is refused by the initiator scope."""
        self._group: TaskGroup | None = None
        self._thread = 0
        self._work = anyio.Event()
        self._settled = anyio.Event()
        self._hooks: dict[str, Callable[..., Awaitable[Answer]]] = {
            "assembly": self._assemble,
            "pre-step": self._pre_step,
            "tick": self._tick,
            "gap": self._tick,
            "request": self._request,
            "prepare": self._prepare,
            "chunk": self._pull,
            "close": self._close,
            "tools": self._run_tools,
            "recovery": self._recover,
            "turn-stopping": self._stopping,
        }

    # -- reading

    @property
    def core(self) -> Driver:
        """The driver's state, as the spec has it."""
        return self._interpreter.config.core

    @property
    def status(self) -> Literal["idle", "running"]:
        """The public status; maintenance is idle (L-PH-2)."""
        return driver.status(self.core)

    # -- sending

    def send(self, message: Message, target: Target, wakeup: bool) -> None:
        """Insert a message, and wake the agent if asked (L-SEND-1 to L-SEND-6).

        Raises `ValueError` for an id that is pending already, `SessionDataError` for data that is not lossless
        JSON, what a veto raises, and `RuntimeError` outside the agent's scope. Then nothing has changed.
        A wake before the agent is published is kept for its start (N-1); one after its end is refused (N-7).
        """
        waits = self.session.publishing and driver.waits(self.core, ("send",))
        (number,) = self.offer([message], waits=waits)
        if not wakeup or self._transactions is None:
            self.call("send", number, target, wakeup)
            return
        self._check_place()
        may_start = self._may_start(self._transactions)
        try:
            with self._transactions.initiators.driving(self):
                self.call("send", number, target, may_start)
        finally:
            if self.at_rest:
                self._transactions.rested(self.lifecycle)

    def _may_start(self, transactions: Transactions) -> bool:
        """Whether a wake may start the driver; where the law says so, a refusal is found behind the insertion (N-8)."""
        try:
            return transactions.wake(self.lifecycle)
        except CreationError as refused:
            if not transactions.hangs(self.lifecycle):
                raise
            self._barred = refused
            return True

    def followup(self, message: Message) -> None:
        """Queue a message for a turn of its own, and wake the agent."""
        self.send(message, "next-turn", True)

    def steer(self, message: Message) -> None:
        """Hand a message to the next step, and wake the agent."""
        self.send(message, "next-step", True)

    def inject(self, message: Message) -> None:
        """Hand a message to the next step whenever that comes; nobody is woken."""
        self.send(message, "next-step", False)

    def cancel(self, cause: Mapping[str, Any], keep_inbox: bool = False) -> None:
        """Discard what is pending, unless it is kept, and abort the activity's signal (L-CAN-1).

        `cause` is `{"kind": "user"}`, `parent`, `disposed`, or `{"kind": "hook", "reason": …}`; the first one is
        what the turn's end records. Returns before the activity has ended: wait with `when_idle`.
        """
        self.call("cancel", CauseKind.of(cause), keep_inbox)

    def run_maintenance(self, job: Job) -> Awaitable[Any]:
        """Run `job(signal)` as the agent's only activity; await the answer for its result (L-MNT-1 to L-MNT-4).

        The job begins before this returns. Raises `RuntimeError` with `agent "<id>" already has active work`
        unless the agent is idle.
        """
        ticket = self._maintenance.ticket(job)
        try:
            self.call("maintain")
        except BaseException:
            self._maintenance.withdraw(ticket)
            raise
        return ticket

    async def when_idle(self) -> None:
        """Wait until no activity remains; never raises for what a turn did (L-IDLE-1 to L-IDLE-3)."""
        await anyio.lowlevel.checkpoint()
        while self._group is not None and not driver.is_quiet(self._interpreter.config):
            await self._settled.wait()

    # -- life

    @property
    def at_rest(self) -> bool:
        """No activity remains, a job or a waiting operation included (L-IDLE-1)."""
        return driver.is_quiet(self._interpreter.config)

    def join(self, transactions: Transactions, lifecycle: Transaction, ctx: Context, group: TaskGroup) -> None:
        """Come alive in a task group that outlives every use of the agent. `ctx` is its scope (C-SET-2)."""
        self._transactions, self.lifecycle, self.ctx = transactions, lifecycle, ctx
        self._group, self._thread = group, threading.get_ident()
        group.start_soon(self._live)

    def wake(self) -> None:
        """Start the driver for a wake that was kept."""
        assert self._transactions is not None
        try:
            with self._transactions.initiators.driving(self):
                self.call("wake", False, ("answer", None))
        finally:
            if self.at_rest:
                self._transactions.rested(self.lifecycle)

    def retire(self) -> None:
        """Do nothing any more (INV-15)."""
        self._retired = True
        self._group = None
        self._work.set()

    async def _live(self) -> None:
        """Every hook of this agent runs inside this call, whoever woke it, and as caused by this agent (C-INI-5)."""
        assert self._transactions is not None
        try:
            with self._transactions.initiators.driving(self):
                while not self._retired:
                    await self._work.wait()
                    self._work = anyio.Event()
                    await self._answer_hooks()
        finally:
            self._group = None
            self._settled.set()

    async def _answer_hooks(self) -> None:
        interpreter = self._interpreter
        while interpreter.config.parked:
            name, *arguments = interpreter.config.parked[0][0]
            hook = self._hooks.get(name)
            if hook is None:  # a maintenance job answers by itself
                return
            try:
                answer = await hook(*arguments)
            except Exception as error:
                self.failure = error
                answer = ("throws",)
            self.resume(answer)

    # -- between the public calls and the machine

    def call(self, *operation: Any) -> Any:
        """Call an operation of the driver machine."""
        self._check_place()
        try:
            return self._interpreter.call(operation, self.session.publishing)
        finally:
            self._sweep()

    def _check_place(self) -> None:
        if self._retired:
            raise refusal("disposed", self.id)
        if self._group is None:
            raise RuntimeError(
                f'agent "{self.id}" is not alive: use it inside the harness scope that created it '
                "(async with open_harness(…) as harness)"
            )
        if threading.get_ident() != self._thread:
            raise RuntimeError(
                f'agent "{self.id}" was called from another thread; hand the call to its event loop, '
                "for example with anyio.from_thread.run_sync"
            )

    def _log_is_free(self) -> None:
        """Operations called by observers of somebody else's record begin now (L-CAN-6, L-SEND-9)."""
        if self._interpreter.config.waiting:
            self._interpreter.begin_waiting()
            self._sweep()

    def _sweep(self) -> None:
        """Forget messages that nothing can mention any more."""
        if self._gone and not self._interpreter.config.stack:
            for number in self._gone:
                self.messages.drop(number)
            self._gone.clear()

    def offer(self, messages: Sequence[Message], leaving: Ids = (), waits: bool = False) -> Ids:
        """Number messages that want to become pending.

        What `waits` for the log gets a number of its own; whether its id is pending is looked at when it begins.
        """
        core = self.core
        pending = () if waits else core.next_turn + core.next_step
        new_id = self.services.new_id
        whole = [{**user_message(m), "id": new_id()} if isinstance(m, str) else m for m in messages]
        return self.messages.offer(whole, pending, leaving)

    def number_of(self, id: str) -> int:
        """The number of a pending message, 0 when it is not pending."""
        core = self.core
        return self.messages.number_of(id, core.next_turn + core.next_step)

    def spawn(self, work: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Run work in the agent's own task group."""
        assert self._group is not None
        self._group.start_soon(work, *arguments)

    def resume(self, answer: Answer) -> None:
        """Answer the await point that is parked."""
        self._interpreter.resume(answer)
        self._sweep()

    # -- performing effects (interpreter.Performer)

    def append(self, record: Effect) -> None:
        """Write one record; what the append raises refuses it."""
        self._recorder.write(record)

    def notify(self, event: Effect) -> None:
        """Emit one live event, or run the listeners of an abort or the synchronous part of a job."""
        name = event[0]
        if name == "agent/inbox/claimed":
            self._claimed.append(event[1])
            self.events.emit(name, {"message": self.messages.of(event[1]), "turn": event[2]})
        elif name == "agent/inbox/inserted":
            self.events.emit(name, {"message": self.messages.of(event[1])})
        elif name == "agent/inbox/discarded":
            self.events.emit(name, {"message": self.messages.of(event[1])})
            self._gone.append(event[1])
        elif name == "agent/status":
            self.events.emit(name, {"status": event[1]})
            if self._barred is not None:
                self.failure, self._barred = self._barred, None
                self._interpreter.config = driver.barred(self._interpreter.config)
        elif name == "agent/error":
            self.events.emit(name, {"turn": event[1], "step": event[2], "error": self.failure})
        elif name == "agent/assistant-stream":
            self.events.emit(name, {"frame": self._recorder.frame(event[1])})
        elif name == "abort":
            self._controller.abort(event[1].cause)
        elif name == "job":
            self._maintenance.begin(self.signal)

    def note(self, change: Effect) -> None:
        """A fresh signal for a new activity or turn (L-CAN-8)."""
        self._controller = AbortController()
        self.signal = self._controller.signal

    def park(self, point: Effect) -> None:
        """Somebody has to answer: the agent's own task, or the maintenance job."""
        if point[0] == "maintenance":
            self.spawn(self._maintenance.run)
        else:
            self._work.set()

    def refused(self, record: Effect, error: Exception | None) -> None:
        """Keep the reason, for whoever the machine lets it reach."""
        self.failure = RuntimeError(REENTRY) if error is None else error
        if record[0] == "agent/inbox/spliced":
            pending = self.core.next_turn + self.core.next_step
            self._gone += [number for number in record[4] if number not in pending]

    def begun(self, operation: Operation) -> Operation:
        """A send that has waited: by now its id may be pending under another number (L-IN-6)."""
        if operation[0] != "send":
            return operation
        name, number, *rest = operation
        pending = self.number_of(self.messages.of(number)["id"])
        if not pending:
            return operation
        self._gone.append(number)
        self.messages.clash = self.messages.of(number)["id"]
        return (name, pending, *rest)

    def left(self, end: Effect, heard: bool) -> None:
        """Wake who waits for idleness; report what nobody else can hear."""
        if end[0] == "settled":
            self._settled.set()
            self._settled = anyio.Event()
            if self._transactions is not None:
                self._transactions.rested(self.lifecycle)
        elif end[0] == "raise" and not heard:
            self._maintenance.refuse(self.error(end[1]))
            _log.warning(
                "an operation that an observer of agent %s had called failed: %s",
                self.id,
                error_chain(self.error(end[1])),
            )

    def error(self, kind: str) -> Exception:
        """The exception behind `("raise", kind)`."""
        if kind == "busy":
            return RuntimeError(f'agent "{self.id}" already has active work')
        if kind == "duplicate":
            return ValueError(f'message "{self.messages.clash}" is already pending')
        if kind == "not-json":
            return SessionDataError('session event "agent/inbox/spliced" carries non-JSON-serializable data')
        assert isinstance(self.failure, Exception)
        return self.failure

    # -- await points

    async def _tick(self) -> Answer:
        await anyio.lowlevel.checkpoint()
        return ("done",)

    async def _assemble(self) -> Answer:
        assembled = self.attempts.assembled = await self.services.prompt.assemble(self, self.signal, key=self.key)
        self._contexts = assembled.contexts
        return ("done",)

    async def _pre_step(self, batch: Ids) -> Answer:
        claimed = self.messages.all_of(batch)
        due = None if self.law.snapshot_sees_listeners else self._snapshot()

        def default() -> Mapping[str, Any]:
            return {"kind": "enter", "messages": (*claimed, *(self._snapshot() if due is None else due))}

        core = self.core
        payload = {"messages": claimed, "turn": core.turn, "step": core.step + 1, "signal": self.signal}
        verdict = await self.events.waterfall("agent/pre-step", payload, base=default)
        if verdict["kind"] == "reject":
            return ("reject",)
        return ("enter", tuple([self._entering(message, claimed, batch) for message in verdict["messages"]]))

    def _entering(self, message: Mapping[str, Any], claimed: tuple[FrozenDict, ...], batch: Ids) -> int:
        """The number of a message of an entering decision: its old one when it is the claimed object itself."""
        for number, known in zip(batch, claimed, strict=True):
            if message is known:
                return number
        number = self.messages.number(accepted(message))
        self._claimed.append(number)
        return number

    def _snapshot(self) -> tuple[FrozenDict, ...]:
        """The runtime-context message that is due, if one is (L-CTX-2)."""
        due = contexts.candidate(self.session.dialect, self.session.retained, self._contexts)
        if due is None:
            return ()
        return (freeze({**user_message(due.text), "source": dict(due.source), "id": self.services.new_id()}),)

    async def _request(self) -> Answer:
        core = self.core
        return await self.attempts.request(core.turn, core.step, self.signal)

    async def _prepare(self) -> Answer:
        return await self.attempts.prepare(self.signal)

    async def _pull(self, started: bool) -> Answer:
        return await self.attempts.pull(self.signal)

    async def _close(self, started: bool) -> Answer:
        return await self.attempts.close()

    async def _run_tools(self) -> Answer:
        core = self.core
        return await ToolBatch(self, core.turn, core.step, self.attempts.calls, self.signal).run()

    async def _recover(self) -> Answer:
        core = self.core
        return await self.attempts.recover(core.turn, core.step, self.signal)

    async def _stopping(self) -> Answer:
        await self.events.serial("agent/turn-stopping", {"turn": self.core.turn, "signal": self.signal})
        return ("done",)

    def turn_over(self) -> None:
        """The claimed messages of this turn will not be mentioned again."""
        self._gone += self._claimed
        self._claimed.clear()
