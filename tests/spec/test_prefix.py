"""`Prefix`: cheap to grow, and nothing a holder sees ever changes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopspec.kernel.prefix import Prefix

# (parent by position among the values made so far, what to do there, an argument)
PROGRAMS = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.sampled_from(["append", "extend", "first", "slice", "seal"]),
        st.one_of(st.integers(0, 9), st.integers(0, 200)),
    ),
    max_size=60,
)


GIVEN = tuple(range(40))
"""What somebody else holds, in a sequence that cannot grow."""


def run(program: list[tuple[int, str, int]]) -> list[tuple[Prefix[int], tuple[int, ...]]]:
    """Grow a tree of values; beside each one a tuple made with tuples alone, never touched again."""
    made: list[tuple[Prefix[int], tuple[int, ...]]] = [(Prefix(), ()), (Prefix.over(GIVEN), GIVEN)]
    for parent, operation, argument in program:
        value, items = made[parent % len(made)]
        cut = argument % (len(items) + 1)
        if operation == "append":
            made.append((value.append(argument), (*items, argument)))
        elif operation == "extend":
            made.append((value.extend(range(argument)), (*items, *range(argument))))
        elif operation == "first":
            made.append((value.first(cut), items[:cut]))
        elif operation == "seal":
            keep = max(0, len(items) - argument % 7)
            made.append((value.first(keep).append(argument), (*items[:keep], argument)))
        else:
            made.append((value[cut:], items[cut:]))
    return made


@given(PROGRAMS)
def test_no_future_of_a_value_changes_the_value(program: list[tuple[int, str, int]]) -> None:
    for value, items in run(program):
        assert tuple(value) == items
        assert len(value) == len(items)
        assert tuple(value[at] for at in range(len(items))) == items


@given(PROGRAMS)
def test_equality_is_by_items(program: list[tuple[int, str, int]]) -> None:
    made = run(program)
    for value, items in made:
        for other, other_items in made[:8]:
            assert (value == other) == (items == other_items)


@given(st.lists(st.integers(0, 5)), st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([-2, -1, 1, 2, 3]))
def test_slices_are_those_of_a_list(items: list[int], start: int, stop: int, stride: int) -> None:
    value = Prefix(items)
    assert list(value[start:stop:stride]) == items[start:stop:stride]
    assert list(value[:stop]) == items[:stop]


@given(st.lists(st.integers(0, 200), unique=True, max_size=200), st.integers(0, 200), st.integers(0, 200))
def test_position_finds_what_is_in_view_and_nothing_else(items: list[int], cut: int, item: int) -> None:
    view = Prefix(items).first(min(cut, len(items)))
    seen = items[: len(view)]
    assert view.position(item) == (seen.index(item) if item in seen else None)


def test_position_looks_past_the_near_end() -> None:
    layered = Prefix(range(200)).first(150)
    for item in range(1000, 1100):
        layered = layered.append(item).append(-1).first(len(layered) + 1)
    assert len(pieces(layered)) > 1
    assert [layered.position(item) for item in (0, 149, 150, 1000, 1099, -1)] == [0, 149, None, 150, 249, None]
    view = Prefix(range(500)).first(300)
    assert [view.position(item) for item in (0, 100, 299, 300, 499)] == [0, 100, 299, None, None]


def test_growth_along_one_line_copies_nothing() -> None:
    """The promise is amortised constant time: one buffer serves the whole line, views included."""
    first = Prefix([0])
    last = first
    for item in range(1, 1000):
        last = last.append(item)
    assert last._buffer is first._buffer
    assert last.first(500)._buffer is last._buffer
    assert first.append(-1)._buffer is not last._buffer


def pieces(value: Prefix[int]) -> list[int]:
    return [used for _, used in value._frozen]


def test_cutting_the_end_and_growing_again_copies_a_logarithm() -> None:
    """A surface of sealed turns: five nodes come, five go, one stays. Counts the items that change lists."""
    value: Prefix[int] = Prefix(range(3000))
    copied, expected = 0, list(range(3000))
    for turn in range(3000):
        grown = value.extend(range(5))
        sealed = grown.first(len(value)).append(turn)
        expected.append(turn)
        known = {id(items) for items, _ in value._frozen} | {id(value._buffer)}
        copied += sum(used for items, used in sealed._pieces() if id(items) not in known)
        value = sealed
        assert all(left >= 2 * right for left, right in pairwise(pieces(value)))
    assert list(value) == expected
    assert [value[at] for at in range(0, 6000, 7)] == expected[::7]
    assert copied <= 3000 * 50


def test_an_empty_value_keeps_nothing_alive() -> None:
    empty: Prefix[int] = Prefix()
    grown = empty.append(1)
    assert grown._buffer is not empty._buffer


@pytest.mark.parametrize("index", [-4, 3, 100])
def test_an_index_outside_is_refused(index: int) -> None:
    with pytest.raises(IndexError):
        Prefix([1, 2, 3, 4]).first(3)[index]


def test_a_view_longer_than_the_value_does_not_exist() -> None:
    grown = Prefix([1, 2, 3])
    with pytest.raises(IndexError, match="a view of 3 items does not exist"):
        grown.first(2).first(3)


def test_it_is_no_list_and_has_no_hash() -> None:
    value: Any = Prefix([1])
    assert value != [1]
    with pytest.raises(TypeError):
        hash(value)
    with pytest.raises(TypeError):
        value[0] = 2
