"""Session logs as traces that TLC holds against the TLA+ model of the loop.

A log becomes one trace for each driver that wrote it: a restart (`session/end-seed`) begins a new one, and the closers
of a crash repair or a fork stand outside of every driver. Rows are named as the model names its records; messages get
numbers in order of first appearance. The mapping of rows is that of `loopspec.log.observation`.

`tla/TraceDriver.tla` constrains the next record only; everything between two records is hidden. Many traces are given
to one run of TLC.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from loopconform.tla.instances import TLA
from loopconform.tla.parse import value_of
from loopconform.tla.story import words
from loopconform.tla.subjects import constant, subjects
from loopconform.tla.tlc import Run, run
from loopconform.tla.values import Value, record, text
from loopspec.log.observation import FOREIGN, Course, Misnumbered, Observation
from loopspec.log.state import items
from loopspec.log.state import record as fields_of
from loopspec.profile import Law

CLOSING = ("interrupted", "forked")
ADMITTED_BEFORE = ("request/header", "request/context", "assistant/", "step/end", "tool/", "turn/")


@dataclass
class Row:
    """One row that a driver wrote, or that stands beside what it wrote. `line` is its line in the file."""

    line: int
    kind: str
    """`record` of the driver, `tool`, or `other`."""
    label: tuple[Value, ...] = ()
    foreign: bool = False
    finish: str = "stop"
    batch: tuple[int, ...] = ()
    """The messages that the next step enters."""
    system: int = 0
    calls: bool = False
    """An answer with tool calls that are run."""
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


class Unreadable(ValueError):
    """The rows are not those of a session log that passed the row rules. The text says which row and why."""


class _Numbers:
    """Messages by number, in order of first appearance."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def of(self, message: Any) -> int:
        id = str(fields_of(message).get("id")) if isinstance(message, dict) else str(message)
        return self.known.setdefault(id, len(self.known) + 1)


def traces_of(name: str, header: dict[str, Any], rows: Iterable[tuple[int, dict[str, Any]]]) -> list[Trace]:
    """The traces of a log from its header and its rows with their lines.

    Raises `Unreadable` for rows whose turn, step or splice numbers cannot be those of a loop.
    """
    course, numbers = Course(header), _Numbers()
    found: list[Trace] = [Trace(name)]
    index = 0
    skipping = False
    for line, row in rows:
        kind = str(row.get("type"))
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
            Row(line, *_read(kind, row, seen, numbers), finish=before or "stop", calls=seen[1:2] == ("calls",)),
        )
    for trace in found:
        _look_ahead(trace)
        _tell_ends(trace)
    return [trace for trace in found if trace.rows and not _is_seed(trace)]


def _members(row: dict[str, Any]) -> int:
    """How many events a row stands for: the members of a packed run, else one."""
    data = fields_of(row.get("data"))
    return max(len(items(data.get("texts", data.get("args")))), 1) if "seq0" in row else 1


def _restarted(name: str, course: Course, numbers: _Numbers) -> Trace:
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
        if closer.label[1] == "tool/result" and closer.label[2] != "unknown":
            trace.rows.append(closer)
            return


def _add(trace: Trace, row: Row) -> None:
    """Add a row. One more piece of a stream that goes on changes nothing; behind a failure another attempt begins."""
    last = trace.rows[-1] if trace.rows else None
    if last is not None and row.label == last.label == ("append", "assistant/chunk") and row.finish != "failure":
        return
    trace.rows.append(row)


def _read(kind: str, row: dict[str, Any], seen: Observation, numbers: _Numbers) -> tuple[str, tuple[Value, ...], bool]:
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
    if what in ("tool/call", "tool/result"):
        return "tool", ("append", what, seen[2]), False
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


def module_of(traces: Sequence[Trace], stops: Sequence[int] | None = None) -> str:
    """The generated module: the traces as literals."""
    parts = []
    for number, trace in enumerate(traces):
        rows = ",\n    ".join(
            text(
                record(
                    kind=row.kind,
                    label=row.label,
                    foreign=row.foreign,
                    finish=row.finish,
                    batch=row.batch,
                    system=row.system,
                    calls=row.calls,
                    cancels=row.cancels,
                    fails=row.fails,
                    rejects=row.rejects,
                )
            )
            for row in trace.rows
        )
        head = f"nextStep |-> {text(trace.next_step)}, nextTurn |-> {text(trace.next_turn)}, turn |-> {trace.turn}"
        stop = stops[number] if stops is not None else 0
        parts.append(f"  [{head}, stop |-> {stop}, rows |-> <<\n    {rows}>>]")
    body = ",\n".join(parts)
    # A definition, not a constant of the model: TLC works out a definition once, and an overridden constant each time.
    return f"---- MODULE TraceData ----\nTraces == <<\n{body}>>\n====\n"


