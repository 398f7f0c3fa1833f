"""`loopspec tape`: what each request of a session reused of the last one, and why the reuse ended where it did."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loopconform import report_text
from loopconform.check import Options
from loopconform.commands.one_log import the_one_log
from loopconform.exit_codes import epilog
from loopconform.findings import RunReport
from loopconform.plain import Refused, printable
from loopconform.show.render import console
from loopconform.stored import Stored, load_stored
from loopconform.tape_picture import picture
from loopspec.request import ReconstructionError
from loopspec.surface import SurfaceError
from loopspec.tape.prefix import Compared, report


@click.command(
    "tape",
    short_help="Show what each request reused of the one before, and why not more.",
    epilog=epilog("tape"),
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also draw a picture.")
@click.option("--no-color", is_flag=True, help="No colours; they are left out anyway when the output is no terminal.")
@click.pass_context
def command(ctx: click.Context, session: Path, svg: Path | None, no_color: bool) -> None:
    """Compare the requests of SESSION, one after the other: which bytes stayed, which were new, and why.

    The parts of a request are its system prompt, its tools and its messages, in this order. A part counts whole or
    not at all: a provider can reuse what stands in front of the first part that differs. For every tape entry it is
    said what was sealed and how to get it back. Works on logs of format 0 and 4, with the tape or without.
    """
    to = console(no_color)
    log = the_one_log(ctx, session, to)
    stored = load_stored(log, Options())
    requests, stopped = _requests(stored)
    if stored.header is not None:
        _write(requests, stopped, to)
        if svg is not None:
            _draw(svg, requests, log)
    summary = RunReport((stored.report,))
    if stored.report.verdict != "clean" or stored.report.findings:
        to.print()
        report_text.write(summary, to)
    code = summary.exit_code()
    ctx.exit(1 if stopped and code == 0 else code)


def _requests(stored: Stored) -> tuple[list[Compared], str]:
    found: list[Compared] = []
    if stored.header is None:
        return found, ""
    try:
        for item in report(stored.header, stored.events):
            found.append(item)
    except (SurfaceError, ReconstructionError) as error:
        return found, str(error)
    return found, ""


def _write(requests: list[Compared], stopped: str, to: Console) -> None:
    table = Table(title=f"{len(requests)} requests", title_justify="left")
    for column in ("request", "parts", "bytes", "kept", "new", "lost"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("the shared prefix ends at", overflow="fold")
    for number, item in enumerate(requests, 1):
        share = f" {100 * item.kept_bytes // item.size}%" if item.size and number > 1 else ""
        table.add_row(
            f"{number} ({item.turn}.{item.step})",
            f"{item.kept}/{len(item.parts)}",
            f"{item.size:,}",
            f"{item.kept_bytes:,}{share}",
            f"{item.added_bytes:,}",
            f"{item.lost_bytes:,}",
            _end(item),
        )
    to.print(table)
    _write_entries(requests, to)
    kept = sum(item.kept_bytes for item in requests)
    size = sum(item.size for item in requests)
    if size:
        to.print(Text(f"{size:,} bytes in all, {kept:,} of them ({100 * kept / size:.1f}%) as in the request before."))
    if stopped:
        to.print(Text(printable(f"The log cannot be followed any further: {stopped}"), style="red"))


def _end(item: Compared) -> Text:
    where = f"{item.where}: " if item.where else ""
    return Text(printable(where + item.cause))


def _write_entries(requests: list[Compared], to: Console) -> None:
    for number, item in enumerate(requests, 1):
        for entry in item.sealed:
            turns = f"turn {entry.first}" if entry.first == entry.last else f"turns {entry.first} to {entry.last}"
            words = (
                f"before request {number}: {len(entry.sources)} nodes of {turns} were sealed into entry {entry.seq} "
                f"({entry.size:,} bytes); back with {entry.recall}"
            )
            to.print(Text(printable(words)))


def _draw(path: Path, requests: list[Compared], session: Path) -> None:
    try:
        path.write_text(picture(requests, f"Requests of {session.name}"), encoding="utf-8", errors="replace")
    except OSError as error:
        raise Refused(printable(f"{path}: the picture cannot be written: {error.strerror or error}")) from None
