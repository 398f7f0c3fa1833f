"""Replay state is an adapter's private note about its own answer; nobody else may see it (M-107, M-435)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from loopharness.frozen import FrozenDict, FrozenList
from loopspec.kernel.prefix import Prefix

if TYPE_CHECKING:
    from loopharness.model.service import Request

__all__ = ["without_foreign_replay_state"]


def without_foreign_replay_state(
    request: Request, adapter: object, adapter_of: Callable[[str], object | None]
) -> Request:
    """The request without replay states of providers that another adapter instance serves now (M-435).

    Provider and model of the message stay. Without such a state the request itself is the answer.
    """
    messages = request.get("messages", ())
    cleaned: list[Any] | None = None
    for index in _with_state(request.get("sessionId"), messages):
        source = messages[index]["source"]
        if adapter_of(source.get("provider", "")) is adapter:
            continue
        if cleaned is None:
            cleaned = list(messages)
        kept = FrozenDict({key: value for key, value in source.items() if key != "replayState"})
        cleaned[index] = FrozenDict({**messages[index], "source": kept})
    return request if cleaned is None else type(request)({**request, "messages": FrozenList(cleaned)})


class _Scan:
    """Which messages of a history have been looked at, and where replay states were found."""

    __slots__ = ("found", "looked")

    def __init__(self) -> None:
        self.looked: Prefix[Any] = Prefix()
        self.found: list[int] = []


_scans: dict[object, _Scan] = {}
_KEEP = 64


def _with_state(session_id: object, messages: Any) -> list[int]:
    """The positions of messages with a replay state; each message of a growing history is looked at once."""
    if not isinstance(messages, Prefix):
        return [index for index, message in enumerate(messages) if _has_state(message)]
    scan = _scans.pop(session_id, None)
    known = 0 if scan is None else len(scan.looked)
    if scan is None or known > len(messages) or messages.first(known) != scan.looked:
        scan, known = _Scan(), 0
    for index in range(known, len(messages)):
        if _has_state(messages[index]):
            scan.found.append(index)
    scan.looked = messages
    _scans[session_id] = scan
    if len(_scans) > _KEEP:
        del _scans[next(iter(_scans))]
    return scan.found


def _has_state(message: Any) -> bool:
    source = message.get("source")
    return isinstance(source, Mapping) and "replayState" in source
