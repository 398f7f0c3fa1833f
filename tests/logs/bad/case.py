"""A broken log, the register of all of them, and what builds them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

from tests.logs.building import Builder, Event, Rows, find, legal, text


class Bad(NamedTuple):
    """A broken log: its rows, the rule that must fire, the physical line that it must blame."""

    rows: Rows
    rule: str
    line: int


CASES: dict[str, Callable[[], Bad]] = {}


def case(make: Callable[[], Bad]) -> Callable[[], Bad]:
    CASES[make.__name__.replace("_", "-")] = make
    return make


def line(seq: int) -> int:
    return seq + 2


def edited(version: int, rule: str, kind: str, edit: Callable[[Event], object], nth: int = 0) -> Bad:
    rows = copy.deepcopy(legal(version).rows)
    at = find(rows, kind, nth)
    edit(rows[at])
    return Bad(rows, rule, at + 1)


def begun(version: int, **header: object) -> Builder:
    log = Builder(version, **header)
    log.begin("Go.", "u1")
    return log


def finished(log: Builder) -> Rows:
    log.answer(text("Done."))
    log.end()
    return log.rows
