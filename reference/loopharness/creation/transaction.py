"""One create or resume under way, and the handle of the agent that it makes."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import anyio

from loopharness.agent import Agent
from loopharness.bus import Context, Effect
from loopharness.creation.engine import Item
from loopharness.creation.errors import refusal
from loopharness.creation.order import Order
from loopharness.creation.promise import Promise
from loopharness.signal import AbortController
from loopspec.kernel.machine import Answer

if TYPE_CHECKING:
    from loopharness.creation.transactions import Transactions

__all__ = ["AgentHandle", "Transaction"]


class Transaction(Item):
    """One create or resume with everything that belongs to it."""

    __slots__ = (
        "caller",
        "composition",
        "ended",
        "failure",
        "handled",
        "kept",
        "loading",
        "order",
        "outcome",
        "owner_effect",
        "public",
        "scope",
        "started",
        "stop",
        "unhook",
        "unwound",
    )

    def __init__(self, number: int, id: int, name: str) -> None:
        super().__init__(number, id, name)
        self.order: Order
        self.public: Promise[AgentHandle] = Promise()
        self.ended: Promise[None] = Promise()
        self.handled = False
        """Somebody holds the promise of the teardown."""
        self.scope: Context | None = None
        self.owner_effect: Effect | None = None
        self.unhook: Callable[[], None] | None = None
        self.caller: contextvars.Context = contextvars.copy_context()
        self.composition: Any = None
        self.loading: anyio.CancelScope | None = None
        """Around the load of a resume."""
        self.outcome: Answer | None = None
        """How the load, the setup or an awaited dispatch came out; `None` while it is open."""
        self.started = False
        """The gate of the driver is open (N-1)."""
        self.kept = False
        """A wake waits for the gate to open."""
        self.stop = AbortController()
        """Tells the listeners of an awaited `agent/created` that they are waited for in vain (C-EVT-2, C-REE-5)."""
        self.unwound = False
        self.failure: Exception | None = None
        """What the store could not write at the end."""

    def rejection(self, why: str) -> Exception:
        """Why it failed, for its caller: `why` as the machine has it (C-TXN-B)."""
        own = {
            "seed": self.error("inputs"),
            "options": self.error("inputs"),
            "not-found": self.error("load"),
            "mint": self.error("mint"),
            "setup": self.error("setup"),
            "commit": self.error("commit"),
            "created": self.error("session/created", "agent/created", "agent/session-start"),
            "disposal": self.error("cancel", "agent/disposed"),
            "caller": self._abort_reason(),
        }.get(why)
        return own or refusal(why, self.name, "agent" if why == "agent-exists" else "session")

    def _abort_reason(self) -> Exception:
        reason = self.order.signal.reason if self.order.signal is not None else None
        if isinstance(reason, Exception):
            return reason
        error = refusal("caller", self.name)
        error.reason = reason  # type: ignore[attr-defined]
        return error


class AgentHandle:
    """The only way for a consumer to end an agent (C-HND-1, C-OWN-1)."""

    __slots__ = ("_transaction", "_transactions", "agent")

    def __init__(self, transactions: Transactions, transaction: Transaction) -> None:
        assert transaction.agent is not None
        self.agent: Final[Agent] = transaction.agent
        self._transactions = transactions
        self._transaction = transaction

    def dispose(self) -> Promise[None]:
        """Ask for the end of the agent, at once; await the answer for the end itself (C-TDN-1, C-REE-1).

        Everybody gets the same promise. Do not await it from work of the agent itself: the disposal waits for that
        work (C-REE-2).
        """
        return self._transactions.dispose(self._transaction)

    def __repr__(self) -> str:
        return f"<AgentHandle {self.agent.id}>"
