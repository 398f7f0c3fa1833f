"""A run as SARIF 2.1.0, for code scanning. Lines and columns count from 1; a finding without a line has no region.

Lines of a zstd file are lines of its decompressed text, and the message says so.
"""

from __future__ import annotations

import json
from typing import Any

from loopconform.catalogue import acceptance_entries, rule_entries
from loopconform.findings import Finding, RunReport
from loopconform.plain import printable, uri
from loopspec.log.rule import Level

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: dict[Level, str] = {"E": "error", "W": "warning", "I": "note", "U": "none"}


def render(report: RunReport, version: str) -> str:
    """The SARIF text, ASCII only."""
    return json.dumps(document(report, version), indent=1, ensure_ascii=True) + "\n"


def document(report: RunReport, version: str) -> dict[str, Any]:
    """The SARIF log as JSON values."""
    findings = [found for item in report.files for found in item.findings]
    used = {found.rule for found in findings}
    rules = [entry for entry in (*rule_entries(), *acceptance_entries()) if entry.id in used]
    places = {entry.id: at for at, entry in enumerate(rules)}
    not_examined = [(item.file, item.message or item.verdict) for item in report.files if item.message]
    notifications = [
        {
            "level": "error",
            "message": {"text": printable(f"{name}: {reason}")},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": uri(name)}}}],
        }
        for name, reason in (*not_examined, *report.skipped)
    ]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "loopspec",
                        "version": version,
                        "rules": [
                            {
                                "id": entry.id,
                                "shortDescription": {"text": entry.sentence},
                                "defaultConfiguration": {"level": _LEVELS[entry.level]},
                            }
                            for entry in rules
                        ],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": bool(report.examined),
                        "exitCode": report.exit_code(),
                        "toolExecutionNotifications": notifications,
                    }
                ],
                "results": [_result(found, places) for found in findings],
            }
        ],
    }


def _result(found: Finding, places: dict[str, int]) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": uri(found.file)}}
    if found.line > 0:
        column = {"startColumn": found.column} if found.column > 0 else {}
        physical["region"] = {"startLine": found.line, **column}
    zstd = (
        " (The line is one of the decompressed text.)" if found.line and found.file.endswith((".zstd", ".zst")) else ""
    )
    legal = f" Legal: {found.legal}." if found.legal else ""
    return {
        "ruleId": found.rule,
        "ruleIndex": places[found.rule],
        "level": _LEVELS[found.level],
        **({"kind": "open"} if found.level == "U" else {}),
        "message": {"text": printable(f"{found.reason}{legal}{zstd}")},
        "locations": [{"physicalLocation": physical}],
    }
