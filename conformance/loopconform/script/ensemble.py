"""A composition played on the reference harness: several agents, one session each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio

from loopconform.script.composition import CHILDREN, AgentReaction, AgentStep, Composed
from loopconform.script.load import Fault
from loopconform.script.model import Answer, Reaction, Step
from loopconform.script.parts import Chorus, Item, ScriptModel, answer_items
from loopconform.script.play import GaveUp, Log, Player
from loopconform.script.plugins import mount_subagents
from loopconform.script.text import PathKey
from loopharness import slice
from loopharness.agent import Agent
from loopharness.creation.configured import FAILED
from loopharness.errors import HarnessError, error_chain
from loopharness.harness import Harness, open_harness
from loopharness.model.deepseek import open_deepseek
from loopharness.model.deepseek.settings import PROVIDER
from loopharness.session import Session
from loopharness.store.errors import SessionPersistenceError

__all__ = ["PlayedTogether", "Stored", "play_composition"]

Record = Mapping[str, Any]
IN_PLUGINS = ("permissions", "compaction", "retry", "slice", "subagent")


class Stored(NamedTuple):
    """One session as it was at the end."""

    header: Record
    events: tuple[Record, ...]


class PlayedTogether(NamedTuple):
    """What came of a composition. `unstarted`: an agent could not be started, whatever else happened.

    `causes`: why agents could not be started, and why what was said could not be stored.
    """

    verdict: Literal["played", "wrong", "stuck", "unstarted"]
    sessions: tuple[Stored, ...]
    faults: tuple[Fault, ...] = ()
    notes: tuple[Fault, ...] = ()
    causes: tuple[BaseException, ...] = ()


def play_composition(composed: Composed, folder: Path) -> PlayedTogether:
    """Start the agents, play the steps, and answer every session that was live. `folder` is where paths begin.

    Raises `BadScript` for a tool or plugin that the harness refuses; then no agent has been started.
    """
    return anyio.run(Ensemble(composed, folder).together)


class Ensemble(Player):
    def __init__(self, composed: Composed, folder: Path) -> None:
        super().__init__(composed.loaded, "", None, folder)
        self.composition = composed.composition
        self.harness: Harness
        self.sessions: dict[int, Session] = {}
        self.failed: dict[str, BaseException] = {}
        """Why an agent could not be started, by its label."""
        self.heard: str | None = None
        """The label of the agent whose record or event is being reacted to."""
        if self.composition.deepseek is not None or self.composition.sessions is not None:
            self.outside.busy += 1  # a server or a disk may always answer: only the time limit ends a standstill

    async def together(self) -> PlayedTogether:
        """Open a harness, start the agents, play, and keep the sessions before the harness ends."""
        script, composition = self.script, self.composition
        root = None if composition.sessions is None else self.folder / composition.sessions
        played: PlayedTogether | None = None
        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(Log(self))
                opened = open_harness(
                    script.profile, script.session_format, self.now, script.identity, script.persona, self.new_id, root
                )
                harness = self.harness = await stack.enter_async_context(opened)
                model = self._model()
                self._mount(harness, model, script.session_format)
                self._mount_more(harness)
                if composition.deepseek is not None:
                    settings = composition.deepseek.settings()
                    adapter = await stack.enter_async_context(open_deepseek(settings, profile=script.profile))
                    harness.llm.register_adapter([PROVIDER], adapter)
                await self._count_on(harness)
                await self._start(harness)
                await self._all_steps()
                self._leftovers(model)
                played = self._outcome()
                if self.stuck or self.crashed:
                    raise GaveUp
        except GaveUp:
            pass
        except SessionPersistenceError:  # the last of a session could not be stored: `lost` says which
            if played is None:
                raise
        assert played is not None
        stored = self.harness.persistence
        lost = {} if stored is None else stored.lost
        faults = [Fault(0, "", f"the end of session {id} is not stored: {error_chain(lost[id])}") for id in lost]
        return played._replace(
            faults=(*played.faults, *faults),
            notes=tuple(self.notes),
            causes=(*self.failed.values(), *lost.values()),
        )

    async def _count_on(self, harness: Harness) -> None:
        """Counted ids begin behind those of the stored sessions that are taken up."""
        if self.script.clock is None or harness.persistence is None:
            return
        taken = 0
        for entry in self.composition.agents:
            exact = entry.sessionId or entry.resumeSessionId
            try:
                taken += 0 if exact is None else len((await harness.persistence.inspect(exact)).events)
            except (HarnessError, OSError):
                continue  # it is not there, or its agent will say what is wrong with it
        self._prefix = f"{taken}-" if taken else ""

    def _outcome(self) -> PlayedTogether:
        verdict: Literal["played", "wrong", "stuck", "unstarted"] = "played"
        if self.failed:
            verdict = "unstarted"
        elif self.stuck:
            verdict = "stuck"
        elif self.faults:
            verdict = "wrong"
        sessions = tuple(Stored(session.header, tuple(session.events)) for session in self.sessions.values())
        return PlayedTogether(verdict, sessions, tuple(self.faults), tuple(self.notes))

    # -- what is mounted

    def _model(self) -> Chorus:
        answers = self.composition.answers
        shared = answers if isinstance(answers, list) else []
        parts = {} if isinstance(answers, list) else answers
        return Chorus(
            self.script.model,
            self._items(shared),
            {label: self._items(part) for label, part in parts.items()},
            self.gates,
            self._label_of,
        )

    def _items(self, answers: Sequence[Answer]) -> list[list[Item]]:
        return [answer_items(answer, self.new_call_id) for answer in answers]

    def _mount_more(self, harness: Harness) -> None:
        plugins = self.composition.plugins
        if plugins.slice is not None:
            with self._mounting("slice"):
                slice.install(harness, plugins.slice)
        if plugins.subagent is not None:
            with self._mounting("subagent"):
                mount_subagents(harness, plugins.subagent)

    @contextmanager
    def _mounting(self, *path: str | int) -> Iterator[None]:
        """As in a script, at the places that these things have here."""
        if path[0] == "tools" and path[-1] == len(self.composition.tools):
            path = ("plugins", "workspace")
        elif path[0] in IN_PLUGINS:
            path = ("plugins", *path)
        with super()._mounting(*path):
            yield

    # -- agents

    async def _start(self, harness: Harness) -> None:
        def created(session: Session) -> None:
            self.sessions[id(session)] = session

        def failed(payload: Mapping[str, Any]) -> None:
            label = self._label_of(payload["sessionId"])
            self.failed[label] = payload["error"]
            at = next(at for at, entry in enumerate(self.composition.agents) if entry.id == label)
            reason = f"{FAILED}: {label} ({payload['sessionId']}): {error_chain(payload['error'])}"
            self._fault(("agents", at), reason)

        harness.agents.on_any("session/created", created)
        harness.on(FAILED, failed)
        await harness.agents.configure(self.composition.configuration())

    def _label_of(self, session_id: str) -> str:
        """The label of the agent with this session; `subagents` for one that no configuration names."""
        for entry in self.composition.agents:
            exact = entry.sessionId or entry.resumeSessionId
            if session_id == exact if exact else session_id.startswith(f"{entry.id}-session-"):
                return entry.id
        return CHILDREN

    def _agent(self, label: str | None) -> Agent | None:
        """The live agent with a label; without one, the only agent of the composition."""
        label = label or self.heard or self.composition.agents[0].id
        return next((one for one in self.harness.agents.list() if self._label_of(one.id) == label), None)

    # -- steps

    def _concerns(self, reaction: Reaction, session_id: str) -> bool:
        assert isinstance(reaction, AgentReaction)
        return reaction.of in (None, self._label_of(session_id))

    def _reacting(self, reaction: Reaction, number: int, session_id: str) -> None:
        before, self.heard = self.heard, self._label_of(session_id)
        try:
            super()._reacting(reaction, number, session_id)
        finally:
            self.heard = before

    def _do(self, step: Step, path: PathKey) -> None:
        if step.open is None:
            assert isinstance(step, AgentStep)
            agent = self._agent(step.to)
            if agent is None:
                self._fault(path, f"{step.verb} was refused: {step.to or self.heard or 'the agent'} is not live")
                return
            self.agent = agent
        super()._do(step, path)

    async def _wait(self, point: str, path: PathKey) -> None:
        if point != "idle":
            await super()._wait(point, path)
            return
        at = path[1]
        assert isinstance(at, int)
        label = self.composition.steps[at].to if path[-1] == "wait" else None
        if label is not None and self._agent(label) is None:
            self._fault(path, f"wait was refused: {label} is not live")
            return
        await self._until(lambda: self._all_idle(label), path, f"{label or 'somebody'} does not become idle")

    async def _all_idle(self, label: str | None) -> None:
        """Until the agent is idle, or all of them are at once."""
        while True:
            busy = [
                agent
                for agent in self.harness.agents.list()
                if agent.status != "idle" and label in (None, self._label_of(agent.id))
            ]
            if not busy:
                return
            for agent in busy:
                await agent.when_idle()

    def _why(self, otherwise: str) -> tuple[str, str]:
        if next(self.gates.waiting(), None) is not None:
            return super()._why(otherwise)
        return f"{otherwise}: nothing is left to do", "Send something first, or leave this wait out."

    # -- what went wrong

    def _leftovers(self, model: ScriptModel) -> None:
        assert isinstance(model, Chorus)
        parts: list[tuple[PathKey, str, ScriptModel]] = [
            (("answers", label), f"for {label}", part) for label, part in model.parts.items()
        ]
        for path, whom, part in [*parts, (("answers",), "for everybody else" if parts else "at all", model)]:
            if part.misses:
                reason = f"{part.misses} of {part.asked} calls of the model found no answer {whom}"
                self._fault(path, reason, "Add an answer, or look why the agent goes on.")
            elif part.left and not self.stuck and not self.crashed:
                self._note(path, f"nobody asked for the last {part.left} of the answers")
