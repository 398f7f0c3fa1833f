"""The race catalogue of creation as scripted runs, second part: on the way out, and the rest (R-33 to R-76)."""

from __future__ import annotations

import pytest
from tests.spec.creation_runs import Run, alive, create


def test_r37_dispose_waits_for_a_run() -> None:
    run = Run()
    alive(run, 1)
    run.call("wake", 1)
    run.call("dispose", 1)
    run.settle()
    assert not run.may("drain", 1, "done")
    run.call("rest", 1)
    run.settle()
    assert run.empty


def test_r38_a_wake_while_disposing_starts_nothing() -> None:
    run = Run()
    alive(run, 1)
    run.call("wake", 1)
    run.call("dispose", 1)
    run.call("wake", 1)
    run.call("rest", 1)
    run.settle()
    assert run.of("running", "idle") == [("running", 1), ("idle", 1)]


def test_r39_dispose_from_the_running_notification() -> None:
    run = Run(listeners={("running", 1): [("dispose", 1)]})
    alive(run, 1)
    run.call("wake", 1)
    run.settle()
    assert run.trace.index(("cancel", 1)) == run.trace.index(("running", 1)) + 2, "cancelled inside the notification"
    run.call("rest", 1)
    run.settle()
    assert run.empty


def test_r40_a_replacement_run_is_drained_too() -> None:
    run = Run(listeners={("idle", 1): [("wake", 1)]})
    alive(run, 1)
    run.call("wake", 1)
    run.call("dispose", 1)
    run.call("rest", 1)
    run.settle()
    assert not run.empty
    run.call("rest", 1)
    run.settle()
    assert run.empty
    assert run.call("wake", 1) == ("raise", "disposed")


def test_r44_awaiting_the_own_end_deadlocks() -> None:
    run = Run()
    alive(run, 1)
    run.call("wake", 1)
    run.call("dispose", 1)
    run.call("await", 1, ("agent", 1))
    run.settle()
    assert not run.may("drain", 1, "done")
    with pytest.raises(AssertionError):
        run.call("rest", 1)


@pytest.mark.parametrize("fiber", [1, 2])
def test_r45_setup_awaits_the_unload_of_its_owner_or_provider(fiber: int) -> None:
    run = Run(listeners={("setup", 1): [("unload", fiber)]})
    create(run, 1)
    run.settle()
    assert len(run.of("reject")) == 1
    assert ("unloaded", fiber) in run.trace


@pytest.mark.parametrize(("event", "told"), [("session/created", "s+1 s-1"), ("agent/created", "s+1 a+1 a-1 s-1")])
@pytest.mark.parametrize("verb", ["create", "create_now"])
def test_r46_r47_and_r74_a_throwing_creation_dispatch(event: str, told: str, verb: str) -> None:
    run = Run(listeners={(event, 1): [("escape", event, 1)]})
    create(run, 1, verb=verb)
    if verb == "create":
        run.answer("setup", 1, "settles")
    run.settle()
    assert run.told == told
    assert run.of("reject", "resolve") == [("reject", 1, "created")]
    alive(run, 2)
    assert run.told == f"{told} s+2 a+2 ss2"


def test_r48_a_late_rejection_vetoes_where_listeners_are_awaited() -> None:
    run = Run("dsh-0.1.7")
    alive(run, 1)
    run.answer("agent/created", 1, "throws")
    run.settle()
    assert run.told == "s+1 a+1 a-1 s-1"
    assert run.of("reject") == [("reject", 1, "created")]


def test_r49_a_throwing_start_notice_vetoes_nothing() -> None:
    run = Run(listeners={("agent/session-start", 1): [("escape", "agent/session-start", 1)]})
    alive(run, 1)
    assert run.of("resolve", "reject") == [("resolve", 1)]


@pytest.mark.parametrize("kind", ["session", "agent"])
def test_r50_and_r51_withdrawing_and_announcing_again_inside_the_dispatch(kind: str) -> None:
    event = f"{kind}/created"
    run = Run(listeners={(event, 1): [("withdraw", kind, 1), ("announce_again", kind, 1)]})
    run.call("register", kind, 1, 1)
    assert run.trace == [
        ("enter", kind, 1, 1),
        (event, 1),
        ("return", None),
        ("raise", "already-announced"),
        ("detach", kind, 1),
        (f"{kind}/disposed", 1),
        ("return", None),
    ]


