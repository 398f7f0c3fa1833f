"""The driver with its tool batches, stated twice: the two machines as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopconform.tla.machines.driver import SUBJECT as DRIVER
from loopconform.tla.machines.scheduler import SUBJECT as SCHEDULER
from loopconform.tla.machines.shared import constants_of, prose
from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import Value, from_python
from loopspec.profile import Law
from loopspec.worlds import loop_world
from loopspec.worlds.driver_world import bound
from loopspec.worlds.loop_world import TOOLS, LoopWorld

SMALL = bound("small", depth=0, messages=1, cancel_user=1, turns=1, calls=1)
WINDOWS = loop_world.QUICK._replace(name="windows")
SILENT = loop_world.FAULTS._replace(name="silent", depth=0)
NESTED = bound("nested", depth=2, messages=2, cancel_user=1, turns=1, calls=1)
BOUNDS = {one.name: one for one in (SMALL, WINDOWS, SILENT, NESTED, loop_world.FAULTS, loop_world.STEER)}

BATCH_ALONE = ("aborted", "left")
"""What the batch has of the driver when they are one: the signal, and the budgets."""

SETS = ("live", "entered")


def _system(law: Law, name: str) -> Any:
    return LoopWorld(law, BOUNDS[name])


def _constants(name: str) -> Mapping[str, Any]:
    return {
        **constants_of(BOUNDS[name]),
        "BatchCalls": TOOLS.calls,
        "BatchSizes": frozenset(range(1, TOOLS.calls + 1)),
        "Caps": frozenset(TOOLS.caps),
        "Prepare": frozenset(TOOLS.prepare),
        "Body": frozenset(TOOLS.body),
        "Finalise": from_python(TOOLS.finalise),
        "Failures": 0,
        "OneBudget": True,
        "Watched": False,
    }


NOTHING: Mapping[str, Value] = {
    "cut": False,
    "failure": (),
    "next": 1,
    "done": 0,
    "live": frozenset(),
    "entered": frozenset(),
    "slots": (),
    "concluded": False,
    "reached": (),
    "barred": (),
    "lost": False,
}
"""What the fields of a batch are while none runs."""


def _of_batch(name: str, scene: bool) -> Callable[[Any], Value]:
    def read(node: Any) -> Value:
        around = node.config
        if around.loop.batch is None:
            return NOTHING[name]
        found = getattr(around.scene if scene else around.loop.batch.core, name)
        return frozenset(found) if name in SETS else from_python(found)

    return read


def _batch_fields() -> tuple[Field, ...]:
    """Those of the scheduler, under the names that the loop gives them."""
    return tuple(
        Field(
            f"batch.{one.spec}",
            "s" + one.variable[:1].upper() + one.variable[1:],
            one.domain,
            one.meaning,
            one.log,
            one.rules,
            _of_batch(one.variable, one.spec.startswith("Scene.")),
        )
        for one in SCHEDULER.fields
        if one.variable not in BATCH_ALONE
    )


SUBJECT = Subject(
    name="loop",
    module="LoopBatch",
    sentence="The driver and, while a step runs its tools, the scheduler beside it: one signal, one log, one answer.",
    system=_system,
    bounds={name: _constants(name) for name in BOUNDS},
    quick="small",
    deep="nested",
    session_format=4,
    specification="BatchSpec",
    fields=(
        *DRIVER.fields,
        Field(
            "Loop.batch",
            "on",
            "boolean",
            "A batch runs: it has begun, and has not answered the driver.",
            "`tool/call`, `tool/result`",
            ("L-TOOL-1", "L-TOOL-12", "L-TOOL-21"),
            lambda node: node.config.loop.batch is not None,
        ),
        *_batch_fields(),
    ),
    switches=(*DRIVER.switches, *SCHEDULER.switches),
    extra={
        "alphabet": "small",
        "ci": "silent",
        "by command": "nested windows small small/dsh-0.1",
    },
    environment=prose("loop"),
)
