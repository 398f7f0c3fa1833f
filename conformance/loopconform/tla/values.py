"""TLA+ values in Python, and one canonical text for each.

| TLA+ | Python here |
|---|---|
| `TRUE`, `FALSE` | `bool` |
| numbers | `int` |
| strings, model values | `str` |
| sequences and tuples | `tuple` |
| sets | `frozenset` |
| records and other functions | `Function`, pairs sorted by the text of the key |

`from_python` brings a value of a spec machine into this form; it is the only place that decides how `None` or a
fraction is written. Values are compared by `text`, never by `==`, because to Python `True` is `1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

Value = Any
"""A value in the form of the table above."""

NULL = "null"
"""How `None` is written."""


class Function(tuple[tuple[Value, Value], ...]):
    """A record or another function, as its pairs in the order of the texts of the keys."""

    __slots__ = ()

    def at(self, key: Value) -> Value:
        """The value at a key. Raises `KeyError` when the key is not in the domain."""
        for name, value in self:
            if name == key and type(name) is type(key):
                return value
        raise KeyError(key)


def function(pairs: Iterable[tuple[Value, Value]]) -> Value:
    """A function from its pairs. One whose domain is `1..n` is a sequence, as it is for TLC."""
    known = dict(sorted(((text(key), (key, value)) for key, value in pairs), key=lambda one: one[0]))
    numbers = {key: value for key, value in known.values() if type(key) is int}
    if len(numbers) == len(known) and sorted(numbers) == list(range(1, len(known) + 1)):
        return tuple(numbers[at] for at in range(1, len(known) + 1))
    return Function(known.values())


def record(**fields: Value) -> Function:
    """A record with these fields."""
    return Function(sorted(fields.items()))


def text(value: Value) -> str:
    """The canonical TLA+ text of a value. Raises `TypeError` for anything that is not one."""
    if value is True:
        return "TRUE"
    if value is False:
        return "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if isinstance(value, Function):
        if all(isinstance(key, str) and _NAME.fullmatch(key) for key, _ in value):
            return "[" + ", ".join(f"{key} |-> {text(part)}" for key, part in value) + "]"
        return "(" + " @@ ".join(f"{text(key)} :> {text(part)}" for key, part in value) + ")"
    if isinstance(value, tuple):
        return "<<" + ", ".join(map(text, value)) + ">>" if value else "<<>>"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(text, value))) + "}"
    raise TypeError(f"{value!r} is not a TLA+ value")


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def camel(name: str) -> str:
    """A name of the spec as a TLA+ name: `next_step`, `cancel user` and `next-step` become `nextStep`, `cancelUser`."""
    first, *rest = re.split(r"[ _-]+", name)
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def from_python(value: object) -> Value:
    """A value of a spec machine as a TLA+ value.

    `None` is `"null"`. Every float is a string, also a whole one (`"0"`, `"-1"`, `"1.5"`, `"NaN"`, `"-Infinity"`):
    TLC has no fractions, and does not suffer a set of numbers and strings. A NamedTuple is a record whose field names
    are in camelCase; a `law` field is left out.
    """
    if value is None:
        return NULL
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, tuple):
        names = getattr(type(value), "_fields", None)
        if names is not None:
            pairs = zip(names, value, strict=True)
            return record(**{camel(name): from_python(part) for name, part in pairs if name != "law"})
        return tuple(from_python(part) for part in value)
    if isinstance(value, frozenset):
        return frozenset(from_python(part) for part in value)
    if isinstance(value, Mapping):
        return function((from_python(key), from_python(part)) for key, part in value.items())
    raise TypeError(f"a {type(value).__name__} cannot be compared with a TLA+ value: {value!r}")


def number_text(number: float) -> str:
    """A float the way JavaScript prints it: `0`, `-1`, `1.5`, `NaN`, `-Infinity`."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    return str(int(number)) if number == int(number) else repr(number)


def label_of(label: object) -> tuple[Value, ...]:
    """A label of a system as a TLA+ sequence; a label that is a plain text has one member."""
    found = from_python(label)
    return found if isinstance(found, tuple) else (found,)
