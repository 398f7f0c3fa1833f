"""Is a log the record of a behaviour of the loop, for *some* environment?

`Acceptance` is fed the rows that the row rules found in order, and follows the loop machines along them
(`loopspec.log.oracle`). It answers with at most one finding of `S-ACC-1`: from a row on that nothing explains there is
nothing left to follow. A restart (`session/end-seed`) begins a new driver with the pending lists as they are; the
closers of repair and fork stand outside of every driver. Turns before a restart without a single inbox record are a
seed that a caller gave (S-ENV-6): no loop wrote them, so none is asked for.

**Lost wakes, and what a log can prove.** The record of an insertion does not say whether its send was to wake the
agent, and no record says that the agent went idle. So:

* A message in *next-step* at the end was steered or injected; nobody can tell. It is an open obligation (`S-ACC-3`).
* A message that came to the end of *next-turn* came from a send with a wake, since the only call that puts one there
  without is the one without a preset (L-SEND-1). If every way to idleness then needs such a call, or a cancel that no
  record shows, the wake was lost (`S-ACC-2`, a warning, because the excuse stands in no record), or else the writer
  died in the one synchronous segment (or scheduler tick) between the insertion and the `turn/start` that it causes.
* Where the law itself parks a wake (published loops in the exit gap, after a failure, under disposal), the log is
  right and the message still waits: an open obligation (`S-ACC-3`), with the words that the law allows it.
* A message that was claimed later, by another wake, is no longer owed anything: the log cannot show that it was late.
* Calls inside calls of listeners are followed `DEPTHS[-1] - 1` deep. That bound is part of every refusal, in words: a
  run that nests deeper is not looked for.
* When the log ends inside an open turn, the end is a crash, and nothing is said about what waits.

The same holds at each restart, for what the driver before it left behind.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

from loopspec.log import refusal
from loopspec.log.automaton import Automaton
from loopspec.log.migrate import SYSTEM_ID
from loopspec.log.observation import TURNS, Course, Misnumbered, Observation
from loopspec.log.oracle import DEPTH, DEPTHS, Oracle, Undecided
from loopspec.log.points import Point
from loopspec.log.rule import Level, Violation
from loopspec.log.state import items, record
from loopspec.profile import Law, Profile, law


class Entry(NamedTuple):
    """One statement of acceptance."""

    id: str
    level: Level
    sentence: str


REFUSED = Entry("S-ACC-1", "E", "The records of a log are written by a run of the loop, for some environment.")
LOST = Entry("S-ACC-2", "W", "No wake is lost: when the agent is idle, no prompt waits that a waking send brought.")
OPEN = Entry("S-ACC-3", "W", "Nothing waits at the end that may still be owed a turn.")
BOUND = Entry("S-ACC-4", "U", "The loop can be followed along the log within the bounds of the search.")
ENTRIES = (REFUSED, LOST, OPEN, BOUND)


@cache
def before_migration(governing: Law) -> Law:
    """The law of what was written in format 0 and stands in the log as format 4: batches enter history before the
    request is prepared, and no system message of the log was written by the loop."""
    fields = {field: getattr(governing, field) for field in Law.__slots__[2:]}
    fields |= {"admission_follows_preparation": False, "failed_batch_is_completed": False}
    return Law(governing.name, governing.session_format, fields)


class _Before(Oracle):
    """Follows what was migrated: the system messages in it are the migration's own."""

    def successors(self, points: Iterable[Point], seen: Observation) -> frozenset[Point]:
        return frozenset(points) if seen[0] == "system/message" else super().successors(points, seen)


@cache
def automaton(governing: Law, depth: int = DEPTH) -> Automaton:
    """The automaton of a law. One for all logs: what was worked out for one serves the next."""
    is_migrated = governing.session_format == 4 and not governing.admission_follows_preparation
    return Automaton((_Before if is_migrated else Oracle)(governing, depth=depth))


def law_of(profile: str, session_format: int) -> Law:
    """The law of a check profile; normalised test logs come from the later published version."""
    known: Profile = "dsh-0.1" if profile == "dsh-0.1" else "seed" if profile == "seed" else "dsh-0.1.7"
    return law(known, session_format)


