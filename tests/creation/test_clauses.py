"""Clauses of creation that stand in no race: the event table, scopes, ids, and what a fork and a repair leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from tests.creation.stage import MODEL, USER, Gate, Stage, outcome, quiet, stage

from loopharness.agents import AgentLoop
from loopharness.carriers import CarrierError, install
from loopharness.model.scripted import fail, text
from loopharness.session import Session
from loopharness.signal import AbortController
from loopharness.store.resume import fork
from loopspec.log.repair import repair

pytestmark = pytest.mark.anyio

EXISTS = 'session "a" already exists'

# --- events --------------------------------------------------------------------------------------------------

OWN, SESSION = "agent", "session"
EVENTS: dict[str, tuple[str, str]] = {
    "session/created": ("announce", SESSION),
    "session/event": ("emit", "session event"),
    "session/flush": ("parallel", SESSION),
    "session/disposed": ("emit", SESSION),
    "agent/created": ("announce", OWN),
    "agent/session-start": ("emit", f"{OWN} source"),
    "agent/status": ("emit", f"{OWN} status"),
    "agent/inbox/inserted": ("emit", f"{OWN} message"),
    "agent/inbox/claimed": ("emit", f"{OWN} message turn"),
    "agent/inbox/discarded": ("emit", f"{OWN} message"),
    "agent/pre-step": ("waterfall", f"{OWN} messages signal step turn"),
    "agent/request": ("waterfall", f"{OWN} signal step turn"),
    "agent/request-error": ("waterfall", f"{OWN} failure provider retryPolicy signal step turn"),
    "agent/turn-stopping": ("serial", f"{OWN} signal turn"),
    "agent/error": ("emit", f"{OWN} error step turn"),
    "agent/disposed": ("emit", OWN),
}
"""The table of C-EVT-1: how each event is dispatched, and what it carries."""
CONTAINED = tuple(name for name, (mode, _) in EVENTS.items() if mode == "emit")

Dispatch = tuple[str, str, tuple[Any, ...], object]


@contextmanager
def watched(st: Stage) -> Iterator[list[Dispatch]]:
    """Every dispatch as `(mode, name, arguments, key)`, before it is delivered."""
    seen: list[Dispatch] = []
    stop = st.harness.context.on(
        "internal/dispatch", lambda mode, name, arguments, key: seen.append((mode, name, arguments, key))
    )
    yield seen
    stop()


async def a_life(st: Stage) -> Any:
    """A turn that ends well and one that fails, a flush, a message that is discarded, and the end."""
    handle = await st.agents.create("a", MODEL)
    agent = handle.agent
    for words in ("x", "y"):
        agent.followup(words)
        await agent.when_idle()
    await st.harness.sessions.flush(agent.session)
    agent.inject({"id": "m", "role": "user", "content": [], "source": USER})
    await handle.dispose()
    return agent


def carried(arguments: tuple[Any, ...]) -> str:
    """What a dispatch carries: the names in its payload, or what stands at each position."""
    if isinstance(arguments[0], Mapping):
        return " ".join(("agent", *sorted(set(arguments[0]) - {"agent"})))
    return " ".join("session" if isinstance(argument, Session) else "event" for argument in arguments)


async def test_the_event_table() -> None:
    """C-EVT-1  Name, mode, payload; and the agent's own scope hears every one of them, another agent's none."""
    async with stage(text("one"), fail(code="AUTH")) as st:
        other = (await st.live("b")).agent
        strange: list[str] = []
        for name in EVENTS:
            if name not in ("agent/pre-step", "agent/request", "agent/request-error"):
                other.ctx.on(name, lambda *_, name=name: strange.append(name))
        with watched(st) as seen:
            agent = await a_life(st)
        ours = [dispatch for dispatch in seen if dispatch[1] in EVENTS]
        assert {name: (mode, carried(arguments)) for mode, name, arguments, _ in ours} == EVENTS
        assert all(key is agent.key for *_, key in ours)
        assert all(arguments[0]["agent"] is agent for _, _, arguments, _ in ours if isinstance(arguments[0], Mapping))
        assert strange == []


async def test_a_failed_start_is_told_to_nobody_in_particular() -> None:
    """C-EVT-1  `agent-loop/config-start-failed` belongs to no scope."""
    async with stage() as st:
        st.at("s+x", st.throw())
        with watched(st) as seen:
            await st.agents.configure({"agents": [{"id": "x", "sessionId": "x", "provider": "mock", "model": "m1"}]})
        told = [(mode, args[0], key) for mode, name, args, key in seen if name == "agent-loop/config-start-failed"]
        ((mode, payload, key),) = told
        assert (mode, set(payload), key) == ("emit", {"sessionId", "error"}, None)


async def test_a_failing_notice_changes_nothing() -> None:
    """C-EVT-1, C-DSP-4  Listeners of a contained event throw: the same events in the same order, the same log."""
    lives: list[tuple[list[str], list[str]]] = []
    for failing in (False, True):
        async with stage(text("one"), fail(code="AUTH")) as st:
            if failing:
                for name in CONTAINED:
                    st.agents.on_any(name, lambda *_: st.throw()())
            with watched(st) as seen:
                agent = await a_life(st)
            log = [event["type"] for event in agent.session.events]
            lives.append(([name for _, name, _, _ in seen], log))
    assert lives[0] == lives[1]


async def test_turns_and_steps_are_records_and_no_events() -> None:
    """C-EVT-3  Whoever wants to hear of them listens to `session/event`."""
    async with stage(text("one"), fail(code="AUTH")) as st:
        with watched(st) as seen:
            await a_life(st)
        recorded = [arguments[1]["type"] for _, name, arguments, _ in seen if name == "session/event"]
        marks = ("turn/start", "step/start", "step/end", "turn/end")
        assert [type for type in recorded if type in marks] == [*marks] * 2
        assert not [name for _, name, _, _ in seen if name.endswith(marks)]


# --- scopes --------------------------------------------------------------------------------------------------


async def test_a_misdirected_event_is_refused_before_anybody_hears_it() -> None:
    """C-SCP-6  With the companion: no key, or that of another agent; what the loop itself dispatches is right."""
    async with stage(text("one"), fail(code="AUTH")) as st:
        stop = install(st.harness.context)
        await a_life(st)
        a, b = (await st.live("a")).agent, (await st.live("b")).agent
        heard: list[Any] = []
        st.agents.on_any("agent/noted", heard.append)
        for key, how in ((None, "without a scope key"), (b.key, "with the key of another scope")):
            with pytest.raises(CarrierError, match=f'^event "agent/noted" of agent "a" was dispatched {how}$'):
                st.harness.bus.emit("agent/noted", {"agent": a}, key=key)
        assert heard == []
        a.events.emit("agent/noted", {})
        stop()
        st.harness.bus.emit("agent/noted", {"agent": a})
        assert heard == [{"agent": a}] * 2


# --- ids and registries --------------------------------------------------------------------------------------


async def test_ids_that_collide_are_refused_like_any_other() -> None:
    """C-ID-3  Nobody looks whether a minted id is new: a collision is the second call's failure, and nothing else."""
    async with stage(new_id=lambda: "a") as st:
        first = await st.agents.create(None, MODEL)
        assert await outcome(st.agents.create(None, MODEL)) == EXISTS
        assert st.agents.list() == [first.agent]
        assert st.told == "s+a a+a ssa"


