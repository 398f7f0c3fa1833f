"""The inbox, stated twice."""

from __future__ import annotations

from typing import Any

from loopconform.tla.machines.shared import constants_of, core, left_named, prose, unwatched
from loopconform.tla.subjects import Subject
from loopconform.tla.values import number_text
from loopspec.profile import Law
from loopspec.worlds import inbox_world
from loopspec.worlds.inbox_world import COUNTS, STARTS, bound

TINY = bound("tiny", messages=2, edits=1, takes=1)
BOUNDS = {one.name: one for one in (TINY, *inbox_world.BOUNDS.values())}


def _system(law: Law, name: str) -> Any:
    return unwatched(inbox_world.world(law, BOUNDS[name]))


def _set(numbers: tuple[float, ...]) -> str:
    return ", ".join(f'`"{number_text(number)}"`' for number in numbers)


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
    extra={
        "ci": "tiny",
        "by command": "quick small tiny/dsh-0.1",
    },
    environment=prose("inbox").replace("{STARTS}", _set(STARTS)).replace("{COUNTS}", _set(COUNTS)),
)
