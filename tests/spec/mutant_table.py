"""The page of named faults, `spec/MUTANTS.md`.

.venv/bin/python -m tests.spec.mutant_table     # writes the page
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.spec import (
    mutants_creation,
    mutants_driver,
    mutants_inbox,
    mutants_request,
    mutants_retry,
    mutants_scheduler,
)
from tests.spec.mutation import Mutant

HEAD = """# Named faults of the machines

One line of one rule or guard is changed at a time (`tests/spec/mutants_*.py`). Each fault is explored completely at a
small bound, and must break the promise named here, or lose the witness named here. *equivalent* says that every
labelled edge is the same with the fault and without it, at that bound: the changed text is a second belt. *equivalent
but for* a field says that the two graphs are bisimilar, label by label, and equal once that field is dropped.

This page is written by `python -m tests.spec.mutant_table`; a test compares it.
"""


class Row(NamedTuple):
    """One fault, as the page shows it."""

    fault: str
    target: str
    does: str
    killer: str
    where: str


def of_machine(mutants: tuple[Mutant, ...]) -> Iterator[Row]:
    """Driver, inbox and retries."""
    for one in mutants:
        where = f"{one.profile}/v{one.session_format}, {one.bound}"
        yield Row(one.name, one.target, one.sentence, one.killer, where)


def of_request() -> Iterator[Row]:
    """What makes a request: the faults are told by the text that changes."""
    for one in mutants_request.MUTANTS:
        does = f"`{one.old}` becomes `{one.new}`" if one.new else f"`{one.old}` is left out"
        yield Row(one.name, one.target, does, one.killer, f"seed/v{one.session_format}, {one.bound}")


def of_scheduler() -> Iterator[Row]:
    """The tool scheduler; the equivalent ones are told by their reason."""
    names = {freedom: name for name, freedom in mutants_scheduler.WHERE.items()}
    for one in mutants_scheduler.MUTANTS:
        yield Row(one.fault, one.target, one.sentence, one.claim, f"{one.profile}/v4, {names[one.freedom]}")
    for why, *_ in mutants_scheduler.EQUIVALENT:
        fault, _, reason = why.partition(": ")
        yield Row(fault, "", f"Nothing: {reason}.", "equivalent", "seed/v4, order")


def of_creation() -> Iterator[Row]:
    """Creation, registries and teardown."""
    for one in mutants_creation.MUTANTS:
        yield Row(one.fault, f"{one.module}.{one.target}", one.sentence, one.killer, f"seed/v0, {one.bound}")
    for why, module, original, replacement, bound in mutants_creation.EQUIVALENT:
        yield Row(
            f"`{original}` becomes `{replacement}`", module, f"Nothing: {why}.", "equivalent", f"seed/v0, {bound}"
        )


SECTIONS: dict[str, tuple[Row, ...]] = {
    "Driver and attempt": tuple(of_machine(mutants_driver.MUTANTS)),
    "Inbox": tuple(of_machine(mutants_inbox.MUTANTS)),
    "Tool scheduler": tuple(of_scheduler()),
    "Creation, registries and teardown": tuple(of_creation()),
    "Retries": tuple(of_machine(mutants_retry.MUTANTS)),
    "Requests": tuple(of_request()),
}


def plain(text: str) -> str:
    """A text that can stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def page() -> str:
    """The whole page."""
    text = [HEAD]
    for title, rows in SECTIONS.items():
        equivalent = sum(row.killer.startswith("equivalent") for row in rows)
        counts = Counter(row.killer for row in rows if not row.killer.startswith("equivalent"))
        text.append(f"## {title}\n\n{len(rows)} faults: {len(rows) - equivalent} killed, {equivalent} equivalent.\n")
        text.append("Killers: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) + ".\n")
        text.append("| fault | in | what it does | killed by | explored under |\n|---|---|---|---|---|")
        for row in rows:
            target = f"`{row.target}`" if row.target else ""
            text.append(f"| {plain(row.fault)} | {target} | {plain(row.does)} | {row.killer} | {row.where} |")
        text.append("")
    return "\n".join(text)


def main() -> None:
    """Write the page."""
    (Path(__file__).parents[2] / "spec" / "MUTANTS.md").write_text(page())


if __name__ == "__main__":
    main()
