"""The driver with the model attempt, stated twice."""

from __future__ import annotations

from typing import Any

from loopspec.profile import Law
from loopspec.worlds import driver_world
from loopspec.worlds.driver_world import bound

from loopconform.tla.machines.shared import constants_of, core, left_named, unwatched
from loopconform.tla.subjects import Subject

TINY = bound("tiny", messages=2, cancel_user=1, turns=1)
ODD = bound("odd", messages=1, silent_prompts=1, cancel_user=1, turns=1, calls=1, faults=1, refusals=1)
CHANGED = bound("changed", messages=2, turns=1, edits=1)
JOBS = bound("jobs", messages=1, cancel_user=1, cancel_disposed=1, jobs=1, turns=1)
BOUNDS = {one.name: one for one in (TINY, ODD, CHANGED, JOBS, *driver_world.BOUNDS.values())}


def _system(law: Law, name: str) -> Any:
    return unwatched(driver_world.world(law, BOUNDS[name]))


ENVIRONMENT = """
Budgets: `messages`, `silentPrompts`, `cancelUser`, `cancelDisposed`, `jobs`, `turns`, `calls`, `faults`, `refusals`,
`edits`. Let `n` be 1 + the number of `messages` spent so far. Operations:

| operation | price |
|---|---|
| `send n target wakeup`, all four combinations of `"next-turn"`, `"next-step"` and `TRUE`, `FALSE` | one of `messages`; without wake to `next-turn` also one of `silentPrompts` |
| `cancel cause keep`, `cause` of `"user"`, `"disposed"`, `keep` (the inbox) of `FALSE`, `TRUE` | one of `cancelUser` or `cancelDisposed`; free when the agent is idle with nothing pending |
| `maintain` | one of `jobs` when the phase is idle, else free |
| for each pending `m`: `send m "next-turn" TRUE`, `remove m` | one of `edits` |
| for each pending `m`: `replace m n` | one of `edits` and one of `messages` |
| `remove n`, `replace n (n+1)` (unknown messages) | one of `edits` |
| `clear_inbox`, only when something is pending | one of `edits` |
| `splice "next-turn" 0 0 <<n>>`, `splice "next-step" (-1) 1 <<n>>` (here coordinates are numbers) | one of `edits` and one of `messages` |

Here "idle" and "pending" are those of the state at the call. Answers, by await point:

| await point | answers, with their price |
|---|---|
| `<<"assembly">>`, `<<"request">>`, `<<"turn-stopping">>` and every other one that is not below | `<<"done">>` free, `<<"throws">>` one of `faults` |
| `<<"pre-step", batch>>` | `<<"enter", batch>>` free; if the batch is not empty `<<"enter", <<>>>>` one of `faults`; `<<"reject">>`, `<<"throws">>` one of `faults` |
| `<<"prepare">>` | `<<"prepared", headerChanged, contextChanged, systemRecords>>`: for the first request of this driver (no header written yet) `FALSE, TRUE, s`, else `FALSE, FALSE, 0`, free; except for the first also `TRUE, TRUE, z` for one of `faults`, where `z` is 1 in format 4 and else 0, and `s` the same; `<<"throws">>` one of `faults` |
| `<<"chunk", FALSE>>` (nothing published yet) | `<<"chunk">>` free; `<<"end", "stop", FALSE, FALSE>>` one of `faults`; if the signal is aborted `<<"throws", FALSE>>` free; and the last row |
| `<<"chunk", TRUE>>` | `<<"end", "stop", FALSE, TRUE>>` free; `<<"end", "tool-calls", TRUE, TRUE>>` one of `calls`; if the signal is aborted `<<"chunk">>` free and `<<"throws", FALSE>>` one of `faults`; and the last row |
| `<<"chunk", started>>`, always | `<<"end", "max-tokens", TRUE, started>>`, `<<"end", "failure", FALSE, started>>`, `<<"throws", started>>`, each one of `faults` |
| `<<"close", started>>` | `<<"closed", started>>` free; if `started` also `<<"closed", FALSE>>` one of `faults` |
| `<<"tools">>` | `<<"continue">>`, `<<"concluded">>` free, `<<"throws">>` one of `faults` |
| `<<"recovery">>` | `<<"none">>`, `<<"retry">>` free, `<<"throws">>` one of `faults` |
| `<<"tick">>`, `<<"gap">>`, `<<"maintenance">>` | `<<"done">>` free |

The arguments of the answers: `end finish hasCalls somethingVisible`, `throws somethingVisible` (of a stream that
raises), `closed somethingVisible` (the iterator is closed after an abort). The record `turn/start` costs one of
`turns`; where none is left that step is not offered (the run is cut by the bound), refusing the record still is.
"""

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
    extra={"alphabet": "odd changed jobs small"},
    environment=ENVIRONMENT,
    notes="""
`waiting`: under `observer_operations_wait` the operations `send`, `cancel` and `maintain`, made while the log is
locked, wait (label verb `wait` in the place of `call`). They are kept in order. The label of the step in which one of
them begins is `begin` with the operation. See the protocol above for the moment. The records behind which the state
has not caught up yet (so that waiting operations begin one effect later): every inbox record before its lists have
changed, and `turn/end` before the drain or the end of the run has been decided.
""",
)
