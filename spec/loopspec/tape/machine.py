"""The tape policy at a pre-step, as a machine: wait for the decision, look, seal entry by entry, fold, enter.

The machine moves numbers of surface nodes; what is eligible and how it groups is `select`, the same functions that
the plugin calls. Its core is a surface reduced to what the policy asks about, plus what a session instance
remembers.

Rules: TP-08, TP-09, TP-11 to TP-25, TP-32, TP-34, TP-41, CF-20, FD-01, FD-03.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec.kernel.machine import Answer, Frame, Machine, Outcome, Rules, append, go, leave, note, park, state
from loopspec.tape.config import course
from loopspec.tape.select import Kind, Limits, Node, select, unpaired

rule = Rules()

Uid = tuple[Any, ...]
"""The name of a node: what it is and which turn it came from, for example `("result", 2, 1)`."""


@state
class Cell(NamedTuple):
    """One surface node. `late` is true from its append to the next `turn/end`; `seen` once a request showed it.

    `long` results are those that a digest shortens. An entry keeps nothing of what it replaced.
    """

    uid: Uid
    kind: Kind
    owner: int = 0
    late: bool = False
    calls: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    seen: bool = False
    long: bool = False

    def put(self, **changes: Any) -> Cell:
        """A copy with some fields changed."""
        return self._replace(**changes)


Warned = tuple[Uid, tuple[str, ...]]


@state
class Tape(NamedTuple):
    """The surface in order, `L`, the turn signal, the settings, and the warnings of this session instance."""

    cells: tuple[Cell, ...] = ()
    largest_ended: int = 0
    aborted: bool = False
    keep: int = 0
    cap: int | None = None
    by_multiset: bool = True
    warned: tuple[Warned, ...] = ()

    def put(self, **changes: Any) -> Tape:
        """A copy with some fields changed."""
        return self._replace(**changes)


Span = tuple[Uid, ...]


class Planned(NamedTuple):
    """A seal before its first append: the spans that become entries, and the portions that stay raw."""

    spans: tuple[Span, ...]
    broken: tuple[tuple[Warned, Span], ...]


def plan(s: Tape, *, renewed: bool) -> Planned:
    """2.5  What a seal takes now, by name. `renewed`: a newer snapshot is about to enter."""
    count = len(s.cells)
    nodes = [
        Node(at + (count if cell.late else 0), cell.kind, cell.owner, cell.calls, cell.answers)
        for at, cell in enumerate(s.cells)
    ]
    chosen = select(nodes, Limits(count - 1, s.largest_ended - s.keep), renewed=renewed, by_multiset=s.by_multiset)
    spans = tuple(tuple(s.cells[node.seq % count].uid for node in segment) for segment in chosen.segments)
    broken = []
    for portion in chosen.broken:
        raw = s.cells[portion.first % count : portion.last % count + 1]
        broken.append(((raw[0].uid, tuple(sorted(portion.ids))), tuple(cell.uid for cell in raw)))
    return Planned(spans, tuple(broken))


def replaced(s: Tape, span: Span, cell: Cell) -> Tape:
    """TP-02  One node in the place of a contiguous span."""
    start = next(at for at, old in enumerate(s.cells) if old.uid == span[0])
    assert tuple(old.uid for old in s.cells[start : start + len(span)]) == span
    return s.put(cells=(*s.cells[:start], cell, *s.cells[start + len(span) :]))


def entry_for(span: Span) -> Cell:
    """TP-30  The node of an entry, named after the first node it replaced."""
    return Cell(("entry", *span[0]), "entry", late=True)


def foldable(cell: Cell) -> bool:
    """FD-03  An original result that no request has shown and that a digest shortens."""
    return cell.kind == "result" and cell.long and not cell.seen and cell.uid[0] == "result"


# -- rules ---------------------------------------------------------------------------------------------------


@rule("pre-step")
def pre_step(s: Tape, step: int, renewed: bool) -> Outcome[Tape]:
    """TP-08  The decision downstream comes first."""
    return park(s, ("downstream",), ("decided", step, renewed))


@rule("decided")
def decided(s: Tape, step: int, renewed: bool, answer: Answer) -> Outcome[Tape]:
    """TP-08, CF-20  Abort, refusal and cap are looked at before anything is sealed; later steps never seal."""
    match course(answer[0], step, aborted=s.aborted, cap=s.cap):
        case "raise":
            return leave(s, ("raise", "aborted"))
        case "pass":
            return leave(s, ("return", answer[0]))
        case "stop":
            return leave(s, ("return", "reject"))
        case "seal":
            planned = plan(s, renewed=renewed)
            unseen = next((one for one in planned.broken if one[0] not in s.warned), None)
            if unseen is None:
                return go(s, ("seal", planned.spans))
            return go(s, ("warn", *unseen, ("decided", step, renewed, answer)))
    return go(s, ("fold",))


@rule("warn")
def warn(s: Tape, key: Warned, raw: Span, again: Frame) -> Outcome[Tape]:
    """TP-24, TP-25  One warning for a retained portion, once in a session instance.

    It is no record and nothing can come between (TP-09), so the same plan is made behind it, and knows it.
    """
    return note(s.put(warned=tuple(sorted((*s.warned, key), key=repr))), ("warned", raw), again)


@rule("seal")
def seal(s: Tape, spans: tuple[Span, ...]) -> Outcome[Tape]:
    """TP-30, TP-34  One entry after the other; when an append fails, those before it stay."""
    if not spans:
        return go(s, ("fold",))
    entry = entry_for(spans[0])
    return append(replaced(s, spans[0], entry), ("entry", *spans[0]), ("seal", spans[1:]), ("failed",))


@rule("failed")
def failed(s: Tape) -> Outcome[Tape]:
    """TP-34  A failed append leaves the pre-step; the rest is planned again at the next first step."""
    return leave(s, ("raise", "append"))


@rule("fold")
def fold(s: Tape) -> Outcome[Tape]:
    """FD-01, TP-41  Sealing comes first; then what no request has shown is folded, and the step is entered."""
    cell = next((cell for cell in s.cells if foldable(cell)), None)
    if cell is None:
        return leave(s, ("return", "enter"))
    shorter = cell.put(uid=("folded", *cell.uid[1:]), long=False, late=True)
    return append(replaced(s, (cell.uid,), shorter), ("fold", cell.uid), ("fold",), ("failed",))


MACHINE: Machine[Tape] = Machine(rule)

__all__ = ["MACHINE", "Cell", "Planned", "Tape", "entry_for", "foldable", "plan", "replaced", "unpaired"]
