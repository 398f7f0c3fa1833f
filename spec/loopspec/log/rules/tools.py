"""Tool calls and results (`S-LNT-66` to `S-LNT-76`)."""

from __future__ import annotations

from typing import Any

from loopspec.log.looking import error_code, is_offered, result_call_id, result_is_error
from loopspec.log.repair import NOT_STARTED_TEXT
from loopspec.log.rule import Breach, Rule, breach, rule
from loopspec.log.state import Call, Log, Row, record
from loopspec.values import same_value

_UNPREPARED = ("UNKNOWN_TOOL", "ABORTED_BEFORE_DISPATCH", "ABORTED", "TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED")


def _call(log: Log, row: Row) -> Call | None:
    call_id = row.data.get("callId") if row.type == "tool/call" else result_call_id(row)
    return log.calls.get(call_id) if type(call_id) is str else None


@rule("S-LNT-66", "E", "A tool/call was advertised in this step, with the same name and arguments.", "tool/call")
def advertised(log: Log, row: Row) -> list[Breach]:
    call_id, call = row.data.get("callId"), _call(log, row)
    if call is None:
        names = ", ".join(log.calls) or "none"
        return [breach(f"The call {call_id!r} was not advertised in this step.", f"an advertised call: {names}")]
    return [
        breach(f"The {name} of {call_id} differ from the model's.", _short(call.block.get(name)))
        for name in ("name", "arguments")
        if not same_value(row.data.get(name), call.block.get(name))
    ]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 90 else text[:90] + "…"


@rule("S-LNT-67", "E", "Advertised call ids are non-empty and unique within the step.", "assistant/message")
def advertised_ids(log: Log, row: Row) -> list[Breach]:
    found = []
    seen: set[Any] = set()
    for block in row.content:
        if record(block).get("type") != "tool-call":
            continue
        call_id = block.get("id")
        if call_id == "":
            found.append(breach("A tool call has an empty id; its result cannot be told apart.", "a non-empty id"))
        elif type(call_id) is str and call_id in seen:
            found.append(breach(f"Two tool calls share the id {call_id!r}.", "one id per call"))
        if type(call_id) is str:
            seen.add(call_id)
    return found


@rule("S-LNT-68", "E", "A call starts at most once.", "tool/call")
def starts_once(log: Log, row: Row) -> Breach | None:
    call = _call(log, row)
    if call is None or call.seq is None:
        return None
    return breach(
        f"{row.data.get('callId')} was started before, at seq {call.seq}.", "one tool/call per call", first=call.seq
    )


def _is_closer(row: Row) -> bool:
    """A synthetic result for a call that never started (`S-FRK-8`)."""
    message_id = row.message.get("id")
    forked = type(message_id) is str and message_id.startswith("forked-tool-result-")
    return forked or error_code(row) == "TOOL_NOT_STARTED"


@rule("S-LNT-69", "E", "A tool/result needs its started call, or is a legal synthetic result.", "tool/result")
def result_has_call(log: Log, row: Row) -> Breach | None:
    if not row.appends:
        return None
    call = _call(log, row)
    if call is None:
        names = ", ".join(log.calls) or "none"
        return breach(
            f"The result answers {result_call_id(row)!r}, which this step never called.", f"an open call: {names}"
        )
    if call.seq is None and not _is_closer(row):
        return breach(f"{result_call_id(row)} has a result, but was never started.", "tool/call first")
    return None


@rule("S-LNT-70", "E", "There is exactly one result per call.", "tool/result")
def one_result(log: Log, row: Row) -> Breach | None:
    call = _call(log, row)
    if not row.appends or call is None or call.result is None:
        return None
    text = f"{result_call_id(row)} has its result already, at seq {call.result}."
    return breach(text, "one result; a replace to rewrite it", first=call.result)


@rule("S-LNT-71", "E", "All advertised calls have a result before step/end.", "step/end")
def all_answered(log: Log, row: Row) -> list[Breach]:
    return [
        breach(
            f"The step ends, but {call_id} (message at seq {log.anchor}) has no result.",
            "a result for every call",
            call=call_id,
        )
        for call_id, call in log.calls.items()
        if call.result is None
    ]


@rule("S-LNT-72", "E", "Results of a step appear in the order in which the model made the calls.", "tool/result")
def model_order(log: Log, row: Row) -> Breach | None:
    call = _call(log, row)
    if not row.appends or call is None or call.result is not None:
        return None
    if call.order > log.last_result_order:
        return None
    later = [call_id for call_id, other in log.calls.items() if other.order > call.order and other.result is not None]
    text = f"The result of {result_call_id(row)} stands behind that of {', '.join(later)}."
    found = breach(text, f"the result of {result_call_id(row)} first")
    return found._replace(level="W") if log.foreign else found


