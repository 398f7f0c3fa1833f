"""The gate `flush`: who waits there with a batch, and who should.

A batch holds what a session has appended and the storage has not; while it stands, more may be appended behind it. What
it guards (steps, requests, tool bodies; S-DSK-33) is not followed: cases that hold it drive no agent.
"""

from __future__ import annotations

from collections.abc import Iterable

from loopconform.judge.storage import Storage


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
