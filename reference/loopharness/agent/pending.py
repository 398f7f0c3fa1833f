"""The inbox of an agent, as a caller sees it: the two pending lists, and the ways to change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loopharness.frozen import FrozenDict
from loopspec import inbox
from loopspec.inbox import Target

if TYPE_CHECKING:
    from loopharness.agent.agent import Agent

__all__ = ["Inbox", "Message"]

Message = Mapping[str, Any] | str
"""What the sending calls take: a user message, or text that becomes one."""


class Inbox:
    """The two pending lists, and the changes that anyone may make to them (L-IN-1)."""

    __slots__ = ("_agent",)

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def next_turn(self) -> tuple[FrozenDict, ...]:
        """Messages that will each start a turn."""
        return self._agent.messages.all_of(self._agent.core.next_turn)

    @property
    def next_step(self) -> tuple[FrozenDict, ...]:
        """Messages that will join at the next step boundary."""
        return self._agent.messages.all_of(self._agent.core.next_step)

    @property
    def has_pending(self) -> bool:
        """Whether anything waits."""
        return inbox.has_pending(self._agent.core)

    def append(self, target: Target, message: Message) -> None:
        """Insert at the end; nobody is woken."""
        self.splice(target, float("inf"), 0, [message])

    def prepend(self, target: Target, message: Message) -> None:
        """Insert at the front; nobody is woken."""
        self.splice(target, 0, 0, [message])

    def splice(
        self, target: Target, start: float, delete_count: float, inserted: Sequence[Message] = ()
    ) -> tuple[FrozenDict, ...]:
        """Remove and insert in one change; answers the removed messages (L-IN-4 to L-IN-8).

        Coordinates are clamped into the list; a negative start counts from its end. Raises `ValueError` for an
        id that would be pending twice, `SessionDataError` for data that is not lossless JSON, `RuntimeError`
        from inside a record's observer.
        """
        core = self._agent.core
        items = inbox.pending(core, target)
        first, count = inbox.normalised(len(items), start, delete_count)
        leaving = items[first : first + count]
        removed = self._agent.messages.all_of(leaving)
        numbers = self._agent.offer(inserted, leaving)
        self._agent.call("splice", target, start, delete_count, numbers)
        return removed

    def replace(self, id: str, message: Message) -> bool:
        """Put another message in the place of a pending one; false when that is not pending (L-IN-10)."""
        old = self._agent.number_of(id)
        (new,) = self._agent.offer([message], (old,))
        return bool(self._agent.call("replace", old, new))

    def remove(self, id: str) -> bool:
        """Take a pending message out; false when it is not pending (L-IN-11)."""
        return bool(self._agent.call("remove", self._agent.number_of(id)))

    def clear(self) -> None:
        """Discard everything: next-step first, then next-turn (L-IN-12)."""
        self._agent.call("clear_inbox")
