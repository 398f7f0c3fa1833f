"""A reviewer's question: what comes of it if one thing happens between two others?

A question is a row of *moments*: `abort, steer, idle` asks what comes of a steer that lands between an abort and the
idle behind it. The first moment opens the window, the last one closes it; a window that closes too early counts for
nothing, and the next one is looked at. What the question is about is the last operation that it names. When all
moments have come, nobody calls any more: the loop is left alone until it rests, and what it has come to is the
*outcome*.

`asking(question)` folds the label of one move into the memory `Asked`; `outcome` reads a memory of a loop at rest.
Both look at labels only, like any bystander.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec.inbox import Ids, Target, spliced
from loopspec.kernel.machine import state

Label = tuple[Any, ...]
"""The labels of a world are tuples: `(verb, …)`."""

CALLS = ("call", "wait")
ANY = ...
"""Stands for any word of a label."""


class Moment(NamedTuple):
    """Something that happens, and how its label begins."""

    verbs: tuple[str, ...]
    words: tuple[Any, ...]
    sentence: str

    def is_it(self, label: Label) -> bool:
        """Whether a move is this moment."""
        words = label[1:]
        return (
            label[0] in self.verbs
            and len(words) >= len(self.words)
            and all(wanted is ANY or wanted == word for wanted, word in zip(self.words, words, strict=False))
        )

    @property
    def is_operation(self) -> bool:
        """Somebody outside does it."""
        return self.verbs == CALLS


OPERATIONS = {
    "followup": Moment(CALLS, ("send", ANY, "next-turn", True), "a prompt is sent, and wakes the agent"),
    "steer": Moment(CALLS, ("send", ANY, "next-step", True), "steering is sent, and wakes the agent"),
    "inject": Moment(CALLS, ("send", ANY, "next-step", False), "steering is sent, and wakes nobody"),
    "send": Moment(CALLS, ("send",), "any of these is sent"),
    "cancel": Moment(CALLS, ("cancel", "user", False), "a user cancels, and the inbox is cleared"),
    "keeping-cancel": Moment(CALLS, ("cancel", "user", True), "a user cancels, and the inbox is kept"),
    "dispose": Moment(CALLS, ("cancel", "disposed", False), "a disposal cancels"),
    "maintain": Moment(CALLS, ("maintain",), "a maintenance job is asked for"),
}
EVENTS = {
    "running": Moment(("notify",), ("agent/status", "running"), "the status becomes running"),
    "idle": Moment(("notify",), ("agent/status", "idle"), "the status becomes idle"),
    "abort": Moment(("notify",), ("abort",), "the signal of the activity is aborted"),
    "inserted": Moment(("notify",), ("agent/inbox/inserted",), "a message is told to be pending"),
    "claimed": Moment(("notify",), ("agent/inbox/claimed",), "a message is told to be claimed"),
    "discarded": Moment(("notify",), ("agent/inbox/discarded",), "a message is told to be discarded"),
    "error": Moment(("notify",), ("agent/error",), "an error is told"),
    "job": Moment(("notify",), ("job",), "a maintenance job begins"),
}
RECORDS = {
    name: Moment(("append",), (name,), f"`{name}` is published")
    for name in ("turn/start", "turn/end", "step/start", "step/end", "user/message", "request/header",
                 "assistant/message", "tool/call", "tool/result")
}  # fmt: skip
AWAIT_POINTS = {
    name: Moment(("park",), (name,), f"the loop waits at `{name}`")
    for name in ("assembly", "pre-step", "request", "chunk", "tools", "recovery", "turn-stopping", "gap", "maintenance")
}
MOMENTS: dict[str, Moment] = {**OPERATIONS, **EVENTS, **RECORDS, **AWAIT_POINTS}
"""Everything that a question may name."""

NEEDS_TOOLS = frozenset({"tool/call", "tool/result"})
"""Moments of the loop of driver and tools; all others are those of the driver."""

Question = tuple[str, ...]
"""Names of moments, in the order in which they are to come."""


def subject_of(question: Question) -> int:
    """The position of what the question is about: its last operation, or its last moment."""
    operations = [at for at, name in enumerate(question) if MOMENTS[name].is_operation]
    return operations[-1] if operations else len(question) - 1


@state
class Asked(NamedTuple):
    """What is remembered of a run."""

    come: int = 0
    """How many moments of the question have come."""
    it: int = 0
    """The message that the question is about; 0 while there is none."""
    landed: int = -1
    """The turn that was open when it landed, 0 for none; -1 before."""
    rested: bool = False
    """The agent has been idle since then."""
    fate: str = ""
    """What became of the message, once that is decided."""
    ends: tuple[str, ...] = ()
    """How the turns ended that were open in the window, or came behind it."""
    turn: int = 0
    """The open turn; 0 for none."""
    next_step: Ids = ()
    next_turn: Ids = ()
    batch: Ids = ()
    """Claimed and not yet in history."""

    def put(self, **changes: Any) -> Asked:
        """A copy with some fields changed."""
        return self._replace(**changes)


def ask(asked: Asked, label: Label, question: Question) -> Asked:
    """One more move: what it does to the inbox and the turns, and whether a moment comes."""
    return came(told(asked, label), label, question)


def has_come(asked: Asked, question: Question) -> bool:
    """All moments of the question have come, in order."""
    return asked.come == len(question)


def came(asked: Asked, label: Label, question: Question) -> Asked:
    """The next moment, or the end of a window in which the others have not come."""
    if has_come(asked, question):
        return asked
    if MOMENTS[question[asked.come]].is_it(label):
        return advanced(asked, label, question)
    if 0 < asked.come < len(question) - 1 and MOMENTS[question[-1]].is_it(label):
        closed = asked.put(come=0, it=0, landed=-1, rested=False, fate="", ends=())
        return came(closed, label, question)
    return asked


def advanced(asked: Asked, label: Label, question: Question) -> Asked:
    """A moment has come; with the one that the question is about, its message is known."""
    if asked.come == subject_of(question):
        it = label[2] if label[:2] in (("call", "send"), ("wait", "send")) else 0
        asked = asked.put(it=it, landed=asked.turn)
    return asked.put(come=asked.come + 1)


# --- what a move tells ---------------------------------------------------------------------------------------


def told(asked: Asked, label: Label) -> Asked:
    """What a bystander learns from a move."""
    if label[0] == "append":
        return written(asked, label[1], label[2:])
    if label[:2] == ("notify", "agent/inbox/discarded") and label[2] == asked.it:
        return asked.put(fate="is discarded")
    if label == ("notify", "agent/status", "idle") and asked.landed >= 0:
        return asked.put(rested=True)
    return asked


def written(asked: Asked, name: str, words: tuple[Any, ...]) -> Asked:
    """What a record tells."""
    if name == "agent/inbox/spliced":
        return listed(asked, *words)
    if name == "user/message":
        left = tuple(message for message in asked.batch if message != words[0])
        return asked.put(batch=left, fate=entered(asked) if words[0] == asked.it else asked.fate)
    if name == "turn/start":
        return asked.put(turn=words[0])
    if name == "turn/end":
        ends = asked.ends if asked.come == 0 else (*asked.ends, " by ".join(words[1:]))
        return asked.put(turn=0, ends=ends)
    return asked


def listed(asked: Asked, target: Target, start: int, removed_count: int, inserted: Ids, outcome: str) -> Asked:
    """L-IN-16  The lists, folded from the records; what leaves without an outcome has been claimed."""
    items = asked.next_turn if target == "next-turn" else asked.next_step
    removed = items[start : start + removed_count]
    after = spliced(items, start, removed_count, inserted)
    batch = asked.batch if outcome else asked.batch + removed
    return asked.put(next_turn=after, batch=batch) if target == "next-turn" else asked.put(next_step=after, batch=batch)


def entered(asked: Asked) -> str:
    """Where the message enters history, seen from where it landed."""
    if asked.turn == asked.landed:
        return "enters the turn in which it landed"
    return "enters a turn of a later run" if asked.rested else "enters a later turn of the same run"


# --- what has come of it -------------------------------------------------------------------------------------


class Outcome(NamedTuple):
    """What a question has come to: of the message, if it is about one; of the turns; of everything else pending."""

    fate: str
    ends: tuple[str, ...]
    waiting: int
    """Other messages that are still pending."""
    lost: int
    """Other messages that were claimed and never entered."""


def outcome(asked: Asked) -> Outcome:
    """The outcome of a run at rest in which all moments have come."""
    waiting = [message for message in asked.next_step + asked.next_turn if message != asked.it]
    lost = [message for message in asked.batch if message != asked.it]
    return Outcome(fate_of(asked) if asked.it else "", asked.ends, len(waiting), len(lost))


def fate_of(asked: Asked) -> str:
    """What has become of the message that the question is about."""
    if asked.fate:
        return asked.fate
    if asked.it in asked.next_turn:
        return "waits as a prompt, and nothing wakes the agent for it"
    if asked.it in asked.next_step:
        return "waits as steering, and nothing wakes the agent for it"
    return "is claimed and lost" if asked.it in asked.batch else "is refused"
