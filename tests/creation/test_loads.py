"""Loads inside the store, and sessions whose agent goes before its work does: whatever was held is let go."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import pytest
from tests.creation.stage import MODEL, Gate, outcome, quiet, stage
from tests.creation.test_races_out import stored

from loopharness.creation.promise import Promise
from loopharness.model.scripted import tool_calls
from loopharness.signal import AbortController
from loopharness.store.opening import Opener
from loopharness.tools.registry import define_tool
from loopspec.profile import Profile

pytestmark = pytest.mark.anyio

LONGEST = 30
"""Seconds after which what nobody lets go on is given up; never reached when all is well."""


class Thread:
    """The first load stops in its worker thread, behind the lock and in front of the file."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.inside = anyio.Event()
        self._go = threading.Event()
        plain = Opener._read

        def read(opener: Opener, *arguments: Any) -> Any:
            if not self.inside.is_set():
                anyio.from_thread.run_sync(self.inside.set)
                assert self._go.wait(LONGEST), "nobody let the load go on"
            return plain(opener, *arguments)

        patch.setattr(Opener, "_read", read)

    def go_on(self) -> None:
        """Let it go on."""
        self._go.set()


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
@pytest.mark.parametrize("how", ["abort", "unload"])
async def test_r65_a_load_that_is_given_up_in_its_thread_holds_neither_lock_nor_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: Profile, how: str
) -> None:
    """The thread comes to its end and has taken the session over; it is given back, whoever waits gets it."""
    await stored(tmp_path)
    thread = Thread(monkeypatch)
    async with stage(profile=profile, sessions_root=tmp_path) as st:
        plugin, controller = st.plugin(), AbortController()
        call = st.agents.resume("a", MODEL, owner=plugin, signal=controller.signal)
        first = st.start(lambda: outcome(call))
        await thread.inside.wait()
        ended: Promise[Any] | None = None
        if how == "abort":
            controller.abort("enough")
        else:
            ended = st.start(lambda: st.agents.unload(plugin))
        again = st.start(lambda: outcome(st.agents.resume("a", MODEL)))
        thread.go_on()
        with anyio.fail_after(LONGEST):
            assert "aborted" in await first
            assert await again == "live"
            if ended is not None:
                await ended
        assert st.told == "s+a a+a ssa"


async def test_r65_a_harness_that_is_left_during_a_load_holds_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stored(tmp_path)
    with monkeypatch.context() as patch, anyio.CancelScope() as left:
        thread = Thread(patch)
        async with stage(sessions_root=tmp_path) as st:
            st.start(lambda: outcome(st.agents.resume("a", MODEL)))
            await thread.inside.wait()
            left.cancel()
            thread.go_on()
            await anyio.sleep_forever()
    assert left.cancelled_caught
    async with stage(sessions_root=tmp_path) as st:
        assert await outcome(st.agents.resume("a", MODEL)) == "live", "the lock is free again"


@pytest.mark.parametrize("profile", ["seed", "dsh-0.1"])
async def test_the_end_of_a_turn_that_outlives_its_scope_is_stored(tmp_path: Path, profile: Profile) -> None:
    """A body that ignores its signal ends behind the unload of the loop; the records of that are stored.

    Published DSH unwinds all scopes at once while drivers still drain: there it is the end of the session, and not of
    the scope, that closes the store (N-3, C-TDN-7, C-TDN-18).
    """
    body = Gate()

    async def work() -> str:
        """Work."""
        await body.enter()
        return "done"

    async with stage(tool_calls(("c", "work", {})), profile=profile, sessions_root=tmp_path) as st:
        persistence = st.harness.persistence
        assert persistence is not None
        st.harness.tools.register(define_tool(work), st.harness.context)
        handle = await st.live(meta={"cwd": "/workspace"})
        session = handle.agent.session
        handle.agent.followup("x")
        await body.reached()
        ended = st.start(lambda: st.agents.unload(st.agents.provider))
        await quiet()
        assert ("ua" in st.heard) == (profile == "dsh-0.1"), "its scope has ended"
        assert not ended.settled
        writing = persistence.handle_of(session)
        assert writing is not None
        assert not writing.closing
        body.open()
        await ended
        await quiet()
        assert writing.closing, "somebody lets go of it"
        await writing.closed.wait()
        assert persistence.handle_of(session) is None
        seen = await persistence.inspect("a")
        assert (list(seen.events), seen.closers) == (list(session.events), 0)
        assert seen.events[-1]["type"] == "turn/end"
