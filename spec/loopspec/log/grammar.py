"""The grammar of a whole log: one pass over its rows, every rule asked once per row that concerns it.

`Judge` is fed by a reader: the header row, then event rows and damages in file order, then the end. It answers with
violations. Feeding is the only way in, and nothing that it holds is handed out.

After the first row that cannot be placed (wrong seq, or no object at all) there are no follow-ups (`S-LNT-201`): the
judge only looks for what is needed to say how the damage came about and which reading of the file would be legal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from loopspec.log import lanes, v0, v4
from loopspec.log.damage import Damage
from loopspec.log.fold import advance
from loopspec.log.lanes import Way, sound_run
from loopspec.log.looking import prepare
from loopspec.log.packed import PACKED_TYPES, PackedError, pack_sources, unpack_row, unpack_sources
from loopspec.log.readings import Trial, explain, trials
from loopspec.log.rule import ANY, DAMAGE, END, HEADER, Answer, Breach, Rule, Violation
from loopspec.log.rules import (
    brackets,
    container,
    envelope,
    header,
    inbox,
    messages,
    requests,
    streams,
    surface,
    tools,
    turns,
)
from loopspec.log.state import Log, Row, joined_chunk
from loopspec.log.types import KNOWN_TYPES, VERSIONS

RULES: tuple[Rule, ...] = (
    *container.RULES,
    *header.RULES,
    *envelope.RULES,
    *surface.RULES,
    *messages.RULES,
    *turns.RULES,
    *streams.RULES,
    *tools.RULES,
    *requests.RULES,
    *inbox.RULES,
    *brackets.RULES,
)
"""Every rule that looks at rows. `S-LNT-84` and `S-LNT-91` compare whole logs: see `loopspec.log.compare`."""

Table = Mapping[str, tuple[Rule, ...]]
_SHAPES = {0: v0.validate_data, 4: v4.validate_data}
_PACKED_RULES = ("S-LNT-9", "S-LNT-10")
_ONCE = frozenset(("carriage-return", "no-checksum"))


def table_of(dialect: int, rules: Iterable[Rule] = RULES, disabled: Collection[str] = ()) -> Table:
    """Which rules look at which type, for one format. Types outside the table are only seen by the `ANY` rules."""
    own = [rule for rule in rules if dialect in rule.formats and rule.id not in disabled]
    names = {name for rule in own for name in rule.on} | set(KNOWN_TYPES[VERSIONS[dialect]])
    table: dict[str, tuple[Rule, ...]] = {}
    for name in names:
        general = name not in (END, HEADER, DAMAGE)
        table[name] = tuple(rule for rule in own if name in rule.on or (general and ANY in rule.on))
    table[ANY] = tuple(rule for rule in own if ANY in rule.on)
    return table


_TABLES = {dialect: table_of(dialect) for dialect in (0, 4)}
_WAYS = {dialect: lanes.ways(table, dialect) for dialect, table in _TABLES.items()}


class Judge:
    """One run over one log.

    `snapshot`: rows without `seq` and `time`, and placeholders, are expected (normalised test logs). `foreign`: the log
    was written by another implementation, so that rules which only bind ours are warnings. `place`: (project directory,
    session directory) when the file lies in a session root. `generation`: the format number in the file's name.
    """

    def __init__(
        self,
        *,
        snapshot: bool = False,
        foreign: bool = False,
        place: tuple[str, str] | None = None,
        generation: int | None = None,
        disabled: Collection[str] = (),
        lanes: bool = True,
    ) -> None:
        self._snapshot = snapshot
        self._foreign = foreign
        self._place = place
        self._generation = generation
        self._disabled = frozenset(disabled)
        self._lanes = lanes and not snapshot  # whose rows are normalised: none is ordinary
        self._log = Log({}, 0)
        self._table: Table = table_of(0, disabled=disabled) if disabled else _TABLES[0]
        self._ways: Mapping[str, Way] = {}
        self._ready = False
        self._rows = 0
        self._once: set[str] = set()
        self._lines: deque[tuple[int, int, Any]] = deque(maxlen=4096)
        self._break: _Break | None = None

    @property
    def supported(self) -> bool:
        """A header of a supported format has been taken in."""
        return self._ready

    @property
    def events(self) -> int:
        """How many events have been folded."""
        return self._log.index

    @property
    def event_rows(self) -> int:
        """How many rows behind the header have been taken in before any damage."""
        return self._rows

    @property
    def certain(self) -> bool:
        """Every row so far has its place: none was lost, none has a wrong seq."""
        return self._break is None

    @property
    def inherited(self) -> int:
        """How many leading events came from the parent session, as far as the rows so far say."""
        return self._log.inherited

    # -- feeding -----------------------------------------------------------------------------------------------

    def damage(self, damage: Damage) -> tuple[Violation, ...]:
        """Take a fault of the container or of a row's text."""
        if damage.kind in _ONCE:
            if damage.kind in self._once:
                return ()
            self._once.add(damage.kind)
        if damage.kind in ("torn-frame", "torn-row"):
            damage = damage._replace(survivors=self._rows)
        return self._ask_damage(damage)

    def header(self, raw: dict[str, Any]) -> tuple[Violation, ...]:
        """Take the header row (line 1). Unless `supported` afterwards, there is nothing more to judge."""
        version = raw.get("version")
        dialect = version if type(version) is int and version in (0, 4) and raw.get("type") == "session" else 0
        self._log = Log(
            raw,
            dialect,
            snapshot=self._snapshot,
            foreign=self._foreign,
            place=self._place,
            generation=self._generation,
        )
        self._table = table_of(dialect, disabled=self._disabled) if self._disabled else _TABLES[dialect]
        if self._lanes:
            self._ways = lanes.ways(self._table, dialect) if self._disabled else _WAYS[dialect]
        self._ready = raw.get("type") == "session" and version is not False and version in (0, 4)
        row = Row(raw, 1, -1)
        found = _asked(self._table[HEADER], self._log, row)
        if not self._ready:
            found = tuple(item for item in found if item.rule == "S-LNT-11")
        return tuple(item._replace(seq=None) for item in found)

    def event(self, raw: dict[str, Any], line: int, frame: int = 0, offset: int = 0) -> tuple[Violation, ...]:
        """Take one event row."""
        broken = self._break
        if broken is not None:
            broken.follow(self._table, raw, line)
            return ()
        log = self._log
        if self._lanes:
            kind = raw.get("type")
            way = self._ways.get(kind) if type(kind) is str else None
            if way is not None:
                if log.run_key is not None:
                    log.flush()
                ordinary = lanes.ordinary(log, way, raw, line, frame, offset)
                if ordinary is not None:
                    found = _asked(way.asked, log, ordinary) if way.asked else ()
                    advance(log, ordinary)
                    self._rows += 1
                    self._lines.append((ordinary.index, line, ordinary.type))
                    return found
            elif kind == "assistant/chunk" and lanes.delta(log, raw, line):
                self._rows += 1
                return ()
            else:
                log.flush()
                index = log.index
                if lanes.chunk(log, raw, line):
                    self._rows += 1
                    self._lines.append((index, line, "assistant/chunk"))
                    return ()
        else:
            log.flush()
        if log.index == 0 and log.snapshot:
            log.no_seq, log.no_time = "seq" not in raw, "time" not in raw
        if raw.get("type") == "session":
            return _asked(self._table[ANY], log, Row(raw, line, log.index, frame, offset), only="S-LNT-10")
        row = row_of(log, raw, line, log.index, frame, offset)
        if row.packed and (log.format != 0 or row.shape is not None):
            self._break = _Break(log, line, f"The packed row at line {line} cannot be opened", None, None)
            return tuple(item for item in _asked(self._table[ANY], log, row) if item.rule in _PACKED_RULES)
        found = judged(self._table, log, row)
        misplaced = [item for item in found if item.rule == "S-LNT-17"] if found else ()
        if misplaced:
            self._break = _Break(log, line, f"The seq at line {line} is wrong", row, misplaced[0])
            self._break.follow(self._table, raw, line)
            return ()
        advance(log, row)
        self._rows += 1
        self._lines.append((row.index, line, row.type))
        return found

    def lost_row(self, line: int, *, undecided: bool = False) -> None:
        """A row was there, but no object came out of it; its damage has been reported.

        `undecided`: what follows cannot be read at all, so nothing is said about the tail of the log.
        """
        if self._break is None:
            self._break = _Break(self._log, line, f"The row at line {line} cannot be read", None, None)
        self._break.undecided = self._break.undecided or undecided

    def finish(self) -> tuple[Violation, ...]:
        """The end of the log: what is still owed, and what became of a break."""
        broken = self._break
        log = self._log
        log.flush()
        if broken is None:
            row = Row({"type": END}, log.line, log.index)
            return tuple(
                item if item.line != log.line or item.seq != log.index else item._replace(seq=log.index - 1)
                for item in _asked(self._table[END], log, row)
            )
        found: tuple[Violation, ...] = ()
        if broken.violation is not None:
            reason, legal = explain(broken.violation.reason, broken.row, self._lines, broken.trials)
            found = (broken.violation._replace(reason=reason, legal=legal),)
        if not broken.turn_end_follows and not broken.undecided:
            place = (broken.row.frame, broken.row.offset) if broken.row is not None else (0, 0)
            tail = Damage("bad-row-in-tail", broken.line, *place, detail=broken.what, survivors=self._rows)
            found += self._ask_damage(tail)
        return found

    def _ask_damage(self, damage: Damage) -> tuple[Violation, ...]:
        row = Row({"type": DAMAGE, "damage": damage}, damage.line, -1, damage.frame, damage.offset)
        return tuple(item._replace(seq=None) for item in _asked(self._table[DAMAGE], self._log, row))


