"""Scopes, owners and clean-ups (C-SCP-*, C-TDN-7, C-TDN-16, C-DSP-8)."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest
from tests.harness.trace import Next, Trace, raiser

from loopharness.bus import AgentEvents, Bus, Context
from loopharness.gate import Gate

pytestmark = pytest.mark.anyio

# -- scopes ------------------------------------------------------------------------------------------------------


def test_c_scp_3_a_scoped_listener_hears_its_own_key_and_keys_below_it(bus: Bus) -> None:
    heard = Trace()
    parent, child, other = object(), object(), object()
    bus.link(child, parent)
    bus.root.on("x", heard.note("untagged"))
    bus.root.scope(parent).on("x", heard.note("parent"))
    bus.root.scope(child).on("x", heard.note("child"))
    bus.root.scope(other).on("x", heard.note("other"))
    bus.root.scope(other).on("x", heard.note("everywhere"), everywhere=True)

    def who(key: object | None) -> list[Any]:
        heard.clear()
        bus.emit("x", key=key)
        return list(heard)

    assert who(None) == ["untagged", "everywhere"]
    assert who(parent) == ["untagged", "parent", "everywhere"]
    assert who(child) == ["untagged", "parent", "child", "everywhere"]
    assert who(other) == ["untagged", "other", "everywhere"]


def test_c_scp_1_the_nearest_tag_wins(bus: Bus) -> None:
    outer, inner = object(), object()
    scoped = bus.root.scope(outer)
    assert scoped.child("derived").key is outer
    assert scoped.scope(inner).child("derived").key is inner
    assert bus.root.child("plain").key is None


def test_c_scp_4_a_parent_is_bound_once_and_never_in_a_circle(bus: Bus) -> None:
    a, b, c, binder = object(), object(), object(), object()
    bus.link(a, b, binder)
    with pytest.raises(ValueError, match="already bound"):
        bus.link(a, c)
    with pytest.raises(ValueError, match="already bound"):
        bus.link(a, c, object())
    bus.link(a, c, binder)
    assert bus.chain(a) == (c, a)
    with pytest.raises(ValueError, match="its own ancestor"):
        bus.link(c, a)
    with pytest.raises(ValueError, match="its own ancestor"):
        bus.link(b, b)
    assert bus.chain(None) == ()
    bus.unlink(a)
    assert bus.chain(a) == (a,)


def test_chain_is_farthest_first(bus: Bus) -> None:
    a, b, c = object(), object(), object()
    bus.link(a, b)
    bus.link(b, c)
    assert bus.chain(a) == (c, b, a)


async def test_c_scp_5_agent_events_inject_the_agent_and_its_scope(bus: Bus) -> None:
    heard = Trace()
    agent, key = object(), object()
    events = AgentEvents(bus, agent, key)
    scoped = bus.root.scope(key)
    for name in ("agent/status", "agent/turn-stopping"):
        scoped.on(name, heard.note(name))
    bus.root.scope(object()).on("agent/status", heard.note("foreign"))

    async def pre_step(payload: dict[str, Any], next: Next) -> Any:
        heard.append(("pre-step", payload["agent"], payload["turn"]))
        return await next()

    scoped.on("agent/pre-step", pre_step)
    events.emit("agent/status", {"status": "idle", "agent": "forged"})
    await events.serial("agent/turn-stopping", {"turn": 1})
    assert await events.waterfall("agent/pre-step", {"turn": 2}, base=lambda: "enter") == "enter"
    assert heard == [
        ("agent/status", {"status": "idle", "agent": agent}),
        ("agent/turn-stopping", {"turn": 1, "agent": agent}),
        ("pre-step", agent, 2),
    ]


# -- owners and disposers ----------------------------------------------------------------------------------------


async def test_c_tdn_7_a_context_unwinds_newest_first_and_waits(bus: Bus) -> None:
    trace = Trace()
    context = bus.root.child("plugin")
    gate = Gate()

    async def slow() -> None:
        trace.append("slow begins")
        await gate.enter()
        trace.append("slow ends")

    context.effect(trace.note("first"))
    context.effect(slow)
    context.effect(trace.note("last"))
    async with anyio.create_task_group() as group:
        group.start_soon(context.dispose)
        await gate.reached()
        assert trace == ["last", "slow begins"]
        gate.open()
    assert trace == ["last", "slow begins", "slow ends", "first"]


async def test_c_tdn_7_failing_cleanups_are_logged_and_stop_nothing(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    trace = Trace()
    context = bus.root.child("plugin")

    async def rejects() -> None:
        raise ValueError("rejected")

    context.effect(trace.note("first"))
    context.effect(rejects, "the slow part")
    context.effect(raiser(ValueError("thrown")))
    with caplog.at_level(logging.WARNING):
        await context.dispose()
    assert trace == ["first"]
    assert "thrown" in caplog.text
    assert "plugin: clean-up of the slow part threw: rejected" in caplog.text


async def test_c_tdn_16_nothing_can_be_registered_on_an_inactive_context(bus: Bus) -> None:
    context = bus.root.child("plugin")
    refused = Trace()

    def late() -> None:
        with pytest.raises(RuntimeError, match="cannot create effect on inactive context"):
            context.effect(lambda: None)
        with pytest.raises(RuntimeError, match="cannot create effect on inactive context"):
            context.on("x", lambda: None)
        refused.append("refused twice")

    context.effect(late)
    await context.dispose()
    late()
    assert refused == ["refused twice"] * 2
    assert not bus.has("x")


async def test_c_scp_2_dispose_is_memoised_and_everyone_waits(bus: Bus) -> None:
    trace = Trace()
    context = bus.root.scope(object())
    gate = Gate()

    async def slow() -> None:
        await gate.enter()
        trace.append("unwound")

    context.effect(slow)

    async def disposer(name: str) -> None:
        await context.dispose()
        trace.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(disposer, "one")
        await gate.reached()
        group.start_soon(disposer, "two")
        group.start_soon(disposer, "three")
        await anyio.wait_all_tasks_blocked()
        assert trace == []
        gate.open()
    await context.dispose()
    assert trace[0] == "unwound"
    assert sorted(trace[1:]) == ["one", "three", "two"]
    assert gate.passed == 1


async def test_c_dsp_8_an_owner_joins_a_cleanup_in_progress(bus: Bus) -> None:
    trace = Trace()
    context = bus.root.child("plugin")
    gate = Gate()

    async def slow() -> None:
        await gate.enter()
        trace.append("cleaned")

    effect = context.effect(slow)

    async def owner() -> None:
        await context.dispose()
        trace.append("owner done")

    async with anyio.create_task_group() as group:
        group.start_soon(effect.dispose)
        await gate.reached()
        group.start_soon(owner)
        await anyio.wait_all_tasks_blocked()
        assert trace == []
        gate.open()
    assert trace == ["cleaned", "owner done"]
    assert gate.passed == 1


async def test_children_end_with_their_parent_and_may_end_before(bus: Bus) -> None:
    trace = Trace()
    parent = bus.root.child("parent")
    parent.effect(trace.note("parent early"))
    first, second = parent.child("first"), parent.scope(object(), "second")
    for context in (first, second):
        context.effect(trace.note(context.label))
        context.on("x", trace.note("heard"))
    parent.effect(trace.note("parent late"))
    await first.dispose()
    assert trace == ["first"]
    assert parent.active
    await parent.dispose()
    assert trace == ["first", "parent late", "second", "parent early"]
    assert not second.active
    assert not bus.has("x")


async def test_the_root_can_be_disposed(bus: Bus) -> None:
    trace = Trace()
    bus.root.effect(trace.note("root"))
    bus.root.child("plugin").effect(trace.note("plugin"))
    await bus.root.dispose()
    await bus.root.dispose()
    assert trace == ["plugin", "root"]


async def test_cleanups_survive_the_cancellation_of_the_task_that_asked(bus: Bus) -> None:
    trace = Trace()
    context = bus.root.child("plugin")
    gate = Gate()

    async def slow() -> None:
        await gate.enter()
        trace.append("cleaned")

    context.effect(trace.note("older"))
    context.effect(slow)
    async with anyio.create_task_group() as group:
        scope = anyio.CancelScope()

        async def cancelled() -> None:
            with scope:
                await context.dispose()

        group.start_soon(cancelled)
        await gate.reached()
        scope.cancel()
        gate.open()
    assert trace == ["cleaned", "older"]


async def test_an_asynchronous_cleanup_cannot_be_called_like_a_function(bus: Bus) -> None:
    trace = Trace()
    context = bus.root.child("plugin")

    async def slow() -> None:
        trace.append("cleaned")

    effect = context.effect(slow, "slow part")
    with pytest.raises(TypeError, match="await its dispose"):
        effect()
    assert trace == []
    await context.dispose()
    assert trace == ["cleaned"]


async def test_what_is_taken_back_early_is_forgotten(bus: Bus) -> None:
    trace = Trace()
    context = bus.root.child("plugin")
    effect = context.effect(trace.note("effect"))
    remove = context.on("x", trace.note("heard"))
    assert len(context._effects) == 2
    effect()
    remove()
    assert len(context._effects) == 0
    await context.dispose()
    effect()
    await effect.dispose()
    assert trace == ["effect"]


async def test_a_cleanup_that_throws_when_called_leaves_nothing_to_do(bus: Bus) -> None:
    context = bus.root.child("plugin")
    effect = context.effect(raiser(ValueError("broken")))
    with pytest.raises(ValueError, match="broken"):
        effect()
    effect()
    await context.dispose()
    assert len(context._effects) == 0


def test_contexts_dispatch_in_their_scope(bus: Bus) -> None:
    heard = Trace()
    key = object()
    context: Context = bus.root.scope(key)
    context.on("x", heard.note("own"))
    context.emit("x")
    bus.root.emit("x")
    assert heard == ["own"]
