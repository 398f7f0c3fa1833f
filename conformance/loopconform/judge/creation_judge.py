"""The life of all agents followed with `loopspec.creation`."""

from __future__ import annotations

from typing import Any

from loopconform.judge.points import Book
from loopspec.profile import Law

CREATION_EVENTS = frozenset(
    ("session/created", "session/disposed", "agent/created", "agent/session-start", "agent/disposed")
)
CREATION_GATES = frozenset(("setup", "load", "unwind", "flush"))


class CreationJudge:
    """Not yet."""

    def __init__(self, book: Book, law: Law) -> None:
        self.book = book

    def ask(self, id: int, ops: tuple[int, ...], inside: bool = False) -> None: ...
    def plan(self, id: int) -> None: ...
    def release(self, id: int, request: Any) -> None: ...
    def show(self, reply: Any) -> None: ...
    def ended(self, reply: Any) -> None: ...
    def promise(self, reply: Any) -> None: ...
    def arrive(self, reply: Any) -> None: ...
    def done(self, id: int) -> None: ...
    def settle(self, reply: Any) -> None: ...
