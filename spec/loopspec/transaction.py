"""What the creation machine remembers: fibers, transactions, and the two registries.

A *transaction* is one create or resume, from its call until it has been rolled back or its live agent has been torn
down. Its number also names its session, its agent and its handle. Numbers, ids and fibers are given by the caller in
order of first use; a transaction that has ended is forgotten, and its number is never used again.

The agent's own driver is summed up in one word: it is idle or busy, a wake makes it busy, and a drain waits until it
is idle. `loopspec.driver` is the machine of what happens in between.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from loopspec.kernel.machine import state
from loopspec.profile import Law
from loopspec.registry import Entries

Numbers = tuple[int, ...]
FiberState = Literal["active", "unloading", "gone"]

AGENTS, PROVIDER = 0, 1
"""The fibers of the agents service and of the provider. Callers' fibers have the numbers from 2."""

NOWHERE = -1
"""In place of a fiber that ended before it could join (`loopspec.fibers`): it takes nothing."""

Owner = tuple[Literal["fiber", "agent"], int]
"""Who owns a transaction: a fiber, or the scope of another transaction's agent."""

Verb = Literal["create", "create_now", "resume"]

Driver = Literal["absent", "shut", "latched", "idle", "busy", "hung", "drained", "loose"]
"""`absent`: not built. `shut`: not started yet, `latched` when a wake is kept for the start. `hung`: it will never be
idle. `drained`: idle for good, because its disposal found it so. `loose`: its cancel was refused, and nobody follows
it any more (L-DSP-4)."""

Scope = Literal["none", "open", "unwinding", "gone"]
Public = Literal["pending", "resolved", "rejected"]


@state
class Transaction(NamedTuple):
    """One create or resume."""

    number: int
    id: int
    owner: Owner
    verb: Verb
    reason: str = ""
    """Why it was deactivated: `caller`, `owner`, `provider` or `teardown`; the first one stays (C-ABT-3)."""
    begun: bool = False
    """Somebody has asked for the teardown (a caller's abort alone does not)."""
    cancelled: bool = False
    """The agent has been cancelled with cause `disposed`."""
    scope: Scope = "none"
    driver: Driver = "absent"
    awaits: tuple[Any, ...] = ()
    """An owner whose teardown this agent's running activity waits for; empty when it waits for nothing of ours."""
    public: Public = "pending"
    """What became of the promise (or the synchronous call) of create or resume."""
    gone: bool = False
    """The teardown has settled; only the rejection of the public promise is owed."""

    def put(self, **changes: Any) -> Transaction:
        """A copy with some fields changed."""
        return self._replace(**changes)


@state
class Creation(NamedTuple):
    """The core state of the creation machine."""

    law: Law
    fibers: tuple[FiberState, ...] = ("active", "active", "active")
    members: tuple[Transaction, ...] = ()
    sessions: Entries = ()
    agents: Entries = ()
    threw: bool = False
    """An error came out of the dispatch whose window is open; read and cleared by the rule after it."""

    def put(self, **changes: Any) -> Creation:
        """A copy with some fields changed."""
        return self._replace(**changes)


# --- reading and changing ------------------------------------------------------------------------------------


def find(s: Creation, number: int) -> Transaction | None:
    """A transaction that has not ended, or `None`."""
    for t in s.members:
        if t.number == number:
            return t
    return None


def member(s: Creation, number: int) -> Transaction:
    """A transaction that is known not to have ended. Raises `KeyError` for one that has."""
    t = find(s, number)
    if t is None:
        raise KeyError(f"transaction {number} has ended, or has never begun")
    return t


def with_member(s: Creation, t: Transaction, **changes: Any) -> Creation:
    """The state with one transaction changed."""
    after = t.put(**changes)
    return s.put(members=tuple(after if kept is t else kept for kept in s.members))


def without(s: Creation, t: Transaction) -> Creation:
    """The state after a transaction has been forgotten (C-TDN-10)."""
    return s.put(members=tuple(kept for kept in s.members if kept is not t))


def is_gone(s: Creation, number: int) -> bool:
    """Its teardown has settled."""
    t = find(s, number)
    return t is None or t.gone


def is_busy(t: Transaction) -> bool:
    """Its agent's driver runs: an initiator boundary is open (C-INI-5)."""
    return t.driver in ("busy", "hung")


def with_fiber(s: Creation, fiber: int, state: FiberState) -> Creation:
    """The state with one fiber changed, or with one more."""
    return s.put(fibers=(*s.fibers[:fiber], state, *s.fibers[fiber + 1 :]))


def owned_by_fiber(s: Creation, fiber: int) -> Numbers:
    """The transactions of a fiber that are not gone, newest first (C-DSP-7)."""
    return tuple(t.number for t in reversed(s.members) if t.owner == ("fiber", fiber) and not t.gone)


def children_of(s: Creation, number: int) -> Numbers:
    """The transactions that the scope of an agent owns and that are not gone, newest first (C-OWN-3)."""
    return tuple(t.number for t in reversed(s.members) if t.owner == ("agent", number) and not t.gone)


def owner_agent(t: Transaction) -> int:
    """The owner agent of a transaction's agent, or 0 (C-TXN-C3)."""
    return t.owner[1] if t.owner[0] == "agent" else 0


def owner_state(s: Creation, owner: Owner) -> FiberState:
    """Whether an owner takes new effects (C-DSP-8, C-TDN-16): a fiber, or the scope of an agent."""
    if owner[0] == "fiber":
        return "gone" if owner[1] == NOWHERE else s.fibers[owner[1]]
    t = find(s, owner[1])
    if t is None or t.scope in ("none", "gone"):
        return "gone"
    return "active" if t.scope == "open" else "unloading"
