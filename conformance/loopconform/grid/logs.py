"""The logs of short stories: played once, every record kept, ids that the harness mints renamed by appearance."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from loopconform.grid.programs import Place, program
from loopconform.grid.scenarios import Json, Scenario
from loopconform.judge.storage import header_of
from loopconform.protocol.replies import Record
from loopconform.runner.play import Player
from loopspec import inbox
from loopspec.log import repair

CHUNKS = ("assistant/chunk", "agent/assistant-stream")


class Cut(NamedTuple):
    """The beginning of a log."""

    length: int
    events: tuple[Json, ...]
    last: str
    """The type of its last record."""
    shape: tuple[Any, ...]
    """What a resume finds in it: what is open, what is pending, whether there is a header."""


def told(player: Player, story: Scenario, shell: Any) -> list[Json]:
    """Every record of the agent `a` in a story, as files have it. Raises `ValueError` for a story that fails."""
    events: list[Json] = []

    def hear(reply: Any) -> None:
        if isinstance(reply, Record) and reply.agent == "a":
            events.append({**reply.event, "time": 0})

    result = player.play(shell(program(story, Place("after"), (), False)), "seed", until=hear)
    if result.verdict != "PASS":
        raise ValueError(f"the story {story.name!r} does not pass by itself: {result.reason}")
    return [renamed(event) for event in events]


def renamed(event: Json) -> Json:
    """Message ids of the suite are short; what the harness minted is named after its place in the log."""
    message = event["data"].get("message") if isinstance(event["data"], dict) else None
    if not isinstance(message, dict) or not isinstance(message.get("id"), str) or event["type"] == "user/message":
        return event
    return {**event, "data": {**event["data"], "message": {**message, "id": f"minted-{event['seq']}"}}}


def cuts(events: Sequence[Json]) -> Iterator[Cut]:
    """Every beginning of a log, but for those inside a run of chunks."""
    for length in range(1, len(events) + 1):
        last = str(events[length - 1]["type"])
        after = events[length]["type"] if length < len(events) else ""
        before = events[length - 2]["type"] if length > 1 else ""
        if last in CHUNKS and after in CHUNKS and before in CHUNKS:
            continue
        yield Cut(length, tuple(events[:length]), last, _shape(events[:length]))


def _shape(events: Sequence[Json]) -> tuple[Any, ...]:
    work = repair.open_work(events)
    lists: dict[str, list[Any]] = {"next-turn": [], "next-step": []}
    headers, turns = 0, 0
    for event in events:
        data = event["data"]
        if event["type"] == "agent/inbox/spliced":
            items = lists[data["target"]]
            start, count = data["start"], data.get("removedCount", 0)
            items[:] = inbox.spliced(tuple(items), start, count, tuple(data["inserted"]))
        headers += event["type"] == "request/header"
        turns += event["type"] == "turn/start"
    calls = tuple(at is not None for _, at in work.pending)
    sizes = tuple(len(items) for items in lists.values())
    return (events[-1]["type"], work.turn is None, work.step, calls, sizes, min(headers, 1), min(turns, 2))


def stored(events: Sequence[Json], version: int, id: str = "a") -> Json:
    """A session of the opening."""
    return {"header": dict(header_of(id, version)), "events": list(events)}
