"""Teardown: one road from any point of a transaction to nothing, and everybody who may ask for it.

    deactivate, cancel  →  drain  →  unwind the scope  →  detach the agent  →  detach the session

A transaction is one routine from its call to its end, so it is torn down once, whoever asks and how often
(C-TDN-1, INV-17). To **request** a teardown is a short synchronous call: the first reason is kept, the agent is
cancelled, and the routine finds out at its next await point or liveness check. To **join** is to wait at an await
point for the end of that one routine.

The requesters: the handle (`dispose`), the owner's effect (`release`), the unload of an owner fiber, of the provider
or of the agents service (`unload`), the scope of an owner agent as it unwinds, and the transaction's own failure.
The signal of the caller (`abort`) deactivates an unsettled transaction, which then fails (C-ABT-1, C-ABT-5).
"""

from __future__ import annotations

from typing import Any

from loopspec import fibers, registry
from loopspec.kernel.machine import Answer, Frame, Outcome, Rules, go, leave, note, notify, park
from loopspec.transaction import (
    AGENTS,
    PROVIDER,
    Creation,
    Driver,
    Numbers,
    Transaction,
    children_of,
    find,
    is_busy,
    is_gone,
    member,
    owned_by_fiber,
    with_fiber,
    with_member,
    without,
)

rules = Rules(fibers.rules)


# --- guards --------------------------------------------------------------------------------------------------


def may_abort(t: Transaction | None) -> bool:
    """C-ABT-3, C-ABT-5  The signal counts until the promise settles, and only as the first reason."""
    return t is not None and t.public == "pending" and not t.reason


def owes_cancel(t: Transaction) -> bool:
    """C-TDN-3, C-TDN-4  There is an agent, and nobody has cancelled it for its disposal yet."""
    return t.driver != "absent" and not t.cancelled


def may_be_refused(s: Creation, number: int) -> bool:
    """L-DSP-4, L-LOG-3  A record of its session is being published: the log may refuse what the cancel writes."""
    entry = registry.entry_of(s, "session", number)
    return not s.law.disposal_outlives_refusal and entry is not None and entry.appending


def joined(s: Creation, numbers: Numbers) -> Numbers:
    """N-2, C-OWN-9  Whose end an owner waits for: all of its own, or only those that nobody else tears down."""
    if s.law.every_owner_joins:
        return numbers
    return tuple(number for number in numbers if not member(s, number).begun)


# --- requests ------------------------------------------------------------------------------------------------


@rules("request")
def request(s: Creation, number: int, why: str, then: Frame) -> Outcome[Creation]:
    """C-ABT-1, C-ABT-3, C-TDN-2  Deactivate with the first reason; a transaction that has ended is left alone."""
    t = find(s, number)
    if t is None or t.gone:
        return go(s, then)
    if t.reason:
        return go(with_member(s, t, begun=True), ("stop", number, then))
    asked = with_member(s, t, reason=why, begun=True)
    return note(asked, ("deactivate", number, why), ("stop", number, then))


@rules("stop")
def stop(s: Creation, number: int, then: Frame) -> Outcome[Creation]:
    """C-TDN-4, R-39, L-WAKE-4  Cancel with cause `disposed`, once, inside the requesting call: pending input goes with
    it, and a wake that was kept for it."""
    t = member(s, number)
    if not owes_cancel(t):
        return go(s, then)
    driver: Driver = "shut" if t.driver == "latched" else t.driver
    following: Frame = ("heard_cancel", number, then) if may_be_refused(s, number) else ("stopped", then)
    return notify(with_member(s, t, cancelled=True, driver=driver), ("cancel", number), following)


@rules("stopped")
def stopped(s: Creation, then: Frame) -> Outcome[Creation]:
    """C-DSP-4  Listeners of a cancel are contained."""
    return go(s.put(threw=False), then)


