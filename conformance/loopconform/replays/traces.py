"""Traces of the conformance runner: what one agent showed in one case, as a file that `loopspec trace-check` follows.

A trace is a session log with live events between its records. Its header says more than that of a log:

    {"type": "session", "version": 4, "id": "a",
     "trace": {"case": …, "profile": "seed", "refusals": 0, "undecided": ""}}

`refusals` are the vetoes of the case. `undecided` says why the trace cannot be followed, when it cannot: an agent that
begins with a stored log has a past that the trace does not show.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loopconform.protocol.requests import Veto
from loopconform.replays.transcript import rows_of
from loopconform.runner.play import TRANSCRIPT
from loopconform.runner.results import Result
from loopconform.tla.trace import LIVE, Trace, Unreadable, traces_of

BEGINS = "session/created"
"""The live event with which a life of an agent begins."""

PARTIAL = ("signal/abort",)
"""Live events that an adapter may not hear every time: they cannot be held against the model."""

STORED = ("resume", "fork", "restart")
"""Operations after which an agent goes on from a log."""


def write(result: Result, directory: Path) -> list[Path]:
    """Write a trace for each life of each agent of a case. Answers the files."""
    written = []
    for name, lines in _traces(result):
        file = directory / f"{result.key.replace('/', '.')}.{name}.jsonl"
        file.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines), encoding="utf-8")
        written.append(file)
    return written


def _traces(result: Result) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    agents = dict.fromkeys(
        body["agent"] for who, body in result.transcript if who == "adapter" and body["type"] in ("record", LIVE)
    )
    for agent in agents:
        for number, life in enumerate(_lives(list(rows_of(result.transcript, agent))), 1):
            yield f"{agent}{number}", [_header(result, agent), *life]


def _lives(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The rows from each announcement of a session to the next; what is published before belongs to nobody."""
    starts = [at for at, row in enumerate(rows) if row["type"] == LIVE and row["name"] == BEGINS]
    for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        yield rows[start:end]


def _header(result: Result, agent: str) -> dict[str, Any]:
    about = {
        "case": result.case.id,
        "profile": result.profile,
        "refusals": sum(isinstance(request, Veto) for request in result.case.program),
        "undecided": _undecided(result),
    }
    return {"type": "session", "version": result.case.opening.session_format, "id": agent, "trace": about}


def _undecided(result: Result) -> str:
    opening = result.case.opening.model_dump(exclude_defaults=True)
    ops = {op.op for request in result.case.program for op in getattr(request, "ops", ())}
    if opening.get("stored") or ops & set(STORED):
        return "an agent goes on from a stored log, which the trace does not show"
    if len(result.transcript) >= TRANSCRIPT:
        return f"the transcript ends behind {TRANSCRIPT} messages"
    return ""


def is_trace(first: str) -> bool:
    """Whether the first line of a file is the header of a trace."""
    try:
        header = json.loads(first)
    except ValueError:
        return False
    return isinstance(header, dict) and isinstance(header.get("trace"), dict)


def read(file: Path) -> tuple[str, int, list[Trace]]:
    """The profile and format of a trace, and what the model is to follow. Raises `Unreadable`."""
    rows = []
    for line, text in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        try:
            rows.append((line, json.loads(text)))
        except ValueError:
            raise Unreadable(f"line {line} is not JSON") from None
    header, about = rows[0][1], rows[0][1]["trace"]
    kept = [(line, row) for line, row in rows[1:] if row.get("name") not in PARTIAL]
    found = traces_of(str(file), header, kept)
    for trace in found:
        trace.events = frozenset(str(row.label[1]) for row in trace.rows if row.label[0] == "notify")
        trace.gated = True
        trace.refusals = int(about.get("refusals", 0))
        trace.undecided = str(about.get("undecided", "")) or trace.undecided
    return str(about.get("profile", "seed")), 4 if header.get("version") == 4 else 0, found
