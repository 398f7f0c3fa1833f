"""The same cases again and again: every repetition must pass, and show the same.

Two traces are the same when in every settle window the order of what happened to each agent is the same, and the same
hooks arrived and the same promises settled, in whatever order. Ids that an implementation mints are renamed, its times
left out. A trace is judged when it is seen for the first time.

A program may let two tasks race: what a reaction *queues* runs beside the loop, and so do the bodies of parallel calls
that no gate holds. Which of them goes first is nobody's promise: such a case may show several traces, each lawful.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from loopconform.divergence import length_explained, read
from loopconform.protocol.case import Case
from loopconform.protocol.requests import React
from loopconform.runner.play import Player
from loopconform.runner.results import Message, Result
from loopconform.runner.suite import Job
from loopconform.runner.workers import Start, in_parallel
from loopspec.profile import law

UNORDERED = ("gate", "fulfilled", "rejected")
MINTED = 36
"""Characters of an id that nobody has given: a UUID."""

Trace = tuple[Any, ...]


class Repeated(NamedTuple):
    """One case under one profile: how its repetitions came out, and how many different traces they showed.

    `free`: the order of what it shows is nobody's promise.
    """

    case: str
    profile: str
    verdicts: dict[str, int]
    traces: int
    reason: str = ""
    free: bool = False

    @property
    def is_steady(self) -> bool:
        """Every repetition passed, and all showed the same, as far as that is promised."""
        return self.verdicts.keys() == {"PASS"} and (self.traces == 1 or self.free)


def lets_tasks_race(case: Case) -> bool:
    """Does the program queue a task beside the loop, or make parallel calls whose bodies nobody holds?"""
    if any(isinstance(request, React) and request.queued for request in case.program):
        return True
    parallel = {tool.name for tool in case.opening.tools if tool.parallel}
    calls = [block.get("name") for block in map(_planned_call, case.program) if block]
    return len(parallel & set(calls)) > 0 and len(calls) > 1 and all(one.gate != "tool" for one in case.opening.hold)


def _planned_call(request: Any) -> dict[str, Any]:
    """The call that a planned chunk ends with; empty when it is none."""
    chunk = getattr(getattr(request, "outcome", None), "chunk", None) or {}
    block = chunk.get("block", {})
    return dict(block) if chunk.get("type") == "block-end" and block.get("type") == "tool-call" else {}


def trace_of(transcript: Iterable[Message]) -> Trace:
    """What an adapter showed, without what says nothing."""
    names: dict[str, str] = {}
    windows: list[Any] = []
    ordered: dict[str, list[str]] = defaultdict(list)
    unordered: list[str] = []
    for message in transcript:
        body = message.body
        if message.who != "adapter" or body["type"] == "ok":
            continue
        text = json.dumps(_renamed(_sorted(body), names), sort_keys=True)
        if body["type"] in UNORDERED:
            unordered.append(text)
        else:
            ordered[str(body.get("agent", ""))].append(text)
        if body["type"] == "settled":
            windows.append(
                (tuple(sorted((agent, tuple(seen)) for agent, seen in ordered.items())), tuple(sorted(unordered)))
            )
            ordered, unordered = defaultdict(list), []
    return tuple(windows)


def _sorted(body: dict[str, Any]) -> dict[str, Any]:
    if body["type"] != "settled":
        return body
    return {**body, "parked": sorted(body["parked"], key=lambda one: json.dumps(one, sort_keys=True))}


def _renamed(value: Any, names: dict[str, str], key: str = "") -> Any:
    if isinstance(value, dict):
        return {name: _renamed(item, names, name) for name, item in value.items() if name != "time"}
    if isinstance(value, list):
        return [_renamed(item, names) for item in value]
    if key == "id" and isinstance(value, str) and len(value) == MINTED:
        return names.setdefault(value, f"minted-{len(names)}")
    return value


def repeat(start: Start, jobs: Sequence[Job], times: int, workers: int = 1, timeout: float = 30.0) -> list[Repeated]:
    """Play each job so many times, one after the other on one adapter; each worker has an adapter of its own."""
    return in_parallel(start, len(jobs), lambda player, at: repeated(player, *jobs[at], times), workers, timeout)


def repeated(player: Player, case: Case, profile: str, times: int) -> Repeated:
    """Play one case so many times."""
    verdicts: Counter[str] = Counter()
    traces: dict[Trace, str] = {}
    reason = ""
    for time in range(times):
        result: Result = player.play(case, profile, judge=time == 0)
        trace, verdict = trace_of(result.transcript), str(result.verdict)
        if time and verdict == "PASS":
            verdict = traces[trace] if trace in traces else judged(player, result)
        traces.setdefault(trace, verdict)
        verdicts[verdict] += 1
        reason = reason or result.reason
    return Repeated(case.id, profile, dict(verdicts), len(traces), reason, lets_tasks_race(case))


def judged(player: Player, result: Result) -> str:
    """The verdict on a transcript that nobody has judged."""
    heard = read(result.transcript)
    chosen = law(heard[0][1].profile, heard[0][1].session_format)
    return "PASS" if length_explained(heard, player.greet(), chosen) == len(heard) else "FAIL"
