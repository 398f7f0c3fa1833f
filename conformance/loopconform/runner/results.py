"""What came of a run: one result for each case, never merged, and the exit code of it all."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from loopconform.judge.verdict import Fault
from loopconform.protocol.case import Case

Verdict = Literal["PASS", "FAIL", "UNDETERMINED", "NOT_IMPLEMENTED", "HARNESS_ERROR", "ADAPTER_ERROR"]
VERDICTS: tuple[Verdict, ...] = (
    "PASS", "FAIL", "UNDETERMINED", "NOT_IMPLEMENTED", "HARNESS_ERROR", "ADAPTER_ERROR",
)  # fmt: skip

EXIT = {"FAIL": 1, "ADAPTER_ERROR": 2, "UNDETERMINED": 3, "NOT_IMPLEMENTED": 4, "HARNESS_ERROR": 70}
"""The exit code of a run whose worst verdict this is. 0: everything passed, or came out as was declared."""

INTERRUPTED = 130
"""The exit code of a run that Ctrl-C has ended."""

WORST: tuple[Verdict, ...] = ("HARNESS_ERROR", "FAIL", "ADAPTER_ERROR", "UNDETERMINED", "NOT_IMPLEMENTED")


class Message(NamedTuple):
    """One line of a transcript: who said it, in JSON-ready form."""

    who: Literal["suite", "adapter"]
    body: dict[str, Any]


class Result(NamedTuple):
    """What came of one case under one profile. `shrunk`: the shortest program that still fails, when it was looked for,
    with `runs` further runs."""

    case: Case
    profile: str
    verdict: Verdict
    reason: str = ""
    fault: Fault | None = None
    transcript: tuple[Message, ...] = ()
    messages: int = 0
    seconds: float = 0.0
    shrunk: Case | None = None
    runs: int = 0

    @property
    def key(self) -> str:
        """The case and the profile, as expected failures name them."""
        return f"{self.case.id}@{self.profile}"


class Run(NamedTuple):
    """Everything about a run. `expected`: results that came out as declared; `stale`: declarations that did not."""

    adapter: str
    implementation: str
    results: tuple[Result, ...]
    expected: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()
    wanted: int = 0
    """The expected checks: the denominator. What was not run counts as missing."""
    interrupted: bool = False
    """Ctrl-C ended it."""

    def count(self, verdict: Verdict) -> int:
        """How many results have this verdict."""
        return sum(1 for result in self.results if result.verdict == verdict)

    def exit_code(self) -> int:
        """0 all well; 1 failures or stale declarations; 2 adapter errors or nothing run; 3 undecided; 4 not
        implemented; 70 a fault of the suite; 130 interrupted. The worst one wins."""
        if self.interrupted:
            return INTERRUPTED
        verdicts = {result.verdict for result in self.results if result.key not in self.expected}
        if "HARNESS_ERROR" in verdicts:
            return EXIT["HARNESS_ERROR"]
        if self.stale:
            return EXIT["FAIL"]
        if not self.results or len(self.results) < self.wanted:
            return EXIT["ADAPTER_ERROR"] if "FAIL" not in verdicts else EXIT["FAIL"]
        return next((EXIT[verdict] for verdict in WORST if verdict in verdicts), 0)
