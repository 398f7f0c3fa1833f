"""What a checker rule is: an id, a level, one sentence, and a function that looks at one row.

A rule reads the folded log so far (`loopspec.log.state.Log`, the state *before* the row) and the row, and answers with
nothing, one `Breach` or several. It never changes anything; `loopspec.log.fold.advance` does that afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from loopspec.log.state import Log, Row

Level = Literal["E", "W", "I", "U"]
"""Error, warning, information, undecided."""

LEVEL_NAMES: dict[Level, str] = {"E": "error", "W": "warning", "I": "information", "U": "undecided"}


class Breach(NamedTuple):
    """One answer of a rule: what is wrong here, what would have been legal, and the values that decided.

    `line` and `seq` override the row at hand (an obligation is blamed on the row that made it). `level` overrides the
    level of the rule.
    """

    reason: str
    legal: str = ""
    values: tuple[tuple[str, Any], ...] = ()
    line: int | None = None
    seq: int | None = None
    level: Level | None = None
    column: int = 0


class Violation(NamedTuple):
    """A breach with its rule and place. `line` is 0 when no line can be named; `seq` is None for the header."""

    rule: str
    level: Level
    line: int
    seq: int | None
    sentence: str
    reason: str
    legal: str = ""
    values: tuple[tuple[str, Any], ...] = ()
    column: int = 0
    frame: int = 0
    offset: int = 0


Answer = Breach | Sequence[Breach] | None
Check = Callable[["Log", "Row"], Answer]

END = "<end of log>"
"""The pseudo type of the row that a rule gets at the end of the log."""
HEADER = "<header>"
"""The pseudo type of the header row."""
DAMAGE = "<damage>"
"""The pseudo type of a damage that the reader found."""
ANY = "<any event>"
"""Rules on every event."""


class Rule(NamedTuple):
    """One checker rule: `on` names the event types (or pseudo types) it looks at, `formats` the dialects."""

    id: str
    level: Level
    sentence: str
    on: tuple[str, ...]
    formats: tuple[int, ...]
    check: Check


def rule(
    rule_id: str,
    level: Level,
    sentence: str,
    *on: str,
    formats: tuple[int, ...] = (0, 4),
) -> Callable[[Check], Rule]:
    """Turn a function into a `Rule`. The module's `RULES` tuple lists it; nothing registers itself."""

    def make(check: Check) -> Rule:
        return Rule(rule_id, level, sentence, on, formats, check)

    return make


def breach(reason: str, legal: str = "", *, line: int | None = None, seq: int | None = None, **values: Any) -> Breach:
    """Shorthand for a `Breach` with named values."""
    return Breach(reason, legal, tuple(values.items()), line, seq)
