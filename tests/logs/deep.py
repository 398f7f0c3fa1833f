"""Many generated logs, and as many with one seeded fault: the full measurement, written as docs/SEEDED-FAULTS.md.

    python -m tests.logs.deep [--logs 2000]

Exit code 1 when a sound log is refused or a log that the check accepts cannot be proved legal. `make logs-deep` runs
it. One core, some minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.progress import track
from tests.logs.building import render
from tests.logs.generated import SETTINGS, log
from tests.logs.test_generated import blamed, explained

from loopconform.check import Options, check_file

TARGET = Path(__file__).parents[2] / "docs" / "SEEDED-FAULTS.md"
VERDICTS = ("exact", "elsewhere", "noted", "accepted")


class Outcome(NamedTuple):
    """What became of one log: `sound`: it passes as it is; its fault, the verdict on that, and whether a verdict that
    lets it pass was proved right (always true for the others)."""

    number: int
    sound: bool
    fault: str
    verdict: str
    proved: bool


def outcome(number: int, root: Path) -> Outcome:
    """Check the log of this number as it is, and with its fault."""
    made = log(number)
    path = root / "log.jsonl"
    path.write_bytes(render(made.rows))
    sound = check_file(path, Options(made.profile)).verdict in ("clean", "warnings")
    verdict, fault = blamed(number, root)
    proved = verdict not in ("noted", "accepted") or explained(fault)
    return Outcome(number, sound, fault.fault, verdict, proved)


def outcomes(count: int, state: Path | None) -> list[Outcome]:
    """All outcomes, in order; those that `state` holds are taken from there, the others are added to it."""
    known: dict[int, Outcome] = {}
    if state is not None and state.exists():
        known = {item.number: item for item in (Outcome(*json.loads(line)) for line in state.read_text().splitlines())}
    with tempfile.TemporaryDirectory() as folder:
        for number in track(range(count), "logs", disable=not sys.stderr.isatty()):
            if number not in known:
                known[number] = outcome(number, Path(folder))
                if state is not None:
                    with state.open("a") as lines:
                        lines.write(json.dumps(known[number]) + "\n")
    return [known[number] for number in range(count)]


def document(all_of_them: list[Outcome]) -> str:
    """The measurement as a page of Markdown."""
    return "\n".join(_lines(all_of_them)) + "\n"


def _lines(measured: list[Outcome]) -> Iterator[str]:
    total = len(measured)
    settings = ", ".join(f"`{profile}` in format {version}" for profile, version in SETTINGS)
    faults = Counter(item.verdict for item in measured)
    kinds = Counter((item.fault, item.verdict) for item in measured)
    silent = [item for item in measured if item.verdict in ("noted", "accepted")]
    yield f"""# Seeded faults

Written by `make logs-deep`; don't edit.

{total:,} random conversations on the live harness
({settings}, by turns),
each a log that is always the same. Each is checked as it is, and once more with one fault seeded into it; seqs and
citations are put right, so that only the fault shows.

- *Exact*: an error at a line where the fault stands.
- *Elsewhere*: an error at another line, most often where the machines first have no way on.
- *Noted*: no error, but a warning. *Accepted*: neither. Such a log has to be legal, and that is proved: the machines
  are run along it without any table, and a configuration must be left behind its last row.

What was found:

- Sound logs that pass: {sum(item.sound for item in measured):,} of {total:,}."""
    for verdict in VERDICTS:
        yield f"- Faulty logs, {verdict}: {faults[verdict]:,} ({faults[verdict] / total:.1%})."
    yield f"- Noted or accepted, and proved legal: {sum(item.proved for item in silent):,} of {len(silent):,}."
    yield ""
    yield f"| fault | {' | '.join(VERDICTS)} |"
    yield "|---|---:|---:|---:|---:|"
    for kind in sorted({item.fault for item in measured}):
        yield f"| {kind.replace('_', ' ')} | {' | '.join(f'{kinds[kind, verdict]:,}' for verdict in VERDICTS)} |"
    for title, bad in (
        ("Sound logs refused, by number", [item.number for item in measured if not item.sound]),
        ("Not proved legal, by number", [item.number for item in measured if not item.proved]),
    ):
        if bad:
            yield ""
            yield f"{title}: {', '.join(map(str, bad))}."


def main() -> int:
    """Measure, write the page, say what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.logs.deep", description=__doc__)
    parser.add_argument("--logs", type=int, default=2000, help="how many logs")
    parser.add_argument("--state", type=Path, help="keep outcomes here and go on from there; for this code only")
    parser.add_argument("--out", type=Path, default=TARGET, help="the page to write")
    arguments = parser.parse_args()
    measured = outcomes(arguments.logs, arguments.state)
    page = document(measured)
    arguments.out.write_text(page, encoding="utf-8")
    print(page)
    return 0 if all(item.sound and item.proved for item in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
