"""The five liveness claims of creation, on a graph with runs of any length.

Fairness says who keeps going: joins are answered, runs end, and setups settle where a claim says so. (A running
segment is part of the move that began it.) What is not promised may never happen: a setup, a load, an abort, a request.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from loopspec.kernel.liveness import Fairness, LeadsTo
from loopspec.kernel.system import Label
from loopspec.profile import Profile, law
from loopspec.properties.creation_explorations import Plan, rests
from loopspec.transaction import PROVIDER, Creation, Numbers, Owner, children_of, find, owned_by_fiber
from loopspec.worlds.creation_past import story
from loopspec.worlds.creation_world import Choices, EndlessCreation, bound
from loopspec.worlds.world import Node

JOINS = ("drain", "scope", "rollback", "tick", "unload", "boundaries", "live")


def endless(profile: Profile = "seed") -> EndlessCreation:
    """Two transactions at a time under one id and one owner, for ever: aborts, disposals, unloads, wakes, runs."""
    choices = Choices(requests=("dispose",), fibers=("provider",))
    return EndlessCreation(
        law(profile),
        choices,
        bound("endless", 0, creates=2, ids=1, callers=1, aborts=1, disposals=1, unloads=1, wakes=1),
    )


def key_of(label: Label) -> Hashable | None:
    """The fairness class of a move, told by its first small step."""
    first = label[0]
    verb, name = first[0], first[1]  # type: ignore[index]
    if verb == "answer":
        point, answer = name, first[2]  # type: ignore[index]
        if point[0] in JOINS or answer[0] == "deactivated":
            return ("join", point[0], point[1] if len(point) > 1 else 0)
        return ("settle", point[1])
    return ("rest", first[2]) if verb == "call" and name == "rest" else None  # type: ignore[index]


def fairness(settles: bool) -> Fairness:
    """Joins go on; runs end. A drain needs the stronger promise, since wakes may come again and again."""
    numbers = (1, 2)
    strong = {("join", "drain", number) for number in numbers}
    weak: set[Hashable] = {("join", name, n) for name in ("scope", "rollback", "live", "setup") for n in numbers}
    weak |= {("join", "tick", PROVIDER), ("join", "unload", PROVIDER)}
    weak |= {("rest", number) for number in numbers}
    if settles:
        weak |= {("settle", number) for number in numbers}
    return Fairness(key_of, frozenset(weak), frozenset(strong))


def pending(number: int) -> Callable[[Node], bool]:
    """The promise of this transaction is open."""

    def holds(node: Node) -> bool:
        t = find(node.config.core, number)
        return t is not None and t.public == "pending"

    return holds


def deactivated(number: int) -> Callable[[Node], bool]:
    """The promise is open, and the transaction has been deactivated."""

    def holds(node: Node) -> bool:
        told = story(node.memory, number)
        return told is not None and bool(told.reason) and not {"resolve", "reject"} & set(told.marks)

    return holds


def asked(number: int) -> Callable[[Node], bool]:
    """The teardown of this transaction has begun and has not settled."""

    def holds(node: Node) -> bool:
        told = story(node.memory, number)
        return told is not None and "cancel" in told.marks and "gone" not in told.marks

    return holds


def unloading(node: Node) -> bool:
    """The provider's unload has begun, and has not ended."""
    return PROVIDER in node.memory.closing and node.config.core.fibers[PROVIDER] != "gone"


def never(holds: Callable[[Node], bool]) -> Callable[[Node], bool]:
    """The opposite."""
    return lambda node: not holds(node)


SETTLING: tuple[LeadsTo[Node], ...] = tuple(
    LeadsTo(f"LIV-1 of {n}", "A create settles when its setup does.", pending(n), never(pending(n))) for n in (1, 2)
)
"""Claims under `fairness(settles=True)`."""

HANGING: tuple[LeadsTo[Node], ...] = (
    *(
        LeadsTo(f"LIV-1 of {n}, hanging", "A deactivated create settles although its setup never does.",
                deactivated(n), never(deactivated(n)))
        for n in (1, 2)
    ),
    *(LeadsTo(f"LIV-2 of {n}", "A teardown completes when the runs do.", asked(n), never(asked(n))) for n in (1, 2)),
    LeadsTo("LIV-4", "The provider's unload completes when the runs do.", unloading, never(unloading)),
)  # fmt: skip
"""Claims under `fairness(settles=False)`: setups may hang for ever."""


# --- LIV-5: what may wait for itself --------------------------------------------------------------------------


def needed(core: Creation, owner: Owner) -> Numbers:
    """The transactions that must end before an agent or a fiber has ended."""
    if owner[0] == "agent":
        return (owner[1], *children_of(core, owner[1]))
    if owner[1] == PROVIDER:
        return tuple(t.number for t in core.members)
    return owned_by_fiber(core, owner[1])


def is_entangled(node: Node) -> bool:
    """C-REE-2, C-REE-3  Some agent's activity waits for an end that waits for the same activity."""
    core: Creation = node.config.core
    return any(t.awaits and t.number in reached(core, t.awaits) for t in core.members)


def reached(core: Creation, owner: Owner) -> set[int]:
    """Everything whose end is needed for an end, through children and further waiting activities."""
    found: set[int] = set()
    work = list(needed(core, owner))
    while work:
        number = work.pop()
        t = find(core, number)
        if number in found or t is None:
            continue
        found.add(number)
        work.extend(children_of(core, number))
        if t.awaits:
            work.extend(needed(core, t.awaits))
    return found


def waits_in_vain(node: Node) -> bool:
    """Some activity waits for an end that nobody has asked for."""
    core: Creation = node.config.core
    for t in core.members:
        if not t.awaits:
            continue
        other = find(core, t.awaits[1]) if t.awaits[0] == "agent" else None
        asked_for = other is None or other.begun if t.awaits[0] == "agent" else core.fibers[t.awaits[1]] != "active"
        if not asked_for:
            return True
    return False


WAITING = Plan(
    Choices(owners=("caller", "agent"), fibers=("caller", "provider"), requests=("dispose",), setups=("settles",)),
    bound("waiting", 0, creates=2, ids=2, callers=1, disposals=1, unloads=1, wakes=1, waits=1),
    (),
)
"""A run that waits for an agent, a parent, a child, its owner or the provider."""


def stuck_only_by_itself(node: Node) -> bool:
    """LIV-5  Where a run may stop: at rest, waiting for what nobody asked for, or entangled."""
    return rests(node) or waits_in_vain(node) or is_entangled(node)
