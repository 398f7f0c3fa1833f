"""Random programs of creates, resumes, disposals, unloads, aborts and reactions of listeners, checked from outside.

Nothing here asks the machine: what is checked are the events that listeners heard, the registries, and what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.creation.stage import MODEL, Gate, Stage, Veto, quiet, stage
from tests.spec.creation_runs import TOLD

from loopharness.agents import AgentHandle
from loopharness.creation.promise import Promise
from loopharness.session import Session
from loopharness.signal import AbortController

IDS = st.sampled_from(["a", "b"])
WHO = st.integers(0, 4)
SETUP = st.sampled_from(["none", "gated", "throws", "never"])
OWNER = st.sampled_from(["root", "first", "second", "agent"])
MARK = st.sampled_from(["s+", "a+", "ss", "a-", "s-"])
DEED = st.sampled_from(["throw", "abort", "dispose", "create", "wake", "unload"])
CALL = st.one_of(
    st.tuples(st.just("create"), IDS, SETUP, OWNER),
    st.tuples(st.just("resume"), IDS, OWNER),
    st.tuples(st.just("now"), IDS, OWNER),
    st.tuples(st.just("open"), WHO),
    st.tuples(st.just("abort"), WHO),
    st.tuples(st.just("dispose"), WHO),
    st.tuples(st.just("wake"), WHO),
    st.tuples(st.just("unload"), st.sampled_from(["first", "second"])),
    st.tuples(st.just("react"), MARK, IDS, DEED, WHO),
    st.tuples(st.just("quiet")),
    st.tuples(st.just("quiet")),
)
PROGRAM = st.tuples(st.lists(CALL, max_size=14), st.booleans())
"""The calls, and whether the loop is unloaded at the end instead of each agent being disposed."""


class Call:
    """One create or resume of a program."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.controller = AbortController()
        self.result: Promise[AgentHandle] | None = None


