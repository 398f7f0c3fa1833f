"""Stories of stored sessions: logs that end anywhere, crashes at every gate, clean ends, and what a resume meets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from loopconform.grid import logs, scenarios
from loopconform.grid.programs import SETTLE, opening, released
from loopconform.grid.scenarios import Json, Scenario
from loopconform.protocol.parts import Profile
from loopconform.protocol.requests import REQUEST
from loopconform.runner.play import Player

RESUME: Json = {"op": "resume", "owner": "o", "signal": "s", "setup": True}
FOLLOWUP: Json = {"op": "followup", "message": "m7"}

TOLD = tuple(
    story
    for story in scenarios.SCENARIOS
    if story.name in ("plain", "queued", "steered", "injected", "tool", "pool", "retried", "cut", "plain-v4", "tool-v4")
)
"""Stories of which logs are cut, and in which the process dies."""


WHOLE = ("plain", "tool")
"""Stories that also end cleanly everywhere, and are forked everywhere."""


class Told(NamedTuple):
    """A program of this grid before anybody has played it."""

    id: str
    title: str
    clauses: tuple[str, ...]
    profiles: tuple[Profile, ...]
    requests: tuple[Any, ...]


def profiles_of(story: Scenario) -> tuple[Profile, ...]:
    """The laws under which a story means something."""
    return ("seed", "dsh-0.1.7") if story.session_format else ("seed", "dsh-0.1")


def programs(player: Player, shell: Callable[[Sequence[Any]], Any]) -> Iterator[Told]:
    """Every program: logs that are cut, crashes, and clean ends."""
    seen: set[tuple[Any, ...]] = set()
    for story in TOLD:
        yield from _cut(story, logs.told(player, story, shell), seen)
        for gate in ("", *story.gates):
            for end in ("crash", "unload", "dispose") if story.name in WHOLE else ("crash",):
                yield _ended(story, gate, end)
        yield _ended(story, "", "twice")
        for gate in ("", *story.gates) if story.name in (*WHOLE, "tool-v4") else ():
            yield _forked(story, gate)


def _cut(story: Scenario, events: list[Json], seen: set[tuple[Any, ...]]) -> Iterator[Told]:
    """C-RPR-2, C-INB-1  The log of a crash after each record, resumed, read, and gone on with."""
    for cut in logs.cuts(events):
        if (story.session_format, *cut.shape) in seen:
            continue
        seen.add((story.session_format, *cut.shape))
        told = opening(story._replace(stored=(logs.stored(cut.events, story.session_format),)), ())
        requests = (told, *_again(story.name == "plain"))
        title = f"a log that ends with record {cut.length}, {cut.last}: {story.title}"
        clauses: tuple[str, ...] = ("C-RES-11", "C-RES-12", "C-INB-1", "C-INB-2", "L-PH-6", "L-IN-16")
        if not cut.shape[1]:
            clauses += ("C-RPR-2", "C-RPR-3", "S-REP-2", "S-REP-3", "S-REP-4")
        yield _told(f"resume/{story.name}/cut-{cut.length}", title, clauses, story, requests)


def _ended(story: Scenario, gate: str, end: str) -> Told:
    """C-RES-11, S-DSK-32  The world or the agent ends at a gate, or behind the story; then a resume."""
    told = opening(story, (gate,) if gate else ()) | {"storage": True, "requests": True}
    requests: list[Json] = [told, _do({"op": "create"}), SETTLE, *story.plans]
    if story.start:
        requests += [_do(*story.start), SETTLE]
    if gate:
        requests += [_do({"op": "inject", "message": "m5"}), SETTLE]
    if end == "unload":
        requests += [_do({"op": "unload", "fiber": "provider"}), SETTLE]
    elif end == "dispose":
        requests += [_do({"op": "dispose"}), SETTLE]
    if gate and end != "crash":
        requests += list(released(story, gate))
    if end != "dispose":
        requests += [_do({"op": "restart"}), SETTLE]
    requests += _again(end == "crash")
    if end == "twice":
        requests += [_do({"op": "restart"}), SETTLE, *_again(True)[:4]]
    where = f"at the gate {gate}" if gate else "behind it"
    title = f"{_ENDS[end]} {where}, then a resume: {story.title}"
    return _told(f"resume/{story.name}/{end}{f'-at-{gate}' if gate else ''}", title, _OF[end], story, requests)


_OF = {
    "crash": ("C-RES-11", "C-RPR-2", "C-INB-1", "S-DSK-32", "S-REQ-10"),
    "unload": ("C-RES-11", "C-INB-4", "C-OWN-7", "S-FRK-1"),
    "dispose": ("C-RES-11", "C-INB-4", "C-RES-12", "S-FRK-1"),
    "twice": ("C-RES-11", "C-RES-12", "S-FRK-1", "S-FRK-2"),
}
_ENDS = {
    "crash": "a crash",
    "unload": "the provider is unloaded, and the process ends",
    "dispose": "the agent is disposed",
    "twice": "a crash, a turn and another crash",
}


def _forked(story: Scenario, gate: str) -> Told:
    """C-FRK-5, C-FRK-11, L-IN-16  A copy of a live log, in the middle of a turn or behind it, and its own turn."""
    told = opening(story, (gate,) if gate else ()) | {"storage": True, "requests": True}
    requests: list[Json] = [told, _do({"op": "create"}), SETTLE, *story.plans, _do(*story.start), SETTLE]
    requests += [_do({"op": "inject", "message": "m5"}), SETTLE]
    requests += [_do({"op": "fork", "agent": "c", "source": "a"}), SETTLE, _do({"op": "log", "agent": "c"})]
    if gate:
        requests += list(released(story, gate))
    requests += [_do({**FOLLOWUP, "agent": "c"}), SETTLE]
    if gate == "":
        requests += [_do({"op": "restart"}), SETTLE, _do({"op": "resume", "agent": "c"}), SETTLE]
        requests += [_do({"op": "log", "agent": "c"}), SETTLE]
    title = f"a fork {f'at the gate {gate}' if gate else 'behind it'}: {story.title}"
    clauses = (
        "C-FRK-5",
        "C-FRK-9",
        "C-FRK-11",
        "C-FRK-12",
        "L-IN-16",
        "S-FRK-5" if story.session_format else "S-FRK-4",
    )
    return _told(f"resume/{story.name}/fork{f'-at-{gate}' if gate else ''}", title, clauses, story, requests)


def _again(reads: bool) -> list[Json]:
    """Resume, read the log, and run a turn; whoever stands at a gate then is let go."""
    read = [_do({"op": "log"})] if reads else []
    return [_do({"op": "resume"}), SETTLE, *read, _do(FOLLOWUP), SETTLE]


def _do(*ops: Json) -> Json:
    return {"verb": "do", "ops": list(ops)}


def _told(id: str, title: str, clauses: tuple[str, ...], story: Scenario, requests: Sequence[Json]) -> Told:
    whole = tuple(REQUEST.validate_python(request) for request in requests)
    return Told(id, title, clauses, profiles_of(story), whole)


# -- what a resume meets ----------------------------------------------------------------------------------------


def stories(events: Sequence[Json]) -> tuple[Scenario, ...]:
    """Stories in which a resume is made, over a log that a crash has ended in the middle of a turn."""
    log = (logs.stored(events, 0),)
    return (
        Scenario("taken-up", "a session is resumed", "resume", (RESUME,), gates=("load", "setup"), stored=log),
        Scenario(
            "woken",
            "a session is resumed and runs a turn",
            "resume",
            ({"op": "resume"}, {"op": "when-idle"}),
            gates=("load",),
            stored=log,
        ),
        Scenario(
            "doubled",
            "two resumes of one session",
            "resume",
            (RESUME, {**RESUME, "as": "y", "signal": "t"}),
            gates=("setup",),
            stored=log,
        ),
        Scenario(
            "nobody", "a session that is not there is resumed", "resume", ({"op": "resume", "agent": "b"},), stored=log
        ),
    )


OPERATIONS: dict[str, Json] = {
    "abort": {"op": "abort", "signal": "s"},
    "dispose": {"op": "dispose"},
    "unload-owner": {"op": "unload", "fiber": "o"},
    "unload-provider": {"op": "unload", "fiber": "provider"},
    "resume-same": {"op": "resume", "as": "z"},
    "followup": FOLLOWUP,
    "cancel": {"op": "cancel"},
}
"""What may be done at a place of them."""

PAIRED = ("abort", "unload-provider", "resume-same")
