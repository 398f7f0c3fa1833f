"""Payloads of a stream to chunks of ours: a pure fold (M-544 to M-550).

One text block and one reasoning block per response, one block per tool call; indexes count blocks in the order in which
they were opened. Nothing is closed before the end, so that `ended` can say what a call was called in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from loopharness.frozen import dumps
from loopharness.model import chunks
from loopharness.model.chunks import Chunk
from loopharness.model.deepseek.failures import carried_failure
from loopharness.model.failure import LlmError, failure_facts
from loopspec.kernel.prefix import Prefix
from loopspec.profile import Law

__all__ = ["NO_CONTENT", "Block", "Translation", "WrongShape", "ended", "translate", "usage_chunk"]

NO_CONTENT: Final = "model returned a completed response with no content"

_FINISH: Final = {"stop": "stop", "tool_calls": "tool-calls", "length": "max-tokens"}


class WrongShape(Exception):
    """A payload is JSON, but not a chunk of a completion (M-542)."""


class Block(NamedTuple):
    """One block. `pieces` is its text, or the arguments of a call; the last `held` of them nobody has seen yet.

    `half` is half of a surrogate pair at the end of the last piece, kept until its other half comes. `wire` is the
    index that the server gave a call.
    """

    type: str
    pieces: Prefix[str] = Prefix()
    half: str = ""
    wire: int | None = None
    id: str = ""
    name: str = ""
    held: int = 0


class Translation(NamedTuple):
    """What a stream has said so far. The index of a block is its place."""

    blocks: tuple[Block, ...] = ()
    usage: Chunk | None = None
    finish: str | None = None


Answer = tuple[Translation, tuple[Chunk, ...]]


def translate(state: Translation, payload: Any, law: Law) -> Answer:
    """Take one payload in; answers the chunks that it makes.

    Raises `WrongShape`, and `LlmError` for an error that the payload carries, or `MALFORMED_RESPONSE` for calls that
    cannot be told apart.
    """
    if not isinstance(payload, dict):
        if law.wire_shapes_are_checked or payload is None:
            raise WrongShape(f"a payload is {_kind(payload)}, not an object")
        return state, ()
    if law.wire_errors_fail_attempt:
        _raise_carried(payload)
    usage = usage_chunk(payload.get("usage"), law)
    if usage is not None:
        state = state._replace(usage=usage)
    made: list[Chunk] = []
    for choice in _list(payload, "choices", law):
        if not isinstance(choice, dict):
            if law.wire_shapes_are_checked or choice is None:
                raise WrongShape(f"a choice is {_kind(choice)}, not an object")
            continue
        if law.wire_errors_fail_attempt:
            _raise_carried(choice)
        state = _choice(state, choice, made, law)
    return state, tuple(made)


def _choice(state: Translation, choice: Mapping[str, Any], made: list[Chunk], law: Law) -> Translation:
    """M-544  Reasoning, then text, then calls, then the reason to finish."""
    delta = choice.get("delta")
    if isinstance(delta, dict):
        for field, kind in (("reasoning_content", "reasoning"), ("content", "text")):
            text = delta.get(field)
            if isinstance(text, str) and text:
                state = _said(state, kind, text, made)
            elif text is not None and not isinstance(text, str) and law.wire_shapes_are_checked:
                raise WrongShape(f"{field} is {_kind(text)}, not text")
        for call in _list(delta, "tool_calls", law):
            if isinstance(call, dict):
                state = _called(state, call, made, law)
            elif law.wire_shapes_are_checked or call is None:
                raise WrongShape(f"a tool call is {_kind(call)}, not an object")
    elif delta is not None and law.wire_shapes_are_checked:
        raise WrongShape(f"delta is {_kind(delta)}, not an object")
    finish = choice.get("finish_reason")
    return state._replace(finish=finish) if isinstance(finish, str) and finish else state


def _raise_carried(record: Mapping[str, Any]) -> None:
    failure = carried_failure(record)
    if failure is not None:
        raise LlmError.of(failure)


# -- text and reasoning ----------------------------------------------------------------------------------------


def _said(state: Translation, kind: str, text: str, made: list[Chunk]) -> Translation:
    """M-545  One block of each kind, opened by the first text that is not empty."""
    at = next((n for n, block in enumerate(state.blocks) if block.type == kind), None)
    if at is None:
        at = len(state.blocks)
        state = state._replace(blocks=(*state.blocks, Block(kind)))
        made.append(chunks.block_start(at, kind))
    block, text = _joined(state.blocks[at], text)
    if text:
        made.append(_text_delta(kind, at, text))
    return _put(state, at, block)


def _text_delta(kind: str, at: int, text: str) -> Chunk:
    return chunks.text_delta(at, text) if kind == "text" else chunks.reasoning_delta(at, text)


def _joined(block: Block, piece: str) -> tuple[Block, str]:
    """Add a piece to a block; answers what of it can be shown. The halves of a pair are put together."""
    whole = block.half + piece
    half = whole[-1:] if "\ud800" <= whole[-1:] <= "\udbff" else ""
    shown = whole[: len(whole) - len(half)]
    if block.half:
        shown = shown.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    pieces = block.pieces.append(shown) if shown else block.pieces
    return block._replace(pieces=pieces, half=half), shown


# -- tool calls ------------------------------------------------------------------------------------------------


def _called(state: Translation, call: Mapping[str, Any], made: list[Chunk], law: Law) -> Translation:
    """M-546  One piece of a tool call."""
    function = call.get("function")
    if not isinstance(function, dict):
        if function is not None and law.wire_shapes_are_checked:
            raise WrongShape(f"function of a tool call is {_kind(function)}, not an object")
        function = {}
    id, name = _word(call.get("id"), "id", law), _word(function.get("name"), "name", law)
    piece = _arguments(function.get("arguments"), law)
    index = _index(call.get("index"), law)
    at = _which(state, index, id, name, law)
    if at is None:
        at = len(state.blocks)
        state = state._replace(blocks=(*state.blocks, Block("tool-call", wire=index)))
        made.append(chunks.block_start(at, "tool-call"))
    block = state.blocks[at]
    if law.wire_empty_is_absent:
        id, name = id or None, name or None
    if law.wire_new_id_opens_call and name and block.name and name != block.name:
        raise _malformed(f'a tool call is named "{block.name}" and then "{name}"')
    block = block._replace(id=block.id if id is None else id, name=block.name if name is None else name)
    block, shown = _joined(block, piece)
    if not block.id and law.wire_call_ids_are_minted:
        return _put(state, at, block._replace(held=block.held + bool(shown)))
    if block.held:
        shown = "".join(block.pieces)
        block = block._replace(held=0)
    made.append(chunks.tool_call_delta(at, block.id, shown, block.name or None))
    return _put(state, at, block)


def _which(state: Translation, index: int | None, id: str | None, name: str | None, law: Law) -> int | None:
    """The place of the call that a piece belongs to, `None` for a new one (G2)."""
    calls = [(at, block) for at, block in enumerate(state.blocks) if block.type == "tool-call"]
    at_index = next((at for at, block in reversed(calls) if block.wire == index), None)
    if not law.wire_new_id_opens_call:
        return at_index
    named = next((at for at, block in calls if id and block.id == id), None)
    if named is not None:
        if index is not None and state.blocks[named].wire not in (None, index):
            raise _malformed(f'two tool calls have the id "{id}"')
        if index is not None and at_index not in (None, named) and not state.blocks[at_index or 0].id:
            raise _malformed(f'two tool calls have the id "{id}"')
        return named
    if index is not None:
        taken = at_index is not None and bool(id) and bool(state.blocks[at_index].id)
        return None if taken else at_index
    if not calls:
        return None
    last, block = calls[-1]
    if id:
        return last if not block.id and not name else None
    if name:
        raise _malformed("a tool call has neither an index nor an id, and another one came before it")
    return last


def _index(index: Any, law: Law) -> int | None:
    if type(index) is int and index >= 0:
        return index
    if index is not None and law.wire_shapes_are_checked:
        raise WrongShape(f"index of a tool call is {_kind(index)}, not a number from 0")
    return None


def _word(value: Any, field: str, law: Law) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if law.wire_shapes_are_checked:
        raise WrongShape(f"{field} of a tool call is {_kind(value)}, not text")
    return None


def _arguments(value: Any, law: Law) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if law.wire_arguments_are_text:
        raise _malformed(f"arguments of a tool call are {_kind(value)}, not text")
    return "[object Object]" if isinstance(value, dict) else dumps(value)


# -- the end ---------------------------------------------------------------------------------------------------


def ended(state: Translation, law: Law, new_id: Callable[[], str]) -> tuple[Chunk, ...]:
    """The chunks that end a stream, in their order: block ends, usage, finish (M-547 to M-549).

    `new_id` gives calls without an id theirs (G1). A call that has no name and was not cut off by the token limit fails
    the attempt: no later request could carry it.
    """
    reason = state.finish or "stop"
    cut = reason == "length"
    made: list[Chunk] = []
    nameless = False
    for at, block in enumerate(state.blocks):
        if block.type != "tool-call":
            made += _text_end(at, block)
        elif law.wire_call_ids_are_minted and not block.name:
            nameless = True
        elif block.id or not (cut and law.wire_call_ids_are_minted):
            made += _call_end(at, block, law, new_id)
    if state.usage is not None:
        made.append(state.usage)
    if nameless and not cut:
        return (*made, _failed("malformed response: a tool call has no name", "MALFORMED_RESPONSE"))
    if reason == "stop" and not state.blocks:
        return (*made, _failed(NO_CONTENT, "EMPTY_RESPONSE"))
    if reason in _FINISH:
        return (*made, chunks.finish(_FINISH[reason]))
    return (*made, _failed(f"model stopped: {reason}", reason.upper()))


def _text_end(at: int, block: Block) -> list[Chunk]:
    rest = [_text_delta(block.type, at, block.half)] if block.half else []
    return [*rest, chunks.block_end(at, {"type": block.type, "text": "".join(block.pieces) + block.half})]


def _call_end(at: int, block: Block, law: Law, new_id: Callable[[], str]) -> list[Chunk]:
    arguments = "".join(block.pieces) + block.half
    id, unseen = block.id, block.half
    if not id and law.wire_call_ids_are_minted:
        id, unseen = new_id(), arguments
    rest = [chunks.tool_call_delta(at, id, unseen, block.name or None)] if unseen or id != block.id else []
    return [*rest, chunks.block_end(at, {"type": "tool-call", "id": id, "name": block.name, "arguments": arguments})]


def _failed(message: str, code: str) -> Chunk:
    return chunks.finish("error", failure=failure_facts(message, code))


# -- usage -----------------------------------------------------------------------------------------------------


def usage_chunk(usage: Any, law: Law) -> Chunk | None:
    """M-550  The counts, disjoint: what was read from the cache is no input. `None` when there are none to count."""
    if not isinstance(usage, dict):
        return None
    prompt, output = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if prompt is None or output is None:
        return None
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    if cached is None:
        cached = _count(usage, "prompt_cache_hit_tokens")
    reasoning = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    fresh = prompt - (cached or 0)
    counts = {"inputTokens": fresh, "outputTokens": output, "cacheReadTokens": cached, "reasoningTokens": reasoning}
    known = {name: count for name, count in counts.items() if count is not None}
    if law.wire_numbers_are_bounded:
        known = {name: max(0, count) for name, count in known.items()}
    return chunks.usage(known.pop("inputTokens"), known.pop("outputTokens"), **known)


def _count(record: Any, field: str) -> int | None:
    value = record.get(field) if isinstance(record, dict) else None
    return value if type(value) is int and abs(value) < 2**53 else None


# -- small things ----------------------------------------------------------------------------------------------


def _put(state: Translation, at: int, block: Block) -> Translation:
    return state._replace(blocks=(*state.blocks[:at], block, *state.blocks[at + 1 :]))


def _list(record: Mapping[str, Any], field: str, law: Law) -> list[Any]:
    value = record.get(field)
    if isinstance(value, list):
        return value
    if value is not None and law.wire_shapes_are_checked:
        raise WrongShape(f"{field} is {_kind(value)}, not a list")
    return []


def _malformed(text: str) -> LlmError:
    return LlmError(f"malformed response: {text}", "MALFORMED_RESPONSE")


_KIND_WORDS: Final = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}


def _kind(value: Any) -> str:
    return _KIND_WORDS.get(type(value), "a number")
