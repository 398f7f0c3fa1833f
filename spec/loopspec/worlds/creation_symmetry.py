"""Creation with names that mean nothing: which of two ids, two callers or three transactions it is does not matter.

No rule looks into a name, it only compares. So two states that differ in names alone behave alike, and one of them
stands for all. `AnyNames` is the whole system, in which every name may be chosen at any time; `OneName` visits one
state of each class. `orbit` counts the class of a state, so that a reduced exploration tells exactly how many states
of the whole it stands for; a test explores both where that can be done, and compares.

Names are kept apart by their size, so that they can be exchanged wherever they stand in a state: transactions count
from 101, ids from 201, callers' fibers from 2. A transaction that has ended is forgotten by the machine, so its name
may be given again; stale requests, which would speak of it, are not offered here. What no rule reads is
forgotten (`folded`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import perm, prod
from typing import Any

from loopspec.creation import MACHINE
from loopspec.kernel.machine import Config, Effect, Machine, Operation
from loopspec.kernel.system import Label
from loopspec.profile import Law
from loopspec.transaction import PROVIDER, Creation, find, is_gone
from loopspec.worlds.creation_past import Past, Small
from loopspec.worlds.creation_world import Choices, CreationWorld
from loopspec.worlds.world import Bound, Left, Node, Price

NUMBERS, IDS, CALLERS = 100, 200, PROVIDER
"""Names of each kind are larger than this, and smaller than the next kind's."""

Names = tuple[int, ...]


def kind_of(name: int) -> int:
    """Which kind a number that stands in a state is a name of; 0 for the agents service, the provider and nobody."""
    return IDS if name > IDS else NUMBERS if name > NUMBERS else CALLERS if name > CALLERS else 0


def names_of(part: Any, found: dict[int, None]) -> None:
    """Note every name in a part of a state, in order of first appearance."""
    for item in part:
        if isinstance(item, tuple):
            if item:
                names_of(item, found)
        elif type(item) is int and item > CALLERS:
            found[item] = None


def exchanged(part: Any, names: dict[int, int]) -> Any:
    """A part of a state with its names exchanged."""
    items = [
        exchanged(item, names) if isinstance(item, tuple) else names.get(item, item) if type(item) is int else item
        for item in part
    ]
    return type(part)._make(items) if hasattr(part, "_make") else tuple(items)


def named(node: Node) -> Names:
    """The names that a state speaks of, in order of first appearance; the transactions in order of their calls."""
    core, stack, parked, _ = node.config
    found: dict[int, None] = {}
    for part in (core.members, node.memory.stories, core.sessions, core.agents, stack, parked, node.memory.closing):
        names_of(part, found)
    for fiber, how in enumerate(core.fibers):
        if how != "active" and fiber > PROVIDER:
            found[fiber] = None
    return tuple(found)


def is_tidy(node: Node) -> bool:
    """True when a state is surely canonical, told at a glance: only transactions that are there are spoken of."""
    core, stack, _, _ = node.config
    if stack or len(node.memory.stories) != len(core.members) or node.memory.closing:
        return False
    id, caller = IDS + 1, CALLERS + 1
    for number, t in enumerate(core.members, NUMBERS + 1):
        owner = t.owner[1] if t.owner[0] == "fiber" else 0
        if t.number != number or t.id > id or owner > caller or (not owner and find(core, t.owner[1]) is None):
            return False
        id, caller = id + (t.id == id), caller + (owner == caller)
    return True


def canonical(node: Node) -> Node:
    """The state that stands for all that differ from this one in names: each kind named in order of appearance."""
    if is_tidy(node):
        return node
    next_name = {NUMBERS: NUMBERS + 1, IDS: IDS + 1, CALLERS: CALLERS + 1}
    names: dict[int, int] = {}
    for name in named(node):
        kind = kind_of(name)
        if next_name[kind] != name:
            names[name] = next_name[kind]
        next_name[kind] += 1
    return renamed(node, names) if names else node


def renamed(node: Node, names: dict[int, int]) -> Node:
    """The same state under other names."""
    core, stack, parked, waiting = node.config
    past: Past = node.memory
    fibers = list(core.fibers)
    if any(kind_of(old) == CALLERS for old in names):
        kept = {names.get(fiber, fiber): core.fibers[fiber] for fiber in named(node) if kind_of(fiber) == CALLERS}
        fibers[CALLERS + 1 :] = [kept.get(fiber, "active") for fiber in range(CALLERS + 1, len(fibers))]
    core = core.put(
        fibers=tuple(fibers),
        members=exchanged(core.members, names),
        sessions=tuple(sorted(exchanged(core.sessions, names))),
        agents=tuple(sorted(exchanged(core.agents, names))),
    )
    config: Config[Any] = Config(
        core, exchanged(stack, names), tuple(sorted(exchanged(parked, names))), exchanged(waiting, names)
    )
    return Node(
        config, node.left, past.put(stories=exchanged(past.stories, names), closing=exchanged(past.closing, names))
    )


def orbit(node: Node, bound: Bound) -> int:
    """How many states differ from this one in names only: the ways to name what it speaks of."""
    budgets = dict(bound.budgets)
    amounts = {NUMBERS: budgets["creates"], IDS: budgets["ids"], CALLERS: budgets["callers"]}
    kinds = [kind_of(name) for name in named(node)]
    return prod(perm(amount, kinds.count(kind)) for kind, amount in amounts.items())


