"""The inbox alone, within bounds: every mutation, every coordinate, and claims by an imagined driver."""

from __future__ import annotations

from collections.abc import Iterator

from loopspec import inbox
from loopspec.inbox import Inbox, Target
from loopspec.kernel.machine import Config, Operation
from loopspec.profile import Law
from loopspec.properties.claims import Claims, claims_for
from loopspec.properties.inbox import PROMISES, WITNESSES, Seen, watch
from loopspec.worlds.world import Bound, Environment, Price, World

__all__ = ["BOUNDS", "QUICK", "InboxEnvironment", "bound", "claims", "world"]

TARGETS: tuple[Target, ...] = ("next-step", "next-turn")

STARTS = (float("nan"), float("-inf"), -2.0, -1.0, -0.5, 0.0, 1.5, float("inf"))
COUNTS = (float("nan"), -1.0, 0.0, 1.0, 1.5, float("inf"))


class InboxEnvironment(Environment[Inbox]):
    """Everybody who may change an inbox."""

    def operations(self, core: Inbox, next_message: int) -> Iterator[tuple[Operation, Price]]:
        """Appends, prepends, odd splices, edits, clears and claims."""
        pending = core.next_turn + core.next_step
        for target in TARGETS:
            end = float(len(inbox.pending(core, target)))
            yield ("splice", target, end, 0.0, (next_message,)), "messages"
            yield ("splice", target, 0.0, 0.0, (next_message,)), "messages"
            yield ("splice", target, -1.0, 1.0, (next_message, next_message + 1)), ("messages", "messages")
            yield ("splice", target, 0.0, 0.0, (next_message, next_message)), "edits"
            yield ("take", target, 1), "takes"
            for message in pending:
                yield ("splice", target, 0.0, 0.0, (message,)), "edits"
                yield ("splice", target, 0.0, 1.0, (message,)), "edits"
            for start in STARTS:
                for count in COUNTS:
                    yield ("splice", target, start, count, ()), "edits"
        for message in (*pending, next_message):
            yield ("remove", message), "edits"
            yield ("replace", message, message), "edits"
            yield ("replace", message, next_message), ("edits", "messages")
        for message in pending[1:]:
            yield ("replace", pending[0], message), "edits"
        yield ("clear_inbox",), "edits"


def bound(name: str, depth: int = 1, messages: int = 0, edits: int = 0, takes: int = 0, refusals: int = 0) -> Bound:
    """An inbox bound; what is not named is 0."""
    return Bound(name, (("messages", messages), ("edits", edits), ("takes", takes), ("refusals", refusals)), depth)


QUICK = bound("quick", messages=3, edits=1, takes=1, refusals=1)
SMALL = bound("small", messages=2, edits=1, takes=1, refusals=1)
DEEP = bound("deep", depth=2, messages=4, edits=2, takes=2, refusals=1)

BOUNDS = {one.name: one for one in (QUICK, SMALL, DEEP)}


def world(law: Law, limits: Bound = QUICK) -> World[Inbox]:
    """The inbox under a law, within limits, watched by a bystander."""
    return World(inbox.MACHINE, Config(Inbox(law)), InboxEnvironment(), limits, Seen(), watch)


def claims(law: Law, limits: Bound = QUICK) -> Claims:
    """Everything that is checked of it."""
    return claims_for(law, PROMISES, WITNESSES, dict(limits.budgets))
