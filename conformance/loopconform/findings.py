"""What a check has to say: findings, one report per file, one report per run."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from loopspec.log.rule import Level, Violation

Verdict = Literal["clean", "warnings", "findings", "torn", "undecided", "unsupported", "unreadable"]

VERDICT_TEXT: dict[Verdict, str] = {
    "clean": "clean",
    "warnings": "warnings",
    "findings": "errors",
    "torn": "torn",
    "undecided": "undecided",
    "unsupported": "not supported",
    "unreadable": "unreadable",
}

FINDING_LIMIT = 20_000
"""Findings that are kept per file; further ones are only counted."""


class Finding(NamedTuple):
    """One broken rule in one file. `line` counts from 1, 0 when there is none; `seq` is the event's number."""

    file: str
    line: int
    seq: int | None
    rule: str
    level: Level
    sentence: str
    reason: str
    legal: str = ""
    values: tuple[tuple[str, Any], ...] = ()
    column: int = 0
    frame: int = 0
    offset: int = 0


def finding(file: str, violation: Violation) -> Finding:
    """A violation that the rules found, with the file it was found in."""
    return Finding(
        file,
        violation.line,
        violation.seq,
        violation.rule,
        violation.level,
        violation.sentence,
        violation.reason,
        violation.legal,
        violation.values,
        violation.column,
        violation.frame,
        violation.offset,
    )


class FileReport(NamedTuple):
    """What came of one file. `survivors`: event rows that a torn log keeps. `message`: why it was not examined."""

    file: str
    verdict: Verdict
    findings: tuple[Finding, ...] = ()
    suppressed: int = 0
    version: int | None = None
    events: int = 0
    rows: int = 0
    message: str = ""

    def count(self, level: Level) -> int:
        """How many findings of this level are kept."""
        return sum(1 for item in self.findings if item.level == level)


class RunReport(NamedTuple):
    """What came of a run: the files examined and the names that were passed over, with the reason."""

    files: tuple[FileReport, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    strict: bool = False
    expected: tuple[str, ...] = ()
    """Files whose verdict, other than clean, was declared beforehand and came true."""
    stale: tuple[str, ...] = ()
    """Declared verdicts that did not come true, each as a sentence: they fail the run."""

    @property
    def examined(self) -> tuple[FileReport, ...]:
        return tuple(item for item in self.files if item.verdict not in ("unreadable", "unsupported"))

    def exit_code(self) -> int:
        """0 clean, 1 errors or torn logs (warnings too when strict), 2 unreadable or nothing examined, 3 undecided.

        When a run has several outcomes, errors win over unreadable files, and those over undecided ones.
        """
        verdicts = {item.verdict for item in self.files if item.file not in self.expected}
        if self.stale or "findings" in verdicts or "torn" in verdicts or (self.strict and "warnings" in verdicts):
            return 1
        if not self.examined or verdicts & {"unreadable", "unsupported"} or self.missing:
            return 2
        return 3 if "undecided" in verdicts else 0

    @property
    def missing(self) -> bool:
        """A path that the caller named could not be examined at all."""
        return bool(self.skipped)