@rules("heard_cancel")
def heard_cancel(s: Creation, number: int, then: Frame) -> Outcome[Creation]:
    """L-DSP-4  Published loops only: a refused cancel ends the road at once. The driver goes on, in no registry."""
    if not s.threw:
        return go(s, ("stopped", then))
    loose = with_member(s.put(threw=False), member(s, number), driver="loose")
    return go(loose, ("detach", "agent", number, ("detach", "session", number, ("stopped", then))))


@rules("dispose")
def dispose(s: Creation, number: int) -> Outcome[Creation]:
    """C-HND-1, C-REE-1, R-32  The handle: answers the promise of the one teardown, also when it is long over."""
    return go(s, ("request", number, "teardown", ("answer", ("promise", number))))


@rules("release")
def release(s: Creation, number: int) -> Outcome[Creation]:
    """C-OWN-6, R-20 to R-22  The owner's lifecycle effect, run by itself."""
    return go(s, ("request", number, "owner", ("answer", ("promise", number))))


@rules("abort")
def abort(s: Creation, number: int) -> Outcome[Creation]:
    """C-ABT-4, C-ABT-5  The caller's signal deactivates at once, and means nothing after the promise settled."""
    t = find(s, number)
    if t is None or not may_abort(t):
        return leave(s, ("return", None))
    return note(with_member(s, t, reason="caller"), ("deactivate", number, "caller"), ("answer", None))


# --- the road ------------------------------------------------------------------------------------------------


@rules("fail")
def fail(s: Creation, number: int, why: str) -> Outcome[Creation]:
    """C-RBK-1 to C-RBK-3, C-SYN-3  Roll back; only the synchronous create is told before that is done."""
    t = member(s, number)
    if t.verb == "create_now":
        return note(with_member(s, t, public="rejected"), ("reject", number, why), ("tear_down", number, ""))
    return go(s, ("tear_down", number, why))


@rules("tear_down")
def tear_down(s: Creation, number: int, why: str) -> Outcome[Creation]:
    """C-TDN-2 to C-TDN-4  `why` is what the public promise will be rejected with; empty when it has settled.

    L-DSP-4: a teardown whose cancel was refused has left the registries already, and fails.
    """
    if member(s, number).driver == "loose":
        return go(s, ("end", number, "disposal" if why else "", "rejected"))
    return go(s, ("request", number, "teardown", ("drain", number, why)))


@rules("drain")
def drain(s: Creation, number: int, why: str) -> Outcome[Creation]:
    """C-TDN-5  Wait until the agent is idle, without limit; an agent that was never built has nothing to drain."""
    if member(s, number).driver == "absent":
        return go(s, ("unwind", number, why))
    return park(s, ("drain", number), ("drained", number, why))


@rules("drained")
def drained(s: Creation, number: int, why: str, answer: Answer) -> Outcome[Creation]:
    """C-TDN-5, INV-15  From here on the agent does nothing any more."""
    return go(with_member(s, member(s, number), driver="drained"), ("unwind", number, why))


@rules("unwind")
def unwind(s: Creation, number: int, why: str) -> Outcome[Creation]:
    """C-TDN-7  The scope begins to unwind, unless somebody has begun that already or there is none."""
    t = member(s, number)
    if t.scope == "none":
        return go(s, ("leave_registries", number, why))
    if t.scope != "open":
        return go(s, ("await_scope", number, (), why))
    children = children_of(s, number)
    begun = with_member(s, t, scope="unwinding")
    following = ("orphan", children, ("await_scope", number, joined(s, children), why))
    return note(begun, ("unwind", number), following)


@rules("orphan")
def orphan(s: Creation, rest: Numbers, then: Frame) -> Outcome[Creation]:
    """C-OWN-3, R-60, R-61  Agents that are owned by this scope are torn down in its unwind, newest first."""
    if rest:
        return go(s, ("request", rest[0], "owner", ("orphan", rest[1:], then)))
    return go(s, then)


