"""The shape of every spec machine: rules, effects, frames and windows.

A machine is a book of **rules**. A rule is a pure function of the machine's core state and the locals of one
*frame*; it answers with exactly one **verb**, which names one effect and the frame that follows:

| verb | effect | what follows |
|---|---|---|
| `append` | a durable record is written | a *log window*: observers of the record run |
| `notify` | a live event is published | a *live window*: listeners run |
| `note` | a change that nobody hears, such as a fresh signal | the next frame, at once |
| `park` | the routine waits at a named await point | the caller goes on; `resume` continues the frame |
| `leave` | the synchronous call ends, by return or by raise | the enclosing window, if any, is open again |

A sixth answer, `go`, has no effect: another rule speaks in its place.

**Windows.** Between two effects of one synchronous segment listeners run, and they may call back. So after an
`append` or a `notify` the window is open: the environment may `call` an operation, which pushes a new
*activation* on the stack; its `leave` (or `park`) pops it and the saved window is open again. The next `step`
means *the listeners are done*. The log is locked for every call made from inside a log window, at any depth:
appends are not re-entrant (L-LOG-3), and the rule's `refused` frame follows instead.

**Waiting operations.** A law may let operations that answer nothing wait until the log is free (`Machine.waits`).
They are kept in order in `Config.waiting` and begin when the observers of the record are done: before the next
effect, so that a later record cannot overtake them. Only behind an *unsettled* record (`Machine.unsettled`) they wait
for one effect more, because the state does not agree with the log yet.

Nothing here is about agents. A configuration is a value: hashable, comparable, cheap to copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

Frame = tuple[Any, ...]
"""`(label, *locals)`: what a routine does next. Continuations are frames inside frames."""

Effect = tuple[Any, ...]
"""`(name, *arguments)`, for example `("turn/start", 1)`. The verb says how it happens."""

Operation = tuple[Any, ...]
"""`(name, *arguments)`: a call from outside, for example `("send", 1, "next-turn", True)`."""

Answer = tuple[Any, ...]
"""`(kind, *arguments)`: what an await point came back with, for example `("throws",)`."""

Verb = Literal["append", "notify", "note", "park", "leave", "go"]
Window = Literal["closed", "log", "live"]

S = TypeVar("S")


class Outcome(NamedTuple, Generic[S]):
    """What a rule answers: one verb, the core state after it, its effect, and the frames that may follow."""

    verb: Verb
    core: S
    effect: Effect
    frame: Frame
    refused: Frame = ()


def append(core: S, record: Effect, frame: Frame, refused: Frame) -> Outcome[S]:
    """Write a durable record. `frame` and `core` follow when it is written.

    When the append raises, `refused` follows with the core state that the rule was given (L-IN-19).
    """
    return _outcome(("append", core, record, frame, refused))


def notify(core: S, event: Effect, frame: Frame) -> Outcome[S]:
    """Publish a live event; every listener runs before `frame`."""
    return _outcome(("notify", core, event, frame, ()))


def note(core: S, change: Effect, frame: Frame) -> Outcome[S]:
    """Tell the interpreter of a change that no listener can hear."""
    return _outcome(("note", core, change, frame, ()))


def park(core: S, point: Effect, frame: Frame) -> Outcome[S]:
    """Wait at an await point. The answer becomes the last local of `frame`."""
    return _outcome(("park", core, point, frame, ()))


def leave(core: S, result: Effect) -> Outcome[S]:
    """End the synchronous call with `("return", value)`, `("raise", kind)` or another named end."""
    return _outcome(("leave", core, result, (), ()))


def go(core: S, frame: Frame) -> Outcome[S]:
    """No effect of its own: the rule of `frame` speaks."""
    return _outcome(("go", core, (), frame, ()))


Rule = Callable[..., Outcome[Any]]


class Rules(dict[str, Rule]):
    """A book of rules by frame label. `@book("label")` enters a function; labels are unique."""

    def __call__(self, label: str) -> Callable[[Rule], Rule]:
        def enter(function: Rule) -> Rule:
            assert label not in self, f"two rules for frame {label!r}"
            self[label] = function
            return function

        return enter


class Activation(NamedTuple):
    """One synchronous call in progress: what it does next, the window it holds open, whether the log is locked."""

    frame: Frame
    window: Window
    locked: bool


class Config(NamedTuple, Generic[S]):
    """A whole machine configuration.

    `stack` holds the activations, innermost last; `parked` the routines that wait, as `(point, frame)` in order
    of parking; `waiting` the operations that wait for the log.
    """

    core: S
    stack: tuple[Activation, ...] = ()
    parked: tuple[tuple[Effect, Frame], ...] = ()
    waiting: tuple[Operation, ...] = ()


class Move(NamedTuple, Generic[S]):
    """One transition: the verb and effect that happened, and the configuration after it.

    `verb` is an outcome's verb, or `"refuse"` for an append that was not written, or `"begin"` for a waiting
    operation that now starts.
    """

    verb: str
    effect: Effect
    config: Config[S]


# Made without the argument handling of their constructors: these run for every effect of every run.
_outcome: Callable[[Frame], Outcome[Any]] = partial(tuple.__new__, Outcome)
_activation: Callable[[Frame], Activation] = partial(tuple.__new__, Activation)
_config: Callable[[Frame], Config[Any]] = partial(tuple.__new__, Config)
_move: Callable[[Frame], Move[Any]] = partial(tuple.__new__, Move)


BEGUN = "begun"
"""`(BEGUN, height)` stands in front of the waiting operations while one that has waited is under way, at that height
of the stack: they run one after the other, each to its end or its first await point."""


def unbegun(config: Config[Any]) -> tuple[Operation, ...]:
    """The operations that wait and have not begun."""
    waiting = config.waiting
    return waiting[1:] if waiting and waiting[0][0] == BEGUN else waiting


class Illegal(Exception):
    """The interpreter asked for a transition that the protocol does not allow at this point."""


def log_is_locked(config: Config[Any]) -> bool:
    """True while a record is being published: an append now would be re-entrant (L-LOG-3)."""
    return bool(config.stack) and (config.stack[-1].locked or config.stack[-1].window == "log")


def may_call(config: Config[Any]) -> bool:
    """True when an operation may be called: nothing is running or about to begin, or a window is open."""
    return config.stack[-1].window != "closed" if config.stack else not config.waiting


def never_waits(core: Any, operation: Operation) -> bool:
    """The usual law: no operation waits; inside a log window its appends are refused."""
    return False


class Machine(Generic[S]):
    """A book of rules made to run: `call`, `resume`, `step` and `refuse`, each a pure function of a configuration."""

    def __init__(
        self,
        rules: Mapping[str, Rule],
        waits: Callable[[S, Operation], bool] = never_waits,
        unsettled: frozenset[str] = frozenset(),
    ) -> None:
        """`unsettled` names the frames that catch up with the record before them: nothing begins in between."""
        self.rules = rules
        self.waits = waits
        self.unsettled = unsettled

    def call(self, config: Config[S], operation: Operation, log_is_busy: bool = False) -> Config[S]:
        """Begin an operation from outside; the configuration after it needs a `step` (unless the operation waits).

        `log_is_busy` tells that somebody else's record is being published to the same log: of a tool batch, of a
        plugin. Then the log is locked for this call, as it is in a log window of the machine's own.

        Raises `Illegal` between two effects of a running segment, where no listener runs.
        """
        core, stack, parked, waiting = config
        locked = log_is_busy
        if stack:
            top = stack[-1]
            if top.window == "closed":
                raise Illegal(f"{operation[0]} called between two effects of {top.frame[0]!r}")
            locked = locked or top.locked or top.window == "log"
        if locked and self.waits(core, operation):
            return Config(core, stack, parked, (*waiting, operation))
        return Config(core, (*stack, Activation(operation, "closed", locked)), parked, waiting)

    def resume(self, config: Config[S], answer: Answer, index: int = 0) -> Config[S]:
        """Answer the await point `parked[index]`. Raises `Illegal` while a synchronous segment is running."""
        core, stack, parked, waiting = config
        if stack or waiting:
            raise Illegal("an await point resumed inside a synchronous segment")
        frame = (*parked[index][1], answer)
        rest = parked[:index] + parked[index + 1 :]
        return _config((core, (_activation((frame, "closed", False)),), rest, waiting))

    def ponder(self, core: S, frame: Frame) -> tuple[S, Outcome[S]]:
        """`speak`, with the core state that the speaking rule was given: where a refused append leaves the machine."""
        outcome = self.rules[frame[0]](core, *frame[1:])
        while outcome[0] == "go":
            core, frame = outcome[1], outcome[3]
            outcome = self.rules[frame[0]](core, *frame[1:])
        return core, outcome

    def may_begin(self, config: Config[S]) -> bool:
        """True when the next step begins a waiting operation: none is under way, and the log is free or its observers
        have just finished."""
        if not config.waiting or config.waiting[0][0] == BEGUN:
            return False
        if not log_is_locked(config):
            return True
        top = config.stack[-1]
        return top.window == "log" and not top.locked and top.frame[0] not in self.unsettled

    def step(self, config: Config[S]) -> Move[S]:
        """The next effect of the innermost activation; any open window of it is thereby over.

        Raises `Illegal` when nothing runs.
        """
        core, stack, parked, waiting = config
        if waiting and self.may_begin(config):
            operation = waiting[0]
            if stack:  # whatever window was open: its listeners are done
                stack = (*stack[:-1], stack[-1]._replace(window="closed"))
            begun = (*stack, Activation(operation, "closed", False))
            return Move("begin", operation, Config(core, begun, parked, ((BEGUN, len(stack)), *waiting[1:])))
        if not stack:
            raise Illegal("nothing to step: no synchronous segment is running")
        frame, _, locked = stack[-1]
        rules = self.rules
        outcome = rules[frame[0]](core, *frame[1:])
        while outcome[0] == "go":
            core, frame = outcome[1], outcome[3]
            outcome = rules[frame[0]](core, *frame[1:])
        verb, after, effect, frame, refused = outcome
        outer = stack[:-1]
        if waiting and verb in ("park", "leave") and waiting[0] == (BEGUN, len(outer)):
            waiting = waiting[1:]  # the operation that had waited has ended: the next one may begin
        if verb == "append":
            if locked:
                refusal = Config(core, (*outer, Activation(refused, "closed", True)), parked, waiting)
                return Move("refuse", effect, refusal)
            outer = (*outer, _activation((frame, "log", False)))
        elif verb == "park":
            parked = (*parked, (effect, frame))
        elif verb == "notify":
            outer = (*outer, _activation((frame, "live", locked)))
        elif verb == "note":
            outer = (*outer, _activation((frame, "closed", locked)))
        return _move((verb, effect, _config((after, outer, parked, waiting))))

    def withdraw(self, config: Config[S], refused: Frame) -> Config[S]:
        """Close the log window of an append that turned out to be refused after operations had run in it.

        `refused` is the frame that follows. Whoever refuses at once uses `refuse` on the configuration before.
        """
        core, stack, parked, waiting = config
        return Config(core, (*stack[:-1], Activation(refused, "closed", stack[-1].locked)), parked, waiting)

    def refuse(self, config: Config[S]) -> Move[S]:
        """Instead of `step`, when its append was refused from outside (a veto, data that is not JSON).

        Raises `Illegal` when the next effect is not an append.
        """
        core, stack, parked, waiting = config
        if not stack or self.may_begin(config):
            raise Illegal("no append to refuse")
        before, (verb, _, effect, _, refused) = self.ponder(core, stack[-1].frame)
        if verb != "append":
            raise Illegal(f"only an append can be refused, not {verb} {effect}")
        refusal = Activation(refused, "closed", stack[-1].locked)
        return Move("refuse", effect, Config(before, (*stack[:-1], refusal), parked, waiting))


_KEEP: Any = object()
C = TypeVar("C", bound=type)


def state(cls: C) -> C:
    """Class decorator: give a NamedTuple a fast `put(field=value, …)`, a copy with some fields changed.

    It is `_replace` without its loop: the copy is written out field by field, once per class. An unknown field
    is a `TypeError`.
    """
    fields: tuple[str, ...] = cls._fields  # type: ignore[attr-defined]
    parameters = ", ".join(f"{name}=KEEP" for name in fields)
    values = ", ".join(f"s[{i}] if {name} is KEEP else {name}" for i, name in enumerate(fields))
    source = f"def put(s, *, {parameters}):\n    return new(cls, ({values},))"
    scope: dict[str, Any] = {"KEEP": _KEEP, "new": tuple.__new__, "cls": cls}
    exec(source, scope)
    cls.put = scope["put"]  # type: ignore[attr-defined]
    return cls
