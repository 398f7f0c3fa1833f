"""Inbox and seeds (`S-LNT-85` to `S-LNT-91`, `S-LNT-107`, `S-LNT-108`). Rule 91 needs the parent's log."""

from __future__ import annotations

from typing import Any

from loopspec.log.rule import Breach, Rule, breach, rule
from loopspec.log.state import OPAQUE_ID, Log, Row, items, record

_SPLICE = "agent/inbox/spliced"


class _Splice:
    """The fields of a splice, with the list that it touches."""

    def __init__(self, log: Log, row: Row) -> None:
        target = row.data.get("target")
        self.target: Any = target
        self.pending = log.inbox.get(target, []) if type(target) is str else []
        self.start: Any = row.data.get("start")
        self.removed: Any = row.data.get("removedCount", 0)
        self.inserted = [record(message).get("id") for message in items(row.data.get("inserted"))]
        self.outcome: Any = row.data.get("outcome")
        self.counts = type(self.start) is int and type(self.removed) is int

    @property
    def legal(self) -> bool:
        return bool(
            self.counts and 0 <= self.start <= len(self.pending) and 0 <= self.removed <= len(self.pending) - self.start
        )

    @property
    def claims(self) -> bool:
        return self.counts and self.removed > 0 and not self.inserted and self.outcome is None


@rule("S-LNT-85", "E", "A splice stays within its list on replay.", _SPLICE)
def bounds(log: Log, row: Row) -> Breach | None:
    splice = _Splice(log, row)
    if splice.legal or not splice.counts:
        return None
    text = (
        f"The splice removes {splice.removed} from position {splice.start} of {splice.target}, "
        f"which holds {len(splice.pending)} messages."
    )
    return breach(text, "a start and count within the list")


@rule("S-LNT-86", "W", "No splice does nothing, and canceled stands only beside a removal.", _SPLICE)
def does_something(log: Log, row: Row) -> Breach | None:
    splice = _Splice(log, row)
    if splice.removed == 0 and not splice.inserted:
        return breach("The splice removes nothing and inserts nothing.", "no row at all")
    if splice.outcome is not None and splice.removed == 0:
        return breach(f"The outcome {splice.outcome!r} stands beside no removal.", "no outcome")
    return None


@rule("S-LNT-87", "E", "Pending ids are unique over both lists.", _SPLICE)
def unique_pending(log: Log, row: Row) -> list[Breach]:
    splice = _Splice(log, row)
    if not splice.legal:
        return []
    gone = splice.pending[splice.start : splice.start + splice.removed]
    kept = [message_id for pending in log.inbox.values() for message_id in pending]
    for message_id in gone:
        kept.remove(message_id)
    found = []
    for message_id in splice.inserted:
        if message_id in kept and not (log.snapshot and message_id == OPAQUE_ID):
            found.append(breach(f"The message {message_id!r} is pending already.", "each message once"))
        kept.append(message_id)
    return found


@rule(
    "S-LNT-88",
    "W",
    "A next-step claim empties the list; a next-turn claim takes the first, and only while opening a turn.",
    _SPLICE,
)
def claim_shape(log: Log, row: Row) -> Breach | None:
    splice = _Splice(log, row)
    if not splice.claims or not splice.legal:
        return None
    if splice.target == "next-step" and splice.removed != len(splice.pending):
        text = f"The claim takes {splice.removed} of {len(splice.pending)} messages from next-step."
        return breach(text, "all of next-step in one splice")
    if splice.target == "next-turn":
        if splice.start != 0 or splice.removed != 1:
            text = f"The claim takes {splice.removed} messages from position {splice.start} of next-turn."
            return breach(text, "exactly the first one")
        if log.turn is None or log.last_step > 0:
            return breach("A next-turn message is claimed, but no turn is just opening.", "right behind turn/start")
    if log.turn is None:
        return breach("Messages are claimed outside a turn.", "behind turn/start or step/end")
    return None


def _explained(log: Log, row: Row) -> bool:
    """The turn itself says why messages may be missing: rejected, cancelled, cut, or a pre-step that took none."""
    kind = record(row.data.get("reason")).get("kind")
    return kind in ("blocked", "aborted", "interrupted", "forked") or log.last_step == 0


@rule(
    "S-LNT-89",
    "I",
    "Claimed messages enter their step, or the turn says why not: blocked, aborted, cut, no step at all.",
    "turn/end",
)
def claimed_and_dropped(log: Log, row: Row) -> list[Breach]:
    if not _explained(log, row):
        return []
    kind = record(row.data.get("reason")).get("kind")
    return [
        breach(
            f"The message {held.key!r} was claimed and never entered; the turn ended as {kind}.",
            "nothing wrong: such input is lost by design",
            line=held.line,
            seq=held.seq,
        )
        for held in log.claims.values()
    ]


@rule("S-LNT-107", "W", "No claimed message is lost without a reason that the turn shows.", "turn/end", "step/end")
def claimed_and_lost(log: Log, row: Row) -> list[Breach]:
    if row.type == "turn/end" and _explained(log, row):
        return []
    return [
        breach(
            f"The message {held.key!r} was claimed for step {held.value} and never entered it.",
            "a user/message with this id in that step",
            line=held.line,
            seq=held.seq,
        )
        for held in log.claims.values()
        if row.type == "turn/end" or held.value <= log.last_step
    ]


@rule("S-LNT-108", "W", "A user/message from a user was claimed from the inbox before.", "user/message")
def was_claimed(log: Log, row: Row) -> Breach | None:
    if not row.appends or record(row.message.get("source")).get("kind") != "user":
        return None
    message_id = row.message.get("id")
    if type(message_id) is not str or message_id == "" or message_id in log.ever_claimed:
        return None
    return breach(f"The user's message {message_id!r} was never claimed from the inbox.", "queued and claimed first")


@rule("S-LNT-90", "E", "session/end-seed has exact data; format 0: never two in a row.", "session/end-seed")
def end_seed(log: Log, row: Row) -> Breach | None:
    if row.data != {} and not (log.format == 4 and row.data == {"inherited": True} and row.data["inherited"] is True):
        legal = "{}" if log.format == 0 else '{} or {"inherited": true}'
        return breach(f"The marker's data are {row.data!r}.", legal)
    if log.format == 0 and log.last_type == "session/end-seed":
        return breach("Two restart markers stand in a row.", "one; opening again without work adds none")
    return None


RULES: tuple[Rule, ...] = (
    bounds,
    does_something,
    unique_pending,
    claim_shape,
    claimed_and_dropped,
    claimed_and_lost,
    was_claimed,
    end_seed,
)
