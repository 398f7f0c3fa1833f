"""What acceptance leaves out of a tool batch (`loopspec.log.batches`) is what no row tells apart.

The moves that are followed are held against all moves of the scheduler: whatever rows come, either both explain them or
neither does. Every sequence of rows from the answer to the end of its step is tried, up to a bound on other rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from loopspec import scheduler
from loopspec.kernel.machine import Answer, Config, Effect
from loopspec.log import batches
from loopspec.log.automaton import Automaton
from loopspec.log.observation import FRESH, Observation
from loopspec.log.oracle import Oracle
from loopspec.profile import Profile, law
from loopspec.scheduler import Batch

OUTCOMES = ("success", "failure", "aborted", "aborted-before-dispatch", "unknown")


def eager_answers(point: Effect) -> Iterator[Answer]:
    """Every answer, also those that another one stands for."""
    yield from batches_answers(point)
    if point[0] == "prepare":
        yield ("post-result",) if point[2] == "policy" else ("dispatch",)
        yield ("final-result",)
    elif point[0] == "body":
        yield ("final-result",)


batches_answers = batches.answers


def eager_moves(batch: Config[Batch]) -> Iterator[batches.Move]:
    """Every move, with any body free to settle whenever the lane allows it."""
    machine = batches.MACHINE
    if batch.stack:
        yield from batches._moves(batch)
        return
    asked = any(scheduler.is_question(where) for where, _ in batch.parked)
    for at, (where, _) in enumerate(batch.parked):
        if where[0] == "body" and asked:
            continue
        barred = where[0] == "body" and where[1] not in batch.core.entered
        for answer in (*eager_answers(where), *([("barred",)] if barred else [])):
            yield "go", (), machine.resume(batch, answer, at)


def answered(calls: int, version: int) -> list[Observation]:
    """The rows up to an answer with so many calls."""
    chunk: list[Observation] = [] if version else [("assistant/chunk", "")]
    return [
        ("splice", "next-turn", 0, 0, (FRESH,), "", ""),
        ("turn/start", ""),
        ("splice", "next-turn", 0, 1, (), "", ""),
        ("step/start", ""),
        *([("system/message", "")] if version else []),
        ("user/message", ""),
        ("request/header", False, ""),
        *chunk,
        ("assistant/message", "calls", calls, "" if version else "stop"),
    ]


def rows(calls: int) -> list[Observation]:
    """The rows that a batch may bring forth, or that may come in between."""
    each = [("tool/call", call, "", "") for call in range(1, calls + 1)]
    results = [("tool/result", call, outcome, "") for call in range(1, calls + 1) for outcome in OUTCOMES]
    return [*each, *results, ("step/end", "")]


@pytest.mark.parametrize(("profile", "version", "longest"), [("seed", 0, 2), ("dsh-0.1", 0, 5)])
def test_the_moves_that_are_followed_explain_what_all_moves_explain(
    profile: Profile, version: int, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 2
    few = Automaton(Oracle(law(profile, version), depth=1))
    every = Automaton(Oracle(law(profile, version), depth=1))

    def both(pair: tuple[int, int], seen: Observation) -> tuple[int, int]:
        left = few.next(pair[0], seen)
        with monkeypatch.context() as patched:
            patched.setattr(batches, "moves", eager_moves)
            return left, every.next(pair[1], seen)

    pair = few.start(), every.start()
    for seen in answered(calls, version):
        pair = both(pair, seen)
    assert few.empty not in pair
    todo: list[tuple[tuple[int, int], tuple[Observation, ...]]] = [(pair, ())]
    known = {pair}
    while todo:
        pair, path = todo.pop()
        for seen in rows(calls):
            after = both(pair, seen)
            assert (after[0] == few.empty) == (after[1] == every.empty), (*path, seen)
            if few.empty not in after and after not in known and len(path) < longest and seen[0] != "step/end":
                known.add(after)
                todo.append((after, (*path, seen)))
    assert len(known) > 5
