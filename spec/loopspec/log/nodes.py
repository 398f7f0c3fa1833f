"""The surface as the checker keeps it: every node with its place, its calls and results, without its texts.

Appends are only noted, and made when a rule asks for the surface (`Log.surface`): most logs never rewrite anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopspec import surface as surfaces
from loopspec.log.looking import call_ids, result_call_id
from loopspec.log.state import Log, Node, Pledge, Row, items
from loopspec.values import Record


def join(log: Log, row: Row) -> None:
    if row.appends:
        node = _node(row)
        log.nodes[row.index] = node
        message_id = row.message.get("id")
        if type(message_id) is str:
            log.message_ids.setdefault(message_id, row.index)
        if node.kind == "tool/result" and log.anchor is not None and log.anchor in log.nodes:
            node.anchor = log.anchor
            log.nodes[log.anchor].results.add(row.index)
    else:
        shadowed = log.shadowed(row)
        if shadowed is None:
            return
        _replace(log, row, shadowed)
    _move_surface(log, row)
    if log.format == 4 and log.step is not None:
        log.last_surface_in_step = Pledge("surface", row, row.time)
    bracket = log.bracket
    if bracket is not None and bracket.summaries and row.type == "user/message" and not row.appends:
        bracket.checkpoint = True


def _move_surface(log: Log, row: Row) -> None:
    operation = "append" if row.appends else row.op
    try:
        data = _framed(log, row)
        kind = row.type
    except (KeyError, TypeError, AttributeError):
        # A node without the shape of its type still takes its place, so that later rows are judged rightly.
        data, kind = _HOLLOW, "assistant/message"
    event = {"type": kind, "surfaceOp": operation, "data": data}
    if row.appends:
        log.appended.append((row.index, event))
    else:
        log.surface = surfaces.advance(log.surface, event, row.index)


def offload(log: Log, row: Row) -> None:
    try:
        log.surface = surfaces.advance(log.surface, row.raw, row.index)
    except (KeyError, TypeError, AttributeError):
        return


_HOLLOW: Record = {"message": {"content": []}}
_IMAGE: Record = {"type": "image"}


def _framed(log: Log, row: Row) -> Record:
    """All that the surface rules ask of a node later, in bounded memory: no texts.

    A rewrite leaves everything of a result but its content alone (S-SUR-6), and images are offloaded from user
    messages and results by their place (S-SUR-15).
    """
    if row.type == "user/message":
        return {"content": _images(row.content)}
    if row.type != "tool/result":
        return _HOLLOW
    if log.format == 4:
        content = _images(row.content)
    else:
        content = [{**block, "content": _images(items(block["content"]))} for block in row.content]
    return {**row.data, "message": {**row.message, "content": content}}


def _images(content: Iterable[Any]) -> list[Record]:
    return [
        _IMAGE if block["type"] == "image" else {"type": "nested", "content": _images(items(block["content"]))}
        for block in content
        if block["type"] == "image" or "content" in block
    ]


def _replace(log: Log, row: Row, shadowed: list[int]) -> None:
    node = _node(row)
    if row.type == "tool/result" and len(shadowed) == 1:
        old = log.nodes[shadowed[0]]
        node.anchor = old.anchor
        if old.anchor is not None and old.anchor in log.nodes:
            log.nodes[old.anchor].results.add(row.index)
    elif row.type == "assistant/message":
        for seq in shadowed:
            for result in log.nodes[seq].results:
                if result in log.nodes and log.nodes[result].call in node.calls:
                    log.nodes[result].anchor = row.index
                    node.results.add(result)
    for seq in shadowed:
        gone = log.nodes.pop(seq)
        if gone.anchor is not None and gone.anchor in log.nodes:
            log.nodes[gone.anchor].results.discard(seq)
    log.nodes[row.index] = node


def _node(row: Row) -> Node:
    node = Node(row.type, row.line)
    if row.type == "assistant/message":
        node.calls = call_ids(row)
    elif row.type == "tool/result":
        node.call = result_call_id(row)
    return node
