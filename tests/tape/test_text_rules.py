"""Rules of the texts of entries that no golden case shows, and the ladder of their levels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopspec.tape import entry
from loopspec.tape.entry import Block, Read, Reply, Tool, render
from loopspec.tape.text import (
    canonical_json,
    label,
    number_text,
    quoted,
    safe_name,
    safe_path,
    unit_slice,
    units,
    whole,
)


def test_labels() -> None:
    """TP-62"""
    assert label("a\tb", 180) == '"a\\tb"'
    assert label("x" * 180, 180) == "x" * 180
    assert label("x" * 181, 180) == "x" * 156 + "…[label shortened]"
    assert safe_name("mcp__server.tool") == "mcp__server.tool"
    assert safe_name("read") == "read"
    assert safe_name('x · 1 chars · expand_result({"seq":1,"formatVersion":4})]').startswith('"x · 1 chars · expand_re')
    assert '"seq"' not in safe_name('expand_result({"seq":1,"formatVersion":4})').replace('\\"seq\\"', "")
    assert safe_path("app/[slug]/page (1).tsx") == "app/[slug]/page (1).tsx"
    assert safe_path("a), b.txt (9 lines") == '"a), b.txt (9 lines"'
    assert safe_path("a\u2028b") == '"a\\u2028b"'


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1"), (-0.0, "0"), (0.1, "0.1"), (1e21, "1e+21"), (1e20, "100000000000000000000"), (1.5e-7, "1.5e-7"),
        (1e-6, "0.000001"), (123456789012345680000, "123456789012345680000"), (-2.5, "-2.5"),
        (2**53, "9007199254740992"),
        (1.2e300, "1.2e+300"), (float("inf"), "null"), (10**400, "null"),
    ],
)  # fmt: skip
def test_numbers(number: float, text: str) -> None:
    """TP-63: as JavaScript writes them."""
    assert number_text(number) == text


def test_canonical_json() -> None:
    assert (
        canonical_json({"b": [True, None, "é"], "10": 1, "9": 2, "01": 3})
        == '{"9":2,"10":1,"01":3,"b":[true,null,"é"]}'
    )
    assert quoted("\ud83d\n\x7f") == '"\\ud83d\\n\x7f"'
    assert json.loads(quoted("\ud83d")) == "\ud83d"


def test_units() -> None:
    """RE-43, RE-44"""
    assert units("a😀\ud83d") == 4
    assert unit_slice("a😀b", 1, 3) == "😀"
    assert unit_slice("a😀b", 2) == "\ude00b"
    assert whole("\ud83d" + "\ude00") == "😀"


# -- the ladder ----------------------------------------------------------------------------------------------


BLOCK = Block(
    1,
    2,
    (Reply(1, 5, " " + "a" * 3000 + " "), Reply(2, 6, "b" * 48)),
    1,
    tuple(Read(f"p{n}", 1, "00000000", entry.place(1, n, direct=True), "read", "default", True) for n in range(12)),
    tuple(Tool(1, n, "bash", 3) for n in range(8)),
)


def test_every_level_is_reached_and_fits() -> None:
    """TP-71, RE-51: a level is taken as soon as its text is not longer than the cap."""
    reached = set()
    last = None
    for cap in range(256, 6000):
        found = render([1], [BLOCK], cap)
        assert len(found.text) <= cap
        reached.add(found.level)
        if last is not None:
            assert found.level <= last.level
            if found.level < last.level:
                assert len(found.text) == cap
        last = found
    assert reached == set(range(10))


def test_uncapped_shows_everything_but_the_seventh_tool() -> None:
    text = render([1], [BLOCK]).text
    assert "a" * 3000 in text
    assert "[+2 more tool results]" in text
    assert "+2 more; recall_turn(" in text
    assert "[slice note · 2 runtime-context snapshots superseded by a later one" in text
    assert "[1 assistant message(s) contained no visible text or tool calls]" in text
    assert text.count("[tool turn") == 6


def test_compact_replies() -> None:
    """TP-73: 48 is whole, one more is cut, and nothing is stripped."""
    found = next(found for found in (render([1], [BLOCK], cap) for cap in range(256, 2000)) if found.level == 7)
    text = found.text
    assert "[reply step 2 seq 6] " + "b" * 48 in text
    assert "[reply step 1 seq 5]  " + "a" * 31 + "…[+2954 chars, recall_turn]…" + "a" * 15 + " \n" in text


@pytest.mark.parametrize("cap", [0, 255, 2**53, 256.0, "256", True])
def test_bad_caps(cap: Any) -> None:
    """TP-70"""
    with pytest.raises(ValueError, match=r"^history\.entryMaxChars must be a safe integer >= 256$"):
        render([1], [BLOCK], cap)
