"""What an environment may do between two rows of a log: every answer to every await point, and every call.

A log shows the records and nothing else, so that the oracle (`loopspec.log.oracle`) has to reckon with all of it. One
thing an environment does not do: veto an append. What a veto of a log-only or surface record leaves behind looks like a
throw and is covered; a vetoed `turn/end`, `step/end` or claim leaves a log that the format refuses anyway.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopspec.attempt import LIVE, aborted
from loopspec.driver import Driver
from loopspec.inbox import has_pending
from loopspec.kernel.machine import Answer, Effect, Operation
from loopspec.log.observation import Observation

ANY = 9_000_000
"""A message about which nothing matters but that it is there."""


def answers(core: Driver, point: Effect, finish: str) -> Iterator[Answer]:
    """Everything that an await point may come back with. `finish`: how a format 0 attempt finished so far."""
    name = point[0]
    if name == "pre-step":
        yield ("enter", (ANY,))
        yield ("enter", ())
        yield ("reject",)
        yield ("throws",)
    elif name == "prepare":
        for systems in (0, 1) if core.law.session_format == 4 else (0,):
            for changed in (False, True):
                yield ("prepared", changed, False, systems)
                yield ("prepared", changed, True, systems)
        yield ("throws",)
    elif name == "chunk":
        if core.law.streams_are_embedded:
            finishes: tuple[str, ...] = ("stop", "max-tokens", "failure")
        else:
            finishes = (finish or "stop",)
            yield ("chunk",)
        for one in finishes:
            for calls in (False, True):
                yield ("end", one, calls, True)
                if aborted(core):
                    yield ("end", one, calls, False)
        yield ("throws", True)
        yield ("throws", False)
    elif name == "close":
        yield ("closed", True)
        yield ("closed", False)
    elif name == "recovery":
        yield ("none",)
        yield ("retry",)
        yield ("throws",)
    elif name == "tools":
        yield ("continue",)
        yield ("concluded",)
        yield ("throws",)
    elif name in ("tick", "gap", "maintenance"):
        yield ("done",)
    else:
        yield ("done",)
        yield ("throws",)


def quiet_operations(core: Driver) -> Iterator[Operation]:
    """Calls that may leave no record, where they change something (L-CAN-1, L-MNT-1)."""
    if core.phase == "idle":
        yield ("maintain",)
        return
    bars = core.law.any_disposal_bars_latch and not core.doomed
    for cause, matters in (("user", core.signal == LIVE), ("disposed", core.signal == LIVE or bars)):
        if matters:
            yield ("cancel", cause, True)
        if core.latch and not has_pending(core):
            yield ("cancel", cause, False)


def writing_operations(core: Driver, seen: Observation) -> Iterator[tuple[Operation, bool]]:
    """Calls whose first record may be this splice; the flag says that a prompt came in without a wake."""
    _, target, start, removed, inserted, outcome, _ = seen
    items = core.next_turn if target == "next-turn" else core.next_step
    prompts = target == "next-turn"
    if not removed and len(inserted) == 1 and start == len(items):
        yield ("send", inserted[0], target, True), False
        if prompts and core.phase != "idle" and aborted(core):
            yield ("send", inserted[0], "next-step", True), False
        yield ("send", inserted[0], target, False), prompts
    elif not removed or outcome:
        # In a live run a wake would have been ignored anyway, and what takes a place in the queue was woken for.
        heard = core.phase != "running" or core.closing or aborted(core)
        yield ("splice", target, start, removed, inserted), prompts and bool(inserted) and not removed and heard
    if outcome and not inserted and start == 0 and removed == len(items):
        for cause in ("user", "disposed"):
            yield ("cancel", cause, False), False


def brought_in(operation: Operation) -> int:
    """The first message that a send or a splice brings in."""
    return int(operation[1]) if operation[0] == "send" else int(operation[4][0])
