"""A machine and its environment as one system that the kernel can explore.

A machine knows no limits and has no memory of the past: a user may always send one more message. To explore it
completely the *environment* is given budgets, and claims about the past are folded from the labels of the moves.
Both live in the explorer's node, beside the configuration:

    Node(config, left, memory)

What the environment may do in a node:

* when nothing runs, or a window is open and the call depth allows: **call** an operation, `("call", name, …)`, or
  `("wait", name, …)` when the machine keeps it until the log is free;
* when nothing runs: **answer** an await point, `("answer", point, answer)`;
* else let the machine **step**: `(verb, effect …)`, or, with a budget for it, **refuse** an append instead.

A move that cannot be paid for is not offered. Turns are budgeted too, although the machine opens them and not the
environment: a node whose next effect is a turn that cannot be paid for is a *cut* node. It counts as final, and
`Measure` counts it, so that no bound is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeVar

from loopspec.kernel.encoding import text_of
from loopspec.kernel.graph import Graph, digest_edges
from loopspec.kernel.machine import Answer, Config, Effect, Machine, Operation, may_call, unbegun
from loopspec.kernel.report import Exploration
from loopspec.kernel.system import Label
from loopspec.profile import Law

S = TypeVar("S")

Left = tuple[int, ...]
"""What is left of each budget, in the order in which the bound names them."""


class Node(NamedTuple):
    """One state of an exploration: the machine, what the environment has left, and what the monitor remembers."""

    config: Config[Any]
    left: Left
    memory: Any


class Bound(NamedTuple):
    """Limits of an environment: named budgets, and the depth of calls that listeners may make (0: none)."""

    name: str
    budgets: tuple[tuple[str, int], ...]
    depth: int = 1

    def changed(self, **changes: int) -> Bound:
        """This bound with some budgets (or `depth`) set. Raises `KeyError` for a budget that it does not name."""
        names = [name for name, _ in self.budgets]
        for name in changes:
            if name != "depth" and name not in names:
                raise KeyError(f"The bound {self.name!r} has no budget {name!r}. It has: depth, {', '.join(names)}.")
        budgets = tuple((name, changes.get(name, amount)) for name, amount in self.budgets)
        return Bound(self.name, budgets, changes.get("depth", self.depth))

    def as_mapping(self) -> dict[str, object]:
        """The bound as a flat mapping, to be printed beside a verdict."""
        return {"bound": self.name, "depth": self.depth, **dict(self.budgets)}


Price = str | tuple[str, ...]
"""The budget that a move spends (or several); empty when it is free."""


class Environment(Generic[S]):
    """What may happen to a machine, and what each happening costs. Subclasses say it for one machine."""

    def operations(self, core: S, next_message: int) -> Iterable[tuple[Operation, Price]]:
        """Every operation that may be called now. `next_message` is the number of the next message to be sent."""
        return ()

    def answers(self, core: S, point: Effect) -> Iterable[tuple[Answer, Price]]:
        """Every answer that an await point may get."""
        return ()

    def toll(self, verb: str, effect: Effect) -> Price:
        """The budget that a step of the machine itself spends, such as the opening of a turn."""
        return ""


Advance = Callable[[Any, Any], Any]
"""`(memory, label)` to the memory after it. Memories are hashable and should be small."""


def forgetful(memory: Any, label: Label) -> Any:
    """The monitor that remembers nothing."""
    return memory


class World(Generic[S]):
    """A machine, its first configuration and an environment within a bound, as a `loopspec.kernel.system.System`.

    `memory` is the monitor's first memory and `advance(memory, label)` folds one move into it: labels only, so that
    a claim is never judged by the field that it is about.
    """

    def __init__(
        self,
        machine: Machine[S],
        first: Config[S],
        environment: Environment[S],
        bound: Bound,
        memory: Hashable = (),
        advance: Advance = forgetful,
    ) -> None:
        self.machine = machine
        self.first = first
        self.environment = environment
        self.bound = bound
        self.memory = memory
        self.advance = advance
        self._index = {name: position for position, (name, _) in enumerate(bound.budgets)}
        self._start = tuple(amount for _, amount in bound.budgets)
        self._messages = self._index.get("messages")
        self._refusals = self._index.get("refusals")
        self._ids: dict[Label, Label] = {}

    def initial(self) -> Iterator[Node]:
        """One node: the first configuration with full budgets."""
        yield Node(self.first, self._start, self.memory)

    def moves(self, node: Node) -> Iterator[tuple[Label, Node]]:
        """Every move that can be paid for: calls first, then the step of the machine or the answers to it."""
        config, left, memory = node
        core, stack, parked, waiting = config
        machine, environment, advance = self.machine, self.environment, self.advance
        if len(stack) + len(unbegun(config)) <= self.bound.depth and may_call(config):
            sent = 0 if self._messages is None else self._start[self._messages] - left[self._messages]
            for operation, price in environment.operations(core, sent + 1):
                paid = self.paid(left, price)
                if paid is not None:
                    after = machine.call(config, operation)
                    verb = "call" if after.waiting is waiting else "wait"
                    label = self._one((verb, *operation))
                    yield label, Node(after, paid, advance(memory, label))
        if stack or waiting:
            verb, effect, after = machine.step(config)
            paid = self.paid(left, environment.toll(verb, effect))
            if paid is not None:
                label = self._one((verb, *effect))
                yield label, Node(after, paid, advance(memory, label))
            if verb == "append" and self._refusals is not None and left[self._refusals]:
                verb, effect, after = machine.refuse(config)
                label = self._one((verb, *effect))
                yield label, Node(after, self._spent(left, self._refusals), advance(memory, label))
            return
        for index, (point, _) in enumerate(parked):
            for answer, price in environment.answers(core, point):
                paid = self.paid(left, price)
                if paid is not None:
                    label = self._one(("answer", point, answer))
                    yield label, Node(machine.resume(config, answer, index), paid, advance(memory, label))

    def is_cut(self, node: Node) -> bool:
        """True when the next step of the machine cannot be paid for: the run goes on beyond the bound."""
        config = node.config
        if not config.stack and not config.waiting:
            return False
        verb, effect, _ = self.machine.step(config)
        return self.paid(node.left, self.environment.toll(verb, effect)) is None

    def is_quiet(self, node: Node) -> bool:
        """True when nothing runs and nothing waits: a run may stop here."""
        _, stack, parked, waiting = node.config
        return not stack and not parked and not waiting

    def is_final(self, node: Node) -> bool:
        """True where a run may stop: at rest, or cut by the bound."""
        return self.is_quiet(node) or self.is_cut(node)

    def paid(self, left: Left, price: Price) -> Left | None:
        """What is left after paying, or `None` when there is not enough. Unknown budgets count as empty."""
        if not price:
            return left
        for name in (price,) if isinstance(price, str) else price:
            position = self._index.get(name)
            if position is None or not left[position]:
                return None
            left = self._spent(left, position)
        return left

    @staticmethod
    def _spent(left: Left, position: int) -> Left:
        return (*left[:position], left[position] - 1, *left[position + 1 :])

    def _one(self, label: Label) -> Label:
        """The same object for equal labels: the search compares them often."""
        return self._ids.setdefault(label, label)


# --- what an exploration saw ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """The numbers of one exploration, to be printed beside every verdict."""

    bound: Mapping[str, object]
    states: int
    transitions: int
    depth: int
    cut: int
    complete: bool
    why_incomplete: str | None


def measured(world: World[Any], exploration: Exploration[Node]) -> Measure:
    """Count what was seen, and how many nodes the bound cut."""
    cut = sum(1 for node in exploration.states if world.is_cut(node))
    return Measure(
        exploration.bound,
        len(exploration.states),
        exploration.transitions,
        exploration.depth,
        cut,
        exploration.complete,
        exploration.why_incomplete,
    )


def named_law(graph: Graph[Any]) -> Graph[Any]:
    """The same graph with each law replaced by its name, so that states have a canonical text.

    The law may stand anywhere in a state, as long as all of it are tuples.
    """
    names: dict[Any, Any] = {}

    def plain(part: Any) -> Any:
        if isinstance(part, Law):
            return repr(part)
        if not isinstance(part, tuple):
            return part
        named = tuple([plain(item) for item in part])
        if named == part:
            return part
        found = names.get(part)
        if found is None:
            found = names[part] = type(part)._make(named) if hasattr(part, "_make") else named
        return found

    return replace(graph, states=[plain(node) for node in graph.states])


def edge_digest(graph: Graph[Any]) -> str:
    """`loopspec.kernel.graph.digest_edges(named_law(graph))`, faster: the text of each part is made once."""
    if not all(isinstance(getattr(node, "config", None), Config) for node in graph.states[:1]):
        return digest_edges(named_law(graph))
    texts: dict[Any, str] = {}

    def text(part: Any) -> str:
        found = texts.get(part)
        if found is None:
            found = texts[part] = text_of(part)
        return found

    def key(node: Node) -> bytes:
        (core, stack, parked, waiting), left, memory = node
        core_text = texts.get(core)
        if core_text is None:
            core_text = texts[core] = text_of(core.put(law=repr(core.law)))
        config = f"Config(core={core_text},stack={text(stack)},parked={text(parked)},waiting={text(waiting)})"
        return sha256(f"Node(config={config},left={text(left)},memory={text(memory)})".encode("ascii")).digest()

    keys = [key(node) for node in graph.states]
    labels = [sha256(text_of(label).encode("ascii")).digest() for label in graph.labels]
    edges = {
        sha256(keys[source] + labels[label] + keys[target]).digest()
        for source in range(len(keys))
        for label, target in graph.moves(source)
    }
    total = sha256(b"edges")
    for edge in sorted(edges):
        total.update(edge)
    return total.hexdigest()


def rules_of(machine: Machine[Any], node: Node) -> tuple[str, ...]:
    """The rules that speak in the next step of a node: the rule of the frame, and those it goes on to."""
    config = node.config
    if not config.stack or machine.may_begin(config):
        return ()
    core, frame = config.core, config.stack[-1].frame
    spoken = [frame[0]]
    outcome = machine.rules[frame[0]](core, *frame[1:])
    while outcome[0] == "go":
        core, frame = outcome[1], outcome[3]
        spoken.append(frame[0])
        outcome = machine.rules[frame[0]](core, *frame[1:])
    return tuple(spoken)


def first_uses(machine: Machine[Any], exploration: Exploration[Node]) -> dict[str, int]:
    """For each rule, the index of the first state found whose next step it speaks in; unused rules are missing."""
    uses: dict[str, int] = {}
    for index, node in enumerate(exploration.states):
        for rule in rules_of(machine, node):
            uses.setdefault(rule, index)
    return uses
