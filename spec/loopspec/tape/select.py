"""What to seal: which nodes are eligible, how they group into entries, and why a stretch stays raw.

Everything here is about positions and numbers on the surface; texts come in `entry.py`. The functions are small
and total, so that the machine in `machine.py`, the plugin and symbolic execution all use the same ones.

Rules: TP-10 to TP-25.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Final, Literal, NamedTuple

from loopspec.surface import derive
from loopspec.values import Record

ENTRY_SOURCE: Final = "plugin:slice:history"
SNAPSHOT_SOURCE: Final = "runtime-context"
HUMAN_SOURCE: Final = "user"

Kind = Literal["system", "developer", "human", "context", "snapshot", "entry", "assistant", "result"]
WORK: Final[frozenset[Kind]] = frozenset({"assistant", "result"})
"""What a model and its tools said: the only thing, with dead snapshots, that is ever sealed."""


ALWAYS_PROTECTED: Final[frozenset[Kind]] = frozenset({"system", "developer", "human", "context", "entry"})
"""TP-11  What is never sealed, wherever it stands."""


class Node(NamedTuple):
    """One surface node, reduced to what sealing asks about it.

    `calls` and `answers` are the tool-call ids its derived message opens and closes.
    """

    seq: int
    kind: Kind
    owner: int
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()


class Limits(NamedTuple):
    """Where sealing stops: `closed` is `Z`, the seq of the last `turn/end`; `turn` is `L` - `K`."""

    closed: int
    turn: int


class Broken(NamedTuple):
    """TP-24  A portion that stays raw: its turn, first and last seq, and the ids without a partner."""

    turn: int
    first: int
    last: int
    ids: tuple[str, ...]

    @property
    def key(self) -> tuple[int, tuple[str, ...]]:
        """TP-25  What a warning is remembered by."""
        return (self.first, tuple(sorted(self.ids)))

    @property
    def text(self) -> str:
        """TP-24  The warning."""
        return (
            f"slice tape: turn {self.turn} (seq {self.first}..{self.last}) kept raw and cut the sealed span, "
            f"unpaired tool call/result {', '.join(self.ids)}"
        )


class Selection(NamedTuple):
    """The stretches that become one entry each, in surface order, and the portions that stay raw."""

    segments: tuple[tuple[Node, ...], ...]
    broken: tuple[Broken, ...]


# -- classification ------------------------------------------------------------------------------------------


def kind_of(event: Record) -> Kind:
    """TP-11  What a surface node is. Entries are recognised by their source kind alone (TP-43)."""
    match event["type"]:
        case "assistant/message":
            return "assistant"
        case "tool/result":
            return "result"
        case "system/message":
            return "system"
        case "developer/message":
            return "developer"
    source = event["data"].get("source") or {}
    match source.get("kind"):
        case "plugin:slice:history":
            return "entry"
        case "runtime-context":
            return "snapshot"
        case "user":
            return "human"
    return "context"


def node_of(seq: int, event: Record, owner: int) -> Node:
    """The node of a surface event that belongs to turn `owner`."""
    kind = kind_of(event)
    message = derive(event) if kind in WORK else None
    if message is None:
        return Node(seq, kind, owner)
    if kind == "result":
        return Node(seq, kind, owner, (), (_answered(message),))
    calls = tuple(block["id"] for block in message["content"] if block["type"] == "tool-call")
    return Node(seq, kind, owner, calls)


def _answered(message: Record) -> str:
    if "toolCallId" in message:
        return str(message["toolCallId"])
    return str(message["source"]["callId"])


# -- eligibility ---------------------------------------------------------------------------------------------


def frozen_until(kinds: Sequence[Kind]) -> int:
    """TP-14  How many nodes the frozen prefix has: all up to and including the last entry."""
    for at in range(len(kinds) - 1, -1, -1):
        if kinds[at] == "entry":
            return at + 1
    return 0


def live_snapshot(kinds: Sequence[Kind], *, renewed: bool) -> int:
    """TP-13  Position of the live snapshot, -1 for none. `renewed`: a newer one is about to be appended."""
    if renewed:
        return -1
    for at in range(len(kinds) - 1, -1, -1):
        if kinds[at] == "snapshot":
            return at
    return -1


def eligible(kind: Kind, seq: int, owner: int, limits: Limits, *, frozen: bool, live: bool) -> bool:
    """TP-11 to TP-15  Whether a node may be sealed.

    Never in the frozen prefix; only within a finished turn that is old enough; of model and tools what was
    written before the last turn ended, and of snapshots those that a newer one has replaced.
    """
    if frozen or not 1 <= owner <= limits.turn:
        return False
    if kind in WORK:
        return seq <= limits.closed
    return kind == "snapshot" and not live


# -- grouping ------------------------------------------------------------------------------------------------


def runs(flags: Sequence[bool]) -> list[tuple[int, int]]:
    """TP-20  The maximal stretches of true, as half-open ranges in order."""
    found: list[tuple[int, int]] = []
    start = -1
    for at, flag in enumerate([*flags, False]):
        if flag and start < 0:
            start = at
        elif not flag and start >= 0:
            found.append((start, at))
            start = -1
    return found


def portions(run: Sequence[Node]) -> list[tuple[Node, ...]]:
    """TP-21  Consecutive nodes of one turn."""
    return [tuple(group) for _, group in groupby(run, key=lambda node: node.owner)]


def unpaired(portion: Sequence[Node], *, by_multiset: bool = True) -> tuple[str, ...]:
    """TP-22, TP-24  Ids of calls without a result and results without a call, calls first, each id once.

    Every use of an id needs its own partner, so that a reused id hides nothing; `by_multiset=False` asks only
    whether the id occurs on both sides.
    """
    calls = Counter(call for node in portion for call in node.calls)
    answers = Counter(answer for node in portion for answer in node.answers)
    if not by_multiset:
        calls, answers = Counter(set(calls)), Counter(set(answers))
    odd = {key for key in (calls | answers) if calls[key] != answers[key]}
    found = [call for node in portion for call in node.calls if call in odd]
    found += [answer for node in portion for answer in node.answers if answer in odd]
    return tuple(dict.fromkeys(found))


def segments(run: Sequence[Node], odd_ids: Callable[[Sequence[Node]], tuple[str, ...]] = unpaired) -> Selection:
    """TP-23  Cut a run at its broken portions; what lies between them is sealed."""
    sealed: list[tuple[Node, ...]] = []
    broken: list[Broken] = []
    open_segment: list[Node] = []
    for portion in portions(run):
        ids = odd_ids(portion)
        if not ids:
            open_segment += portion
            continue
        broken.append(Broken(portion[0].owner, portion[0].seq, portion[-1].seq, ids))
        if open_segment:
            sealed.append(tuple(open_segment))
        open_segment = []
    if open_segment:
        sealed.append(tuple(open_segment))
    return Selection(tuple(sealed), tuple(broken))


def select(nodes: Sequence[Node], limits: Limits, *, renewed: bool = False, by_multiset: bool = True) -> Selection:
    """2.5  Everything that a seal over these surface nodes takes, and everything that it warns about.

    `nodes` are the whole surface, or the part of it that begins right behind an entry: what stands in the
    frozen prefix has no influence on what is selected behind it.
    """
    kinds = [node.kind for node in nodes]
    frozen, live = frozen_until(kinds), live_snapshot(kinds, renewed=renewed)
    flags = [
        eligible(node.kind, node.seq, node.owner, limits, frozen=at < frozen, live=at == live)
        for at, node in enumerate(nodes)
    ]
    sealed: list[tuple[Node, ...]] = []
    broken: list[Broken] = []
    for start, end in runs(flags):
        part = segments(nodes[start:end], lambda portion: unpaired(portion, by_multiset=by_multiset))
        sealed += part.segments
        broken += part.broken
    return Selection(tuple(sealed), tuple(broken))
