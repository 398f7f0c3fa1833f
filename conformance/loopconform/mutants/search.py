"""The long search behind the matrix: `make kills`.

For each fault, until something fails: the case that killed it last time; short cases in which it answers otherwise
than the law, those written by hand first; a diverse sample of the rest; random programs. What survives is looked up in
the complete graphs, and what is neither equal nor unobservable is a hole. A hole that `holes.yaml` does not explain has
no words; `unexplained` names those, and a test refuses them: no silent survivor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import yaml

from loopconform.cli import version
from loopconform.mutants import equal, matrix, observed
from loopconform.mutants.differences import Ear
from loopconform.mutants.matrix import Bench, Kill
from loopconform.mutants.named import HOME, everything, slug
from loopconform.mutants.patch import Fault
from loopconform.protocol.case import Case
from loopconform.protocol.parts import Profile
from loopconform.protocol.requests import Do, Release, Settle
from loopconform.runner.channel import InsideChannel
from loopconform.runner.results import Result

SHORT, SAMPLE, PROGRAMS = 25, 40, 12
"""Plays of one fault: short cases, others, random programs."""

HOLES = HOME / "holes.yaml"
LAWFUL = HOME / "lawful.yaml"
ELSEWHERE = "graph equality in tests/spec"
"""How the words of a proof begin that the tests of the machines have."""
IN_EVERY_ORDER = "every order of tasks in tests/harness"
"""The same of a place of the harness: it tells the same in whatever order its tasks run."""
UNASKED = "asked by no case, and nowhere at: "
"""What is said of a rule that the protocol does not lead to, in front of the bounds."""

Told = Callable[[str], None]


@cache
def reasons() -> Mapping[str, str]:
    """Why faults survive, by fault."""
    return dict(yaml.safe_load(HOLES.read_bytes()) or {})


@cache
def lawful() -> Mapping[str, Kill]:
    """The faults that the law lets any implementation have, with the case that shows it."""
    found = yaml.safe_load(LAWFUL.read_bytes())
    return {
        fault: Kill(fault, "lawful", row["case"], row["profile"], words=row["words"]) for fault, row in found.items()
    }


def own(case: Case) -> bool:
    """A case that somebody has written, not the grid."""
    return case.id.split("/")[0] not in ("loop", "life", "taken", "resume", "tape")


def profiles(case: Case) -> tuple[Profile, ...]:
    """The laws that a case is worth playing under: of the grid the first one."""
    return case.profiles if own(case) else case.profiles[:1]


def heard(faults: Sequence[Fault], cases: Mapping[str, Case], told: Told) -> Ear:
    """Every case with all faults asked beside it: those in which one answers otherwise, as `case@profile`."""
    ear = Ear(faults, most=400)
    if not ear.differs:
        return ear  # faults of the harness alone: none can be asked beside it
    channel = InsideChannel()
    order = sorted(cases.values(), key=lambda case: (not own(case), len(case.program)))
    try:
        for number, case in enumerate(order):
            for profile in profiles(case):
                ear.play(channel, case, profile)
            if number % 500 == 499:
                told(f"{number + 1} of {len(order)} cases heard")
    finally:
        channel.close()
    return ear


def tries(fault: Fault, differing: Mapping[str, Sequence[str]], cases: Mapping[str, Case]) -> list[tuple[Case, str]]:
    """What is worth playing with a fault in place, in order. Of the harness itself nothing is known: everything."""
    if fault.id in differing:
        known = matrix.tries_of(differing[fault.id], cases)
    else:
        known = [(case, profile) for case in cases.values() for profile in profiles(case)]
    known.sort(key=lambda one: (not own(one[0]), fault.breaks not in one[0].clauses, len(one[0].program)))
    short = known[:SHORT] if fault.id in differing else [one for one in known if own(one[0])]
    return [*short, *matrix.diverse(known[len(short) :], SAMPLE)]


def search(
    faults: Sequence[Fault], before: Mapping[str, Kill], told: Told, save: Callable[[Mapping[str, Kill]], None]
) -> dict[str, Kill]:
    """The matrix anew. `before`: what is known already; `save` is handed the matrix from time to time."""
    cases = matrix.cases_by_id()
    kills: dict[str, Kill] = {}
    bench = Bench()
    try:
        for fault in faults:
            old = before.get(fault.id)
            if old is None or old.fate != "killed" or old.case not in cases:
                continue
            result = bench.play(fault, cases[old.case], old.profile)
            if result.verdict == "FAIL":
                kills[fault.id] = matrix.killed_by(fault, result)
        told(f"{len(kills)} of {len(faults)} die by the case that killed them last time")
        open_ones = [fault for fault in faults if fault.id not in kills]
        if open_ones:
            _hunt(bench, open_ones, cases, kills, told, save)
    finally:
        bench.close()
    return {fault.id: kills[fault.id] for fault in faults}


def _hunt(
    bench: Bench,
    faults: Sequence[Fault],
    cases: dict[str, Case],
    kills: dict[str, Kill],
    told: Told,
    save: Callable[[Mapping[str, Kill]], None],
) -> None:
    ear = heard(faults, cases, told)
    differing = ear.differs
    findings = equal.findings(faults, told)
    survivors = []
    for fault in faults:
        finding = findings.get(fault.id, equal.Finding())
        kill = excused(fault, finding) if not differing.get(fault.id, True) else None
        if kill is None:
            kill, counts = bench.first_kill(fault, tries(fault, differing, cases))
            if kill is None and differing.get(fault.id, True):
                result = bench.fuzz(fault, PROGRAMS)
                kill = None if result is None else kept(bench, fault, result, cases)
            told(f"{fault.id}: {kill.fate if kill else 'survives'} {counts}")
        kill = kill or excused(fault, finding)
        if kill is None:
            survivors.append(fault)
        kills[fault.id] = kill or lawful().get(fault.id) or hole(fault)
        save(kills)
    for id, one in observed.findings(survivors, told).items():
        if one.is_unobservable:
            kills[id] = Kill(id, "unobservable", words="; ".join(one.equal))
        elif one.is_out_of_reach and not ear.asked.get(id, 1):
            kills[id] = Kill(id, "unobservable", words=f"{UNASKED}{'; '.join(one.unasked)}")
    save(kills)


def kept(bench: Bench, fault: Fault, result: Result, cases: dict[str, Case]) -> Kill | None:
    """A killing program that was found by chance, kept as a case. `None` when it does not kill again."""
    found = result.shrunk or result.case
    case = Case(
        id=f"found/{slug(fault.id)}", title=f"kills {fault.id}", area="log", clauses=(), profiles=("seed",),
        spec=version(), program=settled(found.program),
    )  # fmt: skip
    again = bench.play(fault, case, "seed")
    if again.verdict != "FAIL" or bench.play(None, case, "seed").verdict != "PASS":
        return None
    cases[case.id] = case
    write_found([case for case in cases.values() if case.id.startswith("found/")])
    return matrix.killed_by(fault, again)


def settled(program: Sequence[Any]) -> list[Any]:
    """The program with a settle behind every request that makes something run: it must not hang on timing."""
    found = []
    for request in program:
        if not isinstance(request, Settle):
            found.append(request)
        if isinstance(request, (Do, Release)):
            found.append(Settle(verb="settle"))
    return found


def write_found(cases: Sequence[Case]) -> None:
    """Write the file of cases that random programs have found."""
    texts = [case.with_hash().dumped().rstrip("\n") for case in sorted(cases, key=lambda case: case.id)]
    matrix.FOUND.write_text("[\n" + ",\n".join(texts) + "\n]\n", encoding="utf-8")


def excused(fault: Fault, finding: equal.Finding) -> Kill | None:
    """The row of a fault that changes nothing, as the complete graphs say; `None` when they say nothing of the kind."""
    if fault.breaks.startswith("equivalent"):
        how = fault.breaks.removeprefix("equivalent").strip()
        where = ELSEWHERE if fault.module.startswith("loopspec.") else IN_EVERY_ORDER
        words = f"{where}{', ' + how if how else ''}: {fault.sentence}"
        return Kill(fault.id, "equivalent", words=words)
    return Kill(fault.id, "equivalent", words="; ".join(finding.asked)) if finding.is_equal else None


def hole(fault: Fault) -> Kill:
    """The row of a fault that nothing excuses: with the reason in `holes.yaml`, or without words."""
    return Kill(fault.id, "hole", words=reasons().get(fault.id, ""))


def unexplained(kills: Mapping[str, Kill]) -> list[str]:
    """The faults that survive although nobody has said why."""
    return [id for id, kill in kills.items() if kill.fate == "hole" and not kill.words]


def known() -> dict[str, Kill]:
    """The recorded matrix; empty before the first search."""
    return matrix.load() if matrix.RECORD.exists() else {}


def written(kills: Mapping[str, Kill]) -> None:
    """Write what is known so far, in the order of the faults."""
    matrix.save(kills[fault.id] for fault in everything() if fault.id in kills)
