"""The faults that need no idea: every guard answered always and never, every effect skipped, and swapped with the next.

A *guard* is a function of a machine's module that answers true or false. An effect can be skipped when it is an append
or a notification (the rule of the frame behind it speaks in its place).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from loopconform.mutants.patch import HEARD, MACHINES, Change, Fault
from loopspec import attempt, creation, driver, inbox, registry, scheduler, teardown, transaction

MODULES: tuple[ModuleType, ...] = (driver, attempt, inbox, scheduler, creation, registry, teardown, transaction)
"""The modules of the machines that the protocol drives."""

NO_RULES = ("is_quiet", "is_question", "is_over")
"""Answers of these are for those who drive a machine; they state no rule."""

WORDS: dict[Change, str] = {
    "always": "`{}` always answers yes.",
    "never": "`{}` always answers no.",
    "skips": "The effect of `{}` does not happen.",
    "swaps": "The effect of `{}` changes places with the next one.",
}


def functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions that a module defines, in its order."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and value.__module__ == module.__name__ and value.__name__ == name:
            yield name, value


def is_guard(function: Any) -> bool:
    """True for a function that answers true or false."""
    return bool(function.__annotations__.get("return") == "bool")


def is_rule(function: Any) -> bool:
    """True for a rule of a machine that has an effect that somebody can see."""
    spoken = any(function in machine.rules.values() for machine in MACHINES)
    source = inspect.getsource(function)
    return spoken and any(f"{verb}(" in source for verb in (*HEARD, "note", "mutate"))


def faults() -> Iterator[Fault]:
    """All of them, in the order of the text."""
    for module in MODULES:
        for name, function in functions(module):
            changes: tuple[Change, ...] = ()
            if is_guard(function) and name not in NO_RULES:
                changes = ("always", "never")
            elif is_rule(function):
                changes = ("skips", "swaps")
            for change in changes:
                short = module.__name__.rpartition(".")[2]
                id = f"systematic/{short}-{name.replace('_', '-')}-{change}"
                yield Fault(id, module.__name__, name, change, sentence=WORDS[change].format(name))