@rules("await_scope")
def await_scope(s: Creation, number: int, waited: Numbers, why: str) -> Outcome[Creation]:
    """C-TDN-7, INV-21  Its asynchronous cleanups are awaited, the ends of the children among them."""
    return park(s, ("scope", number, waited), ("unscoped", number, why))


@rules("unscoped")
def unscoped(s: Creation, number: int, why: str, answer: Answer) -> Outcome[Creation]:
    """C-TDN-7, K42  A cleanup that throws is a warning, whatever it was."""
    return go(with_member(s, member(s, number), scope="gone"), ("leave_registries", number, why))


@rules("leave_registries")
def leave_registries(s: Creation, number: int, why: str) -> Outcome[Creation]:
    """C-TDN-8  The agent first, its session still being stored."""
    return go(s, ("detach", "agent", number, ("agent_left", number, why)))


@rules("agent_left")
def agent_left(s: Creation, number: int, why: str) -> Outcome[Creation]:
    """C-TDN-9, C-TDN-14, N-4  Then the session, always; published loops stop at a failed dispatch."""
    if s.threw:
        replaced = "disposal" if why else ""
        return go(s.put(threw=False), ("end", number, replaced, "rejected"))
    return go(s, ("detach", "session", number, ("end", number, why, "fulfilled")))


@rules("end")
def end(s: Creation, number: int, why: str, how: str) -> Outcome[Creation]:
    """C-TDN-1, C-TDN-10  The one teardown promise settles; a public promise that is still open follows it."""
    t = member(s, number)
    if t.public == "pending":
        return note(with_member(s, t, gone=True), ("gone", number, how), ("roll_back", number, why))
    return leave(without(s, t), ("gone", number, how))


@rules("roll_back")
def roll_back(s: Creation, number: int, why: str) -> Outcome[Creation]:
    """C-RBK-3  The create call itself awaits the rollback that it caused."""
    return park(s, ("rollback", number), ("reject", number, why))


@rules("reject")
def reject(s: Creation, number: int, why: str, answer: Answer) -> Outcome[Creation]:
    """C-RBK-2, C-RBK-3  The original failure, delivered when neither registry holds anything of this transaction."""
    return leave(without(s, member(s, number)), ("reject", number, why))


# --- unloads -------------------------------------------------------------------------------------------------


@rules("unload")
def unload(s: Creation, fiber: int) -> Outcome[Creation]:
    """C-ABT-4, C-INI-7  The fiber takes nothing new from now on; what it does about the old comes a tick later."""
    if s.fibers[fiber] != "active":
        return leave(s, ("return", None))
    return note(with_fiber(s, fiber, "unloading"), ("closing", fiber), ("await_tick", fiber))


@rules("await_tick")
def await_tick(s: Creation, fiber: int) -> Outcome[Creation]:
    """C-DSP-7  `dispose()` of a fiber returns before any of its disposers runs."""
    return park(s, ("tick", fiber), ("unloading", fiber))


@rules("unloading")
def unloading(s: Creation, fiber: int, answer: Answer) -> Outcome[Creation]:
    """C-OWN-6, C-OWN-7, C-OWN-11  An owner asks its own, the provider asks all, the service asks the provider."""
    if fiber == AGENTS:
        if s.fibers[PROVIDER] == "active":
            return note(with_fiber(s, PROVIDER, "unloading"), ("closing", PROVIDER), ("sweep_all", AGENTS))
        return park(s, ("unload", AGENTS, ()), ("provider_gone",))
    if fiber == PROVIDER:
        return go(s, ("sweep_all", PROVIDER))
    own = owned_by_fiber(s, fiber)
    return go(s, ("sweep", own, "owner", ("await_all", fiber, joined(s, own), fiber)))


