"""The surroundings that the protocol can make for each machine, and what an adapter can report of its moves.

Every label counts as visible unless it is named here, so that a doubt is never in favour of a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any, NamedTuple

from loopspec import scheduler
from loopspec.creation import holds_reservation
from loopspec.driver import status
from loopspec.kernel.machine import Answer, Effect
from loopspec.profile import Law, Profile, law
from loopspec.registry import Kind, entries, is_free
from loopspec.transaction import Creation, is_gone, member
from loopspec.worlds import creation_world, driver_world
from loopspec.worlds.creation_world import Choices, CreationWorld
from loopspec.worlds.scheduler_world import Freedom, Scene, Scheduling
from loopspec.worlds.world import World

Label = Any
"""A move's label, of any machine."""
Seen = Any
"""A visible label; `None` for one that nobody sees."""


class Bound(NamedTuple):
    """One system in the surroundings of the protocol. `seen` says what a label shows, `reads` what a resting node."""

    name: str
    system: Callable[[], Any]
    seen: Callable[[Any, Label], Seen]
    reads: Callable[[Any], Hashable]


UNGATED = ("tick", "gap")
"""Await points without a gate: how long they take is an implementation's own, so nobody sees them. What is done there
looks as if it were done before or behind them."""


class GatedDriver(World[Any]):
    """A driver whose surroundings act at any time, and know of a time by its gates and dispatches only."""

    def moves(self, node: Any) -> Iterator[tuple[Label, Any]]:
        """Every move; the first header of a driver is written, as the harness finds it to be another."""
        config = node.config
        moves: Iterator[tuple[Label, Any]] = super().moves(node)
        for label, after in moves:
            if (
                label[0] == "answer"
                and label[1] == ("prepare",)
                and not config.core.headed
                and label[2][1:2] == (False,)
            ):
                # The harness compares the header with the last one itself: the first of a driver always differs.
                label = ("answer", label[1], ("prepared", True, *label[2][2:]))
                index = [point for point, _ in config.parked].index(("prepare",))
                after = after._replace(config=self.machine.resume(config, label[2], index))
            yield label, after


def _driver_seen(node: Any, label: Label) -> Seen:
    """What a driver changes in silence shows in what is possible later."""
    hidden = (label[0] == "park" and label[1] in UNGATED) or (label[0] == "answer" and label[1][0] in UNGATED)
    return None if hidden or label[0] == "note" else label


def _driver_reads(node: Any) -> Hashable:
    core = node.config.core
    return status(core), core.next_turn, core.next_step


def _driver(chosen: Law, budgets: dict[str, int]) -> GatedDriver:
    made = driver_world.world(chosen, driver_world.bound("observed", **budgets))
    return GatedDriver(made.machine, made.first, made.environment, made.bound, (), lambda memory, label: memory)


ABORTED, BEFORE_DISPATCH = "aborted", "aborted-before-dispatch"


class Calls(NamedTuple):
    """A batch, and what the harness keeps of each of its calls: who asked policy, and the results so far."""

    scene: Scene
    asked: frozenset[int] = frozenset()
    slots: tuple[tuple[int, str], ...] = ()
    results: tuple[tuple[int, str], ...] = ()

    @property
    def config(self) -> Any:
        """The scheduler's configuration."""
        return self.scene.config


