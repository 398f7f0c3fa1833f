"""What happens to one tool call, in three lanes that a scheduler drives (llm-and-tools 9.2 to 9.5).

`prepare` asks policy, `dispatch` runs the body, `finalize` lets policy look at the result and makes it final.
Which lane runs when, what is logged and what an abort does to a batch is decided elsewhere; here an abort
only decides the result of its own call (T-301 to T-306).

- `tools/pre-execute`, waterfall `(execution, next)`: `{kind: allow}`, `{kind: deny, reason}` or `{kind: ask, reason?}`
- `tools/execute`, waterfall `(execution, next)`: a result
- `tools/post-execute`, waterfall `(execution, result, next)`: `{kind: accept, content? or value?,
  additionalContexts?}` or `{kind: block, feedback, additionalContexts?}`
- `tools/result`, emit `(execution, result)`
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from loopharness.bus import Bus
from loopharness.frozen import FrozenDict, NotJsonError, freeze
from loopharness.signal import Signal, fuse
from loopharness.tools.execution import Execution
from loopharness.tools.registry import Tool, ToolRegistry
from loopharness.tools.results import (
    ABORTED,
    ABORTED_BEFORE_DISPATCH,
    Result,
    ToolNotFoundError,
    failed,
    failed_by,
    text_content,
    with_contexts,
    without_contexts,
)

__all__ = ["ALLOW", "Approval", "Call", "Prepared", "Slot", "ToolPipeline"]

ALLOW: Final = FrozenDict({"kind": "allow"})
ACCEPT: Final = FrozenDict({"kind": "accept"})

Approval: TypeAlias = Callable[[Execution, str | None], Awaitable[str]]
"""Asks a person: `allowed-once`, `rejected`, `cancelled` or `unavailable`."""


class Slot(NamedTuple):
    """A result that waits to be committed. `post`: policy has still to look at it (T-202)."""

    result: Result
    post: bool


class Prepared(NamedTuple):
    """What `prepare` found: run the body (`dispatch`), or commit `slot` without it."""

    kind: Literal["dispatch", "post-result", "final-result"]
    slot: Slot | None = None


class Call:
    """One call on its way. The tool is looked up once for its finalizer, and again when the body is due."""

    __slots__ = ("execution", "finalizer", "finished")

    def __init__(self, execution: Execution, finalizer: Callable[[Execution, Result], Any] | None) -> None:
        self.execution: Final = execution
        self.finalizer: Final = finalizer
        self.finished = False


DISPATCH: Final = Prepared("dispatch")


def _always() -> bool:
    return True


class ToolPipeline:
    """The executor: the way of every tool call from its arguments to its result."""

    def __init__(self, bus: Bus, registry: ToolRegistry, approval: Approval | None = None) -> None:
        self._bus = bus
        self._registry = registry
        self.approval = approval

    def call(
        self,
        call_id: str,
        name: str,
        arguments: Any,
        signal: Signal,
        *,
        agent: object | None = None,
        key: object | None = None,
        parent: Execution | None = None,
    ) -> Call:
        """Begin a call. `key` is the scope of the calling agent; `parent` is the call it comes from, if any."""
        execution = Execution(
            call_id,
            name,
            arguments,
            signal,
            agent=agent,
            key=key,
            parent=None if parent is None else parent.token,
            root_call_id=None if parent is None else parent.root_call_id,
        )
        tool = self._registry.get(name, key)
        return Call(execution, None if tool is None else tool.finalize_content)

    # Lane one: policy

    async def prepare(self, call: Call) -> Prepared:
        """Snapshot the arguments and ask `tools/pre-execute`, approval and guards (T-302, T-303). Never raises."""
        execution = call.execution
        try:
            execution.arguments = freeze(execution.arguments)
        except NotJsonError:
            return _final(failed("tool execution arguments must be losslessly JSON-serializable"))
        if execution.aborted:
            return _final(ABORTED_BEFORE_DISPATCH)
        try:
            decision = await self._bus.waterfall("tools/pre-execute", execution, base=_allow, key=execution.key)
            refusal = await self._refusal(execution, decision)
        except Exception as error:
            return _final(failed_by(error))
        if refusal is not None:
            return Prepared("post-result", Slot(refusal, True))
        if execution.aborted:
            return Prepared("post-result", Slot(ABORTED_BEFORE_DISPATCH, True))
        return DISPATCH

    async def _refusal(self, execution: Execution, decision: Any) -> Result | None:
        kind = decision.get("kind") if isinstance(decision, Mapping) else None
        if kind == "deny":
            return failed(_reason(decision["reason"]))
        if kind == "ask":
            refusal = await self._ask(execution, decision.get("reason"))
            if refusal is not None:
                return refusal
        elif kind != "allow":
            raise ValueError(f"tools/pre-execute must answer allow, deny or ask, not {decision!r}")
        for guard in self._registry.guards(execution.key):
            reason = guard(execution)
            if reason is not None:
                return failed(_reason(reason))
        return None

    async def _ask(self, execution: Execution, reason: str | None) -> Result | None:
        name = execution.name
        if self.approval is None:
            return failed(reason or f'tool "{name}" requires approval (not yet supported)')
        if execution.agent is None:
            return failed(f'tool "{name}" requires approval, but the call has no agent to route it through')
        outcome = await self.approval(execution, reason)
        if outcome == "allowed-once":
            return None
        if outcome == "rejected":
            return failed(f'the user rejected tool "{name}"')
        if outcome == "unavailable":
            return failed(f'tool "{name}" requires approval, but no approval channel is available')
        if outcome == "cancelled":
            if execution.aborted:
                return ABORTED_BEFORE_DISPATCH
            return failed(f'approval for tool "{name}" was cancelled')
        raise ValueError(f"approval must answer allowed-once, rejected, cancelled or unavailable, not {outcome!r}")

    # Lane two: the body

    async def dispatch(self, call: Call, may_enter: Callable[[], bool] = _always) -> Slot:
        """Run `tools/execute` around the body, and wait for it whatever the signal says (T-301). Never raises.

        `may_enter` is asked at the last moment before the body; a scheduler has its say there (L-TOOL-17).
        """
        execution = call.execution
        run = _Body(execution, self._registry, may_enter)
        execution._signal_open = True
        try:
            answer = await self._bus.waterfall("tools/execute", execution, base=run, key=execution.key)
            result = run.accept(answer)
        except Exception as error:
            return Slot(failed_by(error), False)
        finally:
            execution._signal_open = False
        if execution.concluded and not result["isError"]:
            result = FrozenDict({**result, "concludesTurn": True})
        return Slot(_after_abort(execution, result), True)

    # Lane three: policy again, and the end

    async def finalize(self, call: Call, slot: Slot) -> Result:
        """The final result of a call that nobody schedules: review, then tell. Never raises."""
        result = slot.result
        if slot.post:
            result = await self.review(call, slot)
            result = _after_abort(call.execution, result)
        result = self.polished(call, result)
        self.announce(call, result)
        return result

    async def review(self, call: Call, slot: Slot) -> Result:
        """Let `tools/post-execute` look at a result: it is a failure when it was blocked or policy raised (T-205)."""
        execution, result = call.execution, slot.result
        try:
            decision = await self._bus.waterfall(
                "tools/post-execute", execution, result, base=_accept, key=execution.key
            )
            return self._decided(execution, result, decision)
        except Exception as error:
            return failed_by(error)

    def polished(self, call: Call, result: Result) -> Result:
        """The result with the content that the tool's own finalizer gives it (T-206)."""
        if call.finalizer is None:
            return result
        try:
            content = call.finalizer(call.execution, result)
            return result if content is None else FrozenDict({**result, "content": freeze(_blocks(content))})
        except NotJsonError:
            return failed("tool result must be losslessly JSON-serializable")
        except Exception as error:
            return failed_by(error)

    def replaced(self, result: Result, instead: Result) -> Result:
        """Another result in the place of one, which keeps its contexts (T-305, T-306)."""
        return with_contexts(instead, result.get("additionalContexts", ()))

    def announce(self, call: Call, result: Result) -> None:
        """Notify `tools/result`, once for each call (T-206)."""
        if call.finished:
            raise RuntimeError(f"call {call.execution.call_id!r} has been finished already")
        call.finished = True
        self._bus.emit("tools/result", call.execution, result, key=call.execution.key)

    def _decided(self, execution: Execution, result: Result, decision: Any) -> Result:
        """The result after a post-execute decision (T-205, T-310, T-311)."""
        kind = decision.get("kind") if isinstance(decision, Mapping) else None
        own = tuple(decision.get("additionalContexts") or ()) if kind in ("accept", "block") else ()
        try:
            if kind == "block":
                content = freeze(_blocks(decision["feedback"]))
                blocked = failed(_flat(content), content=content)
                return with_contexts(blocked, own)
            if kind != "accept":
                raise ValueError(f"tools/post-execute must answer accept or block, not {decision!r}")
            if "content" in decision and "value" in decision:
                raise ValueError("tools/post-execute may replace the content or the value, not both")
            contexts = (*result.get("additionalContexts", ()), *own)
            if "content" in decision:
                result = FrozenDict({**result, "content": freeze(_blocks(decision["content"]))})
            if "value" in decision:
                if result["isError"]:
                    raise ValueError("tools/post-execute cannot give a failed call a value")
                tool = _lookup(self._registry, execution)
                fresh = _succeed(tool, execution, decision["value"])
                concludes = {"concludesTurn": True} if result.get("concludesTurn") else {}
                result = FrozenDict({**fresh, **concludes})
            return with_contexts(result, contexts)
        except NotJsonError:
            return failed("tool result must be losslessly JSON-serializable")


