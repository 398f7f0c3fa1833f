"""What two consecutive requests share, where the shared part ends, and why.

A provider can reuse what it has read before up to the first part that differs. The parts of a request are, in this
order: the system prompt, the tool list, and every message. A part counts whole or not at all.

Rules: PX-1 to PX-9, L-REQ-16, S-REQ-6.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from loopspec import surface as surfaces
from loopspec.request import ReconstructionError, anchors, canonical_header, dialect_of, still_streaming
from loopspec.surface import Surface
from loopspec.tape.entry import recall_turn
from loopspec.tape.index import LogIndex
from loopspec.tape.select import kind_of
from loopspec.tape.text import compact_json, joined_text, utf8
from loopspec.values import Json, Record, seqs_of

SHOWN: Final = 60
"""How much of a differing text a cause quotes, in code points."""


class Part(NamedTuple):
    """One part of a request: `system`, `tools` or `message k`, its value, and the node it comes from (-1: none)."""

    name: str
    value: Json
    node: int
    size: int
    """Bytes of its JSON text in UTF-8."""


class Sealed(NamedTuple):
    """An entry that was written between two requests."""

    seq: int
    first: int
    last: int
    sources: tuple[int, ...]
    size: int

    @property
    def recall(self) -> str:
        """How to get back what it replaced."""
        return recall_turn(self.first) + ("" if self.first == self.last else f" … {recall_turn(self.last)}")


class Compared(NamedTuple):
    """One request and what it shares with the one before.

    `kept` parts and bytes are the common prefix; `lost` bytes were in the last request behind it, `added` bytes are
    new in this one. `cause` says why the prefix ends there.
    """

    anchor: int
    turn: int
    step: int
    parts: tuple[Part, ...]
    kept: int
    kept_bytes: int
    added_bytes: int
    lost_bytes: int
    where: str
    cause: str
    sealed: tuple[Sealed, ...]

    @property
    def size(self) -> int:
        """All bytes of the request."""
        return self.kept_bytes + self.added_bytes


def report(header_row: Record, events: Iterable[Record]) -> Iterator[Compared]:
    """Every request of a log in order, compared with the one before it.

    Raises `SurfaceError` and `ReconstructionError` at the place where a log cannot be followed any further.
    """
    walk = _Walk(header_row)
    for seq, event in enumerate(events):
        found = walk.take(seq, event)
        if found is not None:
            yield found


class _Walk:
    """The state of one pass over a log."""

    def __init__(self, header_row: Record) -> None:
        self.dialect = dialect_of(header_row)
        self.surface: Surface = surfaces.empty(self.dialect)
        self.events: list[Record] = []
        self.index = LogIndex()
        self.header: Record | None = None
        self.streaming = False
        self.place = (0, 0)
        self.last: tuple[Part, ...] | None = None
        self.last_seq = -1
        self.sizes: dict[int, tuple[Json, int]] = {}

    def take(self, seq: int, event: Record) -> Compared | None:
        found = None
        if anchors(self.dialect, event, streaming=self.streaming):
            if self.header is None:
                raise ReconstructionError(seq)
            found = self.compare(seq)
        self.streaming = still_streaming(event, streaming=self.streaming)
        if event["type"] == "request/header":
            self.header = canonical_header(event["data"]["header"])
        elif event["type"] == "step/start":
            self.place = (event["data"]["turn"], event["data"]["step"])
        self.surface = surfaces.accept(self.surface, event, seq)
        self.events.append(event)
        return found

    def compare(self, seq: int) -> Compared:
        parts = self.parts()
        last = self.last
        kept = 0 if last is None else _common(last, parts)
        kept_bytes = sum(part.size for part in parts[:kept])
        added = sum(part.size for part in parts[kept:])
        lost = 0 if last is None else sum(part.size for part in last[kept:])
        where, cause = ("", "the first request") if last is None else self.cause(last, parts, kept)
        sealed = tuple(self.entries())
        self.last, self.last_seq = parts, seq
        return Compared(seq, *self.place, parts, kept, kept_bytes, added, lost, where, cause, sealed)

    def parts(self) -> tuple[Part, ...]:
        """System, tools, messages; format 4 keeps its system prompt as message 0, in front of the tools."""
        assert self.header is not None
        nodes = [
            (seq, event)
            for seq, event in zip(self.surface.nodes, self.surface.events, strict=True)
            if surfaces.derive(event) is not None
        ]
        found: list[Part] = []
        messages = list(zip(nodes, self.surface.messages, strict=True))
        if self.header.get("system"):
            found.append(self.part("system", self.header["system"], -1))
        elif messages and messages[0][1]["role"] == "system":
            (seq, _), message = messages.pop(0)
            found.append(self.part("system", message, seq))
        if self.header.get("tools"):
            found.append(self.part("tools", self.header["tools"], -1))
        first = len(self.surface.messages) - len(messages)
        found += [self.part(f"message {first + at}", message, seq) for at, ((seq, _), message) in enumerate(messages)]
        return tuple(found)

    def part(self, name: str, value: Json, node: int) -> Part:
        known = self.sizes.get(id(value))
        if known is None or known[0] is not value:
            known = self.sizes[id(value)] = (value, len(utf8(compact_json(value))))
        return Part(name, value, node, known[1])

    # -- causes

    def cause(self, last: Sequence[Part], parts: Sequence[Part], kept: int) -> tuple[str, str]:
        if kept == len(last):
            return "", "extends the last request whole" if kept < len(parts) else "the same request again"
        old = last[kept]
        new = parts[kept] if kept < len(parts) else None
        if new is None:
            return old.name, f"{self.described(old)} is gone"
        if old.name != new.name and "message" not in (old.name[:7], new.name[:7]):
            return new.name, f"{new.name} stands where {old.name} stood"
        if new.name == "system" and old.name == "system":
            named = "the system prompt" if new.node >= 0 else "the system prompt (request/header.system)"
            return "system", f"{named} changed: {_difference(_text(old.value), _text(new.value))}"
        if "tools" in (old.name, new.name):
            return "tools", f"the tool list (request/header.tools) changed: {_tool_changes(old, new)}"
        return new.name, self.rewritten(old, new)

    def rewritten(self, old: Part, new: Part) -> str:
        if old.node == new.node:
            return f"{self.described(old)} changed: {_difference(_text(old.value), _text(new.value))}"
        event = self.events[new.node]
        covers = old.node in seqs_of(event.get("sourceEventSeqs")) or event.get("surfaceOp") != "append"
        if not covers:
            return f"{self.described(new)} stands where {self.described(old)} stood"
        verb = {"entry": "was sealed into", "result": "was rewritten as", "context": "was compacted into"}
        return f"{self.described(old)} {verb.get(kind_of(event), 'was replaced by')} {self.described(new)}"

    def described(self, part: Part) -> str:
        if part.node < 0:
            return part.name
        event = self.events[part.node]
        names = {
            "assistant": "the reply",
            "result": "the tool result",
            "system": "the system prompt",
            "developer": "the developer message",
            "human": "the human message",
            "snapshot": "the runtime snapshot",
            "entry": "the tape entry",
            "context": "the context message",
        }
        turn = event["data"].get("turn")
        return f"{names[kind_of(event)]} at seq {part.node}" + (f" (turn {turn})" if isinstance(turn, int) else "")

    def entries(self) -> Iterator[Sealed]:
        for seq in range(self.last_seq + 1, len(self.events)):
            event = self.events[seq]
            if event["type"] != "user/message" or kind_of(event) != "entry" or event.get("surfaceOp") == "append":
                continue
            self.index = self.index.grown(self.events)
            sources = seqs_of(event.get("sourceEventSeqs"))
            owners = [self.index.owner(source) for source in sources] or [0]
            size = len(utf8(joined_text(event["data"]["content"])))
            yield Sealed(seq, min(owners), max(owners), sources, size)


def _common(last: Sequence[Part], parts: Sequence[Part]) -> int:
    count = 0
    for old, new in zip(last, parts, strict=False):
        if old.name != new.name or (old.value is not new.value and compact_json(old.value) != compact_json(new.value)):
            break
        count += 1
    return count


def _text(value: Json) -> str:
    return value if isinstance(value, str) else joined_text(value.get("content"))


def _difference(old: str, new: str) -> str:
    at = next((at for at, (mine, theirs) in enumerate(zip(old, new, strict=False)) if mine != theirs), -1)
    if at < 0:
        at = min(len(old), len(new))
    return f"at character {at} from {_quote(old, at)} to {_quote(new, at)}"


def _quote(text: str, at: int) -> str:
    start = max(0, at - SHOWN // 3)
    shown = text[start : start + SHOWN]
    return f"{'…' if start else ''}{shown!r}{'…' if start + SHOWN < len(text) else ''}"


def _tool_changes(old: Part, new: Part) -> str:
    before, after = ({tool["name"]: tool for tool in part.value} if part.name == "tools" else {} for part in (old, new))
    added = [f"+{name}" for name in after if name not in before]
    gone = [f"-{name}" for name in before if name not in after]
    other = [f"~{name}" for name in after if name in before and compact_json(after[name]) != compact_json(before[name])]
    return " ".join([*added, *gone, *other]) or "their order"
