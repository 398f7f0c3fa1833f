"""A tool with which an agent hands a task to another agent and gets the answer back.

    subagent.install(harness, depth=2)

The child is an agent like any other, made through the scope of its parent: it has a session of its own, it cannot
outlive its parent, and the registry knows whose it is (C-OWN-3, C-FRK-13). A cancel of the parent's turn cancels the
child, as caused by its parent, and is waited for. A child that fails fails the call, and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import anyio
from pydantic import Field

from loopharness.agent import Agent, AgentOptions, user_message
from loopharness.agents import Meta
from loopharness.bus import Context
from loopharness.creation.order import Setup
from loopharness.errors import HarnessError
from loopharness.harness import Harness
from loopharness.session import Session
from loopharness.signal import Signal
from loopharness.tools.registry import define_tool

__all__ = ["SubagentError", "Subagents", "install"]


class SubagentError(HarnessError):
    """A child that gave no answer."""


class Subagents:
    """The mounted tool. Made by `install`."""

    def __init__(
        self, harness: Harness, name: str, depth: int, options: AgentOptions | None, setup: Setup | None
    ) -> None:
        self.name: Final = name
        self.depth: Final = depth
        self._harness: Final = harness
        self._options: Final = options
        self._setup: Final = setup

    async def delegate(
        self,
        task: Annotated[str, Field(min_length=1, description="All that the other agent needs to know.")],
        agent: Agent,
        signal: Signal,
    ) -> dict[str, str]:
        """Hand a task to another agent. It starts without knowing this conversation, works, and answers once."""
        level = depth_of(agent.session) + 1
        if level > self.depth:
            raise SubagentError(f"tasks can be handed on {self.depth} times at most; do it yourself", "TOO_DEEP")
        meta: Meta = {"parentSession": agent.id, "origin": "subagent", "delegationDepth": level}
        if "cwd" in agent.session.header:
            meta["cwd"] = agent.session.header["cwd"]
        try:
            handle = await self._harness.agents.create(
                None,
                self._options or agent.options,
                meta=meta,
                setup=lambda scope: self._compose(scope, level),
                signal=signal,
                owner=agent.ctx,
            )
        except Exception:
            if signal.aborted:
                return {"session": "", "answer": ""}  # the call ends as aborted, whatever it answers (T-305)
            raise
        child = handle.agent
        remove = signal.on_abort(lambda _: child.cancel({"kind": "parent"}))
        try:
            if not signal.aborted:
                child.followup(_task(task, agent))
                await child.when_idle()
            return {"session": child.id, "answer": "" if signal.aborted else answer_of(child.session)}
        finally:
            remove()
            with anyio.CancelScope(shield=True):
                await handle.dispose()

    def _compose(self, scope: Context, level: int) -> Any:
        """The last level does not see the tool."""
        if level >= self.depth:
            self._harness.tools.restrict(scope, deny=[self.name])
        return None if self._setup is None else self._setup(scope)


def depth_of(session: Session) -> int:
    """How many agents stand above the one of a session, as its header says; 0 for one that a user has made."""
    depth = session.header.get("delegationDepth", 0)
    return depth if isinstance(depth, int) else 0


def _task(task: str, parent: Agent) -> Mapping[str, Any]:
    source: dict[str, Any] = {"kind": "agent-message", "form": "relay", "senderSessionId": parent.id}
    if parent.session.dialect == "v0":
        source = {"kind": "plugin", "plugin": "subagent", "form": "relay"}
    return {**user_message(task), "id": parent.services.new_id(), "source": source}


def answer_of(session: Session) -> str:
    """What an agent has said last, when its last turn completed. Raises `SubagentError` when it did not."""
    end = session.last("turn/end")
    reason: Mapping[str, Any] = {"kind": "none"} if end is None else end["data"]["reason"]
    if reason["kind"] == "error":
        error = reason["error"]
        raise SubagentError(f"the other agent failed: {error['code']}: {error['message']}", "SUBAGENT_FAILED")
    if reason["kind"] != "completed":
        raise SubagentError(f"the other agent did not finish: its turn ended as {reason['kind']}", "SUBAGENT_STOPPED")
    said = session.last("assistant/message")
    content = () if said is None else said["data"]["message"]["content"]
    text = "".join(block["text"] for block in content if block["type"] == "text")
    return text or "[the other agent had nothing to say]"


def _shown(arguments: Any, value: Mapping[str, str]) -> str:
    return value["answer"]


def _meta(arguments: Any, value: Mapping[str, str]) -> Mapping[str, str] | None:
    return {"sessionId": value["session"]} if value["session"] else None


def install(
    harness: Harness,
    *,
    name: str = "delegate",
    depth: int = 1,
    options: AgentOptions | None = None,
    setup: Setup | None = None,
    context: Context | None = None,
) -> Subagents:
    """Mount the tool, until `context` (or the harness) ends.

    `depth` is how often a task may be handed on: with 1, a child has no children. A child calls the model as `options`
    say, by default as its parent does, and is composed by `setup` before it starts. Raises `ValueError` for a depth
    below 1 and for a name that is taken.
    """
    if depth < 1:
        raise ValueError(f"depth must be at least 1, not {depth!r}")
    subagents = Subagents(harness, name, depth, options, setup)
    tool = define_tool(subagents.delegate, name=name, concurrent=True, render=_shown, presentation_meta=_meta)
    harness.tools.register(tool, context or harness.context)
    return subagents
