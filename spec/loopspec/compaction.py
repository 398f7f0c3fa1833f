"""Compaction: when history has to shrink, and which part of it becomes a summary.

The oldest part of the surface is replaced by one message, a *checkpoint*. What may be replaced is a question about the
surface as it is at that moment, never about counts that were taken earlier (K32): a range behind the protected head
whose edges cut no tool call off from its result. Everything here is a pure function of a surface and some numbers; who
asks a model for the summary, and writes the records, is not.

Prices are estimates in tokens. Four characters are one token, rounded up for each text; every block costs four more,
and so does the role of every message. Of blocks that are no text, the parts that a model reads are priced as text.

Rules: M-701 to M-709, INV-C1 to INV-C3, INV-R11, S-SUR-6 to S-SUR-8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import floor
from typing import NamedTuple

from loopspec.log.types import Dialect
from loopspec.request import same_header
from loopspec.surface import Surface, protected_head
from loopspec.values import Json, Record

OVERFLOW = "CONTEXT_WINDOW_EXCEEDED"
"""The code of the one failure that a smaller history may cure (M-705)."""

PREAMBLE = (
    "The part of this conversation that stood here has been summarised to make room. Take the summary as what has "
    "happened, and go on with the messages after it; there is no need to mention it.\n\n<compacted-summary>"
)
CLOSING = "</compacted-summary>"

INSTRUCTION = (
    "Stop working on the task for one message, and write a summary of everything above for a colleague who takes over "
    "and sees nothing else of it. Use these headings, each with short points, and write (nothing) where there is "
    "nothing:\n\n"
    "## What the user wants\n## What was decided, and why\n## Files and places, with exact paths\n"
    "## What was tried, what failed, what worked\n## What is unfinished\n## The very next step\n\n"
    "Quote names, commands, numbers and error texts exactly. Keep what the user has corrected or forbidden. If a "
    "summary in <compacted-summary> stands above, carry over what still holds. Answer with the summary alone, and call "
    "no tool."
)
"""What the model is asked for, as the last message of an auxiliary request (M-710)."""

PRUNED = "\n\n[... tool result middle pruned ...]\n\n"
"""Stands in the place of what was cut out of a long result (M-709)."""


class Settings(NamedTuple):
    """How eagerly history is condensed (M-703). Ratios are of the context window, sizes in tokens."""

    auto: bool = True
    threshold_ratio: float = 0.8
    retain_ratio: float = 0.16
    retain_tokens: int | None = None
    max_tokens: int = 8192
    compaction_retries: int = 1
    max_overflow_retries: int = 1
    prune: bool = True
    prune_budget: int = 8192
    prune_head: int = 4096
    prune_tail: int = 1024


def checked(settings: Settings) -> Settings:
    """The settings themselves. Raises `ValueError` naming the first that makes no sense."""
    ratio, keep = settings.threshold_ratio, settings.retain_ratio
    if not 0 < ratio <= 1:
        raise ValueError(f"thresholdRatio must be above 0 and at most 1, not {ratio!r}")
    if not 0 <= keep < ratio:
        raise ValueError(f"retainRatio must be at least 0 and below thresholdRatio, not {keep!r}")
    for name in ("retain_tokens", "compaction_retries", "max_overflow_retries", "prune_head", "prune_tail"):
        value = getattr(settings, name)
        if value is not None and not (type(value) is int and value >= 0):
            raise ValueError(f"{name} must be a whole number, at least 0, not {value!r}")
    if not (type(settings.max_tokens) is int and settings.max_tokens > 0):
        raise ValueError(f"max_tokens must be a whole number above 0, not {settings.max_tokens!r}")
    if settings.prune_budget < settings.prune_head + settings.prune_tail + len(PRUNED):
        raise ValueError("prune_budget must be at least prune_head, prune_tail and the mark between them together")
    return settings


# -- prices ----------------------------------------------------------------------------------------------------


def tokens(text: str) -> int:
    """M-701  Four characters are a token, rounded up."""
    return (len(text) + 3) // 4


def block_price(block: Record) -> int:
    """M-701  A block is its text and four more; a result inside it is priced block by block."""
    inner = block.get("content")
    if isinstance(inner, Sequence) and not isinstance(inner, str):
        return 4 + sum(block_price(part) for part in inner)
    if block["type"] == "tool-call":
        return 4 + tokens(block["name"]) + tokens(block["arguments"])
    text = block.get("text")
    return 4 + (tokens(text) if isinstance(text, str) else 0)


def message_price(message: Record) -> int:
    """M-701  A message is its blocks and four for its role."""
    return 4 + sum(block_price(block) for block in message["content"])


def header_price(header: Record, written: Iterable[str]) -> int:
    """M-701  The parts of a request that are no messages: the system prompt, and `written`, its tools as JSON texts."""
    system = header.get("system", "")
    return (8 + tokens(system) if system else 0) + sum(4 + tokens(text) for text in written)


# -- how much there is -----------------------------------------------------------------------------------------


class Anchor(NamedTuple):
    """A provider's own count: what it `reported` for a request and its answer, and what we `priced` them at."""

    header: Record
    reported: int
    priced: int


