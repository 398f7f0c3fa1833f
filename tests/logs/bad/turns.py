"""Broken logs: turns and steps."""

from __future__ import annotations

from tests.logs.bad.case import Bad, begun, case, line
from tests.logs.building import Builder, legal, text


@case
def turn_ends_inside_a_step() -> Bad:
    log = begun(4)
    log.answer(text("Done."))
    seq = log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-46", line(seq))


@case
def another_turn_ends() -> Bad:
    log = begun(0)
    log.answer(text("Done."))
    log.close_step()
    seq = log.add("turn/end", {"turn": 2, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-46", line(seq))


@case
def stepless_turn_with_a_ceiling() -> Bad:
    log = Builder(4)
    log.add("turn/start", {"turn": 1})
    seq = log.add("turn/end", {"turn": 1, "reason": {"kind": "max-tokens"}})
    return Bad(log.rows, "S-LNT-49", line(seq))


@case
def completed_although_the_ceiling_was_hit() -> Bad:
    log = begun(4)
    log.answer(text("Lo"), finish="max-tokens")
    log.end()
    return Bad(log.rows, "S-LNT-48", line(log.seq - 1))


@case
def v0_forked_end() -> Bad:
    log = begun(0)
    log.answer(text("Done."))
    log.end("forked")
    return Bad(log.rows, "S-LNT-47", line(log.seq - 1))


@case
def another_step_ends() -> Bad:
    log = begun(4)
    log.answer(text("Done."))
    seq = log.add("step/end", {"turn": 1, "step": 2})
    log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-51", line(seq))


@case
def step_ends_twice() -> Bad:
    log = begun(0)
    log.answer(text("Done."))
    log.close_step()
    seq = log.add("step/end", {"turn": 1, "step": 1})
    log.add("turn/end", {"turn": 1, "reason": {"kind": "completed"}})
    return Bad(log.rows, "S-LNT-51", line(seq))


@case
def result_after_its_step() -> Bad:
    log = legal(0)
    late = log.result_message("c1", "late", False, "late")
    seq = log.add("tool/result", {"turn": 1, "step": 1, "message": late}, surfaceOp="append")
    return Bad(log.rows, "S-LNT-57", line(seq))


@case
def v4_attempt_of_a_closed_step() -> Bad:
    log = legal(4)
    seq = log.add("assistant/attempt", {"turn": 1, "step": 2, "stream": []})
    return Bad(log.rows, "S-LNT-57", line(seq))
