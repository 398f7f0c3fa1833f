"""The page that says how often which cases were repeated, and what came out: one row for each way to repeat them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from loopconform.runner.repeat import Repeated

HEAD = """# The same case again and again

Written by `loopspec conform repeat --page`; `make races-100` writes all rows. Each case is played so many times, and
every repetition is judged. Two traces are the same when in every settle window the order of what happened to each agent
is the same, and the same hooks arrived and the same promises settled. Several traces are a failure, unless the program
itself lets two tasks race (a task that is queued beside the loop, bodies of parallel calls that no gate holds): which
of them goes first is nobody's promise, and each trace must be lawful.

| adapter | law | cases | times | passed | one trace | several lawful traces |
|---|---|---:|---:|---:|---:|---|
"""
RULE = HEAD.splitlines()[-1]


class Row(NamedTuple):
    """One way to repeat, and what came out. `adapter` and `laws` tell the rows apart."""

    adapter: str
    laws: str
    times: int
    found: tuple[Repeated, ...]

    @property
    def key(self) -> str:
        """How the row begins."""
        return f"| {self.adapter} | {self.laws} |"

    def __str__(self) -> str:
        passed = sum(one.verdicts.get("PASS", 0) for one in self.found)
        single = sum(one.traces == 1 for one in self.found)
        several = "; ".join(f"`{one.case}` {one.traces}" for one in self.found if one.is_steady and one.traces > 1)
        counts = f"{len(self.found)} | {self.times} | {passed} of {len(self.found) * self.times} | {single}"
        return f"{self.key} {counts} | {several or 'none'} |"


def put(page: Path, row: Row) -> None:
    """Write a row into the page, in the place of the one that began alike."""
    lines = page.read_text(encoding="utf-8").splitlines() if page.exists() else []
    rows = [line for line in lines[lines.index(RULE) + 1 :] if line] if RULE in lines else []
    kept = [line for line in rows if not line.startswith(row.key)]
    page.write_text(HEAD + "\n".join(sorted([*kept, str(row)])) + "\n", encoding="utf-8")


def named(adapter: str, backend: str, reference: str) -> str:
    """An adapter in a few words: without the path to it, the reference harness with its event loop."""
    command, *arguments = adapter.split()
    path = Path(command)
    folder = path.parent if path.name == "run" else path
    loop = (backend,) if adapter.startswith(reference) else ()
    return " ".join((folder.name, *loop, *arguments))


def summary(found: Sequence[Repeated], times: int) -> str:
    """The last lines of the command."""
    single = sum(one.traces == 1 for one in found)
    passed = sum(one.verdicts.get("PASS", 0) for one in found)
    text = f"{passed} of {len(found) * times} repetitions passed; {single} of {len(found)} cases with one trace"
    racing = sum(one.traces > 1 and one.is_steady for one in found)
    beside = "with several lawful ones: they let two tasks race"
    return f"{text}\n{racing} {beside}" if racing else text
