"""One explanation of a log so far, and its canonical form.

**Folding.** Numbers of turns and steps, claimed messages and the difference between one and several listeners in a
row are dead detail and are folded away; messages are named by their place. So sets of explanations repeat, and what
was worked out for one is known for all (`loopspec.log.automaton`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from loopspec.attempt import LIVE
from loopspec.driver import Driver
from loopspec.inbox import Ids
from loopspec.kernel.machine import BEGUN, Activation, Config, Frame
from loopspec.log.batches import Calls
from loopspec.log.environment import ANY
from loopspec.log.observation import FRESH, STEPS, TURNS, Observation, renaming


class Point(NamedTuple):
    """One explanation of the log so far. `batch`: the calls still to begin (0: none), or the running batch.

    `silent`: the newest pending prompt that came without a wake, if one did (the older ones are claimed before it).
    `unseen`: a cancel that no record shows, while it may still keep something waiting.
    """

    config: Config[Driver]
    batch: Calls = 0
    silent: Ids = ()
    unseen: bool = False


_TURN_AT_2 = frozenset(("claim", "claim_prompt", "take_steps", "take_prompt", "tell_claimed"))


def _folded_frame(frame: Any) -> Any:
    """A frame without turn numbers, its messages folded: some or none, except where a list still changes by it."""
    if not frame:
        return frame
    label = frame[0]
    if label == "project":
        return (*frame[:5], _folded_frame(frame[5]))
    if label == "chunk" or label == "close":
        return (label, True)
    if label == "pulled":
        return (label, True)
    parts = tuple(_folded_part(part) for part in frame[1:])
    if label in _TURN_AT_2:
        parts = (parts[0], 0, *parts[2:])
    return (label, *parts)


def _folded_part(part: Any) -> Any:
    if type(part) is not tuple or not part:
        return part
    if type(part[0]) is int:
        return (ANY,) if part[0] >= STEPS else part
    return _folded_frame(part) if type(part[0]) is str else tuple(_folded_part(item) for item in part)


def _renamed_frame(frame: Frame, names: Any) -> Frame:
    """The messages that a waiting `project` still has to put into a list, called by their new places."""
    if frame and frame[0] == "project":
        return (*frame[:4], tuple(names(name) for name in frame[4]), frame[5])
    return frame


def folded(point: Point, seen: Observation | None = None) -> Point:
    """A point in its canonical form; `seen` is the splice that has just been written, when there was one."""
    core, stack, parked, waiting = point.config
    silent = point.silent
    next_step, next_turn = core.next_step, core.next_turn
    if seen is not None and seen[0] == "splice":
        names = renaming(seen)
        next_step = tuple([names(name) for name in next_step])
        next_turn = tuple([names(name) for name in next_turn])
        silent = tuple([at for at in map(names, silent) if TURNS <= at < FRESH])[-1:]
        stack = tuple([Activation(_renamed_frame(f, names), window, locked) for f, window, locked in stack])
    core = core.put(
        next_step=next_step,
        next_turn=next_turn,
        turn=0,
        step=1 if core.step else 0,
        doomed=core.doomed and core.law.any_disposal_bars_latch,
        signal=core.signal if core.signal in (LIVE, "disposed") else "user",
    )
    stack = tuple([Activation(_folded_frame(f), window, locked) for f, window, locked in stack])
    parked = tuple([(_folded_frame(p), _folded_frame(f)) for p, f in parked])
    inserts = seen is not None and seen[0] == "splice" and bool(seen[4])
    unseen = point.unseen and (inserts or core.signal != LIVE or bool(next_step or next_turn))
    return trimmed(Point(Config(core, stack, parked, waiting), point.batch, silent, unseen))


def _is_inert(frame: Frame) -> bool:
    """Nothing but listeners and the return of the call is left: what they do can be done right after as well."""
    label = frame[0]
    if label == "tell_inserted":
        return _is_inert(frame[2])
    if label == "tell_discarded":
        return _is_inert(frame[3])
    return bool(label == "answer" or label == "refused")


def _without_vain_wake(core: Driver, frame: Frame) -> Frame:
    """A running agent that is not on its way to idle ignores a wake, whatever listeners do before it (L-WAKE-3)."""
    label = frame[0]
    if label == "wake" and not frame[1]:
        return frame[2] if frame[2][0] == "answer" else frame
    if label == "project" or label == "tell_discarded" or label == "tell_inserted":
        return (*frame[:-1], _without_vain_wake(core, frame[-1]))
    return frame


def trimmed(point: Point) -> Point:
    """Without calls that have nothing left to do, and without wakes that nobody will hear."""
    config = point.config
    core, stack, parked, waiting = config
    if core.phase == "running" and not (core.closing and core.law.closing_run_latches):
        stack = tuple([Activation(_without_vain_wake(core, f), window, locked) for f, window, locked in stack])
    # A call that has waited stays until it has ended: only inside it can anybody call before the next one begins.
    begun = waiting[0][1] if waiting and waiting[0][0] == BEGUN else -1
    vain = [
        at != begun and not one.locked and one.window == "live" and _is_inert(one.frame) for at, one in enumerate(stack)
    ]
    if any(vain):
        if begun > 0:
            waiting = ((BEGUN, begun - sum(vain[:begun])), *waiting[1:])
        stack = tuple([one for one, gone in zip(stack, vain, strict=True) if not gone])
    if stack == config.stack:
        return point
    return point._replace(config=Config(core, stack, parked, waiting))


def least(points: Iterable[Point]) -> frozenset[Point]:
    """Without those that only differ from another by taking more for granted."""
    best: dict[tuple[Any, Any], list[tuple[Ids, bool]]] = {}
    for config, batch, silent, unseen in points:
        kept = best.setdefault((config, batch), [])
        if any(set(other) <= set(silent) and also <= unseen for other, also in kept):
            continue
        kept[:] = [(other, also) for other, also in kept if not (set(silent) <= set(other) and unseen <= also)]
        kept.append((tuple(sorted(silent)), unseen))
    return frozenset(Point(*key, *granted) for key, sets in best.items() for granted in sets)


def longer(point: Point) -> Point:
    """The batch (or the list of system changes) was longer by one than the row just written."""
    config = point.config
    top = config.stack[-1]
    label, rest, *more = top.frame
    assert label in ("admit", "admit_system")
    longer = (*rest, ANY) if label == "admit" else rest + 1
    if label == "admit" and rest:
        longer = rest
    frame = (label, longer, *more)
    return point._replace(config=config._replace(stack=(*config.stack[:-1], top._replace(frame=frame))))
