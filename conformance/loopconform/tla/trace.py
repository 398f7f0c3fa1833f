"""Session logs as traces that TLC holds against the TLA+ model of the loop.

A log becomes one trace for each driver that wrote it: a restart (`session/end-seed`) begins a new one, and the closers
of a crash repair or a fork stand outside of every driver. Rows are named as the model names its records; messages get
numbers in order of first appearance. The mapping of rows is that of `loopspec.log.observation`.

`follow` gives them to TLC.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from loopconform.tla.values import Value
from loopspec.log.observation import FOREIGN, Course, Misnumbered, Observation
from loopspec.log.state import OPAQUE_ID, items
from loopspec.log.state import record as fields_of

PIECES = (("append", "assistant/chunk"), ("notify", "agent/assistant-stream", "chunk"))
"""Labels of the pieces of a stream: one more of them tells nothing new."""

LIVE = "live"
"""The type of rows that are no records but live events, of which a trace of the conformance runner has some."""

UNFINISHED = {"TOOL_OUTCOME_UNKNOWN": "outcome-unknown", "TOOL_NOT_STARTED": "not-started"}
"""Results that say what a log knows of a call that nobody answered, by their error codes."""

ADMITTED_BEFORE = ("request/header", "request/context", "assistant/", "step/end", "tool/", "turn/")


@dataclass
class Row:
    """One row that a driver wrote, or that stands beside what it wrote. `line` is its line in the file."""

    line: int
    kind: str
    """`record` of the loop, or `other`."""
    label: tuple[Value, ...] = ()
    foreign: bool = False
    finish: str = "stop"
    batch: tuple[int, ...] = ()
    """The messages that the next step enters."""
    system: int = 0
    calls: bool = False
    """An answer with tool calls that are run."""
    size: int = 0
    """How many calls the last answer made."""
    room: int = 1
    """How many of them are open at a time, at most."""
    cancels: frozenset[str] = frozenset()
    """Causes of a cancel that leaves no record of its own: told by the end of the open turn."""
    fails: bool = True
    """The open turn may have failed."""
    rejects: bool = True
    """The open turn may have been blocked."""


@dataclass
class Trace:
    """What one driver wrote: the lists and the turn with which it began, and its rows."""

    name: str
    next_step: tuple[int, ...] = ()
    next_turn: tuple[int, ...] = ()
    turn: int = 0
    rows: list[Row] = field(default_factory=list)
    events: frozenset[str] = frozenset()
    """The live events of which every one is among the rows."""
    gated: bool = False
    """It begins before its agent is published: a wake may have been kept."""
    refusals: int = 0
    """How many records somebody may have refused."""
    undecided: str = ""
    """Why nothing can be said of it; empty when something can."""


class Unreadable(ValueError):
    """The rows are not those of a session log that passed the row rules. The text says which row and why."""


INDISTINCT = f"its message ids are all the placeholder {OPAQUE_ID}, so no message can be told from another"


class Numbers:
    """Messages by number, in order of first appearance. `indistinct`: a message has a placeholder for an id."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.indistinct = False

    def of(self, message: Any) -> int:
        """The number of a message, or of a message id."""
        id = str(fields_of(message).get("id")) if isinstance(message, dict) else str(message)
        self.indistinct = self.indistinct or id == OPAQUE_ID
        return self.known.setdefault(id, len(self.known) + 1)


