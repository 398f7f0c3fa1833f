"""Lines as a tree in the terminal: the numbers of the events on the left, guides, words in colour, texts wrapped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from loopconform.plain import printable
from loopconform.show.story import Line, Tone
from loopconform.show.words import as_json, count, get, moment, words_of
from loopspec.values import Record

__all__ = ["console", "head", "print_line", "turn_numbers"]

_STYLES: Mapping[Tone, str] = {
    "turn": "bold green",
    "step": "bold",
    "user": "bold cyan",
    "system": "magenta",
    "model": "bold blue",
    "tool": "yellow",
    "inbox": "cyan",
    "request": "dim",
    "plain": "dim",
    "good": "green",
    "warn": "bold yellow",
    "bad": "bold red",
}
_HEADLINES = ("turn", "step", "request ")
_QUIET = ("plain", "request")
PIPE_WIDTH = 140
"""Columns when the output is no terminal."""
_NARROWEST = 24
"""Columns that a text gets at least, however deep it stands."""


def console(no_color: bool = False) -> Console:
    """A console as wide as the terminal, or of a fixed width when the output goes elsewhere."""
    made = Console(no_color=no_color, highlight=False)
    if not made.is_terminal:
        made = Console(no_color=no_color, highlight=False, width=PIPE_WIDTH)
    return made


def head(header: Record, events: Sequence[Record]) -> Text:
    """One line about the whole session."""
    text = Text.assemble(("session ", "dim"), (words_of(header.get("id")), "bold"))
    facts = [f"format {words_of(header.get('version'))}", moment(header.get("createdAt"))]
    facts += [f"{key} {words_of(header[key])}" for key in ("cwd", "origin", "parentSession") if key in header]
    facts.append(f"{count(len(turn_numbers(events)), 'turn')}, {count(len(events), 'event')}")
    text.append(f"  {' · '.join(facts)}", style="dim")
    return text


def turn_numbers(events: Sequence[Record]) -> list[int]:
    """The numbers of the turns that a log opens, in order."""
    numbers = [get(event["data"], "turn") for event in events if event["type"] == "turn/start"]
    return [number for number in numbers if type(number) is int]


def print_line(line: Line, to: Console, raw: bool = False) -> None:
    """Print a line of the top level with everything below it; `raw` adds the events themselves as JSON."""
    if line.word.startswith(("turn", "request ", "pending")):
        to.print()
    _print(line, to, raw, "", "")


def _print(line: Line, to: Console, raw: bool, first: str, rest: str) -> None:
    """Print a line behind the guides `first`, and behind `rest` what it wraps to and what is below it."""
    below = bool(line.children)
    seq = "" if line.seq is None else words_of(line.seq)
    _wrapped(_text(line), to, f"{seq:>5}", first, rest + ("│  " if below else "   "))
    if raw:
        for event in line.events:
            to.print(Text(printable(as_json(event)), style="dim"), soft_wrap=True)
    for at, child in enumerate(line.children):
        last = at + 1 == len(line.children)
        _print(child, to, raw, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _wrapped(text: Text, to: Console, margin: str, first: str, rest: str) -> None:
    width = max(to.width - 6 - max(len(first), len(rest)), _NARROWEST)
    for at, part in enumerate(text.wrap(to, width, overflow="fold")):
        part.rstrip()
        guides = f"{margin if at == 0 else '':>5} {first if at == 0 else rest}"
        to.print(Text.assemble((guides, "dim"), part), soft_wrap=True)


def _text(line: Line) -> Text:
    """The line without its guides. Whatever the words are made of, no control character gets through."""
    style = _STYLES[line.tone]
    text = Text.assemble((printable(line.word), style))
    if line.text:
        headline = line.word.startswith(_HEADLINES)
        text.append("  " if line.word else "")
        text.append(printable(line.text), style=style if headline else "dim" if line.tone in _QUIET else "")
    if line.aside.strip():
        text.append(f"  · {printable(line.aside.strip())}", style="dim")
    return text
