"""`loopspec fork`: a session of its own that begins like another one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import click
from rich.console import Console

from loopconform.check import PROFILES, Options, Profile
from loopconform.commands.one_log import the_one_log
from loopconform.exit_codes import Unusable, epilog
from loopconform.forking import Child, Place, boundary_of_turn, fork_file
from loopconform.plain import Refused, printable
from loopconform.stored import Stored
from loopharness.session import wall_clock


@click.command(
    "fork",
    short_help="Make a session of its own that begins like another one.",
    epilog=epilog("fork", "Unless it is 0, nothing is written."),
)
@click.argument("session", type=click.Path(path_type=Path))
@click.option(
    "--at", "seq", type=int, metavar="SEQ", help="The last event that the child takes over. Default: the last."
)
@click.option("--turn", type=click.IntRange(1), metavar="N", help="Take over everything up to the end of this turn.")
@click.option("--id", "child_id", metavar="NEW", help="The id of the child. Default: the first free session-1, -2, …")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR|FILE",
    required=True,
    help="Where the child goes: a file that ends in .jsonl or .jsonl.zstd, or the root directory of a store, where it "
    "gets its place by working directory and id. What is there is kept.",
)
@click.option("--plain", is_flag=True, help="Below a root directory: do not compress.")
@click.option(
    "--profile",
    type=click.Choice(PROFILES[:3]),
    default="seed",
    show_default=True,
    help="What to measure by, as check.",
)
@click.option("--format", "style", type=click.Choice(("text", "json")), default="text", show_default=True)
def command(
    session: Path,
    seq: int | None,
    turn: int | None,
    child_id: str | None,
    out: Path,
    plain: bool,
    profile: str,
    style: str,
) -> None:
    """Fork SESSION, a log or a directory with one, into a new session in the same format.

    The child begins with the events of its parent, unchanged, names it in its header, and is taken up with `loopspec
    chat --resume` or the key `resume` of a script. A fork of format 0 ends between two turns; in format 4 it may end
    inside one, which is then closed in the child. The parent is only read.
    """
    if seq is not None and turn is not None:
        raise click.UsageError("--at and --turn both name a place: give one of them.")
    is_file = ".jsonl" in "".join(out.suffixes[-2:])
    if is_file and plain:
        raise click.UsageError("--plain is for a root directory; the name of a file says how it is written.")
    if child_id == "":
        raise click.UsageError("--id must not be empty.")
    place = Place(out, not is_file, out.name.endswith((".zstd", ".zst")) if is_file else not plain)

    def at(stored: Stored) -> int | None:
        return seq if turn is None else boundary_of_turn(stored, turn)

    try:
        source = (
            the_one_log(click.get_current_context(), session, Console(stderr=True)) if session.is_dir() else session
        )
        child = fork_file(source, at, child_id, place, wall_clock, Options(cast(Profile, profile)))
    except Unusable as error:
        raise Refused(printable(str(error)), error.code) from error
    if style == "json":
        json.dump(_document(child), sys.stdout, ensure_ascii=True)
        click.echo()
        return
    parent = child.header["parentSession"]
    place_of = f"behind seq {child.inherited - 1}" if child.inherited else "empty"
    click.echo(
        printable(f"{child.header['id']}: forked from {parent} {place_of}, {len(child.events)} events, in {child.path}")
    )


def _document(child: Child) -> dict[str, Any]:
    return {
        "id": child.header["id"],
        "parent": child.header["parentSession"],
        "format": child.header["version"],
        "inherited": child.inherited,
        "events": len(child.events),
        "file": str(child.path),
    }
