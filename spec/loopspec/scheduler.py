"""The tool scheduler: one batch of tool calls, from the settled answer to the last result.

The calls of one assistant message are numbered 1, 2, … in model order. One routine, the *lane*, does everything
that has an order; only bodies run beside it. A run of this machine is one batch: it begins with `initial` and
ends with the effect `("continue",)`, `("concluded",)` or `("throws", failure)`, which is the answer to the await
point `tools` of the driver.

**Await points.** At most one of the lane's is open at a time; bodies wait beside it.

| await point | answers |
|---|---|
| `prepare <call> policy` (AW7) | `dispatch`, `cancelled`, `post-result`, `final-result`, `throws` |
| `prepare <call> arguments` (AW7) | `dispatch`, `final-result`, `throws`: no listener runs any more |
| `body <call>` (AW8) | `success`, `failure`, `barred`, `final-result`, `rejects` |
| `finalise <call> <outcome>` (AW9) | `accept <concludes> <has contexts>`, `block <has contexts>`, `throws` |

`dispatch`: policy allowed it. `cancelled`: the approval was cancelled. `post-result`: a failure that post-execute
still sees. `final-result`: a failure that nobody may touch any more. `barred`: the body was refused entry, and the
wrappers left it at that. `accept` keeps what the result is, `block` makes it a failure. `throws` and `rejects`
are failures of the machinery, never of a tool.

**Questions** are await points that are answered before anything else happens (user code may run and abort, but
no body settles): `is_question` tells them.

| question | answers |
|---|---|
| `classify <call>` | `parallel`, `exclusive`, `throws` (the machinery; a throwing classifier is `exclusive`) |
| `cap` | `cap <size of the pool>`, `throws` |
| `contexts <call>` | `done`, `throws`: its contexts went, one by one, to the end of next-step |

**Operations.** `abort`: the signal of the turn was aborted; whoever owns the signal tells it at once, from any
window or while all routines wait. `execute <call>`: made inside the window of `("tools/execute", call)`, it begins
the dispatch, which then waits at `body`; without it the dispatch counts as failed. `enter <call>`: the wrappers
have reached the body; answers whether it may be invoked.

**Outcomes** of a result, as everybody can see them in the log: `success`, `failure`, `aborted` and
`aborted-before-dispatch` went through the pipeline; `never-started` is the second half of a synthetic pair;
`outcome-unknown` and `not-started` complete a failed batch where the law wants that (VD-40).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from loopspec.inbox import Ids
from loopspec.kernel.machine import (
    Activation,
    Answer,
    Config,
    Effect,
    Frame,
    Machine,
    Outcome,
    Rules,
    append,
    go,
    leave,
    notify,
    park,
    state,
)
from loopspec.profile import Law

Call = int
Mode = Literal["parallel", "exclusive"]
Lane = Literal["busy", "waiting", "draining"]

QUESTIONS = ("classify", "cap", "contexts")
"""The await points that are answered before anything else happens."""

ENDS = ("continue", "concluded", "throws")
"""How a batch ends: the names of its last effect."""


SETTLED = {
    "success": "success",
    "failure": "failure",
    "barred": "aborted-before-dispatch",
    "final-result": "failure",
}
"""The outcome that each answer of a dispatch means (T-304, 9.3)."""


class Slot(NamedTuple):
    """The result of a call that waits for its turn to be committed.

    `post` tells whether post-execute is due; a result without it is final (T-202).
    """

    call: Call
    post: bool
    outcome: str


@state
class Batch(NamedTuple):
    """The core state of one batch."""

    law: Law
    calls: int
    """How many calls the message made; they are numbered from 1."""
    aborted: bool = False
    """The signal of the turn is aborted."""
    cut: bool = False
    """The lane has seen the abort: nothing starts any more."""
    failure: Effect = ()
    """What failed first in the machinery, as `(what, call)`; empty while nothing did."""
    lane: Lane = "busy"
    """`waiting`: for any body to settle; `draining`: for all of them, after a failure."""
    mode: Mode = "exclusive"
    """How the current group runs."""
    last: int = 0
    """The last call that the current group may start."""
    cap: int = 0
    """The size of the pool, read once per group."""
    next: int = 1
    """The first call without a `tool/call` of its own."""
    done: int = 0
    """The commit cursor: the calls up to here have their result."""
    live: Ids = ()
    """The dispatches in flight."""
    entered: Ids = ()
    """Those whose body was invoked, until their result is committed."""
    slots: tuple[Slot, ...] = ()
    """Settled and not yet committed, in model order."""
    concluded: bool = False
    """A committed success of this batch concludes the turn."""

    def put(self, **changes: Any) -> Batch:
        """A copy with some fields changed."""
        return self._replace(**changes)


rules = Rules()


# --- guards --------------------------------------------------------------------------------------------------


def is_question(point: Effect) -> bool:
    """True for an await point that is answered at once, before any body may settle."""
    return point[0] in QUESTIONS


def may_start(s: Batch) -> bool:
    """L-TOOL-2, L-TOOL-4, L-TOOL-14  The group has another call, the pool has room, and no abort was seen."""
    return not s.cut and s.next <= s.last and len(s.live) < s.cap


def may_enter(s: Batch) -> bool:
    """T-304, INV-S8  A body is invoked only under a live signal."""
    return not s.aborted


def is_due(s: Batch) -> bool:
    """L-TOOL-6  The next result in model order has settled."""
    return bool(s.slots) and s.slots[0].call == s.done + 1


def replaced(s: Batch, call: Call, outcome: str) -> str:
    """L-TOOL-18, T-305  An abort replaces a success, and nothing but a success."""
    if outcome != "success" or not s.aborted:
        return outcome
    return "aborted" if call in s.entered else "aborted-before-dispatch"


def concludes(outcome: str, marked: bool) -> bool:
    """L-TOOL-12, T-312  Only a success concludes; a replaced one has lost its mark."""
    return marked and outcome == "success"


# --- operations from outside ---------------------------------------------------------------------------------


@rules("abort")
def abort(s: Batch) -> Outcome[Batch]:
    """L-TOOL-14  The signal is aborted now; the lane looks at it when it has something to decide."""
    return leave(s.put(aborted=True), ("return", None))


@rules("execute")
def execute(s: Batch, call: Call) -> Outcome[Batch]:
    """L-TOOL-5, AW8  The dispatch runs beside the lane, which does not wait for it."""
    return park(s.put(live=(*s.live, call)), ("body", call), ("settle", call))


@rules("enter")
def enter(s: Batch, call: Call) -> Outcome[Batch]:
    """L-TOOL-17, T-304  The last look at the signal before the body."""
    if not may_enter(s):
        return leave(s, ("return", False))
    return leave(s.put(entered=tuple(sorted((*s.entered, call)))), ("return", True))


# --- groups --------------------------------------------------------------------------------------------------


@rules("open_group")
def open_group(s: Batch) -> Outcome[Batch]:
    """L-TOOL-2, L-TOOL-13  Groups are built lazily: only the first unstarted call is looked at."""
    if s.next > s.calls:
        return go(s, ("end",))
    return park(s, ("classify", s.next), ("group_classified",))


@rules("group_classified")
def group_classified(s: Batch, answer: Answer) -> Outcome[Batch]:
    """L-TOOL-2, L-TOOL-4  A parallel group is all the rest, an exclusive group is one call. Then the cap is read."""
    if answer[0] == "throws":
        return go(s, ("fail", ("classify", s.next)))
    last = s.calls if answer[0] == "parallel" else s.next
    return park(s.put(mode=answer[0], last=last), ("cap",), ("group_capped",))


@rules("group_capped")
def group_capped(s: Batch, answer: Answer) -> Outcome[Batch]:
    """L-SET-4, L-TOOL-16  The cap holds for this group; an abort that came before its first start cuts it."""
    if answer[0] == "throws":
        return go(s, ("fail", ("cap", s.next)))
    s = s.put(cap=answer[1], cut=s.aborted)
    if not may_start(s):
        return go(s, ("pause",))
    return go(s, ("start",))


@rules("fill")
def fill(s: Batch) -> Outcome[Batch]:
    """L-TOOL-3, L-TOOL-4  The pool is refilled one call at a time, each classified again right before its start."""
    if not may_start(s):
        return go(s, ("pause",))
    return park(s, ("classify", s.next), ("reclassified",))


@rules("reclassified")
def reclassified(s: Batch, answer: Answer) -> Outcome[Batch]:
    """L-TOOL-3, T-402  A call that is no longer parallel stops the pool and waits for a group of its own."""
    if answer[0] == "throws":
        return go(s, ("fail", ("classify", s.next)))
    if answer[0] == "parallel":
        return go(s, ("start",))
    if s.law.stopped_pool_stays_stopped:
        s = s.put(last=s.next - 1)
    return go(s, ("pause",))


@rules("pause")
def pause(s: Batch) -> Outcome[Batch]:
    """L-TOOL-4, L-TOOL-15  Wait for any body; with none in flight the group is over."""
    if s.live:
        return leave(s.put(lane="waiting"), ("wait",))
    if s.cut:
        return go(s, ("skip",))
    return go(s, ("open_group",))


# --- one call ------------------------------------------------------------------------------------------------


@rules("start")
def start(s: Batch) -> Outcome[Batch]:
    """L-TOOL-5  Every start is recorded first, in model order."""
    return append(s, ("tool/call", s.next), ("called", s.next), ("fail", ("tool/call", s.next)))


@rules("called")
def called(s: Batch, call: Call) -> Outcome[Batch]:
    """L-TOOL-17, T-302  Under an aborted signal the arguments are still read, but no policy is asked."""
    scope = "arguments" if s.aborted else "policy"
    return park(s.put(next=call + 1), ("prepare", call, scope), ("prepared", call, scope))


@rules("prepared")
def prepared(s: Batch, call: Call, scope: str, answer: Answer) -> Outcome[Batch]:
    """L-TOOL-5, LR-158, T-408  A failure in the meantime is looked at first: then the body never starts."""
    if answer[0] == "throws":
        return go(s, ("fail", ("prepare", call)))
    if s.failure:
        return go(s, ("drain",))
    return go(s, ("verdict", call, scope, answer[0]))


@rules("verdict")
def verdict(s: Batch, call: Call, scope: str, said: str) -> Outcome[Batch]:
    """T-202, T-302, T-303  Dispatch, or a result at once. An abort replaces a permission, never a denial."""
    if said == "final-result":
        return go(s, ("keep", Slot(call, False, "failure")))
    if scope == "arguments":
        return go(s, ("keep", Slot(call, False, "aborted-before-dispatch")))
    if said == "post-result":
        return go(s, ("keep", Slot(call, True, "failure")))
    if s.aborted:
        return go(s, ("keep", Slot(call, True, "aborted-before-dispatch")))
    if said == "cancelled":
        return go(s, ("keep", Slot(call, True, "failure")))
    return notify(s, ("tools/execute", call), ("started", call))


@rules("keep")
def keep(s: Batch, slot: Slot) -> Outcome[Batch]:
    """T-401  A call that was resolved without a dispatch takes no place in the pool."""
    return go(s.put(slots=(*s.slots, slot)), ("commit",))


@rules("started")
def started(s: Batch, call: Call) -> Outcome[Batch]:
    """L-TOOL-7, L-TOOL-21  A dispatch that did not begin is a failure; commits come between two starts."""
    if call not in s.live:
        return go(s, ("fail", ("execute", call)))
    return go(s, ("commit",))


@rules("settle")
def settle(s: Batch, call: Call, answer: Answer) -> Outcome[Batch]:
    """L-TOOL-6, L-TOOL-18, T-305  A dispatch has settled: its slot is filled, after a look at the signal."""
    s = s.put(live=tuple([other for other in s.live if other != call]))
    if answer[0] == "rejects":
        s = s.put(failure=s.failure or ("body", call))
    else:
        slot = Slot(call, answer[0] != "final-result", replaced(s, call, SETTLED[answer[0]]))
        s = s.put(slots=tuple(sorted((*s.slots, slot))))
    return go(s, ("wake",))


@rules("wake")
def wake(s: Batch) -> Outcome[Batch]:
    """L-TOOL-4, L-TOOL-21  A lane that waits goes on with every settlement; a draining one waits for the next."""
    if s.lane == "busy":
        return leave(s, ("return", None))
    s = s.put(lane="busy")
    if s.failure:
        return go(s, ("drain",))
    return go(s, ("commit",))


# --- commit --------------------------------------------------------------------------------------------------


@rules("commit")
def commit(s: Batch) -> Outcome[Batch]:
    """L-TOOL-6  Results are finalised strictly in model order, each as soon as it and all before it are there."""
    if not is_due(s):
        return go(s, ("look",))
    call, post, outcome = s.slots[0]
    if post:
        return park(s, ("finalise", call, outcome), ("finalised", call, outcome))
    return go(s, ("tell", call, outcome, False, False))


@rules("finalised")
def finalised(s: Batch, call: Call, outcome: str, answer: Answer) -> Outcome[Batch]:
    """L-TOOL-18, T-305, T-306  The last look at the signal; contexts are kept whatever became of the result."""
    if answer[0] == "throws":
        return go(s, ("fail", ("finalise", call)))
    if answer[0] == "block":
        return go(s, ("tell", call, "failure", False, answer[1]))
    _, marked, contexts = answer
    outcome = replaced(s, call, outcome)
    return go(s, ("tell", call, outcome, concludes(outcome, marked), contexts))


@rules("tell")
def tell(s: Batch, call: Call, outcome: str, concluding: bool, contexts: bool) -> Outcome[Batch]:
    """L-TOOL-6, L-TOOL-19  The result is fixed and told, then recorded; nothing that listeners do changes it."""
    return notify(s, ("tools/result", call, outcome), ("record", call, outcome, concluding, contexts))


@rules("record")
def record(s: Batch, call: Call, outcome: str, concluding: bool, contexts: bool) -> Outcome[Batch]:
    """L-TOOL-6, L-TOOL-10  The record of the result."""
    written = ("recorded", call, concluding, contexts)
    return append(s, ("tool/result", call, outcome), written, ("fail", ("tool/result", call)))


@rules("recorded")
def recorded(s: Batch, call: Call, concluding: bool, contexts: bool) -> Outcome[Batch]:
    """L-TOOL-8, L-TOOL-12, INV-S12  The cursor moves; then come the contexts of this very result."""
    left = tuple([other for other in s.entered if other != call])
    s = s.put(done=call, slots=s.slots[1:], entered=left, concluded=s.concluded or concluding)
    if contexts:
        return park(s, ("contexts", call), ("contexts_taken", call))
    return go(s, ("commit",))


@rules("contexts_taken")
def contexts_taken(s: Batch, call: Call, answer: Answer) -> Outcome[Batch]:
    """L-TOOL-21, LR-159  A context that cannot be inserted is a failure of the scheduler."""
    if answer[0] == "throws":
        return go(s, ("fail", ("contexts", call)))
    return go(s, ("commit",))


@rules("look")
def look(s: Batch) -> Outcome[Batch]:
    """L-TOOL-14, T-408  After the commits: a failure first, the abort second, then the pool."""
    if s.failure:
        return go(s, ("drain",))
    return go(s.put(cut=s.aborted), ("fill",))


# --- the ends of a batch -------------------------------------------------------------------------------------


@rules("skip")
def skip(s: Batch) -> Outcome[Batch]:
    """L-TOOL-15, T-409  After an abort: a synthetic pair for every call that never started, outside the pipeline."""
    if s.next > s.calls:
        return go(s, ("end",))
    call = s.next
    return append(s, ("tool/call", call), ("skipped", call), ("fail", ("tool/call", call)))


@rules("skipped")
def skipped(s: Batch, call: Call) -> Outcome[Batch]:
    """L-TOOL-15  The call counts as recorded."""
    return go(s.put(next=call + 1), ("pair", call))


@rules("pair")
def pair(s: Batch, call: Call) -> Outcome[Batch]:
    """L-TOOL-15  The second half of the pair."""
    return append(s, ("tool/result", call, "never-started"), ("paired", call), ("fail", ("tool/result", call)))


@rules("paired")
def paired(s: Batch, call: Call) -> Outcome[Batch]:
    """L-TOOL-15  The next one, over the whole rest of the batch."""
    return go(s.put(done=call), ("skip",))


@rules("end")
def end(s: Batch) -> Outcome[Batch]:
    """L-TOOL-12, L-TOOL-13, T-406  Every call has its result; an aborted batch returns like any other."""
    return leave(s, ("concluded",) if s.concluded else ("continue",))


@rules("fail")
def fail(s: Batch, failure: Effect) -> Outcome[Batch]:
    """L-TOOL-21  The first failure of the machinery is the one that counts."""
    return go(s.put(failure=s.failure or failure), ("drain",))


@rules("drain")
def drain(s: Batch) -> Outcome[Batch]:
    """L-TOOL-21, INV-S9  Nothing starts and nothing is committed; every dispatch in flight is awaited."""
    if s.live:
        return leave(s.put(lane="draining"), ("wait",))
    if s.law.failed_batch_is_completed:
        return go(s, ("complete", s.done + 1))
    return go(s, ("throw",))


@rules("complete")
def complete(s: Batch, call: Call) -> Outcome[Batch]:
    """VD-40, S-LIF-7, S-REP-3  A result for every call that has none, by whether its start was recorded."""
    if call > s.calls:
        return go(s, ("throw",))
    outcome = "outcome-unknown" if call < s.next else "not-started"
    return append(s, ("tool/result", call, outcome), ("completed", call), ("throw_incomplete",))


@rules("completed")
def completed(s: Batch, call: Call) -> Outcome[Batch]:
    """VD-40  The next one."""
    return go(s.put(done=call), ("complete", call + 1))


@rules("throw")
def throw(s: Batch) -> Outcome[Batch]:
    """L-TOOL-21, L-TOOL-22  The first failure ends the step; no result was made up on the way."""
    return leave(s, ("throws", s.failure))


@rules("throw_incomplete")
def throw_incomplete(s: Batch) -> Outcome[Batch]:
    """VD-40  The results that are missing could not be recorded either: both failures are told together."""
    return leave(s, ("throws", s.failure, "incomplete"))


MACHINE: Machine[Batch] = Machine(rules)

BEGIN: Frame = ("open_group",)


def initial(law: Law, calls: int, aborted: bool = False) -> Config[Batch]:
    """A batch that is about to begin: its first `step` is due. `aborted` is the signal as it is by now (CW13).

    Raises `ValueError` when there is no call: such a step has no batch.
    """
    if calls < 1:
        raise ValueError(f"a batch needs at least one call, not {calls}")
    return Config(Batch(law, calls, aborted), (Activation(BEGIN, "closed", False),))


def is_over(effect: Effect) -> bool:
    """True for the last effect of a batch. Everything has settled by then."""
    return effect[0] in ENDS
