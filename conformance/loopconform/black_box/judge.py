"""Holds what a black box did against the law: its log, its requests, and both against each other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anyio

from loopconform.black_box.drive import Command, Seen, drive
from loopconform.black_box.scenario import Scenario
from loopconform.check import Options, Profile, check_file
from loopconform.findings import FileReport
from loopconform.reader import ReadRow, read
from loopharness.model.deepseek.convert import wire_messages
from loopspec.log.compare import difference, events_of
from loopspec.request import ReconstructionError, reconstruct_requests
from loopspec.surface import SurfaceError

Verdict = Literal["PASS", "FAIL", "UNDETERMINED", "NOT_IMPLEMENTED", "ADAPTER_ERROR"]

CHECKS = ("ended", "log", "turns", "requests", "history", "prefix")
"""What is looked at in each scenario. A check that could not be made is no pass."""


class Judged(NamedTuple):
    """The verdict on one scenario. `failed`: the check that failed, `clause`: its rule, `reason`: for people."""

    scenario: Scenario
    verdict: Verdict
    passed: tuple[str, ...] = ()
    failed: str = ""
    clause: str = ""
    reason: str = ""


class _Failed(Exception):
    """A check failed. With the check, the clause and the reason."""


def run(scenarios: Iterable[Scenario], command: Command, profile: Profile, limit: float = 60) -> list[Judged]:
    """Every scenario, one after the other, each in a folder of its own that is thrown away."""
    judged = []
    for scenario in scenarios:
        with tempfile.TemporaryDirectory(prefix="loopspec-") as folder:
            judged.append(_run(scenario, command, profile, limit, Path(folder)))
    return judged


def _run(scenario: Scenario, command: Command, profile: Profile, limit: float, folder: Path) -> Judged:
    if len(scenario.say) > 1 and not command.again:
        reason = "no command was given that goes on with a log"
        return Judged(scenario, "NOT_IMPLEMENTED", reason=reason)
    try:
        seen = anyio.run(drive, scenario, command, folder, limit)
    except OSError as error:
        return Judged(scenario, "ADAPTER_ERROR", failed="ended", reason=f"the agent cannot be started: {error}")
    return judge(scenario, seen, profile, limit)


def judge(scenario: Scenario, seen: Seen, profile: Profile, limit: float = 60) -> Judged:
    """The verdict on what a black box did."""
    if seen.ends[-1] is None:
        reason = f"the agent did not end within {limit:g} seconds; it had printed: {seen.output!r}"
        return Judged(scenario, "ADAPTER_ERROR", failed="ended", reason=reason)
    if seen.log is None:
        reason = f"no session log was written (*.jsonl, *.jsonl.zstd); the agent had printed: {seen.output!r}"
        return Judged(scenario, "ADAPTER_ERROR", ("ended",), "log", reason=reason)
    report = check_file(seen.log, Options(profile), shown=seen.log.name)
    if report.verdict in ("unreadable", "unsupported", "undecided"):
        reason = f"the log is {report.verdict}: {report.message}"
        return Judged(scenario, "UNDETERMINED", ("ended",), "log", reason=reason)
    passed = ["ended"]
    try:
        _sound(report)
        passed.append("log")
        for name, check in _checks(scenario, seen.log, seen.requests):
            check()
            passed.append(name)
    except _Failed as failure:
        name, clause, reason = failure.args
        return Judged(scenario, "FAIL", tuple(passed), name, clause, reason)
    return Judged(scenario, "PASS", tuple(passed))


def _sound(report: FileReport) -> None:
    """The log is free of errors, row by row and as a run of the loop."""
    worst = next((found for found in report.findings if found.level == "E"), None)
    if worst is not None:
        raise _Failed("log", worst.rule, f"line {worst.line}: {worst.reason}")
    if report.verdict not in ("clean", "warnings"):
        raise _Failed("log", "", f"the log is {report.verdict}")


def _checks(
    scenario: Scenario, log: Path, bodies: Iterable[Mapping[str, Any]]
) -> Iterable[tuple[str, Callable[[], None]]]:
    header, events = _events(log)
    asked = [_plain(body.get("messages", ())) for body in bodies]

    def turns() -> None:
        ends = tuple(event["data"]["reason"]["kind"] for event in events if event["type"] == "turn/end")
        if ends != scenario.ends:
            raise _Failed("turns", "L-TURN-4", f"the turns ended {ends}; by this model they end {scenario.ends}")

    def requests() -> None:
        if len(asked) != scenario.requests:
            reason = f"the model was asked {len(asked)} times; this conversation takes {scenario.requests}"
            raise _Failed("requests", "L-TOOL-13", reason)

    def history() -> None:
        _explained(header, events, asked)

    def prefix() -> None:
        for number, (before, after) in enumerate(pairwise(asked), 2):
            if after[: len(before)] != before:
                reason = f"request {number} does not begin with request {number - 1}: {difference(before, after)}"
                raise _Failed("prefix", "L-REQ-16", reason)

    return [("turns", turns), ("requests", requests), ("history", history), ("prefix", prefix)]


def _explained(header: Mapping[str, Any], events: list[Any], asked: list[list[Any]]) -> None:
    """L-INV-3  Every request that the log proves was made, in order; one that failed at once leaves no trace."""
    try:
        rebuilt = [_plain(wire_messages(request)) for _, request in reconstruct_requests(header, events)]
    except (SurfaceError, ReconstructionError, KeyError, TypeError) as error:
        raise _Failed("history", "L-INV-3", f"the requests cannot be rebuilt from the log: {error}") from error
    at = 0
    for number, ours in enumerate(rebuilt, 1):
        found = next((place for place in range(at, len(asked)) if asked[place] == ours), None)
        if found is None:
            theirs = asked[at] if at < len(asked) else None
            reason = f"request {number} that the log proves was never made: {difference(ours, theirs)}"
            raise _Failed("history", "L-INV-3", reason)
        at = found + 1


def _events(log: Path) -> tuple[Mapping[str, Any], list[Any]]:
    """The header row and the events of a log that was checked before."""
    rows = [item for item in read(log) if isinstance(item, ReadRow) and item.value is not None]
    header = rows[0].value
    assert header is not None
    stored = ((row.line, row.value) for row in rows[1:] if row.value is not None)
    return header, [event for _, event in events_of(stored, header.get("version", 0))]


def _plain(messages: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Messages of the wire without what servers take either way: null and missing text, text in parts, reasoning."""
    return [
        {
            "role": message.get("role"),
            "text": _text(message.get("content")),
            "call": message.get("tool_call_id"),
            "calls": [
                [call.get("id"), call.get("function", {}).get("name"), call.get("function", {}).get("arguments")]
                for call in message.get("tool_calls") or ()
            ],
        }
        for message in messages
    ]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""
