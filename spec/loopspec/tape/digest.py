"""Condensing a long tool result by what it holds: data, a log, search matches, JSON, a diff; code is left alone.

Pure routing and text work. All sizes count UTF-16 units (RE-43). Rules: FD-13, FD-40 to FD-47. Grade of these
rules: known from a sibling build and from what tests require; list bullets count as structured lines, as the
later build has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from loopspec.tape.digest_json import items_of, json_body
from loopspec.tape.digest_policy import Condensed, DigestPolicy
from loopspec.tape.recall import RECALL_TOOLS
from loopspec.tape.text import unit_slice, units

Kind = Literal["data", "log", "search", "json", "diff", "code"]


class Source(NamedTuple):
    """Where a text comes from: the tool, and its path argument if it has one."""

    tool: str
    path: str | None = None


class Digest(NamedTuple):
    """What became of a text. `body` is `None` when it stays as it is."""

    kind: Kind
    total: int
    kept: int
    body: str | None


DEFAULT: Final = DigestPolicy()
FILE_TOOLS: Final = frozenset({"read", "read_file", "read_section", "fetch_page"})
SEARCH_TOOLS: Final = frozenset({"grep", "glob"})

_CODE_PATH: Final = re.compile(
    r"\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|mts|cts|java|kt|kts|scala|go|rs|c|h|cc|cpp|cxx|hpp|hh|cs|rb|php|swift|m|mm|"
    r"sh|bash|zsh|ps1|sql|lua|pl|r|jl|dart|ex|exs|erl|hs|ml|clj|vue|svelte|zig|nim|proto|css|scss|less)\Z",
    re.IGNORECASE,
)
_CODE_LINE: Final = re.compile(
    r"\s*(?:(?:async\s+)?def\s+\w+\s*\(|class\s+\w+|import\s+[\w{*\"']|from\s+\S+\s+import\b|export\s+|"
    r"(?:async\s+)?function\b|(?:const|let|var)\s+\w+\s*=|#include\b|package\s+\w+;?$|use\s+\w+(?:::\w+)*;|"
    r"(?:public|private|protected|static)\s+\w+|(?:pub\s+)?fn\s+\w+|func\s+\w+|struct\s+\w+|impl\b|interface\s+\w+|"
    r"(?:if|for|while|switch)\s*\(.*\)\s*\{|return\b.*;?$|\}\s*(?:else|catch|finally)?\s*\{?;?$|@\w+(?:\(|$))"
)
_MATCH_LINE: Final = re.compile(r"((?:[A-Za-z]:)?(?=[^\s:]*[A-Za-z/._])[^\s:]+):(\d+):")
_DIFF: Final = re.compile(r"^(?:diff --git |@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@)", re.MULTILINE)
_LOG_LINE: Final = re.compile(
    r"\s*(?:\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|(?:\[\s*)?(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|"
    r"ERROR|FATAL|CRITICAL)\b|(?:npm|yarn|pnpm)\s+(?:ERR!|WARN)|(?:PASS|FAIL|FAILED|ok|not ok)\s|at\s+\S+\s*\(|"
    r"Traceback\b|\s+File \"|error(?:\[\w+\])?:|warning:)"
)
_ERROR_LINE: Final = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|FAILED|FAIL|PANIC)\b|ERR!|\b(?:[Ee]rror|[Ee]xception|[Pp]anic)\b|\w+(?:Error|Exception)\b"
)
_WARNING_LINE: Final = re.compile(
    r"\bWARN(?:ING)?\b|\bwarning\b|\b\d+\s+(?:passed|failed|errors?|warnings?|skipped)\b|\b(?:Tests?|Suites?|Total):\s"
)
_STACK_LINE: Final = re.compile(r"\s+(?:at\s|File \"|\.\.\. \d+ more)|\s{2,}\S|Caused by:")
_VARIABLE: Final = re.compile(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F]{7,}\b|(?:/[\w.\-]+)+|\d+")
_TABLE_ROW: Final = re.compile(r"\s*\|.*\|\s*")
_HEADING: Final = re.compile(r"\s*(?:#{1,6}\s+\S.*|\[[^\]]+\]|(?:```|~~~).*)")
_PAIR: Final = re.compile(r"\s*(?:[-*+]\s+)?([^\s:=|#][^\s:=]*(?: [^\s:=]+)?)\s*(?:=(?!=)|:(?=\s|$))")


def digest(text: str, source: Source, policy: DigestPolicy = DEFAULT) -> Digest:
    """FD-40  The condensed form of a text, or the reason in its kind why it stays whole."""
    lines = text.split("\n")
    kind, condense = _route(text, lines, source, policy)
    shorter = condense() if condense is not None else None
    if shorter is None:
        return Digest(kind, len(lines), len(lines), None)
    body = "\n".join(shorter.lines)
    if units(body) >= policy.max_keep_ratio * units(text):
        return Digest(kind, len(lines), len(lines), None)
    return Digest(kind, len(lines), shorter.kept, body)


Rule = Callable[[], Condensed | None]


def _route(text: str, lines: list[str], source: Source, policy: DigestPolicy) -> tuple[Kind, Rule | None]:
    if source.tool in RECALL_TOOLS:
        return "search", None
    if source.tool in SEARCH_TOOLS:
        return "search", lambda: _search(text, lines, policy)
    if _DIFF.search(unit_slice(text, 0, 4000)):
        return "diff", lambda: _diff(lines, policy)
    listing = items_of(text, lines)
    if listing is not None:
        return "json", lambda: json_body(text, listing, policy)
    if source.tool in FILE_TOOLS:
        if (source.path is not None and _CODE_PATH.search(source.path)) or looks_like_code(lines):
            return "code", None
        return "data", lambda: _data(text, lines, policy)
    if looks_like_code(lines):
        return "code", None
    filled = [line for line in lines if line.strip()]
    if filled and sum(_MATCH_LINE.match(line) is not None for line in filled) >= 0.6 * len(filled):
        return "search", lambda: _search(text, lines, policy)
    if filled and sum(_LOG_LINE.match(line) is not None for line in filled) >= 0.3 * len(filled):
        return "log", lambda: _log(text, lines, policy)
    return "data", lambda: _data(text, lines, policy)


def looks_like_code(lines: Sequence[str]) -> bool:
    """FD-41  At least 8 lines that are not blank, and 15 % of them look like code."""
    filled = [line for line in lines if line.strip()]
    return len(filled) >= 8 and sum(_CODE_LINE.match(line) is not None for line in filled) >= 0.15 * len(filled)


# -- data ----------------------------------------------------------------------------------------------------


def _data(text: str, lines: list[str], policy: DigestPolicy) -> Condensed | None:
    """FD-42  Head and tail, tables, and enough of structured lines to know what is there."""
    if units(text) < policy.min_chars:
        return None
    keep = _edges(len(lines), policy.head_lines, policy.tail_lines)
    keep |= _structured(lines, policy)
    keep |= {at for at, line in enumerate(lines) if _TABLE_ROW.fullmatch(line)}
    return Condensed(_with_gaps([_bounded(line, policy) for line in lines], lines, keep), len(keep))


def _edges(count: int, head: int, tail: int) -> set[int]:
    return {*range(min(head, count)), *range(max(0, count - tail), count)}


def key_of(line: str) -> str | None:
    """The key of a structured line: a pair, a heading, a section or a fence; `None` for anything else."""
    if _HEADING.fullmatch(line):
        return line.strip()
    pair = _PAIR.match(line)
    return None if pair is None else pair[1]


def _structured(lines: Sequence[str], policy: DigestPolicy) -> set[int]:
    keys = [key_of(line) for line in lines]
    dense = sum(key is not None for key in keys) >= 0.8 * len(lines)
    cap = float("inf") if dense else policy.structured_block_cap
    keep: set[int] = set()
    seen: set[str] = set()
    here = kept = 0
    for at, key in enumerate(keys):
        if key is None:
            here = kept = 0
            continue
        inside = policy.head_lines <= at < len(lines) - policy.tail_lines
        if inside:
            if kept < cap and (here < policy.structured_block_min or key not in seen):
                keep.add(at)
                kept += 1
            here += 1
        seen.add(key)
    return keep


def _bounded(line: str, policy: DigestPolicy) -> str:
    size = units(line)
    if size <= policy.max_line_chars:
        return line
    head, tail = policy.line_head_chars, policy.line_tail_chars
    omitted = size - head - tail
    if omitted <= 0:
        return line
    return f"{unit_slice(line, 0, head)} …[+{omitted} chars]… {unit_slice(line, size - tail) if tail else ''}"


def _with_gaps(shown: Sequence[str], lines: Sequence[str], keep: Iterable[int]) -> list[str]:
    """FD-13  The kept lines, and a marker for each stretch between them."""
    body: list[str] = []
    last = -1
    for at in [*sorted(keep), len(lines)]:
        dropped = lines[last + 1 : at]
        if dropped:
            blank = not any(line.strip() for line in dropped)
            size = sum(units(line) + 1 for line in dropped)
            body.append(dropped[0] if blank else f"…[+{len(dropped)} lines / {size} chars]…")
        if at < len(lines):
            body.append(shown[at])
        last = at
    return body


# -- logs ----------------------------------------------------------------------------------------------------


def _log(text: str, lines: list[str], policy: DigestPolicy) -> Condensed | None:
    """FD-43  What went wrong, each kind of it once, with the lines around it."""
    if units(text) < policy.log_min_chars:
        return None
    errors = [at for at, line in enumerate(lines) if _ERROR_LINE.search(line)]
    known = set(errors)
    warnings = [at for at, line in enumerate(lines) if at not in known and _WARNING_LINE.search(line)]
    marked = {*_distinct(lines, errors, policy.log_max_errors), *_distinct(lines, warnings, 5)}
    keep = _edges(len(lines), 3, 6)
    for at in marked:
        around = policy.log_context_lines
        keep.update(range(max(0, at - around), min(len(lines), at + around + 1)))
        if at in known:
            keep.update(_stack_behind(lines, at))
    body = _with_gaps([_bounded(line, policy) for line in lines], lines, keep)
    more_errors = sum(at not in keep for at in errors)
    more_warnings = sum(at not in keep for at in warnings)
    if more_errors or more_warnings:
        omitted = len(lines) - len(keep)
        body.append(
            f"[{omitted} lines omitted: {more_errors} more error lines, {more_warnings} more warning/summary lines]"
        )
    return Condensed(body, len(keep))


def _distinct(lines: Sequence[str], places: Sequence[int], limit: int) -> list[int]:
    first: dict[str, int] = {}
    for at in places:
        first.setdefault(_VARIABLE.sub("#", lines[at]), at)
    return [*list(first.values())[:limit], *places[-1:]]


def _stack_behind(lines: Sequence[str], at: int) -> Iterable[int]:
    for behind in range(at + 1, min(len(lines), at + 31)):
        if not _STACK_LINE.match(lines[behind]):
            return
        yield behind


# -- search matches ------------------------------------------------------------------------------------------


def _search(text: str, lines: list[str], policy: DigestPolicy) -> Condensed | None:
    """FD-44  Of every file the first matches and the last one."""
    files: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        match = _MATCH_LINE.match(line)
        if match is not None:
            files.setdefault(match[1], []).append(at)
    count = sum(map(len, files.values()))
    if not count or (count < policy.search_min_matches and units(text) < policy.search_min_chars):
        return None
    keep = set(range(len(lines))) - {at for places in files.values() for at in places}
    notes: dict[int, str] = {}
    room = policy.search_max_total
    for name, places in files.items():
        chosen = _first_and_last(places, int(min(policy.search_max_per_file, room)))
        room -= len(chosen)
        keep.update(chosen)
        if chosen and len(chosen) < len(places):
            notes[chosen[-1]] = f"[... and {len(places) - len(chosen)} more matches in {name}]"
    body: list[str] = []
    for at in sorted(keep):
        body.append(_bounded(lines[at], policy))
        if at in notes:
            body.append(notes[at])
    return Condensed(body, len(body))


def _first_and_last(places: Sequence[int], room: int) -> list[int]:
    if len(places) <= room:
        return list(places)
    return [*places[: room - 1], places[-1]] if room > 0 else []


# -- diffs ---------------------------------------------------------------------------------------------------


class _Hunk(NamedTuple):
    start: int
    end: int
    changes: int


def _diff(lines: list[str], policy: DigestPolicy) -> Condensed | None:
    """FD-46  Changed lines with their surroundings, and of each file at most ten hunks."""
    if len(lines) < policy.diff_min_lines:
        return None
    body: list[str] = []
    for number, (start, end) in enumerate(_files(lines), 1):
        hunks = _hunks(lines, start, end)
        chosen = _chosen_hunks(hunks, int(policy.diff_max_hunks_per_file))
        keep = set(range(start, hunks[0].start if hunks else end))
        for hunk in chosen:
            keep.add(hunk.start)
            keep |= _changed(lines, hunk, int(policy.diff_context_lines))
        body += _diff_part(lines, start, end, keep, policy)
        if len(chosen) < len(hunks):
            body.append(f"[... and {len(hunks) - len(chosen)} more hunks in file #{number}]")
    return Condensed(body, len(body))


def _files(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Where each file of a diff begins and ends; what stands before the first belongs to it."""
    starts = [at for at, line in enumerate(lines) if line.startswith("diff --git ")]
    if not starts:
        starts = [
            at for at, line in enumerate(lines[:-1]) if line.startswith("--- ") and lines[at + 1].startswith("+++ ")
        ]
    bounds = [0, *starts[1:], len(lines)]
    return [(first, last) for first, last in pairwise(bounds) if first < last]


