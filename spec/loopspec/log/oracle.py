"""The loop machines as a judge of recorded logs: which configurations are consistent with the rows so far?

A log shows the records and nothing else. What the live events, await points, signals and callers did between two
records is unknown, so the oracle keeps the *set* of all configurations that some environment can have brought about.
A row maps a set to the set after it: all silent moves first, then every move that writes exactly this record. An empty
set means that no environment explains the log.

**The environment** may call any operation wherever listeners run or nobody does, to a depth of `DEPTH` calls within
calls, and may give any answer to any await point. One thing it does not do: veto an append. What a veto of a log-only
or surface record leaves behind looks like a throw and is covered; a vetoed `turn/end`, `step/end` or claim leaves a
log that the format refuses anyway.

**A point** is one explanation: the driver's configuration, the tool batch of the open step if there is one, and what
the explanation takes for granted although no record shows it: next-turn messages that came *without* a wake, and a
cancel that left no trace. A batch of a pre-step verdict is never guessed: it is one message more for every row that
comes (`_longer`).

**Folding.** Numbers of turns and steps, claimed messages and the difference between one and several listeners in a
row are dead detail and are folded away; messages are named by their place. So sets repeat, and `Automaton` works out
every pair of set and observation only once: in practice a log costs a table look-up per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from loopspec import driver, scheduler
from loopspec.attempt import LIVE, aborted
from loopspec.driver import Driver
from loopspec.inbox import Ids, Lists, has_pending
from loopspec.kernel.machine import (
    BEGUN,
    Activation,
    Answer,
    Config,
    Effect,
    Frame,
    Machine,
    Operation,
    log_is_locked,
    may_call,
    unbegun,
)
from loopspec.log.observation import FOREIGN, FRESH, STEPS, TURNS, Observation, renaming
from loopspec.profile import Law
from loopspec.scheduler import Batch

DEPTHS = (2, 3, 5)
"""Activations on the stack up to which the environment calls: the driver's own and a listener's call, and so on.

