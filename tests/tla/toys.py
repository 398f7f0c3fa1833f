"""The toy of `toy/Toy.tla` in Python: a subject like those of the real machines, and faulty copies of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from loopconform.tla.model import Model
from loopconform.tla.subjects import Field, Subject
from loopconform.tla.values import from_python, record
from loopspec.kernel.system import Label
from loopspec.profile import Law

TOY = Path(__file__).with_name("toy")
MODEL = Model(TOY, "Toy", None)


class Queue(NamedTuple):
    """The state of the toy."""

    queue: tuple[int, ...]
    taken: int
    left: int


Moves = Callable[[Queue, int], Iterator[tuple[Label, Queue]]]


def moves(s: Queue, sends: int) -> Iterator[tuple[Label, Queue]]:
    """What the toy may do."""
    if s.left and len(s.queue) < 2:
        number = 1 + sends - s.left
        for name in ("a", "b"):
            yield ("call", "send", number, name, True), Queue((*s.queue, number), s.taken, s.left - 1)
    if s.queue:
        yield ("append", "taken", s.queue[0]), Queue(s.queue[1:], s.taken + 1, s.left)
        yield ("note", "cleared", None), Queue((), s.taken, s.left)


class Toy:
    """The toy as a system."""

    def __init__(self, sends: int, how: Moves) -> None:
        self.sends = sends
        self.how = how

    def initial(self) -> Iterator[Queue]:
        """Nothing sent, nothing taken."""
        yield Queue((), 0, self.sends)

    def moves(self, node: Queue) -> Iterator[tuple[Label, Queue]]:
        """The moves of this variant."""
        return self.how(node, self.sends)


def without_label(verb: str) -> Moves:
    """The toy without one kind of move."""
    return lambda s, sends: ((label, after) for label, after in moves(s, sends) if label[1] != verb)


def taken_twice(s: Queue, sends: int) -> Iterator[tuple[Label, Queue]]:
    """A fault: a third taking counts double."""
    for label, after in moves(s, sends):
        yield label, (after._replace(taken=after.taken + 1) if after.taken == 3 else after)


def renamed(s: Queue, sends: int) -> Iterator[tuple[Label, Queue]]:
    """A fault: one label says `1` where it should say true."""
    for label, after in moves(s, sends):
        yield ((*label[:-1], 1) if label[1:3] == ("send", 2) else label), after


def subject(how: Moves = moves) -> Subject:
    """The toy as a subject, with one of its behaviours."""

    def field(name: str, read: Callable[[Queue], Any]) -> Field:
        return Field(name, name, "", "", "", (), read)

    def system(law: Law, bound: str) -> Toy:
        return Toy(3, how)

    return Subject(
        "toy",
        "Toy",
        "A queue.",
        system,
        {"three": {"Sends": 3, "Eager": False}},
        "three",
        "three",
        (
            field("queue", lambda s: from_python(s.queue)),
            field("taken", lambda s: s.taken),
            field("left", lambda s: record(sends=s.left)),
        ),
    )
