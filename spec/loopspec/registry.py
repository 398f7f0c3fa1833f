"""The two registries: which exact object holds which id, and the one creation and one disposal it is told by.

`sessions` and `agents` are kept alike. An object **enters** in silence, is **announced** once, and is **detached**
by whoever entered it. Objects are numbers here, in order of first use, and so are ids; a factory agent and its
session share the number of their transaction. The rules hold the promises

* one object per id, and a detach touches only the object that it was made for (C-REGA-7, INV-4, INV-12);
* `created` begins at most once, and a `created` that began is paired with one `disposed`, after it (INV-1, INV-2);
* an object stays where it is until a dispatch about it has unwound (C-REGA-8, C-REGS-5, INV-13).

Dispatches end well or badly. Between a `notify` and the next `step`, the interpreter reports with the operation
`escape` that an error came out of the dispatch: a listener of a vetoing dispatch threw (`session/created`,
`agent/created`), or the instrumentation in front of any dispatch did (C-DSP-2). Nothing may be called in that window
afterwards: the remaining listeners are starved.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol, Self

from loopspec.kernel.machine import Answer, Effect, Frame, Outcome, Rules, go, leave, note, notify, park
from loopspec.profile import Law

Kind = Literal["session", "agent"]
Phase = Literal["entered", "announcing", "announced"]


class Entry(NamedTuple):
    """One entered object (C-REGA-1, C-REGS-1)."""

    object: int
    id: int
    owner: int
    """The owner agent, for agents that have one; else 0 (C-REGA-10, INV-22)."""
    phase: Phase = "entered"
    leaving: bool = False
    """A detach was requested while a dispatch about this object was running."""
    appending: bool = False
    """A record of this session is being published."""


Entries = tuple[Entry, ...]


class Registered(Protocol):
    """Any core state that carries the two registries."""

    @property
    def law(self) -> Law: ...
    @property
    def sessions(self) -> Entries: ...
    @property
    def agents(self) -> Entries: ...
    @property
    def threw(self) -> bool: ...
    def put(self, **changes: Any) -> Self: ...


rules = Rules()


# --- plain functions -----------------------------------------------------------------------------------------


def entries(s: Registered, kind: Kind) -> Entries:
    """One of the two registries, in order of registration."""
    return s.sessions if kind == "session" else s.agents


def with_entries(s: Any, kind: Kind, kept: Entries) -> Any:
    """The state with one of the two registries replaced."""
    return s.put(sessions=kept) if kind == "session" else s.put(agents=kept)


def holder(s: Registered, kind: Kind, id: int) -> int:
    """`get(id)`: the object that holds an id now, or 0."""
    return next((entry.object for entry in entries(s, kind) if entry.id == id), 0)


def entry_of(s: Registered, kind: Kind, object: int) -> Entry | None:
    """The entry of an exact object, or `None` when it has not entered or has left."""
    return next((entry for entry in entries(s, kind) if entry.object == object), None)


def changed(s: Any, kind: Kind, entry: Entry, **changes: Any) -> Any:
    """The state with one entry replaced by a changed copy, in its place."""
    after = entry._replace(**changes)
    return with_entries(s, kind, tuple(after if kept is entry else kept for kept in entries(s, kind)))


def roots(s: Registered) -> tuple[int, ...]:
    """Live agents without an owner agent, in order of registration (C-OWN-3, INV-22)."""
    return tuple(entry.object for entry in s.agents if not entry.owner)


def is_owned_by(s: Registered, id: int, owner: int) -> bool:
    """True only while the live agent under `id` was entered with that owner agent (INV-22)."""
    return any(entry.id == id and entry.owner == owner for entry in s.agents)


# --- guards --------------------------------------------------------------------------------------------------


def is_free(s: Registered, kind: Kind, id: int) -> bool:
    """C-REGA-2, C-REGS-2  Nobody holds the id in this registry: the authoritative arbitration (C-DUP-1)."""
    return not holder(s, kind, id)


def open_dispatch(frame: Frame) -> Effect:
    """`(event, object)` of the dispatch that the rule of this frame ends, if its failure matters; else empty."""
    if frame[0] == "heard":
        return (f"{frame[1]}/created", frame[2])
    return (f"{frame[1]}/disposed", frame[2]) if frame[0] == "disposed" else ()


def is_talked_about(entry: Entry) -> bool:
    """C-REGA-8, C-REGS-5  A dispatch about this object is running, so that it may not leave yet."""
    return entry.phase == "announcing" or entry.appending


# --- enter and announce --------------------------------------------------------------------------------------


@rules("enter")
def enter(s: Any, kind: Kind, object: int, id: int, owner: int, then: Frame, refused: Frame) -> Outcome[Any]:
    """C-REGA-2, C-REGA-3, C-REGS-2  Occupancy is checked here and nowhere earlier; entering is silent."""
    if not is_free(s, kind, id):
        return go(s, refused)
    kept = (*entries(s, kind), Entry(object, id, owner))
    return note(with_entries(s, kind, kept), ("enter", kind, object, id), then)


@rules("announce")
def announce(s: Any, kind: Kind, object: int, then: Frame, failed: Frame) -> Outcome[Any]:
    """C-REGA-5, C-REGS-4  Marked before the first listener runs, so that its disposal will be told in any case."""
    entry = entry_of(s, kind, object)
    assert entry is not None
    marked = changed(s, kind, entry, phase="announcing")
    event, heard = (f"{kind}/created", object), ("heard", kind, object, then, failed)
    if kind == "agent" and s.law.created_is_awaited:
        return park(marked, event, ("heard_late", *heard[1:]))
    return notify(marked, event, heard)


@rules("heard_late")
def heard_late(s: Any, kind: Kind, object: int, then: Frame, failed: Frame, answer: Answer) -> Outcome[Any]:
    """C-EVT-2, C-RBK-8  Where listeners are awaited, a late rejection is a veto too."""
    return go(s.put(threw=answer[0] == "throws"), ("heard", kind, object, then, failed))


@rules("heard")
def heard(s: Any, kind: Kind, object: int, then: Frame, failed: Frame) -> Outcome[Any]:
    """C-REGA-8, C-DSP-5  The dispatch has unwound: a detach that waited for it comes first, then its outcome."""
    entry = entry_of(s, kind, object)
    assert entry is not None
    after = changed(s.put(threw=False), kind, entry, phase="announced")
    next_frame = failed if s.threw else then
    return go(after, ("detach", kind, object, next_frame)) if entry.leaving else go(after, next_frame)


# --- detach --------------------------------------------------------------------------------------------------


@rules("detach")
def detach(s: Any, kind: Kind, object: int, then: Frame) -> Outcome[Any]:
    """C-REGA-6 to C-REGA-8  The exact object leaves; one that has left, or has never entered, is nobody's concern."""
    entry = entry_of(s, kind, object)
    if entry is None:
        return go(s, then)
    if is_talked_about(entry):
        return go(changed(s, kind, entry, leaving=True), then)
    gone = with_entries(s, kind, tuple(kept for kept in entries(s, kind) if kept is not entry))
    following = ("tell_disposed", kind, object, then) if entry.phase == "announced" else then
    return note(gone, ("detach", kind, object), following)


