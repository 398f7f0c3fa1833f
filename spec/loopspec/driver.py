"""The driver: phases, send, wake, latch, cancel, maintenance, turn and step.

One driver owns one agent. From outside come the operations

| operation | rules |
|---|---|
| `send <message> <target> <wakeup>` | L-SEND-*, with followup, steer and inject as its presets |
| `cancel <cause kind> <keep inbox>` | L-CAN-* |
| `maintain` | L-MNT-* |
| `splice`, `replace`, `remove`, `clear_inbox` | L-IN-*, see `loopspec.inbox` |

and answers to its await points: those of `loopspec.attempt`, and

| await point | answers |
|---|---|
| `assembly` | `done`, `throws` |
| `pre-step <batch>` | `enter <batch>`, `reject`, `throws` |
| `tick` | `done` (only where the law reads the verdict a tick late) |
| `turn-stopping` | `done`, `throws` |
| `gap` | `done` (AW11, the hand-over from the turn routine to the driver) |
| `maintenance` | `done` |

Read a rule from its docstring: the clause first, then what it says. A guard is a function that answers true or
false; nothing else decides.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from loopspec import attempt, inbox
from loopspec.attempt import LIVE, RAISED, aborted
from loopspec.inbox import Ids, Target, has_pending, may_insert, mutate
from loopspec.kernel.machine import (
    Answer,
    Config,
    Frame,
    Machine,
    Operation,
    Outcome,
    Rules,
    append,
    go,
    leave,
    note,
    notify,
    park,
    state,
)
from loopspec.profile import Law

Phase = Literal["idle", "maintenance", "running"]


@state
class Driver(NamedTuple):
    """The core state (L-PH-1). Of the payloads it knows only numbers and kinds."""

    law: Law
    next_step: Ids = ()
    next_turn: Ids = ()
    phase: Phase = "idle"
    signal: str = LIVE
    """The kind of the first cause that aborted this activity's signal; `LIVE` while nobody did."""
    doomed: bool = False
    """A cancel with cause `disposed` has reached this activity, first or not."""
    latch: bool = False
    """`wakeRequested`: a wake to be replayed when this activity ends."""
    closing: bool = False
    """The run has decided to end and is on its way to idle."""
    turn: int = 0
    """The number of the open turn, or of the last one."""
    step: int = 0
    """The number of the last opened step of this turn."""
    ends: str = ""
    """How the turn would end: the result of its last step, or empty while an answer is owed."""
    headed: bool = False
    """This driver has written a request header."""

    def put(self, **changes: Any) -> Driver:
        """A copy with some fields changed."""
        return self._replace(**changes)


rules = Rules({**inbox.rules, **attempt.rules})


# --- guards --------------------------------------------------------------------------------------------------


def status(s: Driver) -> Literal["idle", "running"]:
    """L-PH-2  The public status: maintenance is idle."""
    return "running" if s.phase == "running" else "idle"


def comes_after_abort(s: Driver, wakeup: bool) -> bool:
    """L-SEND-3  A waking send that meets an aborted activity. Classified before the insertion."""
    return wakeup and s.phase != "idle" and aborted(s)


def is_barred(s: Driver) -> bool:
    """L-WAKE-2, L-WAKE-9, L-DSP-6  Disposal has been asked for: no wake may be latched any more."""
    return s.doomed if s.law.any_disposal_bars_latch else s.signal == "disposed"


def latches(s: Driver, after_abort: bool) -> bool:
    """L-WAKE-2, L-WAKE-3, L-WAKE-10  A wake that no driver will claim is kept for the end of the activity."""
    if is_barred(s):
        return False
    if s.phase == "maintenance":
        return True
    return after_abort or (s.closing and s.law.closing_run_latches)


def latch_is_due(s: Driver) -> bool:
    """L-WAKE-5, L-MNT-7  The latch that the end of this activity has to honour."""
    return s.latch and not (s.law.disposal_drops_latch and is_barred(s))


def waits(s: Driver, operation: Operation) -> bool:
    """L-CAN-6, L-SEND-9  Operations that answer nothing wait while a record is being published."""
    return s.law.observer_operations_wait and operation[0] in ("send", "cancel", "maintain")


def is_quiet(config: Config[Driver]) -> bool:
    """L-IDLE-1  No activity remains: nothing runs, nothing waits at an await point."""
    return not config.stack and not config.parked and not config.waiting