def test_r52_a_detach_waits_for_an_append() -> None:
    run = Run(listeners={("session/event", 1): [("withdraw", "session", 1), ("append", 1)]})
    run.call("register", "session", 1, 1)
    run.call("append", 1)
    assert run.trace[3:] == [
        ("session/event", 1),
        ("return", None),
        ("raise", "append-reenters"),
        ("detach", "session", 1),
        ("session/disposed", 1),
        ("return", None),
    ]
    assert run.call("append", 1) == ("return", None)


def test_r53_a_stale_disposer() -> None:
    run = Run()
    run.call("register", "session", 1, 1)
    run.call("withdraw", "session", 1)
    run.call("register", "session", 2, 1)
    run.call("withdraw", "session", 1)
    assert [entry.object for entry in run.config.core.sessions] == [2]


def test_r54_and_r55_the_same_id_inside_the_disposal_events() -> None:
    again = ("create_now", 2, 1, ("fiber", 2), "")
    later = ("create_now", 3, 1, ("fiber", 2), "")
    run = Run(listeners={("agent/disposed", 1): [again], ("session/disposed", 1): [later]})
    alive(run, 1)
    run.call("dispose", 1)
    run.settle()
    assert run.of("reject", "resolve", "gone") == [
        ("resolve", 1),
        ("reject", 2, "session-exists"),
        ("resolve", 3),
        ("gone", 1, "fulfilled"),
    ]
    assert [entry.object for entry in run.config.core.sessions] == [3]


def test_r56_the_same_id_right_after_a_throwing_synchronous_create() -> None:
    run = Run(listeners={("agent/created", 1): [("escape", "agent/created", 1)]})
    create(run, 1, verb="create_now")
    assert run.of("reject") == [("reject", 1, "created")]
    assert create(run, 2, verb="create_now") == ("reject", 2, "session-exists")
    run.settle()
    create(run, 3, verb="create_now")
    assert run.told == "s+1 a+1 a-1 s-1 s+3 a+3 ss3"


@pytest.mark.parametrize("event", ["session/created", "agent/created", "agent/session-start", "setup"])
def test_r57_to_r59_a_wake_before_publication(event: str) -> None:
    run = Run(listeners={(event, 1): [("wake", 1)]})
    alive(run, 1)
    assert run.trace.index(("resolve", 1)) < run.trace.index(("start", 1)) < run.trace.index(("running", 1))
    run = Run("dsh-0.1", listeners={(event, 1): [("wake", 1)]})
    alive(run, 1)
    assert run.trace.index(("running", 1)) == run.trace.index((event, 1)) + 1


def test_r60_a_parent_is_disposed_while_its_child_runs() -> None:
    run = Run()
    alive(run, 1)
    alive(run, 2, 2, ("agent", 1))
    run.call("wake", 2)
    run.call("dispose", 1)
    run.settle()
    assert ("agent/disposed", 1) not in run.trace
    run.call("rest", 2)
    run.settle()
    assert run.told.endswith("a-2 s-2 a-1 s-1")


def test_r61_a_parent_is_disposed_while_its_tool_creates_a_child() -> None:
    run = Run()
    alive(run, 1)
    run.call("wake", 1)
    create(run, 2, 2, ("agent", 1))
    run.call("dispose", 1)
    run.settle()
    assert not run.of("reject"), "the scope unwinds only when the parent is idle"
    run.call("rest", 1)
    run.settle()
    assert run.of("reject") == [("reject", 2, "owner")]
    assert create(run, 3, 2, ("agent", 1)) == ("reject", 3, "inactive-owner")
    assert run.empty


def test_r62_and_r63_resumes_of_one_id() -> None:
    run = Run()
    create(run, 1, verb="resume")
    create(run, 2, verb="resume")
    run.answer("load", 1, "loaded")
    assert not run.may("load", 2, "loaded"), "the second waits for the outcome of the first"
    run.answer("setup", 1, "settles")
    run.answer("load", 2, "loaded")
    run.settle()
    assert run.of("resolve", "reject") == [("resolve", 1), ("reject", 2, "live")]
    assert create(run, 3, verb="resume") == ("reject", 3, "live")


