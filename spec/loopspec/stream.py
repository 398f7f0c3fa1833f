"""A model stream: the fold that assembles blocks, and a second fold that judges the grammar.

The assembler (`absorb`) is total: it makes the best of every sequence of chunks, legal or not, because what
a provider sent must be settled somehow. The grammar (`judge`) is strict and only talks: it never changes
what is assembled. Chunks, blocks and replay states are plain JSON objects.

Rules: S-CHK-1 to S-CHK-4, L-STR-3 to L-STR-9.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from loopspec.kernel.prefix import Prefix
from loopspec.values import Json, Record

BLANK = (
    "\t\n\x0b\x0c\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""The characters that count as blank. The set is the one of the writers' platform, not Python's."""

STOP: Record = {"kind": "stop"}
"""The finish reason of a stream that never named one (L-STR-3)."""

_TEXT_BLOCKS = ("text", "reasoning")
_DELTA_BLOCK = {"text-delta": "text", "reasoning-delta": "reasoning", "tool-call-delta": "tool-call"}


class AssemblyError(ValueError):
    """A block cannot be assembled from what arrived (L-STR-8)."""


class Partial(NamedTuple):
    """One block on its way. `closed` is the authoritative block of `block-end`, once there is one."""

    at: int
    block_type: str
    text: Prefix[str] = Prefix()
    arguments: Prefix[str] = Prefix()
    call_id: str = ""
    name: str = ""
    closed: Record | None = None


class Assembly(NamedTuple):
    """What a stream has given so far: partial blocks in first-seen order, usage, finish, replay state."""

    partials: tuple[Partial, ...] = ()
    usage: Record | None = None
    finish: Record | None = None
    replay_state: Record | None = None


class Settlement(NamedTuple):
    """What becomes of a stream: content blocks, usage, finish reason and the replay state that fits them."""

    content: tuple[Record, ...]
    usage: Record | None
    finish: Record
    replay_state: Record | None


EMPTY = Assembly()


# -- the assembler -------------------------------------------------------------------------------------------


def absorb(assembly: Assembly, chunk: Record) -> Assembly:
    """Take one chunk in. Never fails: unknown chunk types change nothing (S-CHK-2)."""
    kind = chunk["type"]
    if kind in _DELTA_BLOCK:
        return _absorb_delta(assembly, chunk, _DELTA_BLOCK[kind])
    if kind == "block-start":
        return _absorb_start(assembly, chunk)
    if kind == "block-end":
        return _absorb_end(assembly, chunk)
    partials, usage, finish, replay_state = assembly
    if kind == "usage":
        return Assembly(partials, chunk["usage"], finish, replay_state)  # the last one wins
    if kind == "finish":
        # the last finish wins, and it wins whole: its replay state belongs to it
        return Assembly(partials, usage, chunk["reason"], chunk.get("replayState"))
    return assembly


def assemble(chunks: Iterable[Record]) -> Assembly:
    """Fold a whole stream."""
    assembly = EMPTY
    for chunk in chunks:
        assembly = absorb(assembly, chunk)
    return assembly


def _absorb_start(assembly: Assembly, chunk: Record) -> Assembly:
    if _place(assembly, chunk["index"]) is not None:
        return assembly  # a second start of a known index is ignored
    partials, usage, finish, replay_state = assembly
    opened = Partial(chunk["index"], chunk["blockType"])
    return Assembly((*partials, opened), usage, finish, replay_state)


def _absorb_delta(assembly: Assembly, chunk: Record, block_type: str) -> Assembly:
    partials, usage, finish, replay_state = assembly
    place = _place(assembly, chunk["index"])
    if place is None:  # a delta opens its block: protocols without block-start are accepted
        opened = _grown(Partial(chunk["index"], block_type), chunk)
        return Assembly((*partials, opened), usage, finish, replay_state)
    partial = partials[place]
    if partial.closed is not None:
        return assembly  # stragglers after the close are ignored
    grown = _grown(partial, chunk)
    return Assembly((*partials[:place], grown, *partials[place + 1 :]), usage, finish, replay_state)


def _absorb_end(assembly: Assembly, chunk: Record) -> Assembly:
    partials, usage, finish, replay_state = assembly
    place = _place(assembly, chunk["index"])
    block: Record = chunk["block"]
    if place is None:
        closed = Partial(chunk["index"], block["type"], closed=block)
        return Assembly((*partials, closed), usage, finish, replay_state)
    at, block_type, text, arguments, call_id, name, already = partials[place]
    if already is not None:
        return assembly  # the first close wins
    closed = Partial(at, block_type, text, arguments, call_id, name, block)
    return Assembly((*partials[:place], closed, *partials[place + 1 :]), usage, finish, replay_state)