async def test_a_session_that_nobody_named() -> None:
    """C-ID-5  `session-<n>`, counted by each store, and no id that is live."""
    async with stage() as st, stage() as elsewhere:
        sessions = st.harness.sessions
        leave = sessions.create(Session({"type": "session", "version": 4, "id": "session-2", "createdAt": 0}))
        assert [sessions.fresh_id(), sessions.fresh_id()] == ["session-1", "session-3"]
        leave()
        assert sessions.fresh_id() == "session-4"
        assert elsewhere.harness.sessions.fresh_id() == "session-1"


async def test_a_second_loop_fails_and_the_first_stays() -> None:
    """C-FAC-5, C-FAC-1  Here it is the slot of the factory that refuses it: there is no table of services."""
    async with stage() as st:
        second = AgentLoop(st.harness, None)  # type: ignore[arg-type]
        with pytest.raises(Exception, match=r"^an agent factory is already registered$"):
            st.agents.set_factory(second)
        assert (await st.live()).agent is st.agents.get("a")


async def test_a_synchronous_create_answers_with_the_agent() -> None:
    """C-SYN-5  In the very call; a plain create answers with something to be awaited."""
    async with stage() as st:
        assert st.agents.create_now("a", MODEL) is st.agents.get("a")
        begun = st.agents.create("b", MODEL)
        assert st.agents.get("b") is None
        await begun


# --- who waits for whom --------------------------------------------------------------------------------------


async def test_an_unload_of_the_service_from_inside_a_run() -> None:
    """C-REE-4, C-REE-2  The boundary that asks is let go, the driver is not: the unload ends behind the run."""
    async with stage(text("one")) as st:
        agent, gate = (await st.live()).agent, Gate()
        unloads: list[Any] = []

        async def hold(payload: Any, following: Callable[[], Any]) -> Any:
            unloads.append(st.agents.with_initiator(agent, lambda: st.agents.unload(st.agents.service)))
            await gate.enter()
            return await following()

        st.agents.on_any("agent/pre-step", hold)
        agent.followup("x")
        await gate.reached()
        await quiet()
        (unload,) = unloads
        assert (agent.status, st.agents.get("a")) == ("running", agent)
        gate.open()
        await unload
        assert (agent.status, st.agents.get("a")) == ("idle", None)