class GatedScheduling(Scheduling):
    """A batch as the harness runs it under the hooks of the protocol.

    No classifier, wrapper, approval or finalizer fails, and every dispatch begins. The pipeline looks at the signal
    itself: under an abort it asks no policy, enters no body, and makes an aborted result of a late success.
    """

    def initial(self) -> Iterator[Any]:
        """A batch that nobody has looked at."""
        yield from (Calls(scene) for scene in super().initial())

    def moves(self, calls: Any) -> Iterator[tuple[Label, Any]]:
        """Everything that hooks of the protocol can do, with what the harness makes of it."""
        is_aborted = calls.config.core.aborted
        moves: Iterator[tuple[Label, Scene]] = super().moves(calls.scene)
        for label, scene in moves:
            after = calls._replace(scene=scene)
            if label[0] == "answer":
                after = self._answered(after, calls, label, is_aborted)
            elif label[:2] == ("park", "prepare") and not is_aborted:
                after = after._replace(asked=after.asked | {label[2]})
            elif label[:2] == ("notify", "tools/result"):
                after = _told(after, label[2], label[3])
            elif label[0] == "lose" or (label[0] == "enter" and is_aborted):
                continue
            if after is not None:
                yield label, after
            if after is not None and is_aborted and label[:2] == ("answer", "body") and label[3] == "failure":
                # A success that comes late is an aborted result: the scheduler hears of a failure.
                yield (*label[:3], "late success"), _kept(after, label[2], ABORTED)
        yield from self._unentered(calls)

    def _unentered(self, calls: Calls) -> Iterator[tuple[Label, Any]]:
        """T-304  Under an abort the pipeline begins no body: such a dispatch ends."""
        config = calls.config
        points = [point for point, _ in config.parked]
        if config.stack or not config.core.aborted or any(map(scheduler.is_question, points)):
            return
        for index, point in enumerate(points):
            if point[0] == "body" and point[1] not in calls.scene.reached:
                scene = calls.scene._replace(config=self.machine.resume(config, ("barred",), index))
                after = _kept(calls._replace(scene=scene), point[1], BEFORE_DISPATCH)
                yield ("answer", "body", point[1], "barred"), after

    def _answered(self, after: Calls, before: Calls, label: Label, is_aborted: bool) -> Calls | None:
        name = label[1]
        call, said = (*label[2:4], "")[:2]
        if name in ("classify", "cap", "contexts"):
            return None if name != "contexts" and label[-1] == "throws" else after
        if name == "prepare":
            may_say = ("dispatch", "post-result", "final-result") if call in before.asked else ("dispatch",)
            if said not in may_say:
                return None
            if said != "dispatch":
                return _kept(after, call, "failure")
            return _kept(after, call, BEFORE_DISPATCH) if is_aborted else after
        if name == "body":
            has_entered = call in before.scene.reached and call not in before.scene.barred
            if (said == "barred") != (is_aborted and not has_entered) or said not in ("barred", "success", "failure"):
                return None
            if said == "success" and (is_aborted or not has_entered):
                return None
            return _kept(after, call, BEFORE_DISPATCH if said == "barred" else said)
        return self._reviewed(after, before, label)

    def _reviewed(self, after: Calls, before: Calls, label: Label) -> Calls | None:
        _, _, call, said, *more = label
        outcome = next(point[2] for point, _ in before.config.parked if point[:2] == ("finalise", call))
        result = BEFORE_DISPATCH if outcome == BEFORE_DISPATCH else dict(before.slots)[call]
        if said == "throws":
            return None
        if said == "block":
            result = "failure"
        elif result == "success":
            result = scheduler.replaced(before.config.core, call, outcome)
        if said == "accept" and more[0] and result != "success":
            return None
        return after._replace(results=tuple(sorted({**dict(after.results), call: result}.items())))


def _kept(calls: Calls, call: int, result: str) -> Calls:
    return calls._replace(slots=tuple(sorted({**dict(calls.slots), call: result}.items())))


def _told(calls: Calls, call: int, outcome: str) -> Calls:
    if call in dict(calls.results):
        return calls
    result = BEFORE_DISPATCH if outcome == BEFORE_DISPATCH else dict(calls.slots)[call]
    return calls._replace(results=tuple(sorted({**dict(calls.results), call: result}.items())))


def _scheduler_seen(calls: Any, label: Label) -> Seen:
    """A dispatch is seen when it stands in its body; of a result everybody sees what the harness made of it."""
    if len(label) == 1:
        return label
    name = label[1]
    if label[:2] in (("notify", "tools/execute"), ("park", "body")) or (label[0] == "enter" and not label[2]):
        return None
    if (label[0], name, label[-1]) == ("answer", "body", "barred"):
        return None
    if name == "prepare" and (label[2] not in calls.asked) and (label[0] == "answer" or calls.config.core.aborted):
        return None
    if name == "prepare" and label[0] == "park":
        return label[:3]
    if name == "finalise" and label[0] == "park":
        return label[:3]
    if label[:2] == ("notify", "tools/result"):
        return (*label[:3], dict(_told(calls, label[2], label[3]).results)[label[2]] != "success")
    if label[:2] == ("append", "tool/result"):
        shown = {"never-started": BEFORE_DISPATCH, **{kind: kind for kind in ("outcome-unknown", "not-started")}}
        return (*label[:3], shown.get(label[3]) or dict(calls.results)[label[2]])
    if label[:2] in (("leave", "throws"), ("refuse", "tool/result")):
        return label[:2] if label[0] == "leave" else label[:3]
    return None if label[0] == "leave" and not scheduler.is_over(label[1:]) else label


