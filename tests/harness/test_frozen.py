"""Frozen JSON: what is refused at the door, and that nothing inside can change (L-LOG-4, S-EVT-4, RC-10)."""

from __future__ import annotations

import copy
import json
import pickle
from collections import UserDict
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopharness.frozen import (
    MAX_DEPTH,
    FrozenDict,
    FrozenList,
    NotJsonError,
    dumps,
    freeze,
    is_frozen,
    thaw,
)
from loopspec.kernel.prefix import Prefix

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: str(x) != "-0.0")
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


class Colour(IntEnum):
    RED = 1


class Pair(NamedTuple):
    left: int
    right: int


class Text(str):
    __slots__ = ()


def cycle() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


def nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


@given(json_values)
def test_l_log_4_lossless_json_passes_and_keeps_its_value(value: Any) -> None:
    frozen = freeze(value)
    assert thaw(frozen) == value
    assert json.loads(dumps(frozen)) == value
    assert json.dumps(frozen) == json.dumps(value)  # key order and all


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (float("nan"), "$"),
        (float("inf"), "$"),
        (-0.0, "$"),
        ({"a": {"b": -0.0}}, "$.a.b"),
        ({1: "a"}, "$"),
        ({"a": {None: 1}}, "$.a"),
        ({"a": {1, 2}}, "$.a"),
        ([b"bytes"], "$[0]"),
        ([1, (2, object())], "$[1][1]"),
        (cycle(), "$[0].again"),
        (2**53 + 1, "$"),
        (10**400, "$"),
        (UserDict(a=1), "$"),
        (Colour.RED, "$"),
        (Pair(1, 2), "$"),
        (Text("x"), "$"),
        ({"a": 1 + 2j}, "$.a"),
        (Prefix([1]), "$"),
    ],
)
def test_l_log_4_everything_else_is_refused_with_its_place(value: Any, path: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        freeze(value)
    assert caught.value.path == path


def test_l_log_4_integers_that_a_double_holds_pass() -> None:
    assert freeze(2**60) == 2**60


def test_nesting_ends_at_the_limit() -> None:
    assert thaw(freeze(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(NotJsonError, match="nested deeper"):
        freeze(nested(MAX_DEPTH + 1))


MUTATIONS: list[Callable[[Any], object]] = [
    lambda d: d.__setitem__("a", 1),
    lambda d: d.__delitem__("a"),
    lambda d: d.update(a=1),
    lambda d: d.pop("a"),
    lambda d: d.popitem(),
    lambda d: d.clear(),
    lambda d: d.setdefault("b", 1),
    lambda d: d.__ior__({"a": 2}),
]


@pytest.mark.parametrize("mutate", MUTATIONS)
def test_s_evt_4_a_frozen_object_cannot_change(mutate: Callable[[Any], object]) -> None:
    frozen = freeze({"a": [1]})
    with pytest.raises(TypeError, match="frozen"):
        mutate(frozen)
    assert thaw(frozen) == {"a": [1]}


READERS = {"copy", "fromkeys", "get", "items", "keys", "values"}


def test_s_evt_4_no_mutator_of_dict_is_forgotten() -> None:
    methods = {name for name in dir(dict) if not name.startswith("_")} - READERS
    for name in methods | {"__setitem__", "__delitem__", "__ior__"}:
        assert getattr(FrozenDict, name) is not getattr(dict, name), name


def test_s_evt_4_the_callers_object_is_detached() -> None:
    mine: dict[str, Any] = {"a": [1, {"b": 2}]}
    frozen = freeze(mine)
    mine["a"][1]["b"] = 3
    mine["a"].append(4)
    assert thaw(frozen) == {"a": [1, {"b": 2}]}


def test_rc_10_frozen_parts_are_shared_and_not_walked_again() -> None:
    part = freeze({"deep": [{"x": 1}]})
    whole = freeze({"part": part, "list": [part]})
    assert whole["part"] is part
    assert whole["list"][0] is part
    assert freeze(whole) is whole
    assert freeze(whole["list"]) is whole["list"]


def test_is_frozen_looks_at_the_type() -> None:
    assert is_frozen(freeze({"a": 1}))
    assert is_frozen(freeze([1]))
    assert is_frozen("text")
    assert not is_frozen({"a": 1})
    assert not is_frozen((1,))


def test_copies_of_a_frozen_value_are_the_value() -> None:
    frozen = freeze({"a": [1]})
    assert copy.copy(frozen) is frozen
    assert copy.deepcopy(frozen) is frozen
    assert frozen.copy() is frozen
    again = pickle.loads(pickle.dumps(frozen))
    assert again == frozen
    assert type(again) is FrozenDict
    assert type(again["a"]) is FrozenList


def test_thaw_gives_a_value_of_ones_own() -> None:
    frozen = freeze({"a": [1]})
    mine = thaw(frozen)
    mine["a"].append(2)
    assert thaw(frozen) == {"a": [1]}
    assert type(mine) is dict
    assert thaw(Prefix([frozen])) == [{"a": [1]}]


def test_dumps_is_compact_and_writes_views() -> None:
    assert dumps(freeze({"b": [1, "é"], "a": None})) == '{"b":[1,"é"],"a":null}'
    assert dumps({"messages": Prefix([1, 2])}) == '{"messages":[1,2]}'
    with pytest.raises(TypeError):
        dumps({"x": object()})
