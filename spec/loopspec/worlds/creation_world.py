"""Creation within bounds: who may create, abort, dispose, unload, wake, register and throw, and how often.

Numbers, ids and callers' fibers are handed out in order of first use, which is exact: two runs that differ in such
names only are one run. The order in which parked routines are kept does not matter to the machine, so the world
keeps them sorted.

Budgets: `creates` for accepted calls and refused ones, `ids` and `callers` for names not used before, `aborts`,
`disposals` for handles and owner effects, `unloads`, `wakes`, `waits` for activities that wait for an end,
`registrations` for objects of somebody else, `detaches` for their disposers and repeated announcements, `appends`,
`escapes` for dispatches that fail, `stale` for requests about a transaction that has ended, and `inner` for calls
from listeners, whatever they call. A call that could change nothing is not offered otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from loopspec import creation
from loopspec.creation import MACHINE, answers, may_rest, open_dispatch
from loopspec.kernel.machine import Answer, Config, Effect, Machine, Operation
from loopspec.kernel.system import Label
from loopspec.profile import Law
from loopspec.properties.creation import broken
from loopspec.teardown import may_abort
from loopspec.transaction import AGENTS, PROVIDER, Creation, Numbers, Owner, find
from loopspec.worlds.creation_past import NOTHING, Past, Small, advance, with_fault
from loopspec.worlds.world import Bound, Environment, Left, Node, Price, World

BUDGETS = (
    "creates", "ids", "callers", "aborts", "disposals", "unloads", "wakes", "waits",
    "registrations", "detaches", "appends", "escapes", "stale", "inner",
)  # fmt: skip


class Choices(NamedTuple):
    """Which operations an environment uses at all; how often is the bound's affair."""

    verbs: tuple[str, ...] = ("create",)
    flaws: tuple[str, ...] = ("",)
    owners: tuple[str, ...] = ("caller",)
    """`caller`, `provider`, `agent`."""
    fibers: tuple[str, ...] = ("caller", "provider")
    """Which fibers may be unloaded: `caller`, `provider`, `agents`."""
    requests: tuple[str, ...] = ("dispose", "release")
    events: tuple[str, ...] = ()
    """Dispatches that may fail; empty for all whose failure matters."""
    setups: tuple[str, ...] = ("settles", "throws", "deactivated")
    """The answers of setups. Without `settles` and `throws` no setup ever settles."""
    kinds: tuple[str, ...] = ("session", "agent")
    """What is registered by others."""


