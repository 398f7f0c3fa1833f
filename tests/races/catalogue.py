"""Which test shows which row of the race catalogue: the page `tests/races/README.md`, written from the tests.

.venv/bin/python -m tests.races.catalogue     # writes the page

A test shows the row that its name begins with: `test_lr_043_…`, `test_cw7_…`, `test_k02_…`. A row without a test needs
an entry in `ELSEWHERE`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
PAGE = HERE / "README.md"

GROUPS: tuple[tuple[str, int, int], ...] = (
    ("Insertion and waking", 1, 25),
    ("The wake latch", 30, 47),
    ("Cancel against delivery", 50, 62),
    ("Ends of a run", 70, 87),
    ("Proposal", 90, 101),
    ("Request and stream", 110, 128),
    ("Recovery", 130, 137),
    ("Tools", 140, 163),
    ("Stopping and turn end", 170, 180),
    ("Maintenance", 190, 198),
    ("Refused appends", 200, 209),
    ("Disposal, creation, initiator", 220, 235),
)
"""The sections 19.1 to 19.12 of the fact sheet, with the numbers of their first and last row."""

WINDOWS = range(1, 22)
"""Rows CW1 to CW21 of section 5.1."""

FIELD_CASES = ("K02", "K04", "K06", "K08", "K15")

ELSEWHERE = {
    "LR-230": "a wake before the agent is published: R-57 to R-59 of the races of creation, `tests/creation`",
    "LR-231": "a wake while the agent service closes: R-72 of the races of creation, `tests/creation`",
}
"""Rows without a test here, and why."""


class Shown(NamedTuple):
    """One test function."""

    row: str
    file: str
    name: str
    says: str


def everything() -> Iterator[Shown]:
    """All tests of this folder that show a row, in the order of their files."""
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.AsyncFunctionDef) and (row := row_of(node.name)):
                says = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                yield Shown(row, path.name, node.name, says)


def row_of(name: str) -> str:
    """`test_lr_043_…` shows `LR-043`, `test_cw7_…` shows `CW7`, `test_k02_…` shows `K02`; anything else no row."""
    if not name.startswith("test_"):
        return ""
    _, kind, *rest = name.split("_")
    if kind == "lr":
        return f"LR-{rest[0]}"
    return kind.upper() if kind[:2] == "cw" or (kind[0] == "k" and kind[1:].isdigit()) else ""


def rows() -> Iterator[tuple[str, list[str]]]:
    """The rows of the catalogue, section by section."""
    for title, first, last in GROUPS:
        yield title, [f"LR-{number:03}" for number in range(first, last + 1)]
    yield "Windows of a cancel", [f"CW{number}" for number in WINDOWS]
    yield "Field cases", list(FIELD_CASES)


def page() -> str:
    """The page."""
    shown: dict[str, list[Shown]] = {}
    for test in everything():
        shown.setdefault(test.row, []).append(test)
    lines = [
        "# Races",
        "",
        "Every row of the race catalogue as a test on the live harness, under asyncio and trio, without a sleep: a",
        "test acts inside one exact window of the trace, or holds the agent at a gate. Outcomes are those of the",
        "catalogue: `dsh-0.1` shows what published DSH shows; `seed` shows the same unless its test says otherwise,",
        "and then a row of `loopspec.profile` says why. Written by `python -m tests.races.catalogue`.",
    ]
    for title, ids in rows():
        lines += ["", f"## {title}", "", "| row | shown by | what has to happen |", "|---|---|---|"]
        for id in ids:
            if id not in shown:
                lines.append(f"| {id} | | {ELSEWHERE[id]} |")
            lines += [f"| {id} | `{test.file}` `{test.name}` | {test.says} |" for test in shown.get(id, [])]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
