"""Broken logs: the surface."""

from __future__ import annotations

from tests.logs.bad.case import Bad, begun, case, edited, finished, line
from tests.logs.building import Builder, Event, find, text, tool_call


@case
def v4_assistant_with_sources() -> Bad:
    return edited(4, "S-LNT-31", "assistant/message", lambda row: row.update(sourceEventSeqs=[1]))


@case
def v4_replace_of_the_head_by_a_user_message() -> Bad:
    log = begun(4)
    log.answer(text("Hm."))
    first, last = find(log.rows, "system/message") - 1, find(log.rows, "user/message") - 1
    seq = log.add(
        "user/message",
        log.user("All of it.", "x", "note"),
        sourceEventSeqs=[first, last],
        surfaceOp={"op": "replace", "startSeq": first, "endSeq": last},
    )
    log.end()
    return Bad(log.rows, "S-LNT-32", line(seq))


@case
def v4_system_message_behind_others() -> Bad:
    log = Builder(4)
    log.turn = 1
    log.add("turn/start", {"turn": 1})
    log.open_step()
    log.add("user/message", log.user("Note.", "n1", "note"), surfaceOp="append")
    seq = log.system("Late.", "s1")
    log.end()
    return Bad(log.rows, "S-LNT-32", line(seq))


@case
def v4_offload_of_an_image_that_is_not_there() -> Bad:
    log = begun(4)
    target = find(log.rows, "user/message") - 1
    seq = log.add("image/offload", {"targets": [{"seq": target, "imageIndexes": [0]}]})
    return Bad(finished(log), "S-LNT-33", line(seq))


def _developer(log: Builder, blocks: list[Event], **more: object) -> int:
    message = {"id": "d1", "role": "developer", "content": blocks, "source": {"kind": "tools"}}
    return log.add("developer/message", log.at(message=message, **more), surfaceOp="append")


@case
def v4_tool_addition_without_its_header() -> Bad:
    log = begun(4)
    seq = _developer(log, [{"type": "tool-addition", "toolName": "read"}], headerSeq=0)
    return Bad(finished(log), "S-LNT-34", line(seq))


@case
def v4_tool_addition_that_the_header_lacks() -> Bad:
    log = begun(4)
    header = find(log.rows, "request/header") - 1
    seq = _developer(log, [{"type": "tool-addition", "toolName": "write"}], headerSeq=header)
    return Bad(finished(log), "S-LNT-34", line(seq))


@case
def v4_sources_packed_in_another_way() -> Bad:
    log = begun(4)
    node = log.seq
    log.answer(text("Long."))
    seq = log.add(
        "user/message",
        log.user("Short.", "x", "note"),
        sourceEventSeqs=[0, 1, 2, [3, node]],
        surfaceOp={"op": "replace", "startSeq": node, "endSeq": node},
    )
    log.end()
    return Bad(log.rows, "S-LNT-35", line(seq))


@case
def user_message_inside_a_batch() -> Bad:
    log = begun(0)
    log.answer(tool_call("c1"), finish="tool-calls")
    called = log.call("c1")
    seq = log.add("user/message", log.user("Hint.", "n1", "note"), surfaceOp="append")
    log.result("c1", called)
    log.close_step()
    log.open_step()
    return Bad(finished(log), "S-LNT-105", line(seq))


@case
def v4_replace_that_orphans_a_result() -> Bad:
    log = begun(4)
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
    return Bad(finished(log), "S-LNT-106", line(seq))


@case
def replace_that_orphans_a_call() -> Bad:
    log = begun(0)
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
    return Bad(finished(log), "S-LNT-106", line(seq))


@case
def replace_of_an_unfinished_batch() -> Bad:
    log = begun(0)
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
    return Bad(finished(log), "S-LNT-106", line(seq))
