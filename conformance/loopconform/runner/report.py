"""A run as text, JSON, JUnit XML or SARIF."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loopconform import report_junit
from loopconform.findings import FileReport, Finding, RunReport
from loopconform.findings import Verdict as FileVerdict
from loopconform.runner.diagram import mermaid, program_text
from loopconform.runner.results import VERDICTS, Result, Run

COLOURS = {"PASS": "green", "FAIL": "red", "ADAPTER_ERROR": "magenta", "HARNESS_ERROR": "magenta"}
SHOWN = 20
"""Failures that the text shows in full."""


def write_text(run: Run, console: Console) -> None:
    """What went wrong, then the sums: the expected checks are the denominator."""
    bad = [result for result in run.results if result.verdict != "PASS" and result.key not in run.expected]
    for result in bad[:SHOWN]:
        _write_result(result, console)
    if len(bad) > SHOWN:
        console.print(f"… and {len(bad) - SHOWN} more", highlight=False)
    for sentence in run.stale:
        console.print(f"[red]stale[/red] {escape(sentence)}", highlight=False, soft_wrap=True)
    table = Table(box=None, padding=(0, 1))
    table.add_column("area", no_wrap=True)
    for verdict in VERDICTS:
        table.add_column(verdict.replace("_", "\n"), justify="right", no_wrap=True)
    areas = sorted({result.case.area for result in run.results})
    for area in areas:
        counts = [sum(1 for r in run.results if r.case.area == area and r.verdict == v) for v in VERDICTS]
        table.add_row(area, *(str(count) if count else "·" for count in counts))
    console.print(table)
    passed = run.count("PASS")
    console.print(
        f"{passed} of {run.wanted} expected checks passed on {escape(run.implementation or run.adapter)}"
        + (f"; {len(run.expected)} came out as declared" if run.expected else ""),
        highlight=False,
        soft_wrap=True,
    )


def _write_result(result: Result, console: Console) -> None:
    colour = COLOURS.get(result.verdict, "yellow")
    console.print(f"[{colour}]{result.verdict}[/{colour}] {escape(result.key)}: {escape(result.case.title)}",
                  highlight=False, soft_wrap=True)  # fmt: skip
    fault = result.fault
    if fault is None:
        console.print(f"  {escape(result.reason)}", highlight=False, soft_wrap=True)
        return
    for name, value in explained(result):
        console.print(f"  [bold]{name}[/bold] {escape(value)}", highlight=False, soft_wrap=True)


def explained(result: Result) -> list[tuple[str, str]]:
    """Everything that is known of a failure, as titled lines."""
    fault = result.fault
    assert fault is not None
    lines = [("clause ", f"{fault.clause}  {fault.sentence}"), ("reason ", fault.reason)]
    if fault.guard:
        lines.append(("guard  ", fault.guard))
    lines += [("legal  ", legal) for legal in fault.legal]
    lines += [("before ", before) for before in fault.before[-5:]]
    lines.append(("shown  ", fault.reply))
    if result.shrunk is not None:
        lines.append(("program", f"shortest found in {result.runs} runs:\n{program_text(result.shrunk.program)}"))
    return lines


# -- JSON --------------------------------------------------------------------------------------------------------


def document(run: Run, version: str) -> dict[str, Any]:
    """The run as JSON values: everything that any other report needs."""
    return {
        "tool": "loopspec conform",
        "version": version,
        "adapter": run.adapter,
        "implementation": run.implementation,
        "exitCode": run.exit_code(),
        "wanted": run.wanted,
        "summary": {verdict: run.count(verdict) for verdict in VERDICTS},
        "stale": list(run.stale),
        "results": [_result(result, result.key in run.expected) for result in run.results],
    }


def _result(result: Result, expected: bool) -> dict[str, Any]:
    case = result.case
    found: dict[str, Any] = {
        "case": case.id,
        "profile": result.profile,
        "title": case.title,
        "area": case.area,
        "clauses": list(case.clauses),
        "level": case.level,
        "verdict": result.verdict,
        "messages": result.messages,
        "seconds": round(result.seconds, 4),
    }
    if expected:
        found["expected"] = True
    if result.reason:
        found["reason"] = result.reason
    if result.fault is not None:
        found["fault"] = result.fault._asdict()
        found["diagram"] = mermaid(result)
        found["transcript"] = [{"who": message.who, **message.body} for message in result.transcript[-200:]]
    if result.shrunk is not None:
        found["program"] = [r.model_dump(mode="json", exclude_defaults=True) for r in result.shrunk.program]
    return found


def render_json(run: Run, version: str) -> str:
    """The document as text."""
    return json.dumps(document(run, version), indent=1, ensure_ascii=True) + "\n"


# -- JUnit and SARIF ---------------------------------------------------------------------------------------------

_FILE_VERDICTS: dict[str, FileVerdict] = {
    "PASS": "clean",
    "FAIL": "findings",
    "UNDETERMINED": "undecided",
    "NOT_IMPLEMENTED": "unsupported",
    "ADAPTER_ERROR": "unreadable",
    "HARNESS_ERROR": "unreadable",
}


def as_files(run: Run) -> RunReport:
    """The run in the form of a check of files, a case for a file: what the JUnit report takes."""
    return RunReport(tuple(_as_file(result) for result in run.results), expected=run.expected, stale=run.stale)


def _as_file(result: Result) -> FileReport:
    fault = result.fault
    findings: tuple[Finding, ...] = ()
    if fault is not None:
        legal = "; ".join(fault.legal)
        findings = (Finding(result.key, 0, None, fault.clause, "E", fault.sentence, fault.reason, legal),)
    message = "" if fault is not None or result.verdict == "PASS" else f"{result.verdict}: {result.reason}"
    return FileReport(result.key, _FILE_VERDICTS[result.verdict], findings, message=message)


def render_junit(run: Run) -> str:
    """JUnit XML: failures are failures, everything else that is not a pass is an error."""
    text = report_junit.render(as_files(run))
    return text.replace('name="loopspec check"', 'name="loopspec conform"').replace(
        "loopspec.check", "loopspec.conform"
    )


def render_sarif(run: Run, version: str) -> str:
    """SARIF 2.1.0: the clauses are its rules, the cases its places."""
    failed = [result for result in run.results if result.fault is not None]
    rules: dict[str, str] = {}
    for result in failed:
        assert result.fault is not None
        rules.setdefault(result.fault.clause or "law", result.fault.sentence or "The law cannot explain this.")
    places = {rule: at for at, rule in enumerate(rules)}
    notes = [
        {"level": "error", "message": {"text": f"{result.key}: {result.verdict}: {result.reason}"}}
        for result in run.results
        if result.fault is None and result.verdict != "PASS"
    ]
    body = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "loopspec",
                        "version": version,
                        "rules": [{"id": rule, "shortDescription": {"text": text}} for rule, text in rules.items()],
                    }
                },
                "invocations": [
                    {
                        "executionSuccessful": bool(run.results),
                        "exitCode": run.exit_code(),
                        "toolExecutionNotifications": notes,
                    }
                ],
                "results": [_sarif_result(result, places) for result in failed],
            }
        ],
    }
    return json.dumps(body, indent=1, ensure_ascii=True) + "\n"


def _sarif_result(result: Result, places: dict[str, int]) -> dict[str, Any]:
    fault = result.fault
    assert fault is not None
    rule = fault.clause or "law"
    uri = f"cases/{result.case.id}.json"
    return {
        "ruleId": rule,
        "ruleIndex": places[rule],
        "level": "error",
        "message": {"text": f"{fault.reason}. Legal: {'; '.join(fault.legal)}."},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri}}}],
    }
