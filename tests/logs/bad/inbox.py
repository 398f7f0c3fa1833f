"""Broken logs: the inbox."""

from __future__ import annotations

from tests.logs.bad.case import Bad, begun, case, finished, line
from tests.logs.building import Builder


@case
def claim_of_the_second_message() -> Bad:
    log = Builder(4)
    log.queue(log.user("One.", "u1"))
    log.queue(log.user("Two.", "u2"), start=1)
    log.add("turn/start", {"turn": 1})
    data = {"target": "next-turn", "start": 1, "removedCount": 1, "inserted": []}
    seq = log.add("agent/inbox/spliced", data)
    log.add("turn/end", {"turn": 1, "reason": {"kind": "blocked"}})
    return Bad(log.rows, "S-LNT-88", line(seq))


@case
def claim_of_half_the_steps() -> Bad:
    log = Builder(0)
    log.queue(log.user("One.", "n1", "note"), "next-step")
    log.queue(log.user("Two.", "n2", "note"), "next-step", 1)
    log.add("turn/start", {"turn": 1})
    seq = log.claim("next-step", 1)
    log.add("turn/end", {"turn": 1, "reason": {"kind": "blocked"}})
    return Bad(log.rows, "S-LNT-88", line(seq))


@case
def claimed_in_a_blocked_turn() -> Bad:
    log = Builder(4)
    log.queue(log.user("One.", "u1"))
    log.add("turn/start", {"turn": 1})
    seq = log.claim()
    log.add("turn/end", {"turn": 1, "reason": {"kind": "blocked"}})
    return Bad(log.rows, "S-LNT-89", line(seq))


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
    return Bad(finished(log), "S-LNT-107", line(seq))


@case
def prompt_that_was_never_claimed() -> Bad:
    log = begun(0)
    seq = log.add("user/message", log.user("Queued only.", "u9"), surfaceOp="append")
    return Bad(finished(log), "S-LNT-108", line(seq))
