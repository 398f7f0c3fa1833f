"""Contracts of the inbox's plain functions, for symbolic execution. Lists are bounded by two or three items.

Each function is one claim: its precondition bounds the inputs, and it must answer true for all of them. Lists are built
from single numbers, so that no sequence is compared symbolically.
"""

from __future__ import annotations

from loopspec import inbox


def normalised_stays_inside(length: int, start: int, count: int) -> bool:
    """L-IN-4  The result lies inside the list.

    pre: 0 <= length
    post: _
    """
    first, removed = inbox.normalised(length, start, count)
    return first >= 0 and removed >= 0 and first + removed <= length


def normalised_keeps_what_fits(length: int, start: int, count: int) -> bool:
    """L-IN-4  Coordinates that lie inside already are kept.

    pre: 0 <= start and 0 <= count and start + count <= length and length < 1000
    post: _
    """
    return inbox.normalised(length, start, count) == (start, count)


def normalised_counts_from_the_end(length: int, back: int) -> bool:
    """L-IN-4  A negative start counts from the end.

    pre: 0 < back and back <= length and length < 1000
    post: _
    """
    return inbox.normalised(length, -back, 0)[0] == length - back


def spliced_has_the_right_length(a: int, b: int, c: int, start: int, count: int, inserted: int) -> bool:
    """L-IN-2  What was removed is gone, and what was inserted is there.

    pre: 0 <= start and 0 <= count and start + count <= 3
    post: _
    """
    result = inbox.spliced((a, b, c), start, count, (inserted,))
    return len(result) == 4 - count and result[start] == inserted


def spliced_keeps_the_rest(a: int, b: int, c: int, start: int) -> bool:
    """L-IN-2  A pure insertion removed again leaves the list as it was.

    pre: 0 <= start <= 3
    post: _
    """
    there = inbox.spliced((a, b, c), start, 0, (7,))
    back = inbox.spliced(there, start, 1, ())
    return len(back) == 3 and back[0] == a and back[1] == b and back[2] == c


def cleared_is_empty(a: int, b: int) -> bool:
    """L-IN-12  The splice of a clear leaves nothing.

    post: _
    """
    first, removed = inbox.normalised(2, 0, 2)
    return len(inbox.spliced((a, b), first, removed, ())) == 0


def claimed_takes_steps_then_one_prompt(a: int, b: int, c: int, d: int) -> bool:
    """L-IN-13  All of next-step, then the first of next-turn, and never a second one.

    post: _
    """
    turn = inbox.claimed_by("next-turn", (a, b), (c, d))
    step = inbox.claimed_by("next-step", (a, b), (c, d))
    whole = len(turn) == 3 and turn[0] == a and turn[1] == b and turn[2] == c
    return whole and len(step) == 2 and step[0] == a and step[1] == b


def found_where_it_is(a: int, b: int, c: int, wanted: int) -> bool:
    """L-IN-10  next-turn is searched first; the place holds the message; nothing else is found.

    post: _
    """
    place = inbox.find((a, b), (c,), wanted)
    if place is None:
        return wanted != a and wanted != b and wanted != c
    if place[0] == "next-turn":
        return wanted == c and place[1] == 0
    return wanted != c and (wanted == a if place[1] == 0 else wanted == b and wanted != a)


def replay_refuses_what_is_outside(a: int, b: int, start: int, count: int) -> bool:
    """L-IN-17  Coordinates outside the list are refused, those inside are not.

    pre: a != b
    post: _
    """
    try:
        inbox.replayed(inbox.Lists((a, b), ()), "next-step", start, count, ())
    except ValueError:
        return start < 0 or count < 0 or start + count > 2
    return start >= 0 and count >= 0 and start + count <= 2


def replay_refuses_duplicates(a: int, b: int, inserted: int) -> bool:
    """L-IN-17  An id that would be pending twice is refused, in either list.

    pre: a != b
    post: _
    """
    try:
        inbox.replayed(inbox.Lists((a,), (b,)), "next-turn", 0, 0, (inserted,))
    except ValueError:
        return inserted in (a, b)
    return inserted not in (a, b)


CONTRACTS = (
    normalised_stays_inside,
    normalised_keeps_what_fits,
    normalised_counts_from_the_end,
    spliced_has_the_right_length,
    spliced_keeps_the_rest,
    cleared_is_empty,
    claimed_takes_steps_then_one_prompt,
    found_where_it_is,
    replay_refuses_what_is_outside,
    replay_refuses_duplicates,
)
