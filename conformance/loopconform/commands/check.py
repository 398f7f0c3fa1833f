"""`loopspec check`: are these session logs what they claim to be?"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import click
from rich.console import Console
from rich.progress import track

from loopconform import expectations, report_json, report_junit, report_sarif, report_text
from loopconform.check import PROFILES, Options, Profile, RequestsError, run
from loopconform.cli import version
from loopconform.exit_codes import epilog
from loopconform.findings import RunReport

_MIB = 1024 * 1024


@click.command(
    "check",
    short_help="Check session logs against every rule of the format.",
    epilog=epilog("check"),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--format",
    "style",
    type=click.Choice(("text", "json", "junit", "sarif")),
    default="text",
    show_default=True,
    help="How to write the report.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="seed",
    show_default=True,
    help="What to measure by, rules of rows and the law of the loop: 'seed' is the full list; 'dsh-0.1' and "
    "'dsh-0.1.7' are the published loops, and turn rules that bind only our own logs into warnings; 'snapshot' reads "
    "normalised test logs without seq and time.",
)
@click.option(
    "--requests",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Compare the requests rebuilt from the one log with those captured in FILE, a JSON array.",
)
@click.option(
    "--expect",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Verdicts declared beforehand: YAML, `log: torn`. Such a log does not fail the run; a stale line does.",
)
@click.option(
    "--accept/--no-accept",
    default=True,
    show_default=True,
    help="Also follow the loop itself along each log: could any run, for any environment, have written it? It finds "
    "what no rule of single rows sees: turns without a cause, unclaimed batches, lost wakes.",
)
@click.option("--strict", is_flag=True, help="Let warnings fail the run too.")
@click.option("--all", "everything", is_flag=True, help="Show every finding, information too.")
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report to FILE.")
@click.option("--max-row", type=click.IntRange(1), default=32, show_default=True, help="Longest row to read, in MiB.")
@click.option("--no-progress", is_flag=True, help="No progress bar.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    style: str,
    profile: str,
    requests: Path | None,
    expect: Path | None,
    accept: bool,
    strict: bool,
    everything: bool,
    output: Path | None,
    max_row: int,
    no_progress: bool,
) -> None:
    """Check session logs: files, or directories that are searched for *.jsonl and *.jsonl.zstd.

    Every row of every log is read once and held against about a hundred rules. For each broken rule you get the file,
    the line, the rule, the reason, and what would have been legal. An empty selection is never a success.
    """
    options = Options(cast(Profile, profile), max_row * _MIB, accept=accept)
    progress = None if no_progress or not sys.stderr.isatty() else _bar
    try:
        declared = {} if expect is None else expectations.load(expect)
        report = run(paths, options, requests=requests, strict=strict, progress=progress)
        report = expectations.applied(report, declared)
    except (RequestsError, expectations.ExpectationsError) as error:
        raise click.UsageError(str(error)) from error
    try:
        _write(report, style, output, everything)
    except OSError as error:
        if output is None or isinstance(error, BrokenPipeError):
            raise
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    ctx.exit(report.exit_code())


def _bar(paths: Iterable[Path], total: int) -> Iterator[Path]:
    console = Console(stderr=True)
    yield from track(paths, description="checking", total=total, console=console, transient=True)


def _write(report: RunReport, style: str, output: Path | None, everything: bool) -> None:
    if style == "text":
        if output is None:
            report_text.write(report, Console(), everything=everything)
        else:
            with output.open("w", encoding="utf-8") as stream:
                report_text.write(report, Console(file=stream, width=120), everything=everything)
        return
    renderers = {
        "json": lambda: report_json.render(report, version()),
        "junit": lambda: report_junit.render(report),
        "sarif": lambda: report_sarif.render(report, version()),
    }
    text = renderers[style]()
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")
