"""Every quick instance of the models is as pinned, and every machine equals its Python at its quick bounds."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from loopconform.commands.equal import pin_faults, python_graph, title
from loopconform.tla.documents import equalities, mapping, readme, seconds_in_ci
from loopconform.tla.dump import Moves, NotComparable
from loopconform.tla.equality import compare, moves_of
from loopconform.tla.instances import TLA, faults_of, instances, manifest
from loopconform.tla.model import graph_of, guards_of, model_of
from loopconform.tla.run import check
from loopconform.tla.runs import run_faults
from loopconform.tla.subjects import subjects
from loopconform.tla.vocabulary import FILE, document
from loopspec.profile import Profile

QUICK = [(name, *one) for name, subject in subjects().items() for one in subject.in_ci]
ENOUGH = 100_000
"""States that a deep comparison must have."""
LIMIT = 150.0
"""Seconds of TLC that instances and comparisons may take in CI; traces and toys take another 25."""


@pytest.mark.tlc
@pytest.mark.parametrize("name", [one.name for one in instances(TLA, "quick")])
def test_a_quick_instance_is_as_pinned(name: str) -> None:
    chosen = next(one for one in instances(TLA) if one.name == name)
    run = check(chosen)
    assert [*faults_of(chosen, run, manifest().get(name)), *run_faults(chosen, run)] == []


@pytest.mark.tlc
@pytest.mark.parametrize(("name", "bound", "profile"), QUICK)
def test_a_machine_equals_its_model(name: str, bound: str, profile: Profile | None) -> None:
    subject = subjects()[name]
    law = subject.law(profile)
    graph = python_graph(subject, bound, law, None)
    assert graph is not None
    theirs, _ = graph_of(subject, bound, law, model=model_of(subject))
    ours = moves_of(graph, subject)
    result = compare(ours, theirs)
    assert list(pin_faults(result, equalities()[title(subject, bound, law)])) == []
    # And it can fail: one action taken off either side is found, at a state where the other side still has it.
    names = sorted({label for moves in ours.moves for label in moves})
    for label in (names[0], names[len(names) // 2]):
        left, right = compare(lacking(ours, label), theirs).apart, compare(ours, lacking(theirs, label)).apart
        assert left is not None
        assert right is not None
        assert (left.left_only, left.right_only) == ((), (label,))
        assert (right.left_only, right.right_only) == ((label,), ())
        assert left.path == right.path


def lacking(graph: Moves, label: str) -> Moves:
    """The graph without one action."""
    fewer = [{name: targets for name, targets in moves.items() if name != label} for moves in graph.moves]
    return replace(graph, moves=fewer)


def test_every_comparison_is_pinned_and_one_to_one() -> None:
    named = {
        title(subject, one.bound, subject.law(one.profile))
        for subject in subjects().values()
        for one in (*subject.in_ci, *subject.by_command)
    }
    pins = equalities()
    assert set(pins) == named
    assert {pin["verdict"] for pin in pins.values()} == {"EQUAL"}
    assert set(manifest()) == {one.name for one in instances()}


def test_a_guard_that_there_is_not_is_refused() -> None:
    subject = subjects()["inbox"]
    with pytest.raises(NotComparable, match=r"no guard is called latches; there are .*latch"):
        graph_of(subject, subject.quick, subject.law(), changes={"Broken": frozenset({"latches"})})


def test_every_guard_is_out_of_force_in_some_instance() -> None:
    texts = [one.config.read_text() for one in instances() if one.expect == "violates"]
    assert [name for name in sorted(guards_of(TLA)) if not any(f'"{name}"' in text for text in texts)] == []


@pytest.mark.parametrize("name", list(subjects()))
def test_every_machine_is_equal_at_a_deep_bound(name: str) -> None:
    subject = subjects()[name]
    pin = equalities()[title(subject, subject.deep, subject.law())]
    assert min(pin["loopspec"], pin["tla"]) >= ENOUGH
    assert subject.by_command[0].bound == subject.deep


def test_three_minutes_of_tlc_are_enough() -> None:
    assert 0 < seconds_in_ci() < LIMIT


def test_other_counts_than_pinned_are_a_fault() -> None:
    empty = Moves((), (0,), [()], [{}])
    same = {"verdict": "EQUAL", "loopspec": 1, "tla": 1, "moves": 0, "labels": 0}
    assert list(pin_faults(compare(empty, empty), same)) == []
    (fault,) = pin_faults(compare(empty, empty), {**same, "tla": 2})
    assert "tla is 1, but tla/equality.json says 2" in fault


def test_the_documents_are_those_that_are_generated() -> None:
    assert (TLA / "MAPPING.md").read_text() == mapping()
    assert (TLA / "README.md").read_text() == readme()


@pytest.mark.skipif(os.environ.get("LOOPSPEC_LONG") != "1", reason="explores every machine; run `make explore-pins`")
def test_the_vocabulary_is_that_of_the_machines() -> None:
    assert FILE.read_text() == document()
