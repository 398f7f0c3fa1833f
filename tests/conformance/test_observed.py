"""What the protocol cannot show is told from what it can: graphs as far as they are seen."""

from __future__ import annotations

import pytest

from loopconform.mutants import observed
from loopconform.mutants.named import everything
from loopconform.mutants.observed import difference, findings, graph
from loopconform.mutants.patch import Switch
from loopconform.mutants.surroundings import Bound, bounds
from loopconform.runner.repeat import trace_of
from loopconform.runner.results import Message

FAULTS = {fault.id: fault for fault in everything()}


def bound(name: str) -> Bound:
    return next(one for one in bounds() if one.name.startswith(name))


@pytest.mark.parametrize(
    ("fault", "name", "is_told"),
    [
        ("driver/no-tick", "driver one, seed", False),
        ("driver/no-tick", "driver one, dsh-0.1,", True),
        ("inbox/edit-in-place-refused", "driver one, seed", False),
        ("driver/stops-too-early", "driver one, seed", True),
        ("creation/announces-again", "creation one", False),
        ("creation/never-cancels", "creation one", True),
    ],
)
def test_a_fault_is_told_where_somebody_can_see_it(fault: str, name: str, is_told: bool) -> None:
    sound, switch = graph(bound(name)), Switch()
    switch.to(FAULTS[fault])
    try:
        path = difference(sound, graph(bound(name)))
    finally:
        switch.to(None)
    assert (path is not None) is is_told, path


def test_nothing_is_claimed_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed, "LIMIT", 50)
    with pytest.raises(observed.TooLargeError):
        graph(bound("driver one, seed"))


def test_faults_of_the_harness_have_no_graph() -> None:
    assert findings([FAULTS["loops/ghosts"]]) == {}


def test_traces_are_compared_without_what_says_nothing() -> None:
    def said(**body: object) -> Message:
        return Message("adapter", body)

    gate, other = (
        said(type="gate", gate="tool", agent="a", key="c1"),
        said(type="gate", gate="tool", agent="a", key="c2"),
    )
    one = said(type="live", agent="a", name="n", data={"id": "0" * 36})
    same = said(type="live", agent="a", name="n", data={"id": "1" * 36})
    late = said(type="live", agent="a", name="m", data={})
    end = said(type="settled", id=3, parked=[], agents={})
    assert trace_of([gate, other, one, late, end]) == trace_of([same, other, gate, late, end])
    assert trace_of([one, late, end]) != trace_of([late, one, end])
    assert trace_of([gate, end]) != trace_of([other, end])
    assert trace_of([one, end, late, end]) != trace_of([one, late, end, end])
