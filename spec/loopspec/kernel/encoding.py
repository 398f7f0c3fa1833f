"""One canonical text for every state and label, the same in every process.

`hash()` changes with the process and `repr()` of a set with its history, so neither can pin a graph. The
text made here depends on the value alone, tells `True` from `1` and `""` from `0`, and can be read by
people:

    value               text
    None, True, False   none, true, false
    7, -1               7, -1
    "idle"              "idle"            (a JSON string, non-ASCII escaped)
    b"\\x00\\xff"         x"00ff"
    1.5                 1.5f
    (1, "a"), (1,), ()  (1,"a"), (1,), ()
    Point(x=1, y=2)     Point(x=1,y=2)    (NamedTuple or frozen dataclass)
    Phase.IDLE          Phase.IDLE        (a member of an Enum)
    frozenset({2, 1})   {1,2}             (the texts of the members, sorted)

Values are told apart exactly when their types or contents differ, save that two classes of the same name
look alike.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum


def text_of(value: object) -> str:
    """Return the canonical text of a state, a label or any value inside one.

    Raises TypeError for a value of another type than those in the table of this module, and says which.
    """
    simple = _SIMPLE.get(type(value))
    if simple is not None:
        return simple(value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    names = getattr(type(value), "_fields", None)
    if isinstance(value, tuple) and names is not None:
        return _record(type(value), [(name, field) for name, field in zip(names, value, strict=True)])
    if is_dataclass(value) and not isinstance(value, type):
        return _record(type(value), [(field.name, getattr(value, field.name)) for field in fields(value)])
    raise TypeError(
        f"A {type(value).__name__} cannot be part of a state or a label: {value!r}. "
        "Use None, bool, int, float, str, bytes, tuple, NamedTuple, frozen dataclass, Enum or frozenset."
    )


def _record(kind: type, named: list[tuple[str, object]]) -> str:
    return f"{kind.__name__}({','.join([f'{name}={text_of(value)}' for name, value in named])})"


def _tuple(value: tuple[object, ...]) -> str:
    inner = ",".join([text_of(item) for item in value])
    return f"({inner},)" if len(value) == 1 else f"({inner})"


def _frozenset(value: frozenset[object]) -> str:
    return "{" + ",".join(sorted([text_of(item) for item in value])) + "}"


# Exact types only: a subclass (an Enum that is an int, say) is a different value and gets a different text.
_SIMPLE: dict[type, Callable[..., str]] = {
    type(None): lambda value: "none",
    bool: lambda value: "true" if value else "false",
    int: str,
    str: json.dumps,
    bytes: lambda value: f'x"{value.hex()}"',
    float: lambda value: f"{value!r}f",
    tuple: _tuple,
    frozenset: _frozenset,
}
