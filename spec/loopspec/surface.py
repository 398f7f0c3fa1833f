"""The surface: which events make the model's history, in which order, and the messages derived from them.

The surface is an ordered list of nodes; a node is an event, and its name is the event's seq. Two operations
exist: append a node, or replace a contiguous range by one node. Nothing is ever inserted or deleted.

`Surface` is a persistent value. Appending costs constant time, derived messages included: what was derived
stays while nothing already derived changes (S-SUR-12), and `messages` is a view that a request can keep.

Rules: S-SUR-1 to S-SUR-16. The texts of refusals follow the writers' own where those are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from types import MappingProxyType
from typing import NamedTuple

from loopspec.kernel.prefix import Prefix
from loopspec.log.types import KNOWN_TYPES, REPLACE_FIELDS, SURFACE_TYPES, Dialect
from loopspec.values import SAFE_INTEGER, Json, Record, same_value, seqs_of, without


class Breach(NamedTuple):
    """One broken rule of the surface algebra: the rule id and a sentence."""

    rule: str
    text: str


class SurfaceError(ValueError):
    """An event that cannot join the surface; `breaches` says why, the first one in the message."""

    def __init__(self, breaches: tuple[Breach, ...]) -> None:
        super().__init__(f"{breaches[0].rule}: {breaches[0].text}")
        self.breaches = breaches


_INTEGER = frozenset({int})
_NOTHING: Mapping[int, frozenset[int]] = MappingProxyType({})


class Surface(NamedTuple):
    """The surface after some prefix of a log. Start with `empty(dialect)`.

    `nodes`, `events` and `before` are parallel: a node's seq, its event, and how many messages stand before
    it. `messages` are the derived messages. `systems` are the nodes that hold system messages, in order.
    """

    dialect: Dialect
    nodes: Prefix[int]
    events: Prefix[Record]
    before: Prefix[int]
    messages: Prefix[Record]
    systems: tuple[int, ...] = ()
    replacements: int = 0
    projections: int = 0
    offloaded: Mapping[int, frozenset[int]] = _NOTHING

    @property
    def generation(self) -> int:
        """Moves when something already derived may have changed (S-SUR-9).

        Format 0 counts replaces (`replaceGeneration`); format 4 counts projections too (`contentGeneration`).
        """
        return self.replacements + self.projections

    def append(self, seq: int, event: Record) -> Surface:
        """Push a node at the end. Legality is not judged here; ask `breaches` first."""
        message = derive(event)
        return Surface(
            self.dialect,
            self.nodes.append(seq),
            self.events.append(event),
            self.before.append(len(self.messages)),
            self.messages if message is None else self.messages.append(message),
            (*self.systems, seq) if event["type"] == "system/message" else self.systems,
            self.replacements,
            self.projections,
            self.offloaded,
        )

    def append_all(self, run: Sequence[tuple[int, Record]]) -> Surface:
        """Push several nodes, each a seq and its event, one after the other; none is a system message."""
        derived = [derive(event) for _, event in run]
        told = accumulate((message is not None for message in derived), initial=len(self.messages))
        return self._replace(
            nodes=self.nodes.extend(seq for seq, _ in run),
            events=self.events.extend(event for _, event in run),
            before=self.before.extend(islice(told, len(run))),
            messages=self.messages.extend(message for message in derived if message is not None),
        )

    def replace(self, seq: int, event: Record, start: int, end: int) -> Surface:
        """Put one node in the place of the nodes from `start` to `end` inclusive, by position (S-SUR-2).

        Raises `SurfaceError` when the range does not exist (S-SUR-3); other legality is for `breaches`.
        """
        wrong = _range_breaches(self, start, end)
        if wrong:
            raise SurfaceError(wrong)
        first, last = self._span(start, end)
        after = last + 1
        old_head = self.before[first]
        old_tail = self.before[after] if after < len(self.nodes) else len(self.messages)
        message = derive(event)
        added = () if message is None else (message,)
        shift = old_head + len(added) - old_tail
        nodes = self.nodes.first(first).append(seq).extend(self.nodes[after:])
        shadowed = frozenset(self.nodes[first:after])
        return self._replace(
            nodes=nodes,
            events=self.events.first(first).append(event).extend(self.events[after:]),
            before=self.before.first(first).append(old_head).extend(n + shift for n in self.before[after:]),
            messages=self.messages.first(old_head).extend(added).extend(self.messages[old_tail:]),
            systems=self._systems_after(shadowed, nodes, seq, event),
            replacements=self.replacements + 1,
            offloaded=self._without_offloads(shadowed),
        )

    def offload(self, targets: Iterable[tuple[int, Iterable[int]]]) -> Surface:
        """Mark images of current nodes as offloaded: a projection, not a new node (S-SUR-15).

        `targets` are (seq, image positions). A seq that is not a current node changes nothing.
        """
        messages = self.messages
        offloaded = dict(self.offloaded)
        for seq, positions in targets:
            at = self.nodes.position(seq)
            if at is None:
                continue
            offloaded[seq] = offloaded.get(seq, frozenset()) | frozenset(positions)
            message = derive(self.events[at])
            if message is None:
                continue
            marked = _with_offloads(message, offloaded[seq])
            place = self.before[at]
            messages = messages.first(place).append(marked).extend(messages[place + 1 :])
        return self._replace(messages=messages, projections=self.projections + 1, offloaded=MappingProxyType(offloaded))

    def event_of(self, seq: int) -> Record | None:
        """The event of a current node, or `None` when that seq is not on the surface."""
        at = self.nodes.position(seq)
        return None if at is None else self.events[at]

    def _span(self, start: int, end: int) -> tuple[int, int]:
        first, last = self.nodes.position(start), self.nodes.position(end)
        assert first is not None
        assert last is not None
        return first, last

    def _systems_after(self, shadowed: frozenset[int], nodes: Prefix[int], seq: int, event: Record) -> tuple[int, ...]:
        is_system = event["type"] == "system/message"
        if not is_system and shadowed.isdisjoint(self.systems):
            return self.systems
        current = {*self.systems, *((seq,) if is_system else ())} - shadowed
        return tuple(node for node in nodes if node in current)

    def _without_offloads(self, shadowed: frozenset[int]) -> Mapping[int, frozenset[int]]:
        if shadowed.isdisjoint(self.offloaded):
            return self.offloaded
        return MappingProxyType({seq: at for seq, at in self.offloaded.items() if seq not in shadowed})


def empty(dialect: Dialect) -> Surface:
    """The surface of a log without events."""
    return Surface(dialect, Prefix(), Prefix(), Prefix(), Prefix())


# -- derivation ----------------------------------------------------------------------------------------------


def derive(event: Record) -> Record | None:
    """The one message a node gives, or `None` for a node that is only an anchor (S-SUR-10, S-SUR-11, S-SUR-13).

    The message is passed verbatim, the object itself. A user message with empty content counts; an assistant,
    system or developer message with empty content does not.
    """
    data: Record = event["data"]
    if event["type"] == "user/message":
        return data
    message: Record = data["message"]
    if event["type"] == "tool/result" or len(message["content"]) > 0:
        return message
    return None


def derive_messages(surface: Surface) -> Prefix[Record]:
    """The model's history: shared messages in surface order, as a view that later events never change."""
    return surface.messages