@pytest.mark.parametrize("unloads", ["owner", "provider"])
async def test_a_teardown_waits_for_the_listeners_of_an_awaited_creation(unloads: str) -> None:
    """C-REE-5, C-EVT-2  Where `agent/created` is awaited (0.1.7), so is what listens: to await one's end hangs."""
    async with stage(profile="dsh-0.1.7") as st:
        plugin, gate = st.plugin(), Gate()

        async def held(payload: Any) -> None:
            await gate.enter()

        st.agents.on_any("agent/created", held)
        begun = st.agents.create("a", MODEL, owner=plugin)
        await gate.reached()
        over = st.agents.unload(plugin if unloads == "owner" else st.agents.provider)
        await quiet()
        assert not over.settled
        gate.open()
        assert await outcome(begun) != "live"
        await over
        assert st.clean()


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ("owner", "owner"),
        ("provider", "agent loop"),
        ("signal", "no more"),
    ],
)
async def test_a_listener_of_an_awaited_creation_hears_that_it_is_waited_for_in_vain(ends: str, words: str) -> None:
    """C-REE-5, C-EVT-2  By the signal that it is given (0.1.7), with the first reason (C-ABT-1, C-ABT-3)."""
    async with stage(profile="dsh-0.1.7") as st:
        plugin, caller, heard = st.plugin(), AbortController(), []

        async def waits(payload: Any) -> None:
            assert not payload["signal"].aborted
            heard.append(await payload["signal"].wait())

        st.agents.on_any("agent/created", waits)
        begun = st.agents.create("a", MODEL, owner=plugin, signal=caller.signal)
        await quiet()
        assert heard == []
        if ends == "signal":
            caller.abort(RuntimeError("no more"))
        else:
            st.agents.unload(plugin if ends == "owner" else st.agents.provider)
        assert await outcome(begun) != "live"
        await quiet()
        (reason,) = heard
        assert words in str(reason)
        assert st.clean()


# --- repair and fork -----------------------------------------------------------------------------------------

TURN: tuple[dict[str, Any], ...] = (
    {"type": "turn/start", "data": {"turn": 1}},
    {"type": "step/start", "data": {"turn": 1, "step": 1}},
)
ENDED: tuple[dict[str, Any], ...] = (
    {"type": "step/end", "data": {"turn": 1, "step": 1}},
    {"type": "turn/end", "data": {"turn": 1, "reason": {"kind": "completed"}}},
)
NOTE: dict[str, Any] = {"type": "plugin/note", "data": {}}
BRACKET: dict[str, Any] = {"type": "compaction/start", "data": {}}


def numbered(*events: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Events of a log, in order."""
    return [{"type": event["type"], "seq": seq, "time": 7, "data": event["data"]} for seq, event in enumerate(events)]


@pytest.mark.parametrize(
    ("events", "closers"),
    [
        ((), []),
        ((NOTE,), []),
        ((*TURN, *ENDED), []),
        ((*TURN, *ENDED, NOTE), []),
        (TURN[:1], ["turn/end"]),
        (TURN, ["step/end", "turn/end"]),
        ((*TURN, ENDED[0], NOTE), ["turn/end"]),
        ((BRACKET,), []),
        ((*TURN, *ENDED, BRACKET), []),
        ((*TURN, BRACKET), ["step/end", "turn/end"]),
    ],
)
@pytest.mark.parametrize("dialect", ["v0", "v4"])
def test_what_a_cold_log_is_given(dialect: Any, events: tuple[Any, ...], closers: list[str]) -> None:
    """C-RPR-1, C-RPR-5  Closers for the last turn if it is open; nothing else, and none for brackets of plugins."""
    added = repair(dialect, numbered(*events))
    assert [(event["type"], event["seq"]) for event in added] == [*zip(closers, range(len(events), 99), strict=False)]


@pytest.mark.parametrize("boundary", [0, 1, 3])
async def test_the_marks_of_a_fork_in_format_4(boundary: int) -> None:
    """C-FRK-6  `isSeeded` and no length in the header; a marker ends what is inherited, closers follow."""
    async with stage(session_format=4) as st:
        source = (await st.live()).agent.session
        for event in (*TURN, *ENDED):
            source.append(event["type"], event["data"])
        child = await fork(st.harness, source, boundary, "c")
        header, added = child.session.header, child.session.events[boundary + 1 :]
        assert (header["isSeeded"], "seedLength" in header, source.header["isSeeded"]) == (True, False, False)
        assert child.session.events[: boundary + 1] == source.events[: boundary + 1]
        assert (added[0]["type"], added[0]["data"]) == ("session/end-seed", {"inherited": True})
        closers = {0: ["turn/end"], 1: ["step/end", "turn/end"], 3: []}
        assert [event["type"] for event in added[1:]] == closers[boundary]
        assert all(event["data"]["reason"] == {"kind": "forked"} for event in added if event["type"] == "turn/end")