class Program:
    """Plays calls and keeps what was heard about each object, in order."""

    def __init__(self, stage_: Stage) -> None:
        self.stage = stage_
        self.calls: list[Call] = []
        self.plugins = {name: stage_.plugin(name) for name in ("first", "second")}
        self.told: dict[int, list[str]] = {}
        self.objects: list[object] = []
        for name, mark in TOLD.items():
            stage_.harness.context.on(name, lambda payload, mark=mark: self.hear(mark, payload), prepend=True)
        self.before = {name: len(found) for name, found in stage_.harness.bus._listeners.items()}

    def hear(self, mark: str, payload: Any) -> None:
        session = payload if isinstance(payload, Session) else payload["agent"].session
        if id(session) not in self.told:
            self.objects.append(session)
        self.told.setdefault(id(session), []).append(mark)

    def owner(self, name: str) -> Any:
        if name == "agent":
            live = self.stage.agents.list()
            return live[0].ctx if live else self.stage.harness.context
        return self.plugins.get(name, self.stage.harness.context)

    def do(self, call: tuple[Any, ...]) -> None:
        """One call; what it refuses is no failure of the program."""
        with suppress(RuntimeError, ValueError, Veto):
            getattr(self, f"do_{call[0]}")(*call[1:])

    def do_create(self, id: str, setup: str, owner: str) -> None:
        call = Call()
        self.calls.append(call)
        gate = call.gate if setup in ("gated", "throws") else Gate() if setup == "never" else None
        composing = self.stage.composing(gate, then=Veto("setup") if setup == "throws" else None)
        call.result = self.stage.agents.create(  # type: ignore[assignment]
            id, MODEL, setup=composing, signal=call.controller.signal, owner=self.owner(owner)
        )

    def do_resume(self, id: str, owner: str) -> None:
        call = Call()
        self.calls.append(call)
        header = {"type": "session", "version": 4, "id": id, "createdAt": 0, "isSeeded": False, "delegationDepth": 0}
        call.result = self.stage.agents.take_up(header, owner=self.owner(owner))

    def do_now(self, id: str, owner: str) -> None:
        self.stage.agents.create_now(id, MODEL, owner=self.owner(owner))

    def of(self, who: int) -> Call | None:
        return self.calls[who] if who < len(self.calls) else None

    def do_open(self, who: int) -> None:
        call = self.of(who)
        if call is not None:
            call.gate.open()

    def do_abort(self, who: int) -> None:
        call = self.of(who)
        if call is not None:
            call.controller.abort("enough")

    def handle(self, who: int) -> AgentHandle | None:
        call = self.of(who)
        if call is None or call.result is None or not call.result.settled or call.result.error is not None:
            return None
        return call.result.result()

    def do_dispose(self, who: int) -> None:
        handle = self.handle(who)
        if handle is not None:
            handle.dispose()

    def do_wake(self, who: int) -> None:
        handle = self.handle(who)
        if handle is not None:
            handle.agent.followup("x")

    def do_unload(self, name: str) -> None:
        if self.plugins[name].active:
            self.stage.agents.unload(self.plugins[name])

    def do_react(self, mark: str, id: str, deed: str, who: int) -> None:
        deeds: dict[str, Callable[[], object]] = {
            "throw": self.stage.throw(),
            "abort": lambda: self.do_abort(who),
            "dispose": lambda: self.do_dispose(who),
            "create": lambda: self.do(("now", id, "root")),
            "wake": self.wake_all,
            "unload": lambda: self.do_unload("first"),
        }
        self.stage.at(f"{mark}{id}", deeds[deed])

    def wake_all(self) -> None:
        for agent in self.stage.agents.list():
            agent.followup("x")

    def check(self) -> None:
        """Pairing, order and registry content, from what was heard."""
        live = set()
        for session in self.objects:
            told = self.told[id(session)]
            assert told in (
                ["s+"], ["s+", "s-"], ["s+", "a+"], ["s+", "a+", "a-"], ["s+", "a+", "a-", "s-"],
                ["s+", "a+", "ss"], ["s+", "a+", "ss", "a-"], ["s+", "a+", "ss", "a-", "s-"],
            ), told  # fmt: skip
            if told[-1] != "s-":
                live.add(id(session))
        assert {id(session) for session in self.stage.harness.sessions.list()} == live
        agents = {id(agent.session) for agent in self.stage.agents.list()}
        assert agents <= live
        for call in self.calls:
            if call.result is not None and call.result.settled and call.result.error is None:
                assert self.told[id(call.result.result().agent.session)][:3] == ["s+", "a+", "ss"]


async def play(calls: list[tuple[Any, ...]], by_loop: bool) -> None:
    """Play one program, end everything, and look for what is left."""
    async with stage() as on:
        program = Program(on)
        for call in calls:
            if call == ("quiet",):
                await quiet()
                program.check()
            else:
                program.do(call)
        await finish(program, by_loop)


async def finish(program: Program, by_loop: bool) -> None:
    """End everything: nothing is left of anybody, and nobody still listens."""
    on = program.stage
    on._reactions.clear()
    if by_loop:
        await on.agents.unload(on.agents.provider)
    await quiet()
    for call_ in program.calls:
        call_.gate.open()
    await quiet()
    if not by_loop:
        for call_ in program.calls:
            call_.controller.abort("over")
        await quiet()
        for agent in on.agents.list():
            await on.agents.handle(agent).dispose()
    await quiet()
    program.check()
    assert on.clean(), (on.harness.engine.core, on.harness.engine.items)
    assert all(call_.result is None or call_.result.settled for call_ in program.calls)
    assert {name: len(found) for name, found in on.harness.bus._listeners.items()} == program.before
    scopes = on.agents._transactions._scopes
    assert scopes.effects == ()
    for plugin in program.plugins.values():
        assert {e.label for e in plugin.effects} <= {"agents.owner()"}
    assert all(call_.controller.signal._listeners in (None, {}) for call_ in program.calls)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@settings(max_examples=120, deadline=None, derandomize=True)
@given(program=PROGRAM)
def test_programs(backend: str, program: tuple[list[tuple[Any, ...]], bool]) -> None:
    anyio.run(play, *program, backend=backend)
