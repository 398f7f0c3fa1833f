"""The tape policy inside its host, stated twice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from loopconform.tla.machines.shared import prose
from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import Value, camel, from_python
from loopspec.kernel.canonical import renamed
from loopspec.profile import Law
from loopspec.worlds.tape_world import Budgets, Host, TapeHost


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
            "The surface: `uid` is the name of a node (a tuple), `kind` one of `system`, `human`, `snapshot`, "
            "`context`, `assistant`, `result`, `entry`.",
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
    extra={
        "alphabet": "tiny kept odd",
        "ci": "tiny",
        "by command": "deep kept odd odd/dsh-0.1",
    },
    environment=prose("tape"),
)
