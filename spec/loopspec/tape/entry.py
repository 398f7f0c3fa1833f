"""The text of an entry: the grammar of the tape and the ladder of shorter forms.

Nothing here looks at a log: an entry is a function of its blocks and of the cap (INV-10). Reply text is
verbatim and never parsed again; whoever reads an entry pairs the wrapper lines by their equal hash (TP-58).

Rules: TP-50 to TP-59, TP-66 to TP-76.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from loopspec.tape.text import fingerprint

FORMAT_VERSION: Final = 4
TOOL_LINES: Final = 6
READS_SHOWN: Final = 10
READ_LINE_LIMIT: Final = 2000
SMALLEST_CAP: Final = 256
LAST_LEVEL: Final = 9

CAP_ERROR: Final = "history.entryMaxChars must be a safe integer >= 256"


class Reply(NamedTuple):
    """One assistant message with text: TP-53."""

    step: int
    seq: int
    text: str


class Read(NamedTuple):
    """One observation as the read line shows it, labels ready: TP-62, TP-68.

    `place` is `step S, seq Q block 1` or `step S, dispatch seq Q`; `change` is the mark, empty without one.
    """

    path: str
    lines: int
    digest: str
    place: str
    tool: str
    window: str
    direct: bool
    change: str = ""


class Tool(NamedTuple):
    """One tool result: TP-56. `size` is in code points, of the original."""

    step: int
    seq: int
    name: str
    size: int


class Block(NamedTuple):
    """What an entry says about one stretch of one turn, in the order in which it is printed: TP-51."""

    turn: int
    snapshots: int = 0
    replies: tuple[Reply, ...] = ()
    silent: int = 0
    reads: tuple[Read, ...] = ()
    tools: tuple[Tool, ...] = ()


class Level(NamedTuple):
    """One row of the ladder (TP-71). `reads` is the limit of the read line, 0 for none.

    `shorten` is the reply form: `None` complete, else (cap, head, tail).
    """

    tools: bool
    reads: int
    shorten: tuple[int, int, int] | None
    compact: bool = False


class Rendered(NamedTuple):
    """The text of an entry and the level of the ladder at which it fits."""

    text: str
    level: int


_COMPACT_REPLY: Final = (48, 32, 16)


def level(number: int, cap: int) -> Level:
    """TP-71  The row of the ladder; 0 to 8, since 9 is the marker alone."""
    match number:
        case 0:
            return Level(True, READ_LINE_LIMIT, None)
        case 1:
            return Level(False, READ_LINE_LIMIT, None)
        case 2:
            return Level(False, min(READ_LINE_LIMIT, cap), (2000, 1400, 500))
        case 3:
            return Level(False, 1000, (1000, 700, 250))
        case 4:
            return Level(False, 500, (500, 350, 125))
        case 5:
            return Level(False, 250, (250, 175, 62))
        case 6:
            return Level(False, 125, (125, 87, 31))
        case 7:
            return Level(False, 128, _COMPACT_REPLY, compact=True)
    return Level(False, 0, _COMPACT_REPLY, compact=True)


def render(owners: Sequence[int], blocks: Sequence[Block], cap: int | None = None) -> Rendered:
    """The entry for a segment whose nodes belong to `owners` (TP-50), at the first level that fits (TP-71).

    Without a cap the text is complete. Raises `ValueError` for a cap that is not allowed (TP-70).
    """
    check_cap(cap)
    span = (min(owners), max(owners), len(set(owners)))
    if cap is None:
        return Rendered(_full(span, blocks, level(0, READ_LINE_LIMIT)), 0)
    for number in range(LAST_LEVEL):
        row = level(number, cap)
        text = _compact(span, blocks, row) if row.compact else _full(span, blocks, row)
        if len(text) <= cap:
            return Rendered(text, number)
    return Rendered(_marker(span), LAST_LEVEL)


def check_cap(cap: object) -> None:
    """TP-70  Refuse a cap that cannot hold a complete recall instruction."""
    if cap is not None and not (type(cap) is int and SMALLEST_CAP <= cap < 2**53):
        raise ValueError(CAP_ERROR)


# -- the full form -------------------------------------------------------------------------------------------


Span = tuple[int, int, int]
"""First turn, last turn, number of turns."""


def header(span: Span) -> str:
    """TP-50  The line that names the span and how to get everything back."""
    return (
        f"{_range(span)} · "
        'recall_turn({"turn":"<n>","view":"dialogue"}) returns a turn\'s dialogue; '
        f'expand_result({{"seq":<q>,"formatVersion":{FORMAT_VERSION}}}) returns a tool result]'
    )


def _range(span: Span) -> str:
    first, last, count = span
    return f"[slice tape v1 · turns {first}-{last} · {count} turn(s) sealed"


def _full(span: Span, blocks: Sequence[Block], row: Level) -> str:
    lines = [header(span)]
    for block in blocks:
        lines += _full_block(block, row)
    return "\n".join(lines)


def _full_block(block: Block, row: Level) -> Iterator[str]:
    yield f"[turn {block.turn}]"
    if block.snapshots:
        yield _note(block)
    for reply in block.replies:
        yield from _wrapped(block.turn, reply, row)
    yield from _silent(block)
    yield from _read_line(block, row)
    if row.tools:
        yield from _tool_lines(block)


def _note(block: Block) -> str:
    """TP-52  Superseded snapshots are counted and located, never printed."""
    snapshots = "snapshot" if block.snapshots == 1 else "snapshots"
    counted = "" if block.snapshots == 1 else f"{block.snapshots} "
    return (
        f"[slice note · {counted}runtime-context {snapshots} superseded by a later one; "
        f"not repeated here · verbatim: {recall_turn(block.turn)}]"
    )


def _wrapped(turn: int, reply: Reply, row: Level) -> Iterator[str]:
    """TP-53, TP-54, TP-72  The reply between two lines that carry its hash.

    TP-75  A reply that shortening strips to nothing is an empty line without a wrapper.
    """
    text = reply.text if row.shorten is None else _shortened(reply.text.strip(), row.shorten)
    if not text:
        yield ""
        return
    digest = fingerprint(text, 12)
    yield f"[reply slice-turn-{turn}-step-{reply.step}-seq-{reply.seq} @sha256:{digest}]"
    yield text
    yield f"[end reply @sha256:{digest}]"


def _shortened(text: str, form: tuple[int, int, int]) -> str:
    cap, head, tail = form
    if len(text) <= cap:
        return text
    return f"{text[:head]} …[+{len(text) - head - tail} chars in sealed turn]… {text[-tail:]}"


def _silent(block: Block) -> Iterator[str]:
    """TP-55  Messages without text and without calls are counted."""
    if block.silent:
        yield f"[{block.silent} assistant message(s) contained no visible text or tool calls]"


def _read_line(block: Block, row: Level) -> Iterator[str]:
    """TP-67  At most ten observations within the limit; the rest is counted."""
    if not block.reads or not row.reads:
        return
    shown: list[str] = []
    for read in block.reads[:READS_SHOWN]:
        longer = [*shown, observation(block.turn, read)]
        if len(_files(block, longer)) > row.reads:
            break
        shown = longer
    line = _files(block, shown)
    if len(line) <= row.reads:
        yield line


def _files(block: Block, shown: Sequence[str]) -> str:
    omitted = len(block.reads) - len(shown)
    more = [f"+{omitted} more; {recall_turn(block.turn, 'full')}"] if omitted else []
    return f"[files read this turn: {', '.join([*shown, *more])}]"


def observation(turn: int, read: Read) -> str:
    """One item of the read line: `obs` of the grammar."""
    channel = "logged result" if read.direct else f"code log; model visibility not implied; {recall_turn(turn, 'full')}"
    return (
        f"{read.path} ({read.lines} lines, {read.digest}, {read.place}, "
        f"{read.tool} window {read.window}, {channel}{read.change})"
    )


def place(step: int, seq: int, *, direct: bool) -> str:
    """Where a read is recorded: `place` of the grammar."""
    return f"step {step}, seq {seq} block 1" if direct else f"step {step}, dispatch seq {seq}"


def change(same: bool, turn: int, where: str) -> str:
    """TP-68  The comparison with the last earlier read of the same thing."""
    return f", {'=' if same else '≠'} turn {turn} {where}"


def _tool_lines(block: Block) -> Iterator[str]:
    """TP-56  At most six lines, each naming the durable record."""
    for tool in block.tools[:TOOL_LINES]:
        yield (
            f"[tool turn {block.turn} step {tool.step} seq {tool.seq} · {tool.name} · {tool.size} chars · "
            f"{expand_result(tool.seq)}]"
        )
    if len(block.tools) > TOOL_LINES:
        yield f"[+{len(block.tools) - TOOL_LINES} more tool results]"


# -- locators ------------------------------------------------------------------------------------------------


def recall_turn(turn: int, view: Literal["", "dialogue", "full"] = "") -> str:
    """The call that opens the page of a turn."""
    wanted = f',"view":"{view}"' if view else ""
    return f'recall_turn({{"turn":"{turn}"{wanted}}})'


def expand_result(seq: int) -> str:
    """The call that returns a tool result; numeric, so it names the format it is valid for (RC-02)."""
    return f'expand_result({{"seq":{seq},"formatVersion":{FORMAT_VERSION}}})'


# -- the compact form and the marker -------------------------------------------------------------------------


def _compact(span: Span, blocks: Sequence[Block], row: Level) -> str:
    """TP-73  No hashes, no tool lines, replies cut to their ends."""
    lines = [f"{_range(span)} · details: {_repeat(span)}]"]
    for block in blocks:
        lines.append(f"[turn {block.turn}]")
        if block.snapshots:
            snapshots = f"{block.snapshots} runtime-context snapshot(s) superseded"
            lines.append(f"[{snapshots}; {recall_turn(block.turn)}]")
        lines += [f"[reply step {reply.step} seq {reply.seq}] {_ends(reply.text)}" for reply in block.replies]
        lines += _silent(block)
        lines += _read_line(block, row)
    return "\n".join(lines)


def _ends(text: str) -> str:
    cap, head, tail = _COMPACT_REPLY
    if len(text) <= cap:
        return text
    return f"{text[:head]}…[+{len(text) - head - tail} chars, recall_turn]…{text[-tail:]}"


def _repeat(span: Span) -> str:
    return f"{recall_turn(span[0])}; repeat for each turn through {span[1]}"


def _marker(span: Span) -> str:
    """TP-74  Always below the smallest cap, the recall instruction complete."""
    return f"{_range(span)}]\n[details omitted to fit entry; {_repeat(span)}]"
