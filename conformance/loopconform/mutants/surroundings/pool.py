"""A batch of tool calls as the harness runs it under the hooks of the protocol."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

from loopconform.mutants.surroundings.bound import Label, Seen
from loopspec import scheduler
from loopspec.profile import Profile
from loopspec.worlds.scheduler_world import Freedom, Scene, Scheduling

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
            result = scheduler.replaced(before.config.core, call, "failure") if outcome == "success" else "failure"
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


def seen(calls: Any, label: Label) -> Seen:
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


def reads(calls: Any) -> Hashable:
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


FREEDOM = Freedom(
    calls=2,
    caps=(1, 2),
    prepare=("dispatch", "post-result", "final-result"),
    body=("success", "failure"),
    finalise=(("accept", False, False), ("accept", True, True), ("block", True)),
    skips_body=True,
)
"""What hooks of the protocol answer. A tool that nobody has is a dispatch that never reaches a body."""

LAWS: tuple[tuple[Profile, int], ...] = (("seed", 4), ("dsh-0.1", 0))
"""The laws of the pool: only the first one completes a batch that has failed."""
