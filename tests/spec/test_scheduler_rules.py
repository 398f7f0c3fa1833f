"""Runs of the tool scheduler as people would write them down, from the requirements and not from the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.spec.scheduler_runs import log_of

from loopspec.kernel.machine import Answer, Config, Effect
from loopspec.profile import law
from loopspec.scheduler import ENDS, MACHINE, Batch, initial, is_over, is_question

USUAL: dict[str, Answer] = {
    "prepare": ("dispatch",),
    "body": ("success",),
    "finalise": ("accept", False, False),
    "contexts": ("done",),
}


class Play:
    """One batch, played by hand: `modes` by call, `answers` for single await points, bodies settle when told."""

    def __init__(self, modes: str, cap: int = 10, aborted: bool = False, profile: Any = "seed") -> None:
        self.modes = {call: "parallel" if mode == "p" else "exclusive" for call, mode in enumerate(modes, 1)}
        self.cap = cap
        self.answers: dict[Effect, Answer] = {}
        self.held: set[Effect] = set()
        self.refused: set[Effect] = set()
        self.reactions: dict[Effect, Callable[[], None]] = {}
        self.labels: list[Effect] = []
        self.config: Config[Batch] = initial(law(profile, 4), len(modes), aborted)

    def call(self, operation: Effect) -> Effect:
        move = MACHINE.step(MACHINE.call(self.config, operation))
        self.config = move.config
        return move.effect

    def abort(self) -> None:
        self.call(("abort",))

    def go(self, *settle: int) -> Play:
        """Run until only bodies and held await points wait; before that, settle these bodies, in this order."""
        self._run()
        for call in settle:
            self._answer(("body", call))
            self._run()
        return self

    def release(self, point: Effect) -> Play:
        self.held.discard(point)
        return self.go()

    def _run(self) -> None:
        while True:
            while self.config.stack:
                self._step()
            ready = [point for point, _ in self.config.parked if point[0] != "body" and point not in self.held]
            if not ready:
                return
            self._answer(ready[0])

    def _step(self) -> None:
        before = self.config
        move = MACHINE.step(before)
        if move.verb == "append" and move.effect in self.refused:
            move = MACHINE.refuse(before)
        self.config = move.config
        self.labels.append((move.verb, *move.effect))
        if move.effect[0] == "tools/execute":
            self.call(("execute", move.effect[1]))
            self.call(("enter", move.effect[1]))
        react = self.reactions.get(move.effect)
        if react is not None:
            react()

    def _answer(self, point: Effect) -> None:
        index = [parked for parked, _ in self.config.parked].index(point)
        if point[0] == "classify":
            answer: Answer = (self.modes[point[1]],)
        elif point[0] == "cap":
            answer = ("cap", self.cap)
        else:
            answer = self.answers.get(point[:2], USUAL[point[0]])
        self.config = MACHINE.resume(self.config, answer, index)

    @property
    def log(self) -> str:
        return log_of(self.labels)

    @property
    def running(self) -> list[int]:
        return [point[1] for point, _ in self.config.parked if point[0] == "body"]


def test_parallel_calls_all_start_before_the_first_one_ends() -> None:
    play = Play("ppp").go()
    assert play.log == "c1 c2 c3"
    assert play.running == [1, 2, 3]


def test_an_exclusive_call_stands_between_two_groups() -> None:
    play = Play("pep").go()
    assert play.log == "c1"
    assert play.go(1).log == "c1 r1:success c2"
    assert play.go(2).log == "c1 r1:success c2 r2:success c3"
    assert play.go(3).log.endswith("c3 r3:success, continue")


def test_the_pool_is_refilled_per_settlement() -> None:
    play = Play("pppp", cap=2).go()
    assert play.log == "c1 c2"
    assert play.go(1).log == "c1 c2 r1:success c3"
    assert play.running == [2, 3]


def test_cap_one_is_serial() -> None:
    play = Play("pp", cap=1).go(1, 2)
    assert play.log == "c1 r1:success c2 r2:success, continue"


def test_results_keep_model_order() -> None:
    play = Play("ppp").go(3, 2)
    assert play.log == "c1 c2 c3"
    assert play.go(1).log == "c1 c2 c3 r1:success r2:success r3:success, continue"


def test_a_listener_of_a_result_makes_the_next_call_exclusive() -> None:
    play = Play("pppp", cap=2)
    play.reactions["tools/result", 1, "success"] = lambda: play.modes.update({3: "exclusive"})
    play.go(1)
    assert play.running == [2]
    assert play.go(2).log == "c1 c2 r1:success r2:success c3"
    assert play.go(3).log == "c1 c2 r1:success r2:success c3 r3:success c4"


def test_a_barrier_changes_the_class_of_a_later_call() -> None:
    play = Play("eep")
    play.reactions["tools/result", 1, "success"] = lambda: play.modes.update({2: "parallel"})
    assert play.go(1).running == [2, 3]


@pytest.mark.parametrize(("profile", "log"), [("seed", "c1 c2 r1:success"), ("dsh-0.1", "c1 c2 r1:success c3 c4")])
def test_a_stopped_pool(profile: str, log: str) -> None:
    """Call 3 turns exclusive and back while the pool drains: it waits for its own group, or starts at once."""
    play = Play("pppp", cap=3, profile=profile)
    play.modes[3] = "exclusive"
    play.go()
    play.modes[3] = "parallel"
    play.go(1)
    assert play.log == log


def test_a_cap_that_changes_waits_for_the_next_group() -> None:
    play = Play("ppepp", cap=2).go()
    play.cap = 1
    assert play.go(1, 2, 3).running == [4]


def test_denials_keep_their_place_and_never_run() -> None:
    play = Play("ppp")
    play.answers["prepare", 1] = ("post-result",)
    play.answers["prepare", 2] = ("final-result",)
    play.go(3)
    assert play.log == "c1 r1:failure c2 r2:failure c3 r3:success, continue"
    assert [label[2] for label in play.labels if label[:2] == ("park", "finalise")] == [1, 3]


def test_an_abort_before_the_batch_leaves_synthetic_pairs_only() -> None:
    play = Play("pe", aborted=True).go()
    assert play.log == "c1 r1:synthetic c2 r2:synthetic, continue"
    assert not [label for label in play.labels if label[0] == "notify"]


def test_an_abort_in_the_first_preparation() -> None:
    """Nothing is dispatched; the call in hand ends in the pipeline, the other one outside."""
    play = Play("pp")
    play.held.add(("prepare", 1, "policy"))
    play.go().abort()
    assert play.release(("prepare", 1, "policy")).log == "c1 r1:unentered c2 r2:synthetic, continue"


def test_an_abort_with_two_of_four_running() -> None:
    play = Play("pppp", cap=2).go()
    play.answers["finalise", 1] = ("accept", True, True)
    play.answers["body", 2] = ("failure",)
    play.abort()
    play.go(2, 1)
    assert play.log == "c1 c2 r1:aborted r2:failure c3 r3:synthetic c4 r4:synthetic, continue"
    assert ("park", "contexts", 1) in play.labels


def test_an_exclusive_call_behind_an_aborted_pool_never_runs() -> None:
    play = Play("pe").go()
    play.abort()
    assert play.go(1).log == "c1 r1:aborted c2 r2:synthetic, continue"


@pytest.mark.parametrize("effect", [("tools/result", 1, "success"), ("tool/result", 1, "success")])
def test_an_abort_from_an_observer_leaves_the_result_alone(effect: Effect) -> None:
    play = Play("ee")
    play.reactions[effect] = play.abort
    assert play.go(1).log == "c1 r1:success c2 r2:synthetic, continue"


def test_an_abort_at_the_record_of_a_call() -> None:
    play = Play("ppp")
    play.reactions["tool/call", 2] = play.abort
    assert play.go(1).log == "c1 c2 r1:aborted r2:unentered c3 r3:synthetic, continue"


def test_a_conclusion_does_not_stop_the_batch() -> None:
    play = Play("pp")
    play.answers["finalise", 1] = ("accept", True, False)
    assert play.go(1, 2).log == "c1 c2 r1:success r2:success, concluded"


def test_a_failed_call_never_concludes() -> None:
    play = Play("e")
    play.answers["body", 1] = ("failure",)
    play.answers["finalise", 1] = ("accept", True, False)
    assert play.go(1).log == "c1 r1:failure, continue"


@pytest.mark.parametrize(
    ("profile", "rest"), [("dsh-0.1", ""), ("seed", " r2:outcome-unknown r3:outcome-unknown r4:not-started")]
)
def test_a_failure_drains_the_pool_and_the_first_one_is_told(profile: str, rest: str) -> None:
    play = Play("pppp", cap=3, profile=profile)
    play.held.add(("prepare", 3, "policy"))
    play.answers["body", 1] = ("rejects",)
    play.answers["body", 2] = ("rejects",)
    play.go(1)
    play.release(("prepare", 3, "policy"))
    assert play.running == [2]
    assert play.log == "c1 c2 c3"
    expected = "c1 c2 c3" + (" r1:outcome-unknown" + rest if rest else "") + ", throws body 1"
    assert play.go(2).log == expected


@pytest.mark.parametrize("record", [("tool/call", 1), ("tool/result", 1, "success")])
def test_a_refused_record_is_a_failure(record: Effect) -> None:
    play = Play("e", profile="dsh-0.1")
    play.refused.add(record)
    play.go()
    play.go(*play.running)
    assert play.log.endswith(f", throws {record[0]} 1")


def test_a_refused_context_is_a_failure() -> None:
    play = Play("ee", profile="dsh-0.1")
    play.answers["finalise", 1] = ("accept", False, True)
    play.answers["contexts", 1] = ("throws",)
    assert play.go(1).log == "c1 r1:success, throws contexts 1"


def test_a_batch_has_a_call() -> None:
    with pytest.raises(ValueError, match="at least one call"):
        initial(law(), 0)


def test_names() -> None:
    questions: Sequence[Effect] = (("classify", 1), ("cap",), ("contexts", 1))
    assert all(is_question(point) for point in questions)
    assert not any(is_question(point) for point in (("prepare", 1, "policy"), ("body", 1), ("finalise", 1, "success")))
    assert all(is_over((end,)) for end in ENDS)
    assert not is_over(("wait",))
