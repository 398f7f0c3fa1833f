"""A program of requests in plain words, one line for each."""

from __future__ import annotations

from typing import Any

from loopconform.protocol.requests import Do, Open, Plan, React, Release, Settle, Veto

ORDINAL = {1: "next", 2: "2nd", 3: "3rd"}


def phrase(request: Any) -> str:
    """One request, as one would say it."""
    if isinstance(request, Open):
        return _open(request)
    if isinstance(request, Do):
        return operations(request.ops)
    if isinstance(request, React):
        how = "in a task that is queued there" if request.queued else "inside that dispatch"
        return f"when the {_event(request.on)} is told, {how}: {operations(request.ops)}"
    if isinstance(request, Plan):
        return f"the next hook at {_place(request)} answers {outcome(request.outcome)}"
    if isinstance(request, Veto):
        which = "the next" if request.nth == 1 else f"number {request.nth} of the next"
        return f"{which} `{request.record}` record{'s' if request.nth > 1 else ''} is refused"
    if isinstance(request, Release):
        inside = f"; in its continuation, first: {operations(request.ops)}" if request.ops else ""
        return f"the hook at {_place(request)} answers {outcome(request.outcome)}{inside}"
    if isinstance(request, Settle):
        return "until nothing moves"
    return str(request.verb)


def operations(ops: Any) -> str:
    """Operations of one tick."""
    return ", then ".join(operation(op) for op in ops) or "nothing"


def operation(op: Any) -> str:
    """One operation with what matters of it; agent `a` goes without saying."""
    fields = op.model_dump(mode="json", exclude={"op"}, exclude_defaults=True)
    where = f" of {fields.pop('agent')}" if "agent" in fields else ""
    if op.op == "cancel":
        return f"cancel({op.cause}{', keeping' if op.keep_inbox else ''}){where}"
    if op.op in ("followup", "steer", "inject", "remove"):
        return f"{op.op}({op.message}){where}"
    if op.op == "send":
        return f"send({op.message} to {op.target}, {'waking' if op.wakeup else 'not waking'}){where}"
    if op.op == "replace":
        return f"replace({op.message} by {op.by}){where}"
    inner = ", ".join(f"{name} {_brief(value)}" for name, value in fields.items())
    return f"{op.op}({inner}){where}" if inner else f"{op.op}{where}"


def outcome(made: Any) -> str:
    """What a hook answers."""
    fields = made.model_dump(mode="json", exclude={"kind"}, exclude_defaults=True)
    if made.kind == "chunk":
        chunk = made.chunk
        kind = chunk.get("type")
        if kind == "finish":
            return f"chunk `finish {chunk.get('reason', {}).get('kind')}`"
        block = chunk.get("block", {})
        detail = block.get("type") if kind == "block-end" else chunk.get("blockType", "")
        return f"chunk `{' '.join(part for part in (str(kind), str(detail or ''), block.get('id', '')) if part)}`"
    inner = ", ".join(f"{name} {_brief(value)}" for name, value in fields.items())
    return f"`{made.kind}`" + (f" with {inner}" if inner else "")


def _brief(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(_brief(item) for item in value) or "none"
    return str(value)


def _place(request: Any) -> str:
    key = getattr(request, "key", None)
    agent = getattr(request, "agent", None)
    return (
        f"`{request.gate}`" + (f" of {key}" if key else "") + (f" of agent {agent}" if agent not in (None, "a") else "")
    )


def _event(on: Any) -> str:
    name = f"record `{on.record}`" if on.record is not None else f"event `{on.live}`"
    where = " with " + ", ".join(f"{key} {_brief(value)}" for key, value in on.where.items()) if on.where else ""
    return f"{ORDINAL.get(on.nth, f'{on.nth}th')} {name}{where}"


def _open(request: Open) -> str:
    parts = [f"format {request.session_format}"]
    if request.hold:
        names = [f"`{hold.gate}`" + (" (honouring aborts)" if hold.honour else "") for hold in request.hold]
        parts.append("gates " + ", ".join(names))
    if request.tools:
        parts.append(
            "tools "
            + ", ".join(f"{tool.name} ({'parallel' if tool.parallel else 'exclusive'})" for tool in request.tools)
        )
    if request.cap != 10:
        parts.append(f"a pool of {request.cap}")
    if request.owners:
        parts.append("owners " + ", ".join(request.owners))
    if request.storage:
        parts.append("storage")
    return "a fresh world: " + "; ".join(parts)
