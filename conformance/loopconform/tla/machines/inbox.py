"""The inbox, stated twice."""

from __future__ import annotations

from typing import Any

from loopspec.profile import Law
from loopspec.worlds import inbox_world
from loopspec.worlds.inbox_world import COUNTS, STARTS, bound

from loopconform.tla.machines.shared import constants_of, core, left_named, unwatched
from loopconform.tla.subjects import Subject
from loopconform.tla.values import number_text

TINY = bound("tiny", messages=2, edits=1, takes=1)
BOUNDS = {one.name: one for one in (TINY, *inbox_world.BOUNDS.values())}


def _system(law: Law, name: str) -> Any:
    return unwatched(inbox_world.world(law, BOUNDS[name]))


def _set(numbers: tuple[float, ...]) -> str:
    return ", ".join(f'`"{number_text(number)}"`' for number in numbers)


ENVIRONMENT = f"""
Budgets: `messages`, `edits`, `takes`, `refusals`. Let `n` be 1 + the number of `messages` spent so far: the next
fresh message. Coordinates (`start`, `count`) are strings. `len` is the length of the list of `target`, written as a
string. Pending messages are those of both lists, next-turn first. For each `target` of `"next-step"`, `"next-turn"`:

| operation | price |
|---|---|
| `splice target len "0" <<n>>` and `splice target "0" "0" <<n>>` | one of `messages` |
| `splice target "-1" "1" <<n, n+1>>` | two of `messages` |
| `splice target "0" "0" <<n, n>>` | one of `edits` |
| `take target 1` (a claim; its turn number is always 1) | one of `takes` |
| for each pending `m`: `splice target "0" "0" <<m>>`, `splice target "0" "1" <<m>>` | one of `edits` |
| for each start of {_set(STARTS)} and each count of {_set(COUNTS)}: `splice target start count <<>>` | one of `edits` |

And for any target:

| operation | price |
|---|---|
| for each pending `m`, and for `n`: `remove m`, `replace m m` | one of `edits` |
| for each pending `m`, and for `n`: `replace m n` | one of `edits` and one of `messages` |
| for the first pending `p` and each other pending `m`: `replace p m` | one of `edits` |
| `clear_inbox` | one of `edits` |

`left` is paid at the call, also when the operation then changes nothing or raises. (When `m` is `n`, `replace m m`
and `replace m n` are one operation at two prices: two moves with one label. That one label leads to two states.)
"""

SUBJECT = Subject(
    name="inbox",
    module="Inbox",
    sentence="Two ordered lists of pending messages, and the only ways in which they change.",
    system=_system,
    bounds={name: constants_of(one) for name, one in BOUNDS.items()},
    quick="small",
    deep="quick",
    fields=(
        core(
            "next_step",
            "sequence of message numbers",
            "Messages that join at the next step boundary.",
            "`agent/inbox/spliced` with target `next-step`",
            "L-IN-1",
            "L-IN-8",
        ),
        core(
            "next_turn",
            "sequence of message numbers",
            "Messages that each start a turn.",
            "`agent/inbox/spliced` with target `next-turn`",
            "L-IN-1",
            "L-IN-8",
        ),
        left_named(tuple(name for name, _ in inbox_world.QUICK.budgets)),
    ),
    switches=("observers_see_splice_done", "minus_zero_is_refused"),
    environment=ENVIRONMENT,
)
