"""Fresh creates where sessions are stored: who may have an id that a stored session has, or that a resume is after."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from loopconform.judge.storage import Is, Storage
from loopspec.transaction import Creation


class StoredIds:
    """C-RES-7 to C-RES-9, R-64  What the storage says to the creates of one world."""

    def __init__(self, storage: Storage | None, creates: Mapping[int, Any], id: Callable[[str], int]) -> None:
        """`creates`: the operation of each transaction; `id`: the number of an agent's id."""
        self._storage = storage if storage is not None and storage.is_there else None
        self._creates = creates
        self._id = id

    def taken(self, core: Creation, number: int) -> Is | Literal["waits"]:
        """C-RES-8, C-RES-9  Whether what is stored has the id of a fresh create, which is refused then before anything
        is composed; it may wait for a resume of that id first."""
        op = self._creates[number]
        if self._storage is None or not core.law.stored_ids_are_refused or op.op not in ("create", "fork"):
            return "no"
        return "waits" if self._is_reserved(core, op.agent) else self._storage.holds(op.agent)

    def is_vetoed(self, core: Creation, number: int) -> bool:
        """C-RES-8  The storage refuses to hear of a fresh session whose id a resume has reserved."""
        op = self._creates[number]
        return op.op != "resume" and self._storage is not None and self._is_reserved(core, op.agent)

    def _is_reserved(self, core: Creation, agent: str) -> bool:
        """C-RES-7  A resume of this id is under way."""
        id = self._id(agent)
        return any(t.id == id and t.verb == "resume" and t.public == "pending" and not t.reason for t in core.members)