What is explained with few is explained with more, so the deeper searches are only made where a shallow one refuses."""
DEPTH = DEPTHS[0]
POINT_LIMIT = 20_000
"""Configurations looked at for one row; beyond it the row is undecided."""
CALL_LIMIT = 24
"""Calls of one step that are followed through the scheduler; the rows of a larger batch are left to the row rules."""
MEMO_LIMIT = 100_000
"""Pairs of set and observation that are remembered."""

ANY = 9_000_000
"""A message about which nothing matters but that it is there."""
PLENTY = 1 << 30
"""A pool without a limit: a smaller one has no behaviour that this one has not."""

ALL_CALLS = -1
"""Stands for every call of a batch beyond `CALL_LIMIT`."""

Calls = int | Config[Batch]


class Point(NamedTuple):
    """One explanation of the log so far. `batch`: the calls still to begin (0: none), or the running batch.

    `silent`: the newest pending prompt that came without a wake, if one did (the older ones are claimed before it).
    `unseen`: a cancel that no record shows, while it may still keep something waiting.
    """

    config: Config[Driver]
    batch: Calls = 0
    silent: Ids = ()
    unseen: bool = False


class Undecided(Exception):
    """A bound was hit: nothing can be said about this row. The text says which bound."""


# -- the environment -------------------------------------------------------------------------------------------


def _answers(core: Driver, point: Effect, finish: str) -> Iterator[Answer]:
    """Everything that an await point may come back with. `finish`: how a format 0 attempt finished so far."""
    name = point[0]
    if name == "pre-step":
        yield ("enter", (ANY,))
        yield ("enter", ())
        yield ("reject",)
        yield ("throws",)
    elif name == "prepare":
        for systems in (0, 1) if core.law.session_format == 4 else (0,):
            for changed in (False, True):
                yield ("prepared", changed, False, systems)
                yield ("prepared", changed, True, systems)
        yield ("throws",)
    elif name == "chunk":
        if core.law.streams_are_embedded:
            finishes: tuple[str, ...] = ("stop", "max-tokens", "failure")
        else:
            finishes = (finish or "stop",)
            yield ("chunk",)
        for one in finishes:
            for calls in (False, True):
                yield ("end", one, calls, True)
                if aborted(core):
                    yield ("end", one, calls, False)
        yield ("throws", True)
        yield ("throws", False)
    elif name == "close":
        yield ("closed", True)
        yield ("closed", False)
    elif name == "recovery":
        yield ("none",)
        yield ("retry",)
        yield ("throws",)
    elif name == "tools":
        yield ("continue",)
        yield ("concluded",)
        yield ("throws",)
    elif name in ("tick", "gap", "maintenance"):
        yield ("done",)
    else:
        yield ("done",)
        yield ("throws",)


def _tool_answers(point: Effect) -> Iterator[Answer]:
    """The same for the await points of a tool batch.

    A `success` stands for any result of a body, and every result may have contexts, of which none need come.
    """
    name = point[0]
    if name == "classify":
        yield from (("parallel",), ("exclusive",), ("throws",))
    elif name == "cap":
        yield from (("cap", PLENTY), ("throws",))
    elif name == "prepare":
        if point[2] == "policy":
            yield from (("dispatch",), ("post-result",))
        yield from (("final-result",), ("throws",))
    elif name == "body":
        yield from (("success",), ("rejects",))
    elif name == "finalise":
        yield from (("accept", False, True), ("accept", True, True), ("block", True), ("throws",))
    else:
        yield from (("done",), ("throws",))


def _quiet_operations(core: Driver) -> Iterator[Operation]:
    """Calls that may leave no record, where they change something (L-CAN-1, L-MNT-1)."""
    if core.phase == "idle":
        yield ("maintain",)
        return
    bars = core.law.any_disposal_bars_latch and not core.doomed
    for cause, matters in (("user", core.signal == LIVE), ("disposed", core.signal == LIVE or bars)):
        if matters:
            yield ("cancel", cause, True)
        if core.latch and not has_pending(core):
            yield ("cancel", cause, False)


def _writing_operations(core: Driver, seen: Observation) -> Iterator[tuple[Operation, bool]]:
    """Calls whose first record may be this splice; the flag says that a prompt came in without a wake."""
    _, target, start, removed, inserted, outcome, _ = seen
    items = core.next_turn if target == "next-turn" else core.next_step
    prompts = target == "next-turn"
    if not removed and len(inserted) == 1 and start == len(items):
        yield ("send", inserted[0], target, True), False
        if prompts and core.phase != "idle" and aborted(core):
            yield ("send", inserted[0], "next-step", True), False
        yield ("send", inserted[0], target, False), prompts
    elif not removed or outcome:
        # In a live run a wake would have been ignored anyway, and what takes a place in the queue was woken for.
        heard = core.phase != "running" or core.closing or aborted(core)
        yield ("splice", target, start, removed, inserted), prompts and not removed and heard
    if outcome and not inserted and start == 0 and removed == len(items):
        for cause in ("user", "disposed"):
            yield ("cancel", cause, False), False


# -- which record is which row ---------------------------------------------------------------------------------


def _matches(record: Effect, following: Frame, seen: Observation) -> bool:
    """Is this record of the driver the row at hand? `following` tells how a stream was taken."""
    what = seen[0]
    if what == "splice":
        return record[0] == "agent/inbox/spliced" and record[1:] == seen[1:6]
    if record[0] != what:
        return False
    if what == "turn/end":
        if record[2] == "aborted":
            return bool(seen[1] == "aborted" and (seen[2] == "disposed") == (record[3] == "disposed"))
        return bool(record[2] == seen[1])
    if what == "request/header":
        return bool(record[1] == seen[1])
    if what == "assistant/message":
        if record[1] == "interrupted" or seen[1] == "interrupted":
            return bool(record[1] == seen[1])
        return bool(_RESULTS.get(following[1]) == seen[1])
    if what == "assistant/attempt":
        return bool(following[1] != ("recover",) or seen[1] == "failure")
    return True


_RESULTS = {
    ("close_step", "max-tokens"): "max-tokens",
    ("close_step", "completed"): "completed",
    ("run_tools",): "calls",
}

_OUTCOMES = {
    "success": ("success",),
    "failure": ("failure",),
    "aborted": ("aborted", "aborted-before-dispatch"),
    "aborted-before-dispatch": ("aborted-before-dispatch",),
    "never-started": ("aborted-before-dispatch",),
    "outcome-unknown": ("unknown",),
    "not-started": ("unknown",),
}
"""Which outcomes of the machine a row can be. A started call whose body was never entered looks like one that never
started (L-TOOL-17); the machine is told that every body was entered."""


# -- folding ---------------------------------------------------------------------------------------------------

_TURN_AT_2 = frozenset(("claim", "claim_prompt", "take_steps", "take_prompt", "tell_claimed"))


def _folded_frame(frame: Any) -> Any:
    """A frame without turn numbers, its messages folded: some or none, except where a list still changes by it."""
    if not frame:
        return frame
    label = frame[0]
    if label == "project":
        return (*frame[:5], _folded_frame(frame[5]))
    if label == "chunk" or label == "close":
        return (label, True)
    if label == "pulled":
        return (label, True)
    parts = tuple(_folded_part(part) for part in frame[1:])
    if label in _TURN_AT_2:
        parts = (parts[0], 0, *parts[2:])
    return (label, *parts)


def _folded_part(part: Any) -> Any:
    if type(part) is not tuple or not part:
        return part
    if type(part[0]) is int:
        return (ANY,) if part[0] >= STEPS else part
    return _folded_frame(part) if type(part[0]) is str else tuple(_folded_part(item) for item in part)


def _renamed_frame(frame: Frame, names: Any) -> Frame:
    """The messages that a waiting `project` still has to put into a list, called by their new places."""
    if frame and frame[0] == "project":
        return (*frame[:4], tuple(names(name) for name in frame[4]), frame[5])
    return frame


def folded(point: Point, seen: Observation | None = None) -> Point:
    """A point in its canonical form; `seen` is the splice that has just been written, when there was one."""
    core, stack, parked, waiting = point.config
    silent = point.silent
    next_step, next_turn = core.next_step, core.next_turn
    if seen is not None and seen[0] == "splice":
        names = renaming(seen)
        next_step = tuple([names(name) for name in next_step])
        next_turn = tuple([names(name) for name in next_turn])
        silent = tuple([at for at in map(names, silent) if TURNS <= at < FRESH])[-1:]
        stack = tuple([Activation(_renamed_frame(f, names), window, locked) for f, window, locked in stack])
    core = core.put(
        next_step=next_step,
        next_turn=next_turn,
        turn=0,
        step=1 if core.step else 0,
        doomed=core.doomed and core.law.any_disposal_bars_latch,
        signal=core.signal if core.signal in (LIVE, "disposed") else "user",
    )
    stack = tuple([Activation(_folded_frame(f), window, locked) for f, window, locked in stack])
    parked = tuple([(_folded_frame(p), _folded_frame(f)) for p, f in parked])
    inserts = seen is not None and seen[0] == "splice" and bool(seen[4])
    unseen = point.unseen and (inserts or core.signal != LIVE or bool(next_step or next_turn))
    return trimmed(Point(Config(core, stack, parked, waiting), point.batch, silent, unseen))


def _is_inert(frame: Frame) -> bool:
    """Nothing but listeners and the return of the call is left: what they do can be done right after as well."""
    label = frame[0]
    if label == "tell_inserted":
        return _is_inert(frame[2])
    if label == "tell_discarded":
        return _is_inert(frame[3])
    return bool(label == "answer" or label == "refused")


def _without_vain_wake(core: Driver, frame: Frame) -> Frame:
    """A running agent that is not on its way to idle ignores a wake, whatever listeners do before it (L-WAKE-3)."""
    label = frame[0]
    if label == "wake" and not frame[1]:
        return frame[2] if frame[2][0] == "answer" else frame
    if label == "project" or label == "tell_discarded" or label == "tell_inserted":
        return (*frame[:-1], _without_vain_wake(core, frame[-1]))
    return frame


def trimmed(point: Point) -> Point:
    """Without calls that have nothing left to do, and without wakes that nobody will hear."""
    config = point.config
    core, stack, parked, waiting = config
    if core.phase == "running" and not (core.closing and core.law.closing_run_latches):
        stack = tuple([Activation(_without_vain_wake(core, f), window, locked) for f, window, locked in stack])
    # A call that has waited stays until it has ended: only inside it can anybody call before the next one begins.
    begun = waiting[0][1] if waiting and waiting[0][0] == BEGUN else -1
    vain = [
        at != begun and not one.locked and one.window == "live" and _is_inert(one.frame) for at, one in enumerate(stack)
    ]
    if any(vain):
        if begun > 0:
            waiting = ((BEGUN, begun - sum(vain[:begun])), *waiting[1:])
        stack = tuple([one for one, gone in zip(stack, vain, strict=True) if not gone])
    if stack == config.stack:
        return point
    return point._replace(config=Config(core, stack, parked, waiting))


def _least(points: Iterable[Point]) -> frozenset[Point]:
    """Without those that only differ from another by taking more for granted."""
    best: dict[tuple[Any, Any], list[tuple[Ids, bool]]] = {}
    for config, batch, silent, unseen in points:
        kept = best.setdefault((config, batch), [])
        if any(set(other) <= set(silent) and also <= unseen for other, also in kept):
            continue
        kept[:] = [(other, also) for other, also in kept if not (set(silent) <= set(other) and unseen <= also)]
        kept.append((tuple(sorted(silent)), unseen))
    return frozenset(Point(*key, *granted) for key, sets in best.items() for granted in sets)


# -- moves -----------------------------------------------------------------------------------------------------


class Offer(NamedTuple):
    """A record that could come next: the effect, the point after it, and the rule that writes it."""

    record: Effect
    point: Point
    rule: str


class Oracle:
    """The moves of one law. `machine` is the driver's; a test or an explanation may give a changed one."""

    def __init__(self, law: Law, machine: Machine[Driver] = driver.MACHINE, depth: int = DEPTH) -> None:
        self.law = law
        self.machine = machine
        self.depth = depth
        self.batches = scheduler.MACHINE

    def first(self, lists: Lists = Lists()) -> Point:  # noqa: B008
        """The driver of a session that begins or is taken up again, with what is pending (L-PH-6, L-IN-16)."""
        return Point(driver.initial(self.law, 0, lists))

    def successors(self, points: Iterable[Point], seen: Observation) -> frozenset[Point]:
        """The points after the row. Raises `Undecided`."""
        found: list[Point] = []
        foreign = seen[0] == FOREIGN or seen[0] == "user/message"
        todo = list(points)
        visited = set(todo)
        while todo:
            point = todo.pop()
            if foreign and _is_open(point):
                found.append(folded(point))
                if seen[0] == FOREIGN:
                    continue  # whatever may follow silently may still follow behind the row
            for move in self.moves(point, seen):
                if isinstance(move, Offer):
                    # A send that still waits has been guessed for this very row: then another record is not it.
                    guessed = any(one[0] == "send" for one in move.point.config.waiting)
                    if not guessed and self.accepts(move, seen):
                        found += self.after(move, seen)
                    continue
                move = trimmed(move)
                if move not in visited:
                    visited.add(move)
                    todo.append(move)
            if len(visited) > POINT_LIMIT:
                raise Undecided(f"more than {POINT_LIMIT} configurations to follow")
        return _least(found)

    def accepts(self, offer: Offer, seen: Observation) -> bool:
        """Is the record that is offered the row at hand?"""
        record = offer.record
        if record[0] in ("tool/call", "tool/result"):
            if record[0] != seen[0] or record[1] not in (seen[1], ALL_CALLS):
                return False
            return bool(record[0] == "tool/call" or seen[2] in _OUTCOMES[record[2]])
        return _matches(record, offer.point.config.stack[-1].frame, seen)

    def after(self, offer: Offer, seen: Observation) -> Iterator[Point]:
        """The points that an accepted row leads to."""
        point = offer.point
        if seen[0] == "assistant/message" and seen[2]:
            point = point._replace(batch=min(seen[2], CALL_LIMIT + 1))
        if seen[0] == "turn/end" and seen[1] == "aborted":
            point = point._replace(unseen=False)
        if seen[0] in ("user/message", "system/message") and offer.record[0] == seen[0]:
            yield folded(_longer(point))
        yield folded(point, seen)

    def moves(self, point: Point, seen: Observation) -> Iterator[Point | Offer]:
        """Everything that can happen next: silent moves as points, records as offers."""
        config, batch, silent, unseen = point
        core, stack, parked, waiting = config
        beside = _may_call_beside(batch)
        busy = not beside and _publishes(batch) and core.law.observer_operations_wait
        if (beside or busy) and may_call(config) and self._is_shallow(config):
            for operation in _quiet_operations(core):
                hidden = unseen or operation[0] == "cancel"
                yield Point(self.machine.call(config, operation, busy), batch, silent, hidden)
            if seen[0] == "splice":
                yield from self._written(point, seen, busy)
        if stack or waiting:
            yield self._stepped(point)
        elif isinstance(batch, Config):
            # A call from outside touches nothing of a batch that goes on: before or after its silent moves is the same.
            if seen[0] != "splice" or not _may_call_beside(batch):
                yield from self._batch_moves(point)
        else:
            for index, (where, _) in enumerate(parked):
                if where[0] == "tools" and 0 < batch <= CALL_LIMIT:
                    begun = scheduler.initial(core.law, batch, aborted(core))
                    yield point._replace(batch=begun)
                    continue
                for answer in _answers(core, where, seen[-1] if isinstance(seen[-1], str) else ""):
                    left: Calls = 0 if where[0] == "tools" else batch
                    yield Point(self.machine.resume(config, answer, index), left, silent, unseen)
                if where[0] == "tools" and seen[0] in ("tool/call", "tool/result"):
                    # A batch beyond the limit: its rows are left to the row rules.
                    yield Offer((seen[0], ALL_CALLS, _OUTCOME_OF.get(seen[2], "success")), point, "run_tools")

    def _is_shallow(self, config: Config[Driver]) -> bool:
        return len(config.stack) + len(unbegun(config)) < self.depth

    def _written(self, point: Point, seen: Observation, busy: bool) -> Iterator[Point | Offer]:
        """The row is the first record of a call from outside, made here or kept until the log is free.

        `busy`: the record that is being published is one of the tool batch.
        """
        config, batch, silent, unseen = point
        locked = busy or log_is_locked(config)
        for operation, quietly in _writing_operations(config.core, seen):
            granted = (*silent, operation_message(operation)) if quietly else silent
            called = self.machine.call(config, operation, busy)
            if not locked:
                move = self._stepped(Point(called, batch, granted, unseen))
                if isinstance(move, Offer):
                    yield move
            elif called.waiting != config.waiting and not any(one[0] == "send" for one in config.waiting):
                yield Point(called, batch, granted, unseen)

    def _stepped(self, point: Point) -> Point | Offer:
        config, batch, silent, unseen = point
        verb, effect, after = self.machine.step(config)
        if verb == "append":
            return Offer(effect, Point(after, batch, silent, unseen), self._speaker(config))
        if verb == "notify" and effect[0] == "abort" and isinstance(batch, Config):
            told = self.batches.step(self.batches.call(batch, ("abort",))).config
            batch = told
        return Point(after, batch, silent, unseen)

    def _speaker(self, config: Config[Driver]) -> str:
        """The label of the rule that writes the next record."""
        core, frame = config.core, config.stack[-1].frame
        outcome = self.machine.rules[frame[0]](core, *frame[1:])
        while outcome.verb == "go":
            core, frame = outcome.core, outcome.frame
            outcome = self.machine.rules[frame[0]](core, *frame[1:])
        return str(frame[0])

    # -- tools -------------------------------------------------------------------------------------------------

    def _batch_moves(self, point: Point) -> Iterator[Point | Offer]:
        """The scheduler's own moves. Bodies settle in model order: another order writes no other records."""
        config, batch, silent, unseen = point
        assert isinstance(batch, Config)
        if batch.stack:
            if batch.stack[-1].window == "live" and batch.stack[-1].frame[0] == "started":
                call = batch.stack[-1].frame[1]
                if call not in batch.core.live:
                    yield point._replace(batch=self._dispatched(batch, call))
            verb, effect, after = self.batches.step(batch)
            if verb == "append":
                yield Offer(effect, point._replace(batch=after), batch.stack[-1].frame[0])
            elif verb == "leave" and scheduler.is_over(effect):
                yield Point(self.machine.resume(config, effect[:1]), 0, silent, unseen)
            else:
                yield point._replace(batch=after)
            return
        bodies = [at for at, (where, _) in enumerate(batch.parked) if where[0] == "body"]
        lane = [at for at in range(len(batch.parked)) if at not in bodies]
        asked = any(scheduler.is_question(batch.parked[at][0]) for at in lane)
        for at in lane + ([] if asked else bodies[:1]):
            for answer in _tool_answers(batch.parked[at][0]):
                yield point._replace(batch=self.batches.resume(batch, answer, at))

    def _dispatched(self, batch: Config[Batch], call: int) -> Config[Batch]:
        """The dispatch begins, and its body is entered when the signal still allows it."""
        begun = self.batches.step(self.batches.call(batch, ("execute", call))).config
        return self.batches.step(self.batches.call(begun, ("enter", call))).config

    # -- the end -----------------------------------------------------------------------------------------------

    def at_rest(self, points: Iterable[Point]) -> frozenset[Point]:
        """The points without any activity that can be reached without another record. Raises `Undecided`."""
        todo = list(points)
        visited = set(todo)
        found = []
        seen: Observation = ("end", "")
        while todo:
            point = todo.pop()
            if driver.is_quiet(point.config) and not isinstance(point.batch, Config):
                found.append(folded(point))
                continue
            for move in self.moves(point, seen):
                if isinstance(move, Offer):
                    continue
                move = trimmed(move)
                if move not in visited:
                    visited.add(move)
                    todo.append(move)
            if len(visited) > POINT_LIMIT:
                raise Undecided(f"more than {POINT_LIMIT} configurations to follow")
        return _least(found)

    def offers(self, points: Iterable[Point]) -> list[Offer]:
        """The records that the loop itself could write next, one of each kind and rule."""
        todo = list(points)
        visited = set(todo)
        found: dict[tuple[Any, ...], Offer] = {}
        seen: Observation = ("end", "")
        while todo and len(visited) <= POINT_LIMIT:
            for move in self.moves(todo.pop(), seen):
                if isinstance(move, Offer):
                    found.setdefault((move.record, move.rule), move)
                    continue
                move = trimmed(move)
                if move not in visited:
                    visited.add(move)
                    todo.append(move)
        return list(found.values())