def _hunks(lines: Sequence[str], start: int, end: int) -> list[_Hunk]:
    heads = [at for at in range(start, end) if lines[at].startswith("@@ ")]
    return [
        _Hunk(head, stop, sum(_is_change(line) for line in lines[head + 1 : stop]))
        for head, stop in zip(heads, [*heads[1:], end], strict=True)
    ]


def _is_change(line: str) -> bool:
    return line.startswith(("+", "-"))


def _chosen_hunks(hunks: Sequence[_Hunk], room: int) -> list[_Hunk]:
    if len(hunks) <= room:
        return list(hunks)
    middle = sorted(hunks[1:-1], key=lambda hunk: -hunk.changes)[: max(0, room - 2)]
    return sorted({hunks[0], hunks[-1], *middle})


def _changed(lines: Sequence[str], hunk: _Hunk, around: int) -> set[int]:
    found: set[int] = set()
    for at in range(hunk.start + 1, hunk.end):
        if _is_change(lines[at]):
            found.update(range(max(hunk.start + 1, at - around), min(hunk.end, at + around + 1)))
    return found


def _diff_part(lines: Sequence[str], start: int, end: int, keep: set[int], policy: DigestPolicy) -> list[str]:
    body: list[str] = []
    last = start - 1
    for at in [*sorted(keep), end]:
        if at > last + 1:
            body.append(f"…[+{at - last - 1} lines]…")
        if at < end:
            body.append(_bounded(lines[at], policy))
        last = at
    return body
