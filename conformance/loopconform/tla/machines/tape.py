"""The tape policy inside its host, stated twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from loopspec.kernel.canonical import renamed
from loopspec.profile import Law
from loopspec.worlds.tape_world import Budgets, Host, TapeHost

from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import Value, camel, from_python


class Setting(NamedTuple):
    """One bound: the budgets of the host and the settings of the policy."""

    budgets: Budgets
    keep: int = 0
    cap: int | None = None
    calls: int = 2
    any_range: bool = False
    late: bool = False


SETTINGS: dict[str, Setting] = {
    "tiny": Setting(Budgets(turns=2, snapshots=1, steering=1, compactions=0, resumes=1)),
    "kept": Setting(Budgets(turns=3, snapshots=1, steering=0, compactions=0, resumes=0, cancels=1), keep=1, cap=1),
    "odd": Setting(Budgets(turns=3, snapshots=0, steering=0, compactions=1, resumes=0, losses=1, reuses=1, long=1)),
    "deep": Setting(Budgets(turns=3, snapshots=1, steering=1, compactions=1, resumes=1, cancels=1)),
}


def bare(s: Host) -> Host:
    """The host without what only claims ask about: what the last request showed."""
    return s.put(shown=(), shown_turn=0, foreign=False, before=(), cut=0)


def _system(law: Law, name: str) -> Any:
    setting = SETTINGS[name]
    host = TapeHost(
        setting.budgets,
        setting.keep,
        setting.cap,
        setting.calls,
        by_multiset=law.tape_pairs_by_multiset,
        any_range=setting.any_range,
        late=setting.late,
        forgets=False,
    )
    return renamed(host, bare)


def _constants(setting: Setting) -> Mapping[str, Any]:
    budgets = {name[:1].upper() + name[1:]: amount for name, amount in setting.budgets._asdict().items()}
    return {
        **budgets,
        "Keep": setting.keep,
        "Cap": -1 if setting.cap is None else setting.cap,
        "CallCount": setting.calls,
        "AnyRange": setting.any_range,
        "Late": setting.late,
    }


def _tape(
    name: str, domain: str, meaning: str, log: str, *rules: str, read: Callable[[Any], Value] = from_python
) -> Field:
    return Field(f"core.{name}", camel(name), domain, meaning, log, rules, lambda s: read(getattr(s.config.core, name)))


def _host(name: str, domain: str, meaning: str) -> Field:
    return Field(f"Host.{name}", camel(name), domain, meaning, "", (), lambda s: from_python(getattr(s, name)))


ENVIRONMENT = """
The host around the policy. Constants: one number per budget (`Turns`, `Snapshots`, `Steering`, `Compactions`,
`Resumes`, `Cancels`, `Losses`, `Reuses`, `Long`), `Keep` (newest turns that stay raw), `Cap` (the step cap, -1: none),
`CallCount` (tool calls in the first step of each turn), `AnyRange` (compactions take any stretch), `Late` (the policy is
mounted between two turns only). The surface begins with one cell `<<"system">>` of kind `"system"`, owner 0, not late.
`late` is true for what was written since the last `turn/end` (new cells join with `late` true).

