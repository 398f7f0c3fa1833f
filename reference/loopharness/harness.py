"""The front door: open a harness, make an agent, talk to it.

    async with open_harness() as harness:
        harness.llm.register_adapter(["mock"], ScriptedAdapter([text("Hello.")]))
        agent = harness.create_agent("main", AgentOptions(provider="mock", model="m1"))
        agent.followup("Hi!")
        await agent.when_idle()
        print(agent.session.messages[-1])

Everything runs in the harness's own task group: an agent works on while nobody awaits it, and ends with the
harness, after its turn has been closed in the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import anyio

from loopharness.agent import Agent, AgentOptions
from loopharness.agent.messages import random_id
from loopharness.agents import Agents, Meta
from loopharness.bus import Bus, Context
from loopharness.creation.engine import Engine
from loopharness.model.service import LlmService
from loopharness.prompt import SystemPrompt, register_variables
from loopharness.session import Session, Sessions, wall_clock
from loopharness.settings import LoopSettings
from loopharness.store import resume
from loopharness.store.checkpoint import install_checkpoints
from loopharness.store.service import SessionPersistence
from loopharness.tools.pipeline import ToolPipeline
from loopharness.tools.registry import ToolRegistry
from loopharness.tools.timeouts import install_timeouts
from loopspec.profile import Profile, law

__all__ = ["Harness", "open_harness"]


class Harness:
    """Bus, services and agents of one process. Made by `open_harness`."""

    def __init__(
        self,
        group: anyio.abc.TaskGroup,
        profile: Profile = "seed",
        session_format: int = 4,
        now: Callable[[], int] = wall_clock,
        identity: str = "",
        persona: str = "",
        new_id: Callable[[], str] = random_id,
        persistence: SessionPersistence | None = None,
        checkpoints: bool = True,
        tool_order: Sequence[str] | None = None,
    ) -> None:
        self.bus: Final = Bus()
        self.context: Final[Context] = self.bus.root
        self.engine: Final = Engine(self.bus, law(profile, session_format))
        self.sessions: Final = Sessions(self.bus, self.engine)
        self.llm: Final = LlmService(self.bus)
        self.tools: Final = ToolRegistry(self.bus)
        self.pipeline: Final = ToolPipeline(self.bus, self.tools)
        self.prompt: Final = SystemPrompt(
            self.bus, self.tools, identity=identity, persona=persona, tool_order=tool_order
        )
        self.settings: Final = LoopSettings()
        install_timeouts(self.context, self.tools)
        register_variables(self.context, self.prompt)
        self.profile: Final = profile
        self.session_format: Final = session_format
        self.now: Final = now
        self.new_id: Final = new_id
        self.persistence: Final = persistence
        self._group = group
        self.agents: Final = Agents(self, group)
        if persistence is not None:
            persistence.mount(self.context, group)
            if checkpoints:
                install_checkpoints(self.context, self.sessions, self.llm)

    def on(self, name: str, listener: Callable[..., Any]) -> Callable[[], None]:
        """Listen to an event of any agent; the answer stops that."""
        return self.context.on(name, listener)

    async def create_agent(
        self,
        session_id: str | None = None,
        options: AgentOptions | None = None,
        *,
        cwd: str | None = None,
        header: Mapping[str, Any] | None = None,
        events: Iterable[Mapping[str, Any]] = (),
        begin: bool = True,
        source: Literal["startup", "resume"] = "resume",
    ) -> Agent:
        """A live agent over a new session, or over the events of one that is taken up again.

        `cwd` is the absolute path of the directory that a new session works in, as its header records it.
        `header` and `events` are those of a stored session; its format decides the dialect; an open turn is closed,
        `begin` says whether a restart marker may be due, and `source` whether that is a resume or a fork. Raises
        `ValueError` when the id is taken here, or when the log holds an impossible inbox splice, and
        `SessionAlreadyExistsError` when it is taken on disk. See `agents` for everything else.
        """
        if header is None:
            meta: Meta = {} if cwd is None else {"cwd": cwd}
            handle = await self.agents.create(session_id, options, meta=meta)
        else:
            handle = await self.agents.take_up(header, events, options, begin=begin, source=source)
        return handle.agent

    async def dispose_agent(self, agent: Agent) -> None:
        """Cancel with cause `disposed`, wait until idle, unwind its scope, and take it off the lists (C-TDN-*)."""
        await self.agents.handle(agent).dispose()

    async def resume_agent(self, session_id: str, options: AgentOptions | None = None) -> Agent:
        """A live, idle agent over a stored session, repaired if it had crashed (C-RES-*); see `store.resume`."""
        return (await self.agents.resume(session_id, options)).agent

    async def fork_agent(
        self,
        source: Session | str,
        boundary: int | None = None,
        child_id: str | None = None,
        options: AgentOptions | None = None,
    ) -> Agent:
        """A live, idle agent over a copy of a live session, up to an inclusive seq (C-FRK-*); see `store.resume`."""
        return await resume.fork(self, source, boundary, child_id, options)


@asynccontextmanager
async def open_harness(
    profile: Profile = "seed",
    session_format: int = 4,
    now: Callable[[], int] = wall_clock,
    identity: str = "",
    persona: str = "",
    new_id: Callable[[], str] = random_id,
    sessions_root: Path | str | None = None,
    persistence: SessionPersistence | None = None,
    checkpoints: bool = True,
    tool_order: Sequence[str] | None = None,
) -> AsyncIterator[Harness]:
    """A harness for the time of an `async with` block, on asyncio or trio.

    `profile` says which law its agents follow (`loopspec.profile`), `session_format` (0 or 4) what new sessions
    are written in, `now` gives Unix milliseconds, `new_id` the ids of messages that are minted here; `identity`
    and `persona` begin the system prompt, and `tool_order` names tools in the order in which the model shall see them
    (P-111, with `prompt.UNLISTED` once for all others). Leaving the block disposes every agent: turns are closed in
    the log first, and work that ignores its signal is waited for. When the block raises or is cancelled from outside
    there is no such patience.

    With `sessions_root`, a directory, sessions are stored there as they go, and can be taken up again with
    `resume_agent`; `persistence` is the same with a service of your own making. `checkpoints` makes the log durable
    before each step, each request and each tool body. What has been said is stored even when the block raises.
    """
    if persistence is None and sessions_root is not None:
        persistence = SessionPersistence(sessions_root, lenient=profile == "dsh-0.1")
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        harness = Harness(
            group, profile, session_format, now, identity, persona, new_id, persistence, checkpoints, tool_order
        )
        try:
            yield harness
            await harness.agents.shut_down()
        except Exception as error:  # raised again outside the group, which would wrap it
            failure = error
        finally:
            harness.agents.abandon()
            if persistence is not None:
                with anyio.CancelScope(shield=True):
                    await persistence.close_all()
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
