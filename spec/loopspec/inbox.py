"""The inbox: two ordered lists of pending messages, and the only ways in which they change.

`next_turn` holds messages that each start a turn; `next_step` holds what joins at the next step boundary. Every
change is one *splice* per list, is written to the log before the lists change, and is told to listeners after
(L-IN-8). Messages are numbers here; who runs the machine keeps the payloads.

The upper half of this file is plain functions on lists: normalisation, identity, replay. The lower half is the
rules of a mutation, shared by the inbox machine (`inbox.MACHINE`, for exploring the inbox alone) and by the driver.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, Self

from loopspec.kernel.machine import Frame, Machine, Outcome, Rules, append, go, leave, notify, state
from loopspec.profile import Law

Ids = tuple[int, ...]
Target = Literal["next-step", "next-turn"]

LARGEST = 2**53 - 1
"""The largest safe integer. Beyond it coordinates mean "the end"."""


# --- plain functions -----------------------------------------------------------------------------------------


def truncated(number: float) -> int:
    """A coordinate as a whole number: toward zero, NaN as 0, infinities as the largest safe integer (L-IN-4)."""
    if number != number:
        return 0
    if number > LARGEST:
        return LARGEST
    if number < -LARGEST:
        return -LARGEST
    return int(number)


def normalised(length: int, start: float, delete_count: float) -> tuple[int, int]:
    """`(start, removed_count)` of a splice on a list of `length` items, clamped into the list (L-IN-4).

    A negative start counts from the end. The result satisfies `0 <= start` and `start + removed_count <= length`.
    """
    first = truncated(start)
    first = max(length + first, 0) if first < 0 else min(first, length)
    removed_count = min(max(truncated(delete_count), 0), length - first)
    return first, removed_count


def is_minus_zero(start: float) -> bool:
    """True for a start in (-1, 0], sign included: a number that truncates to negative zero (L-IN-5)."""
    return -1 < start < 0 or (start == 0 and str(start).startswith("-"))


def spliced(items: Ids, start: int, removed_count: int, inserted: Ids) -> Ids:
    """The list after removing `removed_count` items at `start` and inserting `inserted` there."""
    return items[:start] + inserted + items[start + removed_count :]


def distinct(items: Ids) -> bool:
    """True when no id occurs twice."""
    return len(set(items)) == len(items)


def claimed_by(target: Target, next_step: Ids, next_turn: Ids) -> Ids:
    """What a claim takes: all of next-step, then, when a turn opens, the first of next-turn (L-IN-13)."""
    return next_step + next_turn[:1] if target == "next-turn" else next_step


def find(next_step: Ids, next_turn: Ids, message: int) -> tuple[Target, int] | None:
    """Where a pending message is: next-turn is searched first, then next-step; `None` if nowhere (L-IN-10)."""
    if message in next_turn:
        return "next-turn", next_turn.index(message)
    if message in next_step:
        return "next-step", next_step.index(message)
    return None


class Lists(NamedTuple):
    """The two pending lists, as rebuilt from a log."""

    next_step: Ids = ()
    next_turn: Ids = ()


class AlreadyPending(ValueError):
    """A splice would make a message pending twice (L-IN-6)."""

    def __init__(self, message: int) -> None:
        super().__init__(f'message "{message}" is already pending')
        self.message = message


def replayed(lists: Lists, target: Target, start: int, removed_count: int, inserted: Ids) -> Lists:
    """One persisted splice applied while a log is loaded (L-IN-16).

    Raises `ValueError("invalid inbox splice")` for coordinates outside the list, and `AlreadyPending` for an id
    that would be pending twice (L-IN-17).
    """
    items = lists.next_turn if target == "next-turn" else lists.next_step
    if not (0 <= start <= len(items) and 0 <= removed_count <= len(items) - start):
        raise ValueError("invalid inbox splice")
    changed = spliced(items, start, removed_count, inserted)
    after = Lists(lists.next_step, changed) if target == "next-turn" else Lists(changed, lists.next_turn)
    both = after.next_step + after.next_turn
    for message in inserted:
        if both.count(message) > 1:
            raise AlreadyPending(message)
    return after


# --- the rules of a mutation ---------------------------------------------------------------------------------


class Inboxed(Protocol):
    """Any core state that carries an inbox."""

    @property
    def law(self) -> Law: ...
    @property
    def next_step(self) -> Ids: ...
    @property
    def next_turn(self) -> Ids: ...
    def put(self, **changes: Any) -> Self: ...


rules = Rules()


def has_pending(s: Inboxed) -> bool:
    """Something waits in either list."""
    return bool(s.next_step or s.next_turn)


def pending(s: Inboxed, target: Target) -> Ids:
    """One of the two lists."""
    return s.next_turn if target == "next-turn" else s.next_step


def with_list(s: Any, target: Target, items: Ids) -> Any:
    """The state with one of the two lists replaced."""
    return s.put(next_turn=items) if target == "next-turn" else s.put(next_step=items)


def may_insert(s: Inboxed, target: Target, start: int, removed_count: int, inserted: Ids) -> bool:
    """After the splice every id is pending once, over both lists together (L-IN-6, L-IN-7)."""
    other = s.next_step if target == "next-turn" else s.next_turn
    return distinct(spliced(pending(s, target), start, removed_count, inserted) + other)


def mutate(
    s: Any, target: Target, start: int, removed_count: int, inserted: Ids, then: Frame, refused: Frame
) -> Outcome[Any]:
    """L-IN-2  One change of one list: one record, or nothing at all when nothing would change.

    `start` and `removed_count` are already normalised. `then` follows when listeners have been told.
    """
    if not removed_count and not inserted:
        return go(s, then)
    outcome = "canceled" if removed_count else ""
    record = ("agent/inbox/spliced", target, start, removed_count, inserted, outcome)
    removed = pending(s, target)[start : start + removed_count]
    if s.law.observers_see_splice_done:
        done = with_list(s, target, spliced(pending(s, target), start, removed_count, inserted))
        return append(done, record, ("tell_discarded", removed, inserted, then), refused)
    return append(s, record, ("project", target, start, removed_count, inserted, then), refused)


@rules("project")
def project(s: Any, target: Target, start: int, removed_count: int, inserted: Ids, then: Frame) -> Outcome[Any]:
    """L-IN-8, L-IN-9  The lists change after the observers of the record have seen them unchanged."""
    items = pending(s, target)
    changed = with_list(s, target, spliced(items, start, removed_count, inserted))
    return go(changed, ("tell_discarded", items[start : start + removed_count], inserted, then))


@rules("tell_discarded")
def tell_discarded(s: Any, removed: Ids, inserted: Ids, then: Frame) -> Outcome[Any]:
    """L-IN-8  `discarded` once per removed message, in list order, before any `inserted`."""
    if removed:
        event = ("agent/inbox/discarded", removed[0])
        return notify(s, event, ("tell_discarded", removed[1:], inserted, then))
    return go(s, ("tell_inserted", inserted, then))


@rules("tell_inserted")
def tell_inserted(s: Any, inserted: Ids, then: Frame) -> Outcome[Any]:
    """L-IN-8  `inserted` once per inserted message, in list order."""
    if inserted:
        return notify(s, ("agent/inbox/inserted", inserted[0]), ("tell_inserted", inserted[1:], then))
    return go(s, then)


@rules("claim")
def claim(s: Any, target: Target, turn: int, then: Frame, refused: Frame) -> Outcome[Any]:
    """L-IN-13 (a)  All of next-step leaves by one pure deletion, without outcome; skipped when it is empty."""
    if not s.next_step:
        return go(s, ("claim_prompt", target, turn, (), then, refused))
    record = ("agent/inbox/spliced", "next-step", 0, len(s.next_step), (), "")
    following = ("claim_prompt", target, turn, s.next_step, then, refused)
    if s.law.observers_see_splice_done:
        return append(s.put(next_step=()), record, following, refused)
    return append(s, record, ("take_steps", *following[1:]), refused)


@rules("take_steps")
def take_steps(s: Any, target: Target, turn: int, taken: Ids, then: Frame, refused: Frame) -> Outcome[Any]:
    """L-IN-9  The next-step list is emptied once its record has been observed."""
    return go(s.put(next_step=()), ("claim_prompt", target, turn, taken, then, refused))


@rules("claim_prompt")
def claim_prompt(s: Any, target: Target, turn: int, taken: Ids, then: Frame, refused: Frame) -> Outcome[Any]:
    """L-IN-13 (b)  When a turn opens, the first of next-turn follows by a record of its own (L-IN-14)."""
    if target != "next-turn" or not s.next_turn:
        return go(s, ("tell_claimed", taken, turn, (*then, taken)))
    record = ("agent/inbox/spliced", "next-turn", 0, 1, (), "")
    batch = (*taken, s.next_turn[0])
    if s.law.observers_see_splice_done:
        return append(s.put(next_turn=s.next_turn[1:]), record, ("tell_claimed", batch, turn, (*then, batch)), refused)
    return append(s, record, ("take_prompt", batch, turn, then), refused)


@rules("take_prompt")
def take_prompt(s: Any, batch: Ids, turn: int, then: Frame) -> Outcome[Any]:
    """L-IN-9  The claimed prompt leaves next-turn once its record has been observed."""
    return go(s.put(next_turn=s.next_turn[1:]), ("tell_claimed", batch, turn, (*then, batch)))


@rules("tell_claimed")
def tell_claimed(s: Any, rest: Ids, turn: int, then: Frame) -> Outcome[Any]:
    """L-IN-13 (c, d)  `claimed` once per message, next-step first, after both records. Never `discarded`."""
    if rest:
        return notify(s, ("agent/inbox/claimed", rest[0], turn), ("tell_claimed", rest[1:], turn, then))
    return go(s, then)


@rules("clear")
def clear(s: Any, then: Frame, refused: Frame) -> Outcome[Any]:
    """L-IN-12  Next-step first; all its `discarded` precede the record of next-turn."""
    return mutate(s, "next-step", 0, len(s.next_step), (), ("clear_turns", then, refused), refused)


@rules("clear_turns")
def clear_turns(s: Any, then: Frame, refused: Frame) -> Outcome[Any]:
    """L-IN-12  Then next-turn, as it is by now: what a `discarded` listener queued there goes too (L-CAN-5)."""
    return mutate(s, "next-turn", 0, len(s.next_turn), (), then, refused)


# --- operations from outside ---------------------------------------------------------------------------------


@rules("answer")
def answer(s: Any, value: object) -> Outcome[Any]:
    """The call returns a value."""
    return leave(s, ("return", value))


@rules("refused")
def refused(s: Any) -> Outcome[Any]:
    """L-IN-19  A refused append reaches the caller; lists and listeners never knew."""
    return leave(s, ("raise", "refused"))


@rules("splice")
def splice(s: Any, target: Target, start: float, delete_count: float, inserted: Ids) -> Outcome[Any]:
    """L-IN-4, L-IN-5, L-IN-6  The general mutation; answers the removed messages.

    Negative zero is refused by the record that would hold it: after the test of the ids, and only if one is written.
    """
    first, removed_count = normalised(len(pending(s, target)), start, delete_count)
    if not may_insert(s, target, first, removed_count, inserted):
        return leave(s, ("raise", "duplicate"))
    if s.law.minus_zero_is_refused and is_minus_zero(start) and (removed_count or inserted):
        return leave(s, ("raise", "not-json"))
    removed = pending(s, target)[first : first + removed_count]
    return mutate(s, target, first, removed_count, inserted, ("answer", removed), ("refused",))


@rules("replace")
def replace(s: Any, message: int, replacement: int) -> Outcome[Any]:
    """L-IN-10  One for one, in place; false when the message is not pending."""
    place = find(s.next_step, s.next_turn, message)
    if place is None:
        return leave(s, ("return", False))
    target, index = place
    if not may_insert(s, target, index, 1, (replacement,)):
        return leave(s, ("raise", "duplicate"))
    return mutate(s, target, index, 1, (replacement,), ("answer", True), ("refused",))


@rules("remove")
def remove(s: Any, message: int) -> Outcome[Any]:
    """L-IN-11  One message leaves; false when it is not pending."""
    place = find(s.next_step, s.next_turn, message)
    if place is None:
        return leave(s, ("return", False))
    target, index = place
    return mutate(s, target, index, 1, (), ("answer", True), ("refused",))


@rules("clear_inbox")
def clear_inbox(s: Any) -> Outcome[Any]:
    """L-IN-12  Both lists, from outside."""
    return go(s, ("clear", ("answer", None), ("refused",)))


# --- the inbox alone -----------------------------------------------------------------------------------------


@state
class Inbox(NamedTuple):
    """The core state of the inbox machine: the two lists and nothing else."""

    law: Law
    next_step: Ids = ()
    next_turn: Ids = ()

    def put(self, **changes: Any) -> Inbox:
        """A copy with some fields changed."""
        return self._replace(**changes)


alone = Rules(rules)


@alone("take")
def take(s: Inbox, target: Target, turn: int) -> Outcome[Inbox]:
    """L-IN-13  A claim, made by the environment because no driver is here."""
    return go(s, ("claim", target, turn, ("taken",), ("refused",)))


@alone("taken")
def taken(s: Inbox, batch: Ids) -> Outcome[Inbox]:
    """L-IN-13 (d)  The claim answers the batch in the order of its `claimed` events."""
    return leave(s, ("return", batch))


MACHINE: Machine[Inbox] = Machine(alone)
