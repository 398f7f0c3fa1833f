"""Driver and tools as one: explored completely at small bounds, pinned, and each seam missed when it is cut."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spec.scheduler_runs import broken

from loopspec import loop, scheduler
from loopspec.kernel.claims import Verdict
from loopspec.kernel.explore import ExplorationError, explore
from loopspec.kernel.machine import Config, Move
from loopspec.kernel.report import Exploration
from loopspec.loop import Composition, Loop
from loopspec.profile import Profile, law
from loopspec.scheduler import Batch
from loopspec.worlds import loop_world
from loopspec.worlds.loop_world import LoopNode
from loopspec.worlds.world import edge_digest

SIZES: dict[tuple[Profile, int, str], tuple[int, int, int, str]] = {
    ("seed", 4, "quick"): (5_450, 7_753, 77, "0b34c326b7232e7e"),
    ("seed", 0, "faults"): (5_331, 7_822, 78, "2bbcdb7e64c9de15"),
    ("dsh-0.1", 0, "quick"): (5_190, 7_896, 76, "0f30842809acc1fa"),
    ("dsh-0.1.7", 4, "quick"): (5_265, 8_003, 81, "be0182fe14b4bc27"),
}
"""States, moves, the length of the longest of all shortest runs, and the digest of the labelled edges."""


def explored(
    profile: Profile, session_format: int, name: str, machine: Composition = loop.MACHINE, only: str = ""
) -> Any:
    """One bound with every claim and all edges; or with one claim, up to the first violation of it."""
    rules, limits = law(profile, session_format), loop_world.BOUNDS[name]
    world, claims = loop_world.world(rules, limits, machine), loop_world.claims(rules, limits)
    return explore(
        world,
        steps=[claim for claim in claims.steps if only in ("", claim.name)],
        sometimes=[claim for claim in claims.sometimes if only in ("", claim.name)],
        is_final=world.is_final,
        bound=limits.as_mapping(),
        keep_edges=not only,
        stop_at_first=bool(only),
    )


def failed(exploration: Exploration[LoopNode]) -> set[str]:
    """The claims that do not hold."""
    return {name for name, verdict in exploration.verdicts.items() if verdict is not Verdict.PASS}


@pytest.mark.parametrize(("case", "pinned"), SIZES.items(), ids=lambda value: " ".join(map(str, value)))
def test_every_promise_holds_in_a_complete_graph(
    case: tuple[Profile, int, str], pinned: tuple[int, int, int, str]
) -> None:
    found = explored(*case)
    assert found.complete, found.why_incomplete
    assert failed(found) == set()
    assert (len(found.states), found.transitions, found.depth, edge_digest(found.graph)[:16]) == pinned


class Deaf(Composition):
    """The batch never hears of an abort."""

    def _told(self, batch: Config[Batch]) -> Config[Batch]:
        return batch


class Forgetful(Composition):
    """A batch that begins late does not know that the signal was aborted before."""

    def begin(self, now: Loop, calls: int) -> Loop:
        begun = super().begin(now, calls)
        return begun._replace(batch=scheduler.initial(now.driver.core.law, calls))


class Unlocked(Composition):
    """The driver does not know that a record of the batch is being published."""

    def call(self, now: Loop, operation: tuple[Any, ...], is_publishing: bool = False) -> Loop:
        return now._replace(driver=self.drives.call(now.driver, operation, is_publishing))


class Overtaking(Composition):
    """The driver goes on when the lane waits for the first time, with bodies still in flight."""

    def after_batch(self, now: Loop, move: Move[Batch]) -> Loop:
        if move.effect == ("wait",):
            return now._replace(driver=self.drives.resume(now.driver, ("continue",)), batch=move.config)
        return super().after_batch(now, move)


class Impatient(Composition):
    """What waits for the log begins only when the batch has nothing to do."""

    def step(self, now: Loop) -> tuple[Move[Any], Loop]:
        if now.driver.stack or not loop.batch_runs(now):
            return super().step(now)
        assert now.batch is not None
        move = self.schedules.step(now.batch)
        return move, self.after_batch(now, move)

    def refuse(self, now: Loop) -> tuple[Move[Any], Loop]:
        if now.driver.stack or not loop.batch_runs(now):
            return super().refuse(now)
        return super().refuse(now._replace(driver=now.driver._replace(waiting=())))


UNPAIRED = 'if s.cut:\n        return go(s, ("skip",))', 'if s.cut:\n        return go(s, ("end",))'
UNORDERED = "s.slots[0].call == s.done + 1", "True"

MUTANTS: dict[str, tuple[Composition, Profile, int, str]] = {
    "LOOP-1": (Overtaking(), "seed", 4, "quick"),
    "LOOP-2": (Composition(schedules=broken(*UNPAIRED)), "seed", 4, "quick"),
    "LOOP-3": (Composition(schedules=broken(*UNORDERED)), "seed", 4, "quick"),
    "LOOP-4": (Overtaking(), "seed", 4, "quick"),
    "LOOP-5": (Deaf(), "seed", 4, "quick"),
    "LOOP-6": (Unlocked(), "dsh-0.1", 0, "steer"),
    "body barred by a cancel": (Deaf(), "seed", 4, "quick"),
    "operation waits for a tool record": (Unlocked(), "seed", 4, "quick"),
}


@pytest.mark.parametrize("killer", MUTANTS)
def test_a_cut_seam_is_missed(killer: str) -> None:
    mutant, profile, session_format, name = MUTANTS[killer]
    assert killer in failed(explored(profile, session_format, name, mutant, only=killer))


def test_what_waits_begins_before_the_next_effect_of_the_batch() -> None:
    """Behind its end, the driver would be answered in the middle of a call."""
    with pytest.raises(ExplorationError, match="Illegal"):
        explored("seed", 4, "quick", Impatient())


def test_a_batch_under_an_aborted_signal_knows_it() -> None:
    """CW13: a cancel between the answer and the batch reaches the batch as well."""
    assert failed(explored("seed", 4, "quick", Forgetful())) != set()


def test_a_call_that_waited_for_a_record_of_the_driver_leaves_the_window_of_the_batch_open() -> None:
    """L-LOG-3: a listener of `tools/execute` sends, an observer of that record cancels, the listener goes on."""
    nested = loop_world.QUICK.changed(depth=2, messages=2)
    world = loop_world.LoopWorld(law("seed", 4), nested)
    (node,) = world.initial()
    path: list[Any] = []

    def go(*begin: Any) -> None:
        nonlocal node
        usual = ("chunk",) if path[-1:] == [("park", "chunk", False)] else ("end", "tool-calls", True, True)
        for moved, after in world.moves(node):
            label: Any = moved
            plain = label[0] not in ("call", "wait") and label[-1] not in ("throws", "rejects")
            asked = label[0] != "answer" or label[1] != path[-1][1:] or label[1][0] != "chunk" or label[2] == usual
            if label[: len(begin)] == begin if begin else plain and asked:
                node = after
                path.append(label)
                return
        raise AssertionError(f"no {begin} after {path[-5:]}")

    go("call", "send", 1)
    while path[-1][:2] != ("notify", "tools/execute"):
        go()
    go("call", "send", 2)
    while path[-1][:2] != ("append", "agent/inbox/spliced"):
        go()
    go("wait", "cancel", "user")
    while node.config.loop.driver.stack or node.config.loop.driver.waiting:
        go()
    assert "begin" in [label[0] for label in path]
    go("call", "maintain")
