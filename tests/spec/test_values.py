"""Sameness of JSON values: by value, with or without the order of keys, and `true` is not `1`."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopspec.values import same_text, same_value, seqs_of, without

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=6,
)


@given(JSON, JSON)
def test_sameness_is_that_of_the_json_text(left: Any, right: Any) -> None:
    assert same_text(left, right) == (json.dumps(left) == json.dumps(right))
    by_value = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert same_value(left, right) == by_value


@given(JSON)
def test_frozen_values_are_the_same_values(value: Any) -> None:
    def frozen(item: Any) -> Any:
        if isinstance(item, dict):
            return MappingProxyType({key: frozen(inner) for key, inner in item.items()})
        return tuple(map(frozen, item)) if isinstance(item, list) else item

    assert same_value(value, frozen(value))
    assert same_text(frozen(value), value)


@pytest.mark.parametrize(
    ("left", "right"),
    [(True, 1), (False, 0), (1, True), (None, False), ("1", 1), ([], {}), ({}, []), ("", []), ("ab", ["a", "b"])],
)
def test_what_python_might_confuse(left: Any, right: Any) -> None:
    assert not same_value(left, right)
    assert not same_text(left, right)


def test_numbers_are_equal_by_value() -> None:
    assert same_value({"a": 1}, {"a": 1.0})


def test_helpers() -> None:
    record = {"a": 1, "b": 2}
    assert without(record, "b", "c") == {"a": 1}
    assert record == {"a": 1, "b": 2}
    assert seqs_of([1, "2", True, 3]) == (1, 3)
    assert seqs_of("12") == seqs_of(None) == ()