class CreationEnvironment(Environment[Creation]):
    """Callers, listeners, fibers and other people's objects around the machine."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices

    def answers(self, core: Creation, point: Effect) -> Iterator[tuple[Answer, Price]]:
        """What the machine says that may come, as far as this environment lets it."""
        for answer in answers(core, point):
            if point[0] != "setup" or answer[0] in self.choices.setups:
                yield answer, ""

    def calls(
        self, core: Creation, next_object: int, ids: int, callers: int, ended: Numbers
    ) -> Iterator[tuple[Operation, Price]]:
        """Every operation that could matter now. `ids` and `callers` tell how many names have been used,
        `ended` which transactions had an agent and are over."""
        yield from self.creations(core, next_object, ids, callers, ended)
        yield from self.about(core, callers, ended)
        yield from self.others(core, next_object, ids)

    def about(self, core: Creation, callers: int, ended: Numbers) -> Iterator[tuple[Operation, Price]]:
        """What may be asked about transactions and fibers that are there."""
        yield from self.requests(core, ended)
        yield from self.unloads(core, callers)
        for t in core.members:
            if t.driver in ("shut", "idle"):
                yield ("wake", t.number), "wakes"
            if t.driver == "busy" and not t.awaits:
                for other in core.members:
                    yield ("await", t.number, ("agent", other.number)), "waits"
                for fiber in range(PROVIDER, len(core.fibers)):
                    yield ("await", t.number, ("fiber", fiber)), "waits"

    def creations(
        self, core: Creation, number: int, ids: int, callers: int, ended: Numbers
    ) -> Iterator[tuple[Operation, Price]]:
        """New transactions: under any id in use or a fresh one, by any owner in use or a fresh one."""
        for verb in self.choices.verbs:
            for id in range(1, ids + 2):
                for owner, fresh in self.owners(core, callers, ended):
                    for flaw in self.choices.flaws:
                        price = ("creates", *(("ids",) if id > ids else ()), *fresh)
                        yield (verb, number, id, owner, flaw), price

    def owners(self, core: Creation, callers: int, ended: Numbers) -> Iterator[tuple[Owner, tuple[str, ...]]]:
        """Those who may call, and the price of a caller who has not called yet."""
        if "caller" in self.choices.owners:
            for caller in range(callers + 1):
                if PROVIDER + 1 + caller < len(core.fibers):
                    yield ("fiber", PROVIDER + 1 + caller), ("callers",) if caller == callers else ()
        if "provider" in self.choices.owners:
            yield ("fiber", PROVIDER), ()
        if "agent" in self.choices.owners:
            for t in core.members:
                if t.driver != "absent":
                    yield ("agent", t.number), ()
            for number in ended:
                yield ("agent", number), ("stale",)

    def requests(self, core: Creation, ended: Numbers) -> Iterator[tuple[Operation, Price]]:
        """Aborts and requests for a teardown; stale ones for transactions that have ended."""
        for number in ended:
            for request in self.choices.requests:
                yield (request, number), "stale"
            yield ("wake", number), "stale"
        for t in core.members:
            number = t.number
            if may_abort(t):
                yield ("abort", number), "aborts"
            elif t.public == "resolved":
                yield ("abort", number), ("aborts", "stale")
            if not t.gone and (t.public == "resolved" or t.reason == "caller") and "dispose" in self.choices.requests:
                if t.public == "resolved" and not t.begun:
                    yield ("dispose", number), "disposals"
                elif t.public == "resolved":
                    yield ("dispose", number), ("disposals", "stale")
            if not t.begun and "release" in self.choices.requests:
                yield ("release", number), "disposals"

    def unloads(self, core: Creation, callers: int) -> Iterator[tuple[Operation, Price]]:
        """Unloads of fibers that have been used, the provider and the service."""
        named = {"agents": (AGENTS,), "provider": (PROVIDER,), "caller": range(PROVIDER + 1, PROVIDER + 1 + callers)}
        for name in self.choices.fibers:
            for fiber in named[name]:
                if core.fibers[fiber] == "active":
                    yield ("unload", fiber), "unloads"

    def others(self, core: Creation, number: int, ids: int) -> Iterator[tuple[Operation, Price]]:
        """Objects of others: registered, withdrawn, announced again; and records of any attached session."""
        for kind in self.choices.kinds:
            for id in range(1, ids + 2):
                price = ("registrations", *(("ids",) if id > ids else ()))
                yield ("register", kind, number, id), price
            kept = core.sessions if kind == "session" else core.agents
            for entry in kept:
                yield ("announce_again", kind, entry.object), "detaches"
                if find(core, entry.object) is None:
                    yield ("withdraw", kind, entry.object), "detaches"
        for entry in core.sessions:
            yield ("append", entry.object), "appends"

    def rests(self, core: Creation) -> Iterator[Operation]:
        """Runs that may end now."""
        for t in core.members:
            if may_rest(core, t):
                yield ("rest", t.number)


class CreationWorld(World[Creation]):
    """The creation machine in such an environment."""

    def __init__(self, law: Law, choices: Choices, bound: Bound, machine: Machine[Creation] = MACHINE) -> None:
        callers = dict(bound.budgets)["callers"]
        super().__init__(MACHINE, creation.initial(law, callers), CreationEnvironment(choices), bound, NOTHING)
        self.choices = choices

    def moves(self, node: Node) -> Iterator[tuple[Label, Node]]:
        """Every move that can be paid for, each followed by the small steps that have no alternative.

        The label of a move is the tuple of the labels of its small steps. Every small step has been judged.
        """
        return map(self.whole, self.small_moves(node))

    def whole(self, small: tuple[Small, Node]) -> tuple[Label, Node]:
        """A small step and those behind it that have no alternative."""
        label, after = small
        labels = [label]
        while self.is_forced(after):
            label, after = self._step(after)
            labels.append(label)
        return self._one(tuple(labels)), after

    def is_forced(self, node: Node) -> bool:
        """True when the machine's next step is all that can happen: a segment runs and no listener may interfere."""
        config, left, _ = node
        if not config.stack:
            return False
        if config.stack[-1].window != "live" or config.core.threw:
            return True
        may_fail = self.may_fail(config) and self.paid(left, "escapes") is not None
        may_call = len(config.stack) <= self.bound.depth and self.paid(left, "inner") is not None
        return not may_fail and not may_call

    def may_fail(self, config: Config[Creation]) -> bool:
        """True when the dispatch whose window is open may fail, and its failure matters."""
        dispatch = open_dispatch(config.stack[-1].frame)
        return bool(dispatch) and (not self.choices.events or dispatch[0] in self.choices.events)

    def small_moves(self, node: Node) -> Iterator[tuple[Small, Node]]:
        """The step or the answers first, then calls, then failing dispatches."""
        config, left, memory = node
        core, stack, parked, _ = config
        environment: Any = self.environment
        if stack:
            yield self._step(node)
            if self.is_forced(node):
                return
            if self.may_fail(config):
                escape = ("escape", *open_dispatch(stack[-1].frame))
                yield from self._calls(config, left, memory, [(escape, "escapes")])
            inner = self.paid(left, "inner")
            if len(stack) <= self.bound.depth and inner is not None:
                yield from self._calls(config, inner, memory, self._offered(core, left, memory))
            return
        for index, (point, _) in enumerate(parked):
            for answer, _ in environment.answers(core, point):
                yield self.answered(node, index, answer)
        yield from self._calls(config, left, memory, [(rest, "") for rest in environment.rests(core)])
        yield from self._calls(config, left, memory, self._offered(core, left, memory))

    def answered(self, node: Node, index: int, answer: Answer) -> tuple[Small, Node]:
        """The small step that answers an await point."""
        config, left, memory = node
        after = self.machine.resume(config, answer, index)
        return self._to(config, ("answer", config.parked[index][0], answer), after, left, memory)

    def _step(self, node: Node) -> tuple[Small, Node]:
        config, left, memory = node
        verb, effect, after = self.machine.step(config)
        return self._to(config, (verb, *effect), after, left, memory)

    def _offered(self, core: Creation, left: Left, past: Past) -> Iterator[tuple[Operation, Price]]:
        spent = [whole - rest for whole, rest in zip(self._start, left, strict=True)]
        used = dict(zip(self._index, spent, strict=True))
        environment: Any = self.environment
        calls: Iterator[tuple[Operation, Price]] = environment.calls(
            core, used["creates"] + used["registrations"] + 1, used["ids"], used["callers"], past.ended
        )
        return calls

    def _calls(
        self, config: Config[Creation], left: Left, memory: Any, offered: Iterable[tuple[Operation, Price]]
    ) -> Iterator[tuple[Small, Node]]:
        for operation, price in offered:
            paid = self.paid(left, price)
            if paid is not None:
                after = self.machine.call(config, operation)
                yield self._to(config, ("call", *operation), after, paid, memory)

    def _to(
        self, before: Config[Creation], label: Small, after: Config[Creation], left: Left, past: Past
    ) -> tuple[Small, Node]:
        if len(after.parked) > 1:
            after = after._replace(parked=tuple(sorted(after.parked)))
        memory = advance(past, label)
        for name, reason in broken(before, past, label, after):
            memory = with_fault(memory, name, reason)
        return label, Node(after, left, memory)


