"""Messages and their numbers: the machine moves numbers, the harness keeps what they stand for."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from loopharness.frozen import FrozenDict, NotJsonError, freeze
from loopharness.session import SessionDataError
from loopspec.inbox import Ids

__all__ = ["CauseKind", "Messages", "accepted", "random_id", "user_message"]


def random_id() -> str:
    """A fresh id, as live messages get it (S-MSG-1)."""
    return str(uuid.uuid4())


def user_message(text: str, **source: Any) -> dict[str, Any]:
    """A human prompt as a message: fresh id, one text block, source kind `user` plus the given fields (S-MSG-5)."""
    return {
        "id": random_id(),
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "source": {"kind": "user", **source},
    }


class CauseKind(str):
    """A cancel cause as the machine sees it: its kind. It carries the caller's object along (L-CAN-3)."""

    __slots__ = ("cause",)
    cause: Mapping[str, Any]

    @classmethod
    def of(cls, cause: Mapping[str, Any]) -> CauseKind:
        """Wrap a cause `{kind, …}`. Raises `ValueError` for one that the log could not record (L-VOC-4)."""
        kind = cause.get("kind")
        if kind not in ("user", "parent", "hook", "disposed"):
            raise ValueError(f"cancel cause kind must be user, parent, hook or disposed, not {kind!r}")
        if kind == "hook" and not isinstance(cause.get("reason"), str):
            raise ValueError("a hook cause needs a reason: {'kind': 'hook', 'reason': '…'}")
        made = cls(kind)
        made.cause = cause
        return made


class Messages:
    """The payload of every number that the machine may still mention.

    A number stands for one version of one message: pending, or of the batch that is about to enter history.
    Numbers are not used twice. Which of them are pending, only the machine knows.
    """

    __slots__ = ("_by_id", "_by_number", "_last", "clash")

    def __init__(self) -> None:
        self.clash = ""
        """The id of the last message offered that was pending already, or offered twice at once."""
        self._last = 0
        self._by_number: dict[int, FrozenDict] = {}
        self._by_id: dict[str, list[int]] = {}

    def offer(self, messages: Iterable[Mapping[str, Any]], pending: Ids, leaving: Ids = ()) -> Ids:
        """Freeze messages that want to become pending, and number them (L-VOC-2, L-IN-8).

        An id that is pending, or occurs twice here, gets the number it has, so that the machine sees the clash;
        unless that one is among `leaving`, the messages that the same splice removes (L-IN-6). Raises
        `SessionDataError` for data that is not lossless JSON, `ValueError` for what is no message.
        """
        frozen = [accepted(message) for message in messages]
        offered: dict[str, int] = {}
        numbers = []
        for message in frozen:
            id = message["id"]
            number = offered.get(id) or self.number_of(id, pending)
            if not number or (number in leaving and id not in offered):
                number = self.number(message)
            else:
                self.clash = id
            offered[id] = number
            numbers.append(number)
        return tuple(numbers)

    def number_of(self, id: str, pending: Ids) -> int:
        """The number under which a message id is pending, 0 when it is not."""
        return next((number for number in self._by_id.get(id, ()) if number in pending), 0)

    def number(self, message: FrozenDict) -> int:
        """A fresh number for a message."""
        self._last += 1
        self._by_number[self._last] = message
        self._by_id.setdefault(message["id"], []).append(self._last)
        return self._last

    def of(self, number: int) -> FrozenDict:
        """The payload of a number."""
        return self._by_number[number]

    def all_of(self, numbers: Ids) -> tuple[FrozenDict, ...]:
        """The payloads of several numbers, in order."""
        return tuple(self._by_number[number] for number in numbers)

    def drop(self, number: int) -> None:
        """The machine will not mention this number again."""
        message = self._by_number.pop(number, None)
        if message is None:
            return
        versions = self._by_id[message["id"]]
        versions.remove(number)
        if not versions:
            del self._by_id[message["id"]]


def accepted(message: Mapping[str, Any]) -> FrozenDict:
    """The frozen snapshot of a message that wants to become pending.

    Raises `SessionDataError` with the text of the record that it would have been in (L-LOG-4), or `ValueError`
    saying which field is wrong (L-VOC-2, S-MSG-1).
    """
    try:
        frozen = message if isinstance(message, FrozenDict) else freeze(dict(message))
    except NotJsonError as error:
        text = 'session event "agent/inbox/spliced" carries non-JSON-serializable data'
        raise SessionDataError(text) from error
    check_message(frozen)
    return frozen


ROLES: Final = frozenset({"user"})


def check_message(message: Mapping[str, Any]) -> None:
    """Refuse what cannot be a `UserMessage` (L-VOC-2, S-MSG-1), saying which field is wrong."""
    if not isinstance(message.get("id"), str) or not message["id"]:
        raise ValueError("a message needs an id, a non-empty string; loopharness.user_message makes one")
    if message.get("role") not in ROLES:
        raise ValueError(f"message {message['id']!r}: role must be 'user', not {message.get('role')!r}")
    if not isinstance(message.get("content"), tuple):
        raise ValueError(f"message {message['id']!r}: content must be a list of blocks")
    source = message.get("source")
    if not isinstance(source, dict) or not isinstance(source.get("kind"), str) or not source["kind"]:
        raise ValueError(f"message {message['id']!r}: source must be an object with a kind")