class _Death(NamedTuple):
    """Where the last driver stopped explaining: the row, and what was possible before it."""

    row: dict[str, Any]
    line: int
    seq: int
    state: int
    seen: Observation


class Acceptance:
    """One run along one log.

    `event` takes the rows behind the header, in order and with their line, after the row rules have passed them;
    `finish` is the end of a whole log. `done` tells that there is nothing left to follow.
    """

    def __init__(self, header: dict[str, Any], governing: Law, depth: int = DEPTH) -> None:
        self._law = self._native = governing
        self._migrated = False
        self._machine = automaton(governing, depth)
        self._depth = depth
        self._header = header
        self._course = Course(header)
        self._cut = self._course.seed_length
        self._state = self._machine.start()
        self._closing = ""
        self._death: _Death | None = None
        self._events = 0
        self._history: list[Observation] = []
        self._alike: dict[Observation, Observation] = {}
        self._restart = (0, 0, 0)
        self._spliced = False
        self._streaming = False
        self._forgotten = (0, 0)
        self._last = (0, 0)
        self._places: dict[Any, tuple[int, int]] = {}
        self.done = False

    # -- feeding -----------------------------------------------------------------------------------------------

    def event(self, row: dict[str, Any], line: int) -> tuple[Violation, ...]:
        """Take one row."""
        if self.done:
            return ()
        index = self._events
        kind = row.get("type")
        if self._streaming:
            # In the middle of a stream a chunk that finishes nothing changes nothing: the set is the one behind each.
            if kind == "assistant/chunk" and row["data"]["chunk"]["type"] != "finish":
                self._events += 1
                return ()
            if kind in _RUNS:
                self._events += _members(row)
                return ()
            self._streaming = False
        self._events = index + (_members(row) if "seq0" in row else 1)
        if index == self._cut and self._course.cut_here(index):
            self._begin()
        try:
            seen = self._course.observe(row)
        except Misnumbered as problem:
            self.done = True
            text = f"{refusal.row_described(row).capitalize()} cannot stand here: {problem}."
            return (_violation(REFUSED, line, index, text),)
        # Long runs are rows of few different observations: each is kept once.
        seen = self._alike.setdefault(seen, seen)
        what = seen[0]
        if what == "splice":
            self._spliced = True
            self._note_insertions(row, line, index)
        elif what == "system/message" and not self._migrated:
            self._migrated = str(record(record(row.get("data")).get("message")).get("id")).startswith(SYSTEM_ID)
        self._last = (line, index)
        if what != "session/end-seed" and (not self._closing or self._closing == "step"):
            # The set is known, and nothing is being closed: what `_advance` does, in short.
            before, machine = self._state, self._machine
            after = machine.table.get((before, seen), machine.empty)
            if after != machine.empty:
                self._history.append(seen)
                self._state = after
                self._streaming = after == before and seen == _DELTA
                if self._closing or what in _CLOSERS:
                    self._closing = _closed(self._closing, seen, True)
                return ()
        try:
            if what == "session/end-seed":
                return self._reopened(line, index, seen)
            return self._advance(row, line, index, seen)
        except Undecided as bound:
            self.done = True
            return (_violation(BOUND, line, index, f"From this row on the loop is not followed: {bound}."),)

    def _note_insertions(self, row: dict[str, Any], line: int, index: int) -> None:
        inserted = items(record(row.get("data")).get("inserted"))
        if not inserted and not any(self._course.lists.values()):
            self._places.clear()  # nothing is pending, so nothing can be owed
        for message in inserted:
            if isinstance(record(message).get("id"), str):
                self._places[message["id"]] = (line, index)

    def _advance(self, row: dict[str, Any], line: int, index: int, seen: Observation) -> tuple[Violation, ...]:
        if self._closing == "after":
            return self._close_reopened(row, line, index, seen)
        if self._closing == "forgotten":
            return self._forgot() if seen[0] == "turn/start" else ()
        before = self._state
        machine = self._machine
        if before != machine.empty:
            self._history.append(seen)
            after = machine.next(before, seen)
            if after == machine.empty:  # remembered or not: what a search found nothing for, a deeper one may explain
                after = self._deeper()
            self._state = after
            self._streaming = after == before and seen == _DELTA and after != machine.empty
        if self._closing == "seed":
            if self._spliced:
                return self._refused()
        elif self._closing or seen[0] in _CLOSERS:
            self._closing = _closed(self._closing, seen, before != machine.empty)
        if self._state == self._machine.empty:
            if self._death is None:
                self._death = _Death(row, line, index, before, seen)
                if seen[0] == "turn/start" and not self._spliced and not any(self._restart):
                    self._closing = "seed"
            if not self._closing:
                return self._refused()
        return ()

    def _close_reopened(self, row: dict[str, Any], line: int, index: int, seen: Observation) -> tuple[Violation, ...]:
        """The closers of a later format, behind the marker (S-REP-6, S-FRK-5)."""
        if seen[0] == "turn/end" and seen[3]:
            self._begin()
        elif seen[0] not in ("tool/result", "step/end"):
            self.done = True
            text = f"{refusal.row_described(row).capitalize()} stands where the open turn has to be closed first."
            ways = "the closers: tool/result of every open call, step/end, turn/end interrupted or forked"
            return (_violation(REFUSED, line, index, text, ways),)
        return ()

    def _reopened(self, line: int, index: int, seen: Observation) -> tuple[Violation, ...]:
        """A restart: nothing of the driver before goes on, only what is pending (S-FRK-1, L-IN-16)."""
        if seen[1]:
            if self._law.session_format == 4:
                self._closing, self._state = "after", self._machine.empty
                return ()
            self._closing, self._forgotten = "forgotten", (line, index)
            return ()
        if self._state == self._machine.empty and self._closing not in ("turn", "seed"):
            return self._refused()
        found = () if self._closing else self._obligations(line, index)
        self._begin()
        return found

    def _begin(self) -> None:
        """A new driver, with the pending messages of the walk."""
        lists = self._course.lists
        self._restart = (0, len(lists["next-step"]), len(lists["next-turn"]))
        self._history = []
        self._closing, self._death, self._spliced = "", None, False
        self._state = self._machine.start(*self._restart[1:])

    def _deeper(self) -> int:
        """Nothing explains the row at the usual depth of calls within calls: try the run again, deeper.

        In a migrated log a driver may also have run before the migration, or after it.
        """
        return next((self._state for way in self._other_ways() if self._adopted(*way)), self._machine.empty)

    def _adopted(self, governing: Law, depth: int) -> bool:
        """Follow the run from its beginning under this law and depth; if they explain it, they govern from here on."""
        machine = automaton(governing, depth)
        state = machine.start(*self._restart[1:])
        for seen in self._history:
            state = machine.next(state, seen)
            if state == machine.empty:
                return False
        self._law, self._machine, self._depth, self._state = governing, machine, depth, state
        return True

    def _other_ways(self) -> list[tuple[Law, int]]:
        deeper = [(self._law, depth) for depth in DEPTHS if depth > self._depth]
        if not self._migrated:
            return deeper
        other = before_migration(self._native) if self._law is self._native else self._native
        return [(other, depth) for depth in DEPTHS] + deeper

    def _forgot(self) -> tuple[Violation, ...]:
        """A restart over an open turn; said at the next turn, unless a row rule has said it better by then."""
        self.done = True
        text = "The session is taken up again while a turn is open."
        ways = "the closers of repair first: results of open calls, step/end, turn/end interrupted"
        return (_violation(REFUSED, *self._forgotten, text, ways),)

    # -- findings ----------------------------------------------------------------------------------------------

    def _refused(self) -> tuple[Violation, ...]:
        self.done = True
        death = self._death
        assert death is not None
        points = self._machine.sets[death.state]
        oracle = self._machine.oracle
        text = (
            f"No run of the loop under {self._law.name}, with listener calls up to {DEPTHS[-1] - 1} deep, "
            f"writes {refusal.row_described(death.row)} here. "
            f"{refusal.reason(oracle, points, death.seen)}"
        )
        return (_violation(REFUSED, death.line, death.seq, text, refusal.legal(oracle.offers(points))),)

    def finish(self) -> tuple[Violation, ...]:
        """The end of a log that was not cut off: what is still owed, and by which reading."""
        if self._closing == "seed" and not self.done:
            return self._refused()
        if self._closing == "forgotten" and not self.done:
            return self._forgot()
        if self.done or self._closing or self._course.turn_open or self._state == self._machine.empty:
            return ()
        try:
            return self._obligations(*self._last)
        except Undecided as bound:
            return (_violation(BOUND, *self._last, f"What is owed at the end cannot be said: {bound}."),)

    def _obligations(self, line: int, index: int) -> tuple[Violation, ...]:
        """What waits where a driver ended, if it ended idle."""
        prompts, steps = self._course.lists["next-turn"], self._course.lists["next-step"]
        if self._course.turn_open or not (prompts or steps):
            return ()
        least = self._least_granted()
        for way in self._other_ways():  # each once: it may take less for granted
            if _granted(least) == _NOTHING:
                break
            if self._adopted(*way):
                least = min(least, self._least_granted(), key=_granted)
        found: list[Violation] = []
        if least is None or least.unseen:
            lost = frozenset(range(len(prompts)))
        else:
            lost = frozenset(name - TURNS for name in least.silent)
        for at, message in enumerate(prompts):
            place = self._places.get(message, (line, index))
            if at in lost:
                found.append(_violation(LOST, *place, self._lost(message), _LOST_LEGAL))
            else:
                found.append(_violation(OPEN, *place, self._parked(message, "next-turn"), _OPEN_LEGAL))
        for message in steps:
            place = self._places.get(message, (line, index))
            found.append(_violation(OPEN, *place, self._parked(message, "next-step"), _OPEN_LEGAL))
        return tuple(found)

    def _least_granted(self) -> Point | None:
        """The way to idleness that takes least for granted."""
        resting = self._machine.oracle.at_rest(self._machine.sets[self._state])
        return min(resting, key=_granted, default=None)

    def _lost(self, message: Any) -> str:
        return (
            f"The prompt {message!r} was put at the end of next-turn, no turn follows, and under {self._law.name} no "
            "agent becomes idle over it: its wake was lost (L-WAKE-1, L-WAKE-10). What could excuse it stands in no "
            "record: a call that queues without a wake, a keeping cancel before the turn opened, a writer that died."
        )

    def _parked(self, message: Any, target: str) -> str:
        if target == "next-step":
            return (
                f"UNDETERMINED: the message {message!r} still waits in next-step. Whether it was steered (with a wake) "
                "or injected (without) is in no record."
            )
        return (
            f"UNDETERMINED: the prompt {message!r} still waits in next-turn. Under {self._law.name} it may be parked "
            "there (a wake in the exit gap, behind a failed or aborted turn, or kept by keepInbox); it runs with the "
            "next wake (L-WAKE-8 to L-WAKE-11)."
        )