class _Break:
    """The row from which on nothing is certain, and the readings that are still being tried."""

    def __init__(self, log: Log, line: int, what: str, row: Row | None, violation: Violation | None) -> None:
        self.line = line
        self.what = what
        self.row = row
        self.violation = violation
        self.turn_end_follows = False
        self.undecided = False
        self.trials: tuple[Trial, ...] = () if row is None else trials(log, row)

    def follow(self, table: Table, raw: dict[str, Any], line: int) -> None:
        if raw.get("type") == "turn/end":
            self.turn_end_follows = True
        for trial in self.trials:
            if trial.alive:
                trial.follow(
                    lambda log, at: row_of(log, raw, line, at), lambda log, row: _fold(table, log, row), raw, line
                )


def _fold(table: Table, log: Log, row: Row) -> bool:
    """Judge and fold one row of a trial; True when it breaks no rule of level error."""
    found = judged(table, log, row)
    advance(log, row)
    return all(item.level != "E" for item in found)


# -- one row ---------------------------------------------------------------------------------------------------


def row_of(log: Log, raw: dict[str, Any], line: int, index: int, frame: int = 0, offset: int = 0) -> Row:
    """A raw row as the rules see it: packed runs joined, source ranges opened, the shape of its data checked."""
    row = Row(raw, line, index, frame, offset)
    kind = row.type
    if kind in PACKED_TYPES:
        _open_packed(row, kind)
        return row
    if log.format == 4 and "sourceEventSeqs" in raw:
        _open_sources(row)
    if kind in log.known_types and "data" in raw:
        data = raw["data"]
        if log.snapshot and kind == "request/header":
            data = _without_tools(data)
        problems = _SHAPES[log.format](kind, data)
        if problems:
            first = problems[0]
            row.shape = f"{first.where} {first.reason}"
    return row


