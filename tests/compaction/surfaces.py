"""Every small surface: all legal orders of a few kinds of messages, with a statement of balance of our own.

A surface is written as a word: `s` system, `u` user, `t` assistant with text, `c` and `d` assistant with one or two
calls, `r` the result of the oldest call that waits, `e` an assistant message without content.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from loopspec.log.types import Dialect
from loopspec.surface import Surface, accept, empty

LETTERS = "utcdre"


def words(length: int, start: str = "") -> Iterator[str]:
    """All words of up to so many letters in which every result follows its call."""
    yield start
    if length:
        for letter in LETTERS:
            if letter != "r" or waiting(start):
                yield from words(length - 1, start + letter)


def waiting(word: str) -> int:
    """How many calls wait at the end of a word."""
    return word.count("c") + 2 * word.count("d") - word.count("r")


@cache
def surface(word: str, dialect: Dialect = "v4", text: str = "word", same_ids: bool = False) -> Surface:
    """The surface of a word. With `same_ids` every call has the same id (RACE-23)."""
    if not word:
        return empty(dialect)
    before, letter, seq = word[:-1], word[-1], len(word) - 1
    made = surface(before, dialect, text, same_ids)
    calls = before.count("c") + 2 * before.count("d")
    content: list[Any] = [{"type": "text", "text": text}]
    type, source = "user/message", {"kind": "user"}
    if letter in "tcde":
        type = "assistant/message"
        for number in range("cd".find(letter) + 1):
            id = "k" if same_ids else f"k{calls + number}"
            content.append({"type": "tool-call", "id": id, "name": "n", "arguments": "{}"})
        content = [] if letter == "e" else content
    if letter == "r":
        type, source = "tool/result", {"kind": "tool", "callId": "k" if same_ids else f"k{before.count('r')}"}
    message: dict[str, Any] = {"id": f"m{seq}", "role": "user", "content": content, "source": source}
    if letter == "r" and dialect == "v0":
        result = {"type": "tool-result", "toolCallId": source["callId"], "content": content, "isError": False}
        message["content"] = [result]
    if letter == "s":
        type = "system/message"
    data = message if letter == "u" else {"turn": 1, "step": 1, "message": message}
    return accept(made, {"type": type, "seq": seq, "data": data, "surfaceOp": "append"}, seq)


def balanced(word: str, length: int) -> bool:
    """Whether a cut behind so many letters separates no call from its result: results come in the order of calls."""
    return waiting(word[:length]) == 0
