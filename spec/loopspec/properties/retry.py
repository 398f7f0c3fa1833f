"""What the retries of an agent promise, judged by the calls, records, questions and answers that everybody can see.

`INV-R1` to `INV-R5` and `INV-R10` are the retry invariants of the requirements, as far as they are about the retries
alone; those about attempts and their messages (`INV-R6` to `INV-R9`, `INV-R11`) are judged where attempts are made, in
`loopspec.properties.request`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from loopspec.kernel.claims import Answer
from loopspec.kernel.machine import state
from loopspec.profile import Law
from loopspec.properties.claims import Promise, Witness
from loopspec.worlds.world import Node

Label = tuple[Any, ...]


class Asked(NamedTuple):
    """What a recovery was asked about."""

    place: tuple[int, int] = (0, 0)
    provider: str = ""
    policy: tuple[Any, ...] = ()
    code: str = ""
    advised: int = 0
    chance: int = 0

    @property
    def mode(self) -> str:
        """Of its policy; empty without one."""
        return str(self.policy[0]) if self.policy else ""

    @property
    def is_named(self) -> bool:
        """The policy tries this code again."""
        return self.mode == "always" or (self.mode == "normal" and self.code in self.policy[2])

    @property
    def is_patient(self) -> bool:
        """The advice is within the policy's longest delay."""
        return bool(0 < self.advised <= self.policy[4])


class Line(NamedTuple):
    """One chain as its records tell it."""

    provider: str
    policy: tuple[Any, ...]
    number: int
    retry: int


class Course(NamedTuple):
    """What the surroundings remember of the turn, so that a step fails again only when it may."""

    place: tuple[int, int] = (0, 0)
    """The turn and step of the last failure."""
    active: bool = False
    """Its recovery is under way."""
    cancelled: bool = False
    """Its turn was cancelled."""
    said: str = ""
    """What the listeners behind have said about it."""
    goes_on: bool = False
    """The last recovery has led to another attempt."""


def proceed(course: Course, label: Label) -> Course:
    """Fold one move into the memory of the surroundings."""
    verb, name = label[0], label[1]
    if verb == "call" and name == "recover" and not course.active:
        return Course((label[2], label[3]), True, label[-1])
    if verb == "call" and name == "abort":
        return course._replace(cancelled=True)
    if verb == "answer" and name[0] == "downstream":
        return course._replace(said=label[2][0])
    if verb == "leave" and name == "give":
        granted = label[2] == "retry" or (label[2], course.said) == ("downstream", "retry")
        return Course(course.place, goes_on=granted and not course.cancelled)
    return course


def may_fail_next(course: Course, place: tuple[int, int]) -> bool:
    """Whether the next failure may belong to this step: another attempt was granted, or a later turn has begun."""
    if course.active:
        return place == course.place
    return place >= course.place if course.goes_on else place[0] > course.place[0]


@state
class Seen(NamedTuple):
    """What a bystander remembers."""

    asked: Asked = Asked()
    active: bool = False
    lines: tuple[Line, ...] = ()
    """The chains of the step at hand."""
    numbers: int = 0
    """The largest chain number so far."""
    cancelled: bool = False
    """The turn of this recovery was cancelled."""
    over: bool = False
    drained: bool = False
    owes_cut: bool = False
    """A cancel or the end came while the timer ran, and it was not told to stop yet."""
    timer: bool = False
    scheduled: tuple[Any, ...] = ()
    """The record of this recovery, until it was started: chain, retry, delay."""
    started: bool = False
    said: str = ""
    """What the listeners behind said in this recovery."""
    warned: bool = False
    refused: bool = False
    tie: bool = False
    """The timer of this recovery ran off after a cancel."""
    stopped: bool = False
    """The timer of this recovery was cut."""
    doubled: bool = False
    """A second recovery was asked for while this one is under way."""
    course: Course = Course()
    """What the surroundings remember."""

    def put(self, **changes: Any) -> Seen:
        """A copy with some fields changed."""
        return self._replace(**changes)


def watch(seen: Seen, label: Label) -> Seen:
    """Fold one move into the memory."""
    fold, course = _FOLDS.get(label[0]), proceed(seen.course, label)
    return (seen if fold is None else fold(seen, label)).put(course=course)


def _call(seen: Seen, label: Label) -> Seen:
    name = label[1]
    if name == "abort":
        return seen.put(cancelled=True, owes_cut=seen.timer)
    if name == "dispose":
        return seen.put(over=True, owes_cut=seen.timer)
    if seen.active:
        return seen.put(doubled=True)
    turn, step, provider, policy, code, advised, chance, aborted = label[2:]
    asked = Asked((turn, step), provider, policy, code, advised, chance)
    lines = seen.lines if seen.asked.place == asked.place else ()
    return Seen(asked, True, lines, seen.numbers, aborted, seen.over, seen.drained)


