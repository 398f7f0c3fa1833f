"""A script played on the reference harness: what came of it, as header and events, and what went wrong."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio

from loopconform.script.gates import Gates
from loopconform.script.listeners import listen
from loopconform.script.load import BadScript, Fault, Loaded, shown_path
from loopconform.script.model import Files, Maintenance, Reaction, Step
from loopconform.script.parts import Chorus, Item, ScriptModel, answer_items, as_message, make_tool
from loopconform.script.plugins import (
    Outside,
    mount_compaction,
    mount_files,
    mount_permissions,
    mount_retry,
    mount_subagents,
)
from loopconform.script.text import PathKey
from loopharness.agent import Agent, AgentOptions
from loopharness.agent.messages import random_id
from loopharness.errors import HarnessError, error_chain
from loopharness.harness import Harness, open_harness
from loopharness.session import Session, wall_clock
from loopharness.signal import Signal
from loopspec.inbox import Target
from loopspec.values import same_value

__all__ = ["Earlier", "Played", "play"]

Record = Mapping[str, Any]
Verdict = Literal["played", "wrong", "stuck"]


CHILDREN = "subagents"
"""The key of the answers for agents that other agents have made."""


class Earlier(NamedTuple):
    """A stored session that is taken up: its header row and its events."""

    header: Record
    events: Sequence[Record]


class Played(NamedTuple):
    """What came of a run. `earlier`: how many leading events were there before.

    `wrong`: something did not go as the script says, so `faults` are errors; `stuck`: it did not come to an end.
    """

    verdict: Verdict
    header: Record
    events: tuple[Record, ...]
    earlier: int
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()


class GaveUp(Exception):
    """Leave the harness without the patience of a regular end."""


def play(loaded: Loaded, session_id: str, earlier: Earlier | None = None, folder: Path | None = None) -> Played:
    """Play a script from its first step to its last, in real time but without sleeping.

    `session_id` names a new session; `folder` is where the directories of file tools begin, by default this one.
    Raises `BadScript` for a tool or plugin that the harness refuses, and when `earlier` cannot be taken up.
    """
    return anyio.run(Player(loaded, session_id, earlier, folder or Path()).run)


class Player:
    """One run of a script."""

    def __init__(self, loaded: Loaded, session_id: str, earlier: Earlier | None, folder: Path) -> None:
        self.folder = folder
        self.loaded = loaded
        self.script = loaded.script
        self.session_id = session_id
        self.earlier = earlier
        self.gates = Gates()
        self.faults: list[Fault] = []
        self.notes: list[Fault] = []
        self.stuck = False
        self.crashed = False
        self.outside = Outside()
        self.agent: Agent
        self._time = self.script.clock or 0
        self._ids = 0
        self._calls = 0
        taken = 0 if earlier is None else len(earlier.events)
        self._prefix = f"{taken}-" if taken else ""

    # -- what a deterministic run gives out

    def now(self) -> int:
        """The time: real, or one millisecond after the last look."""
        if self.script.clock is None:
            return wall_clock()
        self._time += 1
        return self._time - 1

    def _pass(self, seconds: float) -> None:
        """So much time passes at once, where the time is counted."""
        self._time += int(seconds * 1000)

    def new_id(self) -> str:
        """An id: random, or counted. The ids of a session that is taken up stay unique."""
        if self.script.clock is None:
            return random_id()
        self._ids += 1
        return f"id-{self._prefix}{self._ids}"

    def new_call_id(self) -> str:
        """The id of a tool call that the script does not name."""
        self._calls += 1
        return f"call-{self._prefix}{self._calls}"

    # -- the run

    async def run(self) -> Played:
        """Open a harness, play, and keep what the log holds before the harness ends."""
        script = self.script
        version = script.session_format if self.earlier is None else self.earlier.header["version"]
        model = self._scripted_model()
        log = Log(self)
        played: Played | None = None
        try:
            with log:
                async with open_harness(
                    script.profile, version, self.now, script.identity, script.persona, self.new_id
                ) as harness:
                    await self._set_up(harness, model, version)
                    await self._all_steps()
                    self._leftovers(model)
                    played = self._played()
                    if self.stuck or self.crashed:
                        raise GaveUp
        except GaveUp:
            pass
        assert played is not None
        return played

    def _scripted_model(self) -> Chorus:
        """The model, with answers of their own for the agents that the agent makes."""
        script = self.script
        answers: list[Sequence[Item]] = [answer_items(answer, self.new_call_id) for answer in script.answers]
        parts: dict[str, list[Sequence[Item]]] = {}
        if script.subagents is not None:
            parts[CHILDREN] = [answer_items(answer, self.new_call_id) for answer in script.subagents.answers]

        def part(session_id: str) -> str:
            return "" if session_id == self.agent.id else CHILDREN

        return Chorus(script.model, answers, parts, self.gates, part)

    def _played(self) -> Played:
        verdict: Verdict = "stuck" if self.stuck else "wrong" if self.faults else "played"
        session = self.agent.session
        count = 0 if self.earlier is None else len(self.earlier.events)
        events = tuple(session.events)
        return Played(verdict, session.header, events, count, tuple(self.faults), tuple(self.notes))

    def _mount(self, harness: Harness, model: ScriptModel, version: int) -> None:
        """Everything that the script puts onto the harness, before there is an agent."""
        script = self.script
        if script.retry is not None:
            model.policy = script.retry.policy()
        with self._mounting("retry"):
            harness.llm.register_adapter([script.model.provider], model)
        if script.retry is not None:
            mount_retry(harness, script.retry, self._pass)
        harness.settings.max_parallel_tool_calls = script.parallel_tools
        for at, tool in enumerate(script.tools):
            with self._mounting("tools", at):
                if isinstance(tool, Files):
                    mount_files(harness, tool, self.folder, self.outside)
                else:
                    harness.tools.register(make_tool(tool, self.gates, self.new_id, version), harness.context)
        if script.permissions is not None:
            mount_permissions(harness, script.permissions, self.gates, self._unasked)
        if script.compaction is not None:
            with self._mounting("compaction"):
                mount_compaction(harness, script.compaction)
        if script.subagents is not None:
            with self._mounting("subagents"):
                mount_subagents(harness, script.subagents)
        listen(harness, script.listeners, self.new_id)
        for number, reaction in enumerate(script.when):
            self._react(harness, number, reaction)

    async def _set_up(self, harness: Harness, model: ScriptModel, version: int) -> None:
        script = self.script
        self._mount(harness, model, version)
        options = AgentOptions(script.model.provider, script.model.name, script.model.max_tokens)
        if self.earlier is None:
            self.agent = await harness.create_agent(self.session_id, options, cwd=script.cwd)
            return
        header, events = self.earlier
        try:
            self.agent = await harness.create_agent(options=options, header=header, events=events)
        except ValueError as error:
            reason = f"the session cannot be taken up: {error_chain(error)}"
            raise BadScript([Fault(self.loaded.line("resume"), "resume", reason)]) from error

    @contextmanager
    def _mounting(self, *path: str | int) -> Iterator[None]:
        """What the harness refuses is a fault of the script."""
        try:
            yield
        except (HarnessError, ValueError) as error:
            raise BadScript([Fault(self.loaded.line(*path), shown_path(path), str(error))]) from error

    def _unasked(self, tool: str) -> None:
        """A question about a tool finds no answer in the script."""
        self._fault(("permissions", "answers"), f"the script has no answer to the question about {tool}", "Add one.")

    async def _all_steps(self) -> None:
        script = self.script
        last: PathKey = ("steps", len(script.steps) - 1)
        with anyio.move_on_after(script.time_limit) as scope:
            for at, step in enumerate(script.steps):
                path: PathKey = ("steps", at, step.verb)
                last = path
                if step.crash:
                    self.crashed = True
                    return
                if step.wait:
                    await self._wait(step.wait, path)
                else:
                    self._do(step, path)
                if self.stuck:
                    return
            if script.steps[-1].wait != "idle":
                await self._wait("idle", last)
        if scope.cancelled_caught:
            self.stuck = True
            advice = "Give the script a greater time_limit, or look for work that never ends."
            self._fault(last, f"the run was not over after {script.time_limit:g} seconds", advice)

    async def _wait(self, point: str, path: PathKey) -> None:
        if point == "idle":
            await self._until(self.agent.when_idle, path, "the agent does not become idle")
        else:
            name = point.removeprefix("gate ")
            await self._until(lambda: self.gates.reached(name), path, f"nobody comes to the gate {name!r}")

    async def _until(self, arrives: Callable[[], Awaitable[None]], path: PathKey, otherwise: str) -> None:
        """Wait, but not when everybody waits: nothing in here has a timer, so nothing could happen any more."""

        arrived = False

        async def watch() -> None:
            await anyio.wait_all_tasks_blocked()
            while self.outside.busy:  # a file or a program, which will answer by itself
                await self.outside.back()
                await anyio.wait_all_tasks_blocked()
            if arrived:  # the cancel of this watch is on its way
                return
            self.stuck = True
            reason, advice = self._why(otherwise)
            self._fault(path, reason, advice)
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await arrives()
            arrived = True
            group.cancel_scope.cancel()

    def _why(self, otherwise: str) -> tuple[str, str]:
        waiting = list(self.gates.waiting())
        if not waiting:
            done = f"the agent is {self.agent.status} and nothing is left to do"
            return f"{otherwise}: {done}", "Send something first, or leave this wait out."
        stands = "; ".join(f"{who} stands at the gate {name!r}" for name, who in waiting)
        return f"{otherwise}: {stands}", f"Add `- open: gate {waiting[0][0]}` before that, or cancel."

    # -- one step

    def _do(self, step: Step, path: PathKey) -> None:
        """Do a step that does not wait. What the harness refuses is a fault."""
        try:
            self._perform(step, path)
        except Exception as error:
            self._fault(path, f"{step.verb} was refused: {error_chain(error)}")

    def _perform(self, step: Step, path: PathKey) -> None:
        agent = self.agent
        sends: tuple[tuple[Any, Target, bool], ...] = (
            (step.followup, "next-turn", True),
            (step.steer, "next-step", True),
            (step.inject, "next-step", False),
            (step.queue, "next-turn", False),
        )
        for message, target, wakes in sends:
            if message is not None:
                agent.send(as_message(message, self.new_id), target, wakes)
        if step.cancel is not None:
            reason = {} if step.cancel.reason is None else {"reason": step.cancel.reason}
            agent.cancel({"kind": step.cancel.cause, **reason}, step.cancel.keep_inbox)
        if step.remove is not None and not agent.inbox.remove(step.remove):
            self._note(path, f"no message {step.remove!r} is pending, so nothing was removed")
        if step.replace is not None:
            id = step.replace.id
            if not agent.inbox.replace(id, as_message(step.replace.by, self.new_id)):
                self._note(path, f"no message {id!r} is pending, so nothing was replaced")
        if step.splice is not None:
            inserted = [as_message(message, self.new_id) for message in step.splice.insert]
            agent.inbox.splice(step.splice.target, step.splice.start, step.splice.remove, inserted)
        if step.clear is not None:
            agent.inbox.clear()
        if step.maintenance is not None:
            agent.run_maintenance(self._job(step.maintenance, path))
        if step.open is not None:
            self.gates.open(step.open.removeprefix("gate "))

    def _job(self, job: Maintenance, path: PathKey) -> Callable[[Signal], Any]:
        agent = self.agent

        async def run(signal: Signal) -> None:
            try:
                if job.gate is not None and not await self.gates.enter(job.gate, signal, "a maintenance job"):
                    return
                for row in job.append:
                    agent.session.append(row.type, dict(row.data))
            except Exception as error:
                self._fault(path, f"the maintenance job failed: {error_chain(error)}")

        return run

    # -- reactions

    def _react(self, harness: Harness, number: int, reaction: Reaction) -> None:
        seen = 0

        def hear(session_id: str, data: Any) -> None:
            nonlocal seen
            if not self._concerns(reaction, session_id) or not _holds(data, reaction.where):
                return
            seen += 1
            if seen == reaction.nth:
                self._reacting(reaction, number, session_id)

        def recorded(session: Session, event: Record) -> None:
            if event["type"] == reaction.record:
                hear(session.id, event["data"])

        if reaction.event is not None:
            harness.on(reaction.event, lambda payload: hear(payload["agent"].id, payload))
        else:
            harness.on("session/event", recorded)

    def _concerns(self, reaction: Reaction, session_id: str) -> bool:
        """Whether a reaction is about this session: not about those that the agent makes."""
        return session_id == self.agent.id

    def _reacting(self, reaction: Reaction, number: int, session_id: str) -> None:
        for at, step in enumerate(reaction.do):
            self._do(step, ("when", number, "do", at, step.verb))

    # -- what went wrong

    def _leftovers(self, model: ScriptModel) -> None:
        for part in model.parts.values() if isinstance(model, Chorus) else ():
            if part.misses:
                reason = f"{part.misses} of {part.asked} calls of the model found no answer for subagents"
                self._fault(("subagents",), reason, "Add an answer to `answers` there.")
            elif part.left and not self.stuck and not self.crashed:
                self._note(("subagents", "answers"), f"nobody asked for the last {part.left} of the answers")
        count = len(self.script.answers)
        if model.misses:
            path: PathKey = ("answers", count - 1) if count else ("answers",)
            have = "one answer" if count == 1 else f"{count} answers" if count else "no answer"
            asked = f"{model.asked} times, the last time" if model.asked > 1 else "once,"
            reason = f"the script has {have}, but the model was asked {asked} {self._last_step()}"
            self._fault(path, reason, "Add an answer, or look why the agent goes on.")
        elif model.left and not self.stuck and not self.crashed:
            more = f", nor for the {model.left - 1} after it" if model.left > 1 else ""
            self._note(("answers", model.asked), f"nobody asked for this answer{more}")

    def _last_step(self) -> str:
        events = self.agent.session.events
        for seq in range(len(events) - 1, -1, -1):
            event = events[seq]
            if event["type"] == "step/start":
                return f"in turn {event['data']['turn']}, step {event['data']['step']}"
        return "before the first step"

    def _fault(self, path: PathKey, reason: str, advice: str = "") -> None:
        self.faults.append(Fault(self.loaded.line(*path), shown_path(path), reason, advice))

    def _note(self, path: PathKey, reason: str) -> None:
        self.notes.append(Fault(self.loaded.line(*path), shown_path(path), reason))


def _holds(data: Any, wanted: Any) -> bool:
    """Whether data holds everything that a pattern asks for: objects in part, everything else exactly."""
    if isinstance(wanted, dict):
        return isinstance(data, Mapping) and all(
            key in data and _holds(data[key], item) for key, item in wanted.items()
        )
    return same_value(data, wanted)


class Log(logging.Handler):
    """What the harness logs during a run becomes a note instead of noise."""

    def __init__(self, player: Player) -> None:
        super().__init__(logging.WARNING)
        self._player = player
        self._logger = logging.getLogger("loopharness")

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the sentence."""
        self._player.notes.append(Fault(0, "", f"the harness says: {record.getMessage()}"))

    def __enter__(self) -> None:
        self._propagates, self._logger.propagate = self._logger.propagate, False
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.propagate = self._propagates
        self._logger.removeHandler(self)