def still_waiting(core: Creation, point: Effect) -> Effect:
    """A join without those whose end has come: they are waited for no more, and their names may be given again."""
    if point[0] not in ("scope", "unload"):
        return point
    of_provider = point[:2] == ("unload", PROVIDER)
    waited = tuple(n for n in point[2] if find(core, n) is not None and (of_provider or not is_gone(core, n)))
    return (*point[:2], waited)


def folded(node: Node, known: frozenset[str] = frozenset()) -> Node:
    """A state without what no rule reads: the order of registration, ended ones among those that are waited for.

    Of a broken claim the name is kept, since its reason may speak of names; `known` ones are not kept at all.
    """
    config, left, memory = node
    core = config.core
    if len(core.sessions) > 1 or len(core.agents) > 1:
        core = core.put(sessions=tuple(sorted(core.sessions)), agents=tuple(sorted(core.agents)))
        config = config._replace(core=core)
    parked = tuple([(still_waiting(core, point), frame) for point, frame in config.parked])
    if parked != config.parked:
        config = config._replace(parked=tuple(sorted(parked)))
    if memory.ended or memory.faults:
        faults = tuple((name, "") for name, _ in memory.faults if name not in known)
        memory = memory.put(ended=(), faults=faults)
    return Node(config, left, memory)


class AnyNames(CreationWorld):
    """The whole: each call may take any id, any caller, and any number that no transaction has now."""

    def __init__(
        self,
        law: Law,
        choices: Choices,
        bound: Bound,
        machine: Machine[Creation] = MACHINE,
        known: frozenset[str] = frozenset(),
    ) -> None:
        """`known` names claims that this law is known to break: that they are broken is not remembered."""
        super().__init__(law, choices, bound, machine)
        self.known = known
        budgets = dict(bound.budgets)
        for budget in ("registrations", "detaches", "appends", "stale"):
            if budgets[budget]:
                raise ValueError(f"{budget} are not offered under exchangeable names: use CreationWorld for them")
        self.numbers = tuple(range(NUMBERS + 1, NUMBERS + 1 + budgets["creates"]))
        self.ids = tuple(range(IDS + 1, IDS + 1 + budgets["ids"]))
        self.callers = tuple(range(CALLERS + 1, CALLERS + 1 + budgets["callers"]))

    def paid(self, left: Left, price: Price) -> Left | None:
        """Names cost nothing here: there are as many as the bound says."""
        each = (price,) if isinstance(price, str) else price
        return super().paid(left, tuple(name for name in each if name not in ("", "ids", "callers")))

    def _offered(self, core: Creation, left: Left, past: Past) -> Iterator[tuple[Operation, Price]]:
        return self._under(self._free(core, left), self.ids, self.callers, core)

    def _free(self, core: Creation, left: Left) -> list[int]:
        """The numbers that nothing speaks of: a child may still name a parent that has ended."""
        if not left[self._index["creates"]]:
            return []
        taken: dict[int, None] = {}
        for part in (core.members, core.sessions, core.agents):
            names_of(part, taken)
        return [number for number in self.numbers if number not in taken]

    def _under(
        self, numbers: Sequence[int], ids: Sequence[int], callers: Sequence[int], core: Creation
    ) -> Iterator[tuple[Operation, Price]]:
        """What may be called when these names are there to be chosen."""
        environment: Any = self.environment
        ended = {("agent", t.number) for t in core.members if t.gone}  # asking for one of these is a stale request
        for number in numbers:
            for (verb, _, id, owner, flaw), price in environment.creations(
                core, number, len(ids) - 1, len(callers), ()
            ):
                caller = owner[1] if owner[0] == "fiber" else 0
                if owner not in ended and (caller <= PROVIDER or caller in callers):
                    yield (verb, number, IDS + id, owner, flaw), price
        yield from environment.about(core, len(callers), ())

    def _to(
        self, before: Config[Creation], label: Small, after: Config[Creation], left: Left, past: Past
    ) -> tuple[Small, Node]:
        label, node = super()._to(before, label, after, left, past)
        return label, folded(node, self.known)


class OneName(AnyNames):
    """The same with one state of each class: names are given in order of appearance, and taken from the ended."""

    def stands_for(self, node: Node) -> int:
        """How many states of the whole this one stands for."""
        return orbit(node, self.bound)

    def moves(self, node: Node) -> Iterator[tuple[Label, Node]]:
        """The moves of a canonical state, to canonical states. Labels keep the names of the state they start from."""
        for label, after in super().moves(node):
            yield label, canonical(after)

    def _offered(self, core: Creation, left: Left, past: Past) -> Iterator[tuple[Operation, Price]]:
        free = self._free(core, left)
        ids = {t.id for t in core.members} | {entry.id for entry in (*core.sessions, *core.agents)}
        callers = {t.owner[1] for t in core.members if t.owner[0] == "fiber"}
        callers |= {fiber for fiber, how in enumerate(core.fibers) if how != "active"}
        return self._under(
            free[:1], self.ids[: self._next(self.ids, ids)], self.callers[: self._next(self.callers, callers)], core
        )

    @staticmethod
    def _next(names: Sequence[int], used: set[int]) -> int:
        """How many of the names are worth choosing: those in use, and one that nobody has."""
        fresh = next((position for position, name in enumerate(names) if name not in used), len(names) - 1)
        last = max((position for position, name in enumerate(names) if name in used), default=-1)
        return max(fresh, last) + 1
