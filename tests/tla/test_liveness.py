"""A second engine for liveness: each claim has the same verdict from TLC and from the Python kernel.

An instance says in its head which claims of the kernel it mirrors: `\\* mirror: driver LI-30 LI-31`, or, where it must
fail, `\\* mirror: driver LI-33 with <mutant>`. What TLC says about the instance is held to its
head in `test_models.py`; here the kernel is held to the same head.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any, NamedTuple

import pytest
from tests.spec.mutants_driver import MUTANTS, applied
from tests.spec.test_creation_liveness import endless_graph
from tests.spec.test_driver_cyclic import judged

from loopconform.commands.equal import python_graph
from loopconform.tla.instances import TLA, Instance, comes_in_the_end, instances, properties_of
from loopconform.tla.subjects import subjects
from loopspec.kernel.claims import Verdict
from loopspec.kernel.liveness import Fairness, LeadsTo, check_leads_to
from loopspec.kernel.system import Label
from loopspec.properties.creation_liveness import HANGING, SETTLING, fairness
from loopspec.worlds.driver_cyclic import LIVENESS

MIRRORS = {one.name: one for one in instances() if one.mirror}
CREATION = {claim.name: claim for claim in (*SETTLING, *HANGING)}


class Bounded(NamedTuple):
    """A claim about a machine whose bound is in its state: the compared bound, and who goes on with and without fault.

    `fair` says of the name and first argument of a label whether it is owed; the names of faults are those in heads.
    """

    bound: str
    claim: LeadsTo[Any]
    fair: dict[str, Callable[[Hashable, Hashable], bool]]


def rests(node: Any) -> bool:
    """No segment of the lane runs, nothing is asked, and no body is out."""
    config = node.state.config
    return not config.stack and not config.parked and not config.core.live


POLICY = ("enter", "warned", "entry", "fold", "entered", "left")
BOUNDED = {
    "scheduler": Bounded(
        "two",
        LeadsTo("INV-S17", "Every batch ends.", lambda node: True, rests),
        {
            "": lambda verb, about: verb != "abort",
            "bodies that hang": lambda verb, about: verb != "abort" and (verb, about) != ("answer", "body"),
        },
    ),
    "retry": Bounded(
        "tiny",
        LeadsTo("RACE-18", "A recovery ends.", lambda s: s.memory.active, lambda s: not s.memory.active),
        {
            "": lambda verb, about: verb != "call",
            "listeners that hang": lambda verb, about: verb != "call" and (verb, about) != ("answer", ("downstream",)),
        },
    ),
    "tape": Bounded(
        "tiny",
        LeadsTo("TP-08", "The policy decides.", lambda s: s.phase == "sealing", lambda s: s.phase != "sealing"),
        {"": lambda verb, about: verb in POLICY, "a policy that stops": lambda verb, about: False},
    ),
}


def parts(mirror: str) -> tuple[str, tuple[str, ...], str]:
    """The machine, the claims and the fault of a mirror."""
    head, _, fault = mirror.partition(" with ")
    machine, _, claims = head.partition(" ")
    names = re.findall(r"(?:LIV?|INV|RACE|TP)-S?\d+(?: of \d+(?:, hanging)?)?", claims)
    assert " ".join(names) == claims.strip(), f"{mirror!r} does not name claims of the kernel"
    return machine, tuple(names), fault


@cache
def broken_by_the_driver(fault: str) -> frozenset[str]:
    """The claims that the driver breaks, with a fault or without."""
    if not fault:
        return frozenset(judged("seed", 2, 0))
    if fault == "nobody goes on":
        return frozenset(judged("seed", 2, 0, fairness=Fairness()))
    mutant = next(one for one in MUTANTS if one.name == fault)
    with applied(mutant):
        return frozenset(judged("seed", 2, 0))


@cache
def broken_by_creation(fault: str) -> frozenset[str]:
    """The claims that creation breaks; the fault is the one that the kernel's own control has: setups that hang."""
    assert fault in ("", "setups that hang"), fault
    results = list(check_leads_to(endless_graph(), HANGING, fairness(settles=False)))
    results += check_leads_to(endless_graph(), SETTLING, fairness(settles=not fault))
    return frozenset(one.name for one in results if one.verdict is not Verdict.PASS)


@cache
def broken_by_bounded(machine: str, fault: str) -> frozenset[str]:
    """The claim about a machine with a bounded graph, if it is broken."""
    subject, (bound, claim, fair) = subjects()[machine], BOUNDED[machine]
    graph = python_graph(subject, bound, subject.law(), None)
    assert graph is not None

    def key_of(label: Label) -> str | None:
        verb, *rest = label if isinstance(label, tuple) else (label,)
        return "owed" if fair[fault](verb, rest[0] if rest else None) else None

    (result,) = check_leads_to(graph, [claim], Fairness(key_of, weak=frozenset({"owed"})))
    return frozenset() if result.verdict is Verdict.PASS else frozenset({claim.name})


def known_to_the_kernel(machine: str) -> set[str]:
    """The claims of liveness that there are about a machine."""
    if machine in BOUNDED:
        return {BOUNDED[machine].claim.name}
    return {claim.name for claim in LIVENESS} if machine == "driver" else set(CREATION)


def broken_by(machine: str, fault: str) -> frozenset[str]:
    """The claims that a machine breaks, with a fault or without."""
    if machine in BOUNDED:
        return broken_by_bounded(machine, fault)
    return broken_by_the_driver(fault) if machine == "driver" else broken_by_creation(fault)


def disagreements(one: Instance) -> list[str]:
    """Claims on which the kernel says something else than the head of an instance."""
    machine, claims, fault = parts(one.mirror)
    known = known_to_the_kernel(machine)
    assert set(claims) <= known, f"{one.name} mirrors {sorted(set(claims) - known)}, which the kernel does not know"
    broken = broken_by(machine, fault)
    return [name for name in claims if (name in broken) != (one.expect == "violates")]


@pytest.mark.parametrize("name", sorted(MIRRORS))
def test_both_engines_agree(name: str) -> None:
    assert disagreements(MIRRORS[name]) == []


def test_every_claim_has_a_second_verdict_and_some_fail() -> None:
    passing = {name for one in MIRRORS.values() if one.expect == "pass" for name in parts(one.mirror)[1]}
    assert {claim.name for claim in LIVENESS} | {one.claim.name for one in BOUNDED.values()} <= passing
    failing = {parts(one.mirror)[0] for one in MIRRORS.values() if one.expect == "violates"}
    assert failing == {"driver", "creation", *BOUNDED}


def test_every_property_of_liveness_is_mirrored() -> None:
    """In TLA+ these are the properties whose definition says that something comes in the end."""
    for one in instances():
        stated = [name for name in properties_of(one.config.read_text()) if comes_in_the_end(TLA, name)]
        assert not stated or one.mirror, f"{one.name}: {stated}"


def test_a_wrong_head_is_noticed() -> None:
    passing = next(one for one in MIRRORS.values() if one.expect == "pass" and one.mirror.startswith("driver"))
    faulty = Instance(passing.config, "X", "quick", "violates", "P", False, "1g", "", passing.mirror)
    assert set(disagreements(faulty)) == set(parts(passing.mirror)[1])