def images_in(content: Sequence[Record]) -> int:
    """How many image blocks the content holds, nested content included (depth-first positions of S-SUR-15)."""
    return sum(
        1 if block["type"] == "image" else images_in(block["content"]) if "content" in block else 0 for block in content
    )


def _with_offloads(message: Record, positions: frozenset[int]) -> Record:
    return {**message, "content": _marked(message["content"], positions, 0)[0]}


def _marked(content: Sequence[Record], positions: frozenset[int], seen: int) -> tuple[list[Record], int]:
    blocks: list[Record] = []
    for block in content:
        if block["type"] == "image":
            blocks.append({**block, "offloaded": True} if seen in positions else block)
            seen += 1
        elif "content" in block:
            inner, seen = _marked(block["content"], positions, seen)
            blocks.append({**block, "content": inner})
        else:
            blocks.append(block)
    return blocks, seen


# -- the fold ------------------------------------------------------------------------------------------------


def accept(surface: Surface, event: Record, seq: int | None = None) -> Surface:
    """The surface after one event of the log. Raises `SurfaceError` when the event breaks a rule.

    `seq` overrides the event's own number; a checker folds over indexes, not over what the rows say.
    """
    number: int = event["seq"] if seq is None else seq
    wrong = breaches(surface, event, number)
    if wrong:
        raise SurfaceError(wrong)
    return advance(surface, event, number)


def accept_all(surface: Surface, events: Iterable[tuple[int, Record]]) -> Surface:
    """The surface after many events of the log, each with its seq. Raises `SurfaceError` for the first that breaks a
    rule.

    It is what `accept` makes of one after the other; what only joins at the end joins together.
    """
    run: list[tuple[int, Record]] = []
    joining = SURFACE_TYPES[surface.dialect] - {"system/message"}
    for seq, event in events:
        if event["type"] in joining and event.get("surfaceOp") == "append":
            wrong = _source_breaches(surface.dialect, event, seq)
            if wrong:
                raise SurfaceError(wrong)
            run.append((seq, event))
        else:
            surface = accept(surface.append_all(run), event, seq)
            run = []
    return surface.append_all(run)