@rule(
    "S-LNT-73",
    "E",
    "A result cites exactly its own tool/call; a result of a call that never started cites nothing.",
    "tool/result",
)
def cites_call(log: Log, row: Row) -> Breach | None:
    call = _call(log, row)
    if not row.appends or call is None:
        return None
    expected = None if call.seq is None or error_code(row) == "TOOL_NOT_STARTED" else [call.seq]
    if row.sources == expected:
        return None
    legal = "no sourceEventSeqs" if expected is None else f"sourceEventSeqs {expected}"
    return breach(f"The result cites {row.sources!r}.", legal)


@rule("S-LNT-74", "E", "Synthetic results have the exact form that repair or fork gives them.", "tool/result")
def synthetic(log: Log, row: Row) -> Breach | None:
    code = error_code(row)
    if not row.appends or code not in ("TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"):
        return None
    call_id, call = result_call_id(row), _call(log, row)
    started = call is not None and call.seq is not None
    wanted_id = f"interrupted-tool-result-{call_id}-{row.index}"
    wanted_name = "ToolOutcomeUnknownError" if code == "TOOL_OUTCOME_UNKNOWN" else "ToolNotStartedError"
    faults = [
        fault
        for wrong, fault in (
            (code == "TOOL_NOT_STARTED" and started, f"{call_id} had been started"),
            (code == "TOOL_OUTCOME_UNKNOWN" and not started, f"{call_id} had not been started"),
            (not _same_id(log, row, wanted_id), f"the message id is {row.message.get('id')!r}, not {wanted_id!r}"),
            (record(row.data.get("error")).get("name") != wanted_name, f"the error's name is not {wanted_name}"),
            (result_is_error(log, row) is not True, "isError is not true"),
            (code == "TOOL_NOT_STARTED" and _text(log, row) != NOT_STARTED_TEXT, "its text is not the fixed one"),
        )
        if wrong
    ]
    if not faults:
        return None
    return breach(f"This {code} result was not written by repair: {'; '.join(faults)}.", "the form of the repair rules")


def _same_id(log: Log, row: Row, wanted: str) -> bool:
    """Migration to format 4 keeps message ids but renumbers events, so that the seq in an id may be an old one."""
    found = row.message.get("id")
    if found == wanted or log.format == 0 or not isinstance(found, str):
        return bool(found == wanted)
    return found.rstrip("0123456789") == wanted.rstrip("0123456789") and found[-1:].isdigit()


def _text(log: Log, row: Row) -> object:
    blocks = record(row.content[0]).get("content") if log.format == 0 and row.content else row.content
    if type(blocks) is list and len(blocks) == 1:
        return record(blocks[0]).get("text")
    return None


@rule(
    "S-LNT-75",
    "W",
    "ABORTED_BEFORE_DISPATCH occurs only where the turn ends aborted, and no normal result follows one.",
    "turn/end",
    "tool/result",
)
def skipped(log: Log, row: Row) -> list[Breach]:
    if row.type == "tool/result":
        if (
            not row.appends
            or not log.skipped_in_step
            or error_code(row) in ("ABORTED_BEFORE_DISPATCH", "TOOL_NOT_STARTED")
        ):
            return []
        return [
            breach(f"The result of {result_call_id(row)} follows a call that was skipped.", "skipped calls to the end")
        ]
    kind = record(row.data.get("reason")).get("kind")
    if kind in ("aborted", "interrupted", "forked"):
        return []
    return [
        breach(
            f"{held.key} was skipped (ABORTED_BEFORE_DISPATCH), but the turn was not aborted: it ends with {kind!r}.",
            "a real result, or a turn that ends aborted",
            line=held.line,
            seq=held.seq,
        )
        for held in log.skipped_calls
    ]


@rule(
    "S-LNT-76", "W", "Called names are in the header's tools, or the result is the error UNKNOWN_TOOL.", "tool/result"
)
def known_tool(log: Log, row: Row) -> Breach | None:
    call = _call(log, row)
    if log.snapshot or not row.appends or call is None or log.header_tools is None or log.header is None:
        return None
    if is_offered(log, call) or error_code(row) in _UNPREPARED:
        return None
    text = f"The tool {call.block.get('name')!r} is not among the header's tools, yet it ran."
    return breach(text, "an UNKNOWN_TOOL error")


RULES: tuple[Rule, ...] = (
    advertised,
    advertised_ids,
    starts_once,
    result_has_call,
    one_result,
    all_answered,
    model_order,
    cites_call,
    synthetic,
    skipped,
    known_tool,
)
