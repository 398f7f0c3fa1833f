"""The race catalogue of creation on the harness, first part: on the way in (creation 17, R-01 to R-32)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.creation.stage import MODEL, Gate, Veto, outcome, quiet, stage

from loopharness.agents import AgentHandle
from loopharness.creation.promise import Promise
from loopharness.session import Session
from loopharness.signal import AbortController

pytestmark = pytest.mark.anyio

EXISTS = 'session "a" already exists'
INACTIVE = "cannot create effect on inactive context"
OWNER = 'agent "a" setup aborted: owner disposed during setup'
PROVIDER = "agent loop is not active"


class Commit:
    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def commit(self) -> object:
        return self.act()


async def test_r01_one_of_two_concurrent_creates_wins() -> None:
    async with stage() as st:
        gates = Gate(), Gate()
        calls = [st.agents.create("a", MODEL, setup=st.composing(gate)) for gate in gates]
        await quiet()
        assert [gate.arrived for gate in gates] == [1, 1], "both may run setup"
        gates[0].open()
        winner = await calls[0]
        gates[1].open()
        st.start(lambda: outcome(calls[1]))
        assert await outcome(calls[1]) == EXISTS
        assert st.told == "s+a a+a ssa ua", "the loser's scope is unwound before its rejection, nobody hears of it"
        assert st.agents.get("a") is winner.agent


async def test_r02_entering_decides_not_calling() -> None:
    async with stage() as st:
        gates = Gate(), Gate()
        calls = [st.agents.create("a", MODEL, setup=st.composing(gate)) for gate in gates]
        gates[1].open()
        assert await outcome(calls[1]) == "live"
        gates[0].open()
        assert await outcome(calls[0]) == EXISTS


async def test_r03_a_live_id_is_refused_before_setup() -> None:
    async with stage() as st:
        live = await st.live()
        called: list[object] = []
        assert await outcome(st.agents.create("a", MODEL, setup=called.append)) == EXISTS
        assert called == []
        assert st.agents.get("a") is live.agent
        assert st.told == "s+a a+a ssa"


async def test_r04_a_draining_id_is_refused_until_its_session_is_detached() -> None:
    gate, unwind = Gate(), Gate()
    async with stage([gate]) as st:
        first = await st.live(setup=st.composing(unwind=unwind))
        first.agent.followup("x")
        await gate.reached()
        end = first.dispose()
        await quiet()
        assert await outcome(st.agents.create("a", MODEL)) == EXISTS, "draining"
        gate.open()
        await unwind.reached()
        assert await outcome(st.agents.create("a", MODEL)) == EXISTS, "the scope is still cleaning"
        unwind.open()
        await end
        assert await outcome(st.agents.create("a", MODEL)) == "live"


async def test_r05_an_id_held_by_a_custom_agent() -> None:
    """C-REGA-11  Its session stands in no store: the two registries disagree, and the rollback leaves it so."""
    async with stage() as st, stage() as elsewhere:
        custom = (await elsewhere.live()).agent
        st.agents.register(custom)
        gate = Gate()
        call = st.agents.create("a", MODEL, setup=st.composing(gate))
        await gate.reached()
        gate.open()
        assert await outcome(call) == 'agent "a" is already registered'
        assert st.told == "a+a ua"
        assert st.harness.sessions.list() == []
        assert st.agents.get("a") is custom


async def test_r06_a_session_entered_between_prepare_and_enter() -> None:
    async with stage() as st:
        gate = Gate()
        call = st.agents.create("a", MODEL, setup=st.composing(gate))
        await gate.reached()
        other = Session({"type": "session", "version": 4, "id": "a", "createdAt": 0})
        st.harness.sessions.create(other)
        gate.open()
        assert await outcome(call) == EXISTS
        assert st.told == "s+a ua"
        assert st.harness.sessions.get("a") is other


@pytest.mark.parametrize("reason", [Veto("stop"), "a word"])
async def test_r07_an_aborted_signal(reason: Any) -> None:
    async with stage() as st:
        controller = AbortController()
        controller.abort(reason)
        called: list[object] = []
        with pytest.raises(Exception) as caught:
            await st.agents.create("a", MODEL, signal=controller.signal, setup=called.append)
        if isinstance(reason, Veto):
            assert caught.value is reason
        else:
            assert str(caught.value) == 'agent "a" creation aborted'
            assert caught.value.reason == reason  # type: ignore[attr-defined]
        assert called == []
        assert st.told == ""
        assert st.clean()


async def test_r08_abort_while_the_scope_is_minted() -> None:
    async with stage() as st:
        controller, stop, called = AbortController(), Veto("stop"), list[object]()
        st.harness.context.on("internal/scope", lambda _: controller.abort(stop))
        with pytest.raises(Veto) as caught:
            await st.agents.create("a", MODEL, signal=controller.signal, setup=called.append)
        assert caught.value is stop
        assert called == []
        assert st.clean()


async def test_r09_abort_during_a_setup_that_never_settles() -> None:
    async with stage() as st:
        controller, never = AbortController(), Gate()
        call = st.agents.create("a", MODEL, signal=controller.signal, setup=st.composing(never))
        await never.reached()
        controller.abort("enough")
        assert await outcome(call) == 'agent "a" creation aborted'
        assert st.told == "ua"
        assert st.clean()


async def test_r10_setup_aborts_its_own_signal() -> None:
    async with stage() as st:
        controller = AbortController()
        setup: Any = lambda _: controller.abort("enough")  # noqa: E731
        call = st.agents.create("a", MODEL, signal=controller.signal, setup=setup)
        assert await outcome(call) == 'agent "a" creation aborted'
        assert st.told == ""


async def test_r11_abort_after_setup_settled() -> None:
    async with stage() as st:
        controller = AbortController()
        call = st.agents.create("a", MODEL, signal=controller.signal, setup=lambda _: None)
        controller.abort("enough")  # the setup has settled inside the call, nothing is published yet
        assert await outcome(call) == 'agent "a" creation aborted'
        assert st.told == ""
        assert st.clean()


async def test_r12_abort_inside_commit() -> None:
    async with stage() as st:
        controller = AbortController()
        then = Commit(lambda: controller.abort("enough"))
        call = st.agents.create("a", MODEL, signal=controller.signal, setup=st.composing(then=then))
        assert await outcome(call) == 'agent "a" creation aborted'
        assert st.told == "ua"


EVENTS = [("s+a", "s+a{} ua s-a"), ("a+a", "s+a a+a{} ua a-a s-a"), ("ssa", "s+a a+a ssa{} ua a-a s-a")]


@pytest.mark.parametrize(("mark", "told"), EVENTS)
async def test_r13_to_r15_abort_in_a_creation_listener(mark: str, told: str) -> None:
    async with stage() as st:
        controller = AbortController()
        st.at(mark, lambda: controller.abort("enough"))
        late: list[bool] = []
        name = {"s+": "session/created", "a+": "agent/created", "ss": "agent/session-start"}[mark[:2]]
        st.harness.context.on(name, lambda _: late.append(st.agents.get("a") is not None))
        call = st.agents.create("a", MODEL, signal=controller.signal, setup=st.composing())
        assert await outcome(call) == 'agent "a" creation aborted'
        assert st.told == told.format("")
        assert late == [True], "the remaining listeners run, with the agent live"
        assert st.statuses == []
        assert st.clean()


async def test_r16_abort_after_resolution() -> None:
    async with stage() as st:
        controller = AbortController()
        call = st.agents.create("a", MODEL, signal=controller.signal)
        st.at("ssa", lambda: None)
        handle = await call
        controller.abort("late")
        handle.agent.followup("x")
        await handle.agent.when_idle()
        assert st.told == "s+a a+a ssa Ta ta:completed"
        assert controller.signal._listeners is None


@pytest.mark.parametrize("mine", [True, False])
async def test_r17_and_r24_unload_while_setup_is_pending(mine: bool) -> None:
    async with stage() as st:
        gate, unwind, plugin = Gate(), Gate(), st.plugin()
        call = st.agents.create("a", MODEL, owner=plugin, setup=st.composing(gate, unwind))
        await gate.reached()
        unload = st.agents.unload(plugin if mine else st.agents.provider)
        await unwind.reached()
        await quiet()
        assert not unload.settled, "it waits for the rollback"
        assert st.agents.loop is not None
        unwind.open()
        assert await outcome(call) == (OWNER if mine else PROVIDER)
        await unload
        gate.open()
        await quiet()
        assert st.told == "ua", "the late result of the setup is ignored"
        assert st.clean()
        assert plugin.effects == () or not mine


async def test_r18_setup_resolves_in_the_tick_of_the_unload() -> None:
    async with stage() as st:
        gate, plugin = Gate(), st.plugin()
        call = st.agents.create("a", MODEL, owner=plugin, setup=st.composing(gate))
        await gate.reached()
        gate.open()
        st.agents.unload(plugin)
        assert await outcome(call) == OWNER
        assert st.told == "ua"


@pytest.mark.parametrize("mine", [True, False])
async def test_r19_and_r25_unload_while_the_scope_is_minted(mine: bool) -> None:
    async with stage() as st:
        unwind, never, plugin = Gate(), Gate(), st.plugin()
        unloads: list[Promise[None]] = []
        where = plugin if mine else st.agents.provider
        st.harness.context.on("internal/scope", lambda _: unloads.append(st.agents.unload(where)))
        call = st.agents.create("a", MODEL, owner=plugin, setup=st.composing(never, unwind))
        await unwind.reached()
        await quiet()
        assert not unloads[0].settled
        unwind.open()
        assert await outcome(call) == (OWNER if mine else PROVIDER)
        await unloads[0]
        assert st.clean()


@pytest.mark.parametrize(("mark", "told"), EVENTS)
async def test_r20_to_r22_the_lifecycle_effect_inside_a_creation_listener(mark: str, told: str) -> None:
    async with stage() as st:
        plugin = st.plugin()

        def run_the_effect() -> None:
            (effect,) = [e for e in plugin.effects if e.label == "agentLoop.lifecycle(a)"]
            st.start(effect.dispose)
            st.harness.agents._transactions._release(st.harness.engine.items[1])  # type: ignore[arg-type]

        st.at(mark, run_the_effect)
        assert await outcome(st.agents.create("a", MODEL, owner=plugin, setup=st.composing())) == OWNER
        assert st.told == told.format("")
        assert st.statuses == []
        assert st.clean()


@pytest.mark.parametrize("mark", ["s+a", "a+a", "ssa"])
@pytest.mark.parametrize("mine", [True, False])
async def test_r23_an_unload_inside_a_creation_listener(mark: str, mine: bool) -> None:
    async with stage() as st:
        plugin = st.plugin()
        unloads: list[Promise[None]] = []
        st.at(mark, lambda: unloads.append(st.agents.unload(plugin if mine else st.agents.provider)))
        assert await outcome(st.agents.create("a", MODEL, owner=plugin)) == "live", "one of two allowed (N-6)"
        await unloads[0]
        assert st.told == "s+a a+a ssa a-a s-a"
        assert st.clean()


async def test_r26_minting_throws_while_the_provider_unloads() -> None:
    async with stage() as st:
        unloads: list[Promise[None]] = []

        def mint(ctx: Any) -> None:
            unloads.append(st.agents.unload(st.agents.provider))
            ctx.effect(lambda: st.mark("cleaned"), "half built")
            raise Veto("minting")

        st.harness.context.on("internal/scope", mint)
        assert await outcome(st.agents.create("a", MODEL)) == "minting"
        await unloads[0]
        assert st.told == "cleaned"
        assert st.clean()


async def test_r28_provider_unload_in_mid_turn() -> None:
    gate = Gate()
    async with stage([gate]) as st:
        busy, idle = await st.live("a"), await st.live("b")
        busy.agent.ctx.on("session/event", lambda _, event: st.react(f"scoped {event['type']}"))
        scoped: list[str] = []
        st.at("scoped turn/end", lambda: scoped.append("turn/end"))
        busy.agent.followup("x")
        await gate.reached()
        unload = st.agents.unload(st.agents.provider)
        await quiet()
        assert "ua" not in st.heard, "the scope waits for the drain (N-3)"
        gate.open()
        await unload
        assert st.told == "s+a a+a ssa s+b a+b ssb Ta ub a-b s-b ta:disposed ua a-a s-a"
        assert scoped == ["turn/end"]
        assert idle.agent.status == "idle"


async def test_r29_and_r30_calls_at_a_closing_provider_or_owner() -> None:
    async with stage() as st:
        plugin = st.plugin()
        unload = st.agents.unload(plugin)
        assert await outcome(st.agents.create("a", MODEL, owner=plugin)) == INACTIVE
        await unload
        with pytest.raises(RuntimeError, match=INACTIVE) as caught:
            await st.agents.create("a", MODEL, owner=plugin)
        assert caught.value.code == "INACTIVE_EFFECT"  # type: ignore[attr-defined]
        provider = st.agents.unload(st.agents.provider)
        assert await outcome(st.agents.create("a", MODEL)) == PROVIDER
        await provider
        assert await outcome(st.agents.create("a", MODEL)) == (
            "no agent factory registered (load an agent-loop plugin)"
        )
        assert st.told == ""


@pytest.mark.parametrize("first", ["abort", "unload"])
async def test_r31_abort_and_unload_in_one_tick(first: str) -> None:
    async with stage() as st:
        controller, never = AbortController(), Gate()
        call = st.agents.create("a", MODEL, signal=controller.signal, setup=st.composing(never))
        await never.reached()
        if first == "abort":
            controller.abort("enough")
        st.agents.unload(st.agents.provider)
        controller.abort("enough")
        assert await outcome(call) == 'agent "a" creation aborted'


async def test_r32_disposing_twice() -> None:
    async with stage() as st:
        plugin = st.plugin()
        handle: AgentHandle = await st.live(owner=plugin)
        first, second = handle.dispose(), handle.dispose()
        assert first is second
        await first
        assert handle.dispose() is first
        await handle.dispose()
        assert st.told == "s+a a+a ssa ua a-a s-a"
        assert [e.label for e in plugin.effects] == ["agents.owner()"], "the owner effect is retired (C-OWN-2)"
