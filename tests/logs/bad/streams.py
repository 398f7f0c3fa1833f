"""Broken logs: streams and what was made of them."""

from __future__ import annotations

from tests.logs.bad.case import Bad, begun, case, edited, finished, line
from tests.logs.building import Event, text


def _stream(row: Event) -> list[Event]:
    stream: list[Event] = row["data"]["stream"]
    return stream


@case
def v4_delta_without_a_block() -> Bad:
    return edited(4, "S-LNT-58", "assistant/message", lambda row: _stream(row).pop(0), -1)


@case
def v4_stream_without_a_finish() -> Bad:
    return edited(4, "S-LNT-58", "assistant/message", lambda row: _stream(row).pop(), -1)


@case
def v4_content_is_not_the_stream() -> Bad:
    return edited(
        4, "S-LNT-60", "assistant/message", lambda row: row["data"]["message"].update(content=[text("No.")]), -1
    )


@case
def v4_usage_is_not_the_stream() -> Bad:
    return edited(4, "S-LNT-61", "assistant/message", lambda row: row["data"].pop("usage"), -1)


@case
def v4_node_while_a_request_is_under_way() -> Bad:
    log = begun(4)
    seq = log.add("user/message", log.user("Late.", "n1", "note"), surfaceOp="append")
    log.rows[-1]["time"] += 1
    log.answer(text("Done."))
    log.rows[-1]["time"] += 1
    log.rows[-1]["data"]["stream"][0]["time"] -= 1
    log.end()
    log.rows[-1]["time"] += 1
    return Bad(log.rows, "S-LNT-61", line(seq))


@case
def v4_replay_state_of_nowhere() -> Bad:
    return edited(
        4,
        "S-LNT-62",
        "assistant/message",
        lambda row: row["data"]["message"]["source"].update(replayState={"version": 1}),
        -1,
    )


@case
def v4_second_message_in_a_step() -> Bad:
    log = begun(4)
    log.answer(text("One."))
    seq = log.answer(text("Two."))
    log.end()
    return Bad(log.rows, "S-LNT-63", line(seq))


@case
def interrupted_in_a_completed_turn() -> Bad:
    return edited(4, "S-LNT-64", "assistant/message", lambda row: row["data"].update(interrupted=True), -1)


@case
def v4_attempt_that_succeeded() -> Bad:
    log = begun(4)
    stream = [{"type": "chunk", "time": 1001, "chunk": {"type": "finish", "reason": {"kind": "stop"}}}]
    seq = log.add("assistant/attempt", log.at(stream=stream))
    return Bad(finished(log), "S-LNT-65", line(seq))
