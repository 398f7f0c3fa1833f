"""The windows of the race catalogue that concern the tool scheduler: each must be reachable.

They are asked of explorations that also remember the moment of the abort (`MOMENT`). Their witnesses are shortest
runs, and good stories to read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopspec.kernel.claims import SometimesStep
from loopspec.kernel.system import Label
from loopspec.profile import Law
from loopspec.properties.scheduler import (
    Node,
    appends,
    bodies,
    is_end,
    is_real,
    lane_points,
    parks,
    story_of,
    tells,
)
from loopspec.worlds.scheduler_past import Moment, Story, aborted, failure_in

Window = Callable[[Story, Moment, Any, Node], object]


def skips(label: Any) -> bool:
    """The move completes a synthetic pair after an abort."""
    return appends(label, "tool/result") and bool(label[3] == "never-started")


def row(name: str, sentence: str, window: Window) -> SometimesStep[Node]:
    """A window of the race catalogue: the memory before the move, the moment of the abort, the move, what follows."""

    def predicate(before: Node, label: Label, after: Node) -> bool:
        return bool(window(story_of(before), before.memories[1], label, after))

    return SometimesStep(name, sentence, predicate)


def reachability(law: Law, calls: int) -> tuple[SometimesStep[Node], ...]:
    """Every window of the race catalogue that concerns the scheduler, for at least three calls."""
    completes = law.failed_batch_is_completed
    return (
        row(
            "LR-140",
            "The signal was aborted before: synthetic pairs only.",
            lambda s, m, e, _: e == ("leave", "continue") and m.place == "before" and s.prepared == 0,
        ),
        row(
            "LR-141",
            "Abort at the record of a call: that call ends in the pipeline, the next one is synthetic.",
            lambda s, m, e, _: skips(e) and m.place == "called" and m.call == s.prepared == s.results > 0,
        ),
        row(
            "LR-142",
            "Abort in pre-execute while a sibling runs: the body is not entered, post-execute sees the result.",
            lambda s, m, e, _: (
                parks(e, "finalise") and m[:2] == ("prepare", e[2]) and m.bodies > 0 and s.executed < e[2]
            ),
        ),
        row(
            "LR-143",
            "A body succeeds after the abort: `aborted`, its contexts are taken, its mark is lost.",
            lambda s, m, e, _: is_real(e) and e[3] == "aborted" and m.place == "bodies" and s.contexts and s.marked,
        ),
        row(
            "LR-144",
            "A body that was entered fails by itself after the abort: its own failure is told.",
            lambda s, m, e, _: (
                tells(e, "tools/result") and e[3] == "failure" and m.place == "bodies" and e[2] in s.entered
            ),
        ),
        row(
            "LR-145",
            "Abort in post-execute: `aborted`.",
            lambda s, m, e, _: tells(e, "tools/result") and e[3] == "aborted" and m[:2] == ("finalise", e[2]),
        ),
        row(
            "LR-146 live",
            "Abort from a listener of `tools/result`: that result stays a success.",
            lambda s, m, e, _: is_real(e) and e[3] == "success" and m[:2] == ("record", e[2]),
        ),
        row(
            "LR-146 log",
            "Abort from an observer of `tool/result`: the next call is synthetic.",
            lambda s, m, e, _: skips(e) and m[:2] == ("recorded", e[2] - 1),
        ),
        row(
            "LR-147",
            "Abort with two bodies running and a third call waiting: two real results, then a synthetic one.",
            lambda s, m, e, _: skips(e) and m == Moment("bodies", 0, 2) and s.executed == s.results == 2,
        ),
        row(
            "LR-148",
            "Abort while the pool runs and an exclusive call waits: that call never starts.",
            lambda s, m, e, _: skips(e) and m.bodies > 0 and s.mode == "exclusive" and s.prepared > s.barrier,
        ),
        row(
            "LR-149",
            "A later call settles before an earlier one.",
            lambda s, m, e, after: e[:2] == ("answer", "body") and ("body", e[2] - 1) in points(after),
        ),
        row(
            "LR-150",
            "After a commit the next call is exclusive while a sibling runs; it starts alone afterwards.",
            lambda s, m, e, after: (
                e[:2] == ("answer", "classify") and e[3] == "exclusive" and bodies(after) > 0 and s.results > 0
            ),
        ),
        row(
            "LR-151",
            "The call behind an exclusive one is classified when that one has its result, and may be parallel.",
            lambda s, m, e, _: (
                e[:2] == ("answer", "classify") and e[3] == "parallel" and 0 < s.barrier == s.results == e[2] - 1
            ),
        ),
        row(
            "LR-152",
            "A later group has another cap.",
            lambda s, m, e, _: e[:3] == ("answer", "cap", "cap") and s.cap not in (0, e[3]),
        ),
        row(
            "LR-156",
            "A result that concludes has contexts too; both are honoured.",
            lambda s, m, e, _: parks(e, "contexts") and s.concluded,
        ),
        row(
            "LR-157",
            "One call concludes while a sibling still runs.",
            lambda s, m, e, after: is_real(e) and s.marked and e[3] == "success" and bodies(after) > 0,
        ),
        row(
            "LR-158",
            "A sibling's dispatch is rejected while a call is being prepared: that call never runs.",
            lambda s, m, e, _: e[:2] == ("answer", "prepare") and e[3] == "dispatch" and s.failure[:1] == ("body",),
        ),
        row(
            "LR-159",
            "A context is refused: the batch fails.",
            lambda s, m, e, _: e[:2] == ("leave", "throws") and s.failure[0] == "contexts",
        ),
        row(
            "LR-160",
            "After a failure a started and a never-started call have no result, or a made-up one if the law wants it.",
            lambda s, m, e, _: (
                e[:2] == ("leave", "throws")
                and s.told < s.prepared
                and s.calls < calls
                and s.results == (calls if completes else s.told)
            ),
        ),
        row("LR-206 call", "The record of a call is refused.", throws("tool/call")),
        row("LR-206 result", "The record of a result is refused.", throws("tool/result")),
        row(
            "RACE-1",
            "Abort between the permission and the body: not entered, post-execute still runs.",
            lambda s, m, e, _: (
                parks(e, "finalise")
                and e[3] == "aborted-before-dispatch"
                and s.executed >= e[2]
                and m.place != "prepare"
            ),
        ),
        row(
            "RACE-7 last",
            "Abort in the commit of the last call: the batch returns without synthetic pairs.",
            lambda s, m, e, _: is_end(e) and m[:2] == ("recorded", calls) and s.prepared == calls,
        ),
        row(
            "RACE-7 next",
            "Abort behind the last check of a group: the next group opens and starts nothing.",
            lambda s, m, e, _: parks(e, "cap") and aborted(s) and s.prepared > 0,
        ),
        row(
            "RACE-10",
            "Two bodies settle before the lane looks.",
            lambda s, m, e, after: (
                e[:2] == ("answer", "body")
                and len(s.settled) > 1
                and s.settled[0] == s.results + 1
                and lane_points(after) > 0
            ),
        ),
        row(
            "RACE-29",
            "A classifier aborts: its call is recorded, and ends in the pipeline without a policy.",
            lambda s, m, e, _: parks(e, "prepare") and e[3] == "arguments" and m[:2] == ("classify", e[2]),
        ),
        row(
            "T-401",
            "Calls that were resolved without a dispatch take no place in the pool.",
            lambda s, m, e, _: (
                appends(e, "tool/call") and s.calls - s.results >= s.cap > 0 and s.executed < s.calls and not aborted(s)
            ),
        ),
        row(
            "T-305",
            "A wrapper's success without a body, aborted in post-execute: `aborted-before-dispatch`.",
            lambda s, m, e, _: (
                tells(e, "tools/result")
                and e[3] == "aborted-before-dispatch"
                and m[:2] == ("finalise", e[2])
                and e[2] not in s.failed
            ),
        ),
        row(
            "L-TOOL-7",
            "call 1, call 2, result 1, call 3.",
            lambda s, m, e, _: appends(e, "tool/call") and e[2] == 3 and s.results == 1,
        ),
        row(
            "S-LIF-8",
            "call 1, call 2, result 1, result 2.",
            lambda s, m, e, _: appends(e, "tool/call") and e[2] == 2 and s.results == 0,
        ),
        row(
            "INV-S11 later",
            "A second failure follows; the first one is told.",
            lambda s, m, e, _: e[0] == "answer" and bool(s.failure) and failure_in(e, s) != (),
        ),
        row(
            "INV-S11 commits",
            "A sibling is rejected while a result is finalised: that result is still recorded.",
            lambda s, m, e, _: is_real(e) and bool(s.failure),
        ),
    )


def points(node: Node) -> tuple[tuple[Any, ...], ...]:
    """The open await points."""
    return tuple(point for point, _ in node.state.config.parked)


def throws(what: str) -> Window:
    """The batch fails because of that kind of failure."""
    return lambda s, m, e, _: e[:2] == ("leave", "throws") and s.failure[:1] == (what,)
