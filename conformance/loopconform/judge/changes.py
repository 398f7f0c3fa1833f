"""What a move is, and what moves change: the facts of an agent, its open operations, its open stream."""

from __future__ import annotations

import json
from typing import Any

from loopconform.judge.points import Facts, Point, assembled, canonical, is_visible
from loopspec import stream
from loopspec.kernel.machine import Answer, Effect
from loopspec.loop import batch_runs, runs

Label = tuple[Any, ...]
Step = tuple[Label, Point]

HIDDEN: Label = ()
"""The label of a move that nobody sees."""


def without(items: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    """The items but for the first one that is this."""
    at = items.index(item)
    return items[:at] + items[at + 1 :]


def ended_at_once(point: Point, result: Effect) -> Point:
    """The innermost operation is over as soon as it was called."""
    top = point.frames[-1]
    return point._replace(frames=(*point.frames[:-1], top._replace(state="ended", result=result)))


def with_settings(facts: Facts, op: Any) -> Facts:
    """Tools and the pool as an operation leaves them."""
    if op.op == "cap":
        return facts._replace(cap=op.size)
    if op.op in ("tool", "drop-tool"):
        tools = {name: parallel for name, parallel in facts.tools if name != op.name}
        if op.op == "tool":
            tools[op.name] = op.parallel
        return facts._replace(tools=tuple(sorted(tools.items())))
    return facts


def after_record(facts: Facts, record: Effect, is_v4: bool) -> Facts:
    """What is known behind a record of the driver."""
    kind = record[0]
    if kind == "request/header":
        return facts._replace(logged=(facts.model, facts.listed))
    if kind == "request/context":
        return facts._replace(context=facts.model)
    if kind == "system/message":
        return facts._replace(prompted=True)
    if kind == "assistant/chunk":
        return facts._replace(stream=(*facts.stream, facts.chunk))
    return facts


def end_of_stream(facts: Facts) -> tuple[Answer, Facts]:
    """What the end of a stream means, by the folds of the law (L-STR-3 to L-STR-8)."""
    whole = assembled(facts.stream)
    visible = is_visible(facts)
    if stream.failure(whole) is not None:
        return ("end", "failure", False, visible), facts
    try:
        settlement = stream.settle(whole)
    except stream.AssemblyError:
        return ("throws", visible), facts
    calls = tuple((str(block["id"]), str(block["name"])) for block in stream.tool_calls(settlement.content))
    finish = "max-tokens" if settlement.finish["kind"] == "max-tokens" else "stop"
    after = facts._replace(calls=calls, recalled=(), started=(), barred=(), concluding=(), contexts=(), texts=())
    return ("end", finish, bool(calls), visible), after


def content_of(facts: Facts, interrupted: bool) -> Any:
    """The content of the anchor of the open stream."""
    whole = assembled(facts.stream)
    settlement = stream.settle_interrupted(whole) if interrupted else stream.settle(whole)
    return json.loads(canonical([_plain(block) for block in settlement.content]))


def _plain(block: Any) -> dict[str, Any]:
    return dict(block)


def segment_runs(point: Point) -> bool:
    """A synchronous segment of either machine is under way."""
    return runs(point.loop) or batch_runs(point.loop)