def advance(surface: Surface, event: Record, seq: int) -> Surface:
    """The surface after one event that is known to be legal (see `breaches`)."""
    event_type = event["type"]
    if event_type in SURFACE_TYPES[surface.dialect]:
        operation = event["surfaceOp"]
        if operation == "append":
            return surface.append(seq, event)
        start, end = REPLACE_FIELDS[surface.dialect]
        return surface.replace(seq, event, operation[start], operation[end])
    if event_type == "image/offload" and surface.dialect == "v4":
        return surface.offload((target["seq"], target["imageIndexes"]) for target in event["data"]["targets"])
    return surface


def fold(dialect: Dialect, events: Iterable[Record]) -> Surface:
    """The surface of a whole list of events, numbered by position. Raises `SurfaceError`."""
    surface = empty(dialect)
    for seq, event in enumerate(events):
        surface = accept(surface, event, seq)
    return surface


# -- legality ------------------------------------------------------------------------------------------------


def breaches(surface: Surface, event: Record, seq: int) -> tuple[Breach, ...]:
    """Every rule of the surface that this event, coming next with this seq, would break. Empty means legal.

    The payload must already have the shape of its type; the envelope may be anything.
    """
    event_type: str = event["type"]
    if event_type not in SURFACE_TYPES[surface.dialect]:
        return _log_only_breaches(surface, event)
    if "surfaceOp" not in event:
        text = f'session event "{event_type}" is surface-eligible and requires a surfaceOp marker'
        return (Breach("S-SUR-1", text), *_source_breaches(surface.dialect, event, seq))
    operation = event["surfaceOp"]
    sources = _source_breaches(surface.dialect, event, seq)
    if operation == "append":
        return sources + _append_breaches(surface, event)
    start, end = REPLACE_FIELDS[surface.dialect]
    if not is_replace(surface.dialect, operation):
        return (Breach("S-SUR-2", f'session event "{event_type}" carries an invalid replace surfaceOp'), *sources)
    return sources + _replace_breaches(surface, event, seq, operation[start], operation[end])


def is_replace(dialect: Dialect, operation: Json) -> bool:
    """Whether `operation` is exactly a replace object of the format (S-SUR-2)."""
    start, end = REPLACE_FIELDS[dialect]
    return (
        isinstance(operation, Mapping)
        and set(operation) == {"op", start, end}
        and operation["op"] == "replace"
        and _is_seq(operation[start])
        and _is_seq(operation[end])
    )


