"""What the page shows, counted and sorted: plain values for the template, no markup."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from loopconform.runner.diagram import MOST, Arrow, arrows, program_text
from loopconform.runner.results import VERDICTS, Result, Run

LONGEST = 400
"""Characters of one message in a diagram."""
NOT_RUN = "NOT_RUN"

VERDICT_SHAPES = {
    "PASS": "✓",
    "FAIL": "✗",
    "UNDETERMINED": "?",
    "NOT_IMPLEMENTED": "–",
    "HARNESS_ERROR": "‼",
    "ADAPTER_ERROR": "!",
    NOT_RUN: "·",
}
"""A sign for each verdict, so that no verdict is told by its colour alone."""


class Count(NamedTuple):
    """How many results have a verdict, and which part of the whole that is, in percent."""

    verdict: str
    amount: int
    part: float = 0.0


class AreaRow(NamedTuple):
    """The results of one area, by verdict in the order of `VERDICTS`."""

    area: str
    counts: tuple[int, ...]
    total: int


class CaseRow(NamedTuple):
    """One result in the list of all. `failure`: the anchor of its full account, empty for a pass."""

    anchor: str
    id: str
    title: str
    area: str
    profile: str
    level: str
    verdict: str
    expected: bool
    failure: str


class Failure(NamedTuple):
    """One result that is no pass, with everything that is known about it."""

    anchor: str
    row: CaseRow
    clauses: tuple[str, ...]
    reason: str
    clause: str
    sentence: str
    guard: str
    legal: tuple[str, ...]
    before: tuple[str, ...]
    shown: str
    program: str
    program_words: str
    diagram: tuple[Arrow, ...]
    left_out: int


class Clause(NamedTuple):
    """A clause and its cases, as numbers into the list of all. `bad` are those that did not pass."""

    id: str
    counts: tuple[Count, ...]
    cases: tuple[int, ...]
    bad: tuple[CaseRow, ...]


class Page(NamedTuple):
    """Everything."""

    implementation: str
    adapter: str
    profiles: tuple[str, ...]
    passed: int
    wanted: int
    exit_code: int
    counts: tuple[Count, ...]
    expected: int
    stale: tuple[str, ...]
    verdicts: tuple[str, ...]
    areas: tuple[AreaRow, ...]
    totals: AreaRow
    failures: tuple[Failure, ...]
    clauses: tuple[Clause, ...]
    cases: tuple[CaseRow, ...]
    listing: tuple[tuple[str, str, str], ...]
    """For the page's script: of each case its anchor, its name and its verdict."""


def view(run: Run) -> Page:
    """A run, as the page shows it. Verdicts are counted apart, and what was not run is counted too."""
    results = run.results
    profiles = tuple(dict.fromkeys(result.profile for result in results))
    rows = tuple(_row(at, result, result.key in run.expected) for at, result in enumerate(results, 1))
    missing = max(0, run.wanted - len(results))
    whole = max(run.wanted, len(results), 1)
    counts = [(verdict, run.count(verdict)) for verdict in VERDICTS] + ([(NOT_RUN, missing)] if missing else [])
    several = len(profiles) > 1
    return Page(
        run.implementation or run.adapter,
        run.adapter,
        profiles,
        run.count("PASS"),
        run.wanted,
        run.exit_code(),
        tuple(Count(verdict, count, 100 * count / whole) for verdict, count in counts),
        len(run.expected),
        run.stale,
        VERDICTS,
        tuple(_area(area, results) for area in sorted({result.case.area for result in results})),
        AreaRow("all", tuple(run.count(verdict) for verdict in VERDICTS), len(results)),
        tuple(_failure(row, result) for row, result in zip(rows, results, strict=True) if row.failure),
        tuple(_clauses(rows, results)),
        rows,
        tuple((row.anchor, f"{row.id} ({row.profile})" if several else row.id, row.verdict) for row in rows),
    )


def _row(at: int, result: Result, expected: bool) -> CaseRow:
    case = result.case
    failure = "" if result.verdict == "PASS" else f"failure-{at}"
    return CaseRow(
        f"case-{at}", case.id, case.title, case.area, result.profile, case.level, result.verdict, expected, failure
    )


def _area(area: str, results: Iterable[Result]) -> AreaRow:
    verdicts = [result.verdict for result in results if result.case.area == area]
    return AreaRow(area, tuple(verdicts.count(verdict) for verdict in VERDICTS), len(verdicts))


def _failure(row: CaseRow, result: Result) -> Failure:
    fault, shrunk = result.fault, result.shrunk
    case = result.case if shrunk is None else shrunk
    said = "as the case has it" if shrunk is None else f"the shortest that still fails, found in {result.runs} runs"
    steps = [arrow._replace(words=_cut(arrow.words)) for arrow in arrows(result.transcript)]
    return Failure(
        row.failure,
        row,
        result.case.clauses,
        (fault.reason if fault is not None else result.reason) or "no reason was given",
        "" if fault is None else fault.clause,
        "" if fault is None else fault.sentence,
        "" if fault is None else fault.guard,
        () if fault is None else fault.legal,
        () if fault is None else tuple(_cut(line) for line in fault.before[-5:]),
        "" if fault is None else _cut(fault.reply),
        program_text(case.program),
        said,
        tuple(steps[-MOST:]),
        max(0, len(steps) - MOST),
    )


def _clauses(rows: tuple[CaseRow, ...], results: tuple[Result, ...]) -> Iterable[Clause]:
    found: dict[str, list[int]] = {}
    for at, result in enumerate(results):
        for clause in dict.fromkeys(result.case.clauses):
            found.setdefault(clause, []).append(at)
    for clause in sorted(found, key=_natural):
        cases = found[clause]
        verdicts = [rows[at].verdict for at in cases]
        counts = (Count(verdict, verdicts.count(verdict)) for verdict in VERDICTS)
        yield Clause(
            clause,
            tuple(count for count in counts if count.amount),
            tuple(cases),
            tuple(rows[at] for at in cases if rows[at].failure),
        )


def _natural(name: str) -> list[tuple[int, int, str]]:
    """Sorts `L-IN-9` before `L-IN-10`."""
    return [(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.split(r"([0-9]+)", name)]


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= LONGEST else flat[: LONGEST - 1] + "…"
