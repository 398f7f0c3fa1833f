"""The checker's state: everything that the rules of a whole log need to know, kept up to date row by row.

One pass is enough (`S-LNT-202`): the open turn and step, the calls of the step, the surface, the last header and
context, the inbox lists, the open brackets and the id sets. A `Log` belongs to one run over one log; it is never
handed out. `loopspec.log.fold` moves it; nothing here judges.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

from loopspec import stream
from loopspec import surface as surfaces
from loopspec.log.packed import PACKED_TYPES
from loopspec.log.repair import OpenWork
from loopspec.log.types import KNOWN_TYPES, RETIRED_TYPES, SURFACE_TYPES, VERSIONS, Dialect
from loopspec.values import Record

STEP_SCOPED = frozenset(
    (
        *("system/message", "developer/message", "assistant/message", "assistant/chunk", "assistant/attempt"),
        *("tool/call", "tool/result", "llm/retry", "llm/retry-started"),
    )
)
"""Events that name the open turn and step (`session-log` 4.1)."""
DISPATCH_STARTS = frozenset(("tool/code-dispatch-start", "tool/ptc-dispatch-start"))
DISPATCH_ENDS = frozenset(("tool/code-dispatch", "tool/ptc-dispatch"))
OPAQUE_ID = "{{messageId}}"
"""The placeholder of some snapshot logs for every message id."""
NO_TYPE = "<no type>"
"""The type of a row whose type is no string."""
NONE: dict[str, Any] = {}


def is_int(value: object) -> bool:
    """An integer and not a boolean."""
    return type(value) is int


def record(value: object) -> dict[str, Any]:
    """The value itself when it is an object, else an empty one."""
    return value if type(value) is dict else NONE


def items(value: object) -> list[Any]:
    """The value itself when it is an array, else an empty one."""
    return value if type(value) is list else []


def name(value: object) -> str | None:
    """The value itself when it is a string, else None, by which nothing is known."""
    return value if type(value) is str else None


Piece = tuple[str, Record]
"""A chunk with its type, or a packed run of deltas with the type of its row or record."""


def joined_chunk(kind: str, run: Record) -> dict[str, Any]:
    """One delta that stands for a packed run: assembling it gives the same as assembling its members (`S-CHK-10`)."""
    if kind == "tool-call-chunks":
        named = {"name": run["name"]} if "name" in run else NONE
        return {
            "type": "tool-call-delta",
            "index": run["index"],
            "id": run["id"],
            **named,
            "argumentsDelta": "".join(run["args"]),
        }
    delta = "text-delta" if kind == "text-chunks" else "reasoning-delta"
    return {"type": delta, "index": run["index"], "text": "".join(run["texts"])}


class Row:
    """One event (or one packed run of chunk events) as the rules see it. `data` is `{}` when it is not an object.

    What a reader of the row has not filled in has the value of the class: most rows need little of it.
    """

    count = 1
    packed = False
    plain = False
    """Of the shape that `loopspec.log.plain` knows."""
    appends = True
    """Folded as an append: anything that does not at least claim to be a replace."""
    chunk: dict[str, Any] | None = None
    judged: tuple[stream.Grammar, tuple[stream.Violation, ...]] | None = None
    message: dict[str, Any] = NONE
    content: Sequence[Any] = ()
    settlement: stream.Settlement | None = None
    shape: str | None = None
    surface_breaches: tuple[surfaces.Breach, ...] = ()
    unpacked_text: str | None = None

    def __init__(self, raw: dict[str, Any], line: int, index: int, frame: int = 0, offset: int = 0) -> None:
        self.raw = raw
        self.line = line
        self.index = index
        self.frame = frame
        self.offset = offset
        kind = raw.get("type")
        self.type: str = kind if type(kind) is str else NO_TYPE
        self.time: Any = raw.get("time")
        data = raw.get("data")
        self.data: dict[str, Any] = data if type(data) is dict else NONE
        self.turn: Any = self.data.get("turn")
        self.step: Any = self.data.get("step")
        op = raw.get("surfaceOp")
        if type(op) is dict and op.get("op") == "replace":
            self.appends = False

    @property
    def op(self) -> Any:
        return self.raw.get("surfaceOp")

    @property
    def sources(self) -> Any:
        return self.raw.get("sourceEventSeqs")

    def replaces(self, dialect: int) -> tuple[int, int] | None:
        """The endpoints of a well-formed replace, else None (`S-SUR-2`)."""
        op = self.raw.get("surfaceOp")
        if type(op) is not dict or op.get("op") != "replace" or len(op) != 3:
            return None
        start, end = (op.get("start"), op.get("end")) if dialect == 0 else (op.get("startSeq"), op.get("endSeq"))
        return (start, end) if type(start) is int and type(end) is int else None


class PlainResult(NamedTuple):
    """A plain tool result without its content, in as few words as that takes."""

    format: int
    turn: int
    step: int
    id: str
    call_id: str
    is_error: bool

    def data(self) -> Record:
        """The payload, its content empty."""
        source = {"kind": "tool", "callId": self.call_id}
        answer: Record = {"toolCallId": self.call_id, "content": [], "isError": self.is_error}
        if self.format == 4:
            message = {"id": self.id, "role": "tool", "source": source, **answer}
        else:
            message = {"id": self.id, "role": "user", "source": source, "content": [{"type": "tool-result", **answer}]}
        return {"turn": self.turn, "step": self.step, "message": message}


NO_RESULTS: frozenset[int] = frozenset()
"""One for all: every empty set that is made anew takes its own place."""


class Node:
    """A current surface node: what later rules must know about it."""

    __slots__ = ("anchor", "call", "calls", "kind", "line", "results")

    def __init__(self, kind: str, line: int) -> None:
        self.kind = kind
        self.line = line
        self.calls: tuple[str, ...] = ()
        self.call: str | None = None
        self.anchor: int | None = None
        self.results = NO_RESULTS

    def __copy__(self) -> Node:
        twin = Node(self.kind, self.line)
        twin.calls, twin.call, twin.anchor, twin.results = self.calls, self.call, self.anchor, self.results
        return twin


class Call:
    """An advertised tool call of the open step."""

    __slots__ = ("block", "line", "order", "result", "seq")

    def __init__(self, block: dict[str, Any], order: int) -> None:
        self.block = block
        self.order = order
        self.seq: int | None = None
        self.line = 0
        self.result: int | None = None


class Bracket:
    """An open compaction (`S-LNT-96` to `98`)."""

    __slots__ = ("checkpoint", "id", "line", "range", "seq", "summaries", "turn")

    def __init__(self, row: Row) -> None:
        self.id: Any = row.data.get("compactionId")
        self.turn: Any = row.data.get("turn")
        self.line = row.line
        self.seq = row.index
        self.summaries = 0
        self.range: tuple[Any, Any] | None = None
        self.checkpoint = False


class Pledge:
    """A place in the log that something later must answer for: a claimed message, a skipped call, a scheduled retry."""

    __slots__ = ("done", "key", "line", "seq", "value")

    def __init__(self, key: Any, row: Row, value: Any = None) -> None:
        self.key = key
        self.line = row.line
        self.seq = row.index
        self.value = value
        self.done = False


class Log:
    """The state of the fold. See the module text."""

    def __init__(
        self,
        header: dict[str, Any],
        dialect: int,
        *,
        snapshot: bool = False,
        foreign: bool = False,
        place: tuple[str, str] | None = None,
        generation: int | None = None,
    ) -> None:
        self.header_row = header
        self.format = dialect
        self.snapshot = snapshot
        self.foreign = foreign
        self.place = place
        self.generation = generation
        self.dialect: Dialect = VERSIONS[dialect]
        self.surface_types = SURFACE_TYPES[self.dialect]
        self.known_types = KNOWN_TYPES[self.dialect]
        self.retired_types = RETIRED_TYPES[self.dialect]
        self.no_seq = False
        self.no_time = False
        self.torn = False
        # rows
        self.index = 0
        self.line = 1
        self.time: int | None = None
        self.last_type: str | None = None
        self.before_created: Pledge | None = None
        created = header.get("createdAt")
        self.created_at: int | None = created if type(created) is int else None
        # seeds
        seed = header.get("seedLength")
        self.seed_length: int = seed if type(seed) is int else 0
        self.seed_types: dict[int, Any] = {}
        self.inherited_marker = False
        self.marker_time: Any = None
        """The time of the last inherited marker."""
        self.inherited = self.seed_length
        self.seeded = bool(header.get("isSeeded")) or self.seed_length > 0
        # turns and steps
        self.turn: int | None = None
        self.turn_line = 0
        self.last_turn = 0
        self.step: int | None = None
        self.last_step = 0
        self.hit_ceiling = False
        self.interrupted_end: Pledge | None = None
        self.interrupted_messages: list[Pledge] = []
        self.skipped_calls: list[Pledge] = []
        self.skipped_in_step = False
        # surface
        self._surface = surfaces.empty(self.dialect)
        self.appended: list[tuple[int, str, Record | PlainResult]] = []
        self.nodes: dict[int, Node] = {}
        self.message_ids: dict[str, int] = {}
        self.human_seqs: set[int] = set()
        self.last_surface_in_step: tuple[int, int, Any] | None = None
        """Line, seq and time of the last row that joined the surface in the open step, in format 4."""
        # the step's stream and calls
        self.anchor: int | None = None
        self._assembly = stream.EMPTY
        self.heard: list[Piece] = []
        self.grammar = stream.GRAMMAR_START
        self.attempt_ranges: list[tuple[int, int]] = []
        self.run_at: int | None = None
        self.run_key: tuple[Any, ...] | None = None
        self.run_words: list[str] = []
        self.calls: dict[str, Call] = {}
        self.unanswered = 0
        self.last_result_order = -1
        # requests
        self.header: dict[str, Any] | None = None
        self.header_tools: frozenset[str] | None = None
        self.header_tool_tables: dict[int, list[Any]] = {}
        self.header_since_seed = True
        self.headerless_stream = False
        self.context: dict[str, Any] | None = None
        # inbox
        self.inbox: dict[str, list[Any]] = {"next-turn": [], "next-step": []}
        self.claims: dict[Any, Pledge] = {}
        self.ever_claimed: set[Any] = set()
        # brackets
        self.bracket: Bracket | None = None
        self.prune: Pledge | None = None
        self.retry_counts: dict[tuple[Any, ...], tuple[int, Any]] = {}
        self.retry_ids: dict[Any, tuple[Any, ...]] = {}
        self.scheduled_retry: Pledge | None = None
        self.commands: dict[Any, bool] = {}
        self.approvals: dict[Any, bool] = {}
        self.dispatches: dict[Any, Pledge] = {}
        self.dispatch_ids: set[Any] = set()
        self.children: set[Any] = set()

    @property
    def assembly(self) -> stream.Assembly:
        """What the attempt at hand has given so far, with the pieces that were heard since somebody asked last."""
        for kind, body in self.heard:
            self._assembly = stream.absorb(self._assembly, joined_chunk(kind, body) if kind in PACKED_TYPES else body)
        self.heard = []
        return self._assembly

    @assembly.setter
    def assembly(self, assembly: stream.Assembly) -> None:
        self._assembly, self.heard = assembly, []

    @property
    def surface(self) -> surfaces.Surface:
        """The surface, with the appends that were noted since somebody asked last."""
        if self.appended:
            surface = self._surface
            for seq, kind, frame in self.appended:
                data = frame.data() if type(frame) is PlainResult else frame
                surface = surface.append(seq, {"type": kind, "surfaceOp": "append", "data": data})
            self._surface = surface
            self.appended = []
        return self._surface

    @surface.setter
    def surface(self, surface: surfaces.Surface) -> None:
        self._surface, self.appended = surface, []

    @property
    def last_seq(self) -> int:
        return self.index - 1

    def config(self) -> dict[str, Any]:
        """The `config` of the last request header, or `{}`."""
        return record((self.header or NONE).get("config"))

    def shadowed(self, row: Row) -> list[int] | None:
        """The nodes that a replace removes, or None when it is no legal replace (`S-SUR-3`)."""
        ends = row.replaces(self.format)
        if ends is None:
            return None
        first, last = self.surface.nodes.position(ends[0]), self.surface.nodes.position(ends[1])
        if first is None or last is None or first > last:
            return None
        return list(self.surface.nodes[first : last + 1])

    def flush(self) -> None:
        """Fold the deltas that were collected since the last chunk of another kind, as one joined delta."""
        if self.run_key is None or self.run_at is None:
            return
        kind, at, call_id, name = self.run_key
        words = "".join(self.run_words)
        if kind == "tool-call-delta":
            named = {} if name is None else {"name": name}
            chunk = {"type": kind, "index": at, "id": call_id, **named, "argumentsDelta": words}
        else:
            chunk = {"type": kind, "index": at, "text": words}
        self.heard.append((kind, chunk))
        self.attempt_ranges[-1] = (self.attempt_ranges[-1][0], self.run_at + len(self.run_words))
        self.run_at += len(self.run_words)
        self.run_key = None
        self.run_words = []

    def open_work(self) -> OpenWork:
        """What stands open here, in the form that the repair rules take (`S-REP-2`)."""
        pending = tuple((call_id, call.seq) for call_id, call in self.calls.items() if call.result is None)
        return OpenWork(self.turn, self.step, pending, self.index, self.time or 0)

    def fork(self) -> Log:
        """An independent copy, for trying another reading of the rows that follow."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                setattr(twin, name, {key: _twin(item) for key, item in value.items()})
            elif isinstance(value, list | set | Bracket):
                setattr(twin, name, copy.copy(value))
        return twin


def _twin(item: Any) -> Any:
    return copy.copy(item) if isinstance(item, Node | Call | list) else item