def config_of(law: Law, explain: bool, depth: int) -> str:
    """The `.cfg` of the generated module under a law."""
    switches = subjects()["driver"].switches
    lines = ["SPECIFICATION Spec", "VIEW view", "INVARIANT Progress", "CONSTANTS"]
    lines += [f"  {constant(name)} = {text(bool(getattr(law, name)))}" for name in switches]
    lines += [f"  Depth = {depth}", "  Broken = {}", f"  Explain = {text(explain)}"]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Verdict:
    """How far one trace came. `candidates` are the records that could have come where it stopped."""

    trace: Trace
    explained: int
    candidates: tuple[tuple[Value, ...], ...] = ()

    @property
    def accepted(self) -> bool:
        """Every row was explained."""
        return self.explained == len(self.trace.rows)

    @property
    def row(self) -> Row | None:
        """The row that nothing explains."""
        return None if self.accepted else self.trace.rows[self.explained]

    def reason(self) -> str:
        """What was false of the row: which part of its label, compared with the records that were possible."""
        row = self.row
        if row is None:
            return ""
        if row.kind == "tool":
            return "the step does not wait for tools here"
        if row.kind == "other":
            return "nobody else may append here"
        alike = [one for one in self.candidates if one[1:2] == row.label[1:2]]
        if not alike:
            return f"no action writes {row.label[1]} here"
        best = max(alike, key=lambda one: sum(text(a) == text(b) for a, b in zip(one, row.label, strict=False)))
        wrong = [
            f"argument {number} must be {text(wanted)}, the log has {text(has)}"
            for number, (wanted, has) in enumerate(zip(best[2:], row.label[2:], strict=False), 1)
            if text(wanted) != text(has)
        ]
        return f"of {row.label[1]} " + ("; ".join(wrong) or "another number of arguments is needed")


class Failed(RuntimeError):
    """TLC could not follow the traces at all."""


_PRINTED = re.compile(r'^<<\s*"(explained|candidate)",', re.MULTILINE)


def check(
    traces: Sequence[Trace], law: Law, *, depth: int = 1, timeout: float = 1800, other_jar: Path | None = None
) -> list[Verdict]:
    """Follow traces in one run of TLC (and the refused ones in a second, for the candidates).

    `depth` is the number of calls within calls that the environment makes. Raises `Failed`.
    """
    if not traces:
        return []
    printed = _followed(traces, law, depth, None, timeout, other_jar)
    best = [0] * len(traces)
    for what, number, value in printed:
        if what == "explained":
            best[number - 1] = max(best[number - 1], int(value))
    refused = [at for at, trace in enumerate(traces) if best[at] < len(trace.rows)]
    candidates: dict[int, dict[str, tuple[Value, ...]]] = {}
    if refused:
        stops = [best[at] for at in refused]
        for what, number, value in _followed([traces[at] for at in refused], law, depth, stops, timeout, other_jar):
            if what == "candidate":
                candidates.setdefault(refused[number - 1], {})[text(value)] = value
    return [Verdict(trace, best[at], tuple(candidates.get(at, {}).values())) for at, trace in enumerate(traces)]


def _followed(
    traces: Sequence[Trace], law: Law, depth: int, stops: Sequence[int] | None, timeout: float, other_jar: Path | None
) -> Iterator[tuple[str, int, Value]]:
    with tempfile.TemporaryDirectory(prefix="loopspec-trace-") as private:
        place = Path(private)
        (place / "TraceData.tla").write_text(module_of(traces, stops))
        (place / "TraceRun.tla").write_text("---- MODULE TraceRun ----\nEXTENDS TraceDriver\n====\n")
        (place / "TraceRun.cfg").write_text(config_of(law, stops is not None, depth))
        done = run(
            place / "TraceRun.tla",
            place / "TraceRun.cfg",
            library=TLA,
            timeout=timeout,
            other_jar=other_jar,
            heap="1500m",
            small=False,
        )
    if not done.clean:
        raise Failed(
            "TLC could not follow the log: " + (" | ".join(done.errors)[:1500] or f"exit code {done.exit_code}")
        )
    return printed_in(done)


def printed_in(done: Run) -> Iterator[tuple[str, int, Value]]:
    """What the model printed: `<<"explained", log, at>>` and `<<"candidate", log, label>>`."""
    for line in done.printed:
        if _PRINTED.match(line):
            what, number, value = value_of(line)
            yield what, number, value


def told(name: str, verdict: Verdict) -> list[str]:
    """A verdict in words."""
    row = verdict.row
    if row is None:
        return [f"ACCEPTED  {name}: {len(verdict.trace.rows)} rows of one driver"]
    lines = [f"REFUSED   {name}: line {row.line}, {words(row.label[1:])}", f"  {verdict.reason()}"]
    lines += [f"  possible: {words(one[1:])}" for one in sorted(verdict.candidates, key=text)]
    return lines