def _granted(point: Point | None) -> tuple[bool, int]:
    """How much this way to idleness takes for granted: a cancel that no record shows, prompts without a wake. No way
    at all is worse than any."""
    return (True, TURNS) if point is None else (point.unseen, len(point.silent))


_NOTHING = (False, 0)
_DELTA: Observation = ("assistant/chunk", "")
_RUNS = frozenset(("text-chunks", "reasoning-chunks", "tool-call-chunks"))
_LOST_LEGAL = "turn/start of a turn that claims it"
_OPEN_LEGAL = "a claim by a later turn, or a removal with outcome canceled"
_CLOSERS = frozenset(("tool/result", "step/end", "turn/end", "session/end-seed"))


def _closed(stage: str, seen: Observation, alive: bool) -> str:
    """How far the closers of a repair have come with this row, if it is one: results, step, turn (S-REP-3)."""
    if seen[0] == "tool/result" and seen[2] == "unknown" and (alive or stage == "results"):
        return "results"
    if seen[0] == "step/end" and (alive or stage == "results"):
        return "step"
    if seen[0] == "turn/end" and seen[3] and (alive or stage == "step"):
        return "turn"
    return ""


def _members(row: dict[str, Any]) -> int:
    """How many events a row stands for: the members of a packed run, else one."""
    if "seq0" not in row or not isinstance(row.get("data"), dict):
        return 1
    members = row["data"].get("texts", row["data"].get("args"))
    return len(members) if isinstance(members, list) else 1


def _violation(entry: Entry, line: int, seq: int, text: str, ways: str = "") -> Violation:
    return Violation(entry.id, entry.level, line, seq, entry.sentence, text, ways)
