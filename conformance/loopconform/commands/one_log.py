"""The one session log that a command is about."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from loopconform import report_text
from loopconform.check import select
from loopconform.findings import RunReport
from loopconform.plain import Refused, printable


def the_one_log(ctx: click.Context, session: Path, to: Console) -> Path:
    """SESSION itself, or the only log in that directory.

    Where nothing can be read the reason is printed and the command ends, as `check` does. Raises `Refused` for a
    directory with several logs or none.
    """
    chosen, skipped = select([session])
    if skipped:
        nothing = RunReport((), tuple(skipped))
        report_text.write(nothing, to)
        ctx.exit(nothing.exit_code())
    if len(chosen) != 1:
        names = ", ".join(str(item) for item in chosen[:3])
        raise Refused(printable(f"{session} holds {len(chosen)} session logs; name one: {names}, …"))
    return chosen[0]
