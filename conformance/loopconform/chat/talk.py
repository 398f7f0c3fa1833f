"""A conversation: lines that are typed go to the agent, signals end turns or the program (G21).

- Ctrl-C once cancels the turn that runs; what was typed and not read yet is kept for the next turn.
- Ctrl-C twice ends the program; so do Ctrl-D, once the agent is idle, and `/quit`.
- When the terminal hangs up, the turn is closed in the log, the file is written out, and the program ends.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import anyio
import anyio.abc

from loopconform.chat.journal import Journal
from loopconform.chat.screen import Screen
from loopconform.exit_codes import Exit, code_of
from loopharness import compaction, permissions, retry, slice, workspace
from loopharness.agent import Agent, AgentOptions
from loopharness.frozen import dumps
from loopharness.harness import Harness, open_harness
from loopharness.model.deepseek import DeepSeekSettings, open_deepseek
from loopharness.model.deepseek.settings import PROVIDER
from loopharness.permissions import Answer, Permissions, Question, Rule
from loopharness.session import Session, wall_clock
from loopharness.tools.registry import define_tool
from loopharness.workspace.plugin import READ_ONLY

__all__ = ["Options", "Talk", "converse"]

HELP: Final = "Type to talk; while the model works, what you type steers it. /cancel ends a turn, /quit the program."
INTERRUPTED: Final = 128 + signal.SIGINT

CHOICES: Final = "y (this once), a (always), n (no) or v (never)"
ANSWERS: Final[Mapping[str, Answer]] = {
    "y": "once",
    "yes": "once",
    "a": "always",
    "always": "always",
    "n": "no",
    "no": "no",
    "v": "never",
    "never": "never",
}


class Options(NamedTuple):
    """What a conversation needs to know: the server, the model, an only prompt, the persona of the system prompt.

    `tape` holds the settings of the slice policy when that is mounted (`loopspec.tape.config`), else it is `None`.
    `roots` are the directories that file tools may touch, none for no file tools; `allowed` are shell patterns for the
    names of tools that need no permission. `compact` mounts compaction.
    """

    settings: DeepSeekSettings
    model: str
    once: str | None = None
    persona: str = ""
    interactive: bool = True
    tape: Mapping[str, Any] | None = None
    roots: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    compact: bool = False


class _Open(NamedTuple):
    """A question that waits for the next line; `said` is filled in by it."""

    answered: anyio.Event
    said: list[Answer]


class Talk:
    """One agent, one screen, one file; `code` is the exit code once `over` is set."""

    def __init__(self, agent: Agent, screen: Screen, journal: Journal, options: Options) -> None:
        self.agent: Final = agent
        self.screen: Final = screen
        self.journal: Final = journal
        self.options: Final = options
        self.over: Final = anyio.Event()
        self.code = 0
        self._presses = 0
        self._reported = False
        self._question: _Open | None = None

    # -- what the agent does

    def listen(self, harness: Harness) -> None:
        """Show and store what happens from now on."""
        harness.on("session/event", self._recorded)
        harness.on("agent/assistant-stream", self._streamed)
        harness.on("agent/status", self._status)
        self.store()

    def store(self) -> None:
        """Bring the file up to date; say it once when that does not work."""
        session = self.agent.session
        path = self.journal.path
        self.journal.write(session.header, session.events)
        if self.journal.path != path:
            self.screen.line(f"another file took the place of {path}; this conversation is in {self.journal.path}")
        if self.journal.failure is not None and not self._reported:
            self._reported = True
            text = f"{self.journal.path} cannot be written: {self.journal.why}. What is said is kept, and tried again"
            self.screen.line(text, fg="red")

    def _recorded(self, session: Session, event: Mapping[str, Any]) -> None:
        if session is self.agent.session:
            self.store()
            self.screen.record(event)

    def _streamed(self, payload: Mapping[str, Any]) -> None:
        if payload["agent"] is self.agent and payload["frame"]["type"] == "chunk":
            self.screen.chunk(payload["frame"]["chunk"])

    def _status(self, payload: Mapping[str, Any]) -> None:
        if payload["agent"] is self.agent and payload["status"] == "idle" and not self.over.is_set():
            self.screen.ask()

    async def permit(self, question: Question) -> Answer:
        """Ask whether a call may be made; the next line that is typed answers. A cancel takes the question back."""
        self._question = _Open(anyio.Event(), [])
        try:
            self.screen.question(question.tool, dumps(question.arguments), question.reason)
            await self._question.answered.wait()
            return self._question.said[0]
        finally:
            self._question = None

    def _answer(self, words: str, question: _Open) -> None:
        answer = ANSWERS.get(words.lower())
        if answer is None:
            self.screen.line(f"Answer {CHOICES}; /cancel ends the turn.", dim=True)
        elif not question.answered.is_set():
            question.said.append(answer)
            question.answered.set()

    # -- what the user does

    def typed(self, line: str) -> None:
        """One line from the keyboard."""
        self._presses = 0
        words = line.strip()
        if words == "/quit":
            self.end(0)
        elif words == "/cancel":
            self.cancel()
        elif words == "/help":
            self.screen.line(HELP, dim=True)
            self.screen.ask()
        elif self._question is not None:
            self._answer(words, self._question)
        elif words and self.agent.status == "running":
            self.agent.steer(line)
            self.screen.line("[the model reads this at its next step]", dim=True)
        elif words:
            self.agent.followup(line)
        else:
            self.screen.ask()

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._presses += 1
        if self._presses > 1:
            self.end(INTERRUPTED)
        elif self.agent.status == "running":
            self.cancel()
            self.screen.line("[cancelled; Ctrl-C again ends the program]", dim=True)
        else:
            self.screen.line("[Ctrl-C again ends the program]", dim=True)
            self.screen.ask()

    def cancel(self) -> None:
        """End the turn that runs; what the model has not read yet waits for the next one."""
        self.agent.cancel({"kind": "user"}, keep_inbox=True)
        kept = len(self.agent.inbox.next_step) + len(self.agent.inbox.next_turn)
        if kept:
            self.screen.line(f"[{kept} of your messages wait for your next one]", dim=True)

    def end(self, code: int) -> None:
        """End the program with this code; the first one counts."""
        if not self.over.is_set():
            self.code = code
            self.over.set()


async def converse(options: Options, journal: Journal, screen: Screen, keyboard: int) -> int:
    """Lead a conversation to its end; answers the exit code. `keyboard` is a file descriptor."""
    try:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGHUP, signal.SIGTERM) as signals:
            async with open_deepseek(options.settings) as adapter, open_harness(persona=options.persona) as harness:
                harness.llm.register_adapter([PROVIDER], adapter)
                _tools(harness)
                if options.tape is not None:
                    slice.install(harness, options.tape, journal.path.with_name(journal.path.name + ".spill"))
                allowed = _mount(harness, options)
                agent_options = AgentOptions(PROVIDER, options.model)
                if journal.header is None:
                    agent = await harness.create_agent(options=agent_options, cwd=os.getcwd())
                else:
                    agent = await harness.create_agent(
                        options=agent_options, header=journal.header, events=journal.events
                    )
                talk = Talk(agent, screen, journal, options)
                if allowed is not None and options.interactive and options.once is None:
                    allowed.asker = talk.permit
                talk.listen(harness)
                async with anyio.create_task_group() as group:
                    group.start_soon(_obey, talk, signals)
                    group.start_soon(_once if options.once is not None else _lead, talk, keyboard)
                    await talk.over.wait()
                    group.cancel_scope.cancel()
            talk.store()
            screen.line_end()
        code = talk.code
    finally:
        journal.close()
    return code if journal.failure is None else code or code_of(journal.failure) or Exit.DISK


async def _obey(talk: Talk, signals: AsyncIterator[signal.Signals]) -> None:
    async for number in signals:
        if number == signal.SIGINT:
            talk.interrupt()
        else:
            if number == signal.SIGHUP:
                talk.screen.gone = True
            talk.end(128 + number)


async def _once(talk: Talk, keyboard: int) -> None:
    """One prompt, one turn; the exit code says how it ended."""
    assert talk.options.once is not None
    talk.agent.followup(talk.options.once)
    await talk.agent.when_idle()
    events = talk.agent.session.events
    ends = (
        events[n]["data"]["reason"]["kind"] for n in range(len(events) - 1, -1, -1) if events[n]["type"] == "turn/end"
    )
    kind = next(ends, "aborted")
    talk.end(0 if kind == "completed" else INTERRUPTED if kind == "aborted" else 1)


async def _lead(talk: Talk, keyboard: int) -> None:
    """Hand over lines as they are typed; from a pipe, each one when the one before it has been answered."""
    talk.screen.ask()
    async for line in _lines(keyboard):
        talk.typed(line)
        if not talk.options.interactive:
            await talk.agent.when_idle()
    await talk.agent.when_idle()
    talk.end(0)


async def _lines(file: int) -> AsyncIterator[str]:
    """The lines that come from a file descriptor, until its end. Nothing blocks the program meanwhile."""
    buffer = b""
    while True:
        with suppress(OSError, ValueError):  # an ordinary file is always readable, and cannot be waited for
            await anyio.wait_readable(file)
        await anyio.lowlevel.checkpoint()
        try:
            more = os.read(file, 65536)
        except OSError:  # the terminal is gone
            more = b""
        buffer += more
        *lines, buffer = buffer.split(b"\n")
        if not more and buffer:
            lines, buffer = [*lines, buffer], b""
        for line in lines:
            yield line.decode("utf-8", "replace")
        if not more:
            return


def _mount(harness: Harness, options: Options) -> Permissions | None:
    """Retries; file tools with a policy that asks before anything is changed, and compaction, as far as wanted."""
    retry.install(harness)
    if options.compact:
        compaction.install(harness)
    if not options.roots:
        return None
    workspace.install(harness, *options.roots)
    harmless = ("clock", "recall_*", "expand_result", *READ_ONLY, *options.allowed)
    return permissions.install(harness, [Rule(name, "allow") for name in harmless])


def _tools(harness: Harness, now: Callable[[], int] = wall_clock) -> None:
    """The one tool of a conversation: harmless, and enough to see what a tool call looks like."""

    async def clock(arguments: Any) -> str:
        return f"{now()} milliseconds since the beginning of 1970, UTC"

    parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    harness.tools.register(define_tool("clock", "Tells the time.", parameters, clock, concurrent=True), harness.context)
