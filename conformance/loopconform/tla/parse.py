"""Reading TLA+ values and states as TLC prints them."""

from __future__ import annotations

import re
from typing import NoReturn

from loopconform.tla.values import Value, function


class NotAValue(ValueError):
    """The text is not a TLA+ value."""


_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>-?\d+)
    | (?P<string>"(?:[^"\\]|\\.)*")
    | (?P<sign><<|>>|\|->|:>|@@|\.\.|[{}\[\](),])
    | (?P<name>[A-Za-z_][A-Za-z0-9_!]*)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_MAX_DEPTH = 200


def value_of(text: str) -> Value:
    """The value that TLC printed as `text`. Raises `NotAValue` with the place where it stops being one."""
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                if text[at:].isspace():
                    break
                self.fail(f"what stands at {text[at : at + 30]!r} is no part of a value")
            kind = found.lastgroup
            assert kind is not None
            self.tokens.append((kind, found.group(kind)))
            at = found.end()
        self.tokens.append(("end", ""))
        self.at = 0

    def fail(self, why: str) -> NoReturn:
        raise NotAValue(f"{self.text[:200]!r} is not a TLA+ value: {why}")

    def whole(self) -> Value:
        value = self.value(0)
        if self.tokens[self.at][0] != "end":
            self.fail(f"{self.tokens[self.at][1]!r} follows a complete value")
        return value

    def take(self, sign: str) -> bool:
        if self.tokens[self.at] == ("sign", sign):
            self.at += 1
            return True
        return False

    def need(self, sign: str) -> None:
        if not self.take(sign):
            self.fail(f"{sign!r} is missing before {self.tokens[self.at][1]!r}")

    def value(self, depth: int) -> Value:
        if depth > _MAX_DEPTH:
            self.fail("it is nested too deeply")
        kind, token = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            if self.take(".."):
                last = self.value(depth + 1)
                return frozenset(range(int(token), int(last) + 1))
            return int(token)
        if kind == "string":
            return _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), token[1:-1])
        if kind == "name":
            return {"TRUE": True, "FALSE": False}.get(token, token)
        if token == "<<":
            return tuple(self.items(">>", depth))
        if token == "{":
            return frozenset(self.items("}", depth))
        if token == "[":
            return self.record(depth)
        if token == "(":
            return self.mapping(depth)
        return self.fail(f"it begins with {token!r}" if token else "it ends too early")

    def items(self, end: str, depth: int) -> list[Value]:
        found: list[Value] = []
        if self.take(end):
            return found
        while True:
            found.append(self.value(depth + 1))
            if self.take(end):
                return found
            self.need(",")

    def record(self, depth: int) -> Value:
        pairs: list[tuple[Value, Value]] = []
        while True:
            kind, name = self.tokens[self.at]
            if kind != "name":
                self.fail(f"{name!r} stands where a field name should")
            self.at += 1
            self.need("|->")
            pairs.append((name, self.value(depth + 1)))
            if self.take("]"):
                return function(pairs)
            self.need(",")

    def mapping(self, depth: int) -> Value:
        pairs: list[tuple[Value, Value]] = []
        while True:
            key = self.value(depth + 1)
            self.need(":>")
            pairs.append((key, self.value(depth + 1)))
            if self.take(")"):
                return function(pairs)
            self.need("@@")


def texts_of_state(text: str) -> dict[str, str]:
    r"""A printed state as raw texts by variable: `/\ a = 1`, one conjunct per variable (a value may span lines).

    Raises `NotAValue` for a text that is not a state.
    """
    parts = ("\n" + text.strip()).split("\n/\\ ")
    if len(parts) > 1 and not parts[0].strip():
        parts = parts[1:]
    found: dict[str, str] = {}
    for part in parts:
        name, equals, value = part.partition(" = ")
        if not equals:
            raise NotAValue(f"{part[:100]!r} does not say what a variable is")
        found[name.strip()] = value.strip()
    return found


class States:
    """Reads many printed states; the few different texts of each variable are parsed once."""

    def __init__(self) -> None:
        self.known: dict[str, Value] = {}

    def value(self, text: str) -> Value:
        """The value of a raw text."""
        try:
            return self.known[text]
        except KeyError:
            value = self.known[text] = value_of(text)
            return value

    def state(self, text: str) -> dict[str, Value]:
        """The values of a printed state, by variable."""
        return {name: self.value(part) for name, part in texts_of_state(text).items()}
