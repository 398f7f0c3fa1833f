"""Broken logs: calls and results."""

from __future__ import annotations

from tests.logs.bad.case import Bad, begun, case, edited, finished, line
from tests.logs.building import Builder, tool_call


def _skipped(log: Builder, call_id: str) -> int:
    error = {"name": "AbortError", "code": "ABORTED_BEFORE_DISPATCH"}
    words = "Error: tool call aborted before dispatch"
    return log.result(call_id, log.call(call_id), words, is_error=True, error=error)


@case
def normal_result_behind_a_skipped_call() -> Bad:
    log = begun(4)
    log.answer(tool_call("c1"), tool_call("c2"), finish="tool-calls")
    _skipped(log, "c1")
    seq = log.result("c2", log.call("c2"))
    log.end("aborted", reason={"kind": "user"})
    return Bad(log.rows, "S-LNT-75", line(seq))


@case
def tool_that_no_header_has() -> Bad:
    log = begun(4)
    log.answer(tool_call("c1", name="write"), finish="tool-calls")
    called = log.add("tool/call", log.at(callId="c1", name="write", arguments="{}"))
    seq = log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(finished(log), "S-LNT-76", line(seq))


@case
def v4_result_cites_another_call() -> Bad:
    return edited(4, "S-LNT-73", "tool/result", lambda row: row.update(sourceEventSeqs=[1]))


@case
def v4_unanswered_call() -> Bad:
    log = begun(4)
    log.answer(tool_call("c1"), finish="tool-calls")
    log.call("c1")
    log.end()
    return Bad(log.rows, "S-LNT-71", line(log.seq - 2))


@case
def v4_results_in_the_wrong_order() -> Bad:
    log = begun(4)
    log.answer(tool_call("c1"), tool_call("c2"), finish="tool-calls")
    first, second = log.call("c1"), log.call("c2")
    log.result("c2", second)
    seq = log.result("c1", first)
    log.close_step()
    log.open_step()
    return Bad(finished(log), "S-LNT-72", line(seq))
