"""The driver within bounds: who may send, cancel, edit and answer, how often, and what is unusual.

Usual answers are free. Unusual ones (a throw, a rejection, an answer cut off at max-tokens, …) are paid from
`faults`, an answer with tool calls from `calls`. What changes nothing costs nothing: a cancel of an idle agent with
nothing pending, and a maintenance call to a busy one, lead back to where they came from.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopspec import driver
from loopspec.attempt import aborted
from loopspec.driver import Driver
from loopspec.inbox import Target, has_pending
from loopspec.kernel.machine import Answer, Effect, Operation
from loopspec.profile import Law
from loopspec.properties import bystander
from loopspec.properties.bystander import watch
from loopspec.properties.claims import Claims, claims_for
from loopspec.properties.driver import PROMISES
from loopspec.properties.reachable import RACES, WINDOWS
from loopspec.worlds.world import Bound, Environment, Price, World

CAUSES = ("user", "disposed")
"""Two causes are enough: one like any other, and the one that bars the latch (L-CAN-11)."""

SENDS: tuple[tuple[Target, bool], ...] = (
    ("next-turn", True),
    ("next-step", True),
    ("next-step", False),
    ("next-turn", False),
)
"""followup, steer, inject, and the fourth cell without a preset (L-SEND-1)."""


class DriverEnvironment(Environment[Driver]):
    """Senders, listeners and services around one driver."""

    def __init__(self, sends: tuple[tuple[Target, bool], ...] = SENDS, causes: tuple[str, ...] = CAUSES) -> None:
        self.sends = sends
        self.cancels = tuple((("cancel", cause, keep), f"cancel {cause}") for cause in causes for keep in (False, True))

    def operations(self, core: Driver, next_message: int) -> Iterator[tuple[Operation, Price]]:
        """Sends, cancels, maintenance and edits, as far as they can matter now."""
        for target, wakeup in self.sends:
            price: Price = "messages" if wakeup or target == "next-step" else ("messages", "silent prompts")
            yield ("send", next_message, target, wakeup), price
        vain = core.phase == "idle" and not has_pending(core)
        for operation, price in self.cancels:
            yield operation, "" if vain else price
        yield ("maintain",), "jobs" if core.phase == "idle" else ""
        for message in core.next_turn + core.next_step:
            yield ("send", message, "next-turn", True), "edits"
            yield ("remove", message), "edits"
            yield ("replace", message, next_message), ("edits", "messages")
        yield ("remove", next_message), "edits"
        yield ("replace", next_message, next_message + 1), "edits"
        if has_pending(core):
            yield ("clear_inbox",), "edits"
        yield ("splice", "next-turn", 0, 0, (next_message,)), ("edits", "messages")
        yield ("splice", "next-step", -1, 1, (next_message,)), ("edits", "messages")

    def answers(self, core: Driver, point: Effect) -> Iterator[tuple[Answer, Price]]:
        """The usual answer first; after it, what a fault may make of it."""
        name = point[0]
        if name == "pre-step":
            batch = point[1]
            yield ("enter", batch), ""
            if batch:
                yield ("enter", ()), "faults"
            yield ("reject",), "faults"
            yield ("throws",), "faults"
        elif name == "prepare":
            first = not core.headed
            yield ("prepared", False, first, int(first and core.law.session_format == 4)), ""
            if not first:
                yield ("prepared", True, True, int(core.law.session_format == 4)), "faults"
            yield ("throws",), "faults"
        elif name == "chunk":
            yield from self.chunks(core, point[1])
        elif name == "close":
            yield ("closed", point[1]), ""
            if point[1]:
                yield ("closed", False), "faults"
        elif name == "tools":
            yield ("continue",), ""
            yield ("concluded",), ""
            yield ("throws",), "faults"
        elif name == "recovery":
            yield ("none",), ""
            yield ("retry",), ""
            yield ("throws",), "faults"
        elif name in ("tick", "gap", "maintenance"):
            yield ("done",), ""
        else:
            yield ("done",), ""
            yield ("throws",), "faults"

    def chunks(self, core: Driver, started: bool) -> Iterator[tuple[Answer, Price]]:
        """At most one published chunk an attempt. Something is visible only when a chunk was published."""
        if not started:
            yield ("chunk",), ""
            yield ("end", "stop", False, False), "faults"
            if aborted(core):
                yield ("throws", False), ""
        else:
            yield ("end", "stop", False, True), ""
            yield ("end", "tool-calls", True, True), "calls"
            if aborted(core):
                yield ("chunk",), ""
                yield ("throws", False), "faults"
        yield ("end", "max-tokens", True, started), "faults"
        yield ("end", "failure", False, started), "faults"
        yield ("throws", started), "faults"

    def toll(self, verb: str, effect: Effect) -> Price:
        """Turns are bounded; a refused opening of one costs nothing."""
        return "turns" if verb == "append" and effect[0] == "turn/start" else ""


def bound(name: str, depth: int = 1, **budgets: int) -> Bound:
    """A driver bound; what is not named is 0."""
    names = (
        "messages",
        "silent prompts",
        "cancel user",
        "cancel disposed",
        "jobs",
        "turns",
        "calls",
        "faults",
        "refusals",
        "edits",
    )
    given = {name.replace("_", " "): amount for name, amount in budgets.items()}
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise KeyError(f"The driver has no budgets {unknown}. It has: {', '.join(names)}.")
    return Bound(name, tuple((budget, given.get(budget, 0)) for budget in names), depth)


QUICK = bound("quick", messages=3, cancel_user=1, cancel_disposed=1, jobs=1, turns=2)
"""Every preset of send, every cancel and job in every window; answers as usual.

Both orders of causes, one job, two turns. The send without a preset (next-turn, no wake) is in the other bounds.
"""

FAULTS = bound("faults", messages=2, silent_prompts=1, cancel_user=1, turns=2, calls=1, faults=1, refusals=1)
"""Fewer messages, but one unusual answer, one refused record and one answer with tool calls."""

EDITS = bound("edits", messages=2, turns=1, edits=2)
"""Edits of the lists around and inside a turn."""

SMALL = bound("small", messages=2, silent_prompts=1, cancel_user=1, cancel_disposed=1, turns=2)
"""For smaller laws and for mutants."""

DEEP = bound("deep", depth=2, messages=4, cancel_user=1, turns=3)
"""By command only: listeners that are called by listeners. About 1.3 million states and 1.2 GB under `seed`."""

BOUNDS = {one.name: one for one in (QUICK, FAULTS, EDITS, SMALL, DEEP)}


def world(law: Law, limits: Bound = QUICK, environment: DriverEnvironment | None = None) -> World[Driver]:
    """The driver under a law, within limits, watched by a bystander."""
    return World(
        driver.MACHINE, driver.initial(law), environment or DriverEnvironment(), limits, bystander.START, watch(law)
    )


def claims(law: Law, limits: Bound = QUICK) -> Claims:
    """Everything that is checked of it."""
    return claims_for(law, PROMISES, (*WINDOWS, *RACES), dict(limits.budgets))
