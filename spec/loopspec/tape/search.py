"""`recall_search`: which texts of a log are searched, how they are ranked, and what a hit shows.

Rules: RC-20 to RC-27, INV-19.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import isnan, log2
from typing import Final, Literal, NamedTuple

from loopspec.profile import Law, law
from loopspec.tape import entry
from loopspec.tape.index import LogIndex
from loopspec.tape.pages import result_text
from loopspec.tape.recall import RECALL_TOOLS, RecallError
from loopspec.tape.select import kind_of
from loopspec.tape.text import compact_json, joined_text, origin, outcome, units
from loopspec.values import Json, Record

SEED: Final = law("seed", 4)

Kind = Literal["user", "assistant", "context", "tool_input", "tool_error", "tool_output"]
KINDS: Final[tuple[Kind, ...]] = ("user", "assistant", "context", "tool_input", "tool_error", "tool_output")
DIALOGUE: Final = KINDS[:-1]

TOOL_OUTPUT_SLOTS: Final = 3
TOOL_SNIPPET_CHARS: Final = 600
SNIPPET_CHARS: Final = 180
DEFAULT_LIMIT: Final = 5
LARGEST_LIMIT: Final = 20

_BETWEEN_TERMS: Final = re.compile(r"[^\w.\-]+")
_SPACE: Final = re.compile("[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")


class Document(NamedTuple):
    """One searchable text: RC-21. `step` is 0 and `seq` -1 where a hit does not show them."""

    kind: Kind
    turn: int
    step: int
    seq: int
    text: str


class Hit(NamedTuple):
    """One document that matches, with its score and its snippet."""

    document: Document
    score: float
    snippet: str

    @property
    def locator(self) -> str:
        """RC-26  The call that returns the original."""
        kind, turn, _, seq, _ = self.document
        if seq >= 0:
            return entry.expand_result(seq)
        return entry.recall_turn(turn, "full" if kind == "tool_input" else "dialogue")

    @property
    def line(self) -> str:
        """RC-27  The hit as it is printed."""
        kind, turn, step, seq, _ = self.document
        place = (f" step {step}" if step else "") + (f" seq {seq}" if seq >= 0 else "")
        return f"- slice-turn-{turn}{place} [{kind}] {self.snippet} → {self.locator}"


class Query(NamedTuple):
    """A search as asked: kinds, the number of hits, and whether tool output is limited to its slots."""

    text: str
    kinds: tuple[Kind, ...]
    limit: int
    slots: bool


def query(arguments: Record) -> Query:
    """The arguments of a call (4.3). Raises `RecallError` for a blank query."""
    text = arguments.get("query")
    if not isinstance(text, str) or not text.strip():
        raise RecallError('recall_search needs {"query": "..."}')
    limit = _limit(arguments.get("limit"))
    wanted = _kinds(arguments.get("kinds"))
    if wanted:
        return Query(text, wanted, limit, slots=False)
    if arguments.get("scope") == "dialogue":
        return Query(text, DIALOGUE, limit, slots=False)
    return Query(text, KINDS, limit, slots=True)


def _limit(value: Json) -> int:
    """1 to 20; fractions are cut off, and 0 or anything that is not a number means the default (BG-38)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value == 0 or isnan(value):
        return DEFAULT_LIMIT
    return int(max(1, min(LARGEST_LIMIT, value)))


