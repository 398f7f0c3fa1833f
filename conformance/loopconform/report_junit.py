"""A run as JUnit XML: one test case per file, so that every CI server can show it."""

from __future__ import annotations

from xml.etree import ElementTree

from loopconform.findings import VERDICT_TEXT, FileReport, Finding, RunReport
from loopconform.plain import printable


def render(report: RunReport) -> str:
    """The XML text. Characters that XML cannot hold are written as escapes."""
    suite = ElementTree.Element("testsuite", name="loopspec check")
    failures = errors = 0
    for item in report.files:
        case = ElementTree.SubElement(suite, "testcase", classname="loopspec.check", name=printable(item.file))
        levels = _bad_levels(item, report.strict)
        bad = [found for found in item.findings if found.level in levels]
        if item.verdict in ("unreadable", "unsupported", "undecided"):
            errors += 1
            _outcome(case, "error", item, bad)
        elif bad:
            failures += 1
            _outcome(case, "failure", item, bad)
        others = [found for found in item.findings if found.level not in levels]
        if others:
            ElementTree.SubElement(case, "system-out").text = "\n".join(map(_line, others))
    for name, reason in report.skipped:
        errors += 1
        case = ElementTree.SubElement(suite, "testcase", classname="loopspec.check", name=printable(name))
        ElementTree.SubElement(case, "error", message=printable(reason), type="not examined")
    if not report.files and not report.skipped:
        errors += 1
        case = ElementTree.SubElement(suite, "testcase", classname="loopspec.check", name="selection")
        ElementTree.SubElement(case, "error", message="nothing was examined", type="not examined")
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(failures))
    suite.set("errors", str(errors))
    root = ElementTree.Element("testsuites")
    root.append(suite)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _bad_levels(item: FileReport, strict: bool) -> set[str]:
    return {"E", "U"} | ({"W"} if strict or item.verdict == "torn" else set())


def _outcome(case: ElementTree.Element, kind: str, item: FileReport, bad: list[Finding]) -> None:
    message = item.message or (bad[0].reason if bad else VERDICT_TEXT[item.verdict])
    outcome = ElementTree.SubElement(case, kind, message=printable(message), type=item.verdict)
    outcome.text = "\n".join(map(_line, bad))


def _line(found: Finding) -> str:
    place = f"line {found.line}: " if found.line else ""
    legal = f" Legal: {found.legal}." if found.legal else ""
    return printable(f"{place}{found.rule} {found.reason}{legal}")