_OUTCOME_OF = {"success": "success", "failure": "failure", "aborted": "aborted", "unknown": "outcome-unknown"}
_OUTCOME_OF["aborted-before-dispatch"] = "never-started"


def operation_message(operation: Operation) -> int:
    """The first message that a send or a splice brings in."""
    return int(operation[1]) if operation[0] == "send" else int(operation[4][0])


def _is_open(point: Point) -> bool:
    """Somebody else than the loop can append here: listeners of a live event run, or nobody does."""
    config, batch = point.config, point.batch
    if not may_call(config) or log_is_locked(config):
        return False
    return _may_call_beside(batch)


def _may_call_beside(batch: Calls) -> bool:
    """While a batch runs the driver may be called where its listeners run, or between its segments.

    From observers of its records only where operations wait (`observer_operations_wait`): elsewhere all that they
    could do is abort, which is the same as aborting right before.
    """
    return not isinstance(batch, Config) or not batch.stack or batch.stack[-1].window == "live"


def _publishes(batch: Calls) -> bool:
    """A record of the batch is being published: its observers run."""
    return isinstance(batch, Config) and bool(batch.stack) and batch.stack[-1].window == "log"


def _longer(point: Point) -> Point:
    """The batch (or the list of system changes) was longer by one than the row just written."""
    config = point.config
    top = config.stack[-1]
    label, rest, *more = top.frame
    assert label in ("admit", "admit_system")
    longer = (*rest, ANY) if label == "admit" else rest + 1
    if label == "admit" and rest:
        longer = rest
    frame = (label, longer, *more)
    return point._replace(config=config._replace(stack=(*config.stack[:-1], top._replace(frame=frame))))


