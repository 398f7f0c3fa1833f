"""What `recall_turn`, `recall_step` and `expand_result` print.

Rules: RC-10 to RC-15, RC-29, RC-30, RC-34 to RC-36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from loopspec.profile import Law, law
from loopspec.tape import entry, spill
from loopspec.tape.index import LogIndex
from loopspec.tape.recall import Found, RecallError, name_of
from loopspec.tape.select import kind_of
from loopspec.tape.text import compact_json, joined_text, outcome, safe_name, text_parts, whole

SEED: Final = law("seed", 4)

View = Literal["dialogue", "full"]

SHOWN_MATCHES: Final = 200
CONTEXT_LINES: Final = 2
_RANGE: Final = re.compile(r"([0-9]+)\s*-\s*([0-9]+)")


# -- recall_turn ---------------------------------------------------------------------------------------------


def turn_page(index: LogIndex, turn: int, view: View = "dialogue", choices: Law = SEED) -> str:
    """RC-12  The page of a turn. Raises `RecallError` when nothing is recorded of it (RC-11)."""
    if not index.is_recorded(turn):
        ended = ", ".join(map(str, index.ended_turns(20)))
        known = f"sealed turns: {ended}" if ended else "no sealed turns yet"
        raise RecallError(f"no recorded turn {turn} in this session ({known})")
    records = index.records_of(turn)
    humans, contexts = _inputs(index, records)
    items, spoken = _items(index, records, view)
    lines = [
        _turn_header(index, turn, view, (len(humans), len(contexts), spoken)),
        "",
        "## User request (verbatim)",
        "\n\n".join(humans) if humans else "(no user text recorded for this turn)",
        "",
        "## Assistant response (verbatim)",
        *(items or ["(no assistant text recorded for this turn)"]),
    ]
    if contexts:
        lines += ["", "## Generated context recorded during this turn (verbatim)"]
        for source, text in contexts:
            lines += [f"[{source}]", text]
    if view == "full":
        heading = "## Original records (including reasoning, tool output and recorded file metadata)"
        lines += ["", heading, compact_json(_raw(index, records, choices))]
    return _one_final_break("\n".join(lines))


def _turn_header(index: LogIndex, turn: int, view: View, counts: tuple[int, int, int]) -> str:
    humans, contexts, spoken = counts
    end = index.end_of(turn)
    status = "open" if end is None else end["data"]["reason"]["kind"]
    context = f" · {contexts} generated context message(s)" if contexts else ""
    return (
        f"[sealed turn slice-turn-{turn} · status {status} · {humans} user message(s){context} · "
        f"{spoken} assistant step(s) with text · {_frame(turn, view)} · "
        "historical record: establishes what was said, not current world state]"
    )


def _frame(turn: int, view: View) -> str:
    if view == "full":
        return 'view full (text plus every original record; the default text-only page is view "dialogue")'
    return (
        "view dialogue (default: text once, tool results as locators; full record with reasoning and tool output: "
        f"{entry.recall_turn(turn, 'full')})"
    )


def _inputs(index: LogIndex, records: Sequence[int]) -> tuple[list[str], list[tuple[str, str]]]:
    humans: list[str] = []
    contexts: list[tuple[str, str]] = []
    for seq in records:
        event = index.events[seq]
        if event["type"] != "user/message":
            continue
        text = joined_text(event["data"]["content"])
        if kind_of(event) == "human":
            humans.append(text or "(no user text recorded in this message)")
        else:
            contexts.append((str((event["data"].get("source") or {}).get("kind") or "generated"), text))
    return humans, contexts


def _items(index: LogIndex, records: Sequence[int], view: View) -> tuple[list[str], int]:
    """RC-13  The assistant's part in log order, and how many of its messages have text."""
    lines: list[str] = []
    spoken = 0
    for seq in records:
        event = index.events[seq]
        data = event["data"]
        if event["type"] == "assistant/message":
            content = data["message"]["content"]
            text = joined_text(content)
            if text:
                spoken += 1
                lines += [f"[step {data['step']}]", text, ""]
            elif not any(block["type"] == "tool-call" for block in content):
                lines += [f"[step {data['step']}]", "(no assistant text recorded for this step)", ""]
        elif event["type"] == "tool/result" and view == "dialogue":
            size = len(result_text(outcome(data).content))
            locator = entry.expand_result(seq)
            lines.append(f"[tool step {data['step']} seq {seq} · {name_of(index, seq)} · {size} chars · {locator}]")
    return lines, spoken