def _grown(partial: Partial, chunk: Record) -> Partial:
    at, block_type, text, arguments, call_id, name, closed = partial
    if chunk["type"] != "tool-call-delta":
        return Partial(at, block_type, text.append(chunk["text"]), arguments, call_id, name, closed)
    fragments = arguments.append(chunk["argumentsDelta"])
    # the last id wins, also an empty one; an empty name erases nothing
    return Partial(at, block_type, text, fragments, chunk["id"], chunk.get("name") or name, closed)


def _place(assembly: Assembly, index: int) -> int | None:
    partials = assembly.partials
    for place in range(len(partials) - 1, -1, -1):
        if partials[place].at == index:
            return place
    return None


# -- settling ------------------------------------------------------------------------------------------------


def finish_reason(assembly: Assembly) -> Record:
    """The last finish reason, or `stop` when the stream named none (L-STR-3)."""
    return STOP if assembly.finish is None else assembly.finish


def failure(assembly: Assembly) -> Record | None:
    """The provider's failure facts when the stream finished `error` or `aborted`, else `None` (L-STR-11)."""
    reason = finish_reason(assembly)
    if reason["kind"] in ("error", "aborted"):
        facts: Record = reason["failure"]
        return facts
    return None


MALFORMED = "MALFORMED_RESPONSE"
"""The code of an answer that a provider should not have given."""


def call_ids_failure(content: Iterable[Record]) -> Record | None:
    """The failure facts of an answer whose calls cannot be told apart, else `None` (RACE-23, S-LNT-67).

    Results are paired with calls by id, so that each call of an answer needs one of its own.
    """
    ids = [call["id"] for call in tool_calls(content)]
    for at, id in enumerate(ids):
        if not isinstance(id, str) or not id:
            return {"message": f"tool call {at + 1} of the answer has no id", "code": MALFORMED}
        if id in ids[:at]:
            return {"message": f"two tool calls of the answer have the id {id!r}", "code": MALFORMED}
    return None


def settle(assembly: Assembly) -> Settlement:
    """The content of the `assistant/message` of a stream that ended well (L-STR-4, L-STR-6, S-CHK-4).

    `max-tokens` drops every tool call, closed or not. Raises `AssemblyError` for an open block of a type that
    no delta can build (L-STR-8). Do not call it for a failed stream: that one has no message.
    """
    blocks = tuple(_block(partial) for partial in assembly.partials)
    reason = finish_reason(assembly)
    keep = tuple(not (reason["kind"] == "max-tokens" and block["type"] == "tool-call") for block in blocks)
    return Settlement(_kept(blocks, keep), assembly.usage, reason, _pruned(assembly.replay_state, keep))


def settle_interrupted(assembly: Assembly) -> Settlement:
    """The content that survives a cancel: text and reasoning that is not blank (S-CHK-3, L-STR-9).

    Empty `content` means that no message is written at all. Format 0 writers leave `replay_state` out.
    """
    keep = tuple(_type(partial) in _TEXT_BLOCKS and bool(_text(partial).strip(BLANK)) for partial in assembly.partials)
    blocks = tuple(_block(partial) for partial, kept in zip(assembly.partials, keep, strict=True) if kept)
    return Settlement(blocks, assembly.usage, finish_reason(assembly), _pruned(assembly.replay_state, keep))


def tool_calls(content: Iterable[Record]) -> tuple[Record, ...]:
    """The tool-call blocks, which alone decide whether tools run (L-STR-7)."""
    return tuple(block for block in content if block["type"] == "tool-call")


def _block(partial: Partial) -> Record:
    if partial.closed is not None:
        return partial.closed
    if partial.block_type in _TEXT_BLOCKS:
        return {"type": partial.block_type, "text": "".join(partial.text)}
    if partial.block_type == "tool-call":
        return {
            "type": "tool-call",
            "id": partial.call_id or f"call-{partial.at}",
            "name": partial.name,
            "arguments": "".join(partial.arguments),
        }
    raise AssemblyError(f'cannot assemble incomplete block of type "{partial.block_type}"')


def _type(partial: Partial) -> Json:
    return partial.block_type if partial.closed is None else partial.closed["type"]


def _text(partial: Partial) -> str:
    if partial.closed is None:
        return "".join(partial.text)
    text = partial.closed.get("text", "")
    return text if isinstance(text, str) else ""


def _kept(blocks: tuple[Record, ...], keep: tuple[bool, ...]) -> tuple[Record, ...]:
    if all(keep):
        return blocks
    return tuple(block for block, kept in zip(blocks, keep, strict=True) if kept)


