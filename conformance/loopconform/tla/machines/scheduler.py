"""The tool scheduler, stated twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopconform.tla.machines.shared import prose
from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import Value, camel, from_python, record
from loopspec.kernel.budget import Bounded
from loopspec.profile import Law
from loopspec.properties.scheduler_explorations import BATCH, PIPELINE, WINDOWS
from loopspec.worlds.scheduler_world import Freedom, Scheduling, cost

TWO = Freedom(calls=2, caps=(1, 2))
ORDER = Freedom(calls=3, caps=(1, 2), prepare=("dispatch", "final-result"), body=("success",))
FREEDOMS: dict[str, tuple[Freedom, int]] = {
    "two": (TWO, 1),
    "order": (ORDER, 1),
    "batch": (BATCH, 1),
    "pipeline": (PIPELINE, 2),
    "windows": (WINDOWS, 2),
    "late": (WINDOWS._replace(prepare=("dispatch", "post-result", "final-result"), late_entry=True), 2),
    "deep": (
        WINDOWS._replace(caps=(1, 2, 3), prepare=("dispatch", "post-result", "final-result"), late_entry=True),
        2,
    ),
}


def _system(law: Law, name: str) -> Any:
    freedom, failures = FREEDOMS[name]
    return Bounded(Scheduling(law, freedom), {"abort": 1, "failure": failures}, cost)


def _constants(freedom: Freedom, failures: int) -> Mapping[str, Any]:
    return {
        "Calls": freedom.calls,
        "Caps": frozenset(freedom.caps),
        "Prepare": frozenset(freedom.prepare),
        "Body": frozenset(freedom.body),
        "Finalise": from_python(freedom.finalise),
        "LateEntry": freedom.late_entry,
        "SkipsBody": freedom.skips_body,
        "Aborts": 1,
        "Failures": failures,
    }


def _core(
    name: str, domain: str, meaning: str, log: str, *rules: str, read: Callable[[Any], Value] = from_python
) -> Field:
    return Field(
        f"core.{name}",
        camel(name),
        domain,
        meaning,
        log,
        rules,
        lambda node: read(getattr(node.state.config.core, name)),
    )


def _scene(name: str, domain: str, meaning: str) -> Field:
    return Field(f"Scene.{name}", name, domain, meaning, "", (), lambda node: from_python(getattr(node.state, name)))


SUBJECT = Subject(
    name="scheduler",
    module="Scheduler",
    sentence="One batch of tool calls: barriers, the rolling pool, model-ordered commit, abort, failure.",
    system=_system,
    bounds={name: _constants(*one) for name, one in FREEDOMS.items()},
    quick="two",
    deep="deep",
    session_format=4,
    fields=(
        _core("aborted", "boolean", "The signal of the turn is aborted.", "", "L-TOOL-14"),
        _core("cut", "boolean", "The lane has seen the abort: nothing starts any more.", "", "L-TOOL-14"),
        _core(
            "failure",
            "`<<what, call>>`, or `<<>>`",
            "What failed first in the machinery; empty while nothing did.",
            "",
            "L-TOOL-22",
        ),
        _core(
            "next",
            "number",
            "The first call without a `tool/call` of its own.",
            "`tool/call`",
            "L-TOOL-2",
        ),
        _core(
            "done",
            "number",
            "The commit cursor: the calls up to here have their result.",
            "`tool/result`",
            "L-TOOL-6",
        ),
        _core(
            "live",
            "set of calls",
            "The dispatches in flight.",
            "",
            "L-TOOL-4",
            read=lambda calls: frozenset(calls),
        ),
        _core(
            "entered",
            "set of calls",
            "Those whose body was invoked, until their result is committed.",
            "",
            "T-304",
            read=lambda calls: frozenset(calls),
        ),
        _core(
            "slots",
            "sequence of records `[call, post, outcome]`, in model order",
            "Settled and not yet committed; `post` tells whether post-execute is due.",
            "",
            "L-TOOL-6",
            "T-202",
        ),
        _core(
            "concluded",
            "boolean",
            "A committed success of this batch concludes the turn.",
            "",
            "L-TOOL-12",
            "T-312",
        ),
        _scene("reached", "sorted sequence of calls", "Dispatches in flight whose wrappers have reached the body."),
        _scene("barred", "sorted sequence of calls", "Those of them that were not let in."),
        _scene("lost", "boolean", "The dispatch that is due now will not begin."),
        Field(
            "Watched.left",
            "left",
            "record of numbers: abort, failure",
            "What the environment has left of each budget.",
            "",
            (),
            lambda node: record(abort=node.left[0], failure=node.left[1]),
        ),
    ),
    switches=("stopped_pool_stays_stopped", "failed_batch_is_completed"),
    extra={
        "alphabet": "two order pipeline windows",
        "ci": "two",
        "by command": "deep order batch two/dsh-0.1",
    },
    environment=prose("scheduler"),
)
