"""A second engine for liveness: each claim has the same verdict from TLC and from the Python kernel.

An instance says in its head which claims of the kernel it mirrors: `\\* mirror: driver LI-30 LI-31`, or, where it must
fail, `\\* mirror: driver LI-33 with <mutant>`. What TLC says about the instance is held to its
head in `test_models.py`; here the kernel is held to the same head.
"""

from __future__ import annotations

import re
from functools import cache

import pytest
from tests.spec.mutants_driver import MUTANTS, applied
from tests.spec.test_creation_liveness import endless_graph
from tests.spec.test_driver_cyclic import judged

from loopconform.tla.instances import Instance, instances
from loopspec.kernel.claims import Verdict
from loopspec.kernel.liveness import check_leads_to
from loopspec.properties.creation_liveness import HANGING, SETTLING, fairness
from loopspec.worlds.driver_cyclic import LIVENESS

MIRRORS = {one.name: one for one in instances() if one.mirror}
CREATION = {claim.name: claim for claim in (*SETTLING, *HANGING)}


def parts(mirror: str) -> tuple[str, tuple[str, ...], str]:
    """The machine, the claims and the fault of a mirror."""
    head, _, fault = mirror.partition(" with ")
    machine, _, claims = head.partition(" ")
    names = re.findall(r"LIV?-\d+(?: of \d+(?:, hanging)?)?", claims)
    assert " ".join(names) == claims.strip(), f"{mirror!r} does not name claims of the kernel"
    return machine, tuple(names), fault


@cache
def broken_by_the_driver(fault: str) -> frozenset[str]:
    """The claims that the driver breaks, with a fault or without."""
    if not fault:
        return frozenset(judged("seed", 2, 0))
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


def disagreements(one: Instance) -> list[str]:
    """Claims on which the kernel says something else than the head of an instance."""
    machine, claims, fault = parts(one.mirror)
    known = {claim.name for claim in LIVENESS} if machine == "driver" else set(CREATION)
    assert set(claims) <= known, f"{one.name} mirrors {sorted(set(claims) - known)}, which the kernel does not know"
    broken = broken_by_the_driver(fault) if machine == "driver" else broken_by_creation(fault)
    return [name for name in claims if (name in broken) != (one.expect == "violates")]


@pytest.mark.parametrize("name", sorted(MIRRORS))
def test_both_engines_agree(name: str) -> None:
    assert disagreements(MIRRORS[name]) == []


def test_every_claim_of_the_driver_has_a_second_verdict_and_some_fail() -> None:
    if not MIRRORS:
        pytest.skip("no instance mirrors a claim")
    passing = {name for one in MIRRORS.values() if one.expect == "pass" for name in parts(one.mirror)[1]}
    assert {claim.name for claim in LIVENESS} <= passing
    assert any(one.expect == "violates" for one in MIRRORS.values())


def test_a_wrong_head_is_noticed() -> None:
    if not MIRRORS:
        pytest.skip("no instance mirrors a claim")
    passing = next(one for one in MIRRORS.values() if one.expect == "pass" and one.mirror.startswith("driver"))
    faulty = Instance(passing.config, "X", "quick", "violates", "P", False, "1g", "", passing.mirror)
    assert set(disagreements(faulty)) == set(parts(passing.mirror)[1])
