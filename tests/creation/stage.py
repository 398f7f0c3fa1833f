"""A harness on which creations race: what listeners hear, in short, and reactions inside exactly those windows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import anyio
from tests.spec.creation_runs import TOLD

from loopharness import gate
from loopharness.agent import AgentOptions
from loopharness.agents import AgentHandle, Setup
from loopharness.bus import Context
from loopharness.creation.promise import Promise
from loopharness.harness import Harness, open_harness
from loopharness.model.scripted import Response, ScriptedAdapter, text
from loopharness.session import Session
from loopspec.profile import Profile

MODEL = AgentOptions("mock", "m1")
USER = {"kind": "user"}


async def quiet() -> None:
    """Wait until nobody can go on by himself: everybody stands at a gate, or has ended."""
    await anyio.wait_all_tasks_blocked()


STANDING: WeakSet[gate.Gate] = WeakSet()
"""Every gate of the race that runs: they are opened when it fails, or its end would wait at them for ever."""


class Gate(gate.Gate):
    """A gate of a race."""

    def __init__(self) -> None:
        super().__init__()
        STANDING.add(self)


class Veto(Exception):
    """What a listener, a setup or a commit throws."""


class Stage:
    """One harness and what has been told so far: `s+a a+a ssa …`, with `t` for a turn's end and `u` for a scope's."""

    def __init__(self, harness: Harness, group: anyio.abc.TaskGroup) -> None:
        self.harness = harness
        self.agents = harness.agents
        self.heard: list[str] = []
        self.statuses: list[str] = []
        self.group = group
        self._reactions: list[tuple[str, Callable[[], object]]] = []
        for name, mark in TOLD.items():
            harness.context.on(name, lambda payload, mark=mark: self._hear(mark, payload))
        harness.context.on("session/event", self._record)
        harness.context.on("agent/status", lambda payload: self._status(payload))

    @property
    def told(self) -> str:
        """What has been heard, as one line."""
        return " ".join(self.heard)

    def at(self, mark: str, act: Callable[[], object]) -> None:
        """Act once, inside the dispatch that is heard under this mark. Reactions of one mark act in turn."""
        self._reactions.append((mark, act))

    def _hear(self, mark: str, payload: Any) -> None:
        id = payload.id if isinstance(payload, Session) else payload["agent"].id
        self.mark(f"{mark}{id}")

    def mark(self, line: str) -> None:
        """Note something, and react to it."""
        self.heard.append(line)
        self.react(line)

    def react(self, line: str) -> None:
        """Run the reactions to a mark that is not noted itself."""
        reactions = [r for r in self._reactions if r[0] == line]
        self._reactions = [r for r in self._reactions if r[0] != line]
        for _, act in reactions:
            act()

    def _record(self, session: Session, event: Any) -> None:
        if event["type"] == "turn/end":
            reason = event["data"]["reason"]
            self.mark(f"t{session.id}:{reason['reason']['kind'] if reason['kind'] == 'aborted' else reason['kind']}")
        if event["type"] == "turn/start":
            self.mark(f"T{session.id}")

    def _status(self, payload: Any) -> None:
        line = f"{payload['agent'].id} {payload['status']}"
        self.statuses.append(line)
        self.react(line)

    def plugin(self, label: str = "plugin") -> Context:
        """An owner."""
        return self.harness.context.child(label)

    def composing(self, gate: Gate | None = None, unwind: Gate | None = None, then: Any = None) -> Setup:
        """A setup that stands at a gate; its scope notes its end, after another gate."""

        async def setup(ctx: Context) -> Any:
            async def cleanup() -> None:
                if unwind is not None:
                    await unwind.enter()
                self.mark(f"u{ctx.agent.id}")

            ctx.effect(cleanup, "noted")
            if gate is not None:
                await gate.enter()
            if isinstance(then, Exception):
                raise then
            return then

        return setup

    async def live(self, id: str = "a", **options: Any) -> AgentHandle:
        """A live agent whose scope notes its end."""
        options.setdefault("setup", self.composing())
        return await self.agents.create(id, MODEL, **options)

    def start(self, work: Callable[[], Awaitable[Any]]) -> Promise[Any]:
        """Run work beside the test."""
        done: Promise[Any] = Promise()

        async def run() -> None:
            try:
                done.resolve(await work())
            except Exception as error:
                done.reject(error)

        self.group.start_soon(run)
        return done

    def throw(self, error: Exception | None = None) -> Callable[[], None]:
        """A reaction that throws."""

        def act() -> None:
            raise error or Veto("no")

        return act

    def clean(self) -> bool:
        """Nothing is left of anything."""
        engine = self.harness.engine
        empty = not engine.sessions and not engine.agents and not engine.items and not engine.waiting
        core = engine.core
        return empty and not core.members and not core.sessions and not core.agents


async def outcome(work: Awaitable[AgentHandle]) -> str:
    """`live`, or the text of the rejection."""
    try:
        await work
    except Exception as error:
        return str(error)
    return "live"


@asynccontextmanager
async def stage(*script: Response, profile: Profile = "seed", **options: Any) -> AsyncIterator[Stage]:
    """A stage with a scripted model; every answer beyond the script is `ok`."""
    failure: Exception | None = None
    async with open_harness(profile, now=lambda: 1000, **options) as harness:
        harness.llm.register_adapter(["mock"], ScriptedAdapter([*script], always=text("ok")))
        async with anyio.create_task_group() as group:
            try:
                yield Stage(harness, group)
            except Exception as error:  # raised again outside the group, which would wrap it
                failure = error
                for standing in STANDING:
                    standing.open()
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
