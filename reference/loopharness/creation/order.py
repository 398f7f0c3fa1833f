"""What is asked for: a create or a resume, with everything that it needs from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from loopharness.agent import AgentOptions
from loopharness.bus import Context
from loopharness.session import Session
from loopharness.signal import Signal
from loopspec.transaction import Verb

__all__ = ["Composition", "Order", "Setup", "Storage"]


class Composition(Protocol):
    """What a setup may answer: its `commit()` runs once, just before the agent is published (C-TXN-B2)."""

    def commit(self) -> object:
        """Make the composition final. Must be undone by the end of the scope."""


Setup = Callable[[Context], "Composition | Awaitable[Composition | None] | None"]
"""Composes an unpublished agent through its scoped context: tools, prompt sections, listeners (C-SET-1)."""


class Storage(Protocol):
    """What the transactions need of a store of sessions."""

    async def reserve(self, session_id: str) -> None:
        """Refuse the id of a fresh session that is stored already."""

    async def close(self, session: Session) -> None:
        """Drain a session and let go of it."""

    def release(self, session_id: str) -> None:
        """Give back a session that was opened and not published."""


@dataclass
class Order:
    """What was asked for."""

    verb: Verb
    id: str
    owner: Context
    options: AgentOptions = field(default_factory=AgentOptions)
    setup: Setup | None = None
    signal: Signal | None = None
    source: Literal["startup", "resume"] = "startup"
    session: Session | None = None
    """The private session of a create."""
    load: Callable[[], Awaitable[Session]] | None = None
    """Gets the private session of a resume."""
    flaw: str = ""
    """What is wrong with the inputs, for the machine; `fault` is the error behind it."""
    fault: Exception | None = None
    storage: Storage | None = None