def result_text(content: Sequence[Mapping[str, object]]) -> str:
    """The non-empty text parts of a result, joined by LF (RC-13, RC-21)."""
    return "\n".join(whole(text) for text in text_parts(content) if text)


def _raw(index: LogIndex, records: Sequence[int], choices: Law) -> list[dict[str, object]]:
    """RC-14  The records of the turn as they are in the log."""
    return [
        {"type": index.events[seq]["type"], "data": index.events[seq]["data"]}
        for seq in records
        if choices.recall_shows_dispatches or index.events[seq]["type"] != "tool/ptc-dispatch"
    ]


def _one_final_break(page: str) -> str:
    return page.rstrip("\n") + "\n" if page.endswith("\n") else page


# -- recall_step ---------------------------------------------------------------------------------------------


def step_page(
    index: LogIndex,
    address: tuple[int, int],
    parts: Callable[[int], Sequence[spill.Part]],
    stored: spill.Stored,
) -> str:
    """RC-29, RC-30  What a step called and got. `parts` gives the text parts of a result by seq.

    Raises `RecallError` when the log holds nothing of the step.
    """
    turn, step = address
    calls, results = index.calls_in(turn, step), index.results_in(turn, step)
    if not calls and not results:
        raise RecallError(f"no recorded tool calls for turn {turn} step {step}")
    shown: list[str] = []
    previews = False
    for seq in results:
        failed = outcome(index.events[seq]["data"]).failed
        lines, preview = spill.shown_parts(seq, parts(seq), stored)
        previews = previews or preview
        shown += ["[error result]" if failed else "[result]", *lines]
    mode = "logged tool record; spilled results below are previews" if previews else "verbatim tool record"
    heading = (
        "## Results (previews where marked; use the exact expansion locator for full text)"
        if previews
        else "## Results (verbatim)"
    )
    page = [
        f"[sealed step · turn {turn} · step {step} · {len(calls)} call(s) · {mode}: "
        "what was executed then, not current world state]",
        "",
        "## Calls",
        *([_call_line(index.events[seq]["data"]) for seq in calls] or ["(no calls recorded)"]),
        "",
        heading,
        *(shown or ["(no results recorded)"]),
    ]
    return "\n".join(page).rstrip("\n") + "\n"


def _call_line(data: Mapping[str, object]) -> str:
    arguments = data["arguments"]
    return f"→ {safe_name(str(data['name']))}({arguments if isinstance(arguments, str) else compact_json(arguments)})"


# -- expand_result -------------------------------------------------------------------------------------------


def full_page(found: Found, text: str) -> str:
    """RC-35  The whole result."""
    return f"[full result of {found.head}]\n{text}"


def line_range(value: object) -> tuple[int, int] | None:
    """RC-36  The range that `lines` asks for; `None` when it does not ask for one."""
    match = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    first, last = (int(digits) if len(digits) < 16 else 10**15 for digits in match.groups())
    return first, last


def lines_page(found: Found, text: str, wanted: tuple[int, int], asked: str) -> str:
    """RC-36  Numbered lines of the result. Raises `RecallError` for an empty range."""
    lines = text.split("\n")
    first, last = max(1, wanted[0]), min(len(lines), wanted[1])
    if first > last:
        raise RecallError(f"expand_result: empty range {asked} (result has {len(lines)} lines)")
    body = [f"{number}: {lines[number - 1]}" for number in range(first, last + 1)]
    return "\n".join([f"[{found.head} · lines {first}-{last} of {len(lines)}]", *body])


def grep_page(found: Found, text: str, pattern: str, matches: Callable[[str], bool]) -> str:
    """RC-36  The lines that match, each with two lines around it."""
    lines = text.split("\n")
    hits = [at for at, line in enumerate(lines) if matches(line)]
    shown = hits[:SHOWN_MATCHES]
    cut = f", first {SHOWN_MATCHES} shown" if len(hits) > SHOWN_MATCHES else ""
    head = f"[{found.head} · {len(hits)} of {len(lines)} lines match /{pattern}/i{cut}]"
    body: list[str] = []
    last = -1
    for hit in shown:
        start = max(last + 1, hit - CONTEXT_LINES)
        if last >= 0 and start > last + 1:
            body.append(f"…[{start - last - 1} lines]…")
        end = min(len(lines) - 1, hit + CONTEXT_LINES)
        body += [f"{at + 1}: {lines[at]}" for at in range(start, end + 1)]
        last = max(last, end)
    return "\n".join([head, *body[: len(shown) * 5 + SHOWN_MATCHES]])
