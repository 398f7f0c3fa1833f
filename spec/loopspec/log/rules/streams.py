"""The model's stream (`S-LNT-58` to `S-LNT-65`), judged by `loopspec.stream`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopspec.log.looking import attempt_grammar, stream_time
from loopspec.log.rule import Breach, Rule, breach, rule
from loopspec.log.state import Log, Row, record
from loopspec.stream import BLANK
from loopspec.values import same_value

_SETTLEMENTS = ("assistant/message", "assistant/attempt")


@rule("S-LNT-58", "E", "Every attempt's stream follows the stream grammar.", "assistant/chunk", *_SETTLEMENTS)
def grammar(log: Log, row: Row) -> list[Breach]:
    found: list[Breach] = []
    if row.judged is not None:
        found += [breach(f"{_capital(item.text)}.", "the stream grammar") for item in row.judged[1]]
    if row.type == "assistant/message" and row.appends and row.data.get("interrupted") is not True:
        state = attempt_grammar(log) if log.format == 0 else row.judged[0] if row.judged is not None else None
        if state is not None and state.finish is None and state.open:
            indexes = ", ".join(str(index) for index, _ in state.open)
            found.append(breach(f"The stream stops while block {indexes} is open.", "block-end before the message"))
        elif state is not None and state.finish is None and row.settlement is not None:
            # M-111 forbids it, and the published service takes it for a stop (M-208).
            text = "The stream ends without a finish, yet its message is not interrupted."
            found.append(breach(text, "one finish, the last of the stream")._replace(level="W"))
    return found


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


@rule(
    "S-LNT-59",
    "E",
    "Format 0: assistant/message cites all chunks of its attempt, ascending.",
    "assistant/message",
    formats=(0,),
)
def cites_chunks(log: Log, row: Row) -> Breach | None:
    if not row.appends:
        return None
    expected = [seq for start, end in log.attempt_ranges for seq in range(start, end)]
    if "sourceEventSeqs" not in row.raw:
        if not expected:
            return None
        text = f"The message does not cite its stream of {len(expected)} chunks."
        return breach(text, "the seqs of the chunks")._replace(level="W")
    if row.sources == expected:
        return None
    text = f"The message cites {_span(row.sources)}, its stream is {_span(expected)}."
    return breach(text, _span(expected))


def _span(seqs: Any) -> str:
    if type(seqs) is not list:
        return repr(seqs)[:60]
    if len(seqs) <= 6:
        return str(seqs)
    return f"{len(seqs)} seqs from {seqs[0]} to {seqs[-1]}"


@rule("S-LNT-60", "E", "The content equals what the stream assembles to.", "assistant/message")
def content(log: Log, row: Row) -> Breach | None:
    settled = row.settlement
    if settled is None or not row.appends or same_value(settled.content, row.content):
        return None
    at = _first_difference(settled.content, row.content)
    return breach(f"The content differs from the stream, first at block {at[0]}: {at[1]}.", at[2])


def _first_difference(expected: Sequence[Any], found: Sequence[Any]) -> tuple[int, str, str]:
    for at in range(max(len(expected), len(found))):
        left = expected[at] if at < len(expected) else None
        right = found[at] if at < len(found) else None
        if not same_value(left, right):
            return at, f"the message has {_short(right)}", f"the stream gives {_short(left)}"
    return len(expected), "nothing", "nothing"


def _short(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 90 else text[:90] + "…"


@rule(
    "S-LNT-61",
    "E",
    "usage equals the stream's; format 4: nothing joins the surface while a request is under way.",
    *_SETTLEMENTS,
)
def usage(log: Log, row: Row) -> list[Breach]:
    found = []
    settled = row.settlement
    if settled is not None and row.type == "assistant/message" and row.appends:
        stated = row.data.get("usage")
        if not same_value(settled.usage, stated):
            found.append(breach(f"The usage is {_short(stated)}.", f"the stream's: {_short(settled.usage)}"))
    late = log.last_surface_in_step
    if log.format == 4 and late is not None and not log.snapshot:
        began = stream_time(row)
        if began is not None and type(late[2]) is int and late[2] > began:
            text = (
                "A node joined the surface after the next settlement's stream had begun: no way to rebuild the request."
            )
            found.append(breach(text, "a place before the request", line=late[0], seq=late[1])._replace(level="W"))
    return found


@rule("S-LNT-62", "E", "source.replayState equals the pruned replay state of the stream.", "assistant/message")
def replay_state(log: Log, row: Row) -> Breach | None:
    settled = row.settlement
    if settled is None or not row.appends:
        return None
    stated = record(row.message.get("source")).get("replayState")
    if same_value(settled.replay_state, stated) or (stated is None and row.data.get("interrupted") is True):
        return None
    return breach(f"The replay state is {_short(stated)}.", f"the stream's: {_short(settled.replay_state)}")


@rule(
    "S-LNT-63",
    "E",
    "At most one assistant/message per step, and no chunk or attempt after it.",
    "assistant/chunk",
    *_SETTLEMENTS,
)
def one_message(log: Log, row: Row) -> Breach | None:
    if log.anchor is None or (row.type == "assistant/message" and not row.appends):
        return None
    text = f"This {row.type} follows the step's message at seq {log.anchor}."
    return breach(text, "one settled message per step", first=log.anchor)


@rule(
    "S-LNT-64",
    "E",
    "interrupted is only true; such a message has text, no tool call, and its turn is aborted.",
    "assistant/message",
    "turn/end",
)
def interrupted(log: Log, row: Row) -> list[Breach]:
    if row.type == "turn/end":
        kind = record(row.data.get("reason")).get("kind")
        if kind in ("aborted", "interrupted", "forked"):
            return []
        return [
            breach(
                f"The message is interrupted, but its turn ends with {kind!r}.", "aborted", line=held.line, seq=held.seq
            )
            for held in log.interrupted_messages
        ]
    if "interrupted" not in row.data:
        return []
    if row.data["interrupted"] is not True:
        return [breach(f"interrupted is {row.data['interrupted']!r}.", "true, or no such key")]
    found = []
    kinds = [record(block).get("type") for block in row.content]
    if "tool-call" in kinds:
        found.append(breach("An interrupted message contains a tool call.", "text and reasoning only"))
    if all(str(record(block).get("text", "")).strip(BLANK) == "" for block in row.content):
        found.append(breach("An interrupted message says nothing.", "no message at all"))
    return found


@rule(
    "S-LNT-65",
    "W",
    "Format 4: an assistant/attempt holds a failed or cut stream, not a message that was dropped.",
    "assistant/attempt",
    formats=(4,),
)
def failed_attempt(log: Log, row: Row) -> Breach | None:
    kind = None if row.chunk is None else row.chunk.get("kind")
    if kind in (None, "error", "aborted"):
        return None
    return breach(f"The attempt finished with {kind}, which makes a message.", "an assistant/message")


RULES: tuple[Rule, ...] = (
    grammar,
    cites_chunks,
    content,
    usage,
    replay_state,
    one_message,
    interrupted,
    failed_attempt,
)
