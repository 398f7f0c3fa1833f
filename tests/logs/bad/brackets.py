"""Broken logs: retries, compactions, approvals and other brackets."""

from __future__ import annotations

from tests.logs.bad.case import Bad, begun, case, finished, line
from tests.logs.building import Builder, find, legal, text, tool_call


def _retry(log: Builder, **more: object) -> int:
    failure = {"message": "busy", "code": "RATE_LIMIT"}
    data = {"retryId": "r1", "provider": "mock", "mode": "normal", "policyKey": "k", "retry": 1, "maxRetries": 3}
    return log.add("llm/retry", log.at(**data | {"delayMs": 5, "failure": failure} | more))


@case
def retry_beyond_its_maximum() -> Bad:
    log = begun(4)
    seq = _retry(log, maxRetries=0)
    log.add("llm/retry-started", log.at(retryId="r1", retry=1))
    return Bad(finished(log), "S-LNT-92", line(seq))


@case
def retry_id_used_again() -> Bad:
    log = begun(0)
    _retry(log)
    log.add("llm/retry-started", log.at(retryId="r1", retry=1))
    seq = _retry(log, policyKey="other")
    log.add("llm/retry-started", log.at(retryId="r1", retry=1))
    return Bad(finished(log), "S-LNT-93", line(seq))


@case
def compaction_at_the_end() -> Bad:
    log = legal(4)
    seq = log.add("compaction/start", {"compactionId": "k1", "turn": None})
    return Bad(log.rows, "S-LNT-99", line(seq))


@case
def compaction_cut_by_a_restart() -> Bad:
    log = legal(0)
    seq = log.add("compaction/start", {"compactionId": "k1", "turn": None})
    log.add("session/end-seed", {})
    return Bad(log.rows, "S-LNT-99", line(seq))


@case
def compaction_of_another_turn() -> Bad:
    log = legal(4)
    seq = log.add("compaction/start", {"compactionId": "k1", "turn": 2})
    log.add("compaction/end", {"compactionId": "k1", "turn": 2, "error": "no"})
    return Bad(log.rows, "S-LNT-96", line(seq))


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
    return Bad(log.rows, "S-LNT-97", line(seq))


@case
def compaction_without_checkpoint() -> Bad:
    log = legal(4)
    _summary(log, [find(log.rows, "user/message") - 1])
    seq = log.add("compaction/end", {"compactionId": "k1", "turn": None})
    return Bad(log.rows, "S-LNT-98", line(seq))


@case
def prune_without_its_replace() -> Bad:
    log = legal(4)
    node = find(log.rows, "tool/result") - 1
    span = {"start": node, "end": node}
    seq = log.add("compaction/prune", {"shadowedRange": span, "shadowedSeqs": [node], "shadowedTokenCount": 1})
    log.add("session/end-seed", {})
    return Bad(log.rows, "S-LNT-100", line(seq))


@case
def approval_decided_twice() -> Bad:
    log = legal(4)
    log.add("approval/asked", {"id": "p1", "toolName": "read"})
    log.add("approval/decided", {"id": "p1", "outcome": "rejected"})
    seq = log.add("approval/decided", {"id": "p1", "outcome": "rejected"})
    return Bad(log.rows, "S-LNT-101", line(seq))


@case
def command_done_without_run() -> Bad:
    log = legal(0)
    seq = log.add("command/done", {"commandId": "k", "kind": "success"})
    return Bad(log.rows, "S-LNT-101", line(seq))


def _dispatch(log: Builder, parent: str, sub: str) -> int:
    word = "code" if log.version == 0 else "ptc"
    data = {"rootCallId": "c1", "parentCallId": parent, "subCallId": sub, "name": "read", "arguments": {}}
    return log.add(f"tool/{word}-dispatch-start", data)


@case
def dispatch_that_never_ends() -> Bad:
    log = begun(4)
    log.answer(tool_call("c1"), finish="tool-calls")
    called = log.call("c1")
    seq = _dispatch(log, "c1", "c1:ptc:1")
    log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(finished(log), "S-LNT-102", line(seq))


@case
def dispatch_of_a_stranger() -> Bad:
    log = begun(0)
    log.answer(tool_call("c1"), finish="tool-calls")
    called = log.call("c1")
    seq = _dispatch(log, "c9", "c9:code:1")
    data = {"rootCallId": "c1", "parentCallId": "c9", "subCallId": "c9:code:1", "name": "read", "arguments": {}}
    log.add("tool/code-dispatch", data | {"isError": False, "content": []})
    log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(finished(log), "S-LNT-102", line(seq))


@case
def title_of_an_answer() -> Bad:
    log = legal(4)
    answer = find(log.rows, "assistant/message") - 1
    seq = log.add("session/title", {"title": "T", "messageSeqs": [answer], "source": {"kind": "fallback"}})
    return Bad(log.rows, "S-LNT-103", line(seq))


@case
def delivery_of_another_session() -> Bad:
    log = legal(4)
    seq = log.add("session-log-deepseek/delivery-accepted", {"sessionId": "other", "throughSeq": 1})
    return Bad(log.rows, "S-LNT-104", line(seq))


@case
def child_twice_in_the_catalog() -> Bad:
    log = legal(4)
    data = {"version": 0, "childId": "k1", "childCreatedAt": 5, "mode": "one-shot"}
    log.add("subagent/catalog", data)
    seq = log.add("subagent/catalog", data)
    return Bad(log.rows, "S-LNT-104", line(seq))