def test_r63_the_second_resume_goes_on_when_the_first_fails() -> None:
    run = Run()
    create(run, 1, verb="resume")
    create(run, 2, verb="resume")
    run.answer("load", 1, "loaded")
    run.answer("setup", 1, "throws")
    run.settle("load")
    run.answer("load", 2, "loaded")
    run.answer("setup", 2, "settles")
    assert run.of("resolve", "reject") == [("reject", 1, "setup"), ("resolve", 2)]


def test_r64_persistence_vetoes_a_fresh_create_of_a_reserved_id() -> None:
    run = Run(listeners={("session/created", 2): [("escape", "session/created", 2)]})
    create(run, 1, verb="resume")
    run.answer("load", 1, "loaded")
    alive(run, 2)
    run.settle("setup")
    run.answer("setup", 1, "settles")
    assert run.told == "s+2 s-2 s+1 a+1 ss1"


def test_r65_a_retry_during_a_load_that_never_settles() -> None:
    run = Run(callers=3)
    create(run, 1, verb="resume")
    run.call("unload", 2)
    run.answer("tick", 2, "done")
    create(run, 2, owner=("fiber", 3), verb="resume")
    run.answer("load", 2, "loaded")
    run.answer("setup", 2, "settles")
    run.settle()
    assert run.of("resolve", "reject") == [("resolve", 2), ("reject", 1, "owner")]


def test_r71_the_agents_service_waits_for_runs() -> None:
    run = Run()
    alive(run, 1)
    run.call("wake", 1)
    run.call("unload", 0)
    run.settle()
    assert not run.of("unloaded")
    run.call("rest", 1)
    run.settle()
    assert run.of("unloaded") == [("unloaded", 1), ("unloaded", 0)]


def test_r72_an_idle_agent_woken_in_the_closing_window() -> None:
    run = Run()
    alive(run, 1)
    run.call("unload", 0)
    assert run.call("wake", 1) == ("raise", "initiator-closed")
    run.settle()
    assert ("unloaded", 0) in run.trace
    run = Run("dsh-0.1")
    alive(run, 1)
    run.call("unload", 0)
    assert run.call("wake", 1) == ("raise", "initiator-closed")
    run.settle()
    assert not run.of("unloaded"), "the published defect"


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
def test_r75_a_failing_dispatch_of_agent_disposed(profile: str) -> None:
    listeners = {("agent/disposed", 1): [("escape", "agent/disposed", 1)]}
    run = Run(profile, listeners=listeners)  # type: ignore[arg-type]
    alive(run, 1)
    run.call("dispose", 1)
    run.settle()
    if profile == "seed":
        assert run.told == "s+1 a+1 ss1 a-1 s-1"
        assert run.empty
    else:
        assert run.trace[-1] == ("gone", 1, "rejected")
        assert [entry.object for entry in run.config.core.sessions] == [1]


def test_r76_a_wake_after_the_end() -> None:
    for profile, outcome in (("seed", ("raise", "disposed")), ("dsh-0.1", ("return", None))):
        run = Run(profile)  # type: ignore[arg-type]
        alive(run, 1)
        run.call("dispose", 1)
        run.settle()
        assert run.call("wake", 1) == outcome
        assert bool(run.of("ghost")) == (profile == "dsh-0.1")


def test_k42_one_failing_cleanup_leaves_nothing_behind() -> None:
    """A cleanup that throws is answered like one that does not; a failed disposal dispatch stops no other teardown."""
    run = Run(listeners={("agent/disposed", 1): [("escape", "agent/disposed", 1)]})
    alive(run, 1)
    alive(run, 2, 2)
    run.call("unload", 2)
    run.settle()
    assert run.told == "s+1 a+1 ss1 s+2 a+2 ss2 a-1 s-1 a-2 s-2"
    assert run.empty


def test_k44_live_here_is_told_from_stored() -> None:
    run = Run()
    alive(run, 1)
    assert create(run, 2, verb="resume") == ("reject", 2, "live")
    assert create(run, 3) == ("reject", 3, "session-exists")
    assert run.told == "s+1 a+1 ss1"
    run.call("dispose", 1)
    run.settle()
    create(run, 4, verb="resume")
    run.answer("load", 4, "loaded")
    run.answer("setup", 4, "settles")
    assert run.of("resolve") == [("resolve", 1), ("resolve", 4)]
