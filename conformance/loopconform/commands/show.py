"""`loopspec show`: what happened in a session."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click
from rich.console import Console
from rich.text import Text

from loopconform import report_text
from loopconform.check import PROFILES, Options, Profile
from loopconform.commands.one_log import the_one_log
from loopconform.exit_codes import epilog
from loopconform.findings import RunReport
from loopconform.plain import Refused, printable
from loopconform.show.render import console, head, print_line, turn_numbers
from loopconform.show.requests import Unprovable, request_lines
from loopconform.show.story import story
from loopconform.stored import Stored, load_stored

_MIB = 1024 * 1024


@click.command(
    "show",
    short_help="Show a session: turns, steps, messages, tools, requests.",
    epilog=epilog("show", "What survives of a broken log is shown before its errors."),
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--requests", is_flag=True, help="Rebuild every model request and show what is new in each.")
@click.option("--turn", type=click.IntRange(1), metavar="N", help="Only this turn.")
@click.option("--raw", is_flag=True, help="Also print the events themselves, whole, as JSON.")
@click.option("--no-color", is_flag=True, help="No colours; they are left out anyway when the output is no terminal.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="seed",
    show_default=True,
    help="What the errors at the end are measured by, as in check.",
)
@click.option("--max-row", type=click.IntRange(1), default=32, show_default=True, help="Longest row to read, in MiB.")
@click.pass_context
def command(
    ctx: click.Context,
    session: Path,
    requests: bool,
    turn: int | None,
    raw: bool,
    no_color: bool,
    profile: str,
    max_row: int,
) -> None:
    """Show SESSION, a session log, or a directory with exactly one: its turns, their steps, and what happened in them.

    Long texts are cut, and a note says how long they are. Control characters are shown as escapes.
    """
    to = console(no_color)
    log = the_one_log(ctx, session, to)
    stored = load_stored(log, Options(cast(Profile, profile), max_row * _MIB))
    if stored.header is not None:
        _show(stored, to, requests, turn, raw)
    report = RunReport((stored.report,))
    verdict = stored.report.verdict
    if verdict != "clean" or stored.report.findings:
        to.print()
        report_text.write(report, to)
    ctx.exit(report.exit_code())


def _show(stored: Stored, to: Console, requests: bool, turn: int | None, raw: bool) -> None:
    assert stored.header is not None
    to.print(head(stored.header, stored.events))
    lines = request_lines(stored.header, stored.events) if requests else story(stored.header, stored.events)
    shown = 0
    try:
        for line in lines:
            if turn is None or line.turn == turn:
                print_line(line, to, raw)
                shown += 1
    except Unprovable as error:
        to.print(Text(f"The requests cannot be rebuilt: {printable(str(error))}", style="bold red"))
        return
    if turn is not None and not shown:
        known = turn_numbers(stored.events)
        last = f" to {known[-1]}" if len(known) > 1 else ""
        there = f"it has {'turns' if last else 'turn'} {known[0]}{last}" if known else "it has none"
        what = "no request in turn" if requests and turn in known else "no turn"
        raise Refused(f"There is {what} {turn} in this log; {there}.")
    if requests and not shown:
        to.print(Text("This log proves no request.", style="dim"))
