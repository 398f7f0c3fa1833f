"""YAML text to plain data that remembers its lines.

Only the plain part of YAML: mappings, sequences and scalars. Anchors, aliases, tags and second documents are refused,
so that no text can grow while it is read, and depth and size are bounded. Plain scalars mean what JSON means by them
(`yes` is a word, `010` is the number ten); everything else is a string.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

SIZE_LIMIT: Final = 1024 * 1024
"""Longest script, in bytes."""
DEPTH_LIMIT: Final = 64
"""Deepest nesting of a script."""

PathKey = tuple[str | int, ...]

_INTEGER = re.compile(r"[-+]?[0-9]{1,18}\Z")
_FRACTION = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)([eE][-+]?[0-9]{1,3})?\Z")
_WORDS: Final[Mapping[str, Any]] = {"": None, "~": None, "null": None, "true": True, "false": False}


class ScriptError(ValueError):
    """A script that cannot be used. `line` counts from 1, 0 when there is none; `advice` says what to do."""

    def __init__(self, reason: str, line: int = 0, advice: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line
        self.advice = advice


class Read(NamedTuple):
    """The data of a YAML text, and the line of every value by its path from the root."""

    data: Any
    lines: dict[PathKey, int]


def read_file(path: Path) -> Read:
    """Read a script file. Raises `ScriptError`."""
    try:
        if path.exists() and not path.is_file():
            raise ScriptError("it is no regular file", advice="Give the path of a YAML file.")
        with path.open("rb") as stream:
            raw = stream.read(SIZE_LIMIT + 1)
    except ScriptError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScriptError(f"it cannot be read: {reason}", advice="Give the path of a YAML file.") from error
    if len(raw) > SIZE_LIMIT:
        advice = "A script describes one conversation; generate long texts with tools of your own."
        raise ScriptError(f"it is larger than {SIZE_LIMIT // 1024} KiB", advice=advice)
    try:
        return read_text(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        reason = f"byte 0x{raw[error.start]:02x} is not UTF-8 text"
        raise ScriptError(reason, line, "A script is YAML text in UTF-8.") from error


def read_text(text: str) -> Read:
    """Parse YAML text. Raises `ScriptError`."""
    lines: dict[PathKey, int] = {}
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        events = iter(yaml.parse(text, Loader=loader))
        data = _document(events, lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(str(error.problem or error.context or "it cannot be parsed").split())
        line = 0 if mark is None else mark.line + 1
        raise ScriptError(f"not YAML: {problem}", line, "Look for a missing quote, colon or indent.") from error
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())[:200]
        raise ScriptError(f"not YAML: {reason}", advice="A script is plain YAML text.") from error
    return Read(data, lines)


def _document(events: Iterator[yaml.Event], lines: dict[PathKey, int]) -> Any:
    documents = 0
    data: Any = None
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise ScriptError("a second document begins here", _line(event), "One file holds one script.")
        elif isinstance(event, yaml.NodeEvent):
            data = _node(event, events, (), lines)
    if not documents:
        raise ScriptError("it is empty", advice="Start with examples/hello.yaml.")
    return data


def _node(event: yaml.Event, events: Iterator[yaml.Event], path: PathKey, lines: dict[PathKey, int]) -> Any:
    line = _line(event)
    lines.setdefault(path, line)
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise ScriptError("anchors and aliases (& and *) are not used in scripts", line, "Write the value out.")
    tag = getattr(event, "tag", None)
    if tag not in (None, "!", "tag:yaml.org,2002:str"):
        raise ScriptError(f"the tag {tag} is not used in scripts", line, "Leave the tag out.")
    if len(path) > DEPTH_LIMIT:
        raise ScriptError(f"its nesting is deeper than {DEPTH_LIMIT} levels", line)
    if isinstance(event, yaml.ScalarEvent):
        return event.value if tag or not event.implicit[0] else _plain(event.value, line)
    if isinstance(event, yaml.SequenceStartEvent):
        return list(_items(events, path, lines))
    return _mapping(events, path, lines)


def _items(events: Iterator[yaml.Event], path: PathKey, lines: dict[PathKey, int]) -> Iterator[Any]:
    for at, event in enumerate(events):
        if isinstance(event, yaml.SequenceEndEvent):
            return
        yield _node(event, events, (*path, at), lines)


def _mapping(events: Iterator[yaml.Event], path: PathKey, lines: dict[PathKey, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            break
        line = _line(event)
        if not isinstance(event, yaml.ScalarEvent):
            raise ScriptError("a key must be a word", line, "A text with a colon or brackets needs quotes.")
        key = event.value
        if key in found:
            raise ScriptError(f"the key {key!r} occurs twice", line, "Keep one of them.")
        lines[(*path, key)] = line
        found[key] = _node(next(events), events, (*path, key), lines)
    return found


def _plain(text: str, line: int) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    if _FRACTION.match(text):
        number = float(text)
        if not math.isfinite(number):
            raise ScriptError(f"the number {text[:40]} is too large", line, "Put it in quotes if it is a text.")
        return number
    return text


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return 0 if mark is None else int(mark.line) + 1
