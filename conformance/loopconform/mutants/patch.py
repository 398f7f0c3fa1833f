"""One fault: what it changes, and how it is put in place and taken out again.

A fault is a change of the text of one function, or a systematic one: a guard that answers one thing always, a rule
whose effect does not happen, a rule whose effect changes places with the next. It is put in place everywhere where
the function is known: under its name in every module, in every book of rules, in every machine. So it works on an
exploration and on a live agent alike.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from loopspec import calls, creation, driver, retry, scheduler
from loopspec.kernel.machine import Machine, Outcome, Rule, Rules, go

Change = Literal["text", "always", "never", "skips", "swaps"]
HEARD = ("append", "notify")
SILENT = ("note",)
OTHER = "the effect that should have come first"
"""The frame behind the second one of two effects that have changed places."""

MACHINES: tuple[Machine[Any], ...] = (
    driver.MACHINE,
    scheduler.MACHINE,
    creation.MACHINE,
    retry.MACHINE,
    calls.MACHINE,
)


class Fault(NamedTuple):
    """One fault. `target` is a function of `module`, or `Class.method`; `breaks` the promise that it breaks."""

    id: str
    module: str
    target: str
    change: Change = "text"
    old: str = ""
    new: str = ""
    sentence: str = ""
    breaks: str = ""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{self.module}.{self.target}"


def changed(function: Any, old: str, new: str) -> Any:
    """The same function with one piece of its text replaced. Raises `ValueError` unless it occurs exactly once."""
    source = textwrap.dedent(inspect.getsource(function))
    while source.startswith("@"):
        source = source.split("\n", 1)[1]
    if source.count(old) != 1:
        raise ValueError(f"{function.__name__}: {old!r} occurs {source.count(old)} times, not once")
    # The module's own namespace: a mutant must see guards that are patched later, as the original does.
    namespace = function.__globals__
    kept = namespace.get(function.__name__)
    exec(compile(source.replace(old, new), f"<mutant of {function.__name__}>", "exec"), namespace)
    mutant = namespace.pop(function.__name__)
    if kept is not None:
        namespace[function.__name__] = kept
    return mutant


def original_of(fault: Fault) -> Any:
    """The sound function. Raises `ValueError` when there is none of that name."""
    found: Any = importlib.import_module(fault.module)
    for name in fault.target.split("."):
        if not hasattr(found, name):
            raise ValueError(f"{fault.id}: nothing is called {fault.place}")
        found = getattr(found, name)
    return found


def faulty(fault: Fault, original: Any) -> Any:
    """What stands in the place of the sound function. Raises `ValueError` when the fault does not fit."""
    if fault.change == "text":
        return changed(original, fault.old, fault.new)
    if fault.change in ("always", "never"):
        answer = fault.change == "always"
        return lambda *_, **__: answer
    return _skipping(original) if fault.change == "skips" else _swapping(original)


def _skipping(rule: Rule) -> Rule:
    def skipping(s: Any, *locals: Any) -> Outcome[Any]:
        outcome = rule(s, *locals)
        return go(outcome.core, outcome.frame) if outcome.verb in (*HEARD, *SILENT) else outcome

    return skipping


def _swapping(rule: Rule) -> Rule:
    machine = next((machine for machine in MACHINES if rule in machine.rules.values()), None)
    if machine is None:
        raise ValueError(f"{rule.__name__} is in no machine's book")

    def swapping(s: Any, *locals: Any) -> Outcome[Any]:
        first = rule(s, *locals)
        if first.verb not in HEARD:
            return first
        _, second = machine.ponder(first.core, first.frame)
        if second.verb not in HEARD:
            return first
        frame = (OTHER, first.verb, first.effect, first.refused, second.frame)
        return Outcome(second.verb, second.core, second.effect, frame, second.refused)

    return swapping


def _other(s: Any, verb: Any, effect: Any, refused: Any, frame: Any) -> Outcome[Any]:
    return Outcome(verb, s, effect, frame, refused)


def places_of(fault: Fault, original: Any) -> list[Callable[[Any], None]]:
    """Setters for every place where a function is known."""
    owner, _, method = fault.target.rpartition(".")
    if owner:
        return [_attribute(getattr(importlib.import_module(fault.module), owner), method)]
    found: list[Callable[[Any], None]] = []
    books: dict[int, dict[str, Any]] = {id(machine.rules): _book(machine.rules) for machine in MACHINES}
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in ("loopspec", "loopharness") or module is None:
            continue
        for known, value in list(vars(module).items()):
            if value is original:
                found.append(_attribute(module, known))
            elif isinstance(value, Rules):
                books[id(value)] = value
            elif isinstance(value, Machine) and value.waits is original:
                found.append(_attribute(value, "waits"))
    for book in books.values():
        found += [_item(book, label) for label, rule in book.items() if rule is original]
    return found


def _book(rules: Mapping[str, Rule]) -> dict[str, Any]:
    assert isinstance(rules, dict)
    return rules


def _attribute(holder: Any, name: str) -> Callable[[Any], None]:
    return lambda value: setattr(holder, name, value)


def _item(book: dict[str, Any], label: str) -> Callable[[Any], None]:
    return lambda value: book.__setitem__(label, value)


class Switch:
    """At most one fault in place at a time."""

    def __init__(self) -> None:
        self._undo: Callable[[], None] = lambda: None

    def to(self, fault: Fault | None) -> None:
        """Take the last fault out, and put this one in. Raises `ValueError` when it does not fit."""
        self._undo()
        self._undo = lambda: None
        if fault is None:
            return
        original = original_of(fault)
        wrong = faulty(fault, original)
        setters = places_of(fault, original)
        if not setters:
            raise ValueError(f"{fault.id}: {fault.place} is not used anywhere")
        books = [_book(machine.rules) for machine in MACHINES] if fault.change == "swaps" else []
        for put in setters:
            put(wrong)
        for book in books:
            book[OTHER] = _other

        def undo() -> None:
            for put in setters:
                put(original)
            for book in books:
                del book[OTHER]

        self._undo = undo
