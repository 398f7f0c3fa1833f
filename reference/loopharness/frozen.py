"""Frozen JSON: the one form in which data lives inside the harness (S-EVT-4, RC-10).

A value is frozen once, when it comes in. From then on it is shared, never copied: every part of it is a
`FrozenDict`, a `FrozenList` or a scalar, so asking "is this frozen already?" is one look at its type and a
frozen part inside a new value is never walked again. Both containers are subclasses of the built-in ones, so
`json.dumps` writes them as they are. A list that grows, such as the messages of a session, is a `Prefix` of
the spec: an immutable view that costs nothing to take.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, NoReturn, overload

from loopspec.kernel.prefix import Prefix

__all__ = [
    "EMPTY_DICT",
    "EMPTY_LIST",
    "MAX_DEPTH",
    "FrozenDict",
    "FrozenList",
    "NotJsonError",
    "dumps",
    "explain",
    "freeze",
    "is_frozen",
    "thaw",
]

MAX_DEPTH: Final = 256
"""Deeper nesting is refused: the standard JSON writer and reader could not take it, and a cycle has no end."""

_SAFE: Final = 2**53


class NotJsonError(ValueError):
    """A value is not lossless JSON. `path` says where (`$` is the value itself), `reason` says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} is frozen; build a new value instead, e.g. {{**old, key: value}}")


class FrozenDict(dict[str, Any]):
    """An immutable JSON object; its values are frozen too. Made by `freeze`."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def copy(self) -> FrozenDict:
        """A frozen value is its own copy."""
        return self

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return (type(self), (dict(self),))


class FrozenList(tuple[Any, ...]):
    """An immutable JSON array; its items are frozen too. Made by `freeze`."""

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> FrozenList:
        return self


EMPTY_DICT: Final = FrozenDict()
EMPTY_LIST: Final = FrozenList()

_AS_IT_IS: Final = frozenset({str, bool, type(None), FrozenDict, FrozenList})


def is_frozen(value: object) -> bool:
    """True for scalars and for containers made by `freeze`. Constant time: it looks at the type only."""
    kind = type(value)
    return kind in _AS_IT_IS or kind is int or kind is float or isinstance(value, FrozenDict | FrozenList)


@overload
def freeze(value: Mapping[str, Any]) -> FrozenDict: ...
@overload
def freeze(value: Any) -> Any: ...
def freeze(value: Any) -> Any:
    """The deeply immutable form of a lossless-JSON value, detached from the caller's object (L-LOG-4).

    Accepts null, booleans, strings, finite numbers, lists, tuples and dicts with string keys, exactly those
    types and not their subclasses. Refuses, never converts: NaN, infinities, negative zero, integers that a
    double cannot hold, keys that are not strings, cycles and nesting beyond `MAX_DEPTH`, and every other type.
    Parts that are frozen already are shared, not walked.

    Raises `NotJsonError`.
    """
    try:
        return _freeze(value, 0)
    except _Refused:
        raise explain(value) from None


class _Refused(Exception):
    """Internal: something in the value is not JSON. The slow walk of `explain` finds out what."""


def _freeze(value: Any, depth: int) -> Any:
    kind = type(value)
    if kind in _AS_IT_IS:
        return value
    if kind is dict:
        if depth >= MAX_DEPTH:
            raise _Refused
        changed = None
        for key, item in value.items():
            if type(key) is not str:
                raise _Refused
            item_kind = type(item)
            if item_kind in _AS_IT_IS or (item_kind is int and -_SAFE <= item <= _SAFE):
                continue
            frozen = _freeze(item, depth + 1)
            if frozen is not item:
                if changed is None:
                    changed = {}
                changed[key] = frozen
        if changed is None:
            return FrozenDict(value)
        return FrozenDict({**value, **changed})
    if kind is list or kind is tuple:
        if depth >= MAX_DEPTH:
            raise _Refused
        return FrozenList([_freeze(item, depth + 1) for item in value])
    if kind is int:
        if -_SAFE <= value <= _SAFE or _exact(value):
            return value
    elif kind is float and isfinite(value) and (value != 0.0 or str(value) == "0.0"):
        return value
    raise _Refused


def _exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def explain(value: Any) -> NotJsonError:
    """The first place where a value is not lossless JSON, in document order. For error messages only."""
    return _explain(value, "$", 0, ()) or NotJsonError("$", "not lossless JSON")


def _explain(value: Any, path: str, depth: int, above: tuple[int, ...]) -> NotJsonError | None:
    kind = type(value)
    if kind is dict or kind is list or kind is tuple:
        if id(value) in above:
            return NotJsonError(path, "contains itself")
        if depth >= MAX_DEPTH:
            return NotJsonError(path[:80], f"nested deeper than {MAX_DEPTH} levels")
        inside = (*above, id(value))
        items: Any = value.items() if kind is dict else enumerate(value)
        for key, item in items:
            if kind is dict and type(key) is not str:
                return NotJsonError(path, f"key {key!r} is not a string")
            found = _explain(item, f"{path}.{key}" if kind is dict else f"{path}[{key}]", depth + 1, inside)
            if found is not None:
                return found
        return None
    if is_frozen(value) and kind is not int and kind is not float:
        return None
    if kind is float:
        if not isfinite(value):
            return NotJsonError(path, f"{value} is not a finite number")
        return NotJsonError(path, "negative zero") if str(value) == "-0.0" else None
    if kind is int:
        fits = -_SAFE <= value <= _SAFE or _exact(value)
        return None if fits else NotJsonError(path, "integer has no exact double")
    return NotJsonError(path, f"{kind.__name__} is not a JSON type")


def thaw(value: Any) -> Any:
    """Plain dicts and lists again, deeply copied: for code that wants to change a value or compare it."""
    if isinstance(value, Mapping):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | tuple | Prefix):
        return [thaw(item) for item in value]
    return value


def dumps(value: Any) -> str:
    """Compact JSON text, keys in their order of insertion, non-ASCII text as it is (S-ENV-7)."""
    return _encode(value)


def _unknown(value: Any) -> Any:
    if isinstance(value, Prefix):
        return tuple(value)
    raise TypeError(f"{type(value).__name__} is not a JSON type")


_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"), default=_unknown
).encode
