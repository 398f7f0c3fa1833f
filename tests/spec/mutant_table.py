"""The page of named faults, `spec/MUTANTS.md`.

.venv/bin/python -m tests.spec.mutant_table     # writes the page
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.spec import mutants_driver, mutants_inbox
from tests.spec.mutation import Mutant

HEAD = """# Named faults of the inbox and the driver

One line of one rule or guard is changed at a time (`tests/spec/mutants_driver.py`, `tests/spec/mutants_inbox.py`).
Each fault is explored completely at a small bound, and must break the promise named here. *equivalent* says that every
labelled edge is the same with the fault and without it, at that bound: the changed text is a second belt. *equivalent
but for* a field says that the two graphs are bisimilar, label by label, and equal once that field is dropped.

This page is written by `python -m tests.spec.mutant_table`; a test compares it.
"""


def rows(mutants: tuple[Mutant, ...]) -> list[str]:
    """One table row a mutant."""
    return [
        f"| {one.name} | `{one.target}` | {one.sentence} | {one.killer} "
        f"| {one.profile}/v{one.session_format}, {one.bound} |"
        for one in mutants
    ]


def page() -> str:
    """The whole page."""
    text = [HEAD]
    for title, mutants in (("Driver and attempt", mutants_driver.MUTANTS), ("Inbox", mutants_inbox.MUTANTS)):
        equivalent = sum(one.killer.startswith("equivalent") for one in mutants)
        counts = Counter(one.killer for one in mutants if not one.killer.startswith("equivalent"))
        text.append(
            f"## {title}\n\n{len(mutants)} faults: {len(mutants) - equivalent} killed, {equivalent} equivalent.\n"
        )
        text.append("Killers: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) + ".\n")
        text.append("| fault | in | what it does | killed by | explored under |\n|---|---|---|---|---|")
        text.append("\n".join(rows(mutants)) + "\n")
    return "\n".join(text)


def main() -> None:
    """Write the page."""
    (Path(__file__).parents[2] / "spec" / "MUTANTS.md").write_text(page())


if __name__ == "__main__":
    main()
