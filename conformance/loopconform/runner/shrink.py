"""The shortest program that still fails, found by playing parts of it again on the adapter (delta debugging)."""

from __future__ import annotations

from itertools import chain
from typing import Any

from loopconform.protocol.case import Case
from loopconform.runner.play import Player
from loopconform.runner.results import Result

MOST = 400
"""Plays that a shrink may take."""


class Search:
    """Asks an adapter whether shorter programs still fail by the same clause, and keeps the best."""

    def __init__(self, player: Player, result: Result, most: int) -> None:
        assert result.fault is not None
        self.player = player
        self.profile = result.profile
        self.clause = result.fault.clause
        self.left = most
        self.runs = 0
        self.best = result

    @property
    def case(self) -> Case:
        """What every shorter program is a part of."""
        return self.best.case

    def fails(self, case: Case) -> bool:
        """Whether the case still fails by the same clause. A failing one is kept as the best so far."""
        if self.left <= 0:
            return False
        self.left -= 1
        self.runs += 1
        result = self.player.play(case, self.profile)
        if result.verdict != "FAIL" or result.fault is None or result.fault.clause != self.clause:
            return False
        self.best = result
        return True


def shrunk(player: Player, result: Result, most: int = MOST) -> Result:
    """The result with the shortest failing program that was found within `most` plays."""
    if result.fault is None:
        return result
    search = Search(player, result, most)
    program = list(result.case.program)[: result.fault.at + 1]
    opening, rest = program[0], program[1:]
    if not search.fails(result.case.with_program([opening, *rest])):
        return result._replace(runs=search.runs)
    case = shortest(search, result.case.with_program([opening, *rest]))
    best = search.best
    return result._replace(shrunk=case, runs=search.runs, fault=best.fault, reason=best.reason,
                           transcript=best.transcript)  # fmt: skip


def shortest(search: Search, case: Case) -> Case:
    """The shortest program that a search accepts. `case` itself has been accepted."""
    opening, rest = case.program[0], list(case.program[1:])
    before = -1
    while before != _size(rest) and search.left > 0:
        before = _size(rest)
        rest = _without_requests(search, opening, rest)
        rest = _without_operations(search, opening, rest)
    opening = _without_gates(search, opening, rest)
    return case.with_program([opening, *rest])


def _size(rest: list[Any]) -> int:
    return sum(1 + len(getattr(request, "ops", ())) for request in rest)


def _without_requests(search: Search, opening: Any, rest: list[Any]) -> list[Any]:
    """Leave out runs of windows, long ones first; then single requests that do nothing by themselves.

    A request and the `settle` behind it go together. Without the settle the program would still fail now and then: what
    two ticks do to each other is nothing to judge (`PROTOCOL.md`, settle windows).
    """
    windows = _windows(rest)
    length = max(1, len(windows) // 2)
    while length >= 1:
        at = 0
        while at < len(windows):
            shorter = windows[:at] + windows[at + length :]
            if shorter and search.fails(search.case.with_program([opening, *chain(*shorter)])):
                windows = shorter
            else:
                at += length
        length //= 2
    rest = list(chain(*windows))
    at = 0
    while at < len(rest):
        shorter_rest = rest[:at] + rest[at + 1 :]
        if rest[at].verb in ("react", "plan", "veto") and search.fails(
            search.case.with_program([opening, *shorter_rest])
        ):
            rest = shorter_rest
        else:
            at += 1
    return rest


def _windows(rest: list[Any]) -> list[list[Any]]:
    """The requests, each run up to a `settle` together."""
    found: list[list[Any]] = [[]]
    for request in rest:
        found[-1].append(request)
        if request.verb == "settle":
            found.append([])
    return [window for window in found if window]


def _without_operations(search: Search, opening: Any, rest: list[Any]) -> list[Any]:
    """Leave out single operations of a request that has several, and all those of a release."""
    for at, request in enumerate(rest):
        ops = getattr(request, "ops", ())
        number = 0
        while len(ops) > (0 if request.verb == "release" else 1) and number < len(ops):
            fewer = request.model_copy(update={"ops": ops[:number] + ops[number + 1 :]})
            shorter = [*rest[:at], fewer, *rest[at + 1 :]]
            if search.fails(search.case.with_program([opening, *shorter])):
                rest, request, ops = shorter, fewer, fewer.ops
            else:
                number += 1
    return rest


def _without_gates(search: Search, opening: Any, rest: list[Any]) -> Any:
    """Let gates go that need not hold, and tools that nobody calls."""
    for field in ("hold", "tools", "owners"):
        at = 0
        while at < len(getattr(opening, field)):
            items = getattr(opening, field)
            fewer = opening.model_copy(update={field: items[:at] + items[at + 1 :]})
            if search.fails(search.case.with_program([fewer, *rest])):
                opening = fewer
            else:
                at += 1
    return opening
