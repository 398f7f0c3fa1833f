"""`loopspec migrate`: sessions of older formats as format 4."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console
from rich.progress import track
from rich.text import Text

from loopconform.check import Options, Profile, select
from loopconform.cli import version
from loopconform.exit_codes import Exit, epilog
from loopconform.migration import NEWER_PROFILE, Done, Manner, migrate_file
from loopconform.plain import printable


@click.command(
    "migrate",
    short_help="Write sessions of older formats as format 4.",
    epilog=epilog("migrate", "Each session is done or left by itself: those that failed are as they were."),
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write below this directory, each file where it lies below its PATH. By default beside the old file, with the "
    "format in its name: session.v4.jsonl.zstd, or talk.v4.jsonl.",
)
@click.option(
    "--in-place",
    is_flag=True,
    help="The new file takes the place of the old one, in one step; in a session directory, where the name tells the "
    "format, the old one is removed when the new one is there. Otherwise old files are kept.",
)
@click.option("--torn", is_flag=True, help="Take what is whole of a log whose end is torn.")
@click.option("--dry-run", "dry", is_flag=True, help="Do everything but write.")
@click.option(
    "--profile",
    type=click.Choice(tuple(NEWER_PROFILE)),
    default="seed",
    show_default=True,
    help="What old files are measured by before, as in `check`, and new ones in their format.",
)
@click.option("--format", "style", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--no-progress", is_flag=True, help="No progress bar.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    to: Path | None,
    in_place: bool,
    torn: bool,
    dry: bool,
    profile: str,
    style: str,
    no_progress: bool,
) -> None:
    """Write sessions of format 0 and 3 as format 4: files, or directories that are searched for *.jsonl[.zstd].

    Nothing is overwritten: a file that is there is kept. A new file has passed every rule of `loopspec check` before it
    gets its name. Open turns are closed as interrupted, seqs are new. Who writes a session meanwhile keeps it.
    """
    if to is not None and in_place:
        raise click.UsageError("--to writes elsewhere, --in-place here: give one of them.")
    manner = Manner(to, in_place, torn, dry, Options(cast(Profile, profile)))
    places = _places(paths)
    skipped = [item for path in paths for item in select([path])[1]]
    bar = None if no_progress or not sys.stderr.isatty() else _bar
    done = [migrate_file(path, places[path], manner) for path in (bar(places, len(places)) if bar else places)]
    code = _exit_code(done, bool(skipped))
    if style == "json":
        click.echo(json.dumps(_document(done, skipped, code), indent=1, ensure_ascii=True))
    else:
        _write(done, skipped)
    ctx.exit(code)


def _places(paths: Iterable[Path]) -> dict[Path, Path]:
    """Each file, and the directory that its place is counted from."""
    places: dict[Path, Path] = {}
    for path in paths:
        for found in select([path])[0]:
            places.setdefault(found, path if path.is_dir() else path.parent)
    return places


def _bar(paths: Iterable[Path], total: int) -> Iterator[Path]:
    yield from track(paths, description="migrating", total=total, console=Console(stderr=True), transient=True)


def _exit_code(done: list[Done], skipped: bool) -> Exit:
    """The one cause for which sessions failed; what was passed over counts where nothing worse happened."""
    causes = {item.code for item in done if item.status == "failed"}
    if len(causes) > 1:
        return Exit.FOUND
    if causes:
        return causes.pop()
    return Exit.USAGE if skipped or not done else Exit.FINE


def _write(done: list[Done], skipped: list[tuple[str, str]]) -> None:
    console = Console(soft_wrap=True)
    for item in done:
        console.print(_line(item))
    for name, reason in skipped:
        console.print(Text(printable(f"{name}: {reason}")))
    counts = {status: sum(item.status == status for item in done) for status in dict.fromkeys(i.status for i in done)}
    console.print(Text(", ".join(f"{count} {status}" for status, count in counts.items()) or "Nothing was examined."))


def _line(item: Done) -> Text:
    if item.status == "failed":
        return Text.assemble(("failed", "bold red"), ": ", printable(item.reason))
    text = Text.assemble((item.status, "green"), f": {printable(str(item.source))}")
    if item.target is not None:
        text.append(f" -> {printable(str(item.target))}")
    if item.status.endswith("migrated"):
        text.append(f" ({item.events} events from format {item.version})")
    if item.dropped:
        text.append(f"\n    its torn end is left out: {printable(item.dropped)}", style="yellow")
    return text


def _document(done: list[Done], skipped: list[tuple[str, str]], code: Exit) -> dict[str, Any]:
    return {
        "tool": "loopspec migrate",
        "version": version(),
        "exitCode": int(code),
        "sessions": [_as_json(item) for item in done],
        "skipped": [{"path": path, "reason": reason} for path, reason in skipped],
    }


def _as_json(item: Done) -> dict[str, Any]:
    optional = {
        "target": None if item.target is None else str(item.target),
        "format": item.version,
        "events": item.events or None,
        "dropped": item.dropped or None,
        "reason": item.reason or None,
        "code": int(item.code) or None,
    }
    said = {key: value for key, value in optional.items() if value is not None}
    return {"source": str(item.source), "status": item.status, **said}
