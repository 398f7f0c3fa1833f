"""What the inbox alone promises, judged by its records and events.

The driver's promises of the same names judge the same rules inside a run; here every mutation and every odd coordinate
is tried.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec.inbox import Ids, distinct, find
from loopspec.kernel.claims import Answer
from loopspec.kernel.machine import state
from loopspec.profile import Law
from loopspec.properties.claims import Promise, Witness
from loopspec.worlds.world import Node

Label = tuple[Any, ...]
"""The labels of a world are tuples: `(verb, …)`."""

Owed = tuple[tuple[str, int], ...]


class Call(NamedTuple):
    """One mutation in progress."""

    operation: tuple[Any, ...] = ()
    locked: bool = False
    observed: bool = False
    owed: Owed = ()
    records: int = 0
    refused: bool = False
    place: tuple[str, int] | None = None
    """Where the message of a `replace` or `remove` was when it was called (L-IN-10)."""
    length: int = 0
    """The length of the spliced list when the call was made (L-IN-4)."""
    pending: Ids = ()
    """What was pending then, next-step first."""
    due: Ids = ()
    """What a claim was to take then (L-IN-13)."""
    taken: Ids = ()
    """What its records have removed."""


@state
class Seen(NamedTuple):
    """The lists as the records tell them, as observers may see them, and the calls in progress."""

    next_step: Ids = ()
    next_turn: Ids = ()
    stack: tuple[Call, ...] = ()

    def put(self, **changes: Any) -> Seen:
        """A copy with some fields changed."""
        return self._replace(**changes)


def watch(seen: Seen, label: Label) -> Seen:
    """Fold one move into the memory."""
    verb = label[0]
    if verb == "call":
        locked = bool(seen.stack) and (seen.stack[-1].locked or seen.stack[-1].observed)
        operation = label[1:]
        place: tuple[str, int] | None = None
        length = 0
        if operation[0] in ("replace", "remove"):
            place = find(seen.next_step, seen.next_turn, operation[1])
        elif operation[0] == "splice":
            length = len(seen.next_turn if operation[1] == "next-turn" else seen.next_step)
        due = seen.next_step + (seen.next_turn[:1] if operation[1:2] == ("next-turn",) else ())
        pending = seen.next_step + seen.next_turn
        call = Call(operation, locked, place=place, length=length, pending=pending, due=due)
        return seen.put(stack=(*seen.stack, call))
    if verb == "leave":
        return seen.put(stack=seen.stack[:-1])
    call = seen.stack[-1]
    if verb == "refuse":
        return seen.put(stack=(*seen.stack[:-1], call._replace(refused=True, owed=(), observed=False)))
    if verb == "notify":
        return seen.put(stack=(*seen.stack[:-1], call._replace(owed=call.owed[1:], observed=False)))
    target, start, count, inserted, outcome = label[2:]
    items: Any = seen.next_turn if target == "next-turn" else seen.next_step
    removed = items[start : start + count]
    items = items[:start] + inserted + items[start + count :]
    kind = "discarded" if outcome else "claimed"
    owed: Any = (*call.owed, *((kind, one) for one in removed), *(("inserted", one) for one in inserted))
    call = call._replace(observed=True, owed=owed, records=call.records + 1, taken=call.taken + removed)
    seen = seen.put(stack=(*seen.stack[:-1], call))
    return seen.put(next_turn=items) if target == "next-turn" else seen.put(next_step=items)


def is_record(label: Label) -> bool:
    """The label writes a splice."""
    return bool(label[0] == "append")


def in_range(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Start and count lie inside the list as it is recorded."""
    length = len(before.next_turn if label[2] == "next-turn" else before.next_step)
    start: Any = label[3]
    count: Any = label[4]
    return bool(0 <= start <= length and 0 <= count <= length - start)


