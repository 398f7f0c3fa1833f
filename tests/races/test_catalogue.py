"""The page of the races says what is there, and every row has a test or a reason."""

from __future__ import annotations

from tests.races.catalogue import ELSEWHERE, PAGE, everything, page, rows


def test_every_row_has_a_test_or_a_reason() -> None:
    """And no test shows a row that is not in the catalogue, and no reason is left over."""
    wanted = {id for _, ids in rows() for id in ids}
    shown = {test.row for test in everything()}
    assert shown <= wanted
    assert wanted - shown == set(ELSEWHERE)


def test_every_test_says_what_has_to_happen() -> None:
    """In its docstring."""
    assert [test.name for test in everything() if not test.says] == []


def test_the_page_is_up_to_date() -> None:
    """`python -m tests.races.catalogue` writes it."""
    assert PAGE.read_text() == page()
