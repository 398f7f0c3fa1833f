"""`python -m loopconform.grid`: play the grid anew, write the case files and the table of clauses.

Takes minutes. One file for each story, an array of cases, one request a line. `--check` writes nothing and tells
whether the files are those that would be written.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path

from loopconform.grid.coverage import table
from loopconform.grid.generate import Dropped, Generator, Kept
from loopconform.protocol.case import Case, load_cases

HOME = Path(__file__).parents[2]
GRID = HOME / "cases" / "grid"
COVERAGE = HOME / "COVERAGE.md"


def pack(cases: list[Case]) -> str:
    """The text of a file of cases."""
    return "[\n" + ",\n".join(case.with_hash().dumped().rstrip("\n") for case in cases) + "\n]\n"


def main() -> int:
    """Generate. Answers the exit code."""
    files: dict[str, list[Case]] = defaultdict(list)
    dropped: list[Dropped] = []
    rules: set[tuple[str, str]] = set()
    generator = Generator()
    for made in generator.everything():
        if isinstance(made, Kept):
            family, story = made.case.id.split("/")[:2]
            files[f"{family}-{story}.json"].append(made.case)
            rules |= made.rules
        else:
            dropped.append(made)
    texts = {name: pack(cases) for name, cases in sorted(files.items())}
    if "--check" in sys.argv[1:]:
        wrong = [name for name, text in texts.items() if (GRID / name).read_text(encoding="utf-8") != text]
        print(f"{len(texts)} files, {len(wrong)} differ" + "".join(f"\n  {name}" for name in wrong))
        return 1 if wrong else 0
    for case in load_cases([path for path in (HOME / "cases").iterdir() if path != GRID]):
        if "seed" in case.profiles:
            rules |= generator.rules_of(case)
    generator.player.close()
    GRID.mkdir(parents=True, exist_ok=True)
    for old in set(GRID.glob("*.json")) - {GRID / name for name in texts}:
        old.unlink()
    for name, text in texts.items():
        (GRID / name).write_text(text, encoding="utf-8")
    COVERAGE.write_text(table(list(load_cases([HOME / "cases"])), rules), encoding="utf-8")
    print(f"{sum(map(len, files.values()))} cases in {len(files)} files; {len(dropped)} programs are no case:")
    for reason, count in Counter(one.reason[:100] for one in dropped).most_common():
        print(f"  {count:5} {reason}")
    failing = [one for one in dropped if not one.reason.startswith("the place")]
    for one in failing:
        print(f"  {one.id}: {one.reason}")
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
