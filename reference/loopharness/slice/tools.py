"""The four recall tools: they look into the log of the agent that calls them, and change nothing (4.)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from loopharness.slice.patterns import matcher
from loopharness.slice.spill import SpillStore
from loopharness.slice.state import SessionTape
from loopharness.tools.execution import Execution
from loopharness.tools.registry import Tool
from loopspec.tape import pages, recall, spill
from loopspec.tape.search import KINDS, query, search, search_page
from loopspec.tape.text import outcome, text_parts, whole
from loopspec.values import Record

__all__ = ["recall_tools"]

TapeOf = Callable[[Execution], SessionTape | None]
Answer = Callable[[SessionTape, Record], Awaitable[str]]


def recall_tools(tape_of: TapeOf, store: SpillStore | None) -> list[Tool]:
    """The tools, in the order in which a model sees them. `tape_of` is the tape of a calling agent's session."""
    library = _Library(store)
    return [
        _tool("expand_result", _EXPAND, _EXPAND_PARAMETERS, library.expand_result, tape_of),
        _tool("recall_search", _SEARCH, _SEARCH_PARAMETERS, _recall_search, tape_of),
        _tool("recall_step", _STEP, _STEP_PARAMETERS, library.recall_step, tape_of),
        _tool("recall_turn", _TURN, _TURN_PARAMETERS, _recall_turn, tape_of),
    ]


def _tool(name: str, description: str, parameters: Mapping[str, Any], answer: Answer, tape_of: TapeOf) -> Tool:
    """A tool that judges its arguments itself: its refusals tell the model how to ask."""

    async def body(arguments: Any, execution: Execution) -> str:
        tape = tape_of(execution)
        if tape is None:
            raise recall.homeless(name)
        return await answer(tape, arguments if isinstance(arguments, Mapping) else {})

    return Tool(name, description, parameters, body, is_concurrency_safe=lambda _: True)


async def _recall_turn(tape: SessionTape, arguments: Record) -> str:
    turn = recall.turn_number(arguments.get("turn"))
    view: pages.View = "full" if arguments.get("view") == "full" else "dialogue"
    return pages.turn_page(tape.index, turn, view, tape.law)


async def _recall_search(tape: SessionTape, arguments: Record) -> str:
    asked = query(arguments)
    return search_page(asked, search(tape.index, asked, tape.law))


class _Library:
    """The tools that may have to read stored texts."""

    def __init__(self, store: SpillStore | None) -> None:
        self._store = store

    async def expand_result(self, tape: SessionTape, arguments: Record) -> str:
        """RC-31 to RC-37"""
        found = recall.find_result(tape.index, arguments)
        pattern = arguments.get("grep")
        matches = matcher(pattern) if isinstance(pattern, str) and pattern.strip() else None
        parts = _parts(tape, found.seq)
        text = spill.full_text(found.head, parts, await self._stored(parts))
        if matches is not None:
            assert isinstance(pattern, str)
            return pages.grep_page(found, text, pattern, matches)
        wanted = pages.line_range(arguments.get("lines"))
        if wanted is not None:
            return pages.lines_page(found, text, wanted, arguments["lines"].strip())
        return pages.full_page(found, text)

    async def recall_step(self, tape: SessionTape, arguments: Record) -> str:
        """RC-28 to RC-30"""
        turn, step = recall.step_address(arguments)
        found = {seq: _parts(tape, seq) for seq in tape.index.results_in(turn, step)}
        stored = await self._stored([part for parts in found.values() for part in parts])
        return pages.step_page(tape.index, (turn, step), found.__getitem__, stored)

    async def _stored(self, parts: Sequence[spill.Part]) -> dict[str, str | Exception]:
        texts: dict[str, str | Exception] = {}
        for locator in spill.locators(parts):
            if self._store is None or locator in texts:
                continue
            try:
                texts[locator] = await self._store.read(locator)
            except (OSError, UnicodeDecodeError) as error:
                texts[locator] = error
        return texts


def _parts(tape: SessionTape, seq: int) -> list[spill.Part]:
    texts = [whole(text) for text in text_parts(outcome(tape.session.events[seq]["data"]).content)]
    return spill.parts(texts, lambda locator: tape.owns(seq, locator))


# What the model is told.

_TURN: Final = (
    "Show a turn of this session as it was recorded: what was said, and where each tool result is. Use it before "
    "you deny that something was said or done: what is not visible any more is not therefore untrue."
)
_TURN_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "turn": {"type": "string", "description": 'The turn: "7" or "slice-turn-7".'},
        "view": {
            "type": "string",
            "enum": ["dialogue", "full"],
            "description": "dialogue (default): each text once. full: every original record too, far longer; only for "
            "tool inputs or recorded reasoning.",
        },
    },
    "required": ["turn"],
}
_STEP: Final = "Show the tool calls and results of one step of a turn, as they were recorded."
_STEP_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "turn": {"type": "string", "description": "The turn."},
        "step": {"type": "string", "description": "The step within the turn."},
    },
    "required": ["turn", "step"],
}
_SEARCH: Final = (
    "Search what was said, called and returned earlier in this session. Every hit ends with the call that returns "
    "its original. No hit means unknown, not that it did not happen."
)
_SEARCH_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "Words to look for; single characters are ignored."},
        "scope": {
            "type": "string",
            "enum": ["dialogue", "auto"],
            "description": "auto (default) also finds a few tool outputs; dialogue leaves tool output out.",
        },
        "kinds": {
            "type": "array",
            "items": {"type": "string", "enum": list(KINDS)},
            "description": "Search exactly these kinds.",
        },
        "limit": {"type": "number", "description": "How many hits, 1 to 20; 5 by default."},
    },
    "required": ["query"],
}
_EXPAND: Final = (
    "Return a tool result whole, or the part of it that you ask for. Address it by a fresh locator "
    '{"seq": N, "formatVersion": 4}, or by {"turn": N, "step": M, "call": K}.'
)
_EXPAND_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "seq": {"type": "number", "description": "The number in a locator. Needs formatVersion."},
        "formatVersion": {"type": "number", "description": "The version in the same locator: 4."},
        "turn": {"type": "number", "description": "The turn, without seq."},
        "step": {"type": "number", "description": "The step, without seq."},
        "call": {"type": "number", "description": "Which result of the step, from 1; 1 by default."},
        "block": {"type": "number", "description": "Only 1 exists."},
        "grep": {"type": "string", "description": "Only lines that match this pattern, with two lines around each."},
        "lines": {"type": "string", "description": 'Only these lines: "5-20".'},
    },
}
