"""Why the law cannot explain a message: the clause, the guard that refused, and what would have been legal."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from loopconform.judge.fits import described, misfit, shown
from loopconform.judge.moves import Moves
from loopconform.judge.points import Place, Point, places
from loopconform.judge.verdict import Fault, Found, Undecided
from loopconform.protocol.replies import Live
from loopspec import scheduler
from loopspec.driver import status
from loopspec.kernel.machine import Config, Machine
from loopspec.log.refusal import GUARDS, Fixed, machine_with
from loopspec.loop import Composition

if TYPE_CHECKING:
    from loopconform.judge.loop_judge import LoopJudge

RULE_ID = re.compile(r"^(?:[A-Z]+\d*(?:-[A-Z]+)*-?\d+(?:\s+to\s+(?:[A-Z]+-)*\d+|\s+\([a-z, ]+\))?(?:,\s*)?)+")
LEGAL_LIMIT = 6


def clause_of(rule: Any) -> tuple[str, str]:
    """The clause ids and the sentence of a rule's docstring."""
    text = " ".join((inspect.getdoc(rule) or "").split())
    found = RULE_ID.match(text)
    if found is None:
        return "", text
    return found.group(0).strip(), text[found.end() :].strip()


def spoken(machine: Machine[Any], config: Config[Any]) -> Any:
    """The rule that speaks next in a running segment."""
    core, frame = config.core, config.stack[-1].frame
    while True:
        rule = machine.rules[frame[0]]
        outcome = rule(core, *frame[1:])
        if outcome[0] != "go":
            return rule
        core, frame = outcome[1], outcome[3]


def _rule_at(judge: LoopJudge, point: Point) -> Any:
    """The rule that would have spoken at a point, or whose answer is awaited there."""
    machine, loop = judge.moves.machine, point.loop
    if loop.driver.waiting:
        return machine.drives.waits
    try:
        if loop.driver.stack:
            return spoken(machine.drives, loop.driver)
        if loop.batch is not None and loop.batch.stack:
            return spoken(machine.schedules, loop.batch)
    except (IndexError, KeyError, TypeError):
        return None
    if loop.batch is not None and loop.batch.parked:
        return machine.schedules.rules[loop.batch.parked[0][1][0]]
    if loop.driver.parked:
        return machine.drives.rules[loop.driver.parked[0][1][0]]
    return None


def _telling(judge: LoopJudge, points: Iterable[Point]) -> tuple[list[str], Any]:
    """What could have been seen, and the rule that would have said it; the nearest points first."""
    legal: list[str] = []
    rule: Any = None
    ordered = sorted(points, key=lambda point: (not _busy(point), len(point.frames)))
    for point in ordered:
        for label, _ in judge.moves.of(point):
            if label:
                words = described(judge.book, label, point)
                if words not in legal:
                    legal.append(words)
                if rule is None:
                    rule = _rule_at(judge, point)
    for point in ordered:
        for gate, key in places(point):
            if gate in judge.book.holds:
                words = f"a hook at the gate {gate}{' ' + key if key else ''}"
                words += " stands" if (gate, key) in point.arrived else " arrives"
                if words not in legal:
                    legal.append(words)
                rule = rule or _rule_at(judge, point)
    if rule is None and ordered:
        rule = _rule_at(judge, ordered[0])
    return legal[:LEGAL_LIMIT] or ["nothing until something is asked or released"], rule


def _busy(point: Point) -> bool:
    return bool(point.loop.driver.stack or (point.loop.batch is not None and point.loop.batch.stack))


def _fault(
    judge: LoopJudge, points: Iterable[Point], reply: Any, reason: str, clause: str = "", guard: str = ""
) -> Found:
    points = list(points)
    legal, rule = _telling(judge, points)
    spoke, sentence = clause_of(rule) if rule is not None else ("", "")
    if not spoke:
        spoke, sentence = _of_operation(judge, points)
    return Found(Fault(judge.agent, reason, clause or spoke, sentence, guard, tuple(legal), shown(reply), (), 0))


def _of_operation(judge: LoopJudge, points: list[Point]) -> tuple[str, str]:
    """The clause of the operation that is under way: for rules that only end it."""
    for point in points:
        if point.frames and point.frames[-1].request:
            frame = point.frames[-1]
            op = judge.book.ops[frame.request, frame.ops[min(frame.next, len(frame.ops) - 1)]]
            rule = judge.moves.machine.drives.rules.get(_RULES.get(op.op, op.op))
            if rule is not None:
                return clause_of(rule)
    return "", ""


