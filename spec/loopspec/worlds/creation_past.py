"""What a bystander remembers of a creation run: for each object, its milestones in order.

Folded from the labels of the moves alone, so that no claim is judged by the field that it is about. A story begins
with the call. It is forgotten when the object's end is complete and balanced, so that memories stay small; a story
that ended otherwise is kept, and the claim about quiet states finds it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec.kernel.machine import state

Marks = tuple[str, ...]

Small = tuple[Any, ...]
"""The label of one small step: `("call", name, …)`, `("answer", point, answer)` or `(verb, effect, …)`."""


@state
class Story(NamedTuple):
    """One transaction, or one object of somebody else."""

    object: int
    id: int
    verb: str
    """`create`, `create_now` or `resume`; or `session` or `agent` for objects of somebody else."""
    owner: tuple[Any, ...] = ()
    marks: Marks = ()
    reason: str = ""
    """The first deactivation."""
    status: str = ""
    """The last `agent/status`: `running`, `idle`, or empty when there was none."""

    def put(self, **changes: Any) -> Story:
        """A copy with some fields changed."""
        return self._replace(**changes)


@state
class Past(NamedTuple):
    """Everything that is remembered, and the claims that the run has broken."""

    stories: tuple[Story, ...] = ()
    closing: tuple[int, ...] = ()
    """Fibers whose unload has begun, in that order."""
    ended: tuple[int, ...] = ()
    """Transactions that had an agent and have ended, in order of their numbers."""
    faults: tuple[tuple[str, str], ...] = ()
    """Names of broken claims, each with a reason; the first of each name."""

    def put(self, **changes: Any) -> Past:
        """A copy with some fields changed."""
        return self._replace(**changes)


NOTHING = Past()

MARKS: dict[str, str] = {
    "mint": "mint",
    "build": "build",
    "setup": "setup",
    "commit": "commit",
    "session/created": "s+",
    "agent/created": "a+",
    "agent/session-start": "ss",
    "agent/disposed": "a-",
    "session/disposed": "s-",
    "cancel": "cancel",
    "unwind": "unwind",
    "resolve": "resolve",
    "reject": "reject",
    "gone": "gone",
    "latch": "latch",
}
"""Effects about one object, and the mark that each leaves."""


def story(past: Past, object: int) -> Story | None:
    """The story of an object, unless it has not begun or is over."""
    for told in past.stories:
        if told.object == object:
            return told
    return None


def advance(past: Past, label: Small) -> Past:
    """The memory after one small step."""
    verb, name = label[0], label[1]
    if verb == "call":
        return called(past, label)
    if verb == "answer":
        return answered(past, name, label[2])
    if name in ("enter", "detach"):
        return marked(past, label[3], f"{name} {label[2]}")
    if name == "deactivate":
        told = story(past, label[2])
        return past if told is None or told.reason else told_again(past, told.put(reason=label[3]))
    if name in ("running", "idle"):
        told = story(past, label[2])
        return past if told is None else told_again(past, told.put(status=name))
    if name == "closing":
        return past.put(closing=(*past.closing, label[2]))
    if name == "raise":
        return past.put(stories=tuple(t for t in past.stories if t.verb not in ("session", "agent") or t.marks))
    mark = MARKS.get(name) if verb != "park" or name == "agent/created" else None
    return past if mark is None else marked(past, label[2], mark)


def called(past: Past, label: Small) -> Past:
    """A call may begin a story; a failing dispatch is a milestone of one."""
    name = label[1]
    if name in ("create", "create_now", "resume"):
        return past.put(stories=(*past.stories, Story(label[2], label[3], str(name), label[4])))
    if name == "register":
        return past.put(stories=(*past.stories, Story(label[3], label[4], label[2])))
    if name == "withdraw":
        told = story(past, label[3])
        return past if told is None or "asked" in told.marks else marked(past, label[3], "asked")
    return marked(past, label[3], f"veto {label[2]}") if name == "escape" else past


def answered(past: Past, point: Any, answer: Any) -> Past:
    """Await points whose answer is a milestone."""
    name = point[0]
    if name == "drain":
        return marked(past, point[1], "drained")
    if name == "scope":
        return marked(past, point[1], "unscoped")
    if name == "agent/created":
        after = marked(past, point[1], "heard")
        return marked(after, point[1], "veto agent/created") if answer[0] == "throws" else after
    if name in ("setup", "load") and answer[0] in ("throws", "missing"):
        return marked(past, point[1], f"veto {name}")
    return past


def told_again(past: Past, changed: Story) -> Past:
    """The memory with one story replaced."""
    return past.put(stories=tuple(changed if told.object == changed.object else told for told in past.stories))


def marked(past: Past, object: int, mark: str) -> Past:
    """The memory with one more milestone in the story of an object; a complete one is forgotten."""
    told = story(past, object)
    if told is None:
        return past
    told = told.put(marks=(*told.marks, mark))
    if is_complete(told):
        ended = tuple(sorted((*past.ended, object))) if "build" in told.marks else past.ended
        return past.put(stories=tuple(kept for kept in past.stories if kept.object != object), ended=ended)
    return told_again(past, told)


def is_complete(told: Story) -> bool:
    """The end of a story: refused at once; or gone, settled and balanced; or, for others, detached and told of."""
    marks = told.marks
    if told.verb in ("session", "agent"):
        return f"detach {told.verb}" in marks and is_balanced(marks)
    if marks == ("reject",):
        return True
    return ("reject" in marks or "resolve" in marks) and "gone" in marks and is_balanced(marks)


def is_balanced(marks: Marks) -> bool:
    """Everything entered was detached, and everything announced was told of its end."""
    pairs = (("enter session", "detach session"), ("enter agent", "detach agent"), ("s+", "s-"), ("a+", "a-"))
    return all(marks.count(opened) == marks.count(closed) for opened, closed in pairs)


def is_attached(told: Story, kind: str) -> bool:
    """Its object is in that registry: entered, and not detached."""
    return f"enter {kind}" in told.marks and f"detach {kind}" not in told.marks


def with_fault(past: Past, name: str, reason: str) -> Past:
    """The memory of a broken claim."""
    if any(kept == name for kept, _ in past.faults):
        return past
    return past.put(faults=(*past.faults, (name, reason)))
