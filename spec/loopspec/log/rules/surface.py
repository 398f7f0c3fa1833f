"""The surface (`S-LNT-25` to `S-LNT-35`, `S-LNT-105`, `S-LNT-106`).

The algebra itself is judged by `loopspec.surface.breaches`, the same function that guards every append of the
reference harness. The rules here say which line of the checker's list a breach of it belongs to.
"""

from __future__ import annotations

from loopspec.log.looking import call_ids
from loopspec.log.rule import Breach, Rule, breach, rule
from loopspec.log.state import Log, Row, record

_MESSAGES = ("user/message", "assistant/message", "tool/result", "system/message", "developer/message")
_UNCITED = "must include every shadowed"
_FORBIDDEN = "must not carry sourceEventSeqs"


def _broken(row: Row, clause: str, legal: str) -> list[Breach]:
    return [_said(found.text, legal) for found in row.surface_breaches if found.rule == clause]


def _said(text: str, legal: str) -> Breach:
    return breach(f"{text[0].upper()}{text[1:]}.", legal)


@rule("S-LNT-25", "E", "Surface events carry surfaceOp.", *_MESSAGES)
def has_operation(log: Log, row: Row) -> Breach | None:
    if "surfaceOp" in row.raw:
        return None
    return breach(f"This {row.type} has no surfaceOp.", 'surfaceOp "append", or a replace object')


@rule("S-LNT-26", "E", "surfaceOp is append or the exact replace object of the format.", *_MESSAGES)
def operation_form(log: Log, row: Row) -> list[Breach]:
    fields = "start, end" if log.format == 0 else "startSeq, endSeq"
    return _broken(row, "S-SUR-2", f'"append", or an object of exactly op "replace", {fields}')


@rule("S-LNT-27", "E", "Replace endpoints are current nodes, the start not behind the end by position.", *_MESSAGES)
def endpoints(log: Log, row: Row) -> list[Breach]:
    return _broken(row, "S-SUR-3", "the seqs of two nodes that are on the surface now")


@rule("S-LNT-28", "E", "sourceEventSeqs are unique earlier seqs, not empty.", *_MESSAGES)
def sources(log: Log, row: Row) -> list[Breach]:
    return [
        _said(found.text, "unique seqs of earlier events")
        for found in row.surface_breaches
        if found.rule == "S-SUR-5" and _UNCITED not in found.text and _FORBIDDEN not in found.text
    ]


@rule("S-LNT-29", "E", "A replace cites every node that it shadows.", *_MESSAGES)
def cites_shadowed(log: Log, row: Row) -> list[Breach]:
    return [
        _said(found.text, "all shadowed seqs among the sources")
        for found in row.surface_breaches
        if found.rule == "S-SUR-5" and _UNCITED in found.text
    ]


@rule("S-LNT-30", "E", "A tool/result replace shadows one tool/result and changes only its content.", "tool/result")
def rewrite(log: Log, row: Row) -> list[Breach]:
    return _broken(row, "S-SUR-6", "the same turn, step, message id, source, call id, isError, error and meta")


@rule("S-LNT-31", "E", "Format 4: assistant/message carries no sources.", "assistant/message", formats=(4,))
def no_sources(log: Log, row: Row) -> list[Breach]:
    return [
        _said(found.text, "no sourceEventSeqs")
        for found in row.surface_breaches
        if found.rule == "S-SUR-5" and _FORBIDDEN in found.text
    ]


@rule(
    "S-LNT-32",
    "E",
    "Format 4: the head is protected, and a system/message joins first or behind it.",
    *_MESSAGES,
    formats=(4,),
)
def head(log: Log, row: Row) -> list[Breach]:
    return _broken(row, "S-SUR-8", "a system/message that replaces exactly the head")


@rule(
    "S-LNT-33",
    "E",
    "Format 4: image/offload names distinct current nodes and existing images.",
    "image/offload",
    formats=(4,),
)
def offload(log: Log, row: Row) -> list[Breach]:
    return _broken(row, "S-SUR-15", "current user or tool nodes, rising positions of their images")


