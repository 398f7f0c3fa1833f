"""`loopspec conform repeat`: does a case come out the same every time?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from loopconform.exit_codes import epilog
from loopconform.protocol.case import BadCase, load_cases
from loopconform.runner import repeat_page
from loopconform.runner.channel import REFERENCE, opener
from loopconform.runner.repeat import Repeated, repeat
from loopconform.runner.results import EXIT, WORST
from loopconform.runner.suite import jobs_of
from loopspec.profile import PROFILES

RACES = Path(__file__).parents[2] / "cases" / "races"


@click.command("repeat", epilog=epilog("conform repeat"))
@click.option("--adapter", required=True, metavar="CMD", help="The adapter.")
@click.option("--times", type=click.IntRange(1), default=100, show_default=True, help="Repetitions of each case.")
@click.option("--cases", multiple=True, type=click.Path(path_type=Path, exists=True), help="Default: the races.")
@click.option("--case", "ids", multiple=True, metavar="ID", help="Only this case; a `*` at the end is anything.")
@click.option("--profile", "profiles", multiple=True, type=click.Choice(PROFILES), help="Default seed.")
@click.option("--backend", type=click.Choice(("asyncio", "trio")), default="asyncio", show_default=True)
@click.option("--timeout", type=click.FloatRange(0.1), default=30.0, show_default=True, help="Seconds for one request.")
@click.option("--jobs", "-j", type=click.IntRange(1), default=1, show_default=True, help="Adapters at a time.")
@click.option("--page", type=click.Path(path_type=Path), metavar="FILE", help="Put the outcome into this page.")
@click.option("--any-trace", is_flag=True, help="Only the verdicts count; several lawful traces are no failure.")
@click.pass_context
def command(
    ctx: click.Context,
    adapter: str,
    times: int,
    cases: tuple[Path, ...],
    ids: tuple[str, ...],
    profiles: tuple[str, ...],
    backend: Any,
    timeout: float,
    jobs: int,
    page: Path | None,
    any_trace: bool,
) -> None:
    """Play each case many times: all must pass, and show the same in every settle window."""
    laws = profiles or ("seed",)
    try:
        chosen = jobs_of(load_cases(cases or (RACES,)), laws, ids)
    except (BadCase, ValueError) as error:
        raise click.UsageError(str(error)) from error
    found = repeat(opener(adapter, backend), chosen, times, jobs, timeout)
    for one in found:
        if not one.is_steady or one.traces > 1:
            verdicts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(one.verdicts.items()))
            click.echo(f"{one.case}@{one.profile}: {verdicts}; {one.traces} traces  {one.reason[:100]}".rstrip())
    click.echo(repeat_page.summary(found, times))
    if page is not None:
        name = repeat_page.named(adapter, backend, REFERENCE)
        repeat_page.put(page, repeat_page.Row(name, ", ".join(laws), times, tuple(found)))
    ctx.exit(exit_code(found, any_trace))


def exit_code(found: list[Repeated], any_trace: bool) -> int:
    """The worst verdict's; 1 where passing repetitions showed several traces and that counts."""
    verdicts = Counter(verdict for one in found for verdict in one.verdicts)
    worst = next((EXIT[verdict] for verdict in WORST if verdict in verdicts), 0)
    return worst or int(not any_trace and any(not one.is_steady for one in found))
