"""Minimal logs that break one rule each, for rules that the corpus of real mutations does not reach, and for format 4.

A case builds its log and says which rule must fire at which line; the line comes from the construction, never from the
checker.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

from tests.logs.building import Builder, Event, Rows, find, legal, text, tool_call


class Bad(NamedTuple):
    """A broken log: its rows, the rule that must fire, the physical line that it must blame."""

    rows: Rows
    rule: str
    line: int


CASES: dict[str, Callable[[], Bad]] = {}


def case(make: Callable[[], Bad]) -> Callable[[], Bad]:
    CASES[make.__name__.replace("_", "-")] = make
    return make


def _line(seq: int) -> int:
    return seq + 2


def _edited(version: int, rule: str, kind: str, edit: Callable[[Event], object], nth: int = 0) -> Bad:
    rows = copy.deepcopy(legal(version).rows)
    at = find(rows, kind, nth)
    edit(rows[at])
    return Bad(rows, rule, at + 1)


def _begun(version: int, **header: object) -> Builder:
    log = Builder(version, **header)
    log.begin("Go.", "u1")
    return log


def _finished(log: Builder) -> Rows:
    log.answer(text("Done."))
    log.end()
    return log.rows


# -- header ------------------------------------------------------------------------------------------------------


@case
def subagent_without_parent() -> Bad:
    return Bad(_finished(_begun(4, origin="subagent")), "S-LNT-16", 1)


@case
def parent_without_fork() -> Bad:
    return Bad(_finished(_begun(0, parentSession="p")), "S-LNT-16", 1)


@case
def seeded_without_marker() -> Bad:
    return Bad(_finished(_begun(4, isSeeded=True, parentSession="p")), "S-LNT-15", 1)


@case
def v4_header_with_seed_length() -> Bad:
    return Bad(_finished(_begun(4, seedLength=0)), "S-LNT-12", 1)


# -- surface -----------------------------------------------------------------------------------------------------


@case
def v4_assistant_with_sources() -> Bad:
    return _edited(4, "S-LNT-31", "assistant/message", lambda row: row.update(sourceEventSeqs=[1]))


@case
def v4_replace_of_the_head_by_a_user_message() -> Bad:
    log = _begun(4)
    log.answer(text("Hm."))
    first, last = find(log.rows, "system/message") - 1, find(log.rows, "user/message") - 1
    seq = log.add(
        "user/message",
        log.user("All of it.", "x", "note"),
        sourceEventSeqs=[first, last],
        surfaceOp={"op": "replace", "startSeq": first, "endSeq": last},
    )
    log.end()
    return Bad(log.rows, "S-LNT-32", _line(seq))


@case
def v4_system_message_behind_others() -> Bad:
    log = Builder(4)
    log.turn = 1
    log.add("turn/start", {"turn": 1})
    log.open_step()
    log.add("user/message", log.user("Note.", "n1", "note"), surfaceOp="append")
    seq = log.system("Late.", "s1")
    log.end()
    return Bad(log.rows, "S-LNT-32", _line(seq))


@case
def v4_offload_of_an_image_that_is_not_there() -> Bad:
    log = _begun(4)
    target = find(log.rows, "user/message") - 1
    seq = log.add("image/offload", {"targets": [{"seq": target, "imageIndexes": [0]}]})
    return Bad(_finished(log), "S-LNT-33", _line(seq))


def _developer(log: Builder, blocks: list[Event], **more: object) -> int:
    message = {"id": "d1", "role": "developer", "content": blocks, "source": {"kind": "tools"}}
    return log.add("developer/message", log.at(message=message, **more), surfaceOp="append")


@case
def v4_tool_addition_without_its_header() -> Bad:
    log = _begun(4)
    seq = _developer(log, [{"type": "tool-addition", "toolName": "read"}], headerSeq=0)
    return Bad(_finished(log), "S-LNT-34", _line(seq))


@case
def v4_tool_addition_that_the_header_lacks() -> Bad:
    log = _begun(4)
    header = find(log.rows, "request/header") - 1
    seq = _developer(log, [{"type": "tool-addition", "toolName": "write"}], headerSeq=header)
    return Bad(_finished(log), "S-LNT-34", _line(seq))


@case
def v4_sources_packed_in_another_way() -> Bad:
    log = _begun(4)
    node = log.seq
    log.answer(text("Long."))
    seq = log.add(
        "user/message",
        log.user("Short.", "x", "note"),
        sourceEventSeqs=[0, 1, 2, [3, node]],
        surfaceOp={"op": "replace", "startSeq": node, "endSeq": node},
    )
    log.end()
    return Bad(log.rows, "S-LNT-35", _line(seq))


@case
def user_message_inside_a_batch() -> Bad:
    log = _begun(0)
    log.answer(tool_call("c1"), finish="tool-calls")
    called = log.call("c1")
    seq = log.add("user/message", log.user("Hint.", "n1", "note"), surfaceOp="append")
    log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-105", _line(seq))


@case
def v4_replace_that_orphans_a_result() -> Bad:
    log = _begun(4)
    anchor = log.answer(tool_call("c1"), finish="tool-calls")
    log.result("c1", log.call("c1"))
    seq = log.add(
        "user/message",
        log.user("Summary.", "x", "note"),
        sourceEventSeqs=[anchor],
        surfaceOp={"op": "replace", "startSeq": anchor, "endSeq": anchor},
    )
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-106", _line(seq))


@case
def replace_that_orphans_a_call() -> Bad:
    log = _begun(0)
    log.answer(tool_call("c1"), finish="tool-calls")
    result = log.result("c1", log.call("c1"))
    seq = log.add(
        "user/message",
        log.user("Summary.", "x", "plugin"),
        sourceEventSeqs=[result],
        surfaceOp={"op": "replace", "start": result, "end": result},
    )
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-106", _line(seq))


@case
def replace_of_an_unfinished_batch() -> Bad:
    log = _begun(0)
    anchor = log.answer(tool_call("c1"), finish="tool-calls")
    seq = log.add(
        "user/message",
        log.user("Summary.", "x", "plugin"),
        sourceEventSeqs=[anchor],
        surfaceOp={"op": "replace", "start": anchor, "end": anchor},
    )
    log.result("c1", log.call("c1"))
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-106", _line(seq))


# -- messages ----------------------------------------------------------------------------------------------------


@case
def v4_plugin_source() -> Bad:
    return _edited(
        4, "S-LNT-39", "user/message", lambda row: row["data"].update(source={"kind": "plugin", "plugin": "x"})
    )


@case
def v4_result_of_role_user() -> Bad:
    return _edited(4, "S-LNT-38", "tool/result", lambda row: row["data"]["message"].update(role="user"))


@case
def v4_result_ids_disagree() -> Bad:
    return _edited(4, "S-LNT-40", "tool/result", lambda row: row["data"]["message"].update(toolCallId="other"))


@case
def v4_error_without_flag() -> Bad:
    error = {"name": "E", "code": "X"}
    return _edited(4, "S-LNT-41", "tool/result", lambda row: row["data"].update(error=error))


@case
def v4_retired_block() -> Bad:
    block = {"type": "tool-result", "toolCallId": "c", "content": []}
    return _edited(4, "S-LNT-42", "user/message", lambda row: row["data"].update(content=[block]))


# -- turns -------------------------------------------------------------------------------------------------------


@case
def turn_ends_inside_a_step() -> Bad:
    log = _begun(4)
    log.answer(text("Done."))
    seq = log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-46", _line(seq))


@case
def another_turn_ends() -> Bad:
    log = _begun(0)
    log.answer(text("Done."))
    log.close_step()
    seq = log.add("turn/end", {"turn": 2, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-46", _line(seq))


@case
def stepless_turn_with_a_ceiling() -> Bad:
    log = Builder(4)
    log.add("turn/start", {"turn": 1})
    seq = log.add("turn/end", {"turn": 1, "reason": {"kind": "max-tokens"}})
    return Bad(log.rows, "S-LNT-49", _line(seq))


@case
def completed_although_the_ceiling_was_hit() -> Bad:
    log = _begun(4)
    log.answer(text("Lo"), finish="max-tokens")
    log.end()
    return Bad(log.rows, "S-LNT-48", _line(log.seq - 1))


@case
def v0_forked_end() -> Bad:
    log = _begun(0)
    log.answer(text("Done."))
    log.end("forked")
    return Bad(log.rows, "S-LNT-47", _line(log.seq - 1))


@case
def another_step_ends() -> Bad:
    log = _begun(4)
    log.answer(text("Done."))
    seq = log.add("step/end", {"turn": 1, "step": 2})
    log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-51", _line(seq))


@case
def step_ends_twice() -> Bad:
    log = _begun(0)
    log.answer(text("Done."))
    log.close_step()
    seq = log.add("step/end", {"turn": 1, "step": 1})
    log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-51", _line(seq))


@case
def result_after_its_step() -> Bad:
    log = legal(0)
    late = log.result_message("c1", "late", False, "late")
    seq = log.add("tool/result", {"turn": 1, "step": 1, "message": late}, surfaceOp="append")
    return Bad(log.rows, "S-LNT-57", _line(seq))


@case
def v4_attempt_of_a_closed_step() -> Bad:
    log = legal(4)
    seq = log.add("assistant/attempt", {"turn": 1, "step": 2, "stream": []})
    return Bad(log.rows, "S-LNT-57", _line(seq))


# -- streams -----------------------------------------------------------------------------------------------------


def _stream(row: Event) -> list[Event]:
    stream: list[Event] = row["data"]["stream"]
    return stream


@case
def v4_delta_without_a_block() -> Bad:
    return _edited(4, "S-LNT-58", "assistant/message", lambda row: _stream(row).pop(0), -1)


@case
def v4_stream_without_a_finish() -> Bad:
    return _edited(4, "S-LNT-58", "assistant/message", lambda row: _stream(row).pop(), -1)


@case
def v4_content_is_not_the_stream() -> Bad:
    return _edited(
        4, "S-LNT-60", "assistant/message", lambda row: row["data"]["message"].update(content=[text("No.")]), -1
    )


@case
def v4_usage_is_not_the_stream() -> Bad:
    return _edited(4, "S-LNT-61", "assistant/message", lambda row: row["data"].pop("usage"), -1)


@case
def v4_node_while_a_request_is_under_way() -> Bad:
    log = _begun(4)
    seq = log.add("user/message", log.user("Late.", "n1", "note"), surfaceOp="append")
    log.rows[-1]["time"] += 1
    log.answer(text("Done."))
    log.rows[-1]["time"] += 1
    log.rows[-1]["data"]["stream"][0]["time"] -= 1
    log.end()
    log.rows[-1]["time"] += 1
    return Bad(log.rows, "S-LNT-61", _line(seq))


@case
def v4_replay_state_of_nowhere() -> Bad:
    return _edited(
        4,
        "S-LNT-62",
        "assistant/message",
        lambda row: row["data"]["message"]["source"].update(replayState={"version": 1}),
        -1,
    )


@case
def v4_second_message_in_a_step() -> Bad:
    log = _begun(4)
    log.answer(text("One."))
    seq = log.answer(text("Two."))
    log.end()
    return Bad(log.rows, "S-LNT-63", _line(seq))


@case
def interrupted_in_a_completed_turn() -> Bad:
    return _edited(4, "S-LNT-64", "assistant/message", lambda row: row["data"].update(interrupted=True), -1)


@case
def v4_attempt_that_succeeded() -> Bad:
    log = _begun(4)
    stream = [{"type": "chunk", "time": 1001, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}]
    seq = log.add("assistant/attempt", log.at(stream=stream))
    return Bad(_finished(log), "S-LNT-65", _line(seq))


# -- tools -------------------------------------------------------------------------------------------------------


def _skipped(log: Builder, call_id: str) -> int:
    error = {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}
    words = "Error: tool call aborted before dispatch"
    return log.result(call_id, log.call(call_id), words, is_error=True, error=error)


@case
def normal_result_behind_a_skipped_call() -> Bad:
    log = _begun(4)
    log.answer(tool_call("c1"), tool_call("c2"), finish="tool-calls")
    _skipped(log, "c1")
    seq = log.result("c2", log.call("c2"))
    log.end("aborted", reason={"kind": "user"})
    return Bad(log.rows, "S-LNT-75", _line(seq))


@case
def tool_that_no_header_has() -> Bad:
    log = _begun(4)
    log.answer(tool_call("c1", name="write"), finish="tool-calls")
    called = log.add("tool/call", log.at(callId="c1", name="write", arguments="{}"))
    seq = log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-76", _line(seq))


@case
def v4_result_cites_another_call() -> Bad:
    return _edited(4, "S-LNT-73", "tool/result", lambda row: row.update(sourceEventSeqs=[1]))


@case
def v4_unanswered_call() -> Bad:
    log = _begun(4)
    log.answer(tool_call("c1"), finish="tool-calls")
    log.call("c1")
    log.end()
    return Bad(log.rows, "S-LNT-71", _line(log.seq - 2))


@case
def v4_results_in_the_wrong_order() -> Bad:
    log = _begun(4)
    log.answer(tool_call("c1"), tool_call("c2"), finish="tool-calls")
    first, second = log.call("c1"), log.call("c2")
    log.result("c2", second)
    seq = log.result("c1", first)
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-72", _line(seq))


# -- requests ----------------------------------------------------------------------------------------------------


@case
def v4_system_in_the_header() -> Bad:
    return _edited(4, "S-LNT-78", "request/header", lambda row: row["data"]["header"].update(system="Be kind."))


@case
def v4_series_that_differs() -> Bad:
    log = legal(4)
    log.begin("More.", "u3")
    seq = log.header("series")
    log.rows[-1]["data"]["header"].pop("tools")
    return Bad(_finished(log), "S-LNT-82", _line(seq))


# -- inbox -------------------------------------------------------------------------------------------------------


@case
def claim_of_the_second_message() -> Bad:
    log = Builder(4)
    log.queue(log.user("One.", "u1"))
    log.queue(log.user("Two.", "u2"), start=1)
    log.add("turn/start", {"turn": 1})
    data = {"target": "next-turn", "start": 1, "removedCount": 1, "inserted": []}
    seq = log.add("agent/inbox/spliced", data)
    log.add("turn/end", {"turn": 1, "reason": {"kind": "blocked"}})
    return Bad(log.rows, "S-LNT-88", _line(seq))


@case
def claim_of_half_the_steps() -> Bad:
    log = Builder(0)
    log.queue(log.user("One.", "n1", "note"), "next-step")
    log.queue(log.user("Two.", "n2", "note"), "next-step", 1)
    log.add("turn/start", {"turn": 1})
    seq = log.claim("next-step", 1)
    log.add("turn/end", {"turn": 1, "reason": {"kind": "blocked"}})
    return Bad(log.rows, "S-LNT-88", _line(seq))


@case
def claimed_in_a_blocked_turn() -> Bad:
    log = Builder(4)
    log.queue(log.user("One.", "u1"))
    log.add("turn/start", {"turn": 1})
    seq = log.claim()
    log.add("turn/end", {"turn": 1, "reason": {"kind": "blocked"}})
    return Bad(log.rows, "S-LNT-89", _line(seq))


@case
def claimed_and_never_entered() -> Bad:
    log = Builder(4)
    log.queue(log.user("One.", "u1"))
    log.turn = 1
    log.add("turn/start", {"turn": 1})
    seq = log.claim()
    log.open_step()
    log.system("You are a test agent.", "s1")
    log.header("initial")
    return Bad(_finished(log), "S-LNT-107", _line(seq))


@case
def prompt_that_was_never_claimed() -> Bad:
    log = _begun(0)
    seq = log.add("user/message", log.user("Queued only.", "u9"), surfaceOp="append")
    return Bad(_finished(log), "S-LNT-108", _line(seq))


# -- brackets ----------------------------------------------------------------------------------------------------


def _retry(log: Builder, **more: object) -> int:
    failure = {"message": "busy", "code": "RATE_LIMIT"}
    data = {"retryId": "r1", "provider": "mock", "mode": "normal", "policyKey": "k", "retry": 1, "maxRetries": 3}
    return log.add("llm/retry", log.at(**data | {"delayMs": 5, "failure": failure} | more))


@case
def retry_beyond_its_maximum() -> Bad:
    log = _begun(4)
    seq = _retry(log, maxRetries=0)
    log.add("llm/retry-started", log.at(retryId="r1", retry=1))
    return Bad(_finished(log), "S-LNT-92", _line(seq))


@case
def retry_id_used_again() -> Bad:
    log = _begun(0)
    _retry(log)
    log.add("llm/retry-started", log.at(retryId="r1", retry=1))
    seq = _retry(log, policyKey="other")
    log.add("llm/retry-started", log.at(retryId="r1", retry=1))
    return Bad(_finished(log), "S-LNT-93", _line(seq))


@case
def compaction_at_the_end() -> Bad:
    log = legal(4)
    seq = log.add("compaction/start", {"compactionId": "k1", "turn": None})
    return Bad(log.rows, "S-LNT-99", _line(seq))


@case
def compaction_cut_by_a_restart() -> Bad:
    log = legal(0)
    seq = log.add("compaction/start", {"compactionId": "k1", "turn": None})
    log.add("session/end-seed", {})
    return Bad(log.rows, "S-LNT-99", _line(seq))


@case
def compaction_of_another_turn() -> Bad:
    log = legal(4)
    seq = log.add("compaction/start", {"compactionId": "k1", "turn": 2})
    log.add("compaction/end", {"compactionId": "k1", "turn": 2, "error": "no"})
    return Bad(log.rows, "S-LNT-96", _line(seq))


def _summary(log: Builder, seqs: list[int]) -> int:
    log.add("compaction/start", {"compactionId": "k1", "turn": None})
    data = {
        "compactionId": "k1",
        "summary": [text("Short.")],
        "shadowedRange": {"start": seqs[0], "end": seqs[-1]},
        "shadowedSeqs": seqs,
        "shadowedTokenCount": 9,
        "provider": "mock",
        "model": "m",
    }
    return log.add("compaction/summary", data)


@case
def compaction_of_no_slice() -> Bad:
    log = legal(4)
    seq = _summary(log, [find(log.rows, "user/message") - 1, find(log.rows, "tool/result") - 1])
    log.add("compaction/end", {"compactionId": "k1", "turn": None, "error": "no"})
    return Bad(log.rows, "S-LNT-97", _line(seq))


@case
def compaction_without_checkpoint() -> Bad:
    log = legal(4)
    _summary(log, [find(log.rows, "user/message") - 1])
    seq = log.add("compaction/end", {"compactionId": "k1", "turn": None})
    return Bad(log.rows, "S-LNT-98", _line(seq))


@case
def prune_without_its_replace() -> Bad:
    log = legal(4)
    node = find(log.rows, "tool/result") - 1
    span = {"start": node, "end": node}
    seq = log.add("compaction/prune", {"shadowedRange": span, "shadowedSeqs": [node], "shadowedTokenCount": 1})
    log.add("session/end-seed", {})
    return Bad(log.rows, "S-LNT-100", _line(seq))


@case
def approval_decided_twice() -> Bad:
    log = legal(4)
    log.add("approval/asked", {"id": "p1", "toolName": "read"})
    log.add("approval/decided", {"id": "p1", "outcome": "rejected"})
    seq = log.add("approval/decided", {"id": "p1", "outcome": "rejected"})
    return Bad(log.rows, "S-LNT-101", _line(seq))


@case
def command_done_without_run() -> Bad:
    log = legal(0)
    seq = log.add("command/done", {"commandId": "k", "kind": "success"})
    return Bad(log.rows, "S-LNT-101", _line(seq))


def _dispatch(log: Builder, parent: str, sub: str) -> int:
    word = "code" if log.version == 0 else "ptc"
    data = {"rootCallId": "c1", "parentCallId": parent, "subCallId": sub, "name": "read", "arguments": {}}
    return log.add(f"tool/{word}-dispatch-start", data)


@case
def dispatch_that_never_ends() -> Bad:
    log = _begun(4)
    log.answer(tool_call("c1"), finish="tool-calls")
    called = log.call("c1")
    seq = _dispatch(log, "c1", "c1:ptc:1")
    log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-102", _line(seq))


@case
def dispatch_of_a_stranger() -> Bad:
    log = _begun(0)
    log.answer(tool_call("c1"), finish="tool-calls")
    called = log.call("c1")
    seq = _dispatch(log, "c9", "c9:code:1")
    data = {"rootCallId": "c1", "parentCallId": "c9", "subCallId": "c9:code:1", "name": "read", "arguments": {}}
    log.add("tool/code-dispatch", data | {"isError": False, "content": []})
    log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(_finished(log), "S-LNT-102", _line(seq))


@case
def title_of_an_answer() -> Bad:
    log = legal(4)
    answer = find(log.rows, "assistant/message") - 1
    seq = log.add("session/title", {"title": "T", "messageSeqs": [answer], "source": {"kind": "fallback"}})
    return Bad(log.rows, "S-LNT-103", _line(seq))


@case
def delivery_of_another_session() -> Bad:
    log = legal(4)
    seq = log.add("session-log-deepseek/delivery-accepted", {"sessionId": "other", "throughSeq": 1})
    return Bad(log.rows, "S-LNT-104", _line(seq))


@case
def child_twice_in_the_catalog() -> Bad:
    log = legal(4)
    data = {"version": 0, "childId": "k1", "childCreatedAt": 5, "mode": "one-shot"}
    log.add("subagent/catalog", data)
    seq = log.add("subagent/catalog", data)
    return Bad(log.rows, "S-LNT-104", _line(seq))