def traces_of(
    name: str, header: dict[str, Any], rows: Iterable[tuple[int, dict[str, Any]]], numbers: Numbers | None = None
) -> list[Trace]:
    """The traces of a log from its header and its rows with their lines. `numbers`: how messages are numbered.

    Raises `Unreadable` for rows whose turn, step or splice numbers cannot be those of a loop.
    """
    course, numbers = Course(header), numbers or Numbers()
    found: list[Trace] = [Trace(name)]
    index = 0
    skipping = False
    for line, row in rows:
        kind = str(row.get("type"))
        if kind == LIVE:
            heard = _heard(row, numbers)
            if heard:
                _add(found[-1], Row(line, "record", heard, **_asked(found[-1], ("",))))
            continue
        if course.cut_here(index):
            found.append(_restarted(name, course, numbers))
        index += _members(row)
        before = course.finish
        try:
            seen = course.observe(row)
        except Misnumbered as problem:
            raise Unreadable(f"line {line}: {kind} cannot stand here: {problem}") from None
        if seen[0] == "session/end-seed":
            # In a later format the closers follow the marker (S-REP-6): they are skipped up to their `turn/end`.
            skipping = bool(seen[1])
            found.append(_restarted(name, course, numbers))
            continue
        if skipping:
            skipping = not (seen[0] == "turn/end" and seen[3])
            found[-1] = _restarted(name, course, numbers)
            continue
        if seen[0] == "turn/end" and seen[3]:
            _without_closers(found[-1])
            found.append(_restarted(name, course, numbers))
            continue
        _add(
            found[-1],
            Row(line, *_read(kind, row, seen, numbers), finish=before or "stop", **_asked(found[-1], seen)),
        )
    for trace in found:
        told(trace)
        trace.undecided = INDISTINCT if numbers.indistinct else ""
    return [trace for trace in found if trace.rows and not _is_seed(trace)]


def told(trace: Trace) -> Trace:
    """The trace, every row of which now says what the surroundings must have known by then."""
    _look_ahead(trace)
    _tell_ends(trace)
    _tell_room(trace)
    return trace


def _heard(row: dict[str, Any], numbers: Numbers) -> tuple[Value, ...]:
    """The label of a live event; nothing for one of which an adapter does not tell all that the model says."""
    name, data = str(row.get("name")), fields_of(row.get("data"))
    if name == "agent/status":
        return ("notify", name, str(data.get("status")))
    if name in ("agent/inbox/inserted", "agent/inbox/discarded"):
        return ("notify", name, numbers.of(data.get("message")))
    if name == "agent/inbox/claimed":
        return ("notify", name, numbers.of(data.get("message")), data.get("turn"))
    if name == "agent/error":
        return ("notify", name, data.get("turn"), data.get("step"))
    if name == "agent/assistant-stream":
        return ("notify", name, str(fields_of(data.get("frame")).get("type")))
    if name == "signal/abort" and "kind" in data:
        return ("notify", "abort", "disposed" if data["kind"] == "disposed" else "user")
    return ()


def _asked(trace: Trace, seen: Observation) -> dict[str, Any]:
    """Whether a row is an answer with calls, and how many the last answer had."""
    if seen[0] == "assistant/message":
        return {"calls": seen[1] == "calls", "size": seen[2]}
    return {"size": trace.rows[-1].size if trace.rows else 0}


def _members(row: dict[str, Any]) -> int:
    """How many events a row stands for: the members of a packed run, else one."""
    data = fields_of(row.get("data"))
    return max(len(items(data.get("texts", data.get("args")))), 1) if "seq0" in row else 1


def _restarted(name: str, course: Course, numbers: Numbers) -> Trace:
    lists = course.lists
    return Trace(
        name,
        tuple(numbers.of(message) for message in lists["next-step"]),
        tuple(numbers.of(message) for message in lists["next-turn"]),
        course.last_turn,
    )


def _is_seed(trace: Trace) -> bool:
    """Turns without a single inbox record come from a seed that a caller gave (S-ENV-6): no loop wrote them."""
    opens = any(row.label[:2] == ("append", "turn/start") for row in trace.rows)
    spliced = any(row.label[:2] == ("append", "agent/inbox/spliced") for row in trace.rows)
    return opens and not spliced and not trace.next_step and not trace.next_turn


def _without_closers(trace: Trace) -> None:
    """Take the closers of a repair off the end: results of open calls, then the end of the step (S-REP-3)."""
    while trace.rows and trace.rows[-1].label[1:2] in (("tool/result",), ("step/end",)):
        closer = trace.rows.pop()
        if closer.label[1] == "tool/result" and closer.label[3] not in UNFINISHED.values():
            trace.rows.append(closer)
            return


