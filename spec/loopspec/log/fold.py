"""The checker's fold: `advance` moves the state behind a row that the rules have seen.

Nothing here judges: a broken row is folded as far as it makes sense, and the rules say what is wrong.
"""

from __future__ import annotations

from typing import Any

from loopspec import stream
from loopspec.log.looking import error_code, result_call_id, retry_chain
from loopspec.log.nodes import join, offload
from loopspec.log.state import Bracket, Call, Log, Piece, Pledge, Row, items, record
from loopspec.values import Record


def advance(log: Log, row: Row) -> None:
    """Fold one row. Called after the rules have seen it."""
    kind = row.type
    if log.run_at is not None and kind != "assistant/chunk":
        log.run_at = None  # deltas go on only right behind a chunk
    take = _TAKE.get(kind)
    if take is not None:
        take(log, row)
    if kind in log.surface_types:
        join(log, row)
    if log.prune is not None and kind != "compaction/prune":
        log.prune = None
    if log.interrupted_end is not None and kind != "turn/end":
        log.interrupted_end = None
    if log.seed_length and log.seed_length - 1 <= row.index <= log.seed_length:
        log.seed_types[row.index] = kind
    if type(row.time) is int:
        early = log.created_at is not None and row.time < log.created_at
        if early and log.before_created is None and (log.time is None or row.time >= log.time):
            _note_early(log, row)
        log.time = row.time
    log.last_type = kind
    log.index = row.index + row.count
    log.line = row.line


_OF_THE_CUT = frozenset(("session/end-seed", "tool/result", "step/end", "turn/end"))


def _note_early(log: Log, row: Row) -> None:
    """Remember the first event that is older than the session, unless it is inherited (`S-LNT-19`).

    The marker of a format 4 child and its fork closers have the time of the boundary event (S-FRK-5).
    """
    of_the_cut = row.time == log.marker_time and row.type in _OF_THE_CUT
    if row.index >= log.seed_length and not of_the_cut:
        log.before_created = Pledge("early", row, row.time)


def _take_turn_start(log: Log, row: Row) -> None:
    number = row.turn if type(row.turn) is int else log.last_turn + 1
    log.turn = number
    log.turn_line = row.line
    log.last_turn = number
    log.step = None
    log.last_step = 0
    log.hit_ceiling = False
    log.interrupted_messages = []
    log.skipped_calls = []
    log.claims = {}
    _close_step(log)


def _take_turn_end(log: Log, row: Row) -> None:
    log.turn = None
    log.step = None
    _close_step(log)
    log.dispatches = {}
    log.claims = {}
    reason = record(row.data.get("reason")).get("kind")
    log.interrupted_end = Pledge("interrupted", row) if reason == "interrupted" else None
    if log.bracket is not None and reason not in ("interrupted", "forked"):
        log.bracket = None  # reported once, at this turn end


def _take_step_start(log: Log, row: Row) -> None:
    number = row.step if type(row.step) is int else log.last_step + 1
    log.step = number
    log.last_step = number
    _close_step(log)


def _take_step_end(log: Log, row: Row) -> None:
    if log.claims:
        log.claims = {key: held for key, held in log.claims.items() if held.value > log.last_step}
    log.step = None
    _close_step(log)


def _close_step(log: Log) -> None:
    log.anchor = None
    if log.calls:
        log.calls = {}
    log.unanswered = 0
    log.last_result_order = -1
    log.skipped_in_step = False
    log.last_surface_in_step = None
    log.scheduled_retry = None
    _reset_attempt(log)


def _reset_attempt(log: Log) -> None:
    if log.attempt_ranges:
        log.assembly = stream.EMPTY
        log.attempt_ranges = []
    log.run_at = None
    log.grammar = stream.GRAMMAR_START


def _take_chunk(log: Log, row: Row) -> None:
    if log.header is None:
        log.headerless_stream = True
    if row.judged is not None and row.chunk is not None:
        absorb_chunk(log, row.judged[0], row.chunk, row.index, row.count)


