"""The cooperative signal (RC-08, L-CAN-3, L-CAN-4)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import anyio
import pytest

from loopharness.signal import AbortController, Aborted, fuse

pytestmark = pytest.mark.anyio


def test_l_can_3_first_reason_wins_and_keeps_its_identity() -> None:
    controller = AbortController()
    first, second = {"kind": "user"}, {"kind": "disposed"}
    assert not controller.signal.aborted
    assert controller.signal.reason is None
    assert controller.abort(first) is True
    assert controller.abort(second) is False
    assert controller.signal.aborted
    assert controller.signal.reason is first


def test_check_raises_the_cause_object_itself() -> None:
    controller = AbortController()
    controller.signal.check()
    cause = {"kind": "user"}
    controller.abort(cause)
    with pytest.raises(Aborted) as caught:
        controller.signal.check()
    assert caught.value.reason is cause


def test_a_reason_of_none_is_an_abort() -> None:
    controller = AbortController()
    controller.abort(None)
    with pytest.raises(Aborted):
        controller.signal.check()


def test_l_can_4_listeners_run_inside_abort_in_order_of_registration() -> None:
    controller = AbortController()
    heard: list[object] = []

    def listener(name: str) -> Callable[[object], None]:
        return lambda reason: heard.append((name, reason, controller.signal.aborted))

    for name in "abc":
        controller.signal.on_abort(listener(name))
    controller.abort("why")
    assert heard == [("a", "why", True), ("b", "why", True), ("c", "why", True)]
    controller.abort("again")
    assert len(heard) == 3


def test_rc_08_a_listener_added_after_the_abort_is_not_called() -> None:
    controller = AbortController()
    heard: list[object] = []
    controller.signal.on_abort(lambda _: controller.signal.on_abort(lambda _: heard.append("nested")))
    controller.abort("why")
    controller.signal.on_abort(lambda _: heard.append("late"))
    assert heard == []


def test_a_removed_listener_is_not_called_also_during_the_abort() -> None:
    controller = AbortController()
    heard: list[str] = []
    remove_early = controller.signal.on_abort(lambda _: heard.append("early"))
    controller.signal.on_abort(lambda _: remove_late())
    remove_late = controller.signal.on_abort(lambda _: heard.append("late"))
    controller.signal.on_abort(lambda _: heard.append("last"))
    remove_early()
    remove_early()
    controller.abort("why")
    assert heard == ["last"]


def test_a_failing_listener_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    controller = AbortController()
    heard: list[str] = []

    def broken(_: object) -> None:
        raise ValueError("broken listener")

    controller.signal.on_abort(broken)
    controller.signal.on_abort(lambda _: heard.append("second"))
    with caplog.at_level(logging.WARNING):
        controller.abort("why")
    assert heard == ["second"]
    assert "abort listener threw" in caplog.text


async def test_wait_returns_the_reason_and_leaves_no_listener() -> None:
    controller = AbortController()
    seen: list[object] = []

    async def waiter() -> None:
        seen.append(await controller.signal.wait())

    async with anyio.create_task_group() as group:
        group.start_soon(waiter)
        group.start_soon(waiter)
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        controller.abort("why")
    assert seen == ["why", "why"]
    assert await controller.signal.wait() == "why"


async def test_an_abandoned_wait_takes_its_listener_off() -> None:
    controller = AbortController()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await controller.signal.wait()
    assert not controller.signal._listeners


def test_t_304_a_fused_signal_follows_all_and_can_be_released() -> None:
    first, second = AbortController(), AbortController()
    fused, release = fuse(first.signal, second.signal)
    assert not fused.aborted
    second.abort("second")
    first.abort("first")
    assert fused.reason == "second"
    release()

    third, fourth = AbortController(), AbortController()
    fused, release = fuse(third.signal, fourth.signal)
    release()
    third.abort("late")
    assert not fused.aborted
    assert not fourth.signal._listeners


def test_t_304_fusing_with_an_aborted_signal_is_aborted_at_once() -> None:
    first, second = AbortController(), AbortController()
    cause = object()
    second.abort(cause)
    fused, _ = fuse(first.signal, second.signal)
    assert fused.reason is cause


def test_fusing_a_signal_with_itself_is_that_signal() -> None:
    controller = AbortController()
    fused, _ = fuse(controller.signal, controller.signal)
    assert fused is controller.signal
