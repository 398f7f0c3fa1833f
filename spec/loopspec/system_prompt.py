"""The system prompt on the surface (format 4): what to append or replace so that the model sees one prompt.

In format 4 the prompt is a message like any other. Node 0 is reserved for it, even when it is empty. Before
each attempt the rendered prompt is reconciled with the system messages on the surface, and this module says
how; it changes nothing itself.

Rules: S-REQ-20, S-SUR-8, S-SUR-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from loopspec.surface import Surface
from loopspec.values import Json, Record


class SystemNode(NamedTuple):
    """A system message on the surface: its seq, and its text (`None` when it is not plain text)."""

    seq: int
    text: str | None


class AppendSystem(NamedTuple):
    """Append a `system/message` with this text."""

    text: str


class ReplaceSystem(NamedTuple):
    """Replace exactly the node `seq` by a `system/message` with this text, citing the node (S-SUR-16)."""

    seq: int
    text: str


Change: TypeAlias = AppendSystem | ReplaceSystem


def reconcile(
    nodes: Sequence[SystemNode], rendered: str, *, in_history: bool, continues_series: bool
) -> tuple[Change, ...]:
    """The changes that make the surface show `rendered`, in the order to log them (S-REQ-20).

    `in_history`: the route declares `systemPromptUpdate: in-history`. `continues_series`: no new request
    series starts with this request.
    """
    if not nodes:
        return (AppendSystem(rendered),)  # node 0 is reserved even for an empty prompt
    if in_history and continues_series and rendered:
        current = next((node.text for node in reversed(nodes) if node.text != ""), "")
        return () if current == rendered else (AppendSystem(rendered),)
    head, *later = nodes
    blanked = tuple(ReplaceSystem(node.seq, "") for node in later if node.text != "")
    if head.text == rendered:
        return blanked
    return (*blanked, ReplaceSystem(head.seq, rendered))


def system_nodes(surface: Surface) -> tuple[SystemNode, ...]:
    """The system messages of a surface in order, ready for `reconcile`."""
    found: list[SystemNode] = []
    for seq in surface.systems:
        event = surface.event_of(seq)
        assert event is not None
        found.append(SystemNode(seq, text_of(event["data"]["message"]["content"])))
    return tuple(found)


def text_of(content: Sequence[Record]) -> str | None:
    """The prompt in a system message: no block is the empty prompt, one text block is its text."""
    if not content:
        return ""
    if len(content) == 1 and content[0]["type"] == "text":
        text: str = content[0]["text"]
        return text
    return None


def content_of(text: str) -> tuple[Record, ...]:
    """The content of a system message; the empty prompt has no block and derives to no message (S-SUR-11)."""
    block: dict[str, Json] = {"type": "text", "text": text}
    return (block,) if text else ()
