"""The tool scheduler, stated twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loopspec.kernel.budget import Bounded
from loopspec.profile import Law
from loopspec.properties.scheduler_explorations import BATCH, PIPELINE, WINDOWS
from loopspec.worlds.scheduler_world import Freedom, Scheduling, cost

from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import Value, camel, from_python, record

TWO = Freedom(calls=2)
ORDER = Freedom(calls=3, caps=(1, 2), prepare=("dispatch", "final-result"), body=("success",))
FREEDOMS: dict[str, tuple[Freedom, int]] = {
    "two": (TWO, 1),
    "order": (ORDER, 1),
    "batch": (BATCH, 1),
    "pipeline": (PIPELINE, 2),
    "windows": (WINDOWS, 2),
    "deep": (WINDOWS._replace(prepare=("dispatch", "post-result", "final-result"), late_entry=True), 2),
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


ENVIRONMENT = """
A run is one batch. There are two first states: with a live signal, and with a signal that was aborted before.
Constants say what the environment may do: `Calls`; `Caps` (sizes of the pool); `Prepare` and `Body` (kinds of
answers); `Finalise` (a sequence of whole answers); `LateEntry` (wrappers may wait before they reach the body;
otherwise they reach it at once or never); `SkipsBody` (a wrapper may answer without ever reaching the body).

The environment remembers three things: `reached` (sorted sequence of the dispatches in flight whose wrappers have
reached the body, let in or not), `barred` (those that were not let in), `lost` (the dispatch due now will not begin).

While a segment runs: in an open window, unless the signal is aborted, `<<"abort">>` (for which nothing else happens
in that move). In the window behind `notify "tools/execute" call`, in the place of the next step:

* if the dispatch of `call` has not begun: it begins, `<<"park", "body", call>>`; or `<<"lose", call>>` sets `lost`, after
  which the next step of the machine follows (a failure of the machinery);
* if it has begun and `call` is not in `reached`: `<<"enter", call, allowed>>`; and if `LateEntry` or `SkipsBody`, also
  the next step of the machine;
* else the next step of the machine.

Else the next step of the machine; where that is an append, also its refusal `<<"refuse", …record…>>`.

While nothing runs: `<<"abort">>` if some routine waits and the signal is live. If a *question* is parked (`classify`,
`cap`, `contexts`), only questions are answered; else every parked await point may be. For a parked
`<<"body", call>>` with `call` not in `reached`, and `LateEntry`: also `<<"enter", call, allowed>>`. A label of an answer
holds the first two members of the await point and then the answer, flat: `<<"answer", "classify", 1, "parallel">>`,
`<<"answer", "cap", "cap", 2>>` (an await point with one member gives one), `<<"answer", "body", 1, "success">>`.

| await point | answers |
|---|---|
| `<<"classify", call>>` | `parallel`, `exclusive`, `throws` |
| `<<"cap">>` | `cap size` for each of `Caps`, `throws` |
| `<<"contexts", call>>` | `done`, `throws` |
| `<<"prepare", call, "policy">>` | each of `Prepare`, `throws` |
| `<<"prepare", call, "arguments">>` | `dispatch`, `final-result`, `throws` |
| `<<"body", call>>`, call in `barred` | `barred`; if `SkipsBody` each of `Body`; `rejects` |
| `<<"body", call>>`, call not in `reached`, no `SkipsBody` | `rejects` |
| `<<"body", call>>` else | each of `Body`, `rejects` |
| `<<"finalise", call, "success">>` | each of `Finalise`, `throws` |
| `<<"finalise", call, outcome>>` else | those of `Finalise` that are `block`, or `accept` with a first argument `FALSE`; `throws` |

The answer to a body takes its call out of `reached` and `barred`. `accept concludes hasContexts`, `block hasContexts`.

Budgets (`left`): `abort` for the label `<<"abort">>`; `failure` for every label that begins with `refuse` or `lose` or
ends with `throws` or `rejects` (also the label of the machine's own last effect `<<"leave", "throws", …>>`-like labels
only if their last member is one of the two words). What cannot be paid for is not offered.
"""

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
    extra={"alphabet": "two order pipeline windows"},
    environment=ENVIRONMENT,
    notes="""
A batch ends with the effect `continue`, `concluded` or `throws failure`. Outcomes of a result in the log: `success`,
`failure`, `aborted`, `aborted-before-dispatch`; `never-started` is the second half of a synthetic pair;
`outcome-unknown` and `not-started` complete a failed batch where the law wants that. The bookkeeping of the current
group (mode, its last call, the size of the pool) and whether the lane works, waits or drains is control, and free.
""",
)
