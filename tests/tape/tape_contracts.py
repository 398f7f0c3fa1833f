"""Contracts of the tape's plain functions, for symbolic execution: who is eligible, how runs form, what a cap may be.

Each function is one claim: its precondition bounds the inputs, and it must answer true for all of them.
"""

from __future__ import annotations

from typing import Final

from loopspec.tape import config, entry, select
from loopspec.tape.select import Kind, Limits

KINDS: Final[tuple[Kind, ...]] = (
    "assistant", "result", "snapshot", "system", "developer", "human", "context", "entry",
)  # fmt: skip


def only_work_and_dead_snapshots(kind: int, seq: int, owner: int, closed: int, turn: int, live: bool) -> bool:
    """TP-11 to TP-13

    pre: 0 <= kind < 8
    post: _
    """
    taken = select.eligible(KINDS[kind], seq, owner, Limits(closed, turn), frozen=False, live=live)
    return not taken or kind < 2 or (kind == 2 and not live)


def nothing_frozen_and_nothing_too_young(kind: int, seq: int, owner: int, turn: int, frozen: bool) -> bool:
    """TP-14, TP-15

    pre: 0 <= kind < 8
    post: _
    """
    taken = select.eligible(KINDS[kind], seq, owner, Limits(seq, turn), frozen=frozen, live=False)
    return not taken or (not frozen and 1 <= owner <= turn)


def work_of_the_open_turn_stays(kind: int, seq: int, owner: int, closed: int, turn: int) -> bool:
    """TP-12

    pre: 0 <= kind < 2 and seq > closed
    post: _
    """
    return not select.eligible(KINDS[kind], seq, owner, Limits(closed, turn), frozen=False, live=False)


def finished_work_is_taken(kind: int, seq: int, owner: int, closed: int, turn: int) -> bool:
    """TP-12, TP-15: the guards are not stricter than they say.

    pre: 0 <= kind < 2 and seq <= closed and 1 <= owner <= turn
    post: _
    """
    return select.eligible(KINDS[kind], seq, owner, Limits(closed, turn), frozen=False, live=False)


def runs_cover_exactly_what_is_eligible(a: bool, b: bool, c: bool, d: bool) -> bool:
    """TP-20: every eligible node is in one run, nothing else is, and runs do not touch.

    post: _
    """
    flags = [a, b, c, d]
    covered = [False] * 4
    last = -1
    for start, end in select.runs(flags):
        if start <= last or start >= end:
            return False
        for at in range(start, end):
            covered[at] = True
        last = end
    return covered == flags


def entries_freeze_what_is_before_them(a: bool, b: bool, c: bool) -> bool:
    """TP-14

    post: _
    """
    kinds: list[Kind] = ["entry" if flag else "human" for flag in (a, b, c)]
    frozen = select.frozen_until(kinds)
    return "entry" not in kinds[frozen:] and (frozen == 0 or kinds[frozen - 1] == "entry")


def course_seals_only_what_it_may(entered: bool, step: int, aborted: bool, capped: bool, cap: int) -> bool:
    """TP-08, CF-20

    pre: step >= 1 and cap >= 1
    post: _
    """
    found = config.course("enter" if entered else "reject", step, aborted=aborted, cap=cap if capped else None)
    if aborted:
        return found == "raise"
    if not entered:
        return found == "pass"
    if capped and step > cap:
        return found == "stop"
    return found == ("seal" if step == 1 else "enter")


def a_cap_is_refused_exactly_when_too_small(cap: int) -> bool:
    """TP-70

    pre: cap < 2**53
    post: _
    """
    try:
        entry.check_cap(cap)
    except ValueError:
        return cap < 256
    return cap >= 256


def shortened_replies_leave_something_out(number: int, cap: int) -> bool:
    """TP-71: head and tail together are shorter than what is cut.

    pre: 2 <= number <= 8 and cap >= 256
    post: _
    """
    form = entry.level(number, cap).shorten
    return form is not None and form[1] + form[2] <= form[0] and form[2] > 0


def read_lines_fit_the_cap(number: int, cap: int) -> bool:
    """TP-71: from the second level on, no read line alone is longer than the cap.

    pre: 2 <= number <= 8 and cap >= 1000
    post: _
    """
    return entry.level(number, cap).reads <= cap


CONTRACTS = (
    only_work_and_dead_snapshots,
    nothing_frozen_and_nothing_too_young,
    work_of_the_open_turn_stays,
    finished_work_is_taken,
    runs_cover_exactly_what_is_eligible,
    entries_freeze_what_is_before_them,
    course_seals_only_what_it_may,
    a_cap_is_refused_exactly_when_too_small,
    shortened_replies_leave_something_out,
    read_lines_fit_the_cap,
)