@rules("sweep_all")
def sweep_all(s: Creation, asking: int) -> Outcome[Creation]:
    """C-OWN-7, N-3  Every transaction is deactivated; published loops unwind all scopes without waiting for drains."""
    everything = tuple(t.number for t in reversed(s.members))
    join: Frame = ("await_all", PROVIDER, everything, asking)
    if not s.law.provider_keeps_order:
        join = ("unwind_all", everything, join)
    return go(s, ("sweep", everything, "provider", join))


@rules("sweep")
def sweep(s: Creation, rest: Numbers, why: str, then: Frame) -> Outcome[Creation]:
    """C-DSP-7  Newest first, each one asked before anybody is waited for."""
    if rest:
        return go(s, ("request", rest[0], why, ("sweep", rest[1:], why, then)))
    return go(s, then)


@rules("unwind_all")
def unwind_all(s: Creation, rest: Numbers, then: Frame) -> Outcome[Creation]:
    """C-OWN-10  Published loops only: scopes are children of the provider's fiber and unwind with it, at once."""
    if not rest:
        return go(s, then)
    t = find(s, rest[0])
    if t is None or t.scope != "open":
        return go(s, ("unwind_all", rest[1:], then))
    children = children_of(s, t.number)
    following = ("orphan", children, ("unwind_all", rest[1:], then))
    return note(with_member(s, t, scope="unwinding"), ("unwind", t.number), following)


@rules("await_all")
def await_all(s: Creation, fiber: int, waited: Numbers, asking: int) -> Outcome[Creation]:
    """C-OWN-6, C-OWN-7, INV-20  Wait for the teardowns; the provider also for every public promise it handed out."""
    return park(s, ("unload", fiber, waited), ("unloaded", fiber, asking))


@rules("unloaded")
def unloaded(s: Creation, fiber: int, asking: int, answer: Answer) -> Outcome[Creation]:
    """INV-20  The fiber is gone, and what it owned is."""
    s = with_fiber(s, fiber, "gone")
    if asking == AGENTS:
        return note(s, ("unloaded", fiber), ("close_agents",))
    return leave(s, ("unloaded", fiber))


@rules("provider_gone")
def provider_gone(s: Creation, answer: Answer) -> Outcome[Creation]:
    """C-OWN-11  The provider was unloading by itself, and has ended."""
    return go(s, ("close_agents",))


@rules("close_agents")
def close_agents(s: Creation) -> Outcome[Creation]:
    """C-INI-7, C-INI-8  The initiator scope waits for every boundary that is still open."""
    return park(s, ("boundaries",), ("agents_closed",))


@rules("agents_closed")
def agents_closed(s: Creation, answer: Answer) -> Outcome[Creation]:
    """C-INI-7, INV-30  Now the service is gone, and its scope cannot be read any more."""
    return leave(with_fiber(s, AGENTS, "gone"), ("unloaded", AGENTS))


# --- what may be waited for ----------------------------------------------------------------------------------


def have_ended(s: Creation, numbers: Numbers) -> bool:
    """All these teardowns have settled."""
    return all(is_gone(s, number) for number in numbers)


def is_over(s: Creation, point: tuple[Any, ...]) -> bool:
    """Whether a join may be answered: what it waits for has happened.

    `drain`: the agent is not busy. `scope`: the joined children are gone (its other cleanups are the interpreter's).
    `unload` of an owner: the joined teardowns have settled; of the provider: the public promises too; of the agents
    service: the provider is gone. `boundaries`: no driver runs. `rollback` and `tick` are over at once.
    """
    name = point[0]
    if name == "drain":
        return not is_busy(member(s, point[1]))
    if name == "scope":
        return have_ended(s, point[2])
    if name == "unload":
        if point[1] == AGENTS:
            return s.fibers[PROVIDER] == "gone"
        if point[1] == PROVIDER:
            return all(find(s, number) is None for number in point[2])
        return have_ended(s, point[2])
    if name == "boundaries":
        return not any(is_busy(t) for t in s.members)
    return True