def bound(name: str, depth: int = 1, **budgets: int) -> Bound:
    """A creation bound; what is not named is 0."""
    unknown = sorted(set(budgets) - set(BUDGETS))
    if unknown:
        raise KeyError(f"Creation has no budgets {unknown}. It has: {', '.join(BUDGETS)}.")
    return Bound(name, tuple((budget, budgets.get(budget, 0)) for budget in BUDGETS), depth)


class EndlessCreation(CreationWorld):
    """The same without budgets: an amount only says whether something happens at all, and how many names there are.

    The number of a transaction that has ended is used again, so that the graph is finite although runs are not. That
    folds nothing but names: a transaction that has ended is forgotten by the machine. Stale requests are not offered.
    """

    def paid(self, left: Left, price: Price) -> Left | None:
        """Whether this happens here at all; nothing is used up. Names are handed out as if all had been used."""
        names = (price,) if isinstance(price, str) else price
        positions = [self._index[name] for name in names if name]
        fresh = [name for name in names if name in ("ids", "callers")]
        return left if not fresh and all(left[position] for position in positions) else None

    def _offered(self, core: Creation, left: Left, past: Past) -> Iterator[tuple[Operation, Price]]:
        amounts = dict(zip(self._index, left, strict=True))
        taken = {t.number for t in core.members}
        free = [number for number in range(1, amounts["creates"] + 1) if number not in taken]
        environment: Any = self.environment
        offered: Iterator[tuple[Operation, Price]] = environment.calls(
            core, free[0] if free else 0, amounts["ids"], amounts["callers"], ()
        )
        for operation, price in offered:
            if free or operation[0] not in ("create", "create_now", "resume", "register"):
                yield operation, price

    def _to(
        self, before: Config[Creation], label: Small, after: Config[Creation], left: Left, past: Past
    ) -> tuple[Small, Node]:
        label, node = super()._to(before, label, after, left, past)
        kept = tuple(sorted(node.memory.stories))
        members = tuple(sorted(node.config.core.members))
        core = node.config.core.put(members=members)
        return label, Node(node.config._replace(core=core), left, node.memory.put(stories=kept, ended=()))
