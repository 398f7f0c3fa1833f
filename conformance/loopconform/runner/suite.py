"""Many cases on one adapter, several at a time; expected failures, and what became of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import yaml

from loopconform.protocol.case import Case
from loopconform.runner.play import Player
from loopconform.runner.results import VERDICTS, Result, Run
from loopconform.runner.shrink import shrunk
from loopconform.runner.workers import Interrupted, Start, in_parallel

Job = tuple[Case, str]


class ExpectedError(ValueError):
    """The file of expected failures cannot be used."""


def jobs_of(
    cases: Iterable[Case],
    profiles: Sequence[str] = ("seed",),
    ids: Sequence[str] = (),
    areas: Sequence[str] = (),
    level: str | None = None,
) -> list[Job]:
    """What is to be played: each case under each profile that it means something under.

    `ids` may end in `*`; what selects nothing raises `ValueError`.
    """
    chosen = list(cases)
    for id in ids:
        if not any(_fits(case.id, id) for case in chosen):
            raise ValueError(f"no case is called {id!r}")
    found: list[Job] = [
        (case, profile)
        for case in chosen
        for profile in profiles
        if profile in case.profiles
        and (not ids or any(_fits(case.id, id) for id in ids))
        and (not areas or case.area in areas)
        and (level is None or case.level == level)
    ]
    if not found:
        raise ValueError("nothing is selected: no case fits these areas, levels and profiles")
    return found


def _fits(id: str, pattern: str) -> bool:
    return id.startswith(pattern[:-1]) if pattern.endswith("*") else id == pattern


def load_expected(path: Path) -> dict[str, str]:
    """Case id (or `id@profile`) to verdict, as a YAML mapping. Raises `ExpectedError`."""
    try:
        declared = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ExpectedError(f"{path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ExpectedError(f"{path} is not YAML: {error}") from error
    if declared is None:
        return {}
    allowed = [verdict for verdict in VERDICTS if verdict != "PASS"]
    if not isinstance(declared, dict):
        raise ExpectedError(f"{path} must map case ids to verdicts")
    for id, verdict in declared.items():
        if not isinstance(id, str) or verdict not in allowed:
            raise ExpectedError(f"{path}: {id!r} is declared {verdict!r}; a verdict is one of {', '.join(allowed)}")
    return declared


def judged(run: Run, declared: dict[str, str]) -> Run:
    """The run with each declaration marked as come true or stale. What was not selected is neither."""
    expected, stale = [], []
    for id, verdict in declared.items():
        found = [result for result in run.results if id in (result.key, result.case.id)]
        true = [result.key for result in found if result.verdict == verdict]
        expected += true
        if found and not true:
            became = ", ".join(sorted({result.verdict for result in found}))
            stale.append(f"{id} is declared {verdict}, and is {became}: take the line out")
    return run._replace(expected=tuple(expected), stale=tuple(stale))


def play_all(
    start: Start,
    jobs: Sequence[Job],
    workers: int = 1,
    timeout: float = 10.0,
    shrink: bool = True,
    told: Callable[[Result], None] = lambda result: None,
    name: str = "",
) -> Run:
    """Play every job, each worker with an adapter of its own. `told` hears each result, in any order.

    After Ctrl-C: what had been played by then, as a run that was `interrupted`.
    """
    implementations: set[str] = set()
    lock = threading.Lock()

    def work(player: Player, at: int) -> Result:
        result = player.play(*jobs[at])
        if shrink and result.verdict == "FAIL":
            result = shrunk(player, result)
        with lock:
            if player.hello is not None:
                made = player.hello.implementation
                implementations.add(f"{made.name} {made.version}".strip())
            told(result)
        return result

    interrupted = False
    try:
        results = in_parallel(start, len(jobs), work, workers, timeout)
    except Interrupted as stop:
        results, interrupted = stop.made, True
    return Run(name, ", ".join(sorted(implementations)), tuple(results), wanted=len(jobs), interrupted=interrupted)