class _Body:
    """The innermost step of `tools/execute`: called, it runs the body and makes the result."""

    __slots__ = ("_execution", "_may_enter", "_registry", "_result")

    def __init__(self, execution: Execution, registry: ToolRegistry, may_enter: Callable[[], bool]) -> None:
        self._execution = execution
        self._registry = registry
        self._may_enter = may_enter
        self._result: Result | None = None

    async def __call__(self) -> Result:
        execution = self._execution
        tool = self._registry.get(execution.name, execution.key)
        if tool is None:
            self._result = failed_by(ToolNotFoundError(execution.name))
            return self._result
        installed = execution._signal
        fused, release = fuse(execution._caller_signal, installed)
        try:
            if fused.aborted or not self._may_enter():
                self._result = ABORTED_BEFORE_DISPATCH
                return self._result
            execution._signal = fused
            execution.body_entered = True
            try:
                value = await tool.run(execution.arguments, execution)
                self._result = ABORTED if fused.aborted else _succeed(tool, execution, value)
            except Exception as error:
                self._result = failed_by(error)
        finally:
            execution._signal = installed
            release()
        return self._result

    def accept(self, answer: Any) -> Result:
        """The result after the listeners: what they made up themselves is checked again (T-204)."""
        execution = self._execution
        if self._result is not None and answer is self._result:
            return with_contexts(self._result, execution.contexts)
        if not isinstance(answer, Mapping) or not isinstance(answer.get("isError"), bool):
            raise ValueError(f"tools/execute must answer a result, not {answer!r}")
        contexts = (*execution.contexts, *(answer.get("additionalContexts") or ()))
        if answer["isError"]:
            return with_contexts(freeze(dict(answer)), contexts)
        tool = _lookup(self._registry, execution)
        return with_contexts(_succeed(tool, execution, answer.get("value")), contexts)


