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

REQUESTS_AND_TOOLS = range(1, 30)
"""Rows RACE-1 to RACE-29 of section 17 of the sheet about models and tools."""

ELSEWHERE = {
    "RACE-1": "an abort between the permission and the body: `LR-142`, in a wrapper of the body",
    "RACE-2": "an abort during post-execute: `LR-145`; contexts and conclusion: `tests/harness/test_tools_aborts.py`",
    "RACE-3": "an abort against an approval: `tests/harness/test_permissions.py`, `test_tools_aborts.py` (T-303)",
    "RACE-5": "a result observer changes the next classification: `LR-150`",
    "RACE-6": "the cap changes while a group runs: `LR-152`",
    "RACE-7": "an abort in the commit of the last call, or behind the last check: `LR-146`, and explored (`scheduler`)",
    "RACE-8": "a conclusion and steering in one step: `LR-155`, `LR-156`",
    "RACE-9": "a body cancels, steers or injects: `LR-153`, `LR-154`",
    "RACE-11": "a scheduler failure during a later preparation: `LR-158`",
    "RACE-13": "one snapshot of settings a call: settings are frozen values here (M-504), `tests/model/test_loop.py`",
    "RACE-14": "an abort behind the finish chunk: `LR-119`",
    "RACE-15": "a cancel from the observer of an answer with calls: `LR-122`",
    "RACE-21": "a snapshot that compaction has shadowed: `tests/compaction/test_plugin.py`",
    "RACE-22": "a surface append during a summary: `tests/compaction/test_plugin.py`",
    "RACE-24": "idle watchdog against caller: `tests/model/test_cancel.py`",
    "RACE-25": "a stream of comments alone: `tests/model/test_cancel.py`",
    "RACE-27": "a dropped snapshot is proposed again: `LR-100`",
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
    """`test_lr_043_…` shows `LR-043`, `test_cw7_…` shows `CW7`, `test_race_4_…` shows `RACE-4`; else no row."""
    if not name.startswith("test_"):
        return ""
    _, kind, *rest = name.split("_")
    if kind == "lr":
        return f"LR-{rest[0]}"
    if kind == "race":
        return f"RACE-{rest[0]}"
    return kind.upper() if kind[:2] == "cw" or (kind[0] == "k" and kind[1:].isdigit()) else ""


def rows() -> Iterator[tuple[str, list[str]]]:
    """The rows of the catalogue, section by section."""
    for title, first, last in GROUPS:
        yield title, [f"LR-{number:03}" for number in range(first, last + 1)]
    yield "Windows of a cancel", [f"CW{number}" for number in WINDOWS]
    yield "Field cases", list(FIELD_CASES)
    yield "Requests, retries and tools", [f"RACE-{number}" for number in REQUESTS_AND_TOOLS]


DECIDED = {
    "RACE-16": "`cancel_wins_backoff_tie`: under `seed` a cancel that ties with the timer leaves the retry unstarted.",
    "RACE-18": "Everywhere as published: listeners are cooperative and are waited for, also after a cancel. Work that "
    "nobody waits for would outlive its turn.",
    "RACE-21": "See `loopspec.profile` and compaction: `seed` proposes the snapshot again in the same step.",
    "RACE-23": "`adapter_call_ids_are_checked`: under `seed` the attempt fails as `MALFORMED_RESPONSE`; our own "
    "adapter mints missing ids before that (`wire_call_ids_are_minted`).",
    "RACE-25": "Everywhere as published: comments are a sign of life, and the user has a cancel.",
    "RACE-26": "`observer_operations_wait`: under `seed` the operation waits until the log is free.",
    "M-542": "`wire_shapes_are_checked`: under `seed` JSON of the wrong shape is `MALFORMED_RESPONSE`, not retried.",
    "M-543": "`wire_errors_fail_attempt`: under `seed` an error inside the stream ends the attempt with its message.",
}
"""What the sheets leave to be decided, and how."""


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
    lines += ["", "## Decided", "", "| row | how |", "|---|---|"]
    lines += [f"| {id} | {how} |" for id, how in DECIDED.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