@rules("tell_disposed")
def tell_disposed(s: Any, kind: Kind, object: int, then: Frame) -> Outcome[Any]:
    """C-REGA-9, C-RBK-5  Told when the object is gone, and only if its creation had begun to be told."""
    return notify(s, (f"{kind}/disposed", object), ("disposed", kind, object, then))


@rules("disposed")
def disposed(s: Any, kind: Kind, object: int, then: Frame) -> Outcome[Any]:
    """C-REGS-7, C-TDN-13, N-4  A failure of this dispatch changes nothing; published loops pass that of agents on."""
    if s.threw and kind == "agent" and not s.law.detaches_are_unconditional:
        return go(s, then)
    return go(s.put(threw=False), then)


# --- operations from outside ---------------------------------------------------------------------------------


@rules("answer")
def answer(s: Any, value: object) -> Outcome[Any]:
    """The call returns a value; or raises what the last dispatch inside it passed on."""
    if s.threw:
        return leave(s.put(threw=False), ("raise", "escaped"))
    return leave(s, ("return", value))


@rules("raise")
def raise_(s: Any, why: str) -> Outcome[Any]:
    """The call raises."""
    return leave(s.put(threw=False), ("raise", why))


@rules("escape")
def escape(s: Any, event: str, object: int) -> Outcome[Any]:
    """C-DSP-2, C-DSP-5  An error came out of the dispatch whose window is open: no further listener runs."""
    return leave(s.put(threw=True), ("return", None))


@rules("register")
def register(s: Any, kind: Kind, object: int, id: int) -> Outcome[Any]:
    """C-REGA-10, C-REGS `create`  Somebody enters and announces an object of their own; a veto takes it out again."""
    taken = ("raise", f"{kind}-exists")
    return go(s, ("enter", kind, object, id, 0, ("announce_own", kind, object), taken))


@rules("announce_own")
def announce_own(s: Any, kind: Kind, object: int) -> Outcome[Any]:
    """C-REGA-10  The announcement of such an object."""
    return go(s, ("announce", kind, object, ("answer", None), ("detach", kind, object, ("raise", "vetoed"))))


@rules("announce_again")
def announce_again(s: Any, kind: Kind, object: int) -> Outcome[Any]:
    """C-REGA-4, C-REGS-4, R-51  A second announcement is refused, also from a listener of the first."""
    return leave(s, ("raise", "not-live" if entry_of(s, kind, object) is None else "already-announced"))


@rules("announce_entered")
def announce_entered(s: Any, kind: Kind, object: int) -> Outcome[Any]:
    """C-REGA-4, C-REGS-4  The advanced way: somebody announces an object that has been entered in silence."""
    entry = entry_of(s, kind, object)
    if entry is None or entry.phase != "entered":
        return go(s, ("announce_again", kind, object))
    return go(s, ("announce", kind, object, ("answer", None), ("raise", "created")))


@rules("withdraw")
def withdraw(s: Any, kind: Kind, object: int) -> Outcome[Any]:
    """C-REGA-6, R-50, R-53  The disposer of such an object, called at any time and any number of times."""
    return go(s, ("detach", kind, object, ("answer", None)))


@rules("append")
def append(s: Any, object: int) -> Outcome[Any]:
    """C-REGS-6, C-REGS-9  A record of an attached session is published; never two of one session at once."""
    entry = entry_of(s, "session", object)
    if entry is None:
        return leave(s, ("return", None))
    if entry.appending:
        return leave(s, ("raise", "append-reenters"))
    return notify(changed(s, "session", entry, appending=True), ("session/event", object), ("appended", object))


@rules("appended")
def appended(s: Any, object: int) -> Outcome[Any]:
    """C-REGS-5, C-REGS-10, R-52  Observers are contained; then a detach that waited for them."""
    entry = entry_of(s, "session", object)
    assert entry is not None
    after = changed(s.put(threw=False), "session", entry, appending=False)
    if entry.leaving and entry.phase != "announcing":
        return go(after, ("detach", "session", object, ("answer", None)))
    return leave(after, ("return", None))
