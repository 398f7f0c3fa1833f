"""`loopspec run`: a scripted conversation on the reference harness, written as a session file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NoReturn

import click
from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from loopconform.commands import run_composition
from loopconform.exit_codes import Exit, Unusable, epilog
from loopconform.plain import Refused, printable
from loopconform.script.composition import Composition, is_composition
from loopconform.script.ensemble import Stored
from loopconform.script.load import BadScript, Fault, Loaded, read_script, validated
from loopconform.script.model import Script
from loopconform.script.output import check_free, pieces, write_session
from loopconform.script.play import Earlier, Played, play
from loopconform.script.text import Read
from loopconform.show.render import console, head, print_line
from loopconform.show.story import story
from loopconform.stored import take_up

_EXIT = {"played": Exit.FINE, "wrong": Exit.FOUND, "stuck": Exit.UNDECIDED}


@click.command(
    "run",
    short_help="Play a scripted conversation and write its session file.",
    epilog=epilog(
        "run",
        "After 1, 3 and 4 the file holds what happened; after 2, and when a session cannot be read, "
        "nothing is written.",
    ),
)
@click.argument("script", required=False, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write: .jsonl, .jsonl.zstd, or - for plain rows on standard output. By default the name of the "
    "script with .jsonl, in this directory. For a composition a directory, which gets one file for each session.",
)
@click.option("--zstd", is_flag=True, help="Compress: .jsonl.zstd, where --out names no file.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
@click.option("--format", "session_format", type=click.Choice(("0", "4")), help="Format of a new session file.")
@click.option("--profile", type=click.Choice(("seed", "dsh-0.1", "dsh-0.1.7")), help="Which law the agent follows.")
@click.option("--show", is_flag=True, help="Show the session, as `loopspec show` does.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of scripts and compositions, for editors, and end.")
@click.pass_context
def command(
    ctx: click.Context,
    script: Path | None,
    out: Path | None,
    zstd: bool,
    force: bool,
    session_format: str | None,
    profile: str | None,
    show: bool,
    schema: bool,
) -> None:
    """Play SCRIPT, a conversation in YAML, on the reference harness, and write the session file that it makes.

    No model is called: the script says what the model answers. Start with examples/hello.yaml. A script may mount
    tools that work on real files below a directory that it names; see examples/files.yaml.

    A script with `agents:` is a composition: several agents as a configuration asks for them, plugins, and steps that
    say which agent they are for. See examples/composition.yaml.
    """
    if schema:
        either: TypeAdapter[Script | Composition] = TypeAdapter(Script | Composition)
        click.echo(json.dumps(either.json_schema(), indent=2, ensure_ascii=False))
        return
    if show and str(out) == "-":
        raise click.UsageError("--show and --out - would both write to standard output.")
    if script is None:
        raise click.UsageError("Missing argument SCRIPT: a YAML file, such as examples/hello.yaml.")
    ending = ".jsonl.zstd" if zstd else ".jsonl"
    target = out or Path(f"{script.stem}{ending}")
    try:
        read = read_script(script)
        if is_composition(read):
            changes = _changes(session_format, profile)
            _compose(ctx, read, script, out or Path(script.stem), force, changes, show, ending)
        if zstd and out is not None and not _is_compressed(out):
            raise click.UsageError(f"--zstd and --out {out} do not fit together: name a file that ends in .jsonl.zstd.")
        loaded = _with_options(validated(read), session_format, profile)
        if str(target) != "-":
            check_free(target, force)
        played = play(loaded, loaded.script.session or script.stem, _earlier(loaded, script), script.parent)
        _write(target, played, loaded.script.pack_chunks, force)
    except BadScript as error:
        _print_faults(script, error.faults, "error")
        ctx.exit(error.code)
    except Unusable as error:
        raise Refused(printable(str(error)), error.code) from error
    _print_faults(script, played.notes, "note")
    _print_faults(script, played.faults, "error")
    if show:
        _show(played)
    if str(target) != "-":
        click.echo(_summary(played, target))
    ctx.exit(_EXIT[played.verdict])


def _compose(
    ctx: click.Context,
    read: Read,
    script: Path,
    target: Path,
    force: bool,
    changes: dict[str, Any],
    show: bool,
    ending: str,
) -> NoReturn:
    """Play a composition, tell what came of it, and end."""
    if str(target) == "-":
        raise click.UsageError("A composition writes several sessions: give --out a directory.")
    played, files = run_composition.run(read, script, target, force, changes, ending)
    _print_faults(script, played.notes, "note")
    _print_faults(script, played.faults, "error")
    for path, one in files:
        if show:
            _show(one)
        click.echo(run_composition.summary(path, one))
    ctx.exit(run_composition.exit_code(played))


def _changes(session_format: str | None, profile: str | None) -> dict[str, Any]:
    """What the options change."""
    changes = {"session_format": None if session_format is None else int(session_format), "profile": profile}
    return {key: value for key, value in changes.items() if value is not None}


def _with_options(loaded: Loaded, session_format: str | None, profile: str | None) -> Loaded:
    given = _changes(session_format, profile)
    if "session_format" in given and loaded.script.resume is not None:
        raise BadScript([Fault(0, "", "a session that is taken up keeps its format", "Leave --format out.")])
    return loaded._replace(script=loaded.script.model_copy(update=given))


def _earlier(loaded: Loaded, script: Path) -> Earlier | None:
    """The session that the script takes up, if it does."""
    name = loaded.script.resume
    if name is None:
        return None
    try:
        stored = take_up(script.parent / name)
    except Unusable as error:
        fault = Fault(loaded.line("resume"), "resume", str(error), "Give a session file that is there, and sound.")
        raise BadScript([fault], error.code) from error
    assert stored.header is not None
    return Earlier(stored.header, stored.events)


def _write(target: Path, played: Played, pack_chunks: bool, force: bool) -> None:
    zstd = _is_compressed(target)
    content = pieces(played.header, played.events, played.earlier, zstd=zstd, pack_chunks=pack_chunks)
    if str(target) != "-":
        write_session(target, content, force)
        return
    for piece in content:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _is_compressed(target: Path) -> bool:
    return target.name.endswith((".zstd", ".zst"))


def _print_faults(script: Path, faults: tuple[Fault, ...] | list[Fault], kind: str) -> None:
    console = Console(stderr=True)
    style = "bold red" if kind == "error" else "yellow"
    for fault in faults:
        place = f"{script}:{fault.line}" if fault.line else str(script)
        where = f"{fault.where}: " if fault.where else ""
        text = Text.assemble((printable(place), "bold"), ": ", (kind, style))
        text.append(f"\n    {printable(where + fault.reason)}")
        if fault.advice:
            text.append(f"\n    {printable(fault.advice)}", style="dim")
        console.print(text, soft_wrap=True)


def _show(played: Played | Stored) -> None:
    to = console()
    to.print(head(played.header, played.events))
    for line in story(played.header, played.events):
        print_line(line, to)
    to.print()


def _summary(played: Played, target: Path) -> str:
    ends = [event["data"]["reason"]["kind"] for event in played.events if event["type"] == "turn/end"]
    turns = f"{len(ends)} turn{'' if len(ends) == 1 else 's'}"
    how = f" ({', '.join(ends[-8:])})" if ends else ""
    text = f"{played.header['id']}: {turns}{how}, {len(played.events)} events, written to {target}"
    return printable(text)