def reported(usage: Record) -> int:
    """M-105  All that went in and came out; counts are disjoint, and reasoning is part of the output."""
    return sum(usage.get(name, 0) for name in ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"))


def anchored(header: Record, usage: Record | None, priced: int) -> Anchor | None:
    """M-701  A count to go by, or `None`: one below our own estimate is not believed."""
    if usage is None or reported(usage) < priced:
        return None
    return Anchor(header, reported(usage), priced)


def measured(header: Record, priced: int, anchor: Anchor | None) -> int:
    """M-701  How large the next request is: the provider's count, corrected by what has been added or taken away since.

    A count that was made under another header is of no use.
    """
    if anchor is None or not same_header(header, anchor.header):
        return priced
    return anchor.reported + priced - anchor.priced


def presses(size: int, window: int, settings: Settings) -> bool:
    """M-704  Whether the history is too large for its window."""
    return size >= floor(window * settings.threshold_ratio)


def retained(window: int, settings: Settings) -> int:
    """M-703  How many tokens stay as they are at the end of the history."""
    if settings.retain_tokens is not None:
        return settings.retain_tokens
    return floor(window * settings.retain_ratio)


# -- what to replace -------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """A range to replace: the seqs of its nodes in surface order, and what they cost."""

    seqs: tuple[int, ...]
    price: int

    @property
    def start(self) -> int:
        """The first node."""
        return self.seqs[0]

    @property
    def end(self) -> int:
        """The last node."""
        return self.seqs[-1]


def cut(surface: Surface, retain: int) -> Cut | None:
    """M-704, M-705  The longest range from the head on that may be replaced, or `None` when there is none.

    It begins behind the protected head (S-SUR-8), ends where no call waits for its result (M-706), and leaves at least
    one node and at least `retain` tokens behind it.
    """
    first = 0 if protected_head(surface) is None else 1
    prices = [node_price(event) for event in surface.events]
    behind = sum(prices[first:])
    best = 0
    for length, balanced in enumerate(_edges(surface, first), 1):
        behind -= prices[first + length - 1]
        if balanced and leaves_enough(surface, first + length, behind, retain):
            best = length
    if not best:
        return None
    return Cut(tuple(surface.nodes[first : first + best]), sum(prices[first : first + best]))


def leaves_enough(surface: Surface, position: int, behind: int, retain: int) -> bool:
    """M-704  Whether what stands from `position` on is a tail worth keeping: something, and not too little."""
    return position < len(surface.nodes) and behind >= retain


def _edges(surface: Surface, first: int) -> Iterator[bool]:
    """M-706, INV-C2  For each node from `first` on: whether behind it no call waits for its result.

    Two calls with one id need two results.
    """
    waiting: Counter[str] = Counter()
    for event in surface.events[first:]:
        waiting.update(calls_of(event))
        answered = answer_of(event)
        if answered is not None:
            waiting -= Counter([answered])
        yield not waiting


def calls_of(event: Record) -> tuple[str, ...]:
    """The ids of the calls that a node makes."""
    if event["type"] != "assistant/message":
        return ()
    return tuple(block["id"] for block in event["data"]["message"]["content"] if block["type"] == "tool-call")


def answer_of(event: Record) -> str | None:
    """The id of the call that a node answers."""
    if event["type"] != "tool/result":
        return None
    call_id: str = event["data"]["message"]["source"]["callId"]
    return call_id


def node_price(event: Record) -> int:
    """What a node costs in a request; an anchor without content costs nothing (S-SUR-11)."""
    data: Record = event["data"]
    message: Record = data if event["type"] == "user/message" else data["message"]
    if event["type"] in ("user/message", "tool/result") or len(message["content"]):
        return message_price(message)
    return 0


# -- the checkpoint --------------------------------------------------------------------------------------------


def summary_of(content: Sequence[Record]) -> tuple[Record, ...]:
    """The text blocks of the model's answer that say something; empty when it has said nothing."""
    return tuple(block for block in content if block["type"] == "text" and block["text"].strip())


def checkpoint_content(summary: Sequence[Record]) -> tuple[Record, ...]:
    """M-708  The summary between two texts that say what it is."""
    return ({"type": "text", "text": PREAMBLE}, *summary, {"type": "text", "text": CLOSING})


def checkpoint_source(dialect: Dialect, compaction_id: str, command_id: str | None) -> dict[str, Json]:
    """M-708, S-MSG-5  Who a checkpoint comes from."""
    kind: dict[str, Json] = {"kind": "compact-checkpoint"}
    if dialect == "v0":
        kind = {"kind": "plugin", "plugin": "compact"}
    named: dict[str, Json] = {} if command_id is None else {"sourceCommandId": command_id}
    return {**kind, "compactionId": compaction_id, **named}


def pays(chosen: Cut, message: Record) -> bool:
    """M-708  A checkpoint must be cheaper than what it stands for."""
    return message_price(message) < chosen.price


def blocked(started: int, ended: int, seeded: int) -> bool:
    """M-707  Whether an unfinished compaction bars the next one.

    The seqs of the last `compaction/start`, `compaction/end` and `session/end-seed`, -1 for none. What a crash has left
    open counts as closed once the session was opened again.
    """
    return started > max(ended, seeded)


# -- overflow --------------------------------------------------------------------------------------------------


def may_repair(code: str, repairs: int, aborted: bool, settings: Settings) -> bool:
    """M-705, INV-R11  Whether a failed request may be repaired by a smaller history.

    `repairs` are those since the last message of the model, or the last idleness.
    """
    return code == OVERFLOW and repairs < settings.max_overflow_retries and not aborted


def repaired(before: int, after: int, aborted: bool) -> bool:
    """M-705  Whether to try the request again: something was replaced, even if the rest went wrong."""
    return after > before and not aborted


# -- pruning ---------------------------------------------------------------------------------------------------


class Pruned(NamedTuple):
    """A tool result to shorten: its node, its event data with the new content, and what the old one costs."""

    seq: int
    data: Record
    price: int


def prunable(surface: Surface, retain: int, settings: Settings) -> tuple[Pruned, ...]:
    """M-704, M-709  The results to shorten, oldest first: those with a text over budget, before the retained tail."""
    found: list[Pruned] = []
    behind = sum(node_price(event) for event in surface.events)
    for seq, event in zip(surface.nodes, surface.events, strict=True):
        price = node_price(event)
        behind -= price
        if event["type"] == "tool/result" and behind >= retain:
            data = _shortened(surface.dialect, event["data"], settings)
            if data is not None:
                found.append(Pruned(seq, data, price))
    return tuple(found)


def _shortened(dialect: Dialect, data: Record, settings: Settings) -> Record | None:
    """INV-C3  The same result with shorter texts and nothing else changed; `None` when all are short."""
    message: Record = data["message"]
    if dialect == "v4":
        content = _short_blocks(message["content"], settings)
        return None if content is None else {**data, "message": {**message, "content": content}}
    (wrapper,) = message["content"]
    content = _short_blocks(wrapper["content"], settings)
    if content is None:
        return None
    return {**data, "message": {**message, "content": ({**wrapper, "content": content},)}}


def _short_blocks(content: Sequence[Record], settings: Settings) -> tuple[Record, ...] | None:
    blocks = tuple(
        {**block, "text": shortened(block["text"], settings)}
        if block["type"] == "text" and len(block["text"]) > settings.prune_budget
        else block
        for block in content
    )
    return None if all(new is old for new, old in zip(blocks, content, strict=True)) else blocks


def shortened(text: str, settings: Settings) -> str:
    """M-709  Beginning and end of a text, in code points."""
    return text[: settings.prune_head] + PRUNED + text[len(text) - settings.prune_tail :]
