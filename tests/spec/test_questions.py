"""Questions: every outcome within the bound, judged against the runs that lead to it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from loopspec.kernel.explore import explore
from loopspec.profile import Profile, law
from loopspec.properties.questions import MOMENTS, Asked, Question, ask, has_come, outcome, subject_of
from loopspec.worlds.question_world import Answered, LeftAlone, answers, bound_of, machine_of, unanswered, world

ENTERS = "enters a turn of a later run"
WAITS = "waits as steering, and nothing wakes the agent for it"
STEER: Question = ("abort", "steer", "idle")
BEHIND_THE_TURN: Question = ("turn/end", "steer", "idle")


@cache
def explored(profile: Profile, question: Question, **changes: int) -> tuple[LeftAlone, Any]:
    its_law = law(profile, 0)
    system = world(its_law, question, bound_of(question).changed(**changes))
    seen = explore(system, is_final=system.is_final)
    assert seen.complete
    assert not seen.deadlocks
    return system, seen


def replies(profile: Profile, question: Question, **changes: int) -> list[Answered]:
    system, seen = explored(profile, question, **changes)
    assert not unanswered(system, seen)
    return answers(system, seen)


def fates(profile: Profile, question: Question, **changes: int) -> set[str]:
    return {one.outcome.fate for one in replies(profile, question, **changes)}


def test_a_steer_between_the_abort_and_the_idle_is_never_parked() -> None:
    """LR-032, L-SEND-3, L-WAKE-5: it becomes a prompt, and the latch wakes the agent for it."""
    assert fates("seed", STEER) == {ENTERS}


def test_published_loops_refuse_an_observers_steer_and_park_it_in_the_next_turns_exit() -> None:
    """L-IN-5: a send from an observer is refused; L-WAKE-10: one in the exit gap is parked."""
    assert fates("dsh-0.1", STEER) == {
        ENTERS,
        WAITS,
        "is refused",
        "enters a later turn of the same run",
        "enters the turn in which it landed",
    }


def test_the_closing_run_latches() -> None:
    """L-WAKE-10: without a cancel nothing is parked behind a turn, but by published loops (LR-070)."""
    assert WAITS not in fates("seed", BEHIND_THE_TURN, **{"cancel user": 0})
    assert WAITS in fates("dsh-0.1", BEHIND_THE_TURN, **{"cancel user": 0})


def test_a_steer_while_a_cancel_clears_is_parked_by_every_law() -> None:
    """LR-043: the one way in which the default law parks a steer behind a turn."""
    for one in replies("seed", BEHIND_THE_TURN):
        if one.outcome.fate == WAITS:
            labels: tuple[Any, ...] = one.run.labels
            at = max(at for at, label in enumerate(labels) if MOMENTS["steer"].is_it(label))
            assert ("notify", "abort", "user") in labels[at:]


def test_a_cancel_between_call_and_result_ends_the_turn() -> None:
    assert machine_of(("tool/call", "cancel", "tool/result")) == "loop"
    found = replies("seed", ("tool/call", "cancel", "tool/result"))
    assert {one.outcome.ends for one in found} == {("aborted by user",)}


def test_what_does_not_happen_has_no_outcome() -> None:
    assert not replies("seed", ("abort", "turn/start", "idle"), messages=1, turns=1)


def test_ends_beyond_the_bound_are_counted() -> None:
    system, seen = explored("seed", STEER, turns=1)
    assert unanswered(system, seen) > 0


QUESTIONS: tuple[Question, ...] = (
    STEER,
    BEHIND_THE_TURN,
    ("claimed", "cancel", "user/message"),
    ("turn-stopping", "inject", "turn/end"),
    ("steer",),
)


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_every_outcome_is_that_of_its_run(question: Question, profile: Profile) -> None:
    for one in replies(profile, question, messages=2, turns=3):
        asked = Asked()
        labels: tuple[Any, ...] = one.run.labels
        for label in labels:
            asked = ask(asked, label, question)
        assert has_come(asked, question)
        assert outcome(asked) == one.outcome
        _moments_come_in_order(one.run.labels, question)
        _nobody_calls_any_more(one.run.labels, question)
        if asked.it:
            _fate_is_told(one)
        _the_rest_is_told(one, question)


def _positions(labels: tuple[Any, ...], question: Question) -> list[int]:
    """Where the moments are, read backwards from the first moment at which all of them have come."""
    asked, end = Asked(), 0
    while not has_come(asked, question):
        asked = ask(asked, labels[end], question)
        end += 1
    end -= 1
    found: list[int] = []
    for name in reversed(question):
        end = next(at for at in range(end, -1, -1) if MOMENTS[name].is_it(labels[at]))
        found.append(end)
        end -= 1
    return found[::-1]


def _moments_come_in_order(labels: tuple[Any, ...], question: Question) -> None:
    """Between the first moment and the last but one the window was never closed."""
    places = _positions(labels, question)
    assert places == sorted(places)
    if len(question) > 2:
        inside = labels[places[0] + 1 : places[-2]]
        assert not any(MOMENTS[question[-1]].is_it(label) for label in inside)


def _nobody_calls_any_more(labels: tuple[Any, ...], question: Question) -> None:
    assert all(label[0] not in ("call", "wait") for label in labels[_positions(labels, question)[-1] + 1 :])


def _fate_is_told(one: Answered) -> None:
    """What the records and events of the run say of the message; what is pending, the machine."""
    asked, core = one.run.end.memory, one.run.end.config.core
    told = {label[:3] for label in one.run.labels}
    assert (("append", "user/message", asked.it) in told) == one.outcome.fate.startswith("enters")
    assert (("notify", "agent/inbox/discarded", asked.it) in told) == (one.outcome.fate == "is discarded")
    assert (asked.it in core.next_turn + core.next_step) == one.outcome.fate.startswith("waits")
    assert (("notify", "agent/inbox/inserted", asked.it) in told) == (one.outcome.fate != "is refused")


def _the_rest_is_told(one: Answered, question: Question) -> None:
    """The other messages, and the turns that ended behind the first moment, counted once more."""
    asked, core = one.run.end.memory, one.run.end.config.core
    labels: tuple[Any, ...] = one.run.labels
    claimed = {label[2] for label in labels if label[:2] == ("notify", "agent/inbox/claimed")}
    entered = {label[2] for label in labels if label[:2] == ("append", "user/message")}
    first = _positions(labels, question)[0]
    ends = [label for label in labels[first + 1 :] if label[:2] == ("append", "turn/end")]
    assert one.outcome.lost == len(claimed - entered - {asked.it})
    assert one.outcome.waiting == len(set(core.next_turn + core.next_step) - {asked.it})
    assert one.outcome.ends == tuple(" by ".join(label[3:]) for label in ends)


def test_what_closes_a_window_may_open_the_next_one() -> None:
    idle, followup = ("notify", "agent/status", "idle"), ("call", "send", 1, "next-turn", True)
    question, asked = ("idle", "followup", "idle"), Asked()
    for label in (idle, idle, followup, idle):
        assert not has_come(asked, question)
        asked = ask(asked, label, question)
    assert has_come(asked, question)


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
def test_the_lists_are_those_of_the_machine_wherever_it_rests(profile: Profile) -> None:
    system, seen = explored(profile, STEER)
    for node in seen.states:
        if system.is_final(node):
            core = node.config.core
            assert (node.memory.next_step, node.memory.next_turn) == (core.next_step, core.next_turn)


def test_the_question_is_about_the_last_operation() -> None:
    assert subject_of(("send", "cancel", "idle")) == 1
    assert subject_of(("abort", "idle")) == 1
