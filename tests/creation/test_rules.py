"""Rules of creation that no race shows: inputs, setup, initiators, ownership, configured agents; each named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.creation.stage import MODEL, USER, Gate, Veto, outcome, quiet, stage

from loopharness.agent import AgentOptions
from loopharness.bus import Context
from loopharness.model.scripted import text

pytestmark = pytest.mark.anyio


def note(seq: int, data: dict[str, Any]) -> dict[str, Any]:
    """One event of a seed."""
    return {"type": "plugin/note", "seq": seq, "time": 1, "data": data}


async def test_any_string_names_an_agent() -> None:
    """C-ID-1, C-ID-2, C-ID-4  One id for both, the empty one as well; there is no second copy."""
    async with stage() as st:
        agent = (await st.live("")).agent
        assert (agent.id, agent.session.id, agent.session.header["id"]) == ("", "", "")
        assert st.agents.get("") is agent


async def test_inputs_are_as_they_were_at_the_call() -> None:
    """C-INP-1 to C-INP-3, INV-25  Seed and meta are copied and frozen; unknown keys of meta are dropped."""
    seed, meta = [note(0, {"list": [1]})], {"cwd": "/a", "nonsense": 1}
    async with stage() as st:
        begun = st.agents.create("a", MODEL, seed=seed, meta=meta)  # type: ignore[arg-type]
        seed[0]["data"]["list"].append(2)
        seed.append(note(1, {}))
        meta["cwd"] = "/b"
        session = (await begun).agent.session
        assert session.events[0]["data"] == {"list": (1,)}
        assert [event["type"] for event in session.events][:2] == ["plugin/note", "session/end-seed"]
        assert session.header["cwd"] == "/a"
        assert "nonsense" not in session.header
        with pytest.raises((TypeError, AttributeError)):
            session.events[0]["data"]["list"] = [3]


async def test_pending_input_of_a_seed_is_restored_and_wakes_nobody() -> None:
    """C-INB-2, C-INB-3, C-FRK-9, C-FRK-11"""
    message = {"id": "m", "role": "user", "content": [], "source": USER}
    data = {"target": "next-turn", "start": 0, "inserted": [message]}
    seed = [{"type": "agent/inbox/spliced", "seq": 0, "time": 1, "data": data}]
    async with stage(session_format=0) as st:
        agent = (await st.agents.create("a", MODEL, seed=seed)).agent
        await quiet()
        assert [pending["id"] for pending in agent.inbox.next_turn] == ["m"]
        assert (st.statuses, st.told) == ([], "s+a a+a ssa")


async def test_setup_runs_inside_the_call_for_its_caller() -> None:
    """C-TXN-A9, C-SET-2 to C-SET-4, C-INI-5, C-TXN-16  And nothing has been told before it ends."""
    async with stage() as st:
        parent, seen = (await st.live("p")).agent, list[Any]()

        def setup(ctx: Context) -> None:
            seen.append((ctx.agent.id, st.agents.current_initiator(), st.agents.get("c"), ctx.agent.status))
            ctx.on("session/created", lambda session: st.mark(f"own {session.id}"))

        st.heard.clear()
        begun = st.agents.with_initiator(parent, lambda: st.agents.create("c", MODEL, setup=setup))
        assert seen == [("c", parent, None, "idle")]
        assert st.heard == []
        await begun
        assert st.heard == ["s+c", "own c", "a+c", "ssc"]  # C-TXN-12: in order of registration
        assert st.statuses == []


async def test_what_setup_enters_itself_stays_behind() -> None:
    """C-SET-8  A rollback undoes what the transaction has entered, and nothing else."""
    async with stage() as st:

        def setup(ctx: Context) -> None:
            st.agents.register(ctx.agent)

        assert await outcome(st.agents.create("a", MODEL, setup=setup)) == 'agent "a" is already registered'
        assert [agent.id for agent in st.agents.list()] == ["a"]
        assert st.harness.sessions.get("a") is None


async def test_a_refused_transaction_may_have_committed_and_leaves_nothing() -> None:
    """N-5, C-TXN-B2  What commit did goes with the scope."""
    async with stage() as st:
        done: list[str] = []

        class Commits:
            def __init__(self, ctx: Context) -> None:
                self.ctx = ctx

            def commit(self) -> None:
                done.append("commit")
                self.ctx.effect(lambda: done.append("undone"), "commit")
                raise Veto("no")

        assert await outcome(st.agents.create("a", MODEL, setup=Commits)) == "no"
        assert done == ["commit", "undone"]
        assert st.clean()


async def test_a_synchronous_create_while_the_provider_unloads() -> None:
    """C-SYN-4, N-6  The call may return a live agent; then the unload ends it, and every pair is closed."""
    async with stage() as st:
        st.at("s+a", lambda: st.agents.unload(st.agents.provider))
        st.agents.create_now("a", MODEL)
        await quiet()
        assert st.heard.count("s+a") == st.heard.count("s-a") == 1
        assert st.heard.count("a+a") == st.heard.count("a-a")
        assert st.clean()


async def test_an_id_can_be_used_after_its_session_has_left() -> None:
    """LIV-3, C-ID-6, N-10  Also after a synchronous create that failed, when its rollback is over."""
    async with stage() as st:
        st.at("s+a", st.throw())
        with pytest.raises(Veto):
            st.agents.create_now("a", MODEL)
        await quiet()
        handle = await st.live()
        await handle.dispose()
        assert (await st.live()).agent is not handle.agent


async def test_who_hears_what_of_a_child() -> None:
    """C-OWN-3, C-OWN-4, C-TDN-11, INV-22, INV-29  Not its parent's scope, and a scope not its own end."""
    async with stage() as st:
        parent = (await st.live("p")).agent
        for name in ("session/created", "agent/created", "agent/disposed", "session/disposed"):
            parent.ctx.on(name, lambda payload, name=name: st.mark(f"p hears {name}"))
        child = await st.agents.create("c", MODEL, owner=parent.ctx)
        child.agent.ctx.on("agent/disposed", lambda payload: st.mark("c hears"))
        assert st.agents.roots() == (parent,)
        assert st.agents.is_owned_by("c", parent)
        assert not st.agents.is_owned_by("p", parent)
        await child.dispose()
        assert not [mark for mark in st.heard if "hears" in mark]


