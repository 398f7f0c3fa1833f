"""The race catalogue of creation on the harness, second part: the way out (creation 17, R-33 to R-76)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.creation.stage import MODEL, USER, Gate, Stage, Veto, outcome, quiet, stage

from loopharness.creation.promise import Promise
from loopharness.model.scripted import tool_calls
from loopharness.session import Session
from loopharness.tools.registry import define_tool
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

EXISTS = 'session "a" already exists'
SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
GONE = 'agent "a" is disposed'
CLOSED = "agent initiator scope is disposed"


def tool(st: Stage, body: Any) -> None:
    """A tool `act` for every agent."""
    st.harness.tools.register(define_tool("act", "Acts.", SCHEMA, body), st.harness.context)


@pytest.mark.parametrize("first", ["handle", "owner", "provider"])
@pytest.mark.parametrize("then", ["handle", "owner", "provider"])
async def test_r33_to_r36_every_owner_joins(first: str, then: str) -> None:
    async with stage() as st:
        unwind, plugin = Gate(), st.plugin()
        handle = await st.live(owner=plugin, setup=st.composing(unwind=unwind))

        def end(who: str) -> Promise[None]:
            if who == "handle":
                return handle.dispose()
            return st.agents.unload(plugin if who == "owner" else st.agents.provider)

        one = end(first)
        await unwind.reached()
        other = end(then)
        await quiet()
        assert not one.settled
        assert not other.settled, "every owner waits for the one end (N-2)"
        unwind.open()
        await one
        await other
        assert st.told == "s+a a+a ssa ua a-a s-a"


async def test_r37_and_r43_a_tool_that_ignores_its_signal_and_one_that_disposes() -> None:
    async with stage(tool_calls(("c1", "act", {}))) as st:
        gate = Gate()
        ends: list[Promise[None]] = []

        async def act(_: Any) -> str:
            ends.append(handle.dispose())  # asked for, not awaited (C-REE-1)
            await gate.enter()
            return "done"

        tool(st, act)
        handle = await st.live()
        handle.agent.followup("x")
        await gate.reached()
        await quiet()
        assert not ends[0].settled
        gate.open()
        await ends[0]
        assert st.told == "s+a a+a ssa Ta ta:disposed ua a-a s-a"
        types = [event["type"] for event in handle.agent.session.events]
        assert "tool/result" in types


async def test_r38_a_wake_while_disposing_starts_nothing() -> None:
    gate = Gate()
    async with stage([gate]) as st:
        handle = await st.live()
        handle.agent.followup("x")
        await gate.reached()
        end = handle.dispose()
        handle.agent.followup("late")
        gate.open()
        await end
        assert st.told == "s+a a+a ssa Ta ta:disposed ua a-a s-a"
        assert [m["content"][0]["text"] for m in handle.agent.inbox.next_turn] == ["late"], "parked"


async def test_r39_dispose_from_the_running_notification() -> None:
    async with stage() as st:
        handle = await st.live()
        ends: list[Promise[None]] = []
        st.at("a running", lambda: ends.append(handle.dispose()))
        handle.agent.followup("x")
        await ends[0]
        assert "Ta" not in st.heard
        assert not handle.agent.inbox.has_pending
        assert st.statuses == ["a running", "a idle"]


async def test_r40_replacement_runs_are_drained_too() -> None:
    gate = Gate()
    async with stage([gate]) as st:
        handle = await st.live()
        handle.agent.followup("x")
        await gate.reached()
        again = iter(range(3))
        st.harness.context.on(
            "agent/status",
            lambda p: p["agent"].followup("again") if p["status"] == "idle" and next(again, None) is not None else None,
        )
        end = handle.dispose()
        gate.open()
        await end
        assert st.told == "s+a a+a ssa Ta ta:disposed" + " Ta ta:completed" * 3 + " ua a-a s-a"
        length = len(handle.agent.session.events)
        with pytest.raises(RuntimeError, match=GONE):
            handle.agent.followup("late")
        assert len(handle.agent.session.events) == length


async def test_r41_user_cancel_then_dispose() -> None:
    gate = Gate()
    async with stage([gate]) as st:
        handle = await st.live()
        handle.agent.followup("x")
        await gate.reached()
        handle.agent.cancel(USER)
        end = handle.dispose()
        gate.open()
        await end
        assert st.told == "s+a a+a ssa Ta ta:user ua a-a s-a"


async def test_r42_dispose_during_maintenance_that_ignores_its_signal() -> None:
    async with stage() as st:
        gate = Gate()
        handle = await st.live()

        async def job(signal: Any) -> object:
            await gate.enter()
            return signal.reason

        ticket = handle.agent.run_maintenance(job)
        await gate.reached()
        handle.agent.inject("pending")
        end = handle.dispose()
        await quiet()
        assert not end.settled
        gate.open()
        assert await ticket == {"kind": "disposed"}
        await end
        assert st.told == "s+a a+a ssa ua a-a s-a"
        assert st.statuses == []
        assert not handle.agent.inbox.has_pending


@pytest.mark.parametrize("by", ["tool", "maintenance"])
async def test_r44_awaiting_the_own_end_never_ends(by: str) -> None:
    async with stage(tool_calls(("c1", "act", {}))) as st:
        handle = await st.live()

        async def act(_: Any) -> str:
            await handle.dispose()
            return "never"

        tool(st, act)
        if by == "tool":
            handle.agent.followup("x")
        else:
            handle.agent.run_maintenance(act)
        await quiet()
        assert st.agents.get("a") is handle.agent, "waits for itself: a contract violation (N-9)"
        st.harness._group.cancel_scope.cancel()


@pytest.mark.parametrize("mine", [True, False])
async def test_r45_setup_awaits_the_unload_of_its_owner_or_provider(mine: bool) -> None:
    async with stage() as st:
        plugin = st.plugin()

        async def setup(_: Any) -> None:
            await st.agents.unload(plugin if mine else st.agents.provider)
            st.mark("resumed")

        text = 'agent "a" setup aborted: owner disposed during setup' if mine else "agent loop is not active"
        assert await outcome(st.agents.create("a", MODEL, owner=plugin, setup=setup)) == text
        await quiet()
        assert st.told == "resumed"
        assert st.clean()


@pytest.mark.parametrize("mark", ["s+a", "a+a"])
@pytest.mark.parametrize("now", [False, True])
async def test_r46_r47_and_r56_a_throwing_creation_listener(mark: str, now: bool) -> None:
    async with stage() as st:
        veto = Veto("no")
        st.at(mark, st.throw(veto))
        late: list[object] = []
        st.harness.context.on("session/created" if mark == "s+a" else "agent/created", late.append)
        with pytest.raises(Veto) as caught:  # noqa: PT012
            if now:
                st.agents.create_now("a", MODEL)
            else:
                await st.agents.create("a", MODEL)
        assert caught.value is veto
        assert late == [], "later listeners are starved"
        if now:
            with pytest.raises(ValueError, match=EXISTS):
                st.agents.create_now("a", MODEL)
            await quiet()
        assert st.told == ("s+a s-a" if mark == "s+a" else "s+a a+a a-a s-a")
        assert st.clean()
        await st.agents.create("a", MODEL)


async def test_r48_a_late_rejection_vetoes_where_listeners_are_awaited() -> None:
    for profile, told in (("seed", "s+a a+a ssa"), ("dsh-0.1.7", "s+a a+a a-a s-a")):
        async with stage(profile=profile) as st:  # type: ignore[arg-type]

            async def reject(_: Any) -> None:
                raise Veto("late")

            st.harness.context.on("agent/created", reject)
            assert await outcome(st.agents.create("a", MODEL)) == ("live" if profile == "seed" else "late")
            assert st.told == told


async def test_r49_a_throwing_start_notice_vetoes_nothing() -> None:
    async with stage() as st:
        st.at("ssa", st.throw())
        assert await outcome(st.agents.create("a", MODEL)) == "live"


async def test_r50_and_r51_withdrawing_and_announcing_again_inside_the_dispatch() -> None:
    async with stage() as st:
        session = Session({"type": "session", "version": 4, "id": "a", "createdAt": 0})
        sessions = st.harness.sessions
        detach = sessions.enter(session)
        seen: list[object] = []

        def act() -> None:
            detach()
            seen.append(sessions.get("a"))
            with pytest.raises(RuntimeError, match='session "a" was already announced'):
                sessions.announce(session)

        st.at("s+a", act)
        sessions.announce(session)
        assert seen == [session]
        assert st.told == "s+a s-a"
        assert st.clean()
        with pytest.raises(RuntimeError, match='session "a" is not live in this store'):
            sessions.announce(session)
        live = await st.live()
        with pytest.raises(RuntimeError, match='agent "a" was already announced'):
            st.agents.announce(live.agent)


async def test_r52_a_detach_waits_for_an_append() -> None:
    async with stage() as st:
        session = Session({"type": "session", "version": 4, "id": "a", "createdAt": 0})
        detach = st.harness.sessions.enter(session)
        st.harness.sessions.announce(session)
        seen: list[object] = []
        st.harness.context.on("session/event", lambda *_: detach())
        st.harness.context.on("session/event", lambda *_: seen.append(st.harness.sessions.get("a")))
        session.append("note", {})
        assert seen == [session], "published to all"
        assert st.told == "s+a s-a"
        session.append("note", {})
        assert len(seen) == 1


async def test_r53_a_stale_disposer() -> None:
    async with stage() as st:
        header = {"type": "session", "version": 4, "id": "a", "createdAt": 0}
        detach = st.harness.sessions.enter(Session(header))
        detach()
        other = Session(header)
        st.harness.sessions.enter(other)
        detach()
        assert st.harness.sessions.get("a") is other


async def test_r54_and_r55_the_same_id_inside_the_disposal_events() -> None:
    async with stage() as st:
        handle = await st.live()
        refused: list[str] = []

        def too_early() -> None:
            try:
                st.agents.create_now("a", MODEL)
            except ValueError as error:
                refused.append(str(error))

        st.at("a-a", too_early)
        made: list[object] = []
        st.at("s-a", lambda: made.append(st.agents.create_now("a", MODEL)))
        await handle.dispose()
        assert refused == [EXISTS]
        assert st.told == "s+a a+a ssa ua a-a s-a s+a a+a ssa"
        assert st.agents.list() == made


@pytest.mark.parametrize("mark", ["s+a", "a+a", "ssa", "setup"])
@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
async def test_r57_to_r59_a_wake_before_publication(mark: str, profile: Profile) -> None:
    async with stage(profile=profile) as st:

        def wake() -> None:
            agent = st.agents.get("a")
            assert agent is not None
            agent.followup("early")
            agent.followup("second")

        def setup(ctx: Any) -> None:
            if mark == "setup":
                ctx.agent.followup("early")

        st.at(mark, wake)
        handle = await st.agents.create("a", MODEL, setup=setup)
        await handle.agent.when_idle()
        if profile == "seed":
            runs = " Ta ta:completed" * (1 if mark == "setup" else 2)
            assert st.told == f"s+a a+a ssa{runs}", "the first turn opens after the start was told (N-1)"
        elif mark != "setup":
            assert st.heard[st.heard.index(mark) + 1] == "Ta", "published loops start at once"


async def test_r60_a_parent_is_disposed_while_its_child_runs() -> None:
    gate = Gate()
    async with stage([gate]) as st:
        parent = await st.live("p")
        child = await st.live("c", owner=parent.agent.ctx)
        assert st.agents.roots() == (parent.agent,)
        assert st.agents.is_owned_by("c", parent.agent)
        child.agent.followup("x")
        await gate.reached()
        end = parent.dispose()
        await quiet()
        gate.open()
        await end
        assert st.told == "s+p a+p ssp s+c a+c ssc Tc tc:disposed uc a-c s-c up a-p s-p"


@pytest.mark.parametrize("awaited", [True, False])
async def test_r61_a_parent_is_disposed_while_its_tool_creates_a_child(awaited: bool) -> None:
    async with stage(tool_calls(("c1", "act", {}))) as st:
        parent, gate = await st.live("p"), Gate()
        calls: list[Any] = []

        async def act(_: Any) -> str:
            calls.append(st.agents.create("c", MODEL, owner=parent.agent.ctx, setup=st.composing(gate)))
            if awaited:
                await calls[0]
            return "done"

        tool(st, act)
        parent.agent.followup("x")
        await gate.reached()
        end = parent.dispose()
        await quiet()
        if awaited:
            assert not end.settled, "drains until the create settles"
            gate.open()
            await end
            assert st.told == "s+p a+p ssp Tp s+c a+c ssc tp:disposed uc a-c s-c up a-p s-p"
        else:
            await end
            assert await outcome(calls[0]) == 'agent "c" setup aborted: owner disposed during setup'
            assert "s+c" not in st.heard
        assert await outcome(st.agents.create("c", MODEL, owner=parent.agent.ctx)) == (
            "cannot create effect on inactive context"
        )


# -- resumes ------------------------------------------------------------------------------------------------------


async def stored(root: Path, id: str = "a") -> None:
    """A stored session of one turn."""
    async with stage(sessions_root=root) as st:
        handle = await st.agents.create(id, MODEL, meta={"cwd": "/workspace"})
        handle.agent.followup("x")
        await handle.agent.when_idle()


def held(st: Stage) -> Gate:
    """A gate in front of every load; the result of the load is there when it opens."""
    gate, persistence = Gate(), st.harness.persistence
    assert persistence is not None
    plain = persistence.open

    async def slow(session_id: str, version: int) -> Any:
        await gate.enter()
        return await plain(session_id, version)

    persistence.open = slow  # type: ignore[method-assign]
    return gate


async def test_r07_a_resume_with_an_aborted_signal_leaves_the_backend_alone(tmp_path: Path) -> None:
    from loopharness.signal import AbortController

    await stored(tmp_path)
    async with stage(sessions_root=tmp_path) as st:
        gate, controller = held(st), AbortController()
        controller.abort("enough")
        assert await outcome(st.agents.resume("a", signal=controller.signal)) == 'agent "a" creation aborted'
        assert gate.arrived == 0


@pytest.mark.parametrize("mine", [True, False])
async def test_r27_r65_and_r66_unload_during_a_load(tmp_path: Path, mine: bool) -> None:
    await stored(tmp_path)
    async with stage(sessions_root=tmp_path) as st:
        gate, plugin = held(st), st.plugin()
        call = st.agents.resume("a", MODEL, owner=plugin)
        first = st.start(lambda: outcome(call))
        await gate.reached()
        await st.agents.unload(plugin if mine else st.agents.provider)
        assert st.clean(), "a load that never settles holds nobody up"
        again = st.start(lambda: outcome(st.agents.resume("a", MODEL))) if mine else None
        gate.open()
        assert await first == (
            'agent "a" setup aborted: owner disposed during setup' if mine else "agent loop is not active"
        )
        if again is not None:
            assert await again == "live"
            assert st.told == "s+a a+a ssa"
        else:
            assert st.told == ""


async def test_r62_and_k44_resume_of_a_live_id(tmp_path: Path) -> None:
    async with stage(sessions_root=tmp_path) as st:
        handle = await st.agents.create("a", MODEL, meta={"cwd": "/workspace"})
        handle.agent.followup("x")
        await handle.agent.when_idle()
        length = len(handle.agent.session.events)
        assert await outcome(st.agents.resume("a", MODEL)) == 'cannot prepare session "a" while it is live'
        assert await outcome(st.agents.create("a", MODEL)) == EXISTS
        assert len(handle.agent.session.events) == length
        await handle.dispose()
        assert await outcome(st.agents.resume("a", MODEL)) == "live"
        assert await outcome(st.agents.resume("nobody", MODEL)) == 'session "nobody" not found'


@pytest.mark.parametrize("fails", [False, True])
async def test_r63_two_resumes_of_one_id(tmp_path: Path, fails: bool) -> None:
    await stored(tmp_path)
    async with stage(sessions_root=tmp_path) as st:
        gate = Gate()
        setup = st.composing(gate, then=Veto("no") if fails else None)
        first = st.start(lambda: outcome(st.agents.resume("a", MODEL, setup=setup)))
        await gate.reached()
        second = st.start(lambda: outcome(st.agents.resume("a", MODEL)))
        await quiet()
        assert not second.settled, "waits for the outcome of the first"
        gate.open()
        live = 'cannot prepare session "a" while it is live'
        assert (await first, await second) == (("no", "live") if fails else ("live", live))


async def test_r64_a_fresh_create_racing_a_reserved_resume_loses(tmp_path: Path) -> None:
    await stored(tmp_path)
    async with stage(sessions_root=tmp_path) as st:
        gate = Gate()
        resume = st.start(lambda: outcome(st.agents.resume("a", MODEL, setup=st.composing(gate))))
        await gate.reached()
        with pytest.raises(ValueError, match="persisted state already owns this identity"):
            st.agents.create_now("a", MODEL)
        await quiet()
        assert st.told == "s-a", "the store hears of it first, vetoes it, and starves the others"
        create = st.start(lambda: outcome(st.agents.create("a", MODEL)))
        await quiet()
        assert not create.settled, "a create waits for the reservation, to lose in any case"
        gate.open()
        assert await resume == "live"
        assert await create == EXISTS
        assert st.told == "s-a s+a a+a ssa"


# -- the agents service -------------------------------------------------------------------------------------------


async def test_r71_the_agents_service_waits_for_runs() -> None:
    async with stage(tool_calls(("c1", "act", {}))) as st:
        gate = Gate()
        read: list[object] = []

        async def act(_: Any) -> str:
            await gate.enter()
            read.append(st.agents.current_initiator())
            return "done"

        tool(st, act)
        handle = await st.live()
        handle.agent.followup("x")
        await gate.reached()
        unload = st.agents.unload(st.agents.service)
        await quiet()
        assert not unload.settled
        gate.open()
        await unload
        assert read == [handle.agent]
        with pytest.raises(RuntimeError, match=CLOSED):
            st.agents.current_initiator()
        assert st.told == "s+a a+a ssa Ta ta:disposed ua a-a s-a"


async def test_r72_an_idle_agent_woken_in_the_closing_window() -> None:
    async with stage() as st:
        handle = await st.live()
        unload = st.agents.unload(st.agents.service)
        with pytest.raises(RuntimeError, match=CLOSED):
            handle.agent.followup("x")
        assert handle.agent.status == "idle"
        assert not handle.agent.inbox.has_pending
        await unload


async def test_r73_an_unload_from_inside_a_boundary_that_awaits_it() -> None:
    async with stage() as st:
        handle, gate = await st.live(), Gate()

        async def other() -> None:
            await gate.enter()

        async def inside() -> None:
            await st.agents.unload(st.agents.service)

        unrelated = st.start(lambda: st.agents.with_initiator(handle.agent, other))
        await gate.reached()
        own = st.start(lambda: st.agents.with_initiator(handle.agent, inside))
        await quiet()
        assert not own.settled, "the unrelated boundary is drained"
        gate.open()
        await own
        await unrelated


@pytest.mark.parametrize("event", ["session/created", "agent/created"])
async def test_r74_instrumentation_throws_on_a_creation_event(event: str) -> None:
    async with stage() as st:

        def watch(mode: str, name: str, *_: Any) -> None:
            if name == event:
                raise Veto("watched")

        st.harness.context.on("internal/dispatch", watch)
        assert await outcome(st.agents.create("a", MODEL)) == "watched"
        assert st.told == ("s-a" if event == "session/created" else "s+a a-a s-a")
        assert st.clean()


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
async def test_r75_instrumentation_throws_on_agent_disposed(profile: Profile) -> None:
    async with stage(profile=profile) as st:
        handle = await st.live()

        def watch(mode: str, name: str, *_: Any) -> None:
            if name == "agent/disposed":
                raise Veto("watched")

        stop = st.harness.context.on("internal/dispatch", watch)
        if profile == "seed":
            await handle.dispose()
            assert st.told == "s+a a+a ssa ua s-a"
        else:
            with pytest.raises(Veto):
                await handle.dispose()
            assert st.harness.sessions.get("a") is not None, "the published defect"
        stop()


async def test_r76_driving_verbs_after_the_end() -> None:
    async with stage() as st:
        handle = await st.live()
        await handle.dispose()
        length = len(handle.agent.session.events)
        for verb in (handle.agent.followup, handle.agent.steer, handle.agent.inject):
            with pytest.raises(RuntimeError, match=GONE):
                verb("x")
        assert len(handle.agent.session.events) == length
        with pytest.raises(RuntimeError, match="cannot create effect on inactive context"):
            handle.agent.ctx.on("session/event", print)


async def test_k42_one_failing_cleanup_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    async with stage() as st:
        plugin, unwind = st.plugin("own"), Gate()

        def setup(ctx: Any) -> None:
            async def cleanup() -> None:
                await unwind.enter()
                raise Veto("cleanup failed")

            ctx.effect(cleanup, "bad")

        await st.live("a", owner=plugin, setup=setup)
        await st.live("b", owner=plugin)
        unload = st.agents.unload(plugin)
        await unwind.reached()
        unwind.open()
        await unload
        assert sorted(st.heard[6:]) == ["a-a", "a-b", "s-a", "s-b", "ub"]
        assert "cleanup failed" in caplog.text
        await st.live("a")
        await st.live("b")


async def test_a_harness_that_is_left_while_a_child_unwinds_comes_to_its_end() -> None:
    """Nobody answers any more then; clean-up work that cannot be cancelled waits for no answer."""
    unwind = Gate()
    with anyio.CancelScope() as left:
        async with stage() as st:
            parent = await st.live()
            await st.agents.create("b", MODEL, owner=parent.agent.ctx, setup=st.composing(unwind=unwind))
            ended = parent.dispose()
            await unwind.reached()
            unwind.open()
            left.cancel()
    assert left.cancelled_caught, "who leaves is not kept, and nothing else is raised"
    assert st.told == "s+a a+a ssa s+b a+b ssb ub ua", "both scopes were taken back, the child's first"
    assert ended.settled