class Automaton:
    """An oracle with a memory: sets of points are numbered, and every transition is worked out once.

    A memory, not a state: the answers are those of the oracle. It grows up to `MEMO_LIMIT` transitions.
    """

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        self.sets: list[frozenset[Point]] = []
        self._numbers: dict[frozenset[Point], int] = {}
        self.table: dict[tuple[int, Observation], int] = {}
        self.empty = self.number(frozenset())

    def number(self, points: frozenset[Point]) -> int:
        """The number of a set."""
        known = self._numbers.get(points)
        if known is None:
            known = self._numbers[points] = len(self.sets)
            self.sets.append(points)
        return known

    def start(self, steps: int = 0, turns: int = 0) -> int:
        """The set of a driver that begins with so many messages pending."""
        lists = Lists(tuple(range(STEPS, STEPS + steps)), tuple(range(TURNS, TURNS + turns)))
        return self.number(frozenset((self.oracle.first(lists),)))

    def next(self, state: int, seen: Observation) -> int:
        """The set after a row; `empty` when nothing explains it. Raises `Undecided`."""
        key = (state, seen)
        after = self.table.get(key)
        if after is None:
            after = self.number(self.oracle.successors(self.sets[state], seen))
            if len(self.table) < MEMO_LIMIT:
                self.table[key] = after
        return after
