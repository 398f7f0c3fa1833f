"""The retries of one agent alone, within bounds: every failure that a step may have, every answer, every cancel.

Three providers, of which two change their policies and share one of them, and one is served without a policy;
failures that a policy names and failures that it does not; no advice, advice within the policy's patience and beyond
it; the smallest and the largest number of the random source. A cancel or the end of the plugin comes in any window
and at any await point, a timer may tie with either, a record may be refused, and a failure may belong to the same
step or to a later one.

Delays are whole numbers here, so that every state has one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loopspec import retry
from loopspec.kernel.machine import Answer, Effect, Operation
from loopspec.profile import Law
from loopspec.properties.claims import Claims, claims_for
from loopspec.properties.retry import PROMISES, WITNESSES, Course, Seen, may_fail_next, proceed, watch
from loopspec.retry import NO_POLICY, Retry, Terms
from loopspec.worlds.world import Bound, Environment, Node, Price, World

__all__ = ["BOUNDS", "QUICK", "RetryEnvironment", "RetryWorld", "bare_world", "bound", "claims", "world"]

NORMAL: Terms = ("normal", 2, ("SERVER",), 2, 4, 1)
"""Two retries, for one code; 2 then 4 milliseconds, from nothing to twice as much by chance, and never above 4."""

STRICTER: Terms = ("normal", 1, ("SERVER",), 2, 4, 0)
"""The policy that the same provider has after its adapter was replaced: one retry, without chance."""

ALWAYS: Terms = ("always", 0, (), 1, 2, 0)
"""Never gives up; 1 then 2 milliseconds."""

ROUTES: tuple[tuple[str, Terms], ...] = (
    ("a", NORMAL),
    ("a", STRICTER),
    ("b", STRICTER),
    ("b", ALWAYS),
    ("c", NO_POLICY),
)
"""Who may have served a request that failed, and under which policy."""

FAILURES: tuple[tuple[str, int, int], ...] = (
    ("SERVER", 0, 0),
    ("SERVER", 0, 1),
    ("SERVER", 2, 0),
    ("SERVER", 9, 0),
    ("AUTH", 0, 0),
)
"""A code, the milliseconds that the provider asked for (none, within every policy, beyond every policy), and the
number of the random source."""

PLACES = ((1, 1), (1, 2), (2, 1))
"""Turns and steps, in the order in which they come."""


class RetryEnvironment(Environment[Retry]):
    """Failing requests, the listeners behind the plugin, the timer, the user, and whoever unloads the plugin."""

    def operations(self, core: Retry, next_message: int) -> Iterator[tuple[Operation, Price]]:
        """A failure of this or a later step when no recovery is under way; a cancel when one is; the end, once.

        A listener that hands a failure on twice asks for a second recovery while the first is under way.
        """
        if not core.active:
            for place in PLACES:
                if place >= core.place:
                    yield from self.failures(core, place)
        else:
            if not core.over:
                yield ("recover", *core.place, *ROUTES[0], *FAILURES[0], False), "doubles"
            if not core.aborted:
                yield ("abort",), "cancels"
        if not core.over:
            yield ("dispose",), "ends"

    def failures(self, core: Retry, place: tuple[int, int]) -> Iterator[tuple[Operation, Price]]:
        """Every failure of one step. A step that is not the last one costs a step too."""
        price: Price = "failures" if place == core.place else ("failures", "steps")
        for provider, policy in ROUTES:
            for failure in FAILURES:
                yield ("recover", *place, provider, policy, *failure, False), price
        for provider, policy in (ROUTES[0], ROUTES[3]):
            yield ("recover", *place, provider, policy, "SERVER", 0, 0, True), (*_many(price), "cancels")

    def answers(self, core: Retry, point: Effect) -> Iterator[tuple[Answer, Price]]:
        """What the listeners behind say; a timer that runs off, or that was cut."""
        if point[0] == "downstream":
            for said in ("retry", "none", "throws"):
                yield (said,), ""
            return
        yield ("elapsed",), ""
        if core.aborted or core.over:
            yield ("cut",), ""


def _many(price: Price) -> tuple[str, ...]:
    return (price,) if isinstance(price, str) else price


def bound(name: str, depth: int = 1, **budgets: int) -> Bound:
    """A bound of the retries; what is not named is 0."""
    names = ("failures", "steps", "cancels", "ends", "refusals", "doubles")
    unknown = sorted(set(budgets) - set(names))
    if unknown:
        raise KeyError(f"The retries have no budgets {unknown}. They have: {', '.join(names)}.")
    return Bound(name, tuple((budget, budgets.get(budget, 0)) for budget in names), depth)


SMALL = bound("small", failures=2, steps=1, cancels=1, doubles=1)
"""Two failures of one step, one cancel, one failure that is handed on twice."""

QUICK = bound("quick", failures=2, steps=2, cancels=1, ends=1, refusals=1)
"""Two failures of one step or of two, one cancel, the end of the plugin, one refused record."""

CHAINS = bound("chains", depth=0, failures=3, steps=1)
"""Three failures of one step, and nothing else: every way in which chains and budgets cross."""

DEEP = bound("deep", failures=3, steps=2, cancels=1, ends=1, refusals=1)
"""By command only: about 150,000 states."""

BOUNDS = {one.name: one for one in (QUICK, SMALL, CHAINS, DEEP)}


class RetryWorld(World[Retry]):
    """The retries in their surroundings. A step fails again only when another attempt was granted."""

    def moves(self, node: Node) -> Iterator[tuple[Any, Node]]:
        """Every move of the world that a loop could make."""
        course = node.memory if isinstance(node.memory, Course) else node.memory.course
        moves: Iterator[tuple[Any, Node]] = super().moves(node)
        for label, target in moves:
            if label[1] != "recover" or may_fail_next(course, (label[2], label[3])):
                yield label, target


def world(law: Law, limits: Bound = QUICK) -> World[Retry]:
    """The retries under a law, within limits, watched by a bystander."""
    return RetryWorld(retry.MACHINE, retry.initial(law), RetryEnvironment(), limits, Seen(), watch)


def bare_world(law: Law, limits: Bound) -> World[Retry]:
    """The same without the bystander: of the past it knows only what the surroundings know."""
    return RetryWorld(retry.MACHINE, retry.initial(law), RetryEnvironment(), limits, Course(), proceed)


def claims(law: Law, limits: Bound = QUICK) -> Claims:
    """Everything that is checked of it."""
    return claims_for(law, PROMISES, WITNESSES, dict(limits.budgets))
