"""The exact texts of the contract (creation 22.2, C-INP-4, C-FRK-2, C-FRK-7, C-FRK-8), row by row on a live harness."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.creation.stage import MODEL, USER, Gate, Stage, stage

from loopharness.creation.configured import read
from loopharness.session import Session
from loopharness.settings import LoopSettings
from loopharness.signal import AbortController
from loopharness.store.errors import SessionForkError
from loopharness.store.resume import fork

pytestmark = pytest.mark.anyio

Work = Callable[[Stage], Awaitable[Any]]
ROWS: list[Any] = []


def row(*texts: str) -> Callable[[Work], Work]:
    """Enter the work that must fail with one of the texts of 22.2."""

    def enter(work: Work) -> Work:
        ROWS.append(pytest.param(texts[0], work, id=texts[0]))
        return work

    return enter


@row("no agent factory registered (load an agent-loop plugin)")
async def no_factory(st: Stage) -> None:
    await st.agents.unload(st.agents.provider)
    await st.agents.create("a", MODEL)


@row("an agent factory is already registered")
async def second_factory(st: Stage) -> None:
    st.agents.set_factory(st.agents.loop)


@row("agent loop is not active")
async def provider_unloads(st: Stage) -> None:
    st.agents.unload(st.agents.provider)
    await st.agents.create("a", MODEL)


@row('agent "a" creation aborted')
async def aborted(st: Stage) -> None:
    controller = AbortController()
    controller.abort("enough")
    await st.agents.create("a", MODEL, signal=controller.signal)


@row('agent "a" setup aborted: owner disposed during setup')
async def owner_disposed(st: Stage) -> None:
    plugin, gate = st.plugin(), Gate()
    begun = st.agents.create("a", MODEL, setup=st.composing(gate), owner=plugin)
    await gate.reached()
    st.agents.unload(plugin)
    gate.open()
    await begun


@row('agent "a" lifecycle disposed')
async def torn_down(st: Stage) -> None:
    st.at("s+a", lambda: st.harness.engine.call("dispose", 1))
    await st.agents.create("a", MODEL)


@row('agent "a" is already registered')
async def registered_twice(st: Stage) -> None:
    handle = await st.live()
    st.agents.register(handle.agent)


@row('agent "a" is not live in this registry')
async def announced_after_its_end(st: Stage) -> None:
    handle = await st.live()
    await handle.dispose()
    st.agents.announce(handle.agent)


@row('agent "a" was already announced')
async def announced_twice(st: Stage) -> None:
    st.agents.announce((await st.live()).agent)


@row('agent id "b" does not match session id "a"')
async def two_names(st: Stage) -> None:
    agent = (await st.live()).agent

    class Renamed:
        id, session, key = "b", agent.session, agent.key

    st.agents.register(Renamed())  # type: ignore[arg-type]


@row('agent "a" already has active work')
async def two_jobs(st: Stage) -> None:
    agent, gate = (await st.live()).agent, Gate()

    async def job(signal: object) -> None:
        await gate.enter()

    first = agent.run_maintenance(job)
    try:
        await agent.run_maintenance(job)
    finally:
        gate.open()
        await first


@row("agent maxTokens must be a positive safe integer")
async def no_tokens(st: Stage) -> None:
    await st.agents.create("a", {"maxTokens": 0})


@row("maxParallelToolCalls must be a positive integer")
async def no_pool(st: Stage) -> None:
    LoopSettings(0)


@row('session "a" already exists')
async def created_twice(st: Stage) -> None:
    await st.live()
    await st.agents.create("a", MODEL)


def header(id: str) -> dict[str, Any]:
    """The header of a session that somebody builds."""
    return {"type": "session", "version": 4, "id": id, "createdAt": 1, "isSeeded": False, "delegationDepth": 0}


@row('session "a" is already attached to a store')
async def attached_twice(st: Stage) -> None:
    async with stage() as other:
        session = Session(header("a"), dialect="v4")
        other.harness.sessions.enter(session)
        st.harness.sessions.enter(session)


@row('session "a" is not live in this store')
async def flushed_after_its_end(st: Stage) -> None:
    handle = await st.live()
    await handle.dispose()
    await st.harness.sessions.flush(handle.agent.session)


@row('session "a" was already announced')
async def session_announced_twice(st: Stage) -> None:
    st.harness.sessions.announce((await st.live()).agent.session)


@row('session "a" not found')
async def unknown(st: Stage) -> None:
    await st.agents.resume("a", MODEL)


@row("session append cannot reenter while another append is being published")
async def reenters(st: Stage) -> None:
    session, found = (await st.live()).agent.session, list[Exception]()

    def again(*_: object) -> None:
        try:
            session.append("plugin/note", {})
        except Exception as error:
            found.append(error)

    stop = st.harness.context.on("session/event", again)
    session.append("plugin/note", {})
    stop()
    raise found[0]


@row('cannot prepare session "a" while it is live')
async def resumed_while_live(st: Stage) -> None:
    await st.live()
    await st.agents.resume("a", MODEL)


@row("invalid persisted inbox splice at session seq 0")
async def bad_splice(st: Stage) -> None:
    data = {"target": "next-turn", "start": 3, "removedCount": 1, "inserted": []}
    await st.agents.create("a", MODEL, seed=[event(0, "agent/inbox/spliced", data)])


@row('message "m" is already pending')
async def pending(st: Stage) -> None:
    agent = (await st.live()).agent
    message = {"id": "m", "role": "user", "content": [], "source": USER}
    agent.inject(message)
    agent.inject(message)


@row('agent "x": sessionId and resumeSessionId are mutually exclusive')
async def both_ids(st: Stage) -> None:
    read({"agents": [{"id": "x", "sessionId": "a", "resumeSessionId": "b"}]})


@row('agents "x" and "y" use duplicate exact session identity "a"')
async def one_identity(st: Stage) -> None:
    read({"agents": [{"id": "x", "sessionId": "a"}, {"id": "y", "resumeSessionId": "a"}]})


@row("no initiating agent is active")
async def nobody(st: Stage) -> None:
    st.agents.require_initiator()


@row("agent initiator scope is disposed")
async def closing(st: Stage) -> None:
    agent = (await st.live()).agent
    st.agents.unload(st.agents.service)
    st.agents.with_initiator(agent, lambda: None)


@row("cannot create effect on inactive context")
async def registers_too_late(st: Stage) -> None:
    handle = await st.live()
    context = handle.agent.ctx
    await handle.dispose()
    context.effect(lambda: None, "late")


@pytest.mark.parametrize(("text", "work"), ROWS)
async def test_a_text_of_the_index(text: str, work: Work, tmp_path: Path) -> None:
    async with stage(sessions_root=tmp_path) as st:
        with pytest.raises(Exception) as caught:
            await work(st)
    assert str(caught.value) == text


async def test_a_resume_without_a_store() -> None:
    text = "cannot resume: session persistence is not configured (load a dsh-session-persistence backend)"
    async with stage() as st:
        with pytest.raises(RuntimeError) as caught:
            await st.agents.resume("a", MODEL)
    assert str(caught.value) == text


# --- inputs --------------------------------------------------------------------------------------------------


def event(seq: int, type: str = "plugin/note", data: Any = None, **more: Any) -> dict[str, Any]:
    """One event of a seed."""
    return {"type": type, "seq": seq, "time": 1, "data": {} if data is None else data, **more}


def request(**config: Any) -> dict[str, Any]:
    """The data of a header record."""
    marks = {"adapterDefaults": config.pop("marks")} if "marks" in config else {}
    return {"header": {"config": {"provider": "p", "model": "m", **config}, **marks}, "reason": "initial"}


SAID = {"id": "m", "role": "user", "content": [], "source": USER}
ENVELOPE = "seed event at index 0 has an invalid event envelope"
SEEDS: tuple[tuple[str, list[Any]], ...] = (
    ("seed event at index 0 is not losslessly JSON-serializable", [event(0, data={"x": -0.0})]),
    ("seed event at index 1 is not losslessly JSON-serializable", [event(0), event(1, data={"x": object()})]),
    (ENVELOPE, [event(0, extra=1)]),
    (ENVELOPE, [{"type": "x", "seq": 0, "time": 1}]),
    (ENVELOPE, [event(0) | {"time": 1.5}]),
    (ENVELOPE, [event(-1)]),
    ("seed event at index 0 has seq 1 (expected 0); seed must be contiguous from 0", [event(1)]),
    (
        "seed event at index 0 uses unsupported legacy request/header-delta format",
        [event(0, "request/header-delta", request())],
    ),
    ("seed request/header at index 0 lacks provider/model", [event(0, "request/header", request(model=""))]),
    ("seed request/header at index 0 lacks provider/model", [event(0, "request/header", {"header": {}})]),
    (
        "seed request/header at index 0 has an invalid reasoningEffort",
        [event(0, "request/header", request(reasoningEffort=3))],
    ),
    (
        "seed request/header at index 0 has invalid adapterDefaults",
        [event(0, "request/header", request(marks={"maxTokens": True}))],
    ),
    (
        "seed request/header at index 0 has invalid adapterDefaults",
        [event(0, "request/header", request(maxTokens=5, marks={"maxTokens": 1}))],
    ),
    (
        "seed request/header at index 0 has invalid adapterDefaults",
        [event(0, "request/header", request(temperature=1, marks={"temperature": True}))],
    ),
    (
        "seed user/message at index 0 lacks an identified message",
        [event(0, "user/message", {**SAID, "id": ""}, surfaceOp="append")],
    ),
    (
        "seed assistant/message at index 0 lacks an identified message",
        [event(0, "assistant/message", {"turn": 1, "step": 1, "message": {**SAID, "content": "x"}})],
    ),
    ("seed tool/result at index 0 lacks an identified message", [event(0, "tool/result", {"message": 5})]),
)


@pytest.mark.parametrize(("text", "seed"), SEEDS, ids=lambda value: value if isinstance(value, str) else "")
async def test_a_seed_is_refused_in_these_words(text: str, seed: list[Any]) -> None:
    """And leaves no trace: the id can be used at once (C-SYN-2, F3)."""
    for session_format in (0, 4):
        async with stage(session_format=session_format) as st:
            with pytest.raises((TypeError, ValueError)) as caught:
                await st.agents.create("a", MODEL, seed=seed)
            assert str(caught.value) == text
            await st.live()


async def test_a_seed_that_the_surface_refuses_and_one_that_is_taken() -> None:
    good = [event(0, "user/message", SAID, surfaceOp="append"), event(1, "request/header", request(maxTokens=5))]
    async with stage(session_format=0) as st:
        with pytest.raises(ValueError, match=r"^invalid seed event at index 0: "):
            await st.agents.create("a", MODEL, seed=[event(0, "user/message", SAID)])
        await st.agents.create("a", MODEL, seed=good)


META: tuple[tuple[str, dict[str, Any]], ...] = (
    ("session header cwd must be a string", {"cwd": 1}),
    ('session header cwd must be an absolute path, got "here"', {"cwd": "here"}),
    ("session header parentSession must be a string", {"parentSession": None}),
    ("session header seedLength must be a non-negative safe integer", {"seedLength": -1}),
    ('session header origin must be "subagent"', {"origin": "user"}),
    ("session header delegationDepth must be a non-negative safe integer", {"delegationDepth": True}),
    ("session header agentPreset must be a string", {"agentPreset": 0}),
)


@pytest.mark.parametrize(("text", "meta"), META, ids=[text for text, _ in META])
async def test_a_header_field_is_refused_in_these_words(text: str, meta: dict[str, Any]) -> None:
    async with stage() as st:
        with pytest.raises((TypeError, ValueError)) as caught:
            await st.agents.create("a", MODEL, meta=meta)  # type: ignore[arg-type]
        assert str(caught.value) == text


FORKS: tuple[tuple[str, str, Any, str], ...] = (
    ("SESSION_ALREADY_EXISTS", 'session "a" already exists', None, "a"),
    ("INVALID_BOUNDARY", 'fork boundary for session "a" must be a non-negative safe integer, got -1', -1, "c"),
    ("INVALID_BOUNDARY", 'fork boundary 99 does not exist in session "a" (last seq: 0)', 99, "c"),
    ("OPEN_TURN", 'fork boundary 0 in session "a" ends inside open turn 1', 0, "c"),
)


@pytest.mark.parametrize(("code", "text", "boundary", "child"), FORKS, ids=[code for code, *_ in FORKS])
async def test_a_fork_is_refused_in_these_words(code: str, text: str, boundary: Any, child: str) -> None:
    async with stage(session_format=0) as st:
        session = (await st.live()).agent.session
        session.append("turn/start", {"turn": 1})
        with pytest.raises(SessionForkError) as caught:
            await fork(st.harness, session, boundary, child)
        assert (caught.value.code, str(caught.value)) == (code, text)
