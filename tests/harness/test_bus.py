"""The dispatch modes and their failures (C-DSP-*, RC-09)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from tests.harness.trace import Next, Trace, raiser

from loopharness.bus import Bus
from loopharness.gate import Gate

pytestmark = pytest.mark.anyio

# -- emit --------------------------------------------------------------------------------------------------------


def test_c_dsp_4_emit_runs_every_listener_and_logs_failures(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    heard = Trace()
    bus.root.on("agent/status", heard.note("a"))
    bus.root.on("agent/status", raiser(ValueError("no good")))
    bus.root.on("agent/status", heard.note("b"))
    with caplog.at_level(logging.WARNING):
        bus.emit("agent/status", 1)
    assert heard == [("a", 1), ("b", 1)]
    assert 'agent event "agent/status" listener threw: no good' in caplog.text


def test_emit_names_another_subject_in_its_warning(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    bus.root.on("session/disposed", raiser(ValueError("no good")))
    with caplog.at_level(logging.WARNING):
        bus.emit("session/disposed", subject='session "s": session/disposed')
    assert 'session "s": session/disposed listener threw: no good' in caplog.text


def test_an_asynchronous_listener_of_emit_is_reported(bus: Bus, caplog: pytest.LogCaptureFixture) -> None:
    heard = Trace()

    async def listener() -> None:
        heard.append("ran")

    bus.root.on("x", listener)
    bus.root.on("x", heard.note("after"))
    with caplog.at_level(logging.WARNING):
        bus.emit("x")
    assert heard == ["after"]
    assert "nothing waits for this event" in caplog.text


def test_rc_09_c_dsp_1_emit_works_on_a_snapshot(bus: Bus) -> None:
    heard = Trace()

    def first() -> None:
        heard.append("first")
        remove()
        bus.root.on("x", heard.note("added"))

    bus.root.on("x", first)
    remove = bus.root.on("x", heard.note("removed"))
    bus.emit("x")
    assert heard == ["first", "removed"]
    heard.clear()
    bus.emit("x")
    assert heard == ["first", "added"]


def test_prepend_puts_a_listener_before_all_others(bus: Bus) -> None:
    heard = Trace()
    bus.root.on("x", heard.note("a"))
    bus.root.on("x", heard.note("b"))
    bus.root.on("x", heard.note("p"), prepend=True)
    bus.emit("x")
    assert heard == ["p", "a", "b"]


def test_a_disposer_takes_off_its_own_listener_once(bus: Bus) -> None:
    heard = Trace()
    listener = heard.note("same")
    remove = bus.root.on("x", listener)
    bus.root.on("x", listener)
    remove()
    remove()
    bus.emit("x")
    assert heard == ["same"]


def test_has_says_whether_a_dispatch_could_be_seen(bus: Bus) -> None:
    assert not bus.has("x")
    remove = bus.root.on("x", lambda: None)
    assert bus.has("x")
    remove()
    assert not bus.has("x")
    bus.root.on("internal/dispatch", lambda *args: None)
    assert bus.has("x")


# -- announce, bail ----------------------------------------------------------------------------------------------


def test_c_dsp_5_announce_stops_at_the_first_failure(bus: Bus) -> None:
    heard = Trace()
    bus.root.on("session/created", heard.note("a"))
    bus.root.on("session/created", raiser(ValueError("no")))
    bus.root.on("session/created", heard.note("b"))
    with pytest.raises(ValueError, match="no"):
        bus.announce("session/created")
    assert heard == ["a"]


@pytest.mark.parametrize(("answer", "stops"), [(None, False), (False, False), (0, True), ("", True), (True, True)])
async def test_c_dsp_3_bail_and_serial_stop_at_the_first_answer(bus: Bus, answer: Any, stops: bool) -> None:
    heard = Trace()

    def listener() -> Any:
        heard.append("a")
        return answer

    async def asynchronous() -> Any:
        return listener()

    bus.root.on("sync", listener)
    bus.root.on("sync", heard.note("b"))
    bus.root.on("async", asynchronous)
    bus.root.on("async", heard.note("b"))
    expected = ["a"] if stops else ["a", "b"]
    result = answer if stops else None
    assert bus.bail("sync") is result
    assert heard == expected
    heard.clear()
    assert await bus.serial("async") is result
    assert heard == expected


# -- serial, parallel --------------------------------------------------------------------------------------------


async def test_l_turn_13_serial_awaits_one_after_another(bus: Bus) -> None:
    heard = Trace()
    gate = Gate()

    async def slow() -> None:
        heard.append("slow begins")
        await gate.enter()
        heard.append("slow ends")

    bus.root.on("agent/turn-stopping", slow)
    bus.root.on("agent/turn-stopping", heard.note("second"))
    async with anyio.create_task_group() as group:
        group.start_soon(bus.serial, "agent/turn-stopping")
        await gate.reached()
        assert heard == ["slow begins"]
        gate.open()
    assert heard == ["slow begins", "slow ends", "second"]


async def test_c_dsp_3_a_serial_failure_escapes_and_stops_the_rest(bus: Bus) -> None:
    heard = Trace()
    bus.root.on("x", raiser(ValueError("no")))
    bus.root.on("x", heard.note("b"))
    with pytest.raises(ValueError, match="no"):
        await bus.serial("x")
    assert heard == []


async def test_c_regs_8_parallel_starts_all_waits_for_all_and_raises_in_listener_order(bus: Bus) -> None:
    heard = Trace()
    gate = Gate()

    async def slow_failure() -> None:
        await gate.enter()
        heard.append("slow")
        raise ValueError("slow failure")

    bus.root.on("x", slow_failure)
    bus.root.on("x", raiser(ValueError("quick failure")))

    async def opener() -> None:
        heard.append("opener")
        gate.open()

    bus.root.on("x", opener)
    with pytest.raises(ExceptionGroup) as caught:
        await bus.parallel("x")
    assert [str(error) for error in caught.value.exceptions] == ["slow failure", "quick failure"]
    assert heard == ["opener", "slow"]


async def test_parallel_counts_who_took_part(bus: Bus) -> None:
    assert await bus.parallel("x") == 0
    bus.root.on("x", lambda: None)
    assert await bus.parallel("x") == 1


# -- waterfall ---------------------------------------------------------------------------------------------------


async def test_rc_09_the_first_registered_listener_is_outermost(bus: Bus) -> None:
    heard = Trace()

    def layer(name: str) -> Callable[[str, Next], Awaitable[str]]:
        async def listener(value: str, next: Next) -> str:
            heard.append(f"{name} in")
            inner = await next()
            heard.append(f"{name} out")
            return f"{name}({inner})"

        return listener

    bus.root.on("w", layer("a"))
    bus.root.on("w", layer("b"))
    bus.root.on("w", layer("p"), prepend=True)

    async def base() -> str:
        heard.append("base")
        return "base"

    assert await bus.waterfall("w", "value", base=base) == "p(a(b(base)))"
    assert heard == ["p in", "a in", "b in", "base", "b out", "a out", "p out"]


async def test_not_calling_next_short_circuits(bus: Bus) -> None:
    heard = Trace()
    bus.root.on("w", lambda next: "mine")
    bus.root.on("w", heard.note("inner"))
    assert await bus.waterfall("w", base=heard.note("base")) == "mine"
    assert heard == []


async def test_c_dsp_3_an_inner_failure_can_be_caught_outside(bus: Bus) -> None:
    async def careful(next: Next) -> str:
        try:
            await next()
        except ValueError as error:
            return f"caught {error}"
        return "nothing"

    bus.root.on("w", careful)
    bus.root.on("w", raiser(ValueError("inner")))
    assert await bus.waterfall("w", base=lambda: "base") == "caught inner"


async def test_c_dsp_6_a_second_next_goes_on_where_the_list_stands(bus: Bus) -> None:
    heard = Trace()

    async def twice(next: Next) -> list[Any]:
        return [await next(), await next(), await next()]

    async def inner(next: Next) -> str:
        heard.append("inner")
        return f"inner({await next()})"

    bus.root.on("w", twice)
    bus.root.on("w", inner)
    assert await bus.waterfall("w", base=lambda: "base") == ["inner(base)", "base", "base"]
    assert heard == ["inner"]


async def test_rc_09_a_waterfall_works_on_a_snapshot(bus: Bus) -> None:
    async def meddler(next: Next) -> str:
        remove()
        bus.root.on("w", lambda next: "added")
        return f"meddler({await next()})"

    async def removed(next: Next) -> str:
        return f"removed({await next()})"

    bus.root.on("w", meddler)
    remove = bus.root.on("w", removed)
    assert await bus.waterfall("w", base=lambda: "base") == "meddler(removed(base))"


async def test_a_waterfall_without_listeners_is_its_base(bus: Bus) -> None:
    async def base() -> str:
        return "base"

    assert await bus.waterfall("w", base=base) == "base"
    assert await bus.waterfall("w", base=lambda: "plain") == "plain"


def test_m_433_wrap_nests_without_awaiting(bus: Bus) -> None:
    bus.root.on("llm/stream", lambda request, next: f"outer({next()})")
    bus.root.on("llm/stream", lambda request, next: f"inner({next()})")
    assert bus.wrap("llm/stream", {}, base=lambda: "base") == "outer(inner(base))"
    assert bus.wrap("other", {}, base=lambda: "base") == "base"


# -- instrumentation ---------------------------------------------------------------------------------------------


async def test_c_dsp_2_instrumentation_sees_every_dispatch_and_can_refuse_it(bus: Bus) -> None:
    seen = Trace()
    heard = Trace()
    key = object()

    def watch(mode: str, name: str, args: tuple[Any, ...], receiver: object) -> None:
        seen.append((mode, name, args, receiver))
        if name == "forbidden":
            raise PermissionError("not this one")

    bus.root.on("internal/dispatch", watch)
    for name in ("allowed", "forbidden"):
        bus.root.on(name, heard.note(name))
    bus.emit("allowed", 1, key=key)
    for dispatch in (bus.emit, bus.announce, bus.bail):
        with pytest.raises(PermissionError, match="not this one"):
            dispatch("forbidden", 2)
    for awaited in (bus.serial, bus.parallel):
        with pytest.raises(PermissionError, match="not this one"):
            await awaited("forbidden", 2)
    with pytest.raises(PermissionError, match="not this one"):
        await bus.waterfall("forbidden", base=heard.note("base"))
    assert heard == [("allowed", 1)]
    assert seen[0] == ("emit", "allowed", (1,), key)
    assert [mode for mode, *_ in seen[1:]] == ["emit", "announce", "bail", "serial", "parallel", "waterfall"]


def test_c_dsp_2_internal_dispatches_are_not_instrumented(bus: Bus) -> None:
    heard = Trace()
    bus.root.on("internal/dispatch", lambda *args: heard.append(args))
    bus.emit("internal/other")
    bus.emit("internal/dispatch", "by hand")
    assert heard == [("by hand",)]
