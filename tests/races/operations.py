"""Plays the operations of a field case on a live harness: one operation, then everything settles, then the next.

| operation | what it does |
|---|---|
| `create`, `tool`, `script`, `rule` | set the scene: the agent, its tools, its model, and where somebody is held |
| `followup`, `steer`, `inject`, `remove`, `splice`, `cancel`, `whenIdle` | what a caller does |
| `on` | the operations in `do` happen inside a record or an event; with `micro` one scheduler tick behind it |
| `release` | opens a gate; `act` says how what stood there ends |
| `state` | a look at the agent; `states` keeps them |

*Settled* means: the agent is idle, or somebody stands at a gate.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
from tests.harness.conversation import Conversation, conversation, message

from loopharness.errors import HarnessError
from loopharness.frozen import freeze
from loopharness.gate import Gate
from loopharness.model.failure import LlmError
from loopharness.tools.execution import Execution
from loopspec.kernel.machine import Answer
from loopspec.profile import Profile

HERE = Path(__file__).parent / "field-cases"

Operation = Mapping[str, Any]


class Look(NamedTuple):
    """The agent at a `state` operation."""

    status: str
    next_step: list[str]
    next_turn: list[str]
    turns: int


class Stage:
    """One case being played."""

    def __init__(self, talk: Conversation, group: anyio.abc.TaskGroup) -> None:
        self.talk = talk
        self.states: list[Look] = []
        self._waiting = 0
        self._group = group
        self._gates: dict[tuple[str, str], Gate] = {}
        self._acts: dict[str, Operation] = {}
        self._opened: Gate | None = None
        self._changed = anyio.Event()
        talk.harness.on("agent/status", lambda payload: self._change())

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def play(self, steps: list[Operation]) -> None:
        """All operations, each settled before the next."""
        for step in steps:
            getattr(self, f"_{step['op']}")(step)
            while not self._settled():
                await self._changed.wait()
        while self._waiting:
            await self._changed.wait()

    def _settled(self) -> bool:
        if self._opened is not None and self._opened.passed < self._opened.arrived:
            return False
        return self._held() or self.talk.agent.status == "idle"

    def _held(self) -> bool:
        return any(gate.arrived > gate.passed for gate in self._gates.values())

    async def _stand(self, point: str, key: str = "") -> None:
        gate = self._gates.get((point, key))
        if gate is not None:
            self._group.start_soon(self._reach, gate)
            await gate.enter()
            self._change()

    async def _reach(self, gate: Gate) -> None:
        await gate.reached()
        self._change()

    # -- the scene

    def _create(self, step: Operation) -> None:
        """The conversation has made the agent."""

    def _tool(self, step: Operation) -> None:
        async def body(execution: Execution) -> None:
            await self._stand("tool", execution.call_id)
            act = self._acts.get(execution.call_id, {})
            if "throw" in act:
                raise HarnessError(act["throw"]["message"], act["throw"]["code"])

        self.talk.tool(step["name"], body, concurrent=step["mode"] == "parallel")

    def _script(self, step: Operation) -> None:
        self.talk.adapter.say(*([part for item in call for part in self._items(item)] for call in step["calls"]))

    def _items(self, item: Operation) -> list[Any]:
        if "throw" in item:
            return [LlmError(item["throw"]["message"], item["throw"]["code"])]
        if "gate" in item:
            gate = self._gates.setdefault(("chunk", item["gate"]), Gate())
            self._group.start_soon(self._reach, gate)
            return [gate, self._change]
        return [freeze(item)]

    def _rule(self, step: Operation) -> None:
        self._gates.setdefault((step["p"], step.get("key", "")), Gate())
        if step["p"] == "request":

            async def listener(payload: Any, proceed: Callable[[], Any]) -> Any:
                await self._stand("request")
                return await proceed()

            self.talk.harness.on("agent/request", listener)

    # -- what a caller does

    def _followup(self, step: Operation) -> None:
        self.talk.followup(step["m"]["id"])

    def _steer(self, step: Operation) -> None:
        self.talk.steer(step["m"]["id"])

    def _inject(self, step: Operation) -> None:
        self.talk.inject(step["m"]["id"])

    def _remove(self, step: Operation) -> None:
        assert self.talk.agent.inbox.remove(step["m"])

    def _splice(self, step: Operation) -> None:
        inserted = [message(m["id"]) for m in step["ins"]]
        self.talk.agent.inbox.splice(step["target"], step["start"], step["del"], inserted)

    def _cancel(self, step: Operation) -> None:
        self.talk.agent.cancel({"kind": step["cause"]}, keep_inbox=step.get("keepInbox", False))

    def _whenIdle(self, step: Operation) -> None:
        async def wait() -> None:
            await self.talk.idle()
            self.talk.mark(f"whenIdle answered, {self.talk.agent.status}")
            self._waiting -= 1
            self._change()

        self._waiting += 1
        self._group.start_soon(wait)

    def _state(self, step: Operation) -> None:
        next_step, next_turn = self.talk.pending()
        turns = len(self.talk.records("turn/start"))
        self.states.append(Look(self.talk.agent.status, next_step, next_turn, turns))

    def _release(self, step: Operation) -> None:
        key = step.get("key", "")
        if "act" in step:
            self._acts[key] = step["act"]
        assert self._held(), "nobody stands at a gate"
        self._opened = self._gates.pop((step["p"], key))
        self._opened.open()

    def _on(self, step: Operation) -> None:
        match = step["match"]
        if step["e"] == "session/event":
            line = f"S {match['type']}"
        else:
            line = f"E {step['e']} {match.get('m', match.get('status'))}"
        if "micro" in step:
            self.talk.at(line, lambda: self._behind(step["do"]))
        else:
            self.talk.at(line, lambda: self._do(step["do"]))

    def _do(self, steps: list[Operation]) -> None:
        for step in steps:
            getattr(self, f"_{step['op']}")(step)

    def _behind(self, steps: list[Operation]) -> None:
        """One tick behind the end of a turn: inside the hand-over."""
        hooks = self.talk.agent._hooks
        gap = hooks["gap"]

        async def held(*arguments: Any) -> Answer:
            hooks["gap"] = gap
            self._do(steps)
            return await gap(*arguments)

        hooks["gap"] = held


@asynccontextmanager
async def played(name: str, profile: Profile) -> AsyncIterator[Stage]:
    """The case of that name, played to its end."""
    case = json.loads((HERE / f"{name}.ops.json").read_text())
    async with conversation(profile=profile) as talk, anyio.create_task_group() as group:
        stage = Stage(talk, group)
        await stage.play(case["steps"])
        yield stage
