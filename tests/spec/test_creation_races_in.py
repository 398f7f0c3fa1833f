"""The race catalogue of creation as scripted runs, first part: on the way in (creation 17, R-01 to R-32)."""

from __future__ import annotations

import pytest
from tests.spec.creation_runs import Run, alive, create


def test_r01_one_of_two_concurrent_creates_wins() -> None:
    run = Run()
    create(run, 1)
    create(run, 2)
    run.answer("setup", 1, "settles")
    run.answer("setup", 2, "settles")
    run.settle()
    assert run.told == "s+1 a+1 ss1"
    assert run.of("resolve", "reject") == [("resolve", 1), ("reject", 2, "session-exists")]
    assert run.trace.index(("unwind", 2)) < run.trace.index(("reject", 2, "session-exists"))


def test_r02_entering_decides_not_calling() -> None:
    run = Run()
    create(run, 1)
    create(run, 2)
    run.answer("setup", 2, "settles")
    run.answer("setup", 1, "settles")
    run.settle()
    assert run.of("resolve", "reject") == [("resolve", 2), ("reject", 1, "session-exists")]


def test_r03_a_live_id_is_refused_before_setup() -> None:
    run = Run()
    alive(run, 1)
    assert create(run, 2) == ("reject", 2, "session-exists")
    assert ("setup", 2) not in run.trace
    assert run.told == "s+1 a+1 ss1"


def test_r04_a_draining_id_is_refused_until_its_session_is_detached() -> None:
    run = Run()
    alive(run, 1)
    run.call("wake", 1)
    run.call("dispose", 1)
    run.settle()
    assert create(run, 2) == ("reject", 2, "session-exists")
    run.call("rest", 1)
    run.settle("scope")
    assert create(run, 3) == ("reject", 3, "session-exists")
    run.settle()
    alive(run, 4)
    assert run.told == "s+1 a+1 ss1 a-1 s-1 s+4 a+4 ss4"


def test_r05_an_id_held_by_a_custom_agent() -> None:
    run = Run()
    run.call("register", "agent", 1, 1)
    alive(run, 2)
    run.settle()
    assert run.told == "a+1"
    assert run.of("reject") == [("reject", 2, "agent-exists")]
    assert not run.config.core.sessions


def test_r06_a_session_entered_between_prepare_and_enter() -> None:
    run = Run()
    create(run, 1)
    run.call("register", "session", 2, 1)
    run.answer("setup", 1, "settles")
    run.settle()
    assert run.told == "s+2"
    assert run.of("reject") == [("reject", 1, "session-exists")]


@pytest.mark.parametrize("verb", ["create", "create_now", "resume"])
def test_r07_an_aborted_signal(verb: str) -> None:
    run = Run()
    assert create(run, 1, flaw="aborted", verb=verb) == ("reject", 1, "caller")
    assert run.trace == [("reject", 1, "caller")]


def test_r08_abort_while_the_scope_is_minted() -> None:
    run = Run(listeners={("mint", 1): [("abort", 1)]})
    create(run, 1)
    run.settle()
    assert ("setup", 1) not in run.trace
    assert run.trace.index(("unwind", 1)) < run.trace.index(("reject", 1, "caller"))
    assert run.empty


def test_r09_abort_during_a_setup_that_never_settles() -> None:
    run = Run()
    create(run, 1)
    run.call("abort", 1)
    run.settle()
    assert run.of("reject") == [("reject", 1, "caller")]
    assert run.told == ""
    assert run.empty


def test_r10_setup_aborts_its_own_signal() -> None:
    run = Run(listeners={("setup", 1): [("abort", 1)]})
    create(run, 1)
    run.settle()
    assert run.of("reject") == [("reject", 1, "caller")]


def test_r11_abort_after_setup_settled() -> None:
    run = Run()
    create(run, 1)
    run.call("abort", 1)
    run.answer("setup", 1, "settles")
    run.settle()
    assert ("commit", 1) in run.trace
    assert run.of("enter", "reject") == [("reject", 1, "caller")]


def test_r12_abort_inside_commit() -> None:
    run = Run(listeners={("commit", 1): [("abort", 1)]})
    alive(run, 1)
    run.settle()
    assert run.of("enter", "reject") == [("reject", 1, "caller")]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ("session/created", "s+1 s-1"),
        ("agent/created", "s+1 a+1 a-1 s-1"),
        ("agent/session-start", "s+1 a+1 ss1 a-1 s-1"),
    ],
)
@pytest.mark.parametrize(("request_", "why"), [("abort", "caller"), ("release", "owner")])
def test_r13_to_r15_and_r20_to_r22(event: str, told: str, request_: str, why: str) -> None:
    run = Run(listeners={(event, 1): [(request_, 1), ("append", 1)]})
    alive(run, 1)
    run.settle()
    assert ("session/event", 1) in run.trace, "the later listeners still see the session live"
    assert run.told == told
    assert run.of("reject", "resolve", "running") == [("reject", 1, why)]
    assert run.trace.index(("unwind", 1)) < run.trace.index(("session/disposed", 1))
    assert run.empty


def test_r16_abort_after_resolution() -> None:
    run = Run()
    alive(run, 1)
    assert run.call("abort", 1) == ("return", None)
    run.settle()
    assert run.told == "s+1 a+1 ss1"
    assert not run.of("deactivate")