def barred(config: Config[Driver]) -> Config[Driver]:
    """C-REE-6, L-INI-3, L-IDLE-4, N-8  The closing initiator scope refuses the start of a run, if one begins now.

    Nothing of it happens; published loops find out behind its status: the waking call raises, and the agent stays
    `running` for ever, without a turn.
    """
    if not config.stack:
        return config
    core, top = config.core, config.stack[-1]
    whole = core.law.closing_wake_is_refused_whole
    if not (top.frame[0] == "wake" and core.phase == "idle" if whole else top.frame[0] == "open_turn"):
        return config
    return config._replace(stack=(*config.stack[:-1], top._replace(frame=("refused",))))


# --- send ----------------------------------------------------------------------------------------------------


@rules("send")
def send(s: Driver, message: int, target: Target, wakeup: bool) -> Outcome[Driver]:
    """L-SEND-2, L-SEND-4  Classify, then insert at the end; a wake after an abort is re-targeted to next-turn."""
    after_abort = comes_after_abort(s, wakeup)
    if after_abort:
        target = "next-turn"
    end = len(inbox.pending(s, target))
    if not may_insert(s, target, end, 0, (message,)):
        return leave(s, ("raise", "duplicate"))
    then = ("wake", after_abort, ("answer", None)) if wakeup else ("answer", None)
    return mutate(s, target, end, 0, (message,), then, ("refused",))


@rules("wake")
def wake(s: Driver, after_abort: bool, then: Frame) -> Outcome[Driver]:
    """L-WAKE-1 to L-WAKE-3  An idle agent starts a driver, always; a busy one latches the wake or ignores it."""
    if s.phase == "idle":
        running = s.put(phase="running", signal=LIVE, doomed=False, latch=False, closing=False, step=0, ends="")
        return note(running, ("signal",), ("start",))
    if latches(s, after_abort):
        return go(s.put(latch=True), then)
    return go(s, then)


@rules("start")
def start(s: Driver) -> Outcome[Driver]:
    """L-PH-3, L-PH-7  The status flips inside the waking call, after the phase was replaced."""
    return notify(s, ("agent/status", "running"), ("open_turn",))


# --- cancel --------------------------------------------------------------------------------------------------


@rules("cancel")
def cancel(s: Driver, cause: str, keep_inbox: bool) -> Outcome[Driver]:
    """L-CAN-1  Unless the inbox is kept: clear it, then the latch. Then abort."""
    if keep_inbox:
        return go(s, ("abort", cause))
    return go(s, ("clear", ("unlatch", cause), ("refused",)))


@rules("unlatch")
def unlatch(s: Driver, cause: str) -> Outcome[Driver]:
    """L-CAN-1, L-WAKE-4, L-CAN-5  The latch falls after the last `discarded` and before the abort."""
    return go(s.put(latch=False), ("abort", cause))


@rules("abort")
def abort(s: Driver, cause: str) -> Outcome[Driver]:
    """L-CAN-1 to L-CAN-4  The first cause wins; an idle agent has nothing to abort."""
    if s.phase == "idle":
        return leave(s, ("return", None))
    s = s.put(doomed=s.doomed or cause == "disposed")
    if aborted(s):
        return leave(s, ("return", None))
    return notify(s.put(signal=cause), ("abort", cause), ("answer", None))


# --- maintenance ---------------------------------------------------------------------------------------------


@rules("maintain")
def maintain(s: Driver) -> Outcome[Driver]:
    """L-MNT-1, L-MNT-2  Only an idle agent takes a job; nothing but the phase counts. No status event."""
    if s.phase != "idle":
        return leave(s, ("raise", "busy"))
    busy = s.put(phase="maintenance", signal=LIVE, doomed=False, latch=False)
    return note(busy, ("signal",), ("begin_job",))


@rules("begin_job")
def begin_job(s: Driver) -> Outcome[Driver]:
    """L-MNT-2  The job's synchronous part runs inside the call."""
    return notify(s, ("job",), ("await_job",))


@rules("await_job")
def await_job(s: Driver) -> Outcome[Driver]:
    """AW12  Then the call returns, and the job settles when it settles."""
    return park(s, ("maintenance",), ("job_settled",))


@rules("job_settled")
def job_settled(s: Driver, answer: Answer) -> Outcome[Driver]:
    """L-MNT-4, L-MNT-7  Idle again; a latch with anything pending starts a driver before the job's promise settles."""
    due = latch_is_due(s)
    return go(s.put(phase="idle", signal=LIVE, doomed=False, latch=False), ("replay", due))


# --- the ends of an activity ---------------------------------------------------------------------------------


@rules("retire")
def retire(s: Driver, answer: Answer) -> Outcome[Driver]:
    """L-DRV-1, L-WAKE-5  The run is over: idle first, and told so; the latch is looked at after that."""
    due = latch_is_due(s)
    idle = s.put(phase="idle", signal=LIVE, doomed=False, latch=False, closing=False, step=0, ends="")
    return notify(idle, ("agent/status", "idle"), ("replay", due))


