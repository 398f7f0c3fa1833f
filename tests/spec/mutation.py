"""Named faults, one at a time: a guard that is missing, a branch that is swapped, an effect that comes too early.

A mutant is a change of one line in the text of one rule or guard. `applied` puts the changed function in place (in the
module, and in the book of rules that machines read) and takes it out again, so that it works on an exploration and on
a live agent alike. The text must occur exactly once: a mutant that no longer fits is an error, not a survivor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from loopconform.mutants.named import entries
from loopconform.mutants.patch import changed
from loopspec.kernel.machine import Rule
from loopspec.profile import Profile


class Mutant(NamedTuple):
    """One fault. `target` is the label of a rule, or the name of a guard; `killer` the promise that it breaks."""

    name: str
    target: str
    old: str
    new: str
    sentence: str
    killer: str
    """The name of a promise, or `equivalent` for a fault that changes no edge at its bound.

    `equivalent but for <field>`: the graphs are bisimilar, label by label, and equal once that field is dropped.
    """
    bound: str = "one"
    profile: Profile = "seed"
    session_format: int = 0


def loaded(file: str) -> tuple[Mutant, ...]:
    """The faults of `conformance/mutants/<file>.yaml`, which live harnesses are given too."""
    return tuple(
        Mutant(
            entry["name"],
            entry.get("label", entry["in"]),
            entry["old"],
            entry["new"],
            entry["sentence"],
            entry["breaks"],
            entry["bound"],
            entry.get("profile", "seed"),
            entry.get("format", 0),
        )
        for entry in entries(file)
    )


@contextmanager
def applied(mutant: Mutant, books: Mapping[str, dict[str, Rule]], modules: Mapping[str, Any]) -> Iterator[None]:
    """Put a mutant in place, and take it out again.

    A target that is a label of some book is replaced in all of them; any other is an attribute of all modules that
    have it (`modules` may hold machines as well, which keep a guard of their own).
    """
    holders: list[tuple[Any, str, Any]] = []
    for book in books.values():
        if mutant.target in book:
            holders.append((book, mutant.target, book[mutant.target]))
    if not holders:
        for module in modules.values():
            if hasattr(module, mutant.target):
                holders.append((vars(module), mutant.target, getattr(module, mutant.target)))
    if not holders:
        raise ValueError(f"{mutant.name}: nothing is called {mutant.target!r}")
    fault = changed(holders[0][2], mutant.old, mutant.new)
    try:
        for holder, name, _ in holders:
            holder[name] = fault
        yield
    finally:
        for holder, name, original in holders:
            holder[name] = original


__all__ = ["Mutant", "applied", "changed", "loaded"]
