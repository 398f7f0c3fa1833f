"""What the chunks of a stream, and the calls of a batch, must have been: told by what comes later in a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Label = tuple[Any, ...]
Chunk = dict[str, Any]

TOOLS = {"parallel": "p", "exclusive": "x"}
"""The tools of a program, by how their calls are classified."""


class Untranslatable(ValueError):
    """Something in the run has no counterpart in the protocol. The text says what, and at which label."""


class Batch(NamedTuple):
    """One batch of tool calls: the tool of each call, and the places in the run where it begins and ends."""

    tools: tuple[str, ...]
    start: int
    end: int


def batches(labels: Sequence[Label]) -> list[Batch]:
    """The batches of a run of the loop. Raises `Untranslatable` for a call that is classified in two ways."""
    starts = [at for at, label in enumerate(labels) if label[0] == "batch"]
    return [_batch(labels, start, end) for start, end in zip(starts, [*starts[1:], len(labels)], strict=True)]


def _batch(labels: Sequence[Label], start: int, end: int) -> Batch:
    tools: dict[int, str] = {}
    for at in range(start, end):
        label = labels[at]
        if label[:2] == ("answer", "classify") and label[3] in TOOLS:
            wanted = TOOLS[label[3]]
            if tools.setdefault(label[2], wanted) != wanted:
                raise Untranslatable(f"label {at + 1}: call {label[2]} is classified anew, and otherwise")
    return Batch(tuple(tools.get(call, "p") for call in range(1, labels[start][1] + 1)), start, end)


def block(index: int, body: Chunk) -> Chunk:
    """One whole block of a stream."""
    return {"type": "block-end", "index": index, "block": body}


TEXT = block(0, {"type": "text", "text": "ok"})
UNSEEN: Chunk = {"type": "block-start", "index": 0, "blockType": "text"}
"""A chunk of which nothing survives an abort (L-STR-9)."""


def chunks_at(labels: Sequence[Label], at: int, calls: Sequence[tuple[str, str]]) -> list[Chunk]:
    """What the pull that label `at` answers must bring, so that the stream goes on as the run says.

    One chunk; more when the answer makes several `calls`, by id and tool.
    """
    for label in labels[at + 1 :]:
        if label[0] != "answer" or label[1] not in (
            ("chunk", True),
            ("chunk", False),
            ("close", True),
            ("close", False),
        ):
            continue
        kind = label[2][0]
        if kind == "chunk":
            return [TEXT]
        if kind != "end":
            return [TEXT if label[2][1] else UNSEEN]
        _, finish, has_calls, visible = label[2]
        if finish == "failure":
            return [_finish({"kind": "error", "failure": {"message": "planned", "code": "SERVER"}})]
        if finish == "max-tokens":
            return [_finish({"kind": "max-tokens"})]
        if has_calls:
            return [_call(index, id, name) for index, (id, name) in enumerate(calls)]
        return [TEXT if visible else UNSEEN]
    return [TEXT]


def _finish(reason: dict[str, Any]) -> Chunk:
    return {"type": "finish", "reason": reason}


def _call(index: int, id: str, name: str) -> Chunk:
    return block(index, {"type": "tool-call", "id": id, "name": name, "arguments": "{}"})