def _scheduler_reads(calls: Any) -> Hashable:
    """Hooks that stand at gates."""
    parked = [point for point, _ in calls.config.parked]
    bodies = {call for call in calls.scene.reached if call not in calls.scene.barred}
    return tuple(
        sorted(
            point[:2]
            for point in parked
            if point[0] == "finalise"
            or (point[0] == "prepare" and point[1] in calls.asked)
            or (point[0] == "body" and point[1] in bodies)
        )
    )


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

SHOWN_CREATION: dict[str, tuple[str, ...]] = {
    "notify": (
        "session/created", "session/disposed", "agent/created", "agent/session-start", "agent/disposed",
        "session/event", "setup", "running", "ghost",
    ),
    "note": ("resolve", "reject", "unwind", "unloaded", "hang"),
    "park": ("load", "agent/created"),
    "answer": ("setup", "load"),
}  # fmt: skip
"""What an adapter can tell, by verb: live events, hooks at gates and those that are let go, promises. Every call and
its end is seen besides, the end of a run among them. What a registry holds is read at rest (`_creation_reads`); what a
step changed inside shows in what is possible later."""


def _is_late_rejection(lives: Any, label: Label) -> bool:
    """C-RBK-2  A create that has been rolled back rejects."""
    return bool(label[:2] == ("leave", "reject") and lives.config.stack[-1].frame[0] == "reject")


def _creation_seen(node: Any, label: Label) -> Seen:
    verb, what = label[:2]
    if _is_late_rejection(node, label):
        return None
    if label[:2] == ("notify", "cancel"):
        return label if member(node.config.core, label[2]).driver != "absent" else None  # else nobody is cancelled
    if verb in SHOWN_CREATION:
        name = what[0] if verb == "answer" else what
        is_own_doing = verb == "answer" and label[2] == ("deactivated",)
        return label if name in SHOWN_CREATION[verb] and not is_own_doing else None
    return label


def _creation_reads(node: Any) -> Hashable:
    """What the registries hold, and which promises of creates have been rejected, for what reason."""
    held = [tuple(sorted((entry.id, entry.object) for entry in entries(node.config.core, kind))) for kind in KINDS]
    return *held, node.rejected


def _creation(profile: Profile, choices: dict[str, Any], budgets: dict[str, int]) -> SmallCreation:
    return SmallCreation(law(profile, 0), Choices(**choices), creation_world.bound("observed", **budgets))


BATCH = Freedom(
    calls=2,
    caps=(1, 2),
    prepare=("dispatch", "post-result", "final-result"),
    body=("success", "failure"),
    finalise=(("accept", False, False), ("accept", True, True), ("block", True)),
    skips_body=True,
)
"""What hooks of the protocol answer. A tool that nobody has is a dispatch that never reaches a body."""

DRIVER: dict[str, dict[str, int]] = {
    "one": {"messages": 1, "cancel_user": 1, "turns": 2, "faults": 1, "calls": 1},
    "two": {"messages": 2, "cancel_user": 1, "turns": 2},
    "refused": {"messages": 2, "turns": 2, "refusals": 1},
}
CREATION: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
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


LAWS: tuple[tuple[Profile, int], ...] = (("seed", 0), ("dsh-0.1", 0), ("dsh-0.1.7", 4))
"""What is asked under one law only is seen under that law only."""


POOLS: tuple[tuple[Profile, int], ...] = (("seed", 4), ("dsh-0.1", 0))
"""The laws of the pool: only the first one completes a batch that has failed."""


def bounds() -> Iterator[Bound]:
    """Every system that is compared."""
    for name, budgets in DRIVER.items():
        for profile, version in LAWS:
            chosen = law(profile, version)
            yield Bound(
                f"driver {name}, {profile}, at gates", partial(_driver, chosen, budgets), _driver_seen, _driver_reads
            )
    for profile, version in POOLS:
        pool = partial(GatedScheduling, law(profile, version), BATCH)
        yield Bound(f"scheduler, {profile}, the hooks of the protocol", pool, _scheduler_seen, _scheduler_reads)
    for name, (choices, budgets) in CREATION.items():
        for profile, _ in LAWS:
            yield Bound(
                f"creation {name}, {profile}, the calls of the protocol",
                partial(_creation, profile, choices, budgets),
                _creation_seen,
                _creation_reads,
            )