| phase | move | what happens |
|---|---|---|
| idle | `mount` (if not mounted) | mounted |
| idle | `turn` (one of `turns`) | turn + 1, step 1, the signal is live; pending is the cell `<<"human", turn>>` (kind `human`, owner turn); then the pre-step |
| idle | `turn with snapshot` (also one of `snapshots`) | the same, with `<<"snapshot", 2*turn>>` (kind `snapshot`, owner turn) behind it; `turn` is the new number |
| idle | `snapshot` (one of `snapshots`), unless a cell of that name is there | appends `<<"snapshot", 2*turn + 1>>`, owner turn |
| deciding | `enter` | the decision `enter` has come back: the policy goes on (phase sealing) |
| deciding | `cancel in pre-step` (one of `cancels`, signal live) | the signal is aborted; still deciding |
| sealing | one effect of the policy: `warned raw`, `entry …name of the first node…`, `fold uid` | the effect |
| sealing | `entered` | the policy has entered the step: phase entered |
| sealing | `left verb value…` | the policy left otherwise (`<<"left", "raise", "aborted">>`, `<<"left", "return", "reject">>`): the turn ends |
| entered | `request` | the pending cells join; then every result on the surface is `seen`; phase streaming |
| entered | `cancel before request` (one of `cancels`) | the turn ends; the pending cells are lost |
| streaming, step 1 | `calls CallCount` | appends `<<"calls", turn>>` (kind assistant, owner turn, calls `<<"c0", "c1", …>>`); these are open |
| streaming, step 1 | `calls "one id"` (one of `reuses`, CallCount > 1) | the same with the calls `<<"c0", "c0">>` |
| streaming, step > 1 | `reply` | appends `<<"reply", turn>>` (assistant, owner turn); the turn ends |
| tools | `result` | appends `<<"result", turn, k>>` (kind result, owner turn, answers `<<first open call>>`), `k` the number of late results of this turn so far; the call is closed; when none is open, phase answered |
| tools | `long result` (one of `long`) | the same, the cell is `long` |
| tools | `notice` (one of `steering`) | appends `<<"notice">>` (kind context, owner turn) |
| tools | `results lost` (one of `losses`) | the turn ends |
| answered | `next step` | step 2, nothing pending, pre-step |
| answered | `steered step` (one of `steering`) | the same with `<<"steer">>` (human, owner turn) pending |
| idle, answered | `compact first last` (one of `compactions`) | positions count from 0; the cells from `first` to `last` are replaced by `<<"summary">>` (kind context, owner turn, late). Edges are position of the end and every position from 1 whose cell is named `<<"human", …>>` (with `AnyRange`: every position from 1); any two edges `first < after` with `last = after - 1` |
| any | `crash and resume` (one of `resumes`) | the signal is live, no warnings are remembered; if not idle the turn ends |

Pre-step: without the policy mounted, phase entered at once. Else phase deciding; what the policy does when the decision
is back is the law (TP-08 and on), where `renewed` is true when a pending cell is a snapshot. Its effects come one by
one; an append is never refused here. *The turn ends*: no cell is late, a cell stays `long` only if it is not `seen`,
`largestEnded` becomes at least `turn`, the signal is live, phase idle, step 0, nothing pending, no open calls. Nothing
is ever forgotten. Labels that are one word are `<<"turn">>`.

Entries are cells of kind `entry` named `<<"entry">>` followed by the name of the first cell that they replaced, late,
with owner 0 and nothing else. A folded result is named like the result with `"folded"` in the place of `"result"`, keeps
the rest, is not `long`, and late. A warning is kept as `<<name of the first cell of the portion, sorted ids>>`.
"""

SUBJECT = Subject(
    name="tape",
    module="Tape",
    sentence="The tape policy at a pre-step (what is sealed, in which order) inside a host with crashes and resumes.",
    system=_system,
    bounds={name: _constants(one) for name, one in SETTINGS.items()},
    quick="tiny",
    deep="deep",
    session_format=4,
    fields=(
        _tape(
            "cells",
            "sequence of records `[uid, kind, owner, late, calls, answers, seen, long]`",
            "The surface: `uid` is the name of a node (a tuple), `kind` one of `system`, `human`, `snapshot`, `context`, "
            "`assistant`, `result`, `entry`.",
            "surface nodes",
            "TP-11",
            "TP-30",
        ),
        _tape("largest_ended", "number", "`L`: the largest turn that has ended.", "`turn/end`", "TP-12"),
        _tape("aborted", "boolean", "The signal of the turn is aborted.", "", "TP-08"),
        _tape(
            "warned",
            "set of `<<uid, sorted ids>>`",
            "Warnings of this session instance.",
            "",
            "TP-24",
            "TP-25",
            read=lambda warned: frozenset(from_python(one) for one in warned),
        ),
        _host(
            "phase",
            '`"idle"`, `"deciding"`, `"sealing"`, `"entered"`, `"streaming"`, `"tools"`, `"answered"`',
            "What the host is doing.",
        ),
        _host("turn", "number", "The turn."),
        _host("step", "number", "The step; 0 when idle."),
        _host("pending", "sequence of cells", "What joins when the step is entered."),
        _host("open_calls", "sequence of call ids", "Calls without a result."),
        _host("mounted", "boolean", "The policy is there."),
        Field(
            "Host.left",
            "left",
            "record of numbers: " + ", ".join(Budgets._fields),
            "What is left of each budget.",
            "",
            (),
            lambda s: from_python(s.left),
        ),
    ),
    switches=("tape_pairs_by_multiset",),
    extra={"alphabet": "tiny kept odd"},
    environment=ENVIRONMENT,
)
