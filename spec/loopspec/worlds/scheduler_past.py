"""What a bystander of a tool batch remembers: a fold over what was recorded, told, asked and answered.

The claims of `loopspec.properties.scheduler` judge the scheduler by this memory and by who is parked, never by the
scheduler's own fields. It keeps what the claims need of the past and forgets a call once its result is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from loopspec.inbox import Ids
from loopspec.kernel.budget import Monitor
from loopspec.kernel.machine import Effect
from loopspec.kernel.system import Label
from loopspec.scheduler import ENDS
from loopspec.worlds.scheduler_world import Scene

SYNTHETIC = ("never-started", "outcome-unknown", "not-started")
"""The outcomes of results that never saw the pipeline."""


class Story(NamedTuple):
    """One batch so far, as seen from outside. Calls are counted in model order, so one number says how many."""

    calls: int = 0
    """Records `tool/call`."""
    results: int = 0
    """Records `tool/result`."""
    prepared: int = 0
    """Calls that entered the executor."""
    executed: int = 0
    """The last call whose dispatch was begun."""
    finalised: int = 0
    """The last call that post-execute was asked about."""
    told: int = 0
    """Events `tools/result`."""
    outcome: str = ""
    """What the last of them said, until it is recorded."""
    allowed: int = -1
    """After the abort: the last call that may still start in earnest. Before it: -1."""
    classified: int = 0
    """The call that was just classified, until something else is recorded or told."""
    mode: str = ""
    """The last answer to `classify`."""
    barrier: int = 0
    """The last call that was started alone."""
    cap: int = 0
    """The last answer to `cap`."""
    settled: Ids = ()
    """Calls with a result that is not recorded yet."""
    final: Ids = ()
    """Those of them that post-execute must not see."""
    failed: Ids = ()
    """Those of them that failed for a reason of their own."""
    late: Ids = ()
    """Those of them that a body or a wrapper made a success of after the abort."""
    entered: Ids = ()
    """Calls whose body was invoked and whose result is not recorded yet."""
    marked: bool = False
    """The accepted result in hand carries the conclude mark."""
    contexts: bool = False
    """The result in hand has contexts."""
    owed: bool = False
    """The result was recorded, and its contexts must be taken now."""
    concluded: bool = False
    """A recorded success carried the conclude mark."""
    failure: Effect = ()
    """The first failure of the machinery."""
    over: bool = False
    """The batch has ended."""
    committing: bool = False
    """That failure was a sibling's, while a result was being finalised: the commits in hand are finished."""


def aborted(story: Story) -> bool:
    """The signal was aborted before now."""
    return story.allowed >= 0


def failure_in(label: Label, story: Story) -> Effect:
    """The failure of the machinery that a move is, as `(what, call)`; empty when it is none."""
    if label[0] == "refuse":
        return (label[1], label[2])
    if label[0] == "lose":
        return ("execute", label[1])
    if label[0] == "answer" and label[-1] in ("throws", "rejects"):
        return ("cap", story.calls + 1) if label[1] == "cap" else (label[1], label[2])
    return ()


def begin(scene: Scene) -> Story:
    """Nothing has happened, except perhaps the abort."""
    return Story(allowed=0) if scene.config.core.aborted else Story()


def advance(story: Story, label: Label, scene: Scene) -> Story:
    """The memory after one more move."""
    if label[0] == "leave" and label[1] in ENDS:
        return story._replace(over=True)
    failure = failure_in(label, story)
    if failure and not story.failure:
        busy = any(point[0] == "finalise" for point, _ in scene.config.parked)
        story = story._replace(failure=failure, committing=busy)
    change = _CHANGES.get(str(label[0]))
    if change is not None:
        story = change(story, label, scene)
    return _over(story) if story.failure and not story.committing else story


def _over(story: Story) -> Story:
    """After a failure, when no commit is in hand: what nobody will ask about any more is forgotten."""
    return Story(
        calls=story.calls,
        results=story.results,
        prepared=story.prepared,
        told=story.told,
        allowed=min(story.allowed, 0),
        failure=story.failure,
    )


def _append(story: Story, label: Any, scene: Scene) -> Story:
    call = label[2]
    if label[1] == "tool/call":
        return story._replace(calls=call)
    return story._replace(
        results=call,
        settled=_without(story.settled, call),
        final=_without(story.final, call),
        failed=_without(story.failed, call),
        late=_without(story.late, call),
        entered=_without(story.entered, call),
        concluded=story.concluded or (story.marked and label[3] == "success"),
        owed=story.contexts and label[3] not in SYNTHETIC,
        classified=0,
        outcome="",
        marked=False,
        contexts=False,
    )


