"""What the tape and the recall tools know about a log, kept up as the log grows.

A `LogIndex` is the index of one prefix of a log. `grown` gives the index of a longer prefix for the cost of the
new events; answers never depend on how the index was built (TP-69). Values that grew out of one another share
their tables, and each looks only at what lies before its own end.

Attribution is one rule for everybody, so that a locator always opens the page that holds its text (TP-10, RC-10).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from loopspec.tape.text import canonical_json, fingerprint, joined_text, lines_in, origin, outcome, parsed, text_parts
from loopspec.values import Json, Record

READ_TOOLS: Final = frozenset({"read", "read_section", "read_file"})
PATH_KEYS: Final = ("path", "file_path", "filePath")
DEFAULT_WINDOW: Final = "default"

Identity = tuple[str, str, str, bool]
"""Target, tool, full window, and whether the model saw it as a result of its own: TP-64."""

Execution = tuple[int, int, str]
"""Turn, step and call id."""


class Observation(NamedTuple):
    """One successful read of text (TP-60, TP-61). `direct` is false for a read inside a program."""

    identity: Identity
    turn: int
    step: int
    seq: int
    lines: int
    digest: str
    window: Json
    """The arguments besides the path, as they came; `None` when there are none."""

    @property
    def direct(self) -> bool:
        """Whether the logged result of the read went to the model itself."""
        return self.identity[3]


class _Tables:
    """Grows only at its end; shared by every index of one line of growth."""

    def __init__(self) -> None:
        self.length = 0
        self.owners: list[int] = []
        self.starts: dict[int, list[int]] = {}
        self.ends: dict[int, list[int]] = {}
        self.ended: list[int] = []
        self.records: dict[int, list[int]] = {}
        self.spoken: dict[int, int] = {}
        self.calls: dict[Execution, list[int]] = {}
        self.calls_by_id: dict[str, list[int]] = {}
        self.calls_in: dict[tuple[int, int], list[int]] = {}
        self.results_in: dict[tuple[int, int], list[int]] = {}
        self.started: dict[tuple[str, str, str], int] = {}
        self.roots: dict[int, int] = {}
        self.direct: dict[int, Observation] = {}
        self.nested: dict[int, list[Observation]] = {}
        self.history: dict[Identity, list[Observation]] = {}


class LogIndex:
    """The index of the first `length` events of a log. `events` are those events."""

    __slots__ = ("_tables", "ended_turn", "events", "largest_ended", "last_end", "length", "open_turn")

    def __init__(self, events: Sequence[Record] = ()) -> None:
        self._tables = _Tables()
        self.events: Sequence[Record] = ()
        self.length = 0
        self.open_turn: int | None = None
        """The turn that is open at the end."""
        self.ended_turn = 0
        """The turn that ended most recently, 0 before the first."""
        self.largest_ended = 0
        """`L` of the fact sheet: the largest number in any `turn/end`."""
        self.last_end = -1
        """`Z` of the fact sheet: the seq of the last `turn/end`."""
        if events:
            self._take(events)

    def grown(self, events: Sequence[Record]) -> LogIndex:
        """The index of a longer log that begins with this one's events; `self` is unchanged."""
        if len(events) == self.length:
            return self
        if self._tables.length != self.length or len(events) < self.length:
            return LogIndex(events)
        new = LogIndex.__new__(LogIndex)
        for name in LogIndex.__slots__:
            setattr(new, name, getattr(self, name))
        new._take(events)
        return new

    # -- turns

    def owner(self, seq: int) -> int:
        """TP-10, RC-10  The turn an event belongs to, 0 when there is none."""
        return self._tables.owners[seq]

    def is_recorded(self, turn: int) -> bool:
        """RC-11  Whether there is anything to show for a turn. What belongs to no turn has no page (TP-13)."""
        if turn < 1:
            return False
        first = self._tables.spoken.get(turn)
        return bool(self._before(self._tables.starts.get(turn))) or (first is not None and first < self.length)

    def end_of(self, turn: int) -> Record | None:
        """The last `turn/end` of a turn, or `None` while it is open."""
        ends = self._before(self._tables.ends.get(turn))
        return self.events[ends[-1]] if ends else None

    def ended_turns(self, limit: int) -> list[int]:
        """RC-11  The smallest numbers of turns that have ended."""
        return sorted({self.events[seq]["data"]["turn"] for seq in self._before(self._tables.ended)})[:limit]

    def records_of(self, turn: int) -> Sequence[int]:
        """Seqs of the original messages, calls, results and nested dispatches of a turn, in log order."""
        return self._before(self._tables.records.get(turn))

    # -- calls and results

    def call_of(self, turn: int, step: int, call_id: str, before: int | None = None) -> Record | None:
        """TP-46  The latest call with that id in that step, before an event if one is named."""
        return self._latest(self._tables.calls.get((turn, step, call_id)), before)

    def seq_of_call(self, turn: int, step: int, call_id: str, before: int) -> int | None:
        """Seq of the latest call with that id in that step before an event: the execution behind a result."""
        calls = self._tables.calls.get((turn, step, call_id), [])
        at = bisect_left(calls, min(before, self.length))
        return calls[at - 1] if at else None

    def call_named(self, call_id: str, before: int | None = None) -> Record | None:
        """The latest call with that id anywhere, before an event if one is named (RC-13, RC-34)."""
        return self._latest(self._tables.calls_by_id.get(call_id), before)

    def calls_in(self, turn: int, step: int) -> Sequence[int]:
        """Seqs of the calls of one step."""
        return self._before(self._tables.calls_in.get((turn, step)))

    def results_in(self, turn: int, step: int) -> Sequence[int]:
        """Seqs of the append-origin results of one step; the n-th has ordinal n (FD-04, RC-33)."""
        return self._before(self._tables.results_in.get((turn, step)))

    def root_call(self, seq: int) -> int | None:
        """Seq of the call whose program made the nested dispatch recorded at `seq`, if one is known."""
        return self._tables.roots.get(seq)

    def original(self, seq: int, hops: int | None = None) -> int | None:
        """TP-47, RC-33  The append-origin tool result behind a result that was rewritten, however often.

        `hops` limits how many rewrites are followed. `None` when the trail leads to no tool result.
        """
        while self.events[seq]["type"] == "tool/result":
            if origin(self.events[seq]) or hops == 0:
                return seq
            sources = self.events[seq].get("sourceEventSeqs") or (seq,)
            if not 0 <= sources[0] < seq:
                return None
            seq = sources[0]
            hops = None if hops is None else hops - 1
        return None

    # -- reads

    def reads_of(self, seq: int) -> list[Observation]:
        """TP-65  What an original result owns: the reads of its program in order, then its own."""
        event = self.events[seq]
        data = event["data"]
        call = self.seq_of_call(data["turn"], data["step"], outcome(data).call_id, seq)
        if call is None:
            return []
        nested = self._tables.nested.get(call, ())
        own = self._tables.direct.get(seq)
        return [*(read for read in nested if read.seq < self.length), *(() if own is None else (own,))]

    def read_before(self, identity: Identity, turn: int) -> Observation | None:
        """TP-68  The last read of the same thing in the most recent earlier turn."""
        for read in reversed(self._tables.history.get(identity, ())):
            if read.turn < turn and read.seq < self.length:
                return read
        return None

    # -- growing

    def _before(self, seqs: list[int] | None) -> Sequence[int]:
        if not seqs:
            return ()
        return seqs if seqs[-1] < self.length else seqs[: bisect_left(seqs, self.length)]

    def _latest(self, seqs: list[int] | None, before: int | None) -> Record | None:
        if not seqs:
            return None
        at = bisect_left(seqs, self.length if before is None else min(before, self.length))
        return self.events[seqs[at - 1]] if at else None

    def _take(self, events: Sequence[Record]) -> None:
        self.events = events
        tables = self._tables
        for seq in range(self.length, len(events)):
            event = events[seq]
            owner = self._owner_of(event)
            self._note(tables, seq, event)
            if event["type"] == "tool/ptc-dispatch":
                owner = self._dispatch(tables, seq, event["data"])
            tables.owners.append(owner)
            if event["type"] in _RECORDED and origin(event):
                tables.records.setdefault(owner, []).append(seq)
                if event["type"] in ("user/message", "assistant/message"):
                    tables.spoken.setdefault(owner, seq)
            self.length = tables.length = seq + 1

    def _owner_of(self, event: Record) -> int:
        if event["type"] == "user/message":
            return self.ended_turn if self.open_turn is None else self.open_turn
        return _turn(event["data"])

    def _note(self, tables: _Tables, seq: int, event: Record) -> None:
        data = event["data"]
        match event["type"]:
            case "turn/start":
                self.open_turn = _turn(data)
                tables.starts.setdefault(self.open_turn, []).append(seq)
            case "turn/end":
                self.ended_turn = _turn(data)
                if self.open_turn == self.ended_turn:
                    self.open_turn = None
                self.largest_ended = max(self.largest_ended, self.ended_turn)
                self.last_end = seq
                tables.ends.setdefault(self.ended_turn, []).append(seq)
                tables.ended.append(seq)
            case "tool/call":
                place = (data["turn"], data["step"])
                tables.calls.setdefault((*place, data["callId"]), []).append(seq)
                tables.calls_by_id.setdefault(data["callId"], []).append(seq)
                tables.calls_in.setdefault(place, []).append(seq)
            case "tool/result" if origin(event):
                tables.results_in.setdefault((data["turn"], data["step"]), []).append(seq)
                self._result(tables, seq, data)
            case "tool/ptc-dispatch-start":
                root = tables.calls_by_id.get(str(data.get("rootCallId")), [])
                if root:
                    tables.started[_dispatch_key(data)] = root[-1]

    def _result(self, tables: _Tables, seq: int, data: Record) -> None:
        answered = outcome(data)
        calls = tables.calls.get((data["turn"], data["step"], answered.call_id))
        if not calls or answered.failed:
            return
        call = self.events[calls[-1]]["data"]
        place = (data["turn"], data["step"], seq)
        read = _observe(call["name"], call["arguments"], answered.content, place, direct=True)
        if read is not None:
            tables.direct[seq] = read
            tables.history.setdefault(read.identity, []).append(read)

    def _dispatch(self, tables: _Tables, seq: int, data: Record) -> int:
        """Bind a nested dispatch to the call whose program made it (TP-65), and answer that call's turn (RC-14)."""
        root = tables.started.get(_dispatch_key(data))
        if root is None:
            known = tables.calls_by_id.get(str(data.get("rootCallId")), [])
            if not known:
                return self.ended_turn if self.open_turn is None else self.open_turn
            root = known[-1]
        tables.roots[seq] = root
        call = self.events[root]["data"]
        if data.get("isError") is not True:
            place = (call["turn"], call["step"], seq)
            read = _observe(data.get("name"), data.get("arguments"), data.get("content"), place, direct=False)
            if read is not None:
                tables.nested.setdefault(root, []).append(read)
                tables.history.setdefault(read.identity, []).append(read)
        return int(call["turn"])