async def test_a_resumed_agent_has_the_owner_of_its_caller(tmp_path: Path) -> None:
    """C-RES-15, C-RES-10  The stored parent is history. C-RES-9, as V2: a stored id is refused to a fresh create."""
    async with stage(sessions_root=tmp_path) as st:
        parent = (await st.live("p")).agent
        meta: Any = {"parentSession": "p"}
        first = await st.agents.create("c", MODEL, meta=meta, owner=parent.ctx)
        first.agent.followup("x")  # an untouched session is not stored
        await first.agent.when_idle()
        await first.dispose()
        refused = await outcome(st.agents.create("c", MODEL))
        assert "already" in refused
        child = (await st.agents.resume("c", MODEL)).agent
        assert child.session.header["parentSession"] == "p"
        assert st.agents.roots() == (parent, child)


async def test_initiators_nest_and_are_restored() -> None:
    """C-INI-1 to C-INI-3, C-INI-6, C-INI-9"""
    async with stage() as st:
        agents = st.agents
        a, b = (await st.live("a")).agent, (await st.live("b")).agent
        assert agents.current_initiator() is None
        inner = agents.with_initiator(a, lambda: agents.with_initiator(b, agents.current_initiator))
        assert inner is b
        assert agents.with_initiator(a, lambda: agents.without_initiator(agents.current_initiator)) is None
        with pytest.raises(Veto):
            agents.with_initiator(a, st.throw())
        assert agents.current_initiator() is None
        later: list[Any] = []

        async def detached() -> None:
            later.append(agents.current_initiator())

        def start() -> None:
            st.group.start_soon(detached)

        agents.with_initiator(a, start)
        await quiet()
        assert later == [a]


