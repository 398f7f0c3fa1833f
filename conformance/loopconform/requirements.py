"""The frozen lists of required clauses: `conformance/requirements/<contract version>.yaml`.

One line for each clause: at which levels, and under which profiles, the suite has a case about it. What is in the list
stays required: a clause that loses its last case there, or vanishes from the suite, fails a test. A clause whose cases
go away on purpose needs a new contract version. `python -m loopconform.requirements` adds what is new to the list of
the current version, and takes nothing out.

Levels are those of the cases; what recorded logs are checked for (L0) is every rule of the log checker.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from loopconform.black_box.scenario import load_scenarios
from loopconform.catalogue import rule_entries
from loopconform.cli import version
from loopconform.protocol.case import Case, load_cases

HOME = Path(__file__).parents[1]
FOLDER = HOME / "requirements"
BLACK_BOX = HOME / "cases" / "black-box" / "model.yaml"
LOGS = "logs"
"""The profile of level L0: rules of logs are those of a dialect, not of a profile."""

HEAD = """\
# The clauses that contract version {version} requires, with the levels and profiles at which the suite has a case.
# Frozen: `python -m loopconform.requirements` adds lines and takes none out.
"""


class Required(NamedTuple):
    """A clause has a case of this level that means something under this profile."""

    clause: str
    level: str
    profile: str


def path_of(contract: str) -> Path:
    """The file of a contract version."""
    return FOLDER / f"{contract}.yaml"


def load(path: Path) -> frozenset[Required]:
    """A list that was frozen. Raises `ValueError` when it is not of that form."""
    listed = yaml.safe_load(path.read_bytes())
    if not isinstance(listed, dict):
        raise ValueError(f"{path} must map clauses to levels and profiles")
    return frozenset(
        Required(clause, level, profile)
        for clause, levels in listed.items()
        for level, profiles in levels.items()
        for profile in profiles
    )


def offered(cases: Iterable[Case]) -> frozenset[Required]:
    """What these cases, the black-box scenarios and the log rules are about."""
    found = {
        Required(clause, case.level, profile) for case in cases for clause in case.clauses for profile in case.profiles
    }
    found |= {Required(clause, "L1", "seed") for one in load_scenarios([BLACK_BOX]) for clause in one.clauses}
    return frozenset(found | {Required(rule.id, "L0", LOGS) for rule in rule_entries()})


def lost(required: Iterable[Required], offered: frozenset[Required]) -> list[Required]:
    """What is required and has no case any more."""
    return sorted(set(required) - offered)


def text(required: Iterable[Required], contract: str) -> str:
    """The file: one clause a line."""
    levels: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for clause, level, profile in sorted(required):
        levels[clause][level].append(profile)
    lines = [f"{clause}: {{{', '.join(_levels(found))}}}\n" for clause, found in sorted(levels.items())]
    return HEAD.format(version=contract) + "".join(lines)


def _levels(found: Mapping[str, Any]) -> list[str]:
    return [f"{level}: [{', '.join(profiles)}]" for level, profiles in sorted(found.items())]


def main() -> int:
    """Add what is new to the list of this version. Answers the exit code: 1 when something required is lost."""
    contract = version()
    path = path_of(contract)
    frozen = load(path) if path.exists() else frozenset()
    now = offered(load_cases([HOME / "cases"]))
    for clause, level, profile in lost(frozen, now):
        print(f"{clause} has no case at {level} under {profile} any more", file=sys.stderr)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text(frozen | now, contract), encoding="utf-8")
    print(f"{path.name}: {len(frozen)} required before, {len(frozen | now)} now")
    return 1 if lost(frozen, now) else 0


if __name__ == "__main__":
    sys.exit(main())