def _open_packed(row: Row, kind: str) -> None:
    row.packed = True
    count = sound_run(row.raw)
    if count:
        row.type = "assistant/chunk"
        row.count = count
        row.time = row.raw["time0"]
        row.chunk = joined_chunk(kind, row.data)
        return
    try:
        members = unpack_row(row.raw)
    except PackedError as error:
        row.shape = str(error)
        return
    row.type = "assistant/chunk"
    row.count = len(members)
    row.time = members[0]["time"]
    row.chunk = members[0]["data"]["chunk"] if len(members) == 1 else joined_chunk(kind, row.data)


def _open_sources(row: Row) -> None:
    stored = row.raw["sourceEventSeqs"]
    if type(stored) is not list:
        return
    try:
        opened = unpack_sources(stored, row.index)
    except PackedError as error:
        row.unpacked_text = None if all(type(seq) is int for seq in stored) else str(error)
        return
    if list(pack_sources(opened)) != stored:
        row.unpacked_text = f"{stored!r:.60} instead of {list(pack_sources(opened))!r:.60}"
    if any(type(item) is list for item in stored):
        row.raw = {**row.raw, "sourceEventSeqs": list(opened)}


def _without_tools(data: Any) -> Any:
    header = data.get("header") if type(data) is dict else None
    if type(header) is not dict or "tools" not in header:
        return data
    return {**data, "header": {name: value for name, value in header.items() if name != "tools"}}


def judged(table: Table, log: Log, row: Row) -> tuple[Violation, ...]:
    """Everything that the rules say about one row, before it is folded."""
    prepare(log, row)
    rules = table.get(row.type, table[ANY]) if type(row.raw.get("data")) is dict else table[ANY]
    found = _asked(rules, log, row)
    if len(found) > 1:
        # A fault of shape that a more precise rule explains is not reported a second time.
        precise = any(
            item.level == "E" and item.rule not in ("S-LNT-21", "S-LNT-17") and item.line == row.line for item in found
        )
        if precise and "data" in row.raw:
            found = tuple(item for item in found if item.rule != "S-LNT-21")
    return found


def _asked(rules: tuple[Rule, ...], log: Log, row: Row, only: str | None = None) -> tuple[Violation, ...]:
    found: tuple[Violation, ...] = ()
    for rule in rules:
        answer = rule.check(log, row)
        if answer and (only is None or rule.id == only):
            found += _violations(rule, answer, row)
    return found


def _violations(rule: Rule, answer: Answer, row: Row) -> tuple[Violation, ...]:
    breaches = (answer,) if isinstance(answer, Breach) else tuple(answer or ())
    return tuple(
        Violation(
            rule.id,
            item.level or rule.level,
            row.line if item.line is None else item.line,
            row.index if item.line is None else item.seq,
            rule.sentence,
            item.reason,
            item.legal,
            item.values,
            item.column,
            row.frame if item.line is None else 0,
            row.offset if item.line is None else 0,
        )
        for item in breaches
    )
