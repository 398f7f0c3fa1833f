"""The session log: one append at a time, nothing half done (L-LOG-1 to L-LOG-4, S-EVT-*, C-REGS-*)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from loopharness.bus import Bus
from loopharness.frozen import FrozenDict, NotJsonError, dumps, freeze, is_frozen, thaw
from loopharness.gate import Gate
from loopharness.session import Session, SessionDataError, Sessions, wall_clock
from loopspec.surface import SurfaceError

pytestmark = pytest.mark.anyio


def clock() -> Any:
    """A clock that counts: 100, 101, …"""
    ticks: Iterator[int] = iter(range(100, 10_000))
    return lambda: next(ticks)


def user(id: str, text: str = "hi") -> dict[str, Any]:
    """A user message."""
    return {"id": id, "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}}


@pytest.fixture
def store(bus: Bus) -> Sessions:
    """A store on the bus."""
    return Sessions(bus)


@pytest.fixture
def session(store: Sessions) -> Session:
    """An entered session."""
    made = Session({"id": "s"}, now=clock())
    store.enter(made)
    return made


# -- one append --------------------------------------------------------------------------------------------------


def test_l_log_1_events_are_numbered_from_zero_and_have_exactly_their_keys(session: Session) -> None:
    session.append("turn/start", {"turn": 1})
    session.append("user/message", user("m"), "append")
    session.append("user/message", user("n"), {"op": "replace", "startSeq": 1, "endSeq": 1}, [1])
    assert [thaw(event) for event in session.events] == [
        {"type": "turn/start", "seq": 0, "time": 100, "data": {"turn": 1}},
        {"type": "user/message", "seq": 1, "time": 101, "data": user("m"), "surfaceOp": "append"},
        {
            "type": "user/message",
            "seq": 2,
            "time": 102,
            "data": user("n"),
            "sourceEventSeqs": [1],
            "surfaceOp": {"op": "replace", "startSeq": 1, "endSeq": 1},
        },
    ]
    assert list(session.events[2]) == ["type", "seq", "time", "data", "sourceEventSeqs", "surfaceOp"]  # S-ENV-7


def test_s_evt_4_an_event_is_frozen_and_detached(session: Session) -> None:
    mine = {"turn": 1, "list": [1]}
    event = session.append("x", mine)
    mine["list"] = []
    assert thaw(event["data"]) == {"turn": 1, "list": [1]}
    assert is_frozen(event)
    assert is_frozen(event["data"])
    assert event is session.events[0]


def test_s_evt_4_frozen_data_is_shared_not_copied(session: Session) -> None:
    data = freeze({"turn": 1})
    assert session.append("x", data)["data"] is data


@pytest.mark.parametrize("data", [{"x": float("nan")}, {"x": -0.0}, {1: 2}, {"x": {1}}, {"x": object()}])
def test_l_log_4_data_that_is_not_json_is_refused_without_a_trace(bus: Bus, session: Session, data: Any) -> None:
    heard: list[object] = []
    bus.root.on("session/event", lambda s, e: heard.append(e))
    with pytest.raises(SessionDataError) as caught:
        session.append("a/b", data)
    assert str(caught.value) == 'session event "a/b" carries non-JSON-serializable data'
    assert isinstance(caught.value.__cause__, NotJsonError)
    assert len(session.events) == 0
    assert heard == []
    assert session.append("a/b", {})["seq"] == 0


def test_s_evt_5_observers_run_after_the_event_is_in_the_log(bus: Bus, session: Session) -> None:
    seen: list[Any] = []

    def observer(subject: Session, event: FrozenDict) -> None:
        seen.append((subject is session, event is session.events[-1], len(session.messages)))

    bus.root.on("session/event", observer)
    session.append("user/message", user("m"), "append")
    assert seen == [(True, True, 1)]


def test_l_log_2_a_failing_observer_is_contained(bus: Bus, session: Session, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[object] = []

    def broken(subject: Session, event: FrozenDict) -> None:
        raise ValueError("broken observer")

    bus.root.on("session/event", broken)
    bus.root.on("session/event", lambda s, e: heard.append(e["seq"]))
    with caplog.at_level(logging.WARNING):
        session.append("x", {})
    assert heard == [0]
    assert 'agent event "session/event" listener threw: broken observer' in caplog.text


def test_l_log_2_a_veto_leaves_no_trace(bus: Bus, session: Session) -> None:
    heard: list[object] = []
    proposed: list[Any] = []

    def veto(mode: str, name: str, args: tuple[Any, ...], key: object) -> None:
        proposed.append((mode, name, args[1]["type"], args[1]["seq"], len(session.events)))
        if args[1]["type"] == "user/message":
            raise PermissionError("not this one")

    bus.root.on("session/event", lambda s, e: heard.append(e["seq"]))
    remove = bus.root.on("internal/dispatch", veto)
    session.append("x", {})
    with pytest.raises(PermissionError, match="not this one"):
        session.append("user/message", user("m"), "append")
    assert len(session.events) == 1
    assert list(session.messages) == []
    assert session.last("user/message") is None
    remove()
    assert session.append("user/message", user("n"), "append")["seq"] == 1
    assert heard == [0, 1]
    assert proposed == [("emit", "session/event", "x", 0, 0), ("emit", "session/event", "user/message", 1, 1)]


# -- re-entry ----------------------------------------------------------------------------------------------------


def test_l_log_3_an_observer_cannot_append_to_the_same_session(
    bus: Bus, session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[str] = []

    def observer(subject: Session, event: FrozenDict) -> None:
        assert session.publishing
        try:
            session.append("nested", {})
        except RuntimeError as error:
            refused.append(str(error))
            raise

    bus.root.on("session/event", observer)
    with caplog.at_level(logging.WARNING):
        session.append("outer", {})
    assert refused == ["session append cannot reenter while another append is being published"]
    assert refused[0] in caplog.text
    assert [event["type"] for event in session.events] == ["outer"]
    assert not session.publishing
    session.append("after", {})
    assert len(session.events) == 2


def test_l_log_3_it_may_append_to_another_session(bus: Bus, store: Sessions, session: Session) -> None:
    other = Session({"id": "other"})
    store.enter(other)

    def observer(subject: Session, event: FrozenDict) -> None:
        if subject is session:
            other.append("echo", {})

    bus.root.on("session/event", observer)
    session.append("x", {})
    assert len(other.events) == 1


def test_l_log_3_instrumentation_cannot_append_either(bus: Bus, session: Session) -> None:
    bus.root.on("session/event", lambda s, e: None)
    bus.root.on("internal/dispatch", lambda *args: session.append("nested", {}))
    with pytest.raises(RuntimeError, match="cannot reenter"):
        session.append("outer", {})
    assert len(session.events) == 0
    assert not session.publishing


def test_c_regs_10_bad_data_is_reported_before_re_entry(bus: Bus, session: Session) -> None:
    seen: list[type[BaseException]] = []

    def observer(subject: Session, event: FrozenDict) -> None:
        try:
            session.append("nested", {"x": float("nan")})
        except Exception as error:
            seen.append(type(error))

    bus.root.on("session/event", observer)
    session.append("outer", {})
    assert seen == [SessionDataError]


# -- folds -------------------------------------------------------------------------------------------------------


def test_s_sur_1_a_surface_event_without_operation_is_refused(session: Session) -> None:
    with pytest.raises(SurfaceError, match="requires a surfaceOp"):
        session.append("user/message", user("m"))
    with pytest.raises(SurfaceError, match="not surface-eligible"):
        session.append("turn/start", {"turn": 1}, "append")
    with pytest.raises(SurfaceError, match="not surface-eligible"):
        session.append("turn/start", {"turn": 1}, source_event_seqs=[0])
    assert len(session.events) == 0
    assert not session.publishing


def test_malformed_surface_data_is_refused_without_a_trace(session: Session) -> None:
    session.append("user/message", user("m"), "append")
    with pytest.raises((KeyError, TypeError)):
        session.append("assistant/message", {"turn": 1, "step": 1}, "append")
    assert len(session.events) == 1
    assert len(session.messages) == 1
    assert session.append("user/message", user("n"), "append")["seq"] == 1
    assert len(session.messages) == 2


def test_rc_12_an_empty_source_list_is_written(bus: Bus) -> None:
    session = Session({"id": "s"}, dialect="v0")
    message = {"id": "a", "role": "assistant", "content": [], "source": {"kind": "model"}}
    event = session.append("assistant/message", {"turn": 1, "step": 1, "message": message}, "append", [])
    assert dumps(event["sourceEventSeqs"]) == "[]"


def test_s_sur_12_a_view_of_the_messages_never_changes(session: Session) -> None:
    session.append("user/message", user("a"), "append")
    session.append("user/message", user("b"), "append")
    before = session.messages
    events = session.events
    session.append("user/message", user("c"), "append")
    session.append("user/message", user("d"), {"op": "replace", "startSeq": 0, "endSeq": 1}, [0, 1])
    assert [m["id"] for m in before] == ["a", "b"]
    assert [m["id"] for m in session.messages] == ["d", "c"]
    assert len(events) == 2
    assert before[0] is events[0]["data"]


def test_l_ph_6_last_turn_is_the_last_opened_one(session: Session) -> None:
    assert session.last_turn == 0
    session.append("turn/start", {"turn": 1})
    session.append("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    session.append("turn/start", {"turn": 2})
    assert session.last_turn == 2


def test_s_req_4_the_latest_header_counts(session: Session) -> None:
    assert session.header_record is None
    for model in ("a", "b"):
        session.append("request/header", {"header": {"config": {"provider": "p", "model": model}}, "reason": "change"})
    session.append("x", {})
    assert thaw(session.header_record) == {"config": {"provider": "p", "model": "b"}}
    session.append(
        "request/header", {"header": {"config": {"provider": "p", "model": "c"}, "tools": []}, "reason": "change"}
    )
    assert thaw(session.header_record) == {"config": {"provider": "p", "model": "c"}}  # S-REQ-2


def test_l_ctx_4_a_logged_snapshot_is_retained_until_it_is_replaced(session: Session) -> None:
    kinds = [session.retained.kind]
    snapshot = {**user("m", "where we are"), "source": {"kind": "runtime-context", "form": "snapshot", "sections": []}}
    session.append("user/message", snapshot, "append")
    assert session.retained.text == "where we are"
    session.append("user/message", user("n"), {"op": "replace", "startSeq": 0, "endSeq": 0}, [0])
    kinds.append(session.retained.kind)
    assert kinds == ["never", "none"]


def test_a_log_taken_up_again_folds_alike_and_publishes_nothing(bus: Bus, store: Sessions, session: Session) -> None:
    session.append("turn/start", {"turn": 7})
    session.append("user/message", user("m"), "append")
    heard: list[object] = []
    bus.root.on("session/event", lambda s, e: heard.append(e))
    again = Session({"id": "again"}, events=session.events)
    store.enter(again)
    assert heard == []
    assert again.last_turn == 7
    assert again.messages == session.messages
    assert again.append("x", {})["seq"] == 2
    assert len(session.events) == 2
    with pytest.raises(ValueError, match="has seq 1"):
        Session({"id": "gap"}, events=session.events[1:])


def test_the_wall_clock_counts_milliseconds() -> None:
    first, second = wall_clock(), wall_clock()
    assert type(first) is int
    assert 1_500_000_000_000 < first <= second


# -- the store ---------------------------------------------------------------------------------------------------


def test_c_regs_2_one_id_and_one_store(bus: Bus, store: Sessions, session: Session) -> None:
    with pytest.raises(ValueError, match='session "s" already exists'):
        store.enter(Session({"id": "s"}))
    with pytest.raises(ValueError, match='session "s" is already attached to a store'):
        Sessions(bus).enter(session)
    other = Session({"id": "t"})
    store.enter(other)
    assert store.get("s") is session
    assert store.get("nobody") is None
    assert store.list() == [session, other]


def test_c_regs_4_announced_once_and_only_while_live(bus: Bus, store: Sessions) -> None:
    heard: list[object] = []
    bus.root.on("session/created", heard.append)
    session = Session({"id": "s"})
    with pytest.raises(ValueError, match='session "s" is not live in this store'):
        store.announce(session)
    detach = store.enter(session)
    store.announce(session)
    with pytest.raises(ValueError, match='session "s" was already announced'):
        store.announce(session)
    assert heard == [session]
    detach()
    with pytest.raises(ValueError, match='session "s" is not live in this store'):
        store.announce(session)


def test_c_regs_6_after_detach_the_log_grows_unheard(bus: Bus, store: Sessions) -> None:
    heard: list[Any] = []
    bus.root.on("session/event", lambda s, e: heard.append(e["seq"]))
    bus.root.on("session/disposed", lambda s: heard.append(("disposed", store.get("s"))))
    session = Session({"id": "s"})
    detach = store.enter(session)
    store.announce(session)
    session.append("x", {})
    detach()
    detach()
    assert session.append("y", {})["seq"] == 1
    assert heard == [0, ("disposed", None)]
    store.enter(Session({"id": "s"}))  # the id is free again
    detach()
    assert store.get("s") is not None


def test_a_session_never_announced_leaves_silently(bus: Bus, store: Sessions) -> None:
    heard: list[object] = []
    bus.root.on("session/disposed", heard.append)
    store.enter(Session({"id": "s"}))()
    assert heard == []


def test_c_regs_5_detach_waits_for_the_append_and_for_the_announcement(bus: Bus, store: Sessions) -> None:
    trace: list[Any] = []
    session = Session({"id": "s"})
    detach = store.enter(session)

    def created(subject: Session) -> None:
        detach()
        trace.append(("created", store.get("s") is session))

    bus.root.on("session/created", created)
    bus.root.on("session/disposed", lambda s: trace.append("disposed"))
    store.announce(session)
    assert trace == [("created", True), "disposed"]

    trace.clear()
    second = Session({"id": "s"})
    detach_second = store.enter(second)

    def observer(subject: Session, event: FrozenDict) -> None:
        detach_second()
        trace.append(("event", store.get("s") is second))

    bus.root.on("session/event", observer)
    bus.root.on("session/event", lambda s, e: trace.append("second observer"))
    second.append("x", {})
    assert trace == [("event", True), "second observer"]
    assert store.get("s") is None


def test_c_regs_7_instrumentation_cannot_keep_a_session(
    bus: Bus, store: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    session = Session({"id": "s"})
    detach = store.enter(session)
    store.announce(session)

    def objects(*args: object) -> None:
        raise ValueError("objection")

    bus.root.on("internal/dispatch", objects)
    with caplog.at_level(logging.WARNING):
        detach()
    assert store.get("s") is None
    assert 'session "s": session/disposed dispatch threw: objection' in caplog.text


def test_c_regs_3_the_scope_of_entry_decides_who_hears(bus: Bus, store: Sessions) -> None:
    heard: list[Any] = []
    scoped, foreign = bus.root.scope(object()), bus.root.scope(object())
    for name, context in (("own", scoped), ("foreign", foreign), ("root", bus.root)):
        context.on("session/event", lambda s, e, name=name: heard.append(name))
    session = Session({"id": "s"})
    store.enter(session, scoped)
    session.append("x", {})
    assert heard == ["own", "root"]


async def test_c_regs_8_flush_waits_for_all_and_raises_the_first(bus: Bus, store: Sessions, session: Session) -> None:
    assert await store.flush(session) is False
    gate = Gate()
    done: list[bool] = []

    async def writer(subject: Session) -> None:
        await gate.enter()

    remove = bus.root.on("session/flush", writer)

    async def flush() -> None:
        done.append(await store.flush(session))

    async with anyio.create_task_group() as group:
        group.start_soon(flush)
        await gate.reached()
        assert done == []
        gate.open()
    assert done == [True]
    remove()

    def broken(subject: Session) -> None:
        raise OSError("disk full")

    bus.root.on("session/flush", broken)
    with pytest.raises(OSError, match="disk full"):
        await store.flush(session)
    with pytest.raises(ValueError, match='session "t" is not live in this store'):
        await store.flush(Session({"id": "t"}))