_RULES = {"followup": "send", "steer": "send", "inject": "send", "clear": "clear_inbox", "maintenance": "maintain"}


def found(judge: LoopJudge, points: Iterable[Point], reply: Any, clause: str, reason: str) -> Found:
    """A fault of a rule that needs no machine to see it."""
    return _fault(judge, points, reply, reason, clause)


def unexplained(judge: LoopJudge, points: list[Point], reply: Any) -> Found:
    """No move of the law shows this."""
    near = ""
    for point in points:
        for label, _ in judge.moves.of(point):
            if label:
                wrong = misfit(judge.book, label, point, reply)
                if wrong and not wrong.startswith(("another", "no data")):
                    near = wrong
    if isinstance(reply, Live) and reply.name == "agent/status" and all(point.gate != "open" for point in points):
        return _fault(judge, points, reply, "a driver is started before its agent has been announced", "N-1")
    reason = near or "the law has no such event here"
    guard = _guard(judge, reply) if not near else ""
    return _fault(judge, points, reply, reason, guard=guard)


def _guard(judge: LoopJudge, reply: Any) -> str:
    """The guard whose other answer would have let the message pass."""
    for name in GUARDS:
        for answer in (False, True):
            fixed = Fixed(name, answer)
            try:
                moves = Moves(judge.book, Composition(_changed(fixed), scheduler.MACHINE))
                for point in judge.closure(moves=moves):
                    for label, _ in moves.of(point):
                        if label and not misfit(judge.book, label, point, reply):
                            return f"{name} ({'no' if answer else 'yes'}): {fixed.sentence}"
            except (Undecided, KeyError, IndexError, TypeError, ValueError, AssertionError, StopIteration):
                continue
    return ""


@cache
def _changed(fixed: Fixed) -> Machine[Any]:
    return machine_with(fixed)


def early(judge: LoopJudge, points: list[Point], reply: Any) -> Found:
    """A hook ran where the law has none."""
    key = f" {reply.key}" if reply.key else ""
    proposed = [
        tuple(judge.book.name(n) for n in at[1])
        for point in points
        for at, _ in point.loop.driver.parked
        if at[0] == "pre-step" and reply.gate == "pre-step"
    ]
    if proposed and reply.messages is not None and reply.messages not in proposed:
        return _fault(judge, points, reply, f"pre-step gets {list(reply.messages)}, not {list(proposed[0])}", "L-PRE-1")
    return _fault(judge, points, reply, f"no hook may stand at the gate {reply.gate}{key} here")


def unfinished(judge: LoopJudge, points: list[Point], request: int) -> Found:
    """A tick was closed before all of it had happened."""
    legal, rule = _telling(judge, points)
    clause, sentence = clause_of(rule) if rule is not None else ("", "")
    reason = f"request {request} was closed before everything had happened that its operations do at once"
    return Found(Fault(judge.agent, reason, clause, sentence, "", tuple(legal), f"ok {request}", (), request))


def missed(judge: LoopJudge, points: list[Point], still: list[Point], standing: tuple[Place, ...], reply: Any) -> Found:
    """Something is owed, or somebody stands where nobody should."""
    if not still:
        return _fault(judge, points, reply, "it has settled, but something is still to happen")
    expected = sorted({tuple(sorted(place for place in places(point))) for point in still})
    words = " or ".join(_place_list(one) for one in expected[:3])
    return _fault(judge, still, reply, f"parked: {_place_list(standing)}; the law says: {words}")


def _place_list(standing: Iterable[Place]) -> str:
    return ", ".join(f"{gate} {key}".rstrip() for gate, key in standing) or "nobody"


def misread(judge: LoopJudge, points: list[Point], snapshot: Any, reply: Any) -> Found:
    """What can be read is not what the law says."""
    core = points[0].loop.driver.core
    name = judge.book.name
    law = {
        "status": status(core),
        "nextTurn": [name(n) for n in core.next_turn],
        "nextStep": [name(n) for n in core.next_step],
        "length": judge.length,
    }
    shown_values = snapshot.model_dump(mode="json")
    wrong = [f"{field} is {shown_values.get(field)!r}, not {value!r}" for field, value in law.items()
             if shown_values.get(field) != value]  # fmt: skip
    clause = "L-PH-2" if wrong and wrong[0].startswith("status") else "L-IN-9"
    return _fault(judge, points, reply, "; ".join(wrong), clause)
