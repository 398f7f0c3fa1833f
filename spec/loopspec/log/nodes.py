"""The surface as the checker keeps it: every node with its place, its calls and results, without its texts.

Appends are only noted, and made when a rule asks for the surface (`Log.surface`): most logs never rewrite anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loopspec import surface as surfaces
from loopspec.log.looking import call_ids, result_call_id
from loopspec.log.state import Log, Node, PlainResult, Row, items
from loopspec.values import Record


def join(log: Log, row: Row) -> None:
    """Take a row that joins the surface."""
    if row.appends:
        node = log.nodes[row.index] = _node(row)
        message_id = row.message.get("id")
        if type(message_id) is str:
            log.message_ids.setdefault(message_id, row.index)
        if node.kind == "tool/result" and log.anchor is not None and log.anchor in log.nodes:
            node.anchor = log.anchor
            log.nodes[log.anchor].results |= {row.index}
        log.appended.append((row.index, *_framed(log, row)))
    else:
        shadowed = log.shadowed(row)
        if shadowed is None:
            return
        _replace(log, row, shadowed)
        kind, data = _framed(log, row)
        log.surface = surfaces.advance(log.surface, {"type": kind, "surfaceOp": row.op, "data": data}, row.index)
    if log.format == 4 and log.step is not None:
        log.last_surface_in_step = (row.line, row.index, row.time)
    bracket = log.bracket
    if bracket is not None and bracket.summaries and row.type == "user/message" and not row.appends:
        bracket.checkpoint = True


def offload(log: Log, row: Row) -> None:
    try:
        log.surface = surfaces.advance(log.surface, row.raw, row.index)
    except (KeyError, TypeError, AttributeError):
        return


_HOLLOW: Record = {"message": {"content": []}}
_WORDS: Record = {"content": []}
_IMAGE: Record = {"type": "image"}


def _framed(log: Log, row: Row) -> tuple[str, Record | PlainResult]:
    """All that the surface rules ask of a node later, in bounded memory: its type, and its data without texts.

    A rewrite leaves everything of a result but its content alone (S-SUR-6), and images are offloaded from user
    messages and results by their place (S-SUR-15). A node without the shape of its type still takes its place, so that
    later rows are judged rightly.
    """
    try:
        if row.type == "user/message":
            return row.type, _WORDS if row.plain else {"content": _images(row.content)}
        if row.type != "tool/result":
            return row.type, _HOLLOW
        message = row.message
        if row.plain and row.appends:
            answer = message if log.format == 4 else row.content[0]
            call_id = message["source"]["callId"]
            return row.type, PlainResult(log.format, row.turn, row.step, message["id"], call_id, answer["isError"])
        if log.format == 4:
            content = _images(row.content)
        else:
            content = [{**block, "content": _images(items(block["content"]))} for block in row.content]
        return row.type, {**row.data, "message": {**message, "content": content}}
    except (KeyError, TypeError, AttributeError):
        return "assistant/message", _HOLLOW


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
            log.nodes[old.anchor].results |= {row.index}
    elif row.type == "assistant/message":
        for seq in shadowed:
            for result in log.nodes[seq].results:
                if result in log.nodes and log.nodes[result].call in node.calls:
                    log.nodes[result].anchor = row.index
                    node.results |= {result}
    for seq in shadowed:
        gone = log.nodes.pop(seq)
        if gone.anchor is not None and gone.anchor in log.nodes:
            log.nodes[gone.anchor].results -= {seq}
    log.nodes[row.index] = node


def _node(row: Row) -> Node:
    node = Node(row.type, row.line)
    if row.type == "assistant/message":
        node.calls = call_ids(row)
    elif row.type == "tool/result":
        node.call = result_call_id(row)
    return node
