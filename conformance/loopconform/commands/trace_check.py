"""`loopspec trace-check`: is a recorded log a behaviour of the TLA+ model of the loop?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import click

from loopconform.exit_codes import epilog
from loopconform.reader import ReadRow, read
from loopconform.replays import traces as observed
from loopconform.tla.follow import Failed, Verdict, check, told
from loopconform.tla.tlc import Missing, Stopped
from loopconform.tla.trace import Trace, Unreadable, traces_of
from loopspec.profile import PROFILES, Profile, law

ACCEPTED, REFUSED, UNREADABLE, UNDETERMINED = 0, 1, 2, 3


@click.command(
    "trace-check",
    short_help="Hold session logs against the TLA+ model of the loop.",
    epilog=epilog("trace-check"),
)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--profile", type=click.Choice(PROFILES), default="dsh-0.1", show_default=True, help="Law of the logs.")
@click.option("--depth", type=click.IntRange(0, 4), default=1, show_default=True, help="Calls within calls.")
@click.option("--timeout", type=click.IntRange(1), default=600, show_default=True, help="Seconds for TLC.")
@click.option("--jar", "other_jar", type=click.Path(exists=True, path_type=Path), help="Another tla2tools.jar.")
def command(files: tuple[Path, ...], profile: Profile, depth: int, timeout: int, other_jar: Path | None) -> None:
    """Follow FILES along the model: session logs (JSONL or zstd), or traces that `loopspec conform --traces` wrote.

    Every record must be one that the model can write, and so every live event of a trace. A folder stands for the
    `.jsonl` files in it. All logs of one law are given to one run of TLC. On a refusal: the line, what was false of
    it, and what was possible there.
    """
    worst = ACCEPTED
    by_law: dict[tuple[Profile, int], list[Trace]] = {}
    for file in _files(files):
        try:
            whose, version, traces = followed_in(file, profile)
        except (Unreadable, OSError) as error:
            click.echo(f"UNREADABLE {file}: {error}")
            worst = max(worst, UNREADABLE)
            continue
        by_law.setdefault((whose, version), []).extend(traces)
        if not traces:
            click.echo(f"ACCEPTED  {file}: no loop wrote any of its rows")
    for (whose, version), traces in sorted(by_law.items()):
        try:
            verdicts = check(traces, law(whose, version), depth=depth, timeout=timeout, other_jar=other_jar)
        except Stopped as error:
            click.echo(f"UNDETERMINED: {error}")
            worst = max(worst, UNDETERMINED)
            continue
        except (Failed, Missing) as error:
            raise click.UsageError(str(error)) from None
        for verdict in verdicts:
            for line in told(verdict.trace.name, verdict):
                click.echo(line)
            worst = max(worst, _code(verdict))
    raise SystemExit(worst)


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob("*.jsonl"))
        else:
            yield path


def followed_in(file: Path, profile: Profile) -> tuple[Profile, int, list[Trace]]:
    """Whose law a file is held against, its format, and its traces. A trace names its law; a log has that of `profile`.

    Raises `Unreadable` and `OSError`.
    """
    with file.open("rb") as stream:
        first = stream.readline(65_536)
    if observed.is_trace(first.decode(errors="replace")):
        whose, version, traces = observed.read(file)
        return cast(Profile, whose), version, traces
    return (profile, *traces_in(file))


def _code(verdict: Verdict) -> int:
    if verdict.trace.undecided:
        return UNDETERMINED
    return REFUSED if verdict.refused else ACCEPTED


def traces_in(file: Path) -> tuple[int, list[Trace]]:
    """The format of a log (0 or 4) and its traces. Raises `Unreadable` for damage in front of its end."""
    rows: list[tuple[int, dict[str, Any]]] = []
    for item in read(file):
        if not isinstance(item, ReadRow):
            raise Unreadable(f"it is damaged in line {item.line} ({item.kind}); `loopspec check` says more")
        rows.append(_row(item))
    if not rows or rows[0][1].get("type") != "session":
        raise Unreadable("it does not begin with a session header")
    header = rows[0][1]
    return (4 if header.get("version") == 4 else 0), traces_of(str(file), header, _behind(rows))


def _behind(rows: list[tuple[int, dict[str, Any]]]) -> Iterable[tuple[int, dict[str, Any]]]:
    return iter(rows[1:])


def _row(item: ReadRow) -> tuple[int, dict[str, Any]]:
    if item.value is None or item.damages:
        raise Unreadable(f"line {item.line} is damaged; `loopspec check` says more")
    return item.line, item.value