def _lookup(registry: ToolRegistry, execution: Execution) -> Tool:
    tool = registry.get(execution.name, execution.key)
    if tool is None:
        raise ToolNotFoundError(execution.name)
    return tool


def _succeed(tool: Tool, execution: Execution, value: Any) -> Result:
    return tool.success(execution.arguments, value, root_call=execution.parent is None)


def _after_abort(execution: Execution, result: Result) -> Result:
    """An abort replaces a success, never a failure; contexts stay (T-305, T-306)."""
    if result["isError"] or not execution.aborted:
        return result
    instead = ABORTED if execution.body_entered else ABORTED_BEFORE_DISPATCH
    return with_contexts(instead, result.get("additionalContexts", ()))


def _final(result: Result) -> Prepared:
    return Prepared("final-result", Slot(without_contexts(result), False))


def _allow() -> FrozenDict:
    return ALLOW


def _accept() -> FrozenDict:
    return ACCEPT


def _reason(reason: Any) -> str:
    if not isinstance(reason, str):
        raise TypeError(f"a reason must be text, not {reason!r}")
    return reason


def _blocks(content: Any) -> Any:
    return text_content(content) if isinstance(content, str) else content


def _flat(content: Any) -> str:
    """The message of a blocked result: its text, other blocks named (llm-and-tools 9.3)."""
    lines = [b["text"] if b["type"] == "text" else f"[{b['type']} content]" for b in content]
    return "\n".join(lines) or "tool result blocked by post-execute policy"
