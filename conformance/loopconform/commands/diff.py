"""`loopspec diff`: are these two session logs the same behaviour?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from loopconform.difference import ABSENT, Difference, Placed, first_difference
from loopconform.exit_codes import epilog
from loopconform.plain import Refused, printable
from loopconform.reader import ReadRow, read
from loopspec.log.compare import events_of
from loopspec.log.packed import PackedError


@click.command(
    "diff",
    short_help="The first difference that matters between two logs.",
    epilog=epilog("diff"),
)
@click.argument("first", type=click.Path(path_type=Path))
@click.argument("second", type=click.Path(path_type=Path))
@click.option("--format", "style", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.pass_context
def command(ctx: click.Context, first: Path, second: Path, style: str) -> None:
    """Compare FIRST and SECOND, two session logs, record by record.

    Times, durations, random ids (each named by its first appearance) and the words of errors that no model reads are
    not compared. Everything else is: order, types, payloads, surface operations and sources.
    """
    left, right = _Log(first), _Log(second)
    if left.header.get("version") != right.header.get("version"):
        versions = f"{left.header.get('version')!r} and {right.header.get('version')!r}"
        raise Refused(f"The logs are of the formats {versions}; only logs of one format can be compared.")
    found = first_difference((left.header, right.header), left.events(), right.events())
    if style == "json":
        click.echo(json.dumps(_as_json(found), ensure_ascii=True))
    else:
        click.echo(_as_text(found, str(first), str(second)), nl=False)
    ctx.exit(1 if found else 0)


class _Log:
    """One log as it is read: its header at once, its events one by one. Raises `Refused` for anything unreadable."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._rows = self._read()
        header = next(self._rows, None)
        if header is None or header[1].get("type") != "session" or header[1].get("version") not in (0, 4):
            raise Refused(f"{path} is no session log of format 0 or 4.")
        self.header = header[1]

    def _read(self) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            for item in read(self.path):
                if isinstance(item, ReadRow):
                    if item.value is None:
                        raise Refused(f"{self.path}: line {item.line} cannot be read.")
                    yield item.line, item.value
                elif item.kind != "no-checksum":
                    raise Refused(
                        f"{self.path}: broken at line {item.line or '?'} ({item.kind}). {item.detail}".strip()
                    )
        except (OSError, ValueError) as error:
            raise Refused(f"{self.path} cannot be read: {getattr(error, 'strerror', None) or error}") from error

    def events(self) -> Iterator[Placed]:
        try:
            yield from events_of(self._rows, int(self.header["version"]))
        except (PackedError, KeyError, TypeError) as error:
            raise Refused(f"{self.path}: a packed row cannot be opened: {error}") from error


def _as_json(found: Difference | None) -> dict[str, Any]:
    if found is None:
        return {"same": True}
    values = [None if value is ABSENT else value for value in found.values]
    return {
        "same": False,
        "seq": found.seq,
        "lines": list(found.lines),
        "types": list(found.kinds),
        "path": found.path,
        "values": values,
    }


def _as_text(found: Difference | None, first: str, second: str) -> str:
    if found is None:
        return "The same behaviour: no difference that matters.\n"
    where = "the header" if found.seq < 0 else f"seq {found.seq}"
    ended = [name for name, line in zip((first, second), found.lines, strict=True) if line is None]
    if ended:
        longer = second if ended[0] == first else first
        kind = found.kinds[0] or found.kinds[1]
        return printable_lines(f"{ended[0]} ends before {where}.", f"{longer} goes on with {kind}.")
    places = [f"line {line} of {name}" for name, line in zip((first, second), found.lines, strict=True)]
    head = f"They differ first at {where}: {found.kinds[0]}, {found.path}."
    if found.path == "$.type":
        head = f"They differ first at {where}: another record."
    return printable_lines(
        head, *(f"  {place}: {_short(value)}" for place, value in zip(places, found.values, strict=True))
    )


def printable_lines(*lines: str) -> str:
    """Lines that are safe for a terminal."""
    return "".join(f"{printable(line)}\n" for line in lines)


def _short(value: Any) -> str:
    text = repr(value) if value is ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"