def absorb_chunk(log: Log, grammar: stream.Grammar, chunk: Record, index: int, count: int) -> None:
    """Fold a chunk (or `count` deltas joined to one) that leads to this state of the stream grammar."""
    if log.grammar.finish is not None:
        _reset_attempt(log)
    log.grammar = grammar
    try:
        log.assembly = stream.absorb(log.assembly, chunk)
    except (KeyError, TypeError, AttributeError):
        return
    _goes_on(log, grammar, index, count)


def hear(log: Log, grammar: stream.Grammar, piece: Piece, index: int, count: int) -> None:
    """The same for a piece that is plain: it is only kept, and assembled when somebody asks."""
    if log.grammar.finish is not None:
        _reset_attempt(log)
    log.grammar = grammar
    log.heard.append(piece)
    _goes_on(log, grammar, index, count)


def _goes_on(log: Log, grammar: stream.Grammar, index: int, count: int) -> None:
    if log.attempt_ranges and log.attempt_ranges[-1][1] == index:
        log.attempt_ranges[-1] = (log.attempt_ranges[-1][0], index + count)
    else:
        log.attempt_ranges.append((index, index + count))
    log.run_at = index + count
    if grammar.finish == "max-tokens":
        log.hit_ceiling = True


def _take_attempt(log: Log, row: Row) -> None:
    if log.header is None:
        log.headerless_stream = True
    if row.chunk is not None and row.chunk.get("kind") == "max-tokens":
        log.hit_ceiling = True
    log.last_surface_in_step = None


def _take_assistant(log: Log, row: Row) -> None:
    _take_attempt(log, row)
    if not row.appends:
        return
    log.anchor = row.index
    _reset_attempt(log)
    if row.data.get("interrupted") is True:
        log.interrupted_messages.append(Pledge("interrupted", row))
    log.calls = {}
    for block in row.content:
        if type(block) is not dict or block.get("type") != "tool-call":
            continue
        if type(block.get("id")) is str and block["id"] not in log.calls:
            log.calls[block["id"]] = Call(block, len(log.calls))
    log.unanswered = len(log.calls)
    log.last_result_order = -1


def _take_call(log: Log, row: Row) -> None:
    call_id = row.data.get("callId")
    call = log.calls.get(call_id) if type(call_id) is str else None
    if call is not None and call.seq is None:
        call.seq = row.index
        call.line = row.line


def _take_result(log: Log, row: Row) -> None:
    if not row.appends:
        return
    call_id = result_call_id(row)
    call = log.calls.get(call_id or "")
    if call is not None and call.result is None:
        call.result = row.index
        log.unanswered -= 1
        log.last_result_order = max(log.last_result_order, call.order)
    if error_code(row) == "ABORTED_BEFORE_DISPATCH":
        log.skipped_calls.append(Pledge(call_id, row))
        log.skipped_in_step = True


def _take_header(log: Log, row: Row) -> None:
    log.header = record(row.data.get("header"))
    tools = log.header.get("tools")
    log.header_tools = (
        None
        if type(tools) is str
        else frozenset(
            name
            for tool in items(tools)
            for name in [tool if type(tool) is str else record(tool).get("name")]
            if type(name) is str
        )
    )
    if log.format == 4:
        log.header_tool_tables[row.index] = items(tools)
    log.header_since_seed = True


def _take_context(log: Log, row: Row) -> None:
    log.context = row.data


def _take_end_seed(log: Log, row: Row) -> None:
    log.header_since_seed = False
    log.bracket = None
    if log.format == 4 and row.data.get("inherited") is True:
        log.inherited_marker = True
        log.inherited = row.index
        log.marker_time = row.time
        log.children = set()
        log.before_created = None
    if log.format == 0 and row.index in (log.seed_length, log.seed_length - 1) and log.seed_length:
        log.inbox = {"next-turn": [], "next-step": []}


