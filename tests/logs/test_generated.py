"""Random conversations of the live harness pass; one fault in such a log is found, mostly at its very line.

A few in every test run; for the full measurement:

    make logs-deep
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from tests.logs.building import render
from tests.logs.generated import Faulty, faulty, log

from loopconform.check import Options, check_file
from loopspec.log.acceptance import law_of
from loopspec.log.observation import Course, Misnumbered
from loopspec.log.oracle import Oracle

MANY = int(os.environ.get("LOOPSPEC_GENERATED", "24"))


def test_generated_logs_pass(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    seen: Counter[str] = Counter()
    for number in range(MANY):
        made = log(number)
        seen.update(str(row["type"]) for row in made.rows)
        path.write_bytes(render(made.rows))
        report = check_file(path, Options(made.profile))
        assert report.verdict in ("clean", "warnings"), (number, report.findings)
        assert {item.rule for item in report.findings if item.level == "W"} <= {"S-ACC-3", "S-LNT-107"}, number
    # the conversations are not all of one kind
    assert {"turn/end", "tool/result", "assistant/chunk", "system/message"} <= seen.keys()
    assert seen["tool/call"] > MANY / 2


class Blame(NamedTuple):
    """What became of a seeded fault: `exact`, `elsewhere`, `noted` (a warning or information), `accepted`."""

    verdict: str
    made: Faulty


def blamed(number: int, root: Path) -> Blame:
    """Check one log with one fault."""
    made = faulty(number)
    path = root / "faulty.jsonl"
    path.write_bytes(render(made.rows))
    found = check_file(path, Options(made.profile)).findings
    errors = [item for item in found if item.level in ("E", "U")]
    if any(item.line in made.lines for item in errors):
        return Blame("exact", made)
    if errors:
        return Blame("elsewhere", made)
    return Blame("noted" if any(item.level == "W" for item in found) else "accepted", made)


def explained(made: Faulty) -> bool:
    """Proof that a log is a run: a configuration is left behind its last row. Without the automaton's memory."""
    oracle = Oracle(law_of(made.profile, int(made.rows[0]["version"])), depth=3)
    course = Course(made.rows[0])
    points = frozenset((oracle.first(),))
    for row in made.rows[1:]:
        try:
            points = oracle.successors(points, course.observe(row))
        except Misnumbered:
            return False
    return bool(points)


def test_seeded_faults_are_found(tmp_path: Path) -> None:
    """A fault that is found nowhere made another legal log: that is proved, not assumed."""
    counts: Counter[str] = Counter()
    kinds: Counter[tuple[str, str]] = Counter()
    for number in range(MANY):
        verdict, made = blamed(number, tmp_path)
        counts[verdict] += 1
        kinds[made.fault, verdict] += 1
        if verdict in ("accepted", "noted"):
            assert explained(made), (number, made.fault, made.lines)
    total = sum(counts.values())
    print(f"\n{total} faults: {dict(counts)}")
    for (fault, verdict), count in sorted(kinds.items()):
        print(f"  {fault:14} {verdict:10} {count}")
    # few logs scatter: the shares are asked in full of a large run only
    slack = 0 if total >= 100 else 0.15
    assert counts["exact"] + counts["elsewhere"] >= (0.75 - slack) * total
    assert counts["exact"] >= (0.6 - slack) * total
