"""Which results the slice policy has to show condensed at the end of a pre-step, read off the known log (5.).

What was folded, what was taken back by `expand_result`, and where folding gives way is worked out from the whole log
each time: nothing is remembered but how far the last pass has got.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from loopconform.judge.points import canonical
from loopspec.tape import fold, recall
from loopspec.tape.config import SliceConfig
from loopspec.tape.index import LogIndex, arguments_of
from loopspec.tape.text import origin, outcome

Event = Any


class Due(NamedTuple):
    """A replacement that is due: of the result at `seq`, with this record data as canonical text."""

    seq: int
    data: str


def nobodys(locator: str) -> bool:
    """RC-38  Nothing is stored beside the log here: no text is a preview of ours."""
    return False


def due(index: LogIndex, shown: Sequence[int], start: int, config: SliceConfig) -> tuple[Due, ...]:
    """FD-01 to FD-05  What the results from `start` on have to be replaced with, in order."""
    given_up = _given_up(index, config)
    standing = frozenset(shown)
    found = []
    for seq in range(start, index.length):
        event = index.events[seq]
        if event["type"] == "tool/result" and origin(event) and seq in standing:
            content = fold.candidate(index, seq, config.fold, config.digest, nobodys, given_up)
            if content is not None:
                data = {**event["data"], "message": {**event["data"]["message"], "content": content}}
                found.append(Due(seq, canonical(data)))
    return tuple(found)


def _given_up(index: LogIndex, config: SliceConfig) -> set[str]:
    """FD-30, FD-31  The scopes of which enough was retrieved in full."""
    scopes: dict[int, str] = {}
    tallies: dict[str, fold.Tally] = {}
    retrieved: set[int] = set()
    given_up: set[str] = set()
    for event in index.events[: index.length]:
        if event["type"] != "tool/result":
            continue
        if not origin(event):
            subject = fold.is_fold(index, event, config.digest, nobodys)
            if subject is not None:
                scopes[subject.seq] = subject.scope
                tally = tallies.get(subject.scope, fold.Tally())
                tallies[subject.scope] = tally._replace(folded=tally.folded + 1)
            continue
        found = _retrieved(index, event)
        if found not in scopes or found in retrieved:
            continue
        retrieved.add(found)
        scope = scopes[found]
        tally = tallies[scope] = tallies[scope]._replace(expanded=tallies[scope].expanded + 1)
        if tally.backs_off(config.fold.backoff_after_expansions):
            given_up.add(scope)
    return given_up


def _retrieved(index: LogIndex, event: Event) -> int:
    """The seq of the result that a call has retrieved in full; -1 when this is not what it did."""
    data = event["data"]
    call = index.seq_of_call(data["turn"], data["step"], outcome(data).call_id, event["seq"])
    made = {} if call is None else index.events[call]["data"]
    given = arguments_of(made.get("arguments"))
    if made.get("name") != "expand_result" or given is None or outcome(data).failed or not fold.is_full(given):
        return -1
    try:
        return recall.find_result(index, given).seq
    except recall.RecallError:
        return -1
