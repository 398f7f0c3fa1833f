"""A run as text for people: findings with their reasons, a table of the files, one closing sentence."""

from __future__ import annotations

import os

from rich.console import Console
from rich.table import Table
from rich.text import Text

from loopconform.findings import VERDICT_TEXT, FileReport, Finding, RunReport, Verdict
from loopconform.plain import printable
from loopspec.log.rule import LEVEL_NAMES, Level

SHOWN_PER_FILE = 25
TABLE_LIMIT = 60
FILE_WIDTH = 24
"""Names up to this length stay on one line, also on a narrow screen."""
_LEVEL_STYLE: dict[Level, str] = {"E": "bold red", "W": "yellow", "I": "dim", "U": "magenta"}
_VERDICT_STYLE: dict[Verdict, str] = {
    "clean": "green",
    "warnings": "yellow",
    "findings": "bold red",
    "torn": "bold red",
    "undecided": "magenta",
    "unsupported": "magenta",
    "unreadable": "magenta",
}


def write(report: RunReport, console: Console, *, everything: bool = False) -> None:
    """Print the report. `everything` also prints information and every finding of long lists."""
    for item in report.files:
        _file(item, console, everything)
    for name, reason in report.skipped:
        console.print(Text.assemble((printable(name), "bold"), f": {reason}"), soft_wrap=True)
    if len(report.files) > 1:
        console.print(_table(report))
    for sentence in report.stale:
        console.print(Text(f"stale expectation: {printable(sentence)}", style="bold red"), soft_wrap=True)
    console.print(_closing(report))


def _file(item: FileReport, console: Console, everything: bool) -> None:
    if item.message:
        console.print(Text.assemble((printable(item.file), "bold"), f": {printable(item.message)}"), soft_wrap=True)
        return
    findings = [found for found in item.findings if everything or found.level != "I"]
    shown = findings if everything else findings[:SHOWN_PER_FILE]
    for found in shown:
        console.print(_finding(found), soft_wrap=True)
    left = len(findings) - len(shown) + item.suppressed
    if left:
        console.print(Text(f"  … and {left} more in {printable(item.file)} (--all shows them)", style="dim"))


def _finding(found: Finding) -> Text:
    place = f"{found.file}:{found.line}" if found.line else found.file
    seq = f" (seq {found.seq})" if found.seq is not None else ""
    text = Text.assemble(
        (printable(place), "bold"),
        f"{seq}: ",
        (LEVEL_NAMES[found.level], _LEVEL_STYLE[found.level]),
        (f" {found.rule}", "bold"),
        f"\n    {printable(found.reason)}",
        (f"\n    rule:  {found.sentence}", "dim"),
    )
    if found.legal:
        text.append(f"\n    legal: {printable(found.legal)}")
    return text


def _table(report: RunReport) -> Table:
    base = _common_folder([item.file for item in report.files])
    table = Table(box=None, pad_edge=False, header_style="bold")
    if base:
        table.title = Text(f"in {printable(base)}", style="dim")
        table.title_justify = "left"
    files = report.files
    if len(files) > TABLE_LIMIT:
        files = tuple(item for item in files if item.verdict != "clean")
    longest = max((len(os.path.relpath(item.file, base) if base else item.file) for item in files), default=0)
    for heading in ("file", "format", "events", "errors", "warnings", "verdict"):
        numeric = heading in ("events", "errors", "warnings")
        width = min(longest, FILE_WIDTH) if heading == "file" else None
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=heading != "file", min_width=width)
    for item in files:
        table.add_row(
            Text(printable(os.path.relpath(item.file, base) if base else item.file), overflow="fold"),
            "" if item.version is None else str(item.version),
            str(item.events),
            _count(item.count("E")),
            _count(item.count("W")),
            Text(verdict_words(item, item.file in report.expected), style=_VERDICT_STYLE[item.verdict]),
        )
    return table


def _common_folder(names: list[str]) -> str:
    try:
        base = os.path.commonpath([os.path.dirname(name) for name in names])
    except ValueError:  # absolute and relative names, or different drives
        return ""
    return "" if base == os.sep else base


def _count(count: int) -> str:
    return str(count) if count else "-"


def verdict_words(item: FileReport, declared: bool = False) -> str:
    """The verdict with what belongs to it: declared beforehand, or how many events of a torn log survive."""
    words = VERDICT_TEXT[item.verdict]
    if declared:
        return f"{words} as declared"
    return f"{words}, {item.rows} kept" if item.verdict == "torn" else words


def _closing(report: RunReport) -> Text:
    total = len(report.files)
    if not report.examined:
        return Text("Nothing was examined.", style="bold red")
    clean = sum(1 for item in report.files if item.verdict == "clean")
    counts = [
        f"{sum(1 for item in report.files if item.verdict == verdict)} {words}"
        for verdict, words in (
            ("warnings", "with warnings"),
            ("findings", "with errors"),
            ("torn", "torn"),
            ("undecided", "undecided"),
            ("unsupported", "of another format"),
            ("unreadable", "unreadable"),
        )
        if any(item.verdict == verdict for item in report.files)
    ]
    if report.expected:
        counts.append(f"{len(report.expected)} as declared")
    tail = f" ({', '.join(counts)})" if counts else ""
    passed = report.exit_code() == 0
    noun = "file" if total == 1 else "files"
    return Text(f"{clean} of {total} {noun} clean{tail}.", style="bold green" if passed else "bold red")