@rules("replay")
def replay(s: Driver, due: bool) -> Outcome[Driver]:
    """L-WAKE-5, L-WAKE-6, L-WAKE-13, L-WAKE-14  A due latch wakes the agent if anything at all is pending."""
    if due and has_pending(s):
        return go(s, ("wake", False, ("settle_activity",)))
    return go(s, ("settle_activity",))


@rules("settle_activity")
def settle_activity(s: Driver) -> Outcome[Driver]:
    """L-IDLE-3  Now those who wait for idleness may look again."""
    return leave(s, ("settled",))


# --- turn ----------------------------------------------------------------------------------------------------


@rules("open_turn")
def open_turn(s: Driver) -> Outcome[Driver]:
    """L-TURN-1, CW1, CW19  Check, then the durable opening; an abort here leaves no record of the turn."""
    if aborted(s):
        return go(s, ("close_run",))
    return append(s, ("turn/start", s.turn + 1), ("turn_opened",), ("turn_refused",))


@rules("turn_refused")
def turn_refused(s: Driver) -> Outcome[Driver]:
    """L-TURN-1  A refused opening consumes no number, claims nothing, and is told as an error of step 0."""
    return notify(s.put(closing=True), ("agent/error", s.turn, 0), ("close_run",))


@rules("turn_opened")
def turn_opened(s: Driver) -> Outcome[Driver]:
    """L-TURN-1, L-TURN-2  The number is taken; the first proposal claims next-step and one prompt."""
    return go(s.put(turn=s.turn + 1, step=0, ends=""), ("propose", "next-turn"))


@rules("next_turn")
def next_turn(s: Driver, answer: Answer) -> Outcome[Driver]:
    """AW11  The hand-over is done."""
    return go(s, ("open_turn",))


@rules("end_turn")
def end_turn(s: Driver, then: str) -> Outcome[Driver]:
    """L-TURN-4  Exactly one `turn/end`; `then` is `drain` after a normal end, else `stop`."""
    reason = (s.ends, s.signal) if s.ends == "aborted" else (s.ends,)
    return append(s, ("turn/end", s.turn, *reason), ("turn_ended", then), ("turn_end_refused",))


@rules("turn_end_refused")
def turn_end_refused(s: Driver) -> Outcome[Driver]:
    """L-TURN-4  The number stays consumed and the run stops."""
    return notify(s.put(closing=True), ("agent/error", s.turn, s.step), ("close_run",))


@rules("turn_ended")
def turn_ended(s: Driver, then: str) -> Outcome[Driver]:
    """L-TURN-14, L-TURN-16, CW18  Anything pending after a normal end continues the run under a new signal."""
    if then == "drain" and has_pending(s):
        fresh = s.put(signal=LIVE, doomed=False, latch=False, step=0, ends="")
        return note(fresh, ("signal",), ("hand_over",))
    return go(s, ("close_run",))


@rules("hand_over")
def hand_over(s: Driver) -> Outcome[Driver]:
    """AW11  One scheduler tick between two turns of a run."""
    return park(s, ("gap",), ("next_turn",))


@rules("close_run")
def close_run(s: Driver) -> Outcome[Driver]:
    """AW11, L-WAKE-10  The same tick before idle: the exit gap."""
    return park(s.put(closing=True), ("gap",), ("retire",))


@rules("fail")
def fail(s: Driver) -> Outcome[Driver]:
    """L-TURN-3, L-TURN-5, L-CAN-10  A raise under an aborted signal is an abort, otherwise an error and told so."""
    if aborted(s):
        return go(s.put(ends="aborted", closing=True), ("end_turn", "stop"))
    s = s.put(ends="error", closing=True)
    return notify(s, ("agent/error", s.turn, s.step), ("end_turn", "stop"))


# --- proposal ------------------------------------------------------------------------------------------------


@rules("propose")
def propose(s: Driver, target: Target) -> Outcome[Driver]:
    """L-TURN-2, CW2  Check, then claim; `target` is next-turn for the first proposal of a turn only."""
    if aborted(s):
        return go(s, ("fail",))
    return go(s, ("claim", target, s.turn, ("assemble",), ("fail",)))


@rules("assemble")
def assemble(s: Driver, batch: Ids) -> Outcome[Driver]:
    """L-PRE-1, CW3  Prompt assembly begins, aborted or not."""
    return park(s, ("assembly",), ("assembled", batch))


