"""Every rule of the checker in one list, and the table that documents them."""

from __future__ import annotations

from typing import NamedTuple

from loopspec.log.acceptance import ENTRIES
from loopspec.log.compare import INHERITED, REQUESTS
from loopspec.log.grammar import RULES
from loopspec.log.rule import ANY, DAMAGE, END, HEADER, LEVEL_NAMES, Level


class Entry(NamedTuple):
    """One rule: id, level, sentence, the formats it binds, and what it looks at."""

    id: str
    level: Level
    sentence: str
    formats: tuple[int, ...]
    looks_at: str


def rule_entries() -> list[Entry]:
    """All rules, in the order of their numbers."""
    entries = [
        Entry(rule.id, rule.level, rule.sentence, tuple(n for n in rule.formats if n >= 0), _looks_at(rule.on))
        for rule in RULES
    ]
    entries += [
        Entry(REQUESTS[0], "E", REQUESTS[2], (0, 4), "the captured requests (`--requests`)"),
        Entry(INHERITED[0], "E", INHERITED[2], (0, 4), "the parent's log, when it is checked too"),
    ]
    return sorted(entries, key=lambda entry: int(entry.id.removeprefix("S-LNT-")))


def acceptance_entries() -> list[Entry]:
    """What is said of a whole run (`loopspec.log.acceptance`)."""
    return [Entry(entry.id, entry.level, entry.sentence, (0, 4), "the whole log") for entry in ENTRIES]


_WORDS = {ANY: "every row", END: "the end of the log", HEADER: "the header row", DAMAGE: "the file's bytes"}


def _looks_at(on: tuple[str, ...]) -> str:
    if len(on) > 4:
        return f"{', '.join(f'`{name}`' for name in on[:3])} and {len(on) - 3} more"
    return ", ".join(_WORDS.get(name, f"`{name}`") for name in on)


def markdown() -> str:
    """The text of `spec/loopspec/log/RULES.md`. A test compares the file with it."""
    lines = [
        "# Rules of a session log",
        "",
        "What `loopspec check` asks of a log. Written by `python -m loopconform.catalogue`; the sentences are those",
        "of the rule functions in `rules/`. From 105 on the rules are our own additions. Level *undecided* is no",
        "statement about the log. Rules 72 and 105 bind our own logs; under another profile than `seed` they are",
        "warnings. `S-ACC` follows the loop machines along the log under the law of the profile (`acceptance.py` says",
        "what a log can prove).",
        "",
        "| Rule | Level | Formats | Looks at | It says |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {entry.id} | {LEVEL_NAMES[entry.level]} | {', '.join(map(str, entry.formats))} "
        f"| {entry.looks_at} | {entry.sentence} |"
        for entry in (*rule_entries(), *acceptance_entries())
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
