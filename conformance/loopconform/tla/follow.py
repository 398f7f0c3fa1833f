"""Traces followed by TLC along the TLA+ model of the loop: how far each one comes, and what was false where it stops.

`tla/TraceLoop.tla` constrains the next row only; everything between two rows is hidden. Many traces are given to one
run of TLC.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopconform.tla.instances import TLA
from loopconform.tla.parse import value_of
from loopconform.tla.story import words
from loopconform.tla.subjects import constant, subjects
from loopconform.tla.tlc import Run, run
from loopconform.tla.trace import Row, Trace
from loopconform.tla.values import Value, record, text
from loopspec.profile import Law

ROW = ("kind", "label", "foreign", "finish", "batch", "system", "calls", "size", "room", "cancels", "fails", "rejects")
"""What the model reads of a row; the fields of `Row` of these names."""

MANY = 5_000
"""From so many rows on a run of TLC is long enough for the optimising compiler of Java."""

SURROUNDINGS = """  Broken = {}
  Caps = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
  Prepare = {"dispatch", "post-result"}
  Body = {"success", "failure"}
  Finalise <- Finals
"""


def module_of(traces: Sequence[Trace], stops: Sequence[int] | None = None) -> str:
    """The generated module: the traces as literals. `stops`: where each of them is known to stop."""
    parts = []
    for number, trace in enumerate(traces):
        rows = tuple(record(**{name: getattr(row, name) for name in ROW}) for row in trace.rows)
        head = record(
            nextStep=trace.next_step,
            nextTurn=trace.next_turn,
            turn=trace.turn,
            events=trace.events,
            gated=trace.gated,
            refusals=trace.refusals,
            stop=stops[number] if stops is not None else 0,
            rows=rows,
        )
        parts.append("  " + text(head).replace(", [", ",\n    ["))
    body = ",\n".join(parts)
    # A definition, not a constant of the model: TLC works out a definition once, and an overridden constant each time.
    return f"---- MODULE TraceData ----\nTraces == <<\n{body}>>\n====\n"


def config_of(law: Law, explain: bool, depth: int, sizes: frozenset[int]) -> str:
    """The `.cfg` of the generated module under a law. `sizes`: how many calls a batch may have."""
    switches = subjects()["loop"].switches
    lines = ["SPECIFICATION Spec", "VIEW view", "INVARIANT Progress", "CONSTANTS"]
    lines += [f"  {constant(name)} = {text(bool(getattr(law, name)))}" for name in switches]
    lines += [f"  Depth = {depth}", f"  Explain = {text(explain)}", f"  BatchSizes = {text(sizes)}"]
    return "\n".join(lines) + "\n" + SURROUNDINGS


@dataclass(frozen=True)
class Verdict:
    """How far one trace came. `candidates` are the records that could have come where it stopped."""

    trace: Trace
    explained: int
    candidates: tuple[tuple[Value, ...], ...] = ()

    @property
    def accepted(self) -> bool:
        """Every row was explained."""
        return not self.trace.undecided and self.explained == len(self.trace.rows)

    @property
    def refused(self) -> bool:
        """A row cannot be explained."""
        return not self.trace.undecided and not self.accepted

    @property
    def row(self) -> Row | None:
        """The row that nothing explains."""
        return self.trace.rows[self.explained] if self.refused else None

    def reason(self) -> str:
        """What was false of the row: which part of its label, compared with the records that were possible."""
        row = self.row
        if row is None:
            return ""
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
    followed = [trace for trace in traces if not trace.undecided]
    verdicts = iter(_verdicts(followed, law, depth, timeout, other_jar) if followed else ())
    return [Verdict(trace, 0) if trace.undecided else next(verdicts) for trace in traces]


def _verdicts(traces: Sequence[Trace], law: Law, depth: int, timeout: float, other_jar: Path | None) -> list[Verdict]:
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
    sizes = frozenset(row.size for trace in traces for row in trace.rows if row.size) or frozenset({1})
    with tempfile.TemporaryDirectory(prefix="loopspec-trace-") as private:
        place = Path(private)
        (place / "TraceData.tla").write_text(module_of(traces, stops))
        (place / "TraceRun.tla").write_text("---- MODULE TraceRun ----\nEXTENDS TraceLoop\n====\n")
        (place / "TraceRun.cfg").write_text(config_of(law, stops is not None, depth, sizes))
        done = run(
            place / "TraceRun.tla",
            place / "TraceRun.cfg",
            library=TLA,
            timeout=timeout,
            other_jar=other_jar,
            heap="1500m",
            small=sum(len(trace.rows) for trace in traces) < MANY,
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
    if verdict.trace.undecided:
        return [f"UNDETERMINED {name}: {verdict.trace.undecided}"]
    if row is None:
        return [f"ACCEPTED  {name}: {len(verdict.trace.rows)} rows of one driver"]
    lines = [f"REFUSED   {name}: line {row.line}, {words(row.label[1:])}", f"  {verdict.reason()}"]
    lines += [f"  possible: {words(one[1:])}" for one in sorted(verdict.candidates, key=text)]
    return lines
