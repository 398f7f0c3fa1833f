"""A run played on an adapter, judged like a case, and held against what was to be seen of it."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from loopconform.replays.program import EVENTS, case_of, ends_at_rest, playable
from loopconform.replays.streams import Label
from loopconform.replays.transcript import labels_of, visible
from loopconform.runner.play import Player
from loopconform.runner.results import Result
from loopconform.tla.replay import Replay
from loopconform.tla.story import words
from loopconform.tla.trace import Unreadable

AGENT = "a"


class Played(NamedTuple):
    """What came of a run. `wanted` is what could be seen of it, and so many of these were `followed`; `instead` is what
    came where the implementation left it."""

    result: Result
    followed: int
    wanted: tuple[tuple[Any, ...], ...]
    instead: tuple[Any, ...] = ()
    more: tuple[Any, ...] = ()
    """What came behind a run of a broken law that had come to rest."""

    @property
    def whole(self) -> bool:
        """All of the run was seen, and nothing behind it where nothing may come."""
        return self.followed == len(self.wanted) and not self.more

    def told(self) -> str:
        """How far the run was followed, in words."""
        if self.whole:
            return f"it follows the run: all {len(self.wanted)} records and events"
        if self.more:
            return f"it follows the run to its end, where the run rests; and there came {words(self.more)}"
        came = words(self.instead) if self.instead else "nothing more"
        return (
            f"it follows the run for {self.followed} of {len(self.wanted)} records and events; then the run has "
            f"{words(self.wanted[self.followed])}, and there came {came}"
        )


def play(player: Player, run: Replay, name: str = "run") -> Played:
    """Play a run. Raises `Untranslatable`.

    The judge decides whether what happens is lawful. PASS says besides that a run of the law was followed to its end,
    and that a run of a broken law was not. When that is otherwise, the verdict is UNDETERMINED: another thing happened
    than the run was about.
    """
    run = playable(run)
    case = case_of(run, name)
    result = player.play(case, run.profile)
    partial = player.hello.partial if player.hello is not None else ()
    wanted = tuple(always_heard(visible(run.labels, run.machine == "loop"), partial))
    try:
        seen = labels_of(result.transcript, AGENT, run.session_format)
    except Unreadable:
        seen = []
    seen = always_heard(visible(seen, run.machine == "loop"), partial)
    followed = next((at for at, label in enumerate(wanted) if at >= len(seen) or seen[at] != label), len(wanted))
    next_seen = seen[followed] if followed < len(seen) else ()
    is_left = followed < len(wanted)
    rests = bool(run.broken) and not is_left and ends_at_rest(run)
    played = Played(result, followed, wanted, next_seen if is_left else (), next_seen if rests else ())
    if result.verdict != "PASS":
        return played
    return played._replace(result=_held(result, run, played))


def always_heard(labels: Iterable[Label], partial: Container[str]) -> list[Label]:
    """The labels without the events that the adapter says it cannot hear every time."""
    return [label for label in labels if label[0] != "notify" or EVENTS.get(label[1], label[1]) not in partial]


def _held(result: Result, run: Replay, played: Played) -> Result:
    if run.broken and played.whole:
        reason = f"the run breaks the law ({', '.join(run.broken)}), but nothing unlawful is seen of it"
        return result._replace(verdict="UNDETERMINED", reason=reason)
    if not run.broken and not played.whole:
        return result._replace(verdict="UNDETERMINED", reason=f"lawful, but another run: {played.told()}")
    return result