def _append(seen: Seen, label: Label) -> Seen:
    if label[1] == "llm/retry-started":
        return seen.put(scheduled=(), started=True)
    number, retry = label[2], label[3]
    asked = seen.asked
    others = [line for line in seen.lines if line[:2] != (asked.provider, asked.policy)]
    lines = tuple(sorted((*others, Line(asked.provider, asked.policy, number, retry)), key=_number))
    return seen.put(lines=lines, numbers=max(seen.numbers, number), scheduled=label[2:])


def _number(line: Line) -> int:
    return line.number


def _note(seen: Seen, label: Label) -> Seen:
    if label[1] == "cut":
        return seen.put(owes_cut=False)
    return seen.put(drained=True) if label[1] == "drained" else seen.put(warned=True)


def _answer(seen: Seen, label: Label) -> Seen:
    if label[1][0] == "wait":
        tie = label[2][0] == "elapsed" and (seen.cancelled or seen.over)
        return seen.put(timer=False, tie=tie, stopped=label[2][0] == "cut")
    return seen.put(said=label[2][0])


def _leave(seen: Seen, label: Label) -> Seen:
    if label[1] == "return":
        return seen
    if label[1] == "raise":
        return seen.put(doubled=False)
    return Seen(Asked(seen.asked.place), False, seen.lines, seen.numbers, False, seen.over, seen.drained)


_FOLDS: dict[str, Callable[[Seen, Label], Seen]] = {
    "call": _call,
    "append": _append,
    "note": _note,
    "answer": _answer,
    "leave": _leave,
    "park": lambda seen, label: seen.put(timer=True) if label[1] == "wait" else seen,
    "refuse": lambda seen, label: seen.put(refused=True),
}


# --- promises ------------------------------------------------------------------------------------------------


def is_record(label: Label, what: str) -> bool:
    """The move writes that record."""
    return bool(label[:2] == ("append", what))


def line_of(seen: Seen) -> Line | None:
    """The chain of the failure at hand, if it has one by now."""
    for line in seen.lines:
        if line[:2] == (seen.asked.provider, seen.asked.policy):
            return line
    return None


