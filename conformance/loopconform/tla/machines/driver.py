"""The driver with the model attempt, stated twice."""

from __future__ import annotations

from typing import Any

from loopconform.tla.machines.shared import constants_of, core, left_named, prose, unwatched
from loopconform.tla.subjects import Subject
from loopspec.profile import Law
from loopspec.worlds import driver_world
from loopspec.worlds.driver_world import bound

TINY = bound("tiny", messages=2, cancel_user=1, turns=1)
ODD = bound("odd", messages=1, silent_prompts=1, cancel_user=1, turns=1, calls=1, faults=1, refusals=1)
CHANGED = bound("changed", messages=2, turns=1, edits=1)
JOBS = bound("jobs", messages=1, cancel_user=1, cancel_disposed=1, jobs=1, turns=1)
BOUNDS = {one.name: one for one in (TINY, ODD, CHANGED, JOBS, *driver_world.BOUNDS.values())}


def _system(law: Law, name: str) -> Any:
    return unwatched(driver_world.world(law, BOUNDS[name]))


SUBJECT = Subject(
    name="driver",
    module="Driver",
    sentence="Phases, send, wake, latch, cancel, maintenance, turn and step, with the model attempt inside the step.",
    system=_system,
    bounds={name: constants_of(one) for name, one in BOUNDS.items()},
    quick="tiny",
    deep="faults",
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
        core("phase", '`"idle"`, `"maintenance"`, `"running"`', "What the agent is doing.", "", "L-PH-1", "L-PH-2"),
        core(
            "signal",
            '`""` (live), `"user"`, `"disposed"`',
            "The kind of the first cause that aborted this activity's signal; empty while nobody did, and when idle.",
            "`turn/end` with reason `aborted`",
            "L-CAN-1",
            "L-CAN-2",
        ),
        core(
            "doomed",
            "boolean",
            "A cancel with cause `disposed` has reached this activity (signal), first or not; false when idle.",
            "",
            "L-DSP-6",
            "L-WAKE-9",
        ),
        core(
            "latch",
            "boolean",
            "`wakeRequested`: a wake to be replayed when this activity ends.",
            "",
            "L-WAKE-2",
            "L-WAKE-5",
        ),
        core(
            "closing",
            "boolean",
            "The run has decided to end and is on its way to idle; false when idle.",
            "",
            "L-WAKE-10",
        ),
        core(
            "turn",
            "number",
            "The number of the open turn, or of the last one.",
            "`turn/start`, `turn/end`",
            "L-TURN-1",
        ),
        core(
            "step",
            "number",
            "The number of the last opened step of this turn; 0 when none, and when idle.",
            "`step/start`, `step/end`",
            "L-TURN-2",
        ),
        core(
            "ends",
            '`""`, `"completed"`, `"max-tokens"`, `"error"`, `"aborted"`, `"blocked"`, …',
            "How the turn would end: the result of its last step; empty while an answer is owed, and when idle.",
            "`turn/end` reason",
            "L-TURN-3",
            "L-TURN-10",
        ),
        core(
            "headed",
            "boolean",
            "This driver has written a request header.",
            "`request/header`",
            "L-REQ-9",
        ),
        left_named(tuple(name for name, _ in driver_world.QUICK.budgets)),
    ),
    switches=(
        "closing_run_latches",
        "observer_operations_wait",
        "verdict_is_read_a_tick_late",
        "any_disposal_bars_latch",
        "disposal_drops_latch",
        "observers_see_splice_done",
        "minus_zero_is_refused",
        "admission_follows_preparation",
        "streams_are_embedded",
    ),
    extra={
        "alphabet": "odd changed jobs small",
        "ci": "tiny",
        "by command": "faults odd changed jobs odd/dsh-0.1 jobs/dsh-0.1",
    },
    environment=prose("driver"),
)
