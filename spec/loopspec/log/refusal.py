"""Why a row was refused, and what would have been legal: the words of an acceptance finding.

The guard is found by asking what would have happened without it. Each named guard of the machines is fixed to one
answer, and the row is tried again: when it then fits, that guard's real answer is what refused it. Where no single
guard makes the row possible, the rules say what they wrote instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from loopspec import attempt, driver, inbox
from loopspec.driver import Driver
from loopspec.kernel.machine import Effect, Machine
from loopspec.log.observation import Observation
from loopspec.log.oracle import Offer, Oracle, Undecided
from loopspec.log.points import Point

GUARDS = (
    "has_pending",
    "latches",
    "latch_is_due",
    "is_barred",
    "comes_after_abort",
    "header_is_due",
    "aborted",
    "may_insert",
)
"""The named guards of inbox, attempt and driver, the most telling first."""

_MODULES: tuple[ModuleType, ...] = (inbox, attempt, driver)


class Fixed(NamedTuple):
    """A guard that always gives one answer."""

    name: str
    answer: bool

    @property
    def sentence(self) -> str:
        """The guard's own sentence, without its line breaks."""
        guard = next(vars(module)[self.name] for module in _MODULES if self.name in vars(module))
        return " ".join((inspect.getdoc(guard) or "").split())


@cache
def machine_with(fixed: Fixed) -> Machine[Driver]:
    """The driver machine whose guard `fixed.name` always answers `fixed.answer`. The modules stay as they are."""
    renewed: dict[Any, Any] = {}

    def always(*arguments: object) -> bool:
        return fixed.answer

    for module in _MODULES:
        space = dict(vars(module))
        for name, value in space.items():
            if value in renewed if isinstance(value, FunctionType) else False:
                space[name] = renewed[value]
            elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
                twin = FunctionType(value.__code__, space, value.__name__, value.__defaults__, value.__closure__)
                space[name] = renewed[value] = twin
        if fixed.name in space:
            space[fixed.name] = always
    rules = {label: renewed.get(rule, rule) for label, rule in driver.rules.items()}
    return Machine(rules, driver.waits, driver.UNSETTLED)


def guards_that_refused(oracle: Oracle, points: frozenset[Point], seen: Observation) -> list[Fixed]:
    """The guards whose other answer would have let the row pass, each with that answer."""
    found = []
    for name in GUARDS:
        for answer in (True, False):
            fixed = Fixed(name, answer)
            try:
                after = Oracle(oracle.law, machine_with(fixed), oracle.depth).successors(points, seen)
            except Undecided:
                continue
            if after:
                found.append(fixed)
    return found


def reason(oracle: Oracle, points: frozenset[Point], seen: Observation) -> str:
    """One or two sentences: the guard that refused, or else the rules that had something else to write."""
    guards = guards_that_refused(oracle, points, seen)
    if guards:
        first = guards[0]
        given = "no" if first.answer else "yes"
        return f"The guard `{first.name}` answered {given} ({first.sentence})"
    sentences = sorted({f"`{offer.rule}` ({rule_sentence(offer.rule)})" for offer in loop_offers(oracle, points)})
    if not sentences:
        return "Nothing is running that could write it, and no operation from outside does."
    return f"What could write next: {'; '.join(sentences[:3])}"


def rule_sentence(label: str) -> str:
    """The first sentence of a rule, with its clause."""
    rule: Callable[..., Any] | None = driver.rules.get(label)
    text = inspect.getdoc(rule) if rule is not None else None
    if text is None:
        from loopspec import scheduler

        text = inspect.getdoc(scheduler.rules.get(label, rule_sentence)) or ""
    return " ".join(text.split("\n\n")[0].split())


def loop_offers(oracle: Oracle, points: frozenset[Point]) -> list[Offer]:
    """The records that the loop itself could write next."""
    return oracle.offers(points)


def legal(offers: Iterable[Offer]) -> str:
    """The nearest legal continuations, for people."""
    words = sorted({described(offer.record) for offer in offers})
    if not words:
        return "an insertion into the inbox that wakes the agent, or nothing at all"
    shown = ", ".join(words[:6]) + (f" and {len(words) - 6} more" if len(words) > 6 else "")
    return f"next: {shown}; or an insertion into the inbox"


def described(record: Effect) -> str:
    """A record of the machines in words."""
    kind = record[0]
    if kind == "agent/inbox/spliced":
        _, target, _, removed, inserted, outcome = record
        if removed and not inserted and not outcome:
            return f"{kind} (claim of {removed} from {target})"
        return f"{kind} ({target}, {removed} out, {len(inserted)} in{', canceled' if outcome else ''})"
    if kind == "turn/end":
        return f"turn/end {record[2]}"
    if kind == "assistant/message":
        return f"assistant/message {record[1]}"
    if kind == "tool/result":
        return f"tool/result of call {record[1]} ({record[2]})"
    if kind == "tool/call":
        return f"tool/call of call {record[1]}"
    return str(kind)


def row_described(row: dict[str, Any]) -> str:
    """A row of the log in the same words."""
    kind = row.get("type")
    data = row.get("data")
    if not isinstance(data, dict):
        return str(kind)
    if kind == "agent/inbox/spliced":
        removed, inserted = data.get("removedCount", 0), data.get("inserted")
        count = len(inserted) if isinstance(inserted, list) else 0
        if removed and not count and "outcome" not in data:
            return f"{kind} (claim of {removed} from {data.get('target')})"
        return f"{kind} ({data.get('target')}, {removed} out, {count} in)"
    if kind == "turn/end":
        reason_of = data.get("reason")
        return f"turn/end {reason_of.get('kind') if isinstance(reason_of, dict) else reason_of}"
    if kind == "assistant/message":
        return f"assistant/message {'interrupted' if data.get('interrupted') else 'settled'}"
    if kind in ("tool/call", "tool/result", "step/start", "step/end", "turn/start"):
        message = data.get("message")
        source = message.get("source") if isinstance(message, dict) else None
        call = data.get("callId", source.get("callId") if isinstance(source, dict) else None)
        return f"{kind} {call}" if isinstance(call, str) else str(kind)
    return str(kind)
