"""The tool batch of a step, as far as a log can show it: the scheduler's moves, without what no row tells apart.

Sets of explanations have to stay small however many calls an answer makes, so four things are not guessed at:

* **What a result was before somebody changed it.** A `success` stands for any result of a body, since post-execute may
  still make it a failure, and an abort replaces it. Nor is it guessed that a call was refused before its body ran:
  a body that settles at once, in a group that is then closed by an exclusive call, writes the same rows.
* **When a body settled that nobody waits for.** Bodies settle in model order, and a body settles only when its result
  is the next to be committed. Another order, or an earlier moment, writes no other records: what an abort does to a
  result it does at the last look as well (L-TOOL-18).
* **Which part of the machinery failed.** A failed batch ends in the same way whatever it was (L-TOOL-21).
* **The size of the pool.** A smaller one has no behaviour that an unlimited one has not.

Every result may have contexts, of which none need come.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopspec import scheduler
from loopspec.kernel.machine import Answer, Config, Effect
from loopspec.scheduler import Batch

MACHINE = scheduler.MACHINE
PLENTY = 1 << 30
"""A pool without a limit."""
FAILED: Effect = ("failed",)
"""Stands for whatever failed first."""

Calls = int | Config[Batch]
"""The calls that are still to begin (0: none), or the batch that runs."""

Move = tuple[str, Effect, Config[Batch]]
"""`append` with its record, `leave` with the end of the batch, or `go`; and the batch after it."""


def answers(point: Effect) -> Iterator[Answer]:
    """Everything that an await point of a batch may come back with, as far as rows tell it apart."""
    name = point[0]
    if name == "classify":
        yield from (("parallel",), ("exclusive",), ("throws",))
    elif name == "cap":
        yield from (("cap", PLENTY), ("throws",))
    elif name == "prepare":
        yield from ((("dispatch",) if point[2] == "policy" else ("final-result",)), ("throws",))
    elif name == "body":
        yield from (("success",), ("rejects",))
    elif name == "finalise":
        yield from (("accept", False, True), ("accept", True, True), ("block", True), ("throws",))
    else:
        yield from (("done",), ("throws",))


def body_may_settle(batch: Config[Batch]) -> bool:
    """The next body has to settle now, or a row would come that cannot wait for it: nothing settled is left over.

    A batch that has failed settles nothing more before it drains.
    """
    core = batch.core
    if core.failure:
        return False
    ready = 0
    for slot in core.slots:
        if slot.call != core.done + 1 + ready:
            break
        ready += 1
    return ready == 0 or (ready == 1 and any(where[0] == "finalise" for where, _ in batch.parked))


def moves(batch: Config[Batch]) -> Iterator[Move]:
    """Everything that a running batch can do next."""
    for verb, effect, after in _moves(batch):
        yield verb, effect, _folded(after) if after.core.failure else after


def _folded(failed: Config[Batch]) -> Config[Batch]:
    """A batch that has failed, without what is dead: what failed, and results that will not be committed any more."""
    core = failed.core.put(failure=FAILED)
    return failed._replace(core=core.put(slots=(), entered=()) if core.lane == "draining" else core)


def _moves(batch: Config[Batch]) -> Iterator[Move]:
    if batch.stack:
        top = batch.stack[-1]
        if top.window == "live" and top.frame[0] == "started" and top.frame[1] not in batch.core.live:
            yield "go", (), _dispatched(batch, top.frame[1])
        verb, effect, after = MACHINE.step(batch)
        over = verb == "leave" and scheduler.is_over(effect)
        yield ("append" if verb == "append" else "leave" if over else "go"), effect, after
        return
    if batch.core.lane == "draining":
        yield "go", (), _drained(batch)
        return
    bodies = [at for at, (where, _) in enumerate(batch.parked) if where[0] == "body"]
    lane = [at for at in range(len(batch.parked)) if at not in bodies]
    asked = any(scheduler.is_question(batch.parked[at][0]) for at in lane)
    settling = [] if asked or not body_may_settle(batch) else bodies[:1]
    for at in lane + settling:
        for answer in answers(batch.parked[at][0]):
            yield "go", (), MACHINE.resume(batch, answer, at)


def _drained(batch: Config[Batch]) -> Config[Batch]:
    """Every body has settled, one right behind the other: what happens between two can happen before them as well."""
    while batch.core.lane == "draining" and batch.parked:
        batch = MACHINE.resume(batch, ("success",), 0)
        while batch.stack and batch.core.live:
            batch = MACHINE.step(batch).config
    return batch


def _dispatched(batch: Config[Batch], call: int) -> Config[Batch]:
    """The dispatch begins, and its body is entered when the signal still allows it."""
    begun = MACHINE.step(MACHINE.call(batch, ("execute", call))).config
    return MACHINE.step(MACHINE.call(begun, ("enter", call))).config


def told_abort(batch: Config[Batch]) -> Config[Batch]:
    """The batch, told at once that the signal of its turn was aborted."""
    return MACHINE.step(MACHINE.call(batch, ("abort",))).config


def is_publishing(batch: Calls) -> bool:
    """A record of the batch is being published: its observers run."""
    return isinstance(batch, Config) and bool(batch.stack) and batch.stack[-1].window == "log"


def leaves_room(batch: Calls) -> bool:
    """While a batch runs the driver may be called where its listeners run, or between its segments.

    From observers of its records only where operations wait (`observer_operations_wait`): elsewhere all that they
    could do is abort, which is the same as aborting right before.
    """
    return not isinstance(batch, Config) or not batch.stack or batch.stack[-1].window == "live"