def _kinds(value: Json) -> tuple[Kind, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        return ()
    return tuple(kind for kind in KINDS if kind in value)


def terms(text: str) -> list[str]:
    """RC-23  The words of a query; single characters are dropped."""
    return [piece for piece in _BETWEEN_TERMS.split(text.lower()) if units(piece) > 1]


# -- documents -----------------------------------------------------------------------------------------------


def documents(index: LogIndex) -> Iterator[Document]:
    """RC-21, RC-22  Everything that can be found, in log order: originals of turns that are not open now."""
    names: dict[str, str] = {}
    for seq, event in enumerate(index.events):
        kind = event["type"]
        if kind == "tool/call":
            names[event["data"]["callId"]] = event["data"]["name"]
        if not origin(event):
            continue
        turn = index.owner(seq)
        found: Iterator[Document] = iter(())
        if kind == "user/message":
            found = _said(event, turn)
        elif kind == "assistant/message":
            found = _answered(event["data"], turn, names)
        elif kind == "tool/result":
            found = _returned(event["data"], turn, seq, names)
        for document in found:
            if turn >= 1 and turn != index.open_turn and document.text.strip():
                yield document


def _said(event: Record, turn: int) -> Iterator[Document]:
    kind: Kind = "user" if kind_of(event) == "human" else "context"
    yield Document(kind, turn, 0, -1, joined_text(event["data"]["content"]))


def _answered(data: Record, turn: int, names: dict[str, str]) -> Iterator[Document]:
    content = data["message"]["content"]
    yield Document("assistant", turn, data["step"], -1, joined_text(content))
    for block in content:
        if block["type"] == "tool-call":
            names[block["id"]] = block["name"]
            if block["name"] not in RECALL_TOOLS:
                arguments = block["arguments"]
                text = arguments if isinstance(arguments, str) else compact_json(arguments)
                yield Document("tool_input", turn, data["step"], -1, f"{block['name']} {text}")


def _returned(data: Record, turn: int, seq: int, names: dict[str, str]) -> Iterator[Document]:
    answered = outcome(data)
    if names.get(answered.call_id) not in RECALL_TOOLS:
        kind: Kind = "tool_error" if answered.failed else "tool_output"
        yield Document(kind, turn, data["step"], seq, result_text(answered.content))


# -- ranking -------------------------------------------------------------------------------------------------


def search(index: LogIndex, asked: Query, choices: Law = SEED) -> list[Hit]:
    """The hits of a query, best first (RC-20, RC-24)."""
    words = terms(asked.text)
    if not words:
        return []
    ranked: list[tuple[float, Document, int]] = []
    for document in documents(index):
        if document.kind in asked.kinds:
            lower = document.text.lower()
            score, first = rate(lower, len(document.text), words)
            if score > 0:
                ranked.append((score, document, first))
    ranked.sort(key=lambda item: (-item[0], -item[1].turn))
    chosen = _with_slots(ranked, asked.limit) if asked.slots else ranked[: asked.limit]
    return [Hit(document, score, snippet(document, first, choices)) for score, document, first in chosen]


def rate(lower: str, size: int, words: Sequence[str]) -> tuple[float, int]:
    """RC-24  The score of a lower-cased text of `size` code points, and where the first match begins in it."""
    counts = [lower.count(word) for word in words]
    matched = sum(count > 0 for count in counts)
    if not matched:
        return 0.0, -1
    first = min(lower.find(word) for word, count in zip(words, counts, strict=True) if count)
    return 1000 * (matched / len(words)) + min(10, sum(counts)) / log2(4 + size / 200), first


def _with_slots(ranked: list[tuple[float, Document, int]], limit: int) -> list[tuple[float, Document, int]]:
    """RC-20  Tool output is the flood of a session: it gets its slots, the rest gets the limit."""
    room = {True: TOOL_OUTPUT_SLOTS, False: limit}
    chosen = []
    for item in ranked:
        flood = item[1].kind == "tool_output"
        if room[flood]:
            room[flood] -= 1
            chosen.append(item)
    return chosen


def snippet(document: Document, first: int, choices: Law = SEED) -> str:
    """RC-25  The text around the first match, on one line. `first` is an offset in the lower-cased text."""
    text = document.text
    at = _original_offset(text, first) if choices.recall_snippets_by_code_point else units(text.lower()[:first])
    size = TOOL_SNIPPET_CHARS if document.kind in ("tool_output", "tool_error") else SNIPPET_CHARS
    start = max(0, at - size // 2)
    shown = text[start : start + size]
    cut = ("…" if start else "") + shown + ("…" if start + size < len(text) else "")
    return _SPACE.sub(" ", cut).strip(" ")


def _original_offset(text: str, offset: int) -> int:
    """The offset in `text` of an offset in its lower-cased form, which can be longer."""
    if text.isascii() or len(text.lower()) == len(text):
        return offset
    passed = 0
    for at, character in enumerate(text):
        if passed >= offset:
            return at
        passed += len(character.lower())
    return len(text)


def search_page(asked: Query, hits: Sequence[Hit]) -> str:
    """RC-27  What the tool prints."""
    if not hits:
        hint = (
            "broaden the query, or check earlier sealed turns with recall_turn"
            if "tool_output" in asked.kinds
            else 'retry with kinds: ["tool_output"] if the fact was tool-born, or broaden the query'
        )
        return f'[recall_search "{asked.text}" · 0 hits over kinds {"/".join(asked.kinds)} — {hint}]'
    head = (
        f'[recall_search "{asked.text}" · {len(hits)} hit(s) · historical record — each hit ends with the exact call '
        'that returns its original: recall_turn({"turn": "slice-turn-N"}) (view "dialogue" is the default: the cheap '
        'text-only page) for said text, recall_turn view "full" for tool inputs, '
        'expand_result({"seq": Q,"formatVersion": 4}) for tool output]'
    )
    return "\n".join([head, *(hit.line for hit in hits)])
