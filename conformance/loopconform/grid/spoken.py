"""Which rules of the law speak while a case is judged, and so which clauses the case is about."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from loopconform.clauses import mentioned, order
from loopspec import creation, driver, scheduler
from loopspec.kernel.machine import Machine, Rule, Rules
from loopspec.loop import Composition


class Heard(Rules):
    """A book of rules that remembers which of them were asked."""

    def __init__(self, book: Mapping[str, Rule], labels: set[str]) -> None:
        super().__init__(book)
        self.labels = labels

    def __getitem__(self, label: str) -> Rule:
        self.labels.add(label)
        return super().__getitem__(label)


class Ear:
    """Hears the rules of driver, scheduler and creation."""

    def __init__(self) -> None:
        self.labels: dict[str, set[str]] = {"driver": set(), "scheduler": set(), "creation": set()}
        drives, schedules = driver.MACHINE, scheduler.MACHINE
        self.machine = Composition(
            Machine(Heard(drives.rules, self.labels["driver"]), drives.waits, drives.unsettled),
            Machine(Heard(schedules.rules, self.labels["scheduler"]), schedules.waits, schedules.unsettled),
        )

    @contextmanager
    def listening(self) -> Iterator[None]:
        """The creation machine is one for all judges: it is heard inside this block."""
        sound = creation.MACHINE.rules
        creation.MACHINE.rules = Heard(sound, self.labels["creation"])
        try:
            yield
        finally:
            creation.MACHINE.rules = sound

    def clear(self) -> None:
        """Forget what was heard."""
        for labels in self.labels.values():
            labels.clear()

    def rules(self) -> frozenset[tuple[str, str]]:
        """What was heard since then, as (machine, rule)."""
        return frozenset((machine, label) for machine, labels in self.labels.items() for label in labels)


BOOKS: dict[str, Mapping[str, Rule]] = {
    "driver": driver.MACHINE.rules,
    "scheduler": scheduler.MACHINE.rules,
    "creation": creation.MACHINE.rules,
}


def clauses_of(rules: frozenset[tuple[str, str]]) -> tuple[str, ...]:
    """The clauses that the docstrings of these rules name."""
    found = {clause for machine, label in rules for clause in mentioned(inspect.getdoc(BOOKS[machine][label]) or "")}
    return tuple(sorted(found, key=order))
