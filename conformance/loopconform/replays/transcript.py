"""What an adapter showed of one agent: as the rows of a trace, and as labels of the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from loopconform.runner.results import Message
from loopconform.tla.trace import LIVE, PIECES, Numbers, traces_of

Label = tuple[Any, ...]

UNCOMPARED = ("job", "tools/execute", "tools/result")
"""Events that are not reported, or not with everything that the model says of them."""


def rows_of(messages: Iterable[Message], agent: str) -> Iterator[dict[str, Any]]:
    """The records of an agent as they are, and its live events as rows of the type `live`, in order."""
    for who, body in messages:
        if who != "adapter" or body.get("agent") != agent:
            continue
        if body["type"] == "record":
            yield body["event"]
        elif body["type"] == "live":
            yield {"type": LIVE, "name": body["name"], "data": body.get("data", {})}


class _Named(Numbers):
    """Messages by the number in their name: `m3` is 3."""

    def of(self, message: Any) -> int:
        id = str(message.get("id")) if isinstance(message, dict) else str(message)
        return int(id[1:]) if id[1:].isdigit() else super().of(message)


def labels_of(messages: Iterable[Message], agent: str, session_format: int) -> list[Label]:
    """The labels of what an adapter showed of an agent. Raises `loopconform.tla.trace.Unreadable`."""
    header = {"type": "session", "version": 4 if session_format == 4 else 1}
    traces = traces_of(agent, header, enumerate(rows_of(messages, agent), 1), _Named())
    return whole([row.label for trace in traces for row in trace.rows])


def visible(labels: Iterable[Label], has_batches: bool) -> list[Label]:
    """What of a run an adapter can show. Without batches, what the tools write is left out."""
    shown = []
    for label in labels:
        if label[0] not in ("append", "notify") or label[1] in UNCOMPARED:
            continue
        if label[:2] == ("append", "tool/result"):
            label = (*label[:3], "aborted-before-dispatch" if label[3] == "never-started" else label[3])
        if has_batches or not str(label[1]).startswith("tool/"):
            shown.append(label)
    return whole(shown)


def whole(labels: Sequence[Label]) -> list[Label]:
    """The labels, each stretch of pieces of a stream as one."""
    return [label for at, label in enumerate(labels) if label not in PIECES or at == 0 or labels[at - 1] != label]