def _add(trace: Trace, row: Row) -> None:
    """Add a row. One more piece of a stream that goes on changes nothing; behind a failure another attempt begins."""
    last = trace.rows[-1] if trace.rows else None
    if last is not None and row.label == last.label and row.label in PIECES and row.finish != "failure":
        return
    trace.rows.append(row)


def _read(kind: str, row: dict[str, Any], seen: Observation, numbers: Numbers) -> tuple[str, tuple[Value, ...], bool]:
    """What a row is to the model: its kind, its label, and whether somebody else may have written it."""
    data = fields_of(row.get("data"))
    what = seen[0]
    if what == FOREIGN:
        return "other", ("append", kind), True
    if what == "splice":
        inserted = tuple(numbers.of(message) for message in items(data.get("inserted")))
        return "record", ("append", "agent/inbox/spliced", *seen[1:4], inserted, seen[5]), False
    if what == "user/message":
        return "record", ("append", what, numbers.of(data)), True
    if what == "turn/end":
        cause = () if seen[1] != "aborted" else ("disposed" if seen[2] == "disposed" else "user",)
        return "record", ("append", what, data.get("turn"), seen[1], *cause), False
    if what == "turn/start":
        return "record", ("append", what, data.get("turn")), False
    if what in ("step/start", "step/end"):
        return "record", ("append", what, data.get("turn"), data.get("step")), False
    if what == "request/header":
        return "record", ("append", what, seen[1]), False
    if what == "assistant/message":
        return "record", ("append", what, "interrupted" if seen[1] == "interrupted" else "settled"), False
    if what == "tool/call":
        return "record", ("append", what, seen[1]), False
    if what == "tool/result":
        code = str(fields_of(data.get("error")).get("code"))
        return "record", ("append", what, seen[1], UNFINISHED.get(code, seen[2])), False
    return "record", ("append", what), what == "system/message"


def _look_ahead(trace: Trace) -> None:
    """Tell every row which messages the next step enters, and how many system messages come before them."""
    batch: tuple[int, ...] = ()
    system = 0
    entered: list[int] = []
    count = 0
    for row in reversed(trace.rows):
        name = str(row.label[1])
        if name == "user/message" and row.kind == "record":
            entered.insert(0, row.label[2])
        elif name == "system/message":
            count += 1
        elif name == "step/start":
            batch, system = tuple(entered), count
        elif name.startswith(ADMITTED_BEFORE):
            if name == "step/end" or name.startswith("turn/"):
                entered, count = [], 0
            elif name.startswith("request/"):
                entered = []
        row.batch, row.system = batch, max(system, count)


EITHER = frozenset(("user", "disposed"))


def _tell_ends(trace: Trace) -> None:
    """Tell every row how the turn ends that is open before it, and so what the environment may have done."""
    end: tuple[Value, ...] | None = None
    edges = [row.label[1] for row in trace.rows if row.label[1] in ("turn/start", "turn/end")]
    inside = bool(edges) and edges[-1] == "turn/start"
    for row in reversed(trace.rows):
        name = row.label[1]
        if name == "turn/end":
            inside, end = True, row.label[3:]
        if not inside:
            row.cancels = EITHER if name != "turn/start" else frozenset()
        elif end is None:
            row.cancels = EITHER
        else:
            row.cancels = frozenset((str(end[1]),)) if end[0] == "aborted" else frozenset()
            row.fails = end[0] in ("aborted", "error")
            row.rejects = end[0] in ("aborted", "blocked")
        if name == "turn/start":
            inside, end = False, None
            row.cancels, row.fails, row.rejects = frozenset(), False, False


def _tell_room(trace: Trace) -> None:
    """Tell every row how many calls of its batch are open at a time, at most."""
    for batch in _batches(trace.rows):
        open_calls = accumulate({"tool/call": 1, "tool/result": -1}.get(str(row.label[1]), 0) for row in batch)
        room = max(1, *open_calls)
        for row in batch:
            row.room = room


def _batches(rows: list[Row]) -> Iterator[list[Row]]:
    """The rows from each answer with calls to the next one."""
    starts = [at for at, row in enumerate(rows) if row.calls]
    for start, end in zip([0, *starts], [*starts, len(rows)], strict=True):
        if start < end:
            yield rows[start:end]
