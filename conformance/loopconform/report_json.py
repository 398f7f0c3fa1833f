"""A run as one JSON document, for programs."""

from __future__ import annotations

import json
from typing import Any

from loopconform.findings import FileReport, Finding, RunReport


def render(report: RunReport, version: str) -> str:
    """The document as text. Everything beyond ASCII is escaped, so lone surrogates do no harm."""
    return json.dumps(document(report, version), indent=1, ensure_ascii=True) + "\n"


def document(report: RunReport, version: str) -> dict[str, Any]:
    """The document as JSON values; `exitCode` is the one the command ends with."""
    verdicts = [item.verdict for item in report.files]
    return {
        "tool": "loopspec check",
        "version": version,
        "exitCode": report.exit_code(),
        "summary": {
            "files": len(report.files),
            "examined": len(report.examined),
            **{verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        },
        "files": [_file(item) for item in report.files],
        "skipped": [{"path": path, "reason": reason} for path, reason in report.skipped],
    }


def _file(item: FileReport) -> dict[str, Any]:
    return {
        "file": item.file,
        "verdict": item.verdict,
        "format": item.version,
        "events": item.events,
        "eventRows": item.rows,
        **({"message": item.message} if item.message else {}),
        **({"suppressedFindings": item.suppressed} if item.suppressed else {}),
        "findings": [_finding(found) for found in item.findings],
    }


def _finding(found: Finding) -> dict[str, Any]:
    optional = {
        "line": found.line or None,
        "column": found.column or None,
        "seq": found.seq,
        "frame": found.frame or None,
        "offset": found.offset if found.frame else None,
        "legal": found.legal or None,
    }
    return {
        "rule": found.rule,
        "level": {"E": "error", "W": "warning", "I": "information", "U": "undecided"}[found.level],
        **{name: value for name, value in optional.items() if value is not None},
        "sentence": found.sentence,
        "reason": found.reason,
        **({"values": {name: _plain(value) for name, value in found.values}} if found.values else {}),
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) or value is None else repr(value)
