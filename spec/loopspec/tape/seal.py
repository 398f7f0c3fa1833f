"""The plan of a seal: from a log, its surface and the messages about to enter, to the entries to append.

The whole plan is made before the first append (TP-09), and depends on the log alone (TP-45, INV-10). It costs
what stands behind the last entry, which with the default policy is the turn that has just ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from loopspec.profile import Law, law
from loopspec.surface import Surface
from loopspec.tape import entry as texts
from loopspec.tape.entry import Block, Read, Reply, Tool
from loopspec.tape.index import LogIndex, Observation, shown_reads
from loopspec.tape.select import (
    ALWAYS_PROTECTED,
    ENTRY_SOURCE,
    SNAPSHOT_SOURCE,
    Broken,
    Limits,
    Node,
    kind_of,
    node_of,
    select,
)
from loopspec.tape.text import (
    PATH_LIMIT,
    WINDOW_LIMIT,
    KeyOrder,
    bounded,
    canonical_json,
    joined_text,
    label,
    outcome,
    safe_name,
    safe_path,
    text_parts,
)
from loopspec.values import Record

SEED: Final = law("seed", 4)


class History(NamedTuple):
    """The configuration of sealing: `history.keepRecentTurns` and `history.entryMaxChars`."""

    keep_recent_turns: int = 0
    entry_max_chars: int | None = None


DEFAULT: Final = History()


class Entry(NamedTuple):
    """One replacement to append: the range it covers, what it cites, its text and its level of the ladder."""

    start: int
    end: int
    sources: tuple[int, ...]
    text: str
    level: int

    @property
    def operation(self) -> dict[str, object]:
        """TP-30  The surface operation."""
        return {"op": "replace", "startSeq": self.start, "endSeq": self.end}


class Plan(NamedTuple):
    """The entries of a seal, in surface order, and the portions it leaves raw."""

    entries: tuple[Entry, ...]
    broken: tuple[Broken, ...]


def seal(
    index: LogIndex,
    surface: Surface,
    pending: Iterable[Record] = (),
    policy: History = DEFAULT,
    choices: Law = SEED,
    start: int = 0,
) -> Plan:
    """2.5  What a first step with these pending messages seals. `index` is that of the whole log.

    `start` is a position up to which `settled` has looked; it saves time and changes nothing.

    Raises `ValueError` for a cap that is not allowed (TP-70).
    """
    texts.check_cap(policy.entry_max_chars)
    limits = Limits(index.last_end, index.largest_ended - policy.keep_recent_turns)
    renewed = any(is_snapshot(message) for message in pending)
    nodes = behind_tape(surface, index, start)
    chosen = select(nodes, limits, renewed=renewed, by_multiset=choices.tape_pairs_by_multiset)
    render = Renderer(index, choices)
    return Plan(tuple(render.entry(segment, policy.entry_max_chars) for segment in chosen.segments), chosen.broken)


def is_snapshot(message: Record) -> bool:
    """Whether a message about to enter is a runtime-context snapshot (TP-13)."""
    source = message.get("source") or {}
    return bool(source.get("kind") == SNAPSHOT_SOURCE)


def settled(surface: Surface, start: int) -> int:
    """The position of the first node, from `start` on, that sealing could ever take (TP-11).

    The answer stays true for longer surfaces until something on the surface is replaced.
    """
    while start < len(surface.nodes) and kind_of(surface.events[start]) in ALWAYS_PROTECTED:
        start += 1
    return start


def behind_tape(surface: Surface, index: LogIndex, start: int = 0) -> list[Node]:
    """The nodes behind the frozen prefix (TP-14), found from the end."""
    found: list[Node] = []
    for at in range(len(surface.nodes) - 1, start - 1, -1):
        event = surface.events[at]
        if kind_of(event) == "entry":
            break
        seq = surface.nodes[at]
        found.append(node_of(seq, event, index.owner(seq)))
    found.reverse()
    return found


def entry_message(id: str, text: str) -> dict[str, object]:
    """TP-30  The message of an entry: one text block and nothing but its kind as source."""
    return {
        "id": id,
        "role": "user",
        "content": [{"type": "text", "text": text}],
        "source": {"kind": ENTRY_SOURCE},
    }


class Renderer:
    """Builds the blocks of entries over one index."""

    __slots__ = ("_choices", "_index", "_name", "_path")

    def __init__(self, index: LogIndex, choices: Law = SEED) -> None:
        self._index = index
        self._choices = choices
        strict = choices.tape_labels_cannot_forge
        self._name: Callable[[str], str] = safe_name if strict else str
        self._path: Callable[[str], str] = safe_path if strict else _plain_path

    def entry(self, segment: Sequence[Node], cap: int | None) -> Entry:
        """One segment as the entry that replaces it."""
        sources = tuple(node.seq for node in segment)
        rendered = texts.render([node.owner for node in segment], self.blocks(segment), cap)
        return Entry(sources[0], sources[-1], sources, *rendered)

    def blocks(self, segment: Sequence[Node]) -> list[Block]:
        """TP-51  One block per stretch of one turn."""
        return [self._block(owner, list(nodes)) for owner, nodes in groupby(segment, key=lambda node: node.owner)]

    def _block(self, owner: int, nodes: Sequence[Node]) -> Block:
        replies, silent = self._replies(nodes)
        originals = [self._original(node.seq) for node in nodes if node.kind == "result"]
        reads = shown_reads(read for seq in originals for read in self._index.reads_of(seq))
        return Block(
            owner,
            sum(node.kind == "snapshot" for node in nodes),
            tuple(replies),
            silent,
            tuple(self._read(owner, read) for read in reads),
            tuple(map(self._tool, originals)),
        )

    def _replies(self, nodes: Sequence[Node]) -> tuple[list[Reply], int]:
        replies: list[Reply] = []
        silent = 0
        for node in nodes:
            if node.kind != "assistant":
                continue
            data = self._index.events[node.seq]["data"]
            text = joined_text(data["message"]["content"])
            if text:
                replies.append(Reply(data["step"], node.seq, text))
            elif not node.calls:
                silent += 1
        return replies, silent

    def _original(self, seq: int) -> int:
        """TP-40, TP-47  The record to point at; the node itself when it was rewritten from nothing we know."""
        hops = None if self._choices.tape_follows_every_rewrite else 1
        found = self._index.original(seq, hops)
        return seq if found is None else found

    def _tool(self, seq: int) -> Tool:
        data = self._index.events[seq]["data"]
        answered = outcome(data)
        if self._choices.tape_names_by_execution:
            call = self._index.call_of(data["turn"], data["step"], answered.call_id)
        else:
            call = self._index.call_named(answered.call_id)
        name = "tool" if call is None else call["data"]["name"]
        size = sum(map(len, text_parts(answered.content)))
        return Tool(data["step"], seq, self._name(name), size)

    def _read(self, turn: int, read: Observation) -> Read:
        target, tool, _, direct = read.identity
        order: KeyOrder = "code-point" if self._choices.tape_window_by_code_point else "collated"
        window = "default" if read.window is None else canonical_json(read.window, order)
        earlier = self._index.read_before(read.identity, turn)
        mark = ""
        if earlier is not None:
            where = texts.place(earlier.step, earlier.seq, direct=direct)
            mark = texts.change(earlier.digest == read.digest, earlier.turn, where)
        return Read(
            self._path(target),
            read.lines,
            read.digest,
            texts.place(read.step, read.seq, direct=direct),
            tool,
            bounded(window, WINDOW_LIMIT),
            direct,
            mark,
        )


def _plain_path(path: str) -> str:
    return label(path, PATH_LIMIT)


def unseen(broken: Iterable[Broken], warned: set[tuple[int, tuple[str, ...]]]) -> Iterator[Broken]:
    """TP-25  The portions that were not warned about yet; the caller adds their keys."""
    for portion in broken:
        if portion.key not in warned:
            yield portion
