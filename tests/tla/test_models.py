"""Every quick instance of the models is as pinned, and every machine equals its Python at its quick bounds."""

from __future__ import annotations

import pytest

from loopconform.commands.equal import counts, python_graph
from loopconform.tla.documents import equalities, mapping, readme
from loopconform.tla.equality import compare, moves_of
from loopconform.tla.instances import TLA, faults_of, instances, manifest
from loopconform.tla.model import graph_of, model_of
from loopconform.tla.run import check
from loopconform.tla.runs import run_faults
from loopconform.tla.subjects import subjects
from loopconform.tla.vocabulary import FILE, document

QUICK = [
    (name, bound) for name, one in subjects().items() for bound in one.in_ci if (TLA / f"{one.module}.tla").is_file()
]


@pytest.mark.tlc
@pytest.mark.parametrize("name", [one.name for one in instances(TLA, "quick")])
def test_a_quick_instance_is_as_pinned(name: str) -> None:
    chosen = next(one for one in instances(TLA) if one.name == name)
    run = check(chosen)
    assert [*faults_of(chosen, run, manifest().get(name)), *run_faults(chosen, run)] == []


@pytest.mark.tlc
@pytest.mark.parametrize(("name", "bound"), QUICK)
def test_a_machine_equals_its_model(name: str, bound: str) -> None:
    subject = subjects()[name]
    law = subject.law()
    graph = python_graph(subject, bound, law, None)
    assert graph is not None
    theirs, _ = graph_of(subject, bound, law, model=model_of(subject))
    result = compare(moves_of(graph, subject), theirs)
    assert result.apart is None
    pins = equalities()[f"{name} {bound} under {law!r}"]
    assert counts(result) == {key: value for key, value in pins.items() if key != "seconds"}


def test_every_pinned_comparison_is_equal() -> None:
    pins = equalities()
    assert all(pin["verdict"] in ("EQUAL", "EQUAL UP TO BISIMULATION") for pin in pins.values())
    assert set(manifest()) == {one.name for one in instances()}


def test_the_documents_are_those_that_are_generated() -> None:
    assert (TLA / "MAPPING.md").read_text() == mapping()
    assert (TLA / "README.md").read_text() == readme()


def test_the_vocabulary_is_that_of_the_machines() -> None:
    assert FILE.read_text() == document()
