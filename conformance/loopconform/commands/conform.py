"""`loopspec conform`: drive an implementation, and judge it by the law."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from loopconform.cli import version
from loopconform.commands.conform_levels import commands
from loopconform.commands.conform_repeat import command as repeat_command
from loopconform.commands.conform_replay import command as replay_command
from loopconform.exit_codes import epilog
from loopconform.protocol.case import BadCase, Case, load_cases
from loopconform.replays.traces import write as write_traces
from loopconform.runner import report
from loopconform.runner.channel import REFERENCE, opener
from loopconform.runner.diagram import mermaid, program_text
from loopconform.runner.fuzz import fuzz
from loopconform.runner.play import Player
from loopconform.runner.results import Result, Run
from loopconform.runner.shrink import shrunk
from loopconform.runner.suite import ExpectedError, jobs_of, judged, load_expected, play_all
from loopspec.profile import PROFILES

CASES = Path(__file__).parents[2] / "cases"
SMOKE = "smoke/"

_adapter = click.option(
    "--adapter",
    required=True,
    metavar="CMD",
    help=f"The adapter: a command, a folder with a `run` in it, or '{REFERENCE}' (in this process).",
)
_backend = click.option(
    "--backend",
    type=click.Choice(("asyncio", "trio")),
    default="asyncio",
    show_default=True,
    help=f"The event loop of '{REFERENCE}'.",
)
_timeout = click.option(
    "--timeout", type=click.FloatRange(0.1), default=10.0, show_default=True, help="Seconds for one request."
)
_STYLES = click.Choice(("text", "json", "junit", "sarif", "html"))
_style = click.option("--format", "style", type=_STYLES, default="text", show_default=True)
_output = click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the report to FILE.")
_validate = click.option("--validate", is_flag=True, help="Show every message of the adapter as it comes, checked.")


@click.group(
    "conform",
    invoke_without_command=True,
    short_help="Drive an implementation of the loop, and judge it by the law.",
    epilog=epilog("conform"),
)
@click.option("--adapter", metavar="CMD", help=f"The adapter: a command, a folder with a `run`, or '{REFERENCE}'.")
@click.option("--cases", multiple=True, type=click.Path(path_type=Path, exists=True), help="Case files or folders.")
@click.option(
    "--case", "ids", multiple=True, metavar="ID", help="Only this case; a `*` at the end stands for anything."
)
@click.option("--area", "areas", multiple=True, help="Only cases of this area.")
@click.option(
    "--profile", "profiles", multiple=True, type=click.Choice(PROFILES), help="Law to judge by; default seed."
)
@click.option("--level", type=click.Choice(("L0", "L1", "L2")), help="Only cases of this level.")
@click.option("--expected-failures", type=click.Path(path_type=Path), metavar="FILE", help="YAML, `case id: VERDICT`.")
@click.option("--jobs", "-j", type=click.IntRange(1), default=1, show_default=True, help="Adapters at a time.")
@_style
@_output
@click.option("--traces", type=click.Path(path_type=Path, file_okay=False), help="Write what each agent showed here.")
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Look for the shortest failing program.")
@_backend
@_timeout
@_validate
@click.option("--no-progress", is_flag=True, help="No progress bar.")
@click.pass_context
def command(
    ctx: click.Context,
    adapter: str | None,
    cases: tuple[Path, ...],
    ids: tuple[str, ...],
    areas: tuple[str, ...],
    profiles: tuple[str, ...],
    level: str | None,
    expected_failures: Path | None,
    jobs: int,
    style: str,
    output: Path | None,
    traces: Path | None,
    shrink: bool,
    backend: Any,
    timeout: float,
    validate: bool,
    no_progress: bool,
) -> None:
    """Run the conformance cases on an adapter and judge every message by the executable law.

    Start with `loopspec conform smoke`; `conformance/TUTORIAL.md` goes from an empty file to the first green case.
    """
    if ctx.invoked_subcommand is not None:
        return
    if adapter is None:
        raise click.UsageError("Which implementation? Give --adapter CMD, for example --adapter python-reference.")
    try:
        declared = {} if expected_failures is None else load_expected(expected_failures)
        chosen = jobs_of(load_cases(cases or (CASES,)), profiles or ("seed",), ids, areas, level)
    except (BadCase, ExpectedError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    start = opener(adapter, backend, _watch if validate else None)
    bar = None if no_progress or validate or not sys.stderr.isatty() else Progress(console=Console(stderr=True))
    with bar or nullcontext():
        task = None if bar is None else bar.add_task("conform", total=len(chosen))

        def told(result: Result) -> None:
            if bar is not None and task is not None:
                bar.advance(task)

        with _quiet():
            run = play_all(start, chosen, jobs, timeout, shrink, told, adapter)
    run = judged(run, declared)
    if traces is not None:
        traces.mkdir(parents=True, exist_ok=True)
        for result in run.results:
            write_traces(result, traces)
    _write(run, style, output)
    if run.interrupted:
        click.echo(f"interrupted: {len(run.results)} of {run.wanted} checks were run", err=True)
    ctx.exit(run.exit_code())


@command.command("smoke")
@_adapter
@click.option("--profile", type=click.Choice(PROFILES), default="seed", show_default=True)
@_style
@_output
@_backend
@_timeout
@_validate
@click.pass_context
def smoke(
    ctx: click.Context,
    adapter: str,
    profile: str,
    style: str,
    output: Path | None,
    backend: Any,
    timeout: float,
    validate: bool,
) -> None:
    """The first cases for a new adapter: it can be started, makes an agent, and runs a turn."""
    cases = [case for case in load_cases((CASES / "hand",)) if case.id.startswith(SMOKE)]
    start = opener(adapter, backend, _watch if validate else None)
    with _quiet():
        run = play_all(start, [(case, profile) for case in cases], 1, timeout, False, name=adapter)
    _write(run, style, output)
    ctx.exit(run.exit_code())


@command.command("fuzz")
@_adapter
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Where the programs begin; the same gives the same."
)
@click.option("--seconds", type=click.FloatRange(0), default=30.0, show_default=True, help="How long to go on.")
@click.option("--programs", type=click.IntRange(1), help="Or how many programs, at most.")
@click.option("--profile", type=click.Choice(PROFILES), default="seed", show_default=True)
@click.option("--session-format", type=click.Choice(("0", "4")), default="0", show_default=True)
@click.option(
    "--keep", type=click.Path(path_type=Path), metavar="FILE", help="Write the shortest failing case to FILE."
)
@click.option("--lives", is_flag=True, help="About creation and teardown of several agents, not about one loop.")
@_backend
@_timeout
@click.pass_context
def fuzz_command(
    ctx: click.Context,
    adapter: str,
    seed: int,
    seconds: float,
    programs: int | None,
    profile: str,
    session_format: str,
    lives: bool,
    keep: Path | None,
    backend: Any,
    timeout: float,
) -> None:
    """Random programs, made while they are played; the first that fails is shrunk and shown."""
    player = Player(opener(adapter, backend), timeout)
    played: list[Result] = []
    console = Console()
    try:
        with _quiet():
            for result in fuzz(player, seed, profile, int(session_format), seconds, programs, lives):
                played.append(result)
                if result.verdict != "PASS":
                    played[-1] = _failed(player, result, keep, console)
                    break
    finally:
        player.close()
    run = Run(adapter, adapter, tuple(played), wanted=len(played))
    report.write_text(run, console)
    ctx.exit(run.exit_code())


@contextmanager
def _quiet() -> Iterator[None]:
    """What the reference harness warns of is planned here, and not for the reader of a report."""
    logger = logging.getLogger("loopharness")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _failed(player: Player, result: Result, keep: Path | None, console: Console) -> Result:
    if result.verdict != "FAIL":
        return result
    result = shrunk(player, result)
    case: Case = result.shrunk or result.case
    console.print(mermaid(result), markup=False, highlight=False, soft_wrap=True)
    if keep is not None:
        keep.write_text(case.with_hash().dumped(), encoding="utf-8")
    elif result.shrunk is None:
        console.print(program_text(case.program), markup=False, highlight=False, soft_wrap=True)
    return result


def _watch(line: bytes, problem: str) -> None:
    """`--validate`: one line for each message of the adapter."""
    text = line[:300].decode(errors="replace")
    click.echo(f"  ✗ {text}\n    {problem}" if problem else f"  ✓ {text}", err=True)


def _write(run: Run, style: str, output: Path | None) -> None:
    if style == "text":
        if output is None:
            report.write_text(run, Console())
        else:
            with output.open("w", encoding="utf-8") as stream:
                report.write_text(run, Console(file=stream, width=120))
        return
    renderers = {
        "json": lambda: report.render_json(run, version()),
        "junit": lambda: report.render_junit(run),
        "sarif": lambda: report.render_sarif(run, version()),
        "html": lambda: _html(run),
    }
    text = renderers[style]()
    if output is None:
        click.echo(text, nl=False)
    else:
        output.write_text(text, encoding="utf-8")


def _html(run: Run) -> str:
    from loopconform import report_html  # the templates are loaded for this format only
    from loopconform.report_html import kills

    return report_html.render(run, version(), kills.load())


for _level in (*commands(_write), repeat_command, replay_command):
    command.add_command(_level)