@rule(
    "S-LNT-34",
    "E",
    "Format 4: a tool addition names an earlier header that has the tool; else no headerSeq.",
    "developer/message",
    formats=(4,),
)
def tool_addition(log: Log, row: Row) -> list[Breach]:
    added = [block.get("toolName") for block in map(record, row.content) if block.get("type") == "tool-addition"]
    header_seq = row.data.get("headerSeq")
    if not added:
        if "headerSeq" not in row.data:
            return []
        return [breach("headerSeq is given, but no tool is added.", "no headerSeq")]
    tools = log.header_tool_tables.get(header_seq) if type(header_seq) is int else None
    if tools is None:
        text = f"headerSeq is {header_seq!r}, which is no earlier request/header."
        return [breach(text, "the seq of an earlier request/header")]
    found = []
    for name in added:
        same = [tool for tool in map(record, tools) if tool.get("name") == name]
        sound = len(same) == 1 and type(same[0].get("description")) is str and type(same[0].get("parameters")) is dict
        if not sound:
            text = f"The header at seq {header_seq} has {len(same)} complete tools of the name {name!r}."
            found.append(breach(text, "exactly one, with description and parameters"))
    return found


@rule(
    "S-LNT-35", "W", "Format 4: the source list is range-packed in the canonical way on disk.", *_MESSAGES, formats=(4,)
)
def range_packing(log: Log, row: Row) -> Breach | None:
    if row.unpacked_text is None:
        return None
    return breach(
        f"The source list is not packed canonically: {row.unpacked_text}.", "runs of three or more as [first, last]"
    )


@rule(
    "S-LNT-105",
    "E",
    "Nothing else joins the surface between a message with tool calls and its last result.",
    *_MESSAGES,
)
def batch_stays_together(log: Log, row: Row) -> Breach | None:
    if not row.appends or log.unanswered == 0 or row.type == "tool/result":
        return None
    waiting = ", ".join(call_id for call_id, call in log.calls.items() if call.result is None)
    text = f"This {row.type} joins the surface while the calls of seq {log.anchor} still wait for results: {waiting}."
    found = breach(text, "the results first, then other messages", waiting=waiting)
    return found._replace(level="W") if log.foreign else found


@rule(
    "S-LNT-106",
    "E",
    "A replace leaves every call on the surface with its results and every result with its call.",
    *_MESSAGES,
)
def pairs_stay_together(log: Log, row: Row) -> list[Breach]:
    shadowed = None if row.appends else log.shadowed(row)
    if shadowed is None or row.type == "tool/result":
        return []
    gone = set(shadowed)
    kept_calls = set(call_ids(row)) if row.type == "assistant/message" else set()
    found = []
    for seq in shadowed:
        node = log.nodes[seq]
        orphans = [result for result in node.results if result not in gone and log.nodes[result].call not in kept_calls]
        found += [
            breach(
                f"The result of {log.nodes[result].call} (seq {result}, line {log.nodes[result].line}) stays, "
                f"but its call (seq {seq}, line {node.line}) is shadowed by this replace.",
                "a range that holds a message with calls together with all its results",
                orphan=result,
            )
            for result in sorted(orphans)
        ]
        if node.anchor is not None and node.anchor in log.nodes and node.anchor not in gone:
            text = f"The result of {node.call} (seq {seq}) is shadowed, but its call at seq {node.anchor} stays."
            found.append(breach(text, "a range that holds a result together with its call", orphan=node.anchor))
        if seq == log.anchor and log.unanswered:
            waiting = [
                call_id for call_id, call in log.calls.items() if call.result is None and call_id not in kept_calls
            ]
            if waiting:
                text = f"The message at seq {seq} is shadowed while its calls still wait: {', '.join(waiting)}."
                found.append(breach(text, "a replace after the last result", orphan=seq))
    return found


RULES: tuple[Rule, ...] = (
    has_operation,
    operation_form,
    endpoints,
    sources,
    cites_shadowed,
    rewrite,
    no_sources,
    head,
    offload,
    tool_addition,
    range_packing,
    batch_stays_together,
    pairs_stay_together,
)
