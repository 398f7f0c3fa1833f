"""Small systems to try the kernel on: graphs written out by hand, and an inbox that can be broken on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from loopspec.kernel.claims import Invariant, Step
from loopspec.kernel.liveness import Fairness, LeadsTo
from loopspec.kernel.system import Label


class Table:
    """A graph of numbered states, written out: `moves[state]` lists pairs of label and target."""

    def __init__(self, moves: Mapping[int, Sequence[tuple[str, int]]], initial: Sequence[int] = (0,)) -> None:
        """Keep the table; a state that is not a key has no moves."""
        self.table = moves
        self.starts = initial

    def initial(self) -> Sequence[int]:
        """Return the first states as given."""
        return self.starts

    def moves(self, node: int) -> Sequence[tuple[Label, int]]:
        """Return the moves as given."""
        return self.table.get(node, ())


Ids = tuple[int, ...]
Fault = Literal["lost wake", "cancel keeps", "claim repeats"]


class InboxState(NamedTuple):
    """Two queues, the batch that was claimed, and the loop's phase."""

    phase: Literal["asleep", "claiming", "delivering", "dozing"] = "asleep"
    latched: bool = False
    batch: Ids = ()
    steers: Ids = ()
    followups: Ids = ()
    done: Ids = ()
    cancelled: frozenset[int] = frozenset()

    @property
    def waiting(self) -> Ids:
        """Return the messages in either queue."""
        return self.steers + self.followups


class Inbox:
    """A two-queue inbox with a wake latch, and a loop that claims, delivers and sleeps.

    Each of `messages` messages is posted once, to either queue, and latches a wake. A message that still
    waits may be cancelled. The sleeping loop wakes when latched (and unlatches); claims all steers, or else
    one followup; delivers the batch one by one; claims again, and sleeps when nothing waits. The seeded
    faults:

    * "lost wake": the latch is cleared when the loop goes to sleep, not when it wakes up.
    * "cancel keeps": a cancelled message stays in its queue.
    * "claim repeats": claiming a followup leaves it in the queue.
    """

    def __init__(self, messages: int, fault: Fault | None = None) -> None:
        """Choose the bound, and maybe a fault."""
        self.messages = messages
        self.fault = fault

    def initial(self) -> tuple[InboxState]:
        """Begin asleep and empty."""
        return (InboxState(),)

    def moves(self, node: InboxState) -> Iterator[tuple[Label, InboxState]]:
        """Return what the users may do, then what the loop may do."""
        yield from self._users(node)
        yield from self._loop(node)

    def _users(self, node: InboxState) -> Iterator[tuple[Label, InboxState]]:
        known = {*node.batch, *node.waiting, *node.done, *node.cancelled}
        for message in range(self.messages):
            if message not in known:
                steered = node._replace(steers=(*node.steers, message), latched=True)
                yield ("steer", message), steered
                followed = node._replace(followups=(*node.followups, message), latched=True)
                yield ("followup", message), followed
            if message in node.waiting and message not in node.cancelled:
                cancelled = node.cancelled | {message}
                if self.fault == "cancel keeps":
                    yield ("cancel", message), node._replace(cancelled=cancelled)
                else:
                    yield (
                        ("cancel", message),
                        node._replace(
                            cancelled=cancelled,
                            steers=tuple(other for other in node.steers if other != message),
                            followups=tuple(other for other in node.followups if other != message),
                        ),
                    )

    def _loop(self, node: InboxState) -> Iterator[tuple[Label, InboxState]]:
        late = self.fault == "lost wake"
        if node.phase == "asleep":
            if node.latched:
                yield "wake", node._replace(phase="claiming", latched=late)
        elif node.phase == "claiming":
            if node.steers:
                yield "claim", node._replace(phase="delivering", batch=node.steers, steers=())
            elif node.followups:
                rest = node.followups if self.fault == "claim repeats" else node.followups[1:]
                yield (
                    "claim",
                    node._replace(phase="delivering", batch=node.followups[:1], followups=rest),
                )
            elif late:
                yield "doze", node._replace(phase="dozing")
            else:
                yield "sleep", node._replace(phase="asleep")
        elif node.phase == "dozing":
            yield "sleep", node._replace(phase="asleep", latched=False)
        elif node.batch:
            yield "deliver", node._replace(batch=node.batch[1:], done=(*node.done, node.batch[0]))
        else:
            yield "end step", node._replace(phase="claiming")


LOOP = Fairness(
    key_of=lambda label: "loop" if label in ("wake", "claim", "deliver", "end step", "sleep", "doze") else None,
    weak=frozenset({"loop"}),
)
"""The loop goes on whenever it can; the users promise nothing."""

NO_DOUBLE = Invariant[InboxState](
    "no double",
    "A message is in one place only, and only once.",
    lambda node: len({*node.waiting, *node.batch, *node.done}) == len(node.waiting) + len(node.batch) + len(node.done),
)

CANCELLED_STAYS_OUT = Invariant[InboxState](
    "cancelled stays out",
    "A cancelled message is never claimed.",
    lambda node: f"claimed: {sorted(taken)}" if (taken := node.cancelled & {*node.batch, *node.done}) else True,
)

DONE_GROWS = Step[InboxState](
    "done grows",
    "What was delivered stays delivered, in order.",
    lambda node, label, after: after.done[: len(node.done)] == node.done,
)

ANSWERED = LeadsTo[InboxState](
    "answered",
    "A waiting message 0 is delivered in the end, unless it is cancelled.",
    p=lambda node: 0 in node.waiting,
    q=lambda node: 0 in node.done or 0 in node.cancelled,
)
