"""When the numbering of a log breaks: which reading of the remaining rows would be legal (field gap G15).

Two readings are tried over the rows that follow, silently and side by side: the odd rows are *strays* and the log goes
on behind them; or a *second writer* began at the odd row, and its rows are legal when renumbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from loopspec.log.state import Log, Row

_REFERENCES = frozenset(("sourceEventSeqs", "shadowedSeqs", "messageSeqs"))
_SINGLE = frozenset(("headerSeq", "throughSeq", "sourceEventSeq"))
_SPANS = frozenset(("surfaceOp", "shadowedRange"))


class Trial:
    """One reading under test. `errors` counts broken rules; the reading stands while there are none."""

    def __init__(self, name: str, log: Log, stored: int) -> None:
        self.name = name
        self.log = log
        self.stored = stored
        self.shift = log.index - stored
        self.alive = True
        self.skipped: list[int] = []
        self.accepted = 0

    def follow(
        self,
        open_row: Callable[[Log, int], Row],
        fold: Callable[[Log, Row], bool],
        raw: dict[str, Any],
        line: int,
    ) -> None:
        """Try one more row under this reading."""
        seq = raw.get("seq0", raw.get("seq"))
        if type(seq) is not int:
            self.alive = False
            return
        if self.name == "strays" and seq != self.log.index:
            self.skipped.append(line)
            self.alive = self.accepted == 0
            return
        if self.name == "second writer" and seq + self.shift != self.log.index:
            self.alive = False
            return
        row = open_row(self.log, self.log.index)
        if self.name == "second writer":
            row.raw = renumbered(row.raw, self.stored, self.shift)
            data = row.raw.get("data")
            row.data = data if type(data) is dict else {}
        self.accepted += 1
        self.alive = row.shape is None and fold(self.log, row)


def trials(log: Log, row: Row) -> tuple[Trial, ...]:
    """The readings worth trying from this row on; none when its seq is no integer."""
    stored = row.raw.get("seq0" if row.packed else "seq")
    if type(stored) is not int or stored < 0:
        return ()
    strays, second = Trial("strays", log.fork(), stored), Trial("second writer", log.fork(), stored)
    return strays, second


def renumbered(value: Any, first: int, shift: int, key: str | None = None) -> Any:
    """A row whose references to seqs from `first` on are moved by `shift`, and its own seq with them."""
    if key in ("seq", "seq0") or key in _SINGLE:
        return value + shift if type(value) is int and value >= first else value
    if key in _REFERENCES and type(value) is list:
        return [renumbered(item, first, shift, "seq") for item in value]
    if key in _SPANS and type(value) is dict:
        return {name: renumbered(item, first, shift, "seq") for name, item in value.items()}
    if key == "targets" and type(value) is list:
        return [renumbered(item, first, shift) for item in value]
    if key in (None, "data") and type(value) is dict:
        return {name: renumbered(item, first, shift, name) for name, item in value.items()}
    return value


def explain(
    reason: str, row: Row | None, lines: Iterable[tuple[int, int, Any]], tried: tuple[Trial, ...]
) -> tuple[str, str]:
    """The sentence about a broken numbering, and the nearest legal reading."""
    if row is None or not tried:
        return reason, "rows numbered 0, 1, 2 and so on"
    where = f" in frame {row.frame} at byte offset {row.offset}" if row.frame else ""
    strays, second = tried
    stored = second.stored
    expected = stored + second.shift
    if stored > expected:
        text = (
            f"{reason} Corrupt: the rows of seq {expected} to {stored - 1} are missing before line {row.line}{where}."
        )
    else:
        text = f"{reason} Corrupt: seq {stored} is used a second time at line {row.line}{where}."
    if strays.alive and (strays.accepted or stored < expected):
        gone = _listed(strays.skipped)
        return text, f"Without {gone} the file is legal." if strays.accepted else f"The rows before {gone} are legal."
    if second.alive and stored < expected:
        first = next(((at, line, kind) for at, line, kind in lines if at == stored), None)
        branch = f"line {first[1]} ({first[2]}, seq {stored})" if first is not None else f"seq {stored}"
        text += (
            f" The sequence forks: one branch goes on at {branch}, the other begins at line {row.line} "
            f"({row.type}), as when two processes write one log."
        )
        return text, f"The rows from line {row.line} on are legal when renumbered by {_number(second.shift)}."
    if second.alive:
        return text, f"The rows from line {row.line} on would be legal when renumbered by {second.shift}."
    return text, f"seq {expected} at line {row.line}; the rows before it are sound"


def _number(count: int) -> str:
    return "one" if count == 1 else str(count)


def _listed(found: list[int]) -> str:
    if len(found) == 1:
        return f"line {found[0]}"
    if len(found) == 2:
        return f"lines {found[0]} and {found[1]}"
    return f"the {len(found)} lines from {found[0]} to {found[-1]}"
