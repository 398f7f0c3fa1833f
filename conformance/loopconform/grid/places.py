"""Where something can happen in a story: played once, every dispatch in it is a place, and every gate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from loopconform.grid.programs import Place, program
from loopconform.grid.scenarios import Scenario
from loopconform.protocol.replies import Live, Record
from loopconform.runner.play import Player

MOST = 3
"""Of dispatches of one name only the first few are places: more of them are like these."""

SPARED = ("assistant/chunk", "agent/assistant-stream")
"""Dispatches of which one is enough."""


def places(player: Player, story: Scenario, creates: bool, shell: Any) -> Iterator[Place]:
    """The places of a story, in order of appearance. `shell` makes a case of a program."""
    yield Place("before")
    if story.start:
        yield Place("after")
    heard: list[tuple[str, str]] = []

    def hear(reply: Any) -> None:
        if isinstance(reply, Record):
            heard.append(("record", str(reply.event["type"])))
        elif isinstance(reply, Live):
            heard.append(("live", reply.name))

    result = player.play(shell(program(story, Place("after"), (), creates)), "seed", until=hear)
    if result.verdict != "PASS":
        raise ValueError(f"the story {story.name!r} does not pass by itself: {result.reason}")
    count: Counter[tuple[str, str]] = Counter()
    for kind, name in heard[0 if creates else _begun(heard) :]:
        count[kind, name] += 1
        if count[kind, name] <= (1 if name in SPARED else MOST):
            yield Place("inside", kind, name, count[kind, name])
    for gate in story.gates:
        yield Place("at", "gate", gate)


def _begun(heard: list[tuple[str, str]]) -> int:
    """Where the story begins: behind the creation of its agent."""
    starts = [at for at, (_, name) in enumerate(heard) if name == "agent/session-start"]
    return starts[0] + 1 if starts else 0