def as_asked(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A splice records the coordinates that its arguments mean (L-IN-4)."""
    call = before.stack[-1]
    if call.operation[0] != "splice" or call.length != len(
        before.next_turn if label[2] == "next-turn" else before.next_step
    ):
        return True
    _, target, start, count, inserted = call.operation
    first = 0 if start != start else max(min(start, call.length), -call.length)
    first = int(first) if int(first) >= 0 else call.length + int(first)
    wanted = 0 if count != count else int(max(0, min(count, call.length - first)))
    return label[2:6] == (target, first, wanted, inserted)


def one_record(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """One record a list and call; two only for a clear or a claim, next-step first."""
    call = before.stack[-1]
    if not (label[4] or label[5]):
        return False
    if call.operation[0] in ("take", "clear_inbox"):
        return call.records == 0 or (call.records == 1 and label[2] == "next-turn")
    return call.records == 0


def outcome_told(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """`canceled` exactly for a removal that is no claim."""
    taken = before.stack[-1].operation[0] == "take"
    return bool(label[6] == ("canceled" if label[4] and not taken else ""))


def events_in_order(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """The event told is the first one owed."""
    owed = before.stack[-1].owed
    return bool(owed) and owed[0] == (str(label[1]).removeprefix("agent/inbox/"), label[2])


def conserved(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A call ends, and a further record is written, only when every event has been told (a claim writes two first)."""
    call = before.stack[-1]
    if label[0] == "append":
        return not call.owed or call.operation[0] == "take"
    return not call.owed


def claimed_whole(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A claim takes all of next-step, then the first prompt if it opens a turn, and nothing else."""
    call = before.stack[-1]
    if call.operation[0] != "take":
        return True
    items = before.next_turn if label[2] == "next-turn" else before.next_step
    if label[3] != 0 or label[5]:
        return False
    if label[2] == "next-step":
        return bool(label[4] == len(items))
    return bool(call.operation[1] == "next-turn" and label[4] == 1)


def claim_complete(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A claim that nobody disturbed answers everything that was due, and a clear leaves nothing of it."""
    call = before.stack[-1]
    if call.locked or call.refused or label[1] != "return":
        return True
    if call.operation == ("clear_inbox",):
        return all(message not in before.next_step + before.next_turn for message in call.pending)
    if call.operation[0] == "take":
        return bool(label[2] == call.taken == call.due)
    return True


def found_right(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """`replace` and `remove` answer false exactly for a message that was not pending, and change its own place."""
    call = before.stack[-1]
    if call.operation[0] not in ("replace", "remove"):
        return True
    if label[0] == "append":
        return call.place is not None and (label[2], label[3]) == call.place and label[4] == 1
    return label[1] != "return" or call.locked or label[2] is (call.place is not None)


def raised_honestly(before: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """`refused` only after a refusal; `duplicate` only when an id would be pending twice; nothing was written."""
    call = before.stack[-1]
    if label[1] != "raise":
        return not call.refused
    if label[2] == "refused":
        return call.refused
    return call.records == 0


def lists_follow(node: Node, law: Law) -> Answer:
    """The lists equal the replay of the records, outside the observation of one (with the change done: always)."""
    core, seen = node.config.core, node.memory
    if (core.next_step, core.next_turn) == (seen.next_step, seen.next_turn):
        return True
    return not law.observers_see_splice_done and any(call.observed for call in seen.stack)


def observers_view(node: Node, law: Law) -> Answer:
    """Observers of a record see the lists before the change, or after it, as the law says (L-IN-9)."""
    core, seen = node.config.core, node.memory
    in_place = [call for call in seen.stack if call.operation[0] in ("replace", "splice")]
    if len(seen.stack) != 1 or not seen.stack[-1].observed or in_place:
        return True  # a change in place may leave the lists as they were
    done = (core.next_step, core.next_turn) == (seen.next_step, seen.next_turn)
    return done == law.observers_see_splice_done


def pending_once(node: Node, law: Law) -> Answer:
    """The ids of both lists together are distinct."""
    return distinct(node.config.core.next_step + node.config.core.next_turn)


def _on(verbs: str) -> frozenset[str]:
    return frozenset(verbs.split())


PROMISES: tuple[Promise, ...] = (
    Promise("L-IN-4", "Recorded coordinates lie inside the list.", in_range, verbs=_on("append")),
    Promise("L-IN-4 meaning", "Recorded coordinates are what the arguments mean.", as_asked, verbs=_on("append")),
    Promise(
        "L-IN-2",
        "A call writes one record for each list that it changes, and none for a change of nothing.",
        one_record,
        verbs=_on("append"),
    ),
    Promise(
        "L-IN-3", "The outcome is `canceled` exactly for a removal that is no claim.", outcome_told, verbs=_on("append")
    ),
    Promise("L-IN-6", "A message is pending at most once, over both lists.", node=pending_once),
    Promise(
        "L-IN-8",
        "Events follow their record in order: discarded, then inserted; claimed in batch order.",
        events_in_order,
        verbs=_on("notify"),
    ),
    Promise(
        "L-IN-20",
        "Every change is told, before the call ends and before its next record.",
        conserved,
        verbs=_on("append leave"),
    ),
    Promise("L-IN-9", "Observers of a record see the lists as the law says.", node=observers_view),
    Promise(
        "L-IN-10",
        "Edits change exactly the message that they name, and say whether it was pending.",
        found_right,
        verbs=_on("append leave"),
    ),
    Promise(
        "L-IN-12",
        "A clear leaves nothing of what was pending; a claim answers what it took.",
        claim_complete,
        verbs=_on("leave"),
    ),
    Promise(
        "L-IN-13",
        "A claim takes all of next-step, and one prompt only when a turn opens.",
        claimed_whole,
        verbs=_on("append"),
    ),
    Promise("L-IN-16", "The lists equal the replay of the records.", node=lists_follow),
    Promise(
        "L-IN-19",
        "A raise means that nothing was written, or says that a record was refused.",
        raised_honestly,
        verbs=_on("leave"),
    ),
)


def _left(kind: str, what: Any) -> Any:
    return lambda before, label, after: label == ("leave", kind, what)


WITNESSES: tuple[Witness, ...] = (
    Witness("a duplicate is refused", "A message that is pending already is refused.", _left("raise", "duplicate")),
    Witness(
        "a record is refused", "A refused record reaches the caller.", _left("raise", "refused"), needs=("refusals",)
    ),
    Witness("an edit misses", "An edit of a message that is not pending answers false.", _left("return", False)),
    Witness("an edit hits", "An edit answers true.", _left("return", True)),
    Witness(
        "in place",
        "A message is replaced by itself in one record (L-IN-6).",
        lambda before, label, after: (
            label[0] == "append"
            and bool(label[5])
            and label[4] == 1
            and before.next_turn[label[3] : label[3] + 1] == label[5]
        ),
    ),
    Witness(
        "LR-202",
        "The second record of a claim is refused, and what the first took is lost.",
        lambda before, label, after: (
            label[0] == "refuse" and before.stack[-1].operation[0] == "take" and before.stack[-1].records == 1
        ),
        needs=("refusals",),
    ),
    Witness(
        "minus zero",
        "A start in (-1, 0) is refused (L-IN-5).",
        _left("raise", "not-json"),
        applies=lambda law: law.minus_zero_is_refused,
    ),
    Witness(
        "observers change nothing",
        "A mutation from a record's observer is refused (L-LOG-3).",
        lambda before, label, after: label == ("leave", "raise", "refused") and before.stack[-1].locked,
    ),
)
