"""What a user may rely on when driver and tools run together, judged from the labels alone.

The driver's own promises are in `properties.driver`, the scheduler's in `properties.scheduler`. Here stand those that
neither machine can keep alone. The memory is a bystander's: which calls of the open step have a `tool/call` and which
a `tool/result`, whether the signal was aborted, and whose record is being published.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from loopspec.kernel.claims import Answer
from loopspec.profile import Law
from loopspec.properties.claims import Label, Promises, Witness, is_written


class Seen(NamedTuple):
    """What a bystander knows of the open step and its batch."""

    calls: int = 0
    """How many calls the batch has; 0 while none runs."""
    started: int = 0
    """The last call with a `tool/call`."""
    settled: int = 0
    """The last call with a `tool/result`."""
    broken: bool = False
    """A record of this step was refused, or a part of the machinery failed."""
    aborted: bool = False
    """The signal of the activity was aborted."""
    publishing: bool = False
    """The observers of a record of the batch run."""
    open_step: bool = False


START = Seen()


def watch(seen: Seen, label: Label) -> Seen:
    """Fold one label into what was seen."""
    verb, name = label[0], label[1] if len(label) > 1 else ""
    if verb in ("call", "wait"):
        return seen
    seen = seen._replace(publishing=False)
    if verb == "batch":
        return seen._replace(calls=label[1], started=0, settled=0)
    if verb in ("refuse", "lose") or label[-1] in ("throws", "rejects"):
        return seen._replace(broken=True)
    if verb == "notify" and name == "abort":
        return seen._replace(aborted=True)
    if verb == "note" and name == "signal":
        return seen._replace(aborted=False)
    if verb != "append":
        ends = verb == "leave" and name in ("continue", "concluded", "throws")
        return seen._replace(calls=0) if ends else seen
    if name == "tool/call":
        return seen._replace(started=label[2], publishing=True)
    if name == "tool/result":
        return seen._replace(settled=label[2], publishing=True)
    if name == "step/start":
        return seen._replace(started=0, settled=0, broken=False, open_step=True)
    if name == "step/end":
        return seen._replace(open_step=False)
    return seen


PROMISES = Promises()
promise = PROMISES.promise
WITNESSES: list[Witness] = []


def witness(name: str, judge: Callable[[Seen, Label], bool], *needs: str, **more: Any) -> None:
    """Enter something that must be reachable where the budgets allow it."""

    def found(before: Seen, label: Label, after: Seen) -> bool:
        return bool(judge(before, label))

    WITNESSES.append(Witness(name, name.capitalize() + ".", found, needs=needs, **more))


# --- promises ------------------------------------------------------------------------------------------------


@promise("LOOP-1", "Each tool call of a step has exactly one result before the step ends.")
def every_call_settles(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """LI-11  Unless the machinery failed, or a record was refused."""
    if not is_written(label, "step/end") or before.broken:
        return True
    return before.settled == before.started or f"{before.started} calls were recorded, {before.settled} results"


@promise("LOOP-2", "A batch that ends well has a pair for every call, an aborted one too.")
def batch_settles_all(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """L-TOOL-15  The synthetic pairs count."""
    if label[0] != "leave" or label[1] not in ("continue", "concluded"):
        return True
    return before.started == before.settled == before.calls or f"{before.calls} calls, {before.settled} results"


@promise("LOOP-3", "Calls and results are recorded in model order, each once.")
def results_in_order(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """L-TOOL-6, INV-S1."""
    if not is_written(label, "tool/call", "tool/result"):
        return True
    return bool(label[2] == 1 + (before.started if label[1] == "tool/call" else before.settled))


@promise("LOOP-4", "While tools run the step stays open and the model is not asked.")
def driver_waits(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """L-TOOL-20."""
    return not before.calls or not is_written(label, *OF_THE_TURN)


@promise("LOOP-5", "Once the signal is aborted no tool body begins, whoever aborted it.")
def no_body_after_abort(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """INV-S8, T-304."""
    return not (label[0] == "enter" and label[2] and before.aborted)


@promise("LOOP-6", "Nobody writes to the log while a tool record is being published.")
def log_is_not_reentered(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """L-LOG-3."""
    return not (label[0] == "append" and before.publishing) or is_written(label, "tool/call", "tool/result")


OF_THE_TURN = ("step/start", "step/end", "turn/end", "request/header", "request/context", "assistant/message")


# --- what must be reachable ----------------------------------------------------------------------------------


def _runs_tools(seen: Seen, label: Label, *call: str) -> bool:
    return bool(seen.calls) and label[: len(call)] == call


def _operations_wait(law: Law) -> bool:
    return law.observer_operations_wait


witness("steer while tools run", lambda seen, label: _runs_tools(seen, label, "call", "send"), "messages=2", "calls")
witness(
    "cancel while tools run", lambda seen, label: _runs_tools(seen, label, "call", "cancel"), "cancel user", "calls"
)
witness(
    "operation waits for a tool record",
    lambda seen, label: seen.publishing and label[0] == "wait",
    "cancel user",
    "calls",
    applies=_operations_wait,
)
witness(
    "waiting operation begins behind a tool record",
    lambda seen, label: seen.publishing and label[0] == "begin",
    "cancel user",
    "calls",
    applies=_operations_wait,
)
witness(
    "abort between call and result",
    lambda seen, label: label[:2] == ("notify", "abort") and seen.started > seen.settled,
    "cancel user",
    "calls",
)
witness("body barred by a cancel", lambda seen, label: label[0] == "enter" and not label[2], "cancel user", "calls")
witness("pair for a call that never started", lambda seen, label: label[-1] == "never-started", "cancel user", "calls")
witness(
    "two calls in flight",
    lambda seen, label: label[:2] == ("notify", "tools/execute") and seen.started - seen.settled == 2,
    "calls",
)
witness("batch concludes the turn", lambda seen, label: label[:2] == ("leave", "concluded"), "calls")
witness("batch fails", lambda seen, label: label[:2] == ("leave", "throws"), "calls", "faults")
witness("next step after results", lambda seen, label: is_written(label, "step/start") and seen.settled > 0, "calls")
