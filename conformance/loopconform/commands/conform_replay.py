"""`loopspec conform replay`: a run that TLC found, played on an adapter and judged like a case."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from loopconform.exit_codes import epilog
from loopconform.protocol.case import Case
from loopconform.replays.played import Played, play
from loopconform.replays.program import case_of
from loopconform.replays.streams import Untranslatable
from loopconform.runner.channel import opener
from loopconform.runner.diagram import program_text
from loopconform.runner.play import Player
from loopconform.runner.results import EXIT
from loopconform.tla.replay import BadReplay, Replay, read

NOT_PLAYED = 3
"""The exit code for a run that has no program: nothing was decided."""


@click.command(
    "replay",
    epilog=epilog("conform replay"),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--adapter", metavar="CMD", help="The adapter; without one the program is only written.")
@click.option("--backend", type=click.Choice(("asyncio", "trio")), default="asyncio", show_default=True)
@click.option("--timeout", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Seconds for one request.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Write the cases into this folder.")
@click.option("--program", "show", is_flag=True, help="Show the program of each run.")
@click.pass_context
def command(
    ctx: click.Context,
    files: tuple[Path, ...],
    adapter: str | None,
    backend: Any,
    timeout: float,
    keep: Path | None,
    show: bool,
) -> None:
    """Play FILES (replay files: runs that `loopconform.tla.run --replay` wrote) on an adapter.

    PASS: everything that happened is lawful, and it was the run of the file; of a run of a broken law, it was not.
    FAIL: the judge found something unlawful. UNDETERMINED: lawful, but something else than the run was about.
    """
    player = None if adapter is None else Player(opener(adapter, backend), timeout)
    worst = 0
    try:
        for file in files:
            worst = max(worst, _one(file, player, keep, show))
    finally:
        if player is not None:
            player.close()
    ctx.exit(worst)


def _one(file: Path, player: Player | None, keep: Path | None, show: bool) -> int:
    name = _id(file)
    try:
        run = read(file)
        case = case_of(run, name)
    except BadReplay as error:
        raise click.UsageError(str(error)) from None
    except Untranslatable as error:
        click.echo(f"NOT PLAYED   {file.stem}: {error}")
        return NOT_PLAYED
    _kept(case, keep, show)
    if player is None:
        return 0
    played = play(player, run, name)
    _tell(file, run, played)
    return EXIT.get(played.result.verdict, 0)


def _id(file: Path) -> str:
    """The name of a file as a part of a case id."""
    return "-".join("".join(c if c.isalnum() else " " for c in file.stem.lower()).split()) or "run"


def _kept(case: Case, keep: Path | None, show: bool) -> None:
    if show:
        click.echo(program_text(case.program))
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{case.id.partition('/')[2]}.json").write_text(case.with_hash().dumped(), encoding="utf-8")


def _tell(file: Path, run: Replay, played: Played) -> None:
    result = played.result
    click.echo(f"{result.verdict:<12} {file.stem}: {played.told() if result.transcript else 'not played'}")
    if run.broken:
        click.echo(f"  a run without {', '.join(run.broken)}")
    if result.reason:
        click.echo(f"  {result.reason}")
    if result.fault is not None:
        click.echo(f"  {result.fault.clause}: {result.fault.sentence}".rstrip(": "))
        click.echo(f"  it showed {result.fault.reply}")
        for legal in result.fault.legal:
            click.echo(f"  legal: {legal}")
