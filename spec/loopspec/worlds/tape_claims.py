"""What is claimed about the tape within its host: one sentence each, in terms of the surface before and after.

No claim uses the selection itself; each says in other words what sealing may and may not do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from loopspec.kernel.claims import Answer, Invariant, Sometimes, SometimesStep, Step
from loopspec.kernel.system import Label
from loopspec.tape.machine import Cell, Uid, plan
from loopspec.worlds.tape_world import Host


def _name(label: Label) -> object:
    return label if label.__class__ is str else label[0]


def _removed(before: Host, label: Label) -> list[Cell]:
    """The nodes that an entry replaced."""
    assert isinstance(label, tuple)
    return [cell for cell in before.tape.cells if cell.uid in label[1:]]


def _last_entry(uids: Sequence[Cell]) -> int:
    return max((at for at, cell in enumerate(uids) if cell.kind == "entry"), default=-1)


def _common(left: Sequence[Uid], right: Sequence[Uid]) -> int:
    count = 0
    for mine, theirs in zip(left, right, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


# -- sealing -------------------------------------------------------------------------------------------------


def takes_only_work(before: Host, label: Label, after: Host) -> Answer:
    """INV-04, INV-15"""
    if _name(label) != "entry":
        return True
    renewed = any(cell.kind == "snapshot" for cell in before.pending)
    snapshots = [cell for cell in before.tape.cells if cell.kind == "snapshot"]
    for cell in _removed(before, label):
        if cell.kind == "snapshot":
            if cell == snapshots[-1] and not renewed:
                return "the live snapshot was sealed"
        elif cell.kind not in ("assistant", "result"):
            return f"a {cell.kind} node was sealed"
        if not 1 <= cell.owner <= before.tape.largest_ended - before.tape.keep or cell.owner == before.turn:
            return f"a node of turn {cell.owner} was sealed in turn {before.turn}"
    return True


def leaves_everything_else(before: Host, label: Label, after: Host) -> Answer:
    """INV-05, INV-06, PX-5, PX-7"""
    if _name(label) != "entry":
        return True
    removed = {cell.uid for cell in _removed(before, label)}
    old, new = before.tape.cells, after.tape.cells
    places = [at for at, cell in enumerate(old) if cell.uid in removed]
    if places != list(range(places[0], places[-1] + 1)):
        return "an entry replaced nodes that do not stand together"
    if places[0] <= _last_entry(old):
        return "an entry was written ahead of an existing one"
    if new[: places[0]] != old[: places[0]] or new[places[0] + 1 :] != old[places[-1] + 1 :]:
        return "sealing changed a node that it did not take"
    return True


def keeps_balance(before: Host, label: Label, after: Host) -> Answer:
    """INV-08  What is unpaired stays visible, and what is paired goes together."""
    if _name(label) != "entry":
        return True
    return _odd(before) == _odd(after) or f"unpaired before {_odd(before)}, after {_odd(after)}"


def _odd(s: Host) -> dict[tuple[int, str], int]:
    count: Counter[tuple[int, str]] = Counter()
    for cell in s.tape.cells:
        count.update((cell.owner, call) for call in cell.calls)
        count.subtract((cell.owner, answer) for answer in cell.answers)
    return {key: number for key, number in count.items() if number}


def only_at_first_steps(before: Host, label: Label, after: Host) -> Answer:
    """INV-16, INV-17"""
    if _name(label) not in ("entry", "fold", "warned"):
        return True
    if before.tape.aborted:
        return "the policy acted although the turn was cancelled"
    return before.step == 1 or _name(label) == "fold" or "sealed at a later step"


def second_plan_is_empty(s: Host) -> Answer:
    """INV-07  In the moment between seal and request nothing more is due."""
    if s.phase != "entered" or s.step != 1 or not s.mounted:
        return True
    renewed = any(cell.kind == "snapshot" for cell in s.pending)
    return not plan(s.tape, renewed=renewed).spans or "a second seal would take more"


def warns_once(before: Host, label: Label, after: Host) -> Answer:
    """TP-25"""
    if _name(label) != "warned":
        return True
    known, now = set(before.tape.warned), set(after.tape.warned)
    return known < now or "a portion was warned about twice"


def folds_unseen_only(before: Host, label: Label, after: Host) -> Answer:
    """PX-6"""
    if _name(label) != "fold":
        return True
    assert isinstance(label, tuple)
    cell = next(cell for cell in before.tape.cells if cell.uid == label[1])
    return not cell.seen and cell.uid not in before.shown


# -- requests ------------------------------------------------------------------------------------------------


def prefix_formula(before: Host, label: Label, after: Host) -> Answer:
    """PX-1 to PX-3  Exactly how much of the last request the next one begins with."""
    if _name(label) != "request" or not before.shown:
        return True
    common = _common(before.shown, after.shown)
    if before.foreign:
        return True
    if before.shown_turn == before.turn and common != len(before.shown):
        return "a request of the same turn does not extend the last one (PX-1)"
    expected = len(before.shown) if before.cut < 0 else min(len(before.shown), before.cut)
    return common == expected or f"{common} messages are shared, not {expected} (PX-3)"


def entries_are_prefix(before: Host, label: Label, after: Host) -> Answer:
    """PX-2, PX-4  Everything up to the last entry of a request is in the next one, unless the host rewrote it."""
    if _name(label) != "request" or before.foreign:
        return True
    last = max((at for at, uid in enumerate(before.shown) if uid[0] == "entry"), default=-1)
    return _common(before.shown, after.shown) >= last + 1 or "bytes in front of an entry changed"


def humans_stay(before: Host, label: Label, after: Host) -> Answer:
    """PX-7  Nothing the policy does takes or moves a human message."""
    if _name(label) not in ("entry", "fold"):
        return True
    old = [cell.uid for cell in before.tape.cells if cell.kind == "human"]
    new = [cell.uid for cell in after.tape.cells if cell.kind == "human"]
    return new == old or "a human message was moved or taken"


STEPS = (
    Step("INV-04", "Only replies, results and dead snapshots of finished turns are sealed.", takes_only_work),
    Step("INV-06", "An entry stands behind all others and changes nothing around it.", leaves_everything_else),
    Step("INV-08", "Sealing never separates a call from its result, nor hides one without.", keeps_balance),
    Step("INV-16", "Only entered first steps of turns that are not cancelled seal.", only_at_first_steps),
    Step("TP-25", "A portion is warned about once in a session instance.", warns_once),
    Step("PX-6", "What a request has shown is never folded.", folds_unseen_only),
    Step("PX-3", "The shared prefix of two requests is exactly what the formula says.", prefix_formula),
    Step("PX-2", "Nothing in front of the last entry ever changes.", entries_are_prefix),
    Step("PX-7", "Human messages stay where they are.", humans_stay),
)

INVARIANTS = (Invariant("INV-07", "A seal leaves nothing for a second seal.", second_plan_is_empty),)


# -- reachability --------------------------------------------------------------------------------------------


def _sealed(kind: str, count: int = 1) -> SometimesStep[Host]:
    def predicate(before: Host, label: Label, after: Host) -> bool:
        return _name(label) == "entry" and sum(cell.kind == kind for cell in _removed(before, label)) >= count

    return SometimesStep(f"a {kind} is sealed", f"An entry absorbs {count} or more {kind} nodes.", predicate)


def _split(s: Host) -> bool:
    kinds = [cell.kind for cell in s.tape.cells]
    return any(kinds[at : at + 3] == ["entry", middle, "entry"] for at in range(len(kinds)) for middle in ("human",))


def _dead_ahead(s: Host) -> bool:
    snapshots = [at for at, cell in enumerate(s.tape.cells) if cell.kind == "snapshot"]
    return len(snapshots) > 1 and snapshots[0] < _last_entry(s.tape.cells)


def _thawed(before: Host, label: Label, after: Host) -> bool:
    if _name(label) != "entry" or before.tape.cells[1].uid != ("summary",):
        return False
    return _last_entry(before.tape.cells) < 0 and all(cell.kind == "snapshot" for cell in _removed(before, label))


def _two_at_once(before: Host, label: Label, after: Host) -> bool:
    return _name(label) == "entry" and after.config.stack[-1].frame[1] != ()


def _crash_between(before: Host, label: Label, after: Host) -> bool:
    frame = before.config.stack[-1].frame if before.config.stack else ()
    return label == "crash and resume" and before.cut >= 0 and frame[:1] == ("seal",) and bool(frame[1])


def _short_prefix(before: Host, label: Label, after: Host) -> bool:
    return _name(label) == "request" and bool(before.shown) and _common(before.shown, after.shown) < len(before.shown)


ALWAYS_REACHED = (
    _sealed("assistant", 2),
    _sealed("result", 2),
    _sealed("snapshot"),
    Sometimes("a turn is split", "Steering leaves two entries around a human message.", _split),
    Sometimes("a dead snapshot stays", "A snapshot that died late stays raw ahead of an entry.", _dead_ahead),
    SometimesStep("a prefix is cut", "Sealing makes a request share less than all of the last one.", _short_prefix),
    SometimesStep("two entries at once", "One seal writes two entries.", _two_at_once),
    SometimesStep("a crash within a seal", "A crash comes between two entries of one seal.", _crash_between),
    SometimesStep("a thawed snapshot", "Compaction over all entries lets an old snapshot be sealed.", _thawed),
)