def _take_splice(log: Log, row: Row) -> None:
    target = row.data.get("target")
    pending = log.inbox.get(target) if type(target) is str else None
    start, removed = row.data.get("start"), row.data.get("removedCount", 0)
    if pending is None or type(start) is not int or type(removed) is not int or start < 0 or removed < 0:
        return
    inserted = [record(message).get("id") for message in items(row.data.get("inserted"))]
    taken = pending[start : start + removed]
    pending[start : start + removed] = inserted
    if taken and not inserted and row.data.get("outcome") is None:
        for message_id in taken:
            if type(message_id) is str:
                log.ever_claimed.add(message_id)
                log.claims[message_id] = Pledge(message_id, row, log.last_step + 1)


def _take_user(log: Log, row: Row) -> None:
    message_id = row.message.get("id")
    if type(message_id) is str:
        log.claims.pop(message_id, None)
    if record(row.message.get("source")).get("kind") == "user" and row.appends:
        log.human_seqs.add(row.index)


def _take_retry(log: Log, row: Row) -> None:
    key = retry_chain(row)
    retry, retry_id = row.data.get("retry"), row.data.get("retryId")
    log.retry_counts[key] = (retry if type(retry) is int else 0, retry_id)
    if type(retry_id) is str:
        log.retry_ids[retry_id] = key
    log.scheduled_retry = Pledge((retry_id, retry), row)
    _reset_attempt(log)


def _take_retry_started(log: Log, row: Row) -> None:
    log.scheduled_retry = None


def _take_compaction_start(log: Log, row: Row) -> None:
    log.bracket = Bracket(row)


def _take_summary(log: Log, row: Row) -> None:
    if log.bracket is not None:
        log.bracket.summaries += 1
        span = record(row.data.get("shadowedRange"))
        log.bracket.range = (span.get("start"), span.get("end"))


def _take_compaction_end(log: Log, row: Row) -> None:
    log.bracket = None


def _take_prune(log: Log, row: Row) -> None:
    log.prune = Pledge("prune", row, row.data)


def _take_opened(name: str, ids: str) -> Any:
    def take(log: Log, row: Row) -> None:
        key = row.data.get(name)
        if type(key) is str:
            getattr(log, ids)[key] = False

    return take


def _take_closed(name: str, ids: str) -> Any:
    def take(log: Log, row: Row) -> None:
        key = row.data.get(name)
        if type(key) is str:
            getattr(log, ids)[key] = True

    return take


def _take_dispatch_start(log: Log, row: Row) -> None:
    key = row.data.get("subCallId")
    if type(key) is str:
        log.dispatches[key] = Pledge(key, row, row.data.get("rootCallId"))
        log.dispatch_ids.add(key)


def _take_dispatch_end(log: Log, row: Row) -> None:
    key = row.data.get("subCallId")
    if type(key) is str:
        log.dispatches.pop(key, None)


def _take_catalog(log: Log, row: Row) -> None:
    key = row.data.get("childId")
    if type(key) is str:
        log.children.add(key)


_TAKE: dict[str, Any] = {
    "turn/start": _take_turn_start,
    "turn/end": _take_turn_end,
    "step/start": _take_step_start,
    "step/end": _take_step_end,
    "assistant/chunk": _take_chunk,
    "assistant/attempt": _take_attempt,
    "assistant/message": _take_assistant,
    "tool/call": _take_call,
    "tool/result": _take_result,
    "user/message": _take_user,
    "request/header": _take_header,
    "request/context": _take_context,
    "session/end-seed": _take_end_seed,
    "agent/inbox/spliced": _take_splice,
    "llm/retry": _take_retry,
    "llm/retry-started": _take_retry_started,
    "compaction/start": _take_compaction_start,
    "compaction/summary": _take_summary,
    "compaction/end": _take_compaction_end,
    "compaction/prune": _take_prune,
    "command/run": _take_opened("commandId", "commands"),
    "command/done": _take_closed("commandId", "commands"),
    "approval/asked": _take_opened("id", "approvals"),
    "approval/decided": _take_closed("id", "approvals"),
    "tool/code-dispatch-start": _take_dispatch_start,
    "tool/ptc-dispatch-start": _take_dispatch_start,
    "tool/code-dispatch": _take_dispatch_end,
    "tool/ptc-dispatch": _take_dispatch_end,
    "subagent/catalog": _take_catalog,
    "image/offload": offload,
}