def counts(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if not is_record(label, "llm/retry"):
        return True
    line, number, retry = line_of(seen), label[2], label[3]
    if line is None:
        return (number > seen.numbers and retry == 1) or f"chain {number} begins with {retry}"
    return (number, retry) == (line.number, line.retry + 1) or f"{label[2:]} follows {line}"


def numbers_are_dense(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return not is_record(label, "llm/retry") or label[2] <= seen.numbers + 1


def within_budget(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return not is_record(label, "llm/retry") or seen.asked.mode == "always" or label[3] <= seen.asked.policy[1]


def starts_once(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return not is_record(label, "llm/retry-started") or label[2:4] == seen.scheduled[:2]


def recorded_before_wait(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if label[0] == "append":
        return seen.active and not seen.timer
    if label[:2] == ("park", "wait"):
        return seen.scheduled[2:] == label[2:3]
    return True


EXPECTED = {
    ("normal", 2, ("SERVER",), 2, 4, 1): {(1, 0): 0, (1, 1): 4, (2, 0): 0, (2, 1): 4},
    ("normal", 1, ("SERVER",), 2, 4, 0): {(1, 0): 2, (1, 1): 2},
    ("always", 0, (), 1, 2, 0): {
        **{(1, chance): 1 for chance in (0, 1)},
        **{(retry, chance): 2 for retry in range(2, 9) for chance in (0, 1)},
    },
}
"""The local delays of the policies of the bounds, worked out by hand: by the retry, and the random number."""


def delay_is_right(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if not is_record(label, "llm/retry"):
        return True
    asked, retry, delay = seen.asked, label[3], label[4]
    if not 0 <= delay <= asked.policy[4]:
        return f"{delay} is not between 0 and {asked.policy[4]}"
    expected = asked.advised if asked.is_patient else EXPECTED[asked.policy].get((retry, asked.chance))
    return expected == delay or f"{delay} instead of {expected}"


def one_timer(node: Node, law: Law) -> Answer:
    timers = [point for point, _ in node.config.parked if point[0] == "wait"]
    return len(timers) <= int(node.memory.active)


def timer_is_stopped(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return seen.owes_cut == (label == ("note", "cut"))


def cancel_starts_nothing(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if not (seen.cancelled or seen.over):
        return True
    return not is_record(label, "llm/retry") and label[:2] != ("park", "wait")


def cancel_beats_the_timer(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return not is_record(label, "llm/retry-started") or not (seen.cancelled or seen.over)


def one_at_a_time(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return seen.doubled == (label == ("leave", "raise", "busy")) and not (seen.drained and seen.doubled)


def cut_starts_nothing(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return not is_record(label, "llm/retry-started") or not seen.stopped


def _tie(law: Law) -> str:
    return "" if law.cancel_wins_backoff_tie else "RACE-16"


def only_named_failures(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if not is_record(label, "llm/retry"):
        return True
    impatient = seen.asked.mode == "normal" and seen.asked.advised > seen.asked.policy[4]
    return seen.asked.is_named and not impatient


def others_first(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """Under `always` the listeners behind are asked before anything is recorded, and their retry ends it."""
    if label[0] != "append" or seen.asked.mode != "always":
        return True
    return seen.said in ("none", "throws") and seen.warned == (seen.said == "throws")


def gives_what_it_must(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if label[:2] != ("leave", "give"):
        return True
    answer, asked = label[2], seen.asked
    if answer == "retry":
        return seen.started
    if answer == "throws":
        return seen.refused
    if answer == "downstream":
        passed_on = asked.mode != "always" or (seen.said == "retry" and not (seen.cancelled or seen.over))
        return bool(seen.said) and passed_on and not seen.scheduled and not seen.started
    return (seen.cancelled or seen.over) and not seen.started


def asks_only_when_alive(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A recovery that begins after the end asks nobody; one under `always` asks nobody after a cancel."""
    if label != ("park", "downstream"):
        return True
    if seen.drained:
        return False
    return seen.asked.mode != "always" or not (seen.cancelled or seen.over)


def asks_once(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    return label != ("park", "downstream") or not seen.said


def gives_up_only_when_it_must(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    """A failure that the policy would try again is handed on only when the budget or the patience is spent."""
    asked, line = seen.asked, line_of(seen)
    if label != ("park", "downstream") or asked.mode != "normal" or not asked.is_named:
        return True
    spent = (line.retry if line else 0) >= asked.policy[1]
    return bool(spent or asked.advised > asked.policy[4])


def drained_when_done(seen: Seen, label: Label, after: Seen, law: Law) -> Answer:
    if label == ("note", "drained"):
        return seen.over and not seen.drained
    if label[0] == "leave" and not seen.drained:
        return not (seen.over and (label[1] == "give" or not seen.active))
    return True


PROMISES: tuple[Promise, ...] = (
    Promise("INV-R1", "Retries count 1, 2, 3 in their chain, and no two chains share an id.", counts),
    Promise("INV-R1 ids", "Chains are numbered in the order in which they begin.", numbers_are_dense),
    Promise("INV-R2", "A normal policy grants no more than its maximum.", within_budget),
    Promise("INV-R3", "What is started was scheduled just before, and is started once.", starts_once),
    Promise("INV-R4", "A retry is recorded during its recovery, before its wait, with the time of it.",
            recorded_before_wait),
    Promise("INV-R5", "A delay is the provider's or the policy's, and never above the policy's longest.",
            delay_is_right),
    Promise("INV-R9", "After a cancel or the end, nothing is scheduled and no timer begins.", cancel_starts_nothing),
    Promise("INV-R9 tie", "After a cancel or the end, no attempt is announced.", cancel_beats_the_timer, broken=_tie,
            needs=("cancels",)),
    Promise("INV-R10", "At most one timer runs, and only during a recovery.", node=one_timer),
    Promise("INV-R10 cut", "A cancel or the end stops a running timer before anything else; nothing else does.",
            timer_is_stopped),
    Promise("M-602", "Only what the policy names and has the patience for is tried again.", only_named_failures),
    Promise("M-623", "Under `always` the others come first, their retry wins, their errors do not.", others_first),
    Promise("M-601", "The answer is the one that the run calls for.", gives_what_it_must),
    Promise("M-601 once", "The listeners behind are asked at most once.", asks_once),
    Promise("M-612", "A failure is handed on only when budget or patience are spent.", gives_up_only_when_it_must),
    Promise("M-621 single", "A second recovery of the same agent is refused, and only that.", one_at_a_time),
    Promise("M-622 cut", "A wait that was cut starts nothing.", cut_starts_nothing),
    Promise("M-621 asks", "After its end the plugin asks nobody.", asks_only_when_alive),
    Promise("M-621", "The plugin has ended, once, when nothing of it is under way.", drained_when_done),
)  # fmt: skip


def _given(answer: str, **wanted: Any) -> Any:
    def judge(seen: Seen, label: Label, after: Seen) -> bool:
        fits = all(getattr(seen, name) == value for name, value in wanted.items())
        return label == ("leave", "give", answer) and fits

    return judge


WITNESSES: tuple[Witness, ...] = (
    Witness("a retry is granted", "Two retries of one chain, each started.",
            lambda s, e, _: e == ("append", "llm/retry-started", 1, 2), needs=("failures=2",)),
    Witness("budget", "A normal policy is exhausted, and the others decide.",
            lambda s, e, _: e == ("park", "downstream") and s.asked.is_named and s.asked.advised == 0
            and s.asked.mode == "normal", needs=("failures=2",)),
    Witness("RACE-16", "The timer runs off after a cancel, and the retry starts all the same.",
            lambda s, e, _: is_record(e, "llm/retry-started") and s.cancelled,
            applies=lambda law: not law.cancel_wins_backoff_tie, needs=("cancels",)),
    Witness("RACE-16 observer", "A cancel from an observer of the start: the retry is given, and the loop looks.",
            _given("retry", cancelled=True), needs=("cancels",)),
    Witness("RACE-16 tie", "The timer runs off after a cancel, and nothing starts.",
            _given("none", tie=True), applies=lambda law: law.cancel_wins_backoff_tie, needs=("cancels",)),
    Witness("RACE-17", "The plugin ends during a wait: nothing is given, and the failure stands.",
            lambda s, e, _: e == ("leave", "give", "none") and s.over and not s.cancelled and bool(s.scheduled),
            needs=("ends",)),
    Witness("M-622", "A cancel during a wait.",
            lambda s, e, _: e == ("leave", "give", "none") and s.cancelled and not s.over and bool(s.scheduled),
            needs=("cancels",)),
    Witness("RACE-18", "Under `always`, a cancel while the others are asked: they are waited for, then nothing.",
            lambda s, e, _: e == ("leave", "give", "none") and s.cancelled and s.said == "retry", needs=("cancels",)),
    Witness("RACE-18 end", "The plugin ends while the others are asked, and is drained when they have answered.",
            lambda s, e, _: e == ("note", "drained") and s.said == "none" and s.asked.mode == "",
            needs=("ends",)),
    Witness("RACE-19", "Another provider in the same step has a budget of its own.",
            lambda s, e, _: is_record(e, "llm/retry") and e[3] == 1 and len(s.lines) == 1
            and s.lines[0].provider != s.asked.provider, needs=("failures=2",)),
    Witness("M-612 policy", "Another policy of the same provider has a budget of its own.",
            lambda s, e, _: is_record(e, "llm/retry") and e[3] == 1 and len(s.lines) == 1
            and s.lines[0].provider == s.asked.provider, needs=("failures=2",)),
    Witness("M-612 back", "Back to the earlier provider: its chain goes on.",
            lambda s, e, _: is_record(e, "llm/retry") and e[3] == 2 and len(s.lines) == 2
            and e[2] == s.lines[0].number, needs=("failures=3",)),
    Witness("M-612 step", "The next step begins anew, with another id.",
            lambda s, e, _: is_record(e, "llm/retry") and e[2:4] == (2, 1) and s.asked.place == (1, 2),
            needs=("failures=2", "steps=2")),
    Witness("advice", "The provider's own time is taken as it is.",
            lambda s, e, _: is_record(e, "llm/retry") and e[4] == s.asked.advised),
    Witness("impatient", "The provider asks for too much: the others decide.",
            lambda s, e, _: e == ("park", "downstream") and s.asked.advised == 9 and s.asked.mode == "normal"),
    Witness("impatient always", "Under `always` the policy's own time is taken then.",
            lambda s, e, _: is_record(e, "llm/retry") and s.asked.advised == 9),
    Witness("always wins", "Under `always` an error behind is overruled.",
            lambda s, e, _: is_record(e, "llm/retry-started") and s.said == "throws"),
    Witness("downstream wins", "Under `always` the retry of another listener is passed on.",
            _given("downstream", said="retry", warned=False)),
    Witness("refused", "The record of a retry is refused: the turn gets that error.",
            _given("throws", started=False, tie=False), needs=("refusals",)),
    Witness("observer cancels", "An observer of the record cancels: no timer.",
            lambda s, e, _: e == ("leave", "give", "none") and bool(s.scheduled) and s.said == ""
            and not s.tie and s.asked.mode == "normal", needs=("cancels",)),
    Witness("after the end", "A callback that was kept is used after the end: nothing, and nobody is asked.",
            lambda s, e, _: e == ("leave", "give", "none") and s.drained, needs=("ends", "failures")),
)  # fmt: skip
