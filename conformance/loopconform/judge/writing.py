"""The gate `flush`: who waits there with a batch, who should, and what waits for that batch.

A batch holds what a session has appended and the storage has not; while it stands, more may be appended behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loopconform.judge.chronicle import Chronicle
from loopconform.judge.storage import Storage

ROUTINE = frozenset(
    (
        "turn/start",
        "turn/end",
        "step/start",
        "step/end",
        "user/message",
        "system/message",
        "request/header",
        "request/context",
        "assistant/chunk",
        "assistant/message",
        "assistant/attempt",
        "tool/call",
        "tool/result",
    )
)


class Writing:
    """The batches that stand at the gate, one for each session at most."""

    def __init__(self, storage: Storage, holds: bool) -> None:
        """`holds`: whether the gate does."""
        self._storage = storage
        self._holds = holds
        self.standing: set[str] = set()
        self._released: set[str] = set()
        """Sessions of which a batch has gone on since nothing ran: all that they had appended may be written."""

    def wrong_arrival(self, agent: str) -> str:
        """Why no batch of this session may arrive now; empty when one may, and does."""
        if not self._holds or agent in self.standing:
            return "no batch may stand at the gate flush here"
        self.standing.add(agent)
        return ""

    def release(self, agent: str) -> None:
        """The batch of a session goes on."""
        self.standing.discard(agent)
        self._released.add(agent)

    def wrong_rest(self, shown: Iterable[str]) -> str:
        """S-DSK-32  Why these sessions cannot be those whose batches stand when nothing runs; empty when they are."""
        if sorted(shown) != sorted(self.standing):
            return f"at the gate flush stand {sorted(shown)}; the law says: {sorted(self.standing)}"
        owed = [id for id in self._storage.unwritten() if id not in self.standing | self._released]
        self._released.clear()
        return f"nobody writes what {owed[0]!r} has appended" if self._holds and owed else ""


class Barrier:
    """S-DSK-33  What an agent's routine has appended is durable before a pre-step, a request and a tool body.

    How much of a log is durable is known as a bound: whatever there was when the last batch was let go.
    """

    def __init__(self, chronicle: Chronicle) -> None:
        """What the agent begins with is taken to be durable."""
        self._chronicle = chronicle
        self._durable = len(chronicle.events)
        self.is_shut = False
        """A batch stands, and nothing else runs: whatever waits for a barrier may wait for that batch."""
        self.is_lifted = False
        """As if there were no barrier: to see whether it is the reason why something may not be."""

    def written(self) -> None:
        """A batch goes on: it may take everything along that there is."""
        self._durable = len(self._chronicle.events)

    def bars(self, call_id: str | None = None) -> bool:
        """Whether the routine cannot go on with a pre-step or request yet, or with the body of this call."""
        if self.is_lifted:
            return False
        events = enumerate(self._chronicle.events, 1)
        needed = [length for length, event in events if _is_the_routine_s(event, call_id)]
        return self.is_shut or bool(needed and needed[-1] > self._durable)


def _is_the_routine_s(event: Mapping[str, Any], call_id: str | None) -> bool:
    """Whether the agent's own routine has appended this; for a call, its start."""
    kind, data = event["type"], event["data"]
    if call_id is not None:
        return bool(kind == "tool/call" and data["callId"] == call_id)
    if kind == "agent/inbox/spliced":
        return not data["inserted"] and "outcome" not in data  # a claim
    return kind in ROUTINE
