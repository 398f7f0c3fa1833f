"""One batch of tool calls: the scheduler machine, run live.

What starts when, what is recorded in which order, what an abort or a failure leaves: all that is decided in
`loopspec.scheduler`. This file performs it: whatever the machine waits for begins in a task of its own, bodies and
the work of the one *lane* alike, as the machine alone sees to it that the lane does one thing after the other;
questions are answered at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from loopharness.interpreter import Interpreter
from loopharness.signal import Signal
from loopharness.tools.execution import parse_arguments
from loopharness.tools.pipeline import Call, Slot
from loopharness.tools.results import ABORTED, ABORTED_BEFORE_DISPATCH, Result, failed, text_content
from loopspec import scheduler
from loopspec.kernel.machine import Answer, Effect, Operation
from loopspec.log.repair import NOT_STARTED_TEXT, OUTCOME_UNKNOWN_TEXT
from loopspec.values import Record

if TYPE_CHECKING:
    from loopharness.agent.agent import Agent

__all__ = ["ToolBatch"]


def _missing(text: str, name: str, code: str) -> Result:
    return failed(text, name=name, code=code, content=text_content(text))


MISSING = {
    "outcome-unknown": _missing(OUTCOME_UNKNOWN_TEXT, "ToolOutcomeUnknownError", "TOOL_OUTCOME_UNKNOWN"),
    "not-started": _missing(NOT_STARTED_TEXT, "ToolNotStartedError", "TOOL_NOT_STARTED"),
}
"""What completes a failed batch: the results of crash repair (S-REP-3, VD-40)."""


REPLACED = {"aborted": ABORTED, "aborted-before-dispatch": ABORTED_BEFORE_DISPATCH}
"""What stands in the place of a success after an abort (L-TOOL-18)."""


class ToolBatch:
    """The calls of one answer, in model order, numbered from 1."""

    def __init__(self, agent: Agent, turn: int, step: int, calls: Sequence[Record], signal: Signal) -> None:
        self._agent = agent
        self._place = {"turn": turn, "step": step}
        self._blocks = calls
        self._signal = signal
        self._pipeline = agent.services.pipeline
        self._calls: dict[int, Call] = {}
        self._slots: dict[int, Slot] = {}
        self._results: dict[int, Result] = {}
        self._call_seqs: dict[int, int] = {}
        self._failures: dict[Effect, Exception] = {}
        self._point: Effect = ()
        self._end: Effect = ()
        self._ended = anyio.Event()
        self._group: anyio.abc.TaskGroup
        first = scheduler.initial(agent.law, len(calls), signal.aborted)
        self._interpreter = Interpreter(scheduler.MACHINE, first, self)

    async def run(self) -> Answer:
        """Run the batch to its end: `continue`, `concluded` or `throws`, as the driver's await point wants it."""
        release = self._signal.on_abort(lambda _: self._interpreter.call(("abort",)))
        try:
            async with anyio.create_task_group() as self._group:
                self._advance(self._interpreter.start)
                await self._ended.wait()
        finally:
            release()
        if self._end[0] == "throws":
            self._agent.failure = self._failures[self._end[1]]
        return self._end[:1]

    def _advance(self, move: Callable[..., Any], *arguments: Any) -> None:
        """Make a move, and answer the questions that it leads to."""
        move(*arguments)
        while self._point:
            point, self._point = self._point, ()
            self._resume(point, self._ask(point))

    def _resume(self, point: Effect, answer: Answer) -> None:
        points = [parked[0] for parked in self._interpreter.config.parked]
        self._interpreter.resume(answer, points.index(point))

    # -- questions

    def _ask(self, point: Effect) -> Answer:
        try:
            if point[0] == "classify":
                call = self._call(point[1])
                return (self._agent.services.tools.execution_mode(*self._route(call)),)
            if point[0] == "cap":
                return ("cap", self._agent.services.settings.max_parallel_tool_calls)
            for message in self._results[point[1]].get("additionalContexts", ()):
                self._agent.inbox.append("next-step", message)
            return ("done",)
        except Exception as error:
            return self._throws(point, error)

    def _route(self, call: Call) -> tuple[str, Any, object]:
        execution = call.execution
        return execution.name, execution.arguments, execution.key

    def _throws(self, point: Effect, error: Exception) -> Answer:
        self._failures.setdefault((point[0], point[1] if len(point) > 1 else self._interpreter.config.core.next), error)
        return ("throws",)

    # -- the lane

    async def _lane(self, point: Effect) -> None:
        try:
            answer = await (self._prepare(*point[1:]) if point[0] == "prepare" else self._finalise(*point[1:]))
        except Exception as error:
            answer = self._throws(point, error)
        self._advance(self._resume, point, answer)

    async def _prepare(self, number: int, scope: str) -> Answer:
        prepared = await self._pipeline.prepare(self._call(number))
        if prepared.slot is None:
            return ("dispatch",)
        self._slots[number] = prepared.slot
        if prepared.slot.result is ABORTED_BEFORE_DISPATCH:
            return ("dispatch",)  # the machine knows of the abort, and what it makes of a permission
        return (prepared.kind,)

    async def _finalise(self, number: int, outcome: str) -> Answer:
        slot = self._slots[number]
        if outcome in REPLACED:
            slot = slot._replace(result=self._pipeline.replaced(slot.result, REPLACED[outcome]))
        call = self._call(number)
        result = await self._pipeline.review(call, slot)
        blocked = outcome == "success" and result["isError"]
        # The machine will say the same when it gets the answer; the tool's finalizer sees what it says (T-206).
        replaced = scheduler.replaced(self._interpreter.config.core, number, "failure" if blocked else outcome)
        if outcome == "success" and replaced in REPLACED:
            result = self._pipeline.replaced(result, REPLACED[replaced])
        result = self._results[number] = self._pipeline.polished(call, result)
        contexts = bool(result.get("additionalContexts"))
        return ("block", contexts) if blocked else ("accept", bool(result.get("concludesTurn")), contexts)

    async def _body(self, number: int) -> None:
        call = self._call(number)
        try:
            slot = await self._pipeline.dispatch(call, lambda: self._interpreter.call(("enter", number)))
            self._slots[number] = slot
            answer: Answer = (_kind(slot),)
        except Exception as error:
            self._failures.setdefault(("body", number), error)
            answer = ("rejects",)
        self._advance(self._resume, ("body", number), answer)

    # -- performing effects (interpreter.Performer)

    def append(self, record: Effect) -> None:
        """Write a call or a result."""
        number = record[1]
        block = self._blocks[number - 1]
        if record[0] == "tool/call":
            data = {**self._place, "callId": block["id"], "name": block["name"], "arguments": block["arguments"]}
            self._call_seqs[number] = self._agent.session.append("tool/call", data)["seq"]
        else:
            self._write_result(number, block["id"], record[2])

    def _write_result(self, number: int, call_id: str, outcome: str) -> None:
        id = self._agent.services.new_id()
        if outcome == "never-started":
            result = ABORTED_BEFORE_DISPATCH
        elif outcome in MISSING:
            result, id = MISSING[outcome], f"interrupted-tool-result-{call_id}-{len(self._agent.session.events)}"
        else:
            result = self._results[number]
        content, is_error = result["content"], result["isError"]
        source = {"kind": "tool", "callId": call_id}
        message: dict[str, Any] = {"role": "tool", "source": source, "toolCallId": call_id}
        if self._agent.session.dialect == "v0":
            block = {"type": "tool-result", "toolCallId": call_id, "content": content, "isError": is_error}
            message = {"role": "user", "source": source, "content": (block,)}
        else:
            message |= {"content": content, "isError": is_error}
        data: dict[str, Any] = {**self._place, "message": {**message, "id": id}}
        info = result["error"].get("info") if is_error else None
        if info is not None:
            data["error"] = info
        if "meta" in result:
            data["meta"] = result["meta"]
        seq = self._call_seqs.get(number)
        self._agent.session.append("tool/result", data, "append", None if seq is None else [seq])

    def notify(self, event: Effect) -> None:
        """Begin a dispatch, or tell the final result of one."""
        number = event[1]
        if event[0] == "tools/execute":
            self._interpreter.call(("execute", number))
        else:
            call = self._call(number)
            if number not in self._results:
                self._results[number] = self._pipeline.polished(call, self._unreviewed(number, event[2]))
            self._pipeline.announce(call, self._results[number])

    def _unreviewed(self, number: int, outcome: str) -> Result:
        return ABORTED_BEFORE_DISPATCH if outcome == "aborted-before-dispatch" else self._slots[number].result

    def note(self, change: Effect) -> None:
        """The scheduler has no silent changes."""

    def park(self, point: Effect) -> None:
        """Begin what the machine waits for; a question is answered before anything else happens."""
        if scheduler.is_question(point):
            self._point = point
        elif point[0] == "body":
            self._group.start_soon(self._body, point[1])
        else:
            self._group.start_soon(self._lane, point)

    def refused(self, record: Effect, error: Exception | None) -> None:
        """The record of a call or result was refused: a failure of the machinery (L-TOOL-21)."""
        self._failures.setdefault((record[0], record[1]), error or RuntimeError("the log is locked"))

    def begun(self, operation: Operation) -> Operation:
        """No operation of the scheduler waits."""
        return operation

    def left(self, end: Effect, heard: bool) -> None:
        """The batch is over, or the lane waits."""
        if scheduler.is_over(end):
            self._end = end
            self._ended.set()

    def error(self, kind: str) -> Exception:
        """No operation of the scheduler is refused."""
        return RuntimeError(f"tool batch: {kind}")

    def _call(self, number: int) -> Call:
        """The call as the pipeline knows it; its arguments are parsed once (L-TOOL-1)."""
        call = self._calls.get(number)
        if call is None:
            block: Mapping[str, Any] = self._blocks[number - 1]
            arguments = parse_arguments(block["arguments"])
            call = self._calls[number] = self._pipeline.call(
                block["id"], block["name"], arguments, self._signal, agent=self._agent, key=self._agent.key
            )
        return call


def _kind(slot: Slot) -> str:
    """What the scheduler has to know of a settled dispatch."""
    if not slot.post:
        return "final-result"
    if slot.result is ABORTED_BEFORE_DISPATCH:
        return "barred"
    return "failure" if slot.result["isError"] else "success"