def _park(story: Story, label: Any, scene: Scene) -> Story:
    name = label[1]
    if name == "prepare":
        call, scope = label[2], label[3]
        barrier = call if story.mode == "exclusive" else story.barrier
        final = _with(story.final, call) if scope == "arguments" else story.final
        return story._replace(prepared=call, barrier=barrier, final=final)
    if name == "body":
        return story._replace(executed=label[2])
    if name == "finalise":
        return story._replace(finalised=label[2], classified=0)
    if name == "contexts":
        return story._replace(owed=False)
    if name == "cap" and aborted(story):
        # A group that opens after the abort starts nothing, even if the classifier of its first call aborted.
        return story._replace(allowed=min(story.allowed, story.calls))
    return story


def _notify(story: Story, label: Any, scene: Scene) -> Story:
    story = story._replace(classified=0)
    return story._replace(told=label[2], outcome=label[3]) if label[1] == "tools/result" else story


def _answer(story: Story, label: Any, scene: Scene) -> Story:
    name, call, said = label[1], label[2], label[3:]
    if name == "cap":
        return story._replace(cap=said[0]) if said else story
    if name == "classify":
        stays = said[0] == "parallel" or not aborted(story)
        allowed = story.allowed if stays else min(story.allowed, story.calls)
        return story._replace(mode=said[0], classified=call, allowed=allowed)
    if name == "finalise":
        failed = _with(story.failed, call) if said[0] == "block" else story.failed
        return story._replace(marked=said[0] == "accept" and said[1], contexts=said[-1] is True, failed=failed)
    return _settle(story, name, call, said[0]) if name in ("prepare", "body") else story


def _settle(story: Story, name: str, call: int, said: str) -> Story:
    """A call got its result: from its preparation, or from its dispatch."""
    if said in ("throws", "rejects"):
        return story
    if said == "dispatch" and not aborted(story):
        return story
    story = story._replace(settled=_with(story.settled, call))
    own = said in ("failure", "post-result", "final-result") or (said == "cancelled" and not aborted(story))
    if own:
        story = story._replace(failed=_with(story.failed, call))
    if said == "success" and aborted(story):
        story = story._replace(late=_with(story.late, call))
    if said == "final-result":
        story = story._replace(final=_with(story.final, call))
    return story


def _with(calls: Ids, call: int) -> Ids:
    return tuple(sorted({*calls, call}))


def _without(calls: Ids, call: int) -> Ids:
    return tuple([other for other in calls if other != call])


def _enter(story: Story, label: Any, scene: Scene) -> Story:
    return story._replace(entered=_with(story.entered, label[1])) if label[2] else story


def _abort(story: Story, label: Any, scene: Scene) -> Story:
    asked = any(point[0] == "classify" for point, _ in scene.config.parked)
    return story._replace(allowed=story.calls + 1 if asked else story.calls)


_CHANGES = {
    "append": _append,
    "park": _park,
    "notify": _notify,
    "answer": _answer,
    "enter": _enter,
    "abort": _abort,
}

STORY: Monitor[Scene] = Monitor("story", begin, advance)


class Moment(NamedTuple):
    """When the signal was aborted: what was going on, about which call, and how many bodies had been entered."""

    place: str
    call: int
    bodies: int


NOT_YET = Moment("", 0, 0)
BEFORE = Moment("before", 0, 0)


def moment(scene: Scene) -> Moment:
    """What is going on in a scene: the innermost window, the open question or await point, or only bodies."""
    config = scene.config
    bodies = len(scene.reached)
    if config.stack:
        frame = config.stack[-1].frame
        return Moment(frame[0], frame[1] if len(frame) > 1 and isinstance(frame[1], int) else 0, bodies)
    for point, _ in config.parked:
        if point[0] != "body":
            return Moment(point[0], point[1] if len(point) > 1 else 0, bodies)
    return Moment("bodies", 0, bodies)


def _note_moment(memory: Moment, label: Label, scene: Scene) -> Moment:
    return moment(scene) if label == ("abort",) else memory


MOMENT: Monitor[Scene] = Monitor("moment", lambda scene: BEFORE if scene.config.core.aborted else NOT_YET, _note_moment)
"""Remembers the moment of the abort, for claims that something can happen; no other claim may ask it."""
