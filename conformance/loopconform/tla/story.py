"""An error trace of TLC for people (a numbered list, a Mermaid sequence diagram) and for machines (a replay file)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from loopconform.tla.tlc import Run, TraceState
from loopconform.tla.values import Function, Value, text


def labels_of(run: Run) -> list[tuple[Value, ...]]:
    """The labels of the moves of a trace. Raises `ValueError` for a model without the variable `label`."""
    found = []
    for state in run.trace[1:]:
        if "label" not in state.values:
            raise ValueError("the model has no variable `label`, so its traces cannot be replayed")
        found.append(state.values["label"])
    return found


def words(label: tuple[Value, ...]) -> str:
    """A label as a line of text: `call send 1 next-turn TRUE`."""
    return " ".join(part if isinstance(part, str) and part else text(part) for part in label)


def changes(before: TraceState, after: TraceState) -> list[str]:
    """What a move changed, variable by variable; the label is not among them."""
    return [
        f"{name} = {text(value)}"
        for name, value in after.values.items()
        if name != "label" and (name not in before.values or text(before.values[name]) != text(value))
    ]


def told(run: Run) -> str:
    """The trace as a numbered list: what happened, and what it changed."""
    lines = []
    for number, state in enumerate(run.trace):
        label = state.values.get("label", ())
        name = words(label) if label else (state.action or "first state")
        lines.append(f"  {number:3} {name}")
        before = run.trace[number - 1] if number else TraceState("", {})
        lines.extend(f"        {change}" for change in changes(before, state))
    if run.stutters:
        lines.append("      and there it stays for ever")
    elif run.back >= 0:
        lines.append(f"      and on from {run.back} for ever")
    return "\n".join(lines)


ARROWS = {"append": "M->>L", "notify": "M->>H", "refuse": "L--xM", "park": "M-->>E", "leave": "M-->>E"}


def mermaid(labels: Sequence[tuple[Value, ...]]) -> str:
    """The trace as a Mermaid sequence diagram, in the form of `loopspec explore --mermaid`."""
    lines = [
        "sequenceDiagram",
        "  participant E as environment",
        "  participant M as machine",
        "  participant L as log",
        "  participant H as listeners",
    ]
    for label in labels:
        line = words(label).replace(";", ",").replace("#", "")
        if label[0] in ("note", "begin"):
            lines.append(f"  Note over M: {line}")
        else:
            lines.append(f"  {ARROWS.get(str(label[0]), 'E->>M')}: {line}")
    return "\n".join(lines)


def as_json(value: Value) -> Any:
    """A TLA+ value as JSON: sequences and sets are lists, records are objects."""
    if isinstance(value, Function):
        return {str(key): as_json(part) for key, part in value}
    if isinstance(value, tuple):
        return [as_json(part) for part in value]
    if isinstance(value, frozenset):
        return sorted((as_json(part) for part in value), key=json.dumps)
    return value


def replay(machine: str, labels: Sequence[tuple[Value, ...]], **about: Any) -> str:
    """A replay file: which machine, and the labels of a run in order."""
    return json.dumps(
        {"format": "loopspec-replay-1", "machine": machine, **about, "labels": [as_json(one) for one in labels]},
        indent=1,
    )