def _pruned(replay_state: Record | None, keep: tuple[bool, ...]) -> Record | None:
    """Keep the provider's per-block notes aligned with the blocks; notes that cannot align are worthless."""
    if replay_state is None or "blocks" not in replay_state:
        return replay_state
    notes: list[Json] = list(replay_state["blocks"])
    if len(notes) != len(keep):
        return None
    if all(keep):
        return replay_state
    return {**replay_state, "blocks": [note for note, kept in zip(notes, keep, strict=True) if kept]}


# -- the grammar ---------------------------------------------------------------------------------------------


class Grammar(NamedTuple):
    """Where the grammar of S-CHK-1 stands: open blocks as (index, type), what has been seen."""

    open: tuple[tuple[int, str], ...] = ()
    usage_seen: bool = False
    finish: str | None = None


class Violation(NamedTuple):
    """One breach of the stream grammar: a short name and a sentence."""

    name: str
    text: str


GRAMMAR_START = Grammar()


def judge(grammar: Grammar, chunk: Record) -> tuple[Grammar, tuple[Violation, ...]]:
    """Follow the grammar over one chunk (S-CHK-1); the returned state goes on as the chunk meant it."""
    kind = chunk["type"]
    found: tuple[Violation, ...] = ()
    if grammar.finish is not None:
        found = (Violation("after-finish", f"a {kind} chunk follows the finish chunk"),)
    if kind in _DELTA_BLOCK:
        return grammar, found + _judge_delta(grammar, chunk, _DELTA_BLOCK[kind])
    if kind == "block-start":
        index, block_type = chunk["index"], chunk["blockType"]
        if _open_type(grammar, index) is not None:
            return grammar, (*found, Violation("start-of-open", f"block {index} is started while it is open"))
        return Grammar((*grammar.open, (index, block_type)), grammar.usage_seen, grammar.finish), found
    if kind == "block-end":
        return _judge_end(grammar, chunk, found)
    if kind == "usage":
        if grammar.usage_seen:
            return grammar, (*found, Violation("second-usage", "the stream reports usage a second time"))
        return Grammar(grammar.open, True, grammar.finish), found
    if kind == "finish":
        reason = chunk["reason"]["kind"]
        if grammar.open and reason not in ("error", "aborted", "max-tokens"):
            indexes = ", ".join(str(index) for index, _ in grammar.open)
            text = f"the stream finishes with {reason} while block {indexes} is open"
            found = (*found, Violation("open-at-finish", text))
        return Grammar(grammar.open, grammar.usage_seen, reason), found
    return grammar, (*found, Violation("unknown-chunk", f'there is no chunk type "{kind}"'))


def judge_end(grammar: Grammar, *, cut: bool) -> tuple[Violation, ...]:
    """What is wrong when no chunk follows. `cut`: the attempt was cancelled or its process died."""
    if grammar.finish is None and not cut:
        return (Violation("no-finish", "the stream ends without a finish chunk"),)
    return ()


def judge_stream(chunks: Iterable[Record], *, cut: bool = False) -> tuple[tuple[int, Violation], ...]:
    """All breaches in a stream as (position of the chunk, violation); the end counts as one more position."""
    grammar = GRAMMAR_START
    found: list[tuple[int, Violation]] = []
    position = 0
    for chunk in chunks:
        grammar, breaches = judge(grammar, chunk)
        found += [(position, breach) for breach in breaches]
        position += 1
    found += [(position, breach) for breach in judge_end(grammar, cut=cut)]
    return tuple(found)


def _open_type(grammar: Grammar, index: int) -> str | None:
    for at, block_type in grammar.open:
        if at == index:
            return block_type
    return None


def _judge_delta(grammar: Grammar, chunk: Record, block_type: str) -> tuple[Violation, ...]:
    opened = _open_type(grammar, chunk["index"])
    if opened is None:
        return (Violation("delta-unopened", f"a {chunk['type']} names block {chunk['index']}, which is not open"),)
    if opened != block_type:
        text = f"a {chunk['type']} names block {chunk['index']}, which is a {opened} block"
        return (Violation("delta-of-other-type", text),)
    return ()


def _judge_end(grammar: Grammar, chunk: Record, found: tuple[Violation, ...]) -> tuple[Grammar, tuple[Violation, ...]]:
    index, block_type = chunk["index"], chunk["block"]["type"]
    opened = _open_type(grammar, index)
    if opened is None:
        return grammar, (*found, Violation("end-unopened", f"block {index} ends although it is not open"))
    if opened != block_type:
        text = f"block {index} was opened as {opened} and ends as {block_type}"
        found = (*found, Violation("end-of-other-type", text))
    remaining = tuple([item for item in grammar.open if item[0] != index])
    return Grammar(remaining, grammar.usage_seen, grammar.finish), found
