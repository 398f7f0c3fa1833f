"""The lives of agents as the protocol surrounds them: what it can ask of creation, and what an adapter tells of it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from loopconform.mutants.surroundings.bound import Label, Seen
from loopspec.creation import holds_reservation
from loopspec.kernel.machine import Answer, Effect
from loopspec.profile import Profile, law
from loopspec.registry import Kind, entries, is_free
from loopspec.transaction import Creation, is_gone, member
from loopspec.worlds import creation_world
from loopspec.worlds.creation_world import Choices, CreationWorld


class Lives(NamedTuple):
    """A state of creation, and why promises of creates were rejected so far: they are told some time after."""

    node: Any
    rejected: frozenset[Label] = frozenset()

    @property
    def config(self) -> Any:
        """The configuration of the machine."""
        return self.node.config


class SmallCreation(CreationWorld):
    """The world of creation, small step by small step."""

    def initial(self) -> Iterator[Any]:
        """Nobody lives."""
        yield from (Lives(node) for node in super().initial())

    def moves(self, lives: Any) -> Iterator[tuple[Label, Any]]:
        """Every small move of the protocol's making.

        In a dispatch that no listener of the protocol hears nobody calls; no awaited listener throws; the storage
        hands out no session that is live (C-RES-6), or whose resume is open (C-RES-7).
        """
        core, stack = lives.config.core, lives.config.stack
        is_unheard = bool(stack) and (stack[-1].frame[0] in UNHEARD or stack[-1].frame == AFTER_A_RUN)
        for label, after in self.small_moves(lives.node):
            if label[0] == "call" and (is_unheard or _is_in_vain(core, label)):
                continue
            if label[0] == "answer" and not self._comes(core, *label[1:]):
                continue
            told = {label[2:]} if _is_late_rejection(lives, label) else set()
            yield label, Lives(after, lives.rejected | told)

    def _comes(self, core: Creation, point: Effect, answer: Answer) -> bool:
        """Whether an answer can come like this."""
        if point[0] == "load" and answer[0] != "deactivated":
            id = member(core, point[1]).id
            is_there = answer[0] == "loaded" and not is_free(core, "session", id)
            return not is_there and not holds_reservation(core, point[1], id)
        return bool(point[0] != "agent/created" or answer[0] != "throws")


def _is_in_vain(core: Creation, label: Label) -> bool:
    """A child is asked of an agent that is gone and not forgotten: that lasts a tick, which no gate holds."""
    return label[1] in VERBS and label[4][0] == "agent" and is_gone(core, label[4][1])


VERBS = ("create", "create_now", "resume")
KINDS: tuple[Kind, ...] = ("agent", "session")

UNHEARD = ("minted", "await_setup", "committed", "ghost_ran")
"""Frames behind the dispatches that only the loop itself hears."""
AFTER_A_RUN = ("ran", ("answer", None))
"""The frame behind the machine's report of a run: the status that people hear is the driver's, before or after."""

SHOWN: dict[str, tuple[str, ...]] = {
    "notify": (
        "session/created", "session/disposed", "agent/created", "agent/session-start", "agent/disposed",
        "session/event", "setup", "running", "ghost",
    ),
    "note": ("resolve", "reject", "unwind", "unloaded", "hang"),
    "park": ("load", "agent/created"),
    "answer": ("setup", "load"),
}  # fmt: skip
"""What an adapter can tell, by verb: live events, hooks at gates and those that are let go, promises. Every call and
its end is seen besides, the end of a run among them. What a registry holds is read at rest (`reads`); what a
step changed inside shows in what is possible later."""


def _is_late_rejection(lives: Any, label: Label) -> bool:
    """C-RBK-2  A create that has been rolled back rejects."""
    return bool(label[:2] == ("leave", "reject") and lives.config.stack[-1].frame[0] == "reject")


def seen(node: Any, label: Label) -> Seen:
    """What an adapter can tell of a move."""
    verb, what = label[:2]
    if _is_late_rejection(node, label):
        return None
    if label[:2] == ("notify", "cancel"):
        return label if member(node.config.core, label[2]).driver != "absent" else None  # else nobody is cancelled
    if verb in SHOWN:
        name = what[0] if verb == "answer" else what
        is_own_doing = verb == "answer" and label[2] == ("deactivated",)
        return label if name in SHOWN[verb] and not is_own_doing else None
    return label


def reads(node: Any) -> Hashable:
    """What the registries hold, and which promises of creates have been rejected, for what reason."""
    held = [tuple(sorted((entry.id, entry.object) for entry in entries(node.config.core, kind))) for kind in KINDS]
    return *held, node.rejected


def small(profile: Profile, choices: dict[str, Any], budgets: dict[str, int]) -> SmallCreation:
    """Creation under a law, with these choices and budgets."""
    return SmallCreation(law(profile, 0), Choices(**choices), creation_world.bound("observed", **budgets))


PLANS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "one": (
        {"verbs": ("create", "create_now"), "flaws": ("", "aborted"), "requests": ("dispose",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "aborts": 1, "disposals": 1, "appends": 1, "inner": 1},
    ),
    "woken": (
        {"fibers": ("provider",), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 1, "creates": 1, "ids": 1, "callers": 1, "disposals": 1, "unloads": 1, "wakes": 1, "inner": 1},
    ),
    "pair": (
        {"fibers": (), "requests": ("dispose",)},
        {"depth": 1, "creates": 2, "ids": 1, "callers": 1, "disposals": 1},
    ),
    "resumed": (
        {"verbs": ("create", "resume"), "requests": ("dispose",), "setups": ("settles",), "fibers": ()},
        {"depth": 1, "creates": 2, "ids": 1, "callers": 1, "aborts": 1, "disposals": 1},
    ),
    "refused": (
        {"verbs": ("create", "create_now"), "events": ("session/created",), "requests": ("dispose",), "fibers": ()},
        {"depth": 0, "creates": 2, "ids": 1, "callers": 1, "disposals": 1, "escapes": 1},
    ),
    "waiting": (
        {"fibers": ("agents",), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 0, "creates": 1, "ids": 1, "callers": 1, "disposals": 1, "unloads": 1, "wakes": 1, "waits": 1},
    ),
    "family": (
        {"owners": ("caller", "agent"), "requests": ("dispose",), "setups": ("settles",)},
        {"depth": 0, "creates": 2, "ids": 2, "callers": 1, "disposals": 1, "unloads": 1},
    ),
}
"""Choices and budgets: no listener throws but that of a storage (C-RES-8), nobody registers objects of his own."""
