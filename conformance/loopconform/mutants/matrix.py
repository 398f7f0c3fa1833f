"""The kill matrix: for every fault the case that fails, or what is known of its survival."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from loopconform.mutants.named import HOME
from loopconform.mutants.patch import Fault
from loopconform.mutants.serve import Stage
from loopconform.protocol.case import Case, load_cases
from loopconform.protocol.requests import React, Veto
from loopconform.runner.channel import AdapterError
from loopconform.runner.fuzz import walk_case
from loopconform.runner.play import Player
from loopconform.runner.results import Result
from loopconform.runner.shrink import shrunk

CASES = HOME.parent / "cases"
FOUND = HOME / "found.json"
"""Cases that random programs have found where no bundled case kills, shrunk."""
RECORD = HOME / "kills.json"
Fate = Literal["killed", "dead", "equivalent", "unobservable", "lawful", "hole"]


class Kill(NamedTuple):
    """What became of one fault.

    `killed`: `case` fails under `profile`; `clause` and `words` are the verdict's. `dead`: the harness hangs or dies in
    `case`, and fails none. `equivalent`: its complete graph is that of the law, at the bounds that `words` name.
    `unobservable`: as far as the protocol leads and sees, the two graphs cannot be told apart at those bounds.
    `lawful`: `case` tells it from the sound loop, and both are right; `words` say why. `hole`: nothing fails; `words`
    say why.
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
        return {case.id: case for case in load_cases([*folders, FOUND])}
    wanted = set(only)
    files = {CASES / "grid" / ("-".join(id.split("/")[:2]) + ".json") for id in wanted if "/" in id}
    paths = [*folders[:2], FOUND, *sorted(file for file in files if file.exists())]
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
        """The first of some cases that fails, or one that it dies in; and the verdicts of all that were played."""
        counts: dict[str, int] = {}
        dead: Kill | None = None
        self._stage.set(fault)
        for case, profile in tries:
            result = self._player.play(case, profile)
            counts[result.verdict] = counts.get(result.verdict, 0) + 1
            if result.verdict == "FAIL":
                return killed_by(fault, result), counts
            if result.verdict == "ADAPTER_ERROR":
                dead = dead or Kill(fault.id, "dead", case.id, profile, "", first_words(result.reason))
                if counts["ADAPTER_ERROR"] > DEATHS:
                    break
        return dead, counts

    def fuzz(self, fault: Fault, programs: int, seed: str = "kills") -> Result | None:
        """The first of some random programs that fails, shrunk; every third is about lives, every second in V4."""
        self._stage.set(fault)
        for number in range(programs):
            version = 4 if number % 2 else 0
            try:
                result = walk_case(self._player, f"{seed}.{number}", "seed", version, lives=number % 3 == 2)
            except AdapterError:
                return None
            if result.verdict == "FAIL":
                return shrunk(self._player, result)
            if result.verdict == "ADAPTER_ERROR":
                return None
        return None

    def close(self) -> None:
        """End the process."""
        self._player.close()


DEATHS = 1
"""Cases in which the harness with a fault may die or hang; then no further one is tried."""


def killed_by(fault: Fault, result: Result) -> Kill:
    """The row of a fault that a case has killed."""
    clause = result.fault.clause if result.fault is not None else ""
    return Kill(fault.id, "killed", result.case.id, result.profile, clause, first_words(result.reason))


def tries_of(keys: Iterable[str], cases: Mapping[str, Case]) -> list[tuple[Case, str]]:
    """`case@profile` keys as cases with profiles; those that are gone are left out."""
    found = []
    for key in keys:
        id, _, profile = key.rpartition("@")
        if id in cases:
            found.append((cases[id], profile))
    return found


def diverse(tries: Sequence[tuple[Case, str]], most: int) -> list[tuple[Case, str]]:
    """Some of many cases: each holds, asks or reacts to what those before it did little of, and is short."""
    pool = [(features(case), case, profile) for case, profile in tries]
    seen: dict[str, int] = {}
    chosen: list[tuple[Case, str]] = []
    while pool and len(chosen) < most:
        best = max(pool, key=lambda one: sum(1 / (1 + seen.get(f, 0)) for f in one[0]) / (6 + len(one[1].program)))
        pool.remove(best)
        chosen.append(best[1:])
        for feature in best[0]:
            seen[feature] = seen.get(feature, 0) + 1
    return chosen


def features(case: Case) -> frozenset[str]:
    """What happens in a case: gates that hold, operations, reactions, vetoes."""
    found = {f"gate {hold.gate}" for hold in case.opening.hold}
    for request in case.program:
        found |= {f"op {op.op}" for op in getattr(request, "ops", ())}
        if isinstance(request, React):
            found.add(f"react {request.on.record or request.on.live}")
        elif isinstance(request, Veto):
            found.add(f"veto {request.record}")
    return frozenset(found)
