"""Values that TLC prints are read as what they are, and written in one way only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopconform.tla.parse import NotAValue, States, texts_of_state, value_of
from loopconform.tla.values import Function, camel, from_python, function, label_of, record, text

NAMES = st.sampled_from(["a", "b", "next", "L1"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | st.integers(-99, 99) | st.text('ab"\\\n é', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(NAMES, inner, min_size=1, max_size=3).map(lambda fields: record(**fields))
        | st.frozensets(st.integers(0, 9), max_size=3)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_again(value: Any) -> None:
    assert text(value_of(text(value))) == text(value)


@pytest.mark.parametrize(
    ("printed", "canonical"),
    [
        ("<<1,\n   2>>", "<<1, 2>>"),
        ("{3, 1, 2}", "{1, 2, 3}"),
        ("1..3", "{1, 2, 3}"),
        ("[b |-> TRUE, a |-> <<>>]", "[a |-> <<>>, b |-> TRUE]"),
        ('(1 :> "x" @@ 2 :> "y")', '<<"x", "y">>'),
        ("(0 :> 1 @@ 5 :> 2)", "(0 :> 1 @@ 5 :> 2)"),
        ("( << 1 >> :> {} )", "(<<1>> :> {})"),
        ('"a\\"b"', '"a\\"b"'),
        ("-3", "-3"),
        ("m1", '"m1"'),
    ],
)
def test_one_text_for_each_value(printed: str, canonical: str) -> None:
    assert text(value_of(printed)) == canonical


@pytest.mark.parametrize("broken", ["", "<<1", "[a |-> ]", "{1, }", "1 2", "(1 :> )", "[1 |-> 2]", "<<" * 300, "%"])
def test_what_is_no_value_is_refused_with_words(broken: str) -> None:
    with pytest.raises(NotAValue, match="is not a TLA\\+ value"):
        value_of(broken)


def test_true_is_not_one() -> None:
    assert text((True, 1)) == "<<TRUE, 1>>"
    assert function([(1, True)]) == (True,)
    assert text(function([(True, 1)])) == "(TRUE :> 1)"


def test_python_values() -> None:
    assert text(from_python((None, 1.5, 0.0, -1.0, float("nan"), float("-inf"), ()))) == (
        '<<"null", "1.5", "0", "-1", "NaN", "-Infinity", <<>>>>'
    )
    assert label_of("turn") == ("turn",)
    assert camel("cancel user") == camel("cancel_user") == camel("cancel-user") == "cancelUser"
    with pytest.raises(TypeError, match="a object cannot be compared"):
        from_python(object())


def test_a_state_of_several_lines() -> None:
    printed = '/\\ a = <<1,\n  2>>\n/\\ b = [x |-> "/\\\\ no"]\n'
    assert texts_of_state(printed) == {"a": "<<1,\n  2>>", "b": '[x |-> "/\\\\ no"]'}
    state = States().state(printed)
    assert state["a"] == (1, 2)
    assert isinstance(state["b"], Function)
    assert state["b"].at("x") == "/\\ no"
    assert States().state("alone = 1") == {"alone": 1}
    with pytest.raises(KeyError):
        state["b"].at("y")
