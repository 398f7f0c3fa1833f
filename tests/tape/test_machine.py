"""The tape within its host, explored completely; and for each guard a mutant that a claim catches.

The largest bound (4 turns, 2 snapshots, 2 calls a turn, 1 steering message or notice, 1 compaction, 1 crash and
resume, all together) takes most of a minute: it runs when `TAPE_BOUND=full` is set, and its size is pinned here.
Without that four turns are explored in two parts: with the compaction, and, with one snapshot, with the resume.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loopspec.kernel.claims import Sometimes, Verdict
from loopspec.kernel.explore import explore
from loopspec.kernel.machine import note
from loopspec.kernel.report import Exploration
from loopspec.tape import config, machine, select
from loopspec.worlds.tape_claims import ALWAYS_REACHED, INVARIANTS, STEPS
from loopspec.worlds.tape_world import Budgets, Host, TapeHost

NO_COMPACTION = "a thawed snapshot"
TWO_SNAPSHOTS = ("a snapshot is sealed", "a dead snapshot stays")
NO_RESUME = "a crash within a seal"


def run(budgets: Budgets, *, sometimes: Sequence[Any] = (), first: bool = False, **settings: Any) -> Exploration[Host]:
    return explore(
        TapeHost(budgets, **settings),
        invariants=INVARIANTS,
        steps=STEPS,
        sometimes=sometimes,
        is_final=lambda s: s.phase == "idle",
        bound=budgets._asdict() | settings,
        stop_at_first=first,
    )


def without(*names: str) -> list[Any]:
    return [claim for claim in ALWAYS_REACHED if claim.name not in names]


def assert_clean(found: Exploration[Host], states: int) -> None:
    assert not found.violations, [(v.name, v.reason, v.path.labels) for v in found.violations]
    assert found.why_incomplete is None
    assert [claim.name for claim in found.sometimes if claim.verdict is not Verdict.PASS] == []
    assert len(found.states) == states


def test_four_turns_with_a_resume() -> None:
    found = run(Budgets(4, 1, steering=1, compactions=0, resumes=1), sometimes=without(NO_COMPACTION, *TWO_SNAPSHOTS))
    assert_clean(found, 27_231)


def test_four_turns_with_a_compaction() -> None:
    found = run(Budgets(4, 2, steering=1, compactions=1, resumes=0), sometimes=without(NO_RESUME))
    assert_clean(found, 82_833)


@pytest.mark.skipif(os.environ.get("TAPE_BOUND") != "full", reason="TAPE_BOUND=full explores the whole bound")
def test_the_whole_bound() -> None:
    found = run(Budgets(4, 2, steering=1, compactions=1, resumes=1), sometimes=ALWAYS_REACHED)
    assert_clean(found, 754_277)


KEPT = Sometimes[Host](
    "a raw tail",
    "A kept turn stays raw behind an entry.",
    lambda s: [cell.kind for cell in s.tape.cells[2:5]] == ["entry", "human", "assistant"] and s.phase == "entered",
)
FOLDED = Sometimes[Host](
    "a fold", "A long result is folded.", lambda s: any(cell.uid[0] == "folded" for cell in s.tape.cells)
)
WARNED = Sometimes[Host]("a warning", "A portion is warned about.", lambda s: bool(s.tape.warned))


def test_kept_turns_losses_reused_ids_cancels_and_folds() -> None:
    faults = Budgets(3, 0, steering=0, compactions=0, resumes=0, cancels=1, losses=1, reuses=1, long=1)
    assert_clean(run(faults, keep=1, sometimes=[KEPT, FOLDED, WARNED]), 4_993)
    assert_clean(run(faults, sometimes=[FOLDED, WARNED]), 3_894)


# -- mutants -------------------------------------------------------------------------------------------------

Change = Callable[[pytest.MonkeyPatch], None]


def broken_by(claim: str, change: Change, monkeypatch: pytest.MonkeyPatch, budgets: Budgets, **settings: Any) -> None:
    change(monkeypatch)
    found = run(budgets, first=True, **settings)
    assert [violation.name for violation in found.violations] == [claim]


def any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "WORK", frozenset({"assistant", "result", "context"}))


def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "Limits", lambda closed, turn: select.Limits(closed, turn + 1))


def no_pairing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "unpaired", lambda portion, by_multiset=True: ())


def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    original = config.course
    monkeypatch.setattr(machine, "course", lambda decision, step, **rest: original(decision, 1, **rest))


def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    original = config.course

    def course(decision: str, step: int, *, aborted: bool, cap: int | None = None) -> str:
        return original(decision, step, aborted=False, cap=cap)

    monkeypatch.setattr(machine, "course", course)


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(s: machine.Tape, key: Any, raw: Any, again: Any) -> Any:
        return note(s, ("warned", raw), again)

    monkeypatch.setitem(machine.rule, "warn", warn)


def fold_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "foldable", lambda cell: cell.kind == "result" and cell.uid[0] == "result")


def newest_is_not_live(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "live_snapshot", lambda kinds, *, renewed: -1)


def backfill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "frozen_until", lambda kinds: 0)


def half(monkeypatch: pytest.MonkeyPatch) -> None:
    original = machine.plan

    def plan(s: machine.Tape, *, renewed: bool) -> machine.Planned:
        spans, broken = original(s, renewed=renewed)
        return machine.Planned(spans[:1], broken)

    monkeypatch.setattr(machine, "plan", plan)


PLAIN = Budgets(3, 1, steering=1, compactions=0, resumes=0)
FAULTY = Budgets(2, 0, steering=1, compactions=0, resumes=0, cancels=1, losses=1, reuses=1, long=1)


@pytest.mark.parametrize(
    ("claim", "change", "budgets", "settings"),
    [
        ("INV-06", backfill, Budgets(3, 2, steering=0, compactions=0, resumes=0), {}),
        ("INV-04", newest_is_not_live, PLAIN, {}),
        ("INV-04", any_kind, PLAIN, {}),
        ("INV-04", no_limit, PLAIN, {"keep": 1}),
        ("INV-08", no_pairing, FAULTY, {}),
        ("INV-16", every_step, FAULTY, {}),
        ("INV-16", deaf, FAULTY, {}),
        ("TP-25", forgetful, Budgets(3, 0, steering=0, compactions=0, resumes=0, losses=1), {}),
        ("PX-6", fold_everything, FAULTY, {"keep": 1, "late": True}),
        ("INV-07", half, PLAIN, {}),
    ],
)
def test_a_removed_guard_is_noticed(
    claim: str, change: Change, budgets: Budgets, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_by(claim, change, monkeypatch, budgets, **settings)


def test_pairing_by_sets_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """TP-22, RE-69, BG-40: the defect of the original."""
    broken_by("INV-08", lambda _: None, monkeypatch, FAULTY, by_multiset=False)


def test_a_policy_mounted_late_is_clean() -> None:
    """RE-63: what was shown before is not folded, and all ended turns seal at the next first step."""
    assert_clean(run(FAULTY._replace(turns=3, steering=0), keep=1, late=True, sometimes=[FOLDED, WARNED]), 7_808)


def test_the_host_crashes_at_every_moment() -> None:
    phases = {
        before.phase
        for before in run(Budgets(2, 0, steering=0, compactions=0, resumes=1)).states
        if any(label == "crash and resume" for label, _ in TapeHost(Budgets()).moves(before))
    }
    assert phases == {"idle", "deciding", "sealing", "entered", "streaming", "tools", "answered"}
