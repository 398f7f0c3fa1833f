"""The kill matrix: for every fault the case that fails, or what is known of its survival."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from loopconform.mutants.named import HOME
from loopconform.mutants.patch import Fault
from loopconform.mutants.serve import Stage
from loopconform.protocol.case import Case, load_cases
from loopconform.runner.play import Player
from loopconform.runner.results import Result

CASES = HOME.parent / "cases"
RECORD = HOME / "kills.json"
Fate = Literal["killed", "equivalent", "hole"]


class Kill(NamedTuple):
    """What became of one fault.

    `killed`: `case` fails under `profile`; `clause` and `words` are the verdict's. `equivalent`: its complete graph is
    that of the law, at the bounds that `words` name. `hole`: nothing fails; `words` say why.
    """

    fault: str
    fate: Fate
    case: str = ""
    profile: str = ""
    clause: str = ""
    words: str = ""


def load(path: Path = RECORD) -> dict[str, Kill]:
    """The recorded matrix, by fault."""
    return {row["fault"]: Kill(**row) for row in json.loads(path.read_text(encoding="utf-8"))}


def save(kills: Iterable[Kill], path: Path = RECORD) -> None:
    """Write the matrix, one fault a line."""
    rows = [
        json.dumps({name: value for name, value in kill._asdict().items() if value}, ensure_ascii=False)
        for kill in kills
    ]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def cases_by_id(only: Iterable[str] | None = None) -> dict[str, Case]:
    """The bundled cases that need the gates; with `only`, just these, from the files that hold them."""
    folders = [CASES / name for name in ("hand", "races", "grid")]
    if only is None:
        return {case.id: case for case in load_cases(folders)}
    wanted = set(only)
    files = {CASES / "grid" / ("-".join(id.split("/")[:2]) + ".json") for id in wanted if "/" in id}
    paths = [*folders[:2], *sorted(file for file in files if file.exists())]
    return {case.id: case for case in load_cases(paths) if case.id in wanted}


def first_words(reason: str) -> str:
    """What a verdict says, in one short line."""
    line = reason.split("\n", 1)[0].strip()
    return line if len(line) <= 160 else line[:157] + "…"


class Bench:
    """Plays cases with faults in place, in one process for all of them."""

    def __init__(self, timeout: float = 10.0) -> None:
        self._stage = Stage()
        self._player = Player(self._stage.start, timeout)

    def play(self, fault: Fault | None, case: Case, profile: str) -> Result:
        """One case with one fault."""
        self._stage.set(fault)
        return self._player.play(case, profile)

    def first_kill(self, fault: Fault, tries: Sequence[tuple[Case, str]]) -> tuple[Kill | None, dict[str, int]]:
        """The first of some cases that fails, and the verdicts of all that were played."""
        counts: dict[str, int] = {}
        self._stage.set(fault)
        for case, profile in tries:
            result = self._player.play(case, profile)
            counts[result.verdict] = counts.get(result.verdict, 0) + 1
            if result.verdict == "FAIL":
                clause = result.fault.clause if result.fault is not None else ""
                return Kill(fault.id, "killed", case.id, profile, clause, first_words(result.reason)), counts
            if counts.get("ADAPTER_ERROR", 0) > DEATHS:
                break
        return None, counts

    def close(self) -> None:
        """End the process."""
        self._player.close()


DEATHS = 1
"""Cases on which the harness with a fault dies or hangs; then no further one is tried."""


def tries_of(keys: Iterable[str], cases: Mapping[str, Case]) -> list[tuple[Case, str]]:
    """`case@profile` keys as cases with profiles; those that are gone are left out."""
    found = []
    for key in keys:
        id, _, profile = key.rpartition("@")
        if id in cases:
            found.append((cases[id], profile))
    return found


__all__ = ["Any", "Bench", "Kill", "cases_by_id", "load", "save", "tries_of"]
