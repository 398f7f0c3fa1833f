"""The runtime-context snapshot: when the loop tells the model anew what its surroundings are.

The rendered contexts make one text. A new user message is due exactly when that text differs from the last
snapshot that is still on the surface. The state is three-valued, because "never told" and "told, but no
longer visible" call for different answers when the contexts become empty.

Rules: L-CTX-1 to L-CTX-7.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from loopspec.log.types import Dialect
from loopspec.surface import Surface
from loopspec.values import Json, Record, seqs_of

HEAD = "Current runtime context. This snapshot supersedes earlier runtime-context snapshots."
CLEARED = "Current runtime context: none. Earlier runtime-context snapshots no longer apply."

OWNER_PLUGIN = "@deepseek-ai/dsh-system-prompt"
"""Names the producer of snapshots in format 0, where their source kind is `plugin` (L-CTX-3)."""


class Retained(NamedTuple):
    """What the model still sees of the snapshots.

    `kind` is `never` (none was ever logged), `none` (there was one, it left the surface) or `retained`.
    `seq` and `text` describe the retained one; `text` is `None` when it is not exactly one text block, and
    then it equals no snapshot.
    """

    kind: Literal["never", "none", "retained"]
    seq: int = -1
    text: str | None = None


NEVER = Retained("never")
NONE_RETAINED = Retained("none")


class Candidate(NamedTuple):
    """A snapshot that is due: the text and the source of the user message to propose (L-CTX-3)."""

    text: str
    source: Record


def snapshot_text(sections: Sequence[Record]) -> str | None:
    """The text of the snapshot: head line, blank line, non-empty contexts joined by blank lines (L-CTX-1).

    `sections` are {`name`, `text`}. `None` when every context is empty.
    """
    texts = [section["text"] for section in sections if section["text"]]
    return "\n\n".join([HEAD, *texts]) if texts else None


def candidate(dialect: Dialect, retained: Retained, sections: Sequence[Record]) -> Candidate | None:
    """The snapshot message that is due before this step, or `None` (L-CTX-2).

    A candidate that is rejected or dropped changes nothing here and is due again (L-CTX-7).
    """
    text = snapshot_text(sections)
    if text is None:
        if retained.kind == "never" or retained.text == CLEARED:
            return None
        return Candidate(CLEARED, owned_source(dialect))
    if retained.text == text:
        return None
    shown = tuple(section for section in sections if section["text"])
    return Candidate(text, {**owned_source(dialect), "form": "snapshot", "sections": shown})


def owned_source(dialect: Dialect) -> dict[str, Json]:
    """The source that marks a message as a snapshot of the loop; `form` and `sections` come on top (L-CTX-3)."""
    if dialect == "v0":
        return {"kind": "plugin", "plugin": OWNER_PLUGIN}
    return {"kind": "runtime-context"}


def is_owned(dialect: Dialect, event: Record) -> bool:
    """Whether an event is a snapshot message of the loop."""
    if event["type"] != "user/message":
        return False
    source: Record = event["data"]["source"]
    return all(source.get(name) == value for name, value in owned_source(dialect).items())


def observe(dialect: Dialect, retained: Retained, event: Record, seq: int) -> Retained:
    """Follow one committed event: a snapshot becomes retained when logged, and stops being so when a surface
    replacement cites it (L-CTX-4)."""
    if is_owned(dialect, event):
        return _retain(event, seq)
    if retained.kind != "retained":
        return retained
    replaces = "surfaceOp" in event and event["surfaceOp"] != "append"
    if replaces and retained.seq in seqs_of(event.get("sourceEventSeqs", ())):
        return NONE_RETAINED
    return retained


def restore(surface: Surface, events: Iterable[Record]) -> Retained:
    """The state of a loop that starts over a stored log (L-CTX-5): the newest snapshot still on the surface.

    `events` is the whole log; it only decides between `never` and `none` when no snapshot is on the surface.
    """
    owned = [
        (seq, event)
        for seq, event in zip(surface.nodes, surface.events, strict=True)
        if is_owned(surface.dialect, event)
    ]
    if owned:
        seq, event = max(owned, key=lambda item: item[0])
        return _retain(event, seq)
    return NONE_RETAINED if any(is_owned(surface.dialect, event) for event in events) else NEVER


def _retain(event: Record, seq: int) -> Retained:
    content = event["data"]["content"]
    single = len(content) == 1 and content[0]["type"] == "text"
    return Retained("retained", seq, content[0]["text"] if single else None)