@rules("assembled")
def assembled(s: Driver, batch: Ids, answer: Answer) -> Outcome[Driver]:
    """L-PRE-1, L-PRE-7, CW4  Check, then the pre-step waterfall judges the batch."""
    if answer[0] == "throws" or aborted(s):
        return go(s, ("fail",))
    return park(s, ("pre-step", batch), ("judged",))


@rules("judged")
def judged(s: Driver, answer: Answer) -> Outcome[Driver]:
    """L-PRE-8, L-PRE-9, CW5  Abort wins over the verdict; where the law says so, the verdict is read a tick later."""
    if answer[0] == "throws" or aborted(s):
        return go(s, ("fail",))
    if s.law.verdict_is_read_a_tick_late:
        return park(s, ("tick",), ("verdict_read", answer))
    return go(s, ("decide", answer))


@rules("verdict_read")
def verdict_read(s: Driver, verdict: Answer, answer: Answer) -> Outcome[Driver]:
    """L-PRE-9  The tick is over."""
    return go(s, ("decide", verdict))


@rules("decide")
def decide(s: Driver, verdict: Answer) -> Outcome[Driver]:
    """L-TURN-2, L-TURN-7 to L-TURN-9  Reject ends the run; an empty batch opens no step unless one is owed."""
    if verdict[0] == "reject":
        return go(s.put(ends="blocked", closing=True), ("end_turn", "stop"))
    batch: Ids = verdict[1]
    if s.ends and not batch:
        return go(s, ("end_turn", "drain"))
    if s.step == 0 and not batch:
        return go(s.put(ends="completed", closing=True), ("end_turn", "stop"))
    if aborted(s):
        return go(s, ("fail",))
    return append(s, ("step/start", s.turn, s.step + 1), ("step_opened", batch), ("fail",))


# --- step ----------------------------------------------------------------------------------------------------


@rules("step_opened")
def step_opened(s: Driver, batch: Ids) -> Outcome[Driver]:
    """L-TURN-2  The step counts as opened; then the batch enters history."""
    s = s.put(step=s.step + 1)
    if s.law.admission_follows_preparation:
        return go(s, ("begin_step", batch))
    return go(s, ("admit", batch, ("begin_step", ())))


@rules("begin_step")
def begin_step(s: Driver, batch: Ids) -> Outcome[Driver]:
    """L-REQ-1, CW6  The step routine begins with a check, before anything of the first attempt."""
    if aborted(s):
        return go(s, RAISED)
    return go(s, ("attempt", batch))


@rules("close_step")
def close_step(s: Driver, result: str) -> Outcome[Driver]:
    """L-TURN-2, L-TURN-6  The step is closed on every path; a refused closing is the turn's failure."""
    return append(s, ("step/end", s.turn, s.step), ("step_closed", result), ("fail",))


@rules("step_closed")
def step_closed(s: Driver, result: str) -> Outcome[Driver]:
    """L-TURN-3, L-TURN-10, CW16  max-tokens is sticky; the signal is read after the observers of `step/end`."""
    if result == "raised":
        return go(s, ("fail",))
    if s.ends != "max-tokens":
        s = s.put(ends="" if result == "continue" else result)
    if aborted(s):
        return go(s, ("fail",))
    return go(s, ("stop_or_go_on",))


@rules("stop_or_go_on")
def stop_or_go_on(s: Driver) -> Outcome[Driver]:
    """L-TURN-12  The turn would end and nothing is pending for it: listeners may still give it something."""
    if s.ends and not s.next_step:
        return park(s, ("turn-stopping",), ("stopping_done",))
    return go(s, ("propose", "next-step"))


@rules("stopping_done")
def stopping_done(s: Driver, answer: Answer) -> Outcome[Driver]:
    """L-TURN-12, L-TURN-13, CW17  Check; steering that came in continues the turn."""
    if answer[0] == "throws" or aborted(s):
        return go(s, ("fail",))
    if s.ends and not s.next_step:
        return go(s, ("end_turn", "drain"))
    return go(s, ("propose", "next-step"))


UNSETTLED = frozenset({"project", "take_steps", "take_prompt", "turn_ended"})
"""Frames behind a record that the state has not caught up with: a splice before its lists change (L-IN-9), and the end
of a turn whose signal is still in place (CW18). What waited for the log begins after them."""

MACHINE: Machine[Driver] = Machine(rules, waits, UNSETTLED)


def initial(law: Law, last_turn: int = 0, lists: inbox.Lists = inbox.Lists()) -> Config[Driver]:  # noqa: B008
    """A fresh driver: idle, with the turn number and the pending input that its log gives (L-PH-6, L-IN-16)."""
    return Config(Driver(law=law, turn=last_turn, next_step=lists.next_step, next_turn=lists.next_turn))