async def test_overlapping_runs_read_their_own_agent() -> None:
    """C-INI-3, C-INI-5, INV-30"""
    async with stage() as st:
        gates = {"a": Gate(), "b": Gate()}
        seen: list[tuple[str, Any]] = []

        async def hold(payload: Any, following: Callable[[], Any]) -> Any:
            await gates[payload["agent"].id].enter()
            seen.append((payload["agent"].id, st.agents.require_initiator().id))
            return await following()

        st.agents.on_any("agent/pre-step", hold)
        both = [(await st.live(id)).agent for id in gates]
        for agent in both:
            agent.followup("x")
        for gate in gates.values():
            await gate.reached()
        for gate in reversed(gates.values()):
            gate.open()
        for agent in both:
            await agent.when_idle()
        assert sorted(seen) == [("a", "a"), ("b", "b")]


async def test_the_factory_gets_the_callers_context_and_the_slot_clears() -> None:
    """C-FAC-1, C-FAC-3, C-FAC-4  Whoever asks gets an agent of the provider's view; the owner is the one who asks."""
    async with stage() as st:
        plugin = st.plugin()
        handle = await st.agents.create("a", MODEL, owner=plugin)
        handle.agent.followup("x")
        await handle.agent.when_idle()
        await plugin.dispose()
        assert st.agents.list() == []
        await st.agents.unload(st.agents.provider)
        st.agents.set_factory(st.agents.loop)()
        st.agents.set_factory(st.agents.loop)


async def test_the_status_alternates_and_only_runs_tell_it() -> None:
    """C-EVT-4, INV-27, C-TXN-16"""
    async with stage(text("one"), text("two")) as st:
        agent = (await st.live()).agent
        for words in ("x", "y"):
            agent.followup(words)
            await agent.when_idle()
        assert st.statuses == ["a running", "a idle"] * 2


CONFIGURED: dict[str, Any] = {"id": "main", "provider": "mock", "model": "m1", "maxTokens": 5, "cwd": "/w"}


async def test_a_configured_agent_belongs_to_the_provider(tmp_path: Path) -> None:
    """C-CFG-1, C-CFG-6, C-CFG-9, C-CFG-10, C-CFG-14, C-OWN-5  Its `cwd` is for a fresh session; a resume keeps it."""
    async with stage(sessions_root=tmp_path) as st:
        await st.agents.configure({"agents": [{**CONFIGURED, "sessionId": "x"}]})
        agent = st.agents.get("x")
        assert agent is not None
        assert (agent.session.header["cwd"], agent.options) == ("/w", AgentOptions("mock", "m1", 5))
        agent.followup("x")  # an untouched session is not stored
        await agent.when_idle()
        await st.agents.unload(st.agents.provider)
        assert st.clean()
    async with stage(sessions_root=tmp_path) as st:
        await st.agents.configure({"agents": [{**CONFIGURED, "cwd": "/other", "resumeSessionId": "x"}]})
        again = st.agents.get("x")
        assert again is not None
        assert again.session.header["cwd"] == "/w"


async def test_one_failing_start_does_not_undo_the_others() -> None:
    """C-CFG-11, C-CFG-12 (as V2)  A vetoed fresh agent is reported; those that have started live on."""
    async with stage() as st:
        told: list[Any] = []
        st.harness.context.on("agent-loop/config-start-failed", lambda payload: told.append(str(payload["error"])))
        st.at("s+y", st.throw())
        entries = [{**CONFIGURED, "id": id, "sessionId": id} for id in ("x", "y", "z")]
        await st.agents.configure({"agents": entries})
        assert (sorted(agent.id for agent in st.agents.list()), told) == (["x", "z"], ["no"])


async def test_disposing_everything_at_once() -> None:
    """C-OWN-12, C-MNT-2  The harness ends with agents in mid-turn, in mid-job and in setup: nobody is left."""
    async with stage(text("x")) as st:
        gate = Gate()
        begun = st.agents.create("c", MODEL, setup=st.composing(gate))
        handle = await st.live("a")
        job = Gate()

        async def work(signal: Any) -> None:
            await job.enter()

        running = handle.agent.run_maintenance(work)
        with pytest.raises(RuntimeError, match="already has active work"):
            await handle.agent.run_maintenance(work)
        await job.reached()
        over = st.agents.unload(st.agents.provider)
        assert await outcome(begun) == "agent loop is not active"
        job.open()
        await running
        await over
        assert st.clean()