_RECORDED: Final = frozenset({"user/message", "assistant/message", "tool/call", "tool/result", "tool/ptc-dispatch"})


def _turn(data: Record) -> int:
    turn = data.get("turn") if isinstance(data, Mapping) else None
    return turn if isinstance(turn, int) and not isinstance(turn, bool) else 0


def _dispatch_key(data: Record) -> tuple[str, str, str]:
    return (str(data.get("rootCallId")), str(data.get("parentCallId")), str(data.get("subCallId")))


def arguments_of(value: Json) -> Record | None:
    """The arguments of a call as an object; `None` when they are not one (TP-60)."""
    if isinstance(value, str):
        try:
            value = parsed(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


def _observe(
    tool: Json, arguments: Json, content: Json, place: tuple[int, int, int], *, direct: bool
) -> Observation | None:
    if tool not in READ_TOOLS:
        return None
    given = arguments_of(arguments)
    if given is None:
        return None
    target = next((given[key] for key in PATH_KEYS if given.get(key) is not None), None)
    if not isinstance(target, str) or not target.strip() or not text_parts(content):
        return None
    rest = {key: value for key, value in given.items() if key not in PATH_KEYS}
    text = joined_text(content)
    identity = (target, tool, canonical_json(rest) if rest else DEFAULT_WINDOW, direct)
    return Observation(identity, *place, lines_in(text), fingerprint(text, 8), rest or None)


def shown_reads(reads: Iterator[Observation]) -> list[Observation]:
    """TP-66  Per identity the last observation, at the place of the first."""
    latest: dict[Identity, Observation] = {}
    for read in reads:
        latest[read.identity] = read
    return list(latest.values())