def _is_seq(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= SAFE_INTEGER


def _are_seqs(values: Sequence[Json]) -> bool:
    """Whether all are seqs; a list of plain integers, the rule, is judged as a whole."""
    if _INTEGER.issuperset(map(type, values)):
        return not values or (min(values) >= 0 and max(values) <= SAFE_INTEGER)
    return all(map(_is_seq, values))


def _log_only_breaches(surface: Surface, event: Record) -> tuple[Breach, ...]:
    """S-SUR-1: a log-only event carries no surface metadata; S-ENV-4: foreign events of format 4 may."""
    event_type = event["type"]
    if event_type == "image/offload" and surface.dialect == "v4":
        return _metadata_breaches(event) + _offload_breaches(surface, event["data"]["targets"])
    foreign = event_type not in KNOWN_TYPES[surface.dialect] and event.get("ignorable") is True
    if foreign and surface.dialect == "v4":
        return ()
    return _metadata_breaches(event)


def _metadata_breaches(event: Record) -> tuple[Breach, ...]:
    return tuple(
        Breach("S-SUR-1", f'session event "{event["type"]}" is not surface-eligible and cannot carry {name}')
        for name in ("sourceEventSeqs", "surfaceOp")
        if name in event
    )


def _source_breaches(dialect: Dialect, event: Record, seq: int) -> tuple[Breach, ...]:
    """S-SUR-5: what `sourceEventSeqs` may hold, whatever the operation."""
    if "sourceEventSeqs" not in event:
        return ()
    is_assistant = event["type"] == "assistant/message"
    if dialect == "v4" and is_assistant:
        return (Breach("S-SUR-5", "assistant/message must not carry sourceEventSeqs in this format"),)
    sources = event["sourceEventSeqs"]
    if not isinstance(sources, Sequence) or isinstance(sources, str) or not _are_seqs(sources):
        return (Breach("S-SUR-5", "sourceEventSeqs must be an array of non-negative safe integers"),)
    if not sources and not is_assistant:
        return (Breach("S-SUR-5", "sourceEventSeqs must not be empty except on assistant/message"),)
    found: list[Breach] = []
    if len(set(sources)) != len(sources):
        found.append(Breach("S-SUR-5", "sourceEventSeqs must not repeat a seq"))
    latest = max(sources, default=-1)
    if latest >= seq:
        text = f"sourceEventSeqs must reference earlier events: {latest} >= current seq {seq}"
        found.append(Breach("S-SUR-5", text))
    return tuple(found)


def _append_breaches(surface: Surface, event: Record) -> tuple[Breach, ...]:
    """S-SUR-8: a system message joins as the very first node, or behind a protected head."""
    if event["type"] != "system/message" or not surface.nodes or protected_head(surface) is not None:
        return ()
    return (Breach("S-SUR-8", "system/message can be appended only first or while node 0 is a system/message"),)


def protected_head(surface: Surface) -> int | None:
    """The seq of node 0 when it is a system message, else `None` (S-SUR-8)."""
    if surface.systems and surface.systems[0] == surface.nodes[0]:
        return surface.systems[0]
    return None


def _range_breaches(surface: Surface, start: int, end: int) -> tuple[Breach, ...]:
    first, last = surface.nodes.position(start), surface.nodes.position(end)
    missing = tuple(
        Breach("S-SUR-3", f"surface replace: {name} seq {seq} not found in surface")
        for name, seq, at in (("start", start, first), ("end", end, last))
        if at is None
    )
    if missing or first is None or last is None:
        return missing
    if first > last:
        text = f"surface replace: start seq {start} stands after end seq {end} on the surface"
        return (Breach("S-SUR-3", text),)
    return ()


def _replace_breaches(surface: Surface, event: Record, seq: int, start: int, end: int) -> tuple[Breach, ...]:
    wrong = _range_breaches(surface, start, end)
    if wrong:
        return wrong
    found: list[Breach] = []
    if surface.dialect == "v4" and max(start, end) >= seq:
        found.append(Breach("S-SUR-3", f"surface replace: endpoints must be smaller than the own seq {seq}"))
    first, last = surface.nodes.position(start), surface.nodes.position(end)
    assert first is not None
    assert last is not None
    shadowed = surface.nodes[first : last + 1]
    cited = frozenset(seqs_of(event.get("sourceEventSeqs", ())))
    uncited = [node for node in shadowed if node not in cited]
    if uncited:
        text = "surface replace: sourceEventSeqs must include every shadowed surface node; missing "
        found.append(Breach("S-SUR-5", text + ", ".join(map(str, uncited))))
    head = protected_head(surface)
    if first == 0 and head is not None and (event["type"] != "system/message" or len(shadowed) != 1):
        text = "surface replace: the system message at node 0 is replaced only by a system/message, alone"
        found.append(Breach("S-SUR-8", text))
    if event["type"] == "tool/result":
        found += _rewrite_breaches(surface, event, [surface.events[at] for at in range(first, last + 1)])
    return tuple(found)


def _rewrite_breaches(surface: Surface, event: Record, shadowed: list[Record]) -> list[Breach]:
    """S-SUR-6: a tool result rewrites exactly one tool result, and only its content."""
    if len(shadowed) != 1 or shadowed[0]["type"] != "tool/result":
        return [Breach("S-SUR-6", "tool/result surface replacement must shadow exactly one tool/result")]
    if not same_value(_frame(surface.dialect, event), _frame(surface.dialect, shadowed[0])):
        return [Breach("S-SUR-6", "tool/result surface replacement may change only content")]
    return []


def _frame(dialect: Dialect, event: Record) -> Record:
    """A tool result without its result content: what a rewrite must leave alone."""
    data: Record = event["data"]
    message: Record = data["message"]
    if dialect == "v4":
        return {**data, "message": without(message, "content")}
    return {**data, "message": {**message, "content": [without(block, "content") for block in message["content"]]}}


def _offload_breaches(surface: Surface, targets: Sequence[Record]) -> tuple[Breach, ...]:
    """S-SUR-15: distinct current user or tool nodes, strictly increasing image positions that exist."""
    found: list[Breach] = []
    seen: set[int] = set()
    for target in targets:
        seq, positions = target["seq"], tuple(target["imageIndexes"])
        event = surface.event_of(seq)
        if seq in seen:
            found.append(Breach("S-SUR-15", f"image offload names node {seq} twice"))
        seen.add(seq)
        if event is None or event["type"] not in ("user/message", "tool/result"):
            text = f"image offload: {seq} is not a user/message or tool/result on the surface"
            found.append(Breach("S-SUR-15", text))
            continue
        message = derive(event)
        images = 0 if message is None else images_in(message["content"])
        rising = all(left < right for left, right in pairwise(positions))
        if not rising or any(not 0 <= at < images for at in positions):
            text = f"image offload: node {seq} has {images} images; positions must exist and strictly increase"
            found.append(Breach("S-SUR-15", text))
    return tuple(found)
