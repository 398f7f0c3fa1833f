"""One run judged: every request and reply handed to the judges that it concerns."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from loopconform.judge.changes import with_settings
from loopconform.judge.creation_judge import CREATION_EVENTS, CREATION_GATES, PROMISED, CreationJudge, attempt_of
from loopconform.judge.fits import shown
from loopconform.judge.jury import Jury
from loopconform.judge.logged import LoggedJudge
from loopconform.judge.points import Block, Book
from loopconform.judge.sealing import SealingJudge
from loopconform.judge.storage import Start, Storage
from loopconform.judge.verdict import Fault, Found, Undecided
from loopconform.judge.writing import Writing
from loopconform.protocol.replies import (
    Fulfilled,
    Gate,
    HelloReply,
    Live,
    Ok,
    Raised,
    Record,
    Rejected,
    Returned,
    Settled,
)
from loopconform.protocol.requests import Do, Open, Plan, React, Release, Veto
from loopspec import loop
from loopspec.loop import Composition
from loopspec.profile import Law, law

BEFORE = 12
"""How many messages a fault shows before the one at fault."""

SETTINGS = ("tool", "drop-tool", "cap")
"""Operations that concern every agent."""

LOOP_EVENTS = frozenset(
    (
        "agent/status",
        "agent/inbox/inserted",
        "agent/inbox/discarded",
        "agent/inbox/claimed",
        "agent/error",
        "tools/result",
        "agent/assistant-stream",
        "signal/abort",
        "llm/stream",
    )
)


class _Armed:
    def __init__(self, id: int, reaction: React) -> None:
        self.id = id
        self.reaction = reaction
        self.count = 0

    def fires(self, reply: Record | Live) -> bool:
        on = self.reaction.on
        if isinstance(reply, Record):
            fits = on.record is not None and on.record == reply.event.get("type")
            data = reply.event.get("data")
        else:
            fits, data = on.live is not None and on.live == reply.name, reply.data
        if not fits or on.agent not in (None, reply.agent) or not _has(data, on.where):
            return False
        self.count += 1
        return self.count == on.nth


def _has(data: Any, where: Mapping[str, Any] | None) -> bool:
    if where is None:
        return True
    return isinstance(data, Mapping) and all(name in data and data[name] == value for name, value in where.items())


class Court:
    """The judges of one run. `request` and `reply` raise `Found` at the first message that the law cannot explain."""

    def __init__(
        self, opening: Open, hello: HelloReply, machine: Composition = loop.MACHINE, chosen: Law | None = None
    ) -> None:
        """`chosen`: judge by this law, not by the one of the profile that was opened."""
        self.book = Book(opening, frozenset(hello.events), frozenset(hello.partial))
        self.law = chosen or law(opening.profile, opening.session_format)
        self.machine = machine
        self.storage = Storage(self.book, self.law)
        self._open_world()
        self._seen: deque[str] = deque(maxlen=BEFORE)
        self._at = 1
        self._over: set[tuple[str, int, int]] = set()
        """Operations and promises that have ended."""
        self.messages = 0

    def _open_world(self) -> None:
        """Nobody lives, nothing is planned; what is stored is there."""
        self.loops: dict[str, LoggedJudge | Jury] = {}
        self.creation = CreationJudge(self.book, self.law, storage=self.storage)
        self._forks: dict[str, Start] = {}
        self.writing = Writing(self.storage, "flush" in self.book.holds)
        self._announced = "session/created" in self.book.events
        self._armed: list[_Armed] = []
        self._waiting: dict[str, list[tuple[str, int]]] = {}
        self._settings: list[Any] = []
        self._composed: dict[str, str] = {}
        """Agents that are being composed by a setup, and can be driven already; of several of one id, the first."""

    # -- requests

    def request(self, id: int, request: Any) -> None:
        """A request is about to be sent."""
        self._at = id
        for at, op in enumerate(getattr(request, "ops", ())):
            self.book.ops[id, at] = op
        if isinstance(request, Do):
            self._ask(id, request.ops, "")
        elif isinstance(request, React):
            self._armed.append(_Armed(id, request))
        elif isinstance(request, Plan):
            self.book.plans[id] = request
            self._remember(request.agent, "plan", id)
            self.creation.plan(id)
        elif isinstance(request, Veto):
            self.book.vetoes[id] = request
            self._remember(request.agent, "veto", id)
        elif isinstance(request, Release):
            self._release(id, request)

    def _remember(self, agent: str, what: str, id: int) -> None:
        """Plans and vetoes may come before their agent."""
        judge = self.loops.get(agent)
        if judge is None:
            self._waiting.setdefault(agent, []).append((what, id))
        elif what == "plan":
            judge.plan(id)
        else:
            judge.veto(id)

    def _release(self, id: int, request: Release) -> None:
        """A hook may go on; where nobody stands, nothing happens, its operations neither."""
        self.book.releases[id] = request
        if request.gate == "maintenance":
            self.creation.lives.working.discard(request.agent)
        if request.gate == "flush":
            self.writing.release(request.agent)
            if request.agent in self.loops:
                self.loops[request.agent].written()
            return
        place = (request.gate, request.key)
        judge = self.loops.get(request.agent)
        if request.gate in CREATION_GATES:
            if self.creation.release(id, request):
                self._ask(id, request.ops, "")
                if judge is not None and request.outcome.kind == "throws":
                    judge.may_be_disposed()
            return
        if judge is None or not judge.release(id, place, self._ops_of(id, request.ops, request.agent)):
            return
        for agent, other in self.loops.items():
            ops = self._ops_of(id, request.ops, agent)
            if other is not judge and ops:
                other.ask(Block(id, ops))
        self.creation.ask(id, tuple(range(len(request.ops))))
        self._effects(request.ops)

    def _ops_of(self, id: int, ops: Any, agent: str) -> tuple[int, ...]:
        return tuple(
            at for at, op in enumerate(ops) if op.op in SETTINGS or (hasattr(op, "agent") and op.agent == agent)
        )

    def _ask(self, id: int, ops: Any, inside: str, is_record: bool = False) -> None:
        """Operations that run in one tick: inside the dispatch just reported for one agent, or as soon as may be.

        `is_record`: that dispatch is the publication of a record.
        """
        if not self._announced:
            self._begin_unannounced(ops)
        for at, op in enumerate(ops):
            if op.op == "dispose" and not self.creation.handle_is_live(op.agent):
                self.book.vain.add((id, at))
            elif op.op == "dispose" and is_record and op.agent == inside and inside in self.loops:
                self.book.observing[id, at] = self.loops[inside].pending()
        for agent, judge in self.loops.items():
            mine = self._ops_of(id, ops, agent)
            if mine and agent == inside:
                judge.ask_inside(id, mine)
            elif mine:
                judge.ask(Block(id, mine))
        self.creation.ask(id, tuple(range(len(ops))), bool(inside))
        self._effects(ops)

    def _effects(self, ops: Any) -> None:
        for op in ops:
            if op.op in SETTINGS:
                self._settings.append(op)
            elif op.op in ("unload", "abort", "dispose"):
                for agent, judge in self.loops.items():
                    if op.op != "dispose" or agent != op.agent:
                        judge.may_be_disposed()

    # -- replies

    def reply(self, reply: Any) -> None:
        """A reply has come. Raises `Found`."""
        self.messages += 1
        try:
            self._reply(reply)
        except Found as found:
            fault = found.fault._replace(before=tuple(self._seen), at=self._at)
            raise Found(fault) from None
        self._seen.append(shown(reply))

    def _reply(self, reply: Any) -> None:
        if isinstance(reply, Record):
            self._record(reply)
        elif isinstance(reply, Live):
            self._live(reply)
        elif isinstance(reply, (Returned, Raised)):
            self._ended(reply)
        elif isinstance(reply, (Fulfilled, Rejected)):
            self._settled_promise(reply)
        elif isinstance(reply, Gate):
            self._gate(reply)
        elif isinstance(reply, Settled):
            waiting = frozenset(one.agent for one in reply.parked if one.gate == "flush")
            for agent, judge in self.loops.items():
                judge.rest(reply, agent in waiting)
            self._remember_logs()
            wrong = self.writing.wrong_rest(waiting)
            if wrong:
                raise self._stray(reply, "S-DSK-32", wrong)
            self.creation.settle(reply, waiting)
            self.storage.settled(waiting)
            for agent, judge in self.loops.items():
                if self.creation.is_left_alone(agent):
                    judge.stays()
        elif isinstance(reply, Ok) and reply.id in self._ticks():
            for judge in self.loops.values():
                judge.done(reply.id)
            self.creation.done(reply.id)

    def _ticks(self) -> frozenset[int]:
        """Requests whose operations are over when they are closed: not those of reactions and releases."""
        armed = {one.id for one in self._armed}
        return frozenset(id for id, _ in self.book.ops if id not in self.book.releases and id not in armed)

    def _record(self, reply: Record) -> None:
        judge = self.loops.get(reply.agent)
        if judge is None:
            if self._announced:
                raise self._stray(reply, "INV-24", "a record is published for a session that is in no registry")
            judge = self._begin(reply.agent)
        judge.show(reply)
        self._fire(reply)

    def _live(self, reply: Live) -> None:
        if reply.name in CREATION_EVENTS:
            self.creation.show(reply)
            if reply.name == "session/created":
                attempt = self._composed.pop(reply.agent, None)
                if attempt is not None and attempt == attempt_of(self.creation.origin(reply.agent)):
                    self.loops[reply.agent].publish(True)
                else:
                    self._begin(reply.agent)
            judge = self.loops.get(reply.agent)
            last = "agent/created" if self.law.created_is_awaited else "agent/session-start"
            if judge is not None and reply.name == last:
                judge.published()
            if reply.name == "session/disposed" and judge is not None and reply.agent not in self._composed:
                if self.law.disposed_agent_is_silent:
                    self._remember_logs()
                    self.loops.pop(reply.agent)
                else:
                    judge.publish(False)
        elif reply.name in LOOP_EVENTS:
            judge = self.loops.get(reply.agent)
            if judge is None:
                raise self._stray(reply, "INV-15", "an event is told of an agent that is in no registry")
            judge.show(reply)
            if reply.name == "agent/status" and not judge.moves.unpublished:
                self.creation.show(reply)
        self._fire(reply)

    def _stray(self, reply: Any, clause: str, reason: str) -> Found:
        return Found(
            Fault(
                getattr(reply, "agent", ""),
                reason,
                clause,
                "",
                "",
                ("nothing of this agent",),
                shown(reply),
                (),
                self._at,
            )
        )

    def _remember_logs(self) -> None:
        """What is known of the logs of those who live. A session that is not published yet is not stored."""
        for agent, judge in self.loops.items():
            if agent not in self._composed:
                self.storage.remember(agent, judge.chronicle)

    def _crash(self) -> None:
        """The world was killed: only what is stored goes on."""
        self._remember_logs()
        self.storage.crashed()
        self._open_world()

    def _judge_of(self, agent: str, attempt: str) -> LoggedJudge | Jury:
        """Who follows an agent: from an empty log, from a copy of another's, or from what is stored (C-RES-11)."""
        op = self.creation.origin(agent, attempt)
        kind = getattr(op, "op", "create")
        judge = LoggedJudge if self.book.opening.slice is None else SealingJudge
        if kind == "fork":
            return judge(self.book, self.law, agent, self.machine, self._forks[agent])
        if kind != "resume":
            fresh = judge(self.book, self.law, agent, self.machine)
            self.storage.collides(agent, fresh.chronicle)
            return fresh
        starts = self.storage.resumed(agent)
        if not starts:
            raise Undecided(f"the log of {agent!r} holds what was told to nobody")
        judges = [judge(self.book, self.law, agent, self.machine, start) for start in starts]
        return judges[0] if len(judges) == 1 else Jury(judges)

    def _begin(self, agent: str, attempt: str = "") -> LoggedJudge | Jury:
        before = self.loops.get(agent)
        judge = self.loops[agent] = self._judge_of(agent, attempt)
        if before is not None:
            judge.ghosts = [*before.ghosts, *before.standing()]
        for op in self._settings:
            judge.tools_changed(lambda facts, op=op: with_settings(facts, op))
        for what, id in self._waiting.pop(agent, ()):
            self._remember(agent, what, id)
        return judge

    def _begin_unannounced(self, ops: Any) -> None:
        """An adapter that tells no announcements: an agent is followed from its create on, and may start at once."""
        for op in ops:
            if op.op in ("create", "create-now") and op.agent not in self.loops:
                self._begin(op.agent).published()

    def _fire(self, reply: Record | Live) -> None:
        fired = [one for one in self._armed if one.fires(reply)]
        for armed in reversed(fired):  # the one that came first is asked last, and runs first
            self._armed.remove(armed)
            inside = "" if armed.reaction.queued else reply.agent
            self._ask(armed.id, armed.reaction.ops, inside, isinstance(reply, Record))

    def _ended(self, reply: Returned | Raised) -> None:
        op = self._asked(reply, "end")
        agents = list(self.loops) if op.op in SETTINGS else [getattr(op, "agent", "")]
        for agent in agents:
            judge = self.loops.get(agent)
            if judge is None:
                continue
            if judge.knows(reply.id, reply.op):
                judge.show(reply)
            if isinstance(reply, Returned) and op.op == "when-idle":
                judge.wait_for_idleness((reply.id, reply.op))
            if isinstance(reply, Returned) and op.op == "maintenance":
                judge.jobs.add((reply.id, reply.op))
        if op.op == "restart" and isinstance(reply, Returned):
            self._crash()
            return
        if op.op == "fork" and isinstance(reply, Returned):
            self._forks[op.agent] = self.storage.forked(self.loops[op.source].chronicle, op.boundary)
        if op.op == "log" and isinstance(reply, Returned) and op.agent in self.loops:
            self.loops[op.agent].read(reply)
        if op.op == "unload" and op.fiber == "agents":
            for judge in self.loops.values():
                judge.close()
        self.creation.ended(reply)

    def _asked(self, reply: Any, what: str) -> Any:
        """The operation that a reply is about; it ends once, and so does its promise."""
        op = self.book.ops.get((reply.id, reply.op))
        over = (what, reply.id, reply.op)
        if op is None or over in self._over:
            reason = "nobody asked for this operation" if op is None else "this has ended already"
            raise Found(Fault("", reason, "", "", "", (), shown(reply), (), self._at))
        self._over.add(over)
        return op

    def _settled_promise(self, reply: Fulfilled | Rejected) -> None:
        op = self._asked(reply, "promise")
        if op.op in ("when-idle", "maintenance"):
            judge = self.loops.get(op.agent)
            if judge is not None and op.op == "when-idle":
                judge.idle(reply)
            elif judge is not None:
                judge.worked(reply)
            return
        self.creation.promise(reply)
        if isinstance(reply, Rejected) and op.op in PROMISED and self._composed.get(op.agent) == attempt_of(op):
            self._composed.pop(op.agent)
            self.loops.pop(op.agent, None)
        if op.op == "dispose" and not self._announced:
            self.loops.pop(op.agent, None)

    def _gate(self, reply: Gate) -> None:
        if reply.gate == "flush":
            wrong = self.writing.wrong_arrival(reply.agent)
            if wrong:
                raise self._stray(reply, "S-DSK-32", wrong)
            return
        if reply.gate in CREATION_GATES:
            self.creation.arrive(reply)
            if reply.gate == "setup" and reply.agent not in self.loops:
                # C-SET-7  Whoever has the agent of a setup can drive it already.
                self._begin(reply.agent, reply.key).publish(False)
                self._composed[reply.agent] = reply.key
            return
        judge = self.loops.get(reply.agent)
        if judge is None:
            raise self._stray(reply, "INV-15", "a hook runs for an agent that is in no registry")
        judge.arrive(reply)
        if reply.gate == "maintenance" and not self.book.holds["maintenance"]:
            self.creation.lives.working.add(reply.agent)