@pytest.mark.parametrize(("fiber", "why"), [(2, "owner"), (1, "provider")])
def test_r17_and_r24_unload_while_setup_is_pending(fiber: int, why: str) -> None:
    run = Run()
    create(run, 1)
    run.call("unload", fiber)
    run.settle("scope")
    assert not run.of("unloaded"), "it waits for the rollback"
    run.settle()
    assert run.of("reject") == [("reject", 1, why)]
    assert run.told == ""
    assert ("unloaded", fiber) in run.trace
    if fiber == 1:
        assert run.trace.index(("reject", 1, why)) < run.trace.index(("unloaded", 1)), "and for the promise (INV-20)"


def test_r18_setup_resolves_in_the_tick_of_the_unload() -> None:
    run = Run()
    create(run, 1)
    run.call("unload", 2)
    run.answer("tick", 2, "done")
    run.answer("setup", 1, "settles")
    run.settle()
    assert run.of("reject") == [("reject", 1, "owner")]


@pytest.mark.parametrize(("fiber", "why"), [(2, "owner"), (1, "provider")])
def test_r19_and_r25_unload_while_the_scope_is_minted(fiber: int, why: str) -> None:
    run = Run(listeners={("mint", 1): [("unload", fiber)]})
    create(run, 1)
    assert ("setup", 1) in run.trace, "the unload deactivates a tick later (C-ABT-4)"
    run.settle()
    assert run.of("reject") == [("reject", 1, why)]
    assert run.trace.index(("unwind", 1)) < run.trace.index(("unloaded", fiber))


@pytest.mark.parametrize("fiber", [1, 2])
def test_r23_an_unload_inside_a_creation_listener(fiber: int) -> None:
    run = Run(listeners={("session/created", 1): [("unload", fiber)]})
    alive(run, 1)
    run.settle()
    assert run.of("resolve", "reject") == [("resolve", 1)], "one of the two allowed outcomes (N-6)"
    assert run.told == "s+1 a+1 ss1 a-1 s-1"
    assert run.empty


def test_r26_minting_throws_while_the_provider_unloads() -> None:
    run = Run(listeners={("mint", 1): [("unload", 1), ("escape", "mint", 1)]})
    create(run, 1)
    run.settle()
    assert run.of("reject") == [("reject", 1, "mint")]
    assert run.trace.index(("unwind", 1)) < run.trace.index(("unloaded", 1))


def test_r27_and_r66_unload_during_a_load() -> None:
    for answer in ("deactivated", "loaded"):
        run = Run()
        create(run, 1, verb="resume")
        run.call("unload", 1)
        run.answer("tick", 1, "done")
        run.answer("load", 1, answer)
        run.settle()
        assert run.of("reject", "prepare") == [("reject", 1, "provider")]
        assert ("unloaded", 1) in run.trace


def test_r28_provider_unload_in_mid_turn() -> None:
    run = Run()
    alive(run, 1)
    alive(run, 2, 2)
    run.call("wake", 1)
    run.call("unload", 1)
    run.settle()
    assert ("unwind", 1) not in run.trace, "the scope waits for the drain (N-3)"
    assert ("unwind", 2) in run.trace
    run.call("rest", 1)
    run.settle()
    assert run.told == "s+1 a+1 ss1 s+2 a+2 ss2 a-2 s-2 a-1 s-1"
    assert run.trace[-1] == ("unloaded", 1)


def test_r28_as_published() -> None:
    run = Run("dsh-0.1")
    alive(run, 1)
    run.call("wake", 1)
    run.call("unload", 1)
    run.settle()
    assert ("unwind", 1) in run.trace
    run.call("rest", 1)
    run.settle()
    assert run.trace.index(("unwind", 1)) < run.trace.index(("idle", 1)) < run.trace.index(("agent/disposed", 1))


def test_r29_and_r30_calls_at_a_closing_provider_or_owner() -> None:
    run = Run()
    run.call("unload", 1)
    assert create(run, 1) == ("reject", 1, "provider")
    run.settle()
    assert create(run, 2) == ("reject", 2, "no-factory")
    run = Run()
    run.call("unload", 2)
    assert create(run, 1) == ("reject", 1, "inactive-owner")
    run.settle()
    assert create(run, 2) == ("reject", 2, "inactive-owner")
    assert run.empty


def test_r31_abort_and_unload_in_one_tick() -> None:
    for calls in ((("abort", 1), ("unload", 1)), (("unload", 1), ("abort", 1))):
        run = Run()
        create(run, 1)
        for operation in calls:
            run.call(*operation)
        run.settle()
        assert run.of("reject") == [("reject", 1, "caller")]


def test_r32_disposing_twice() -> None:
    run = Run()
    alive(run, 1)
    assert run.call("dispose", 1) == run.call("dispose", 1) == ("return", ("promise", 1))
    run.settle()
    assert run.call("dispose", 1) == ("return", ("promise", 1))
    assert run.told == "s+1 a+1 ss1 a-1 s-1"
    assert len(run.of("gone")) == len(run.of("cancel")) == 1


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("dispose", 1), ("unload", 2)),
        (("dispose", 1), ("unload", 1)),
        (("unload", 2), ("unload", 1)),
        (("unload", 1), ("unload", 2)),
    ],
)
@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
def test_r33_to_r36_every_owner_joins(first: tuple[str, int], then: tuple[str, int], profile: str) -> None:
    run = Run(profile)  # type: ignore[arg-type]
    alive(run, 1)
    run.call(*first)
    run.settle("scope")
    run.call(*then)
    run.settle("scope")
    leaves = profile == "dsh-0.1" and then == ("unload", 2)
    assert (("unloaded", then[1]) in run.trace) == leaves
    run.settle()
    assert ("unloaded", then[1]) in run.trace
    assert run.empty
