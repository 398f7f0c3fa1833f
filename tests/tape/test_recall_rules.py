"""Rules of recall, search and folding that no golden case shows, each on a session of a few lines."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tape.whole_turns import Builder

from loopspec.profile import law
from loopspec.tape import fold, recall, search, spill
from loopspec.tape.config import Fold
from loopspec.tape.digest import Source, digest
from loopspec.tape.digest_policy import DigestPolicy

ORIGINAL = law("dsh-0.1.7", 4)


@pytest.mark.parametrize(
    ("given", "turn"),
    [("7", 7), (" slice-turn-7 ", 7), ("007", 7), (7, 7), (7.0, 7)],
)
def test_turn_ids(given: Any, turn: int) -> None:
    """RC-11"""
    assert recall.turn_number(given) == turn


@pytest.mark.parametrize("given", ["", "x", "turn 7", "7a", "-1", 0, -1, 1.5, None, True, [], "٣"])
def test_turn_ids_refused(given: Any) -> None:
    with pytest.raises(recall.RecallError) as refused:
        recall.turn_number(given)
    assert str(refused.value) == 'recall_turn needs {"turn": "slice-turn-N"} (or just "N")'


def test_step_addresses() -> None:
    """RC-28"""
    assert recall.step_address({"turn": "slice-turn-3", "step": "step 2"}) == (3, 2)
    assert recall.step_address({"turn": 3, "step": "2"}) == (3, 2)
    for bad in (
        {},
        {"turn": "3"},
        {"turn": "3.7", "step": "1"},
        {"turn": "0", "step": "1"},
        {"turn": "x", "step": "1"},
    ):
        with pytest.raises(recall.RecallError) as refused:
            recall.step_address(bad)
        assert str(refused.value) == 'recall_step needs {"turn": "N", "step": "M"}'


STALE = (
    "expand_result: numeric seq requires formatVersion 4 from a fresh locator; sequence numbers can change during "
    "format migration. Do not relabel an old locator. Obtain a fresh locator from "
    'recall_turn({"turn":"N","view":"dialogue"}) or recall_search, or use the stable '
    '{"turn":N,"step":M,"call":K} address.'
)
NEEDS = (
    'expand_result needs {"seq": N, "formatVersion": 4} or {"turn": N, "step": M} (and optional "call": K), '
    "all positive integers"
)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"seq": 3}, STALE),
        *[({"seq": "x", "formatVersion": version}, STALE) for version in (2, 3, 5, "4", None, True, 4.5)],
        ({"seq": 3, "block": 0}, 'expand_result: "block" must be a positive integer'),
        ({"seq": -1, "formatVersion": 4}, 'expand_result: "seq" must be a non-negative integer'),
        ({"seq": 1.5, "formatVersion": 4}, 'expand_result: "seq" must be a non-negative integer'),
        ({"seq": 99, "formatVersion": 4}, "expand_result: no session event at seq 99"),
        ({"seq": 2, "formatVersion": 4}, "expand_result: seq 2 is a assistant/message event, not a tool result"),
        ({"seq": 4, "formatVersion": 4, "block": 2}, "expand_result: no result block 2 (result has 1 blocks)"),
        ({}, NEEDS),
        ({"turn": 1}, NEEDS),
        ({"turn": 1, "step": 0}, NEEDS),
        ({"turn": 1, "step": 1, "call": "1"}, NEEDS),
        ({"turn": 1, "step": 1, "call": 2}, "no tool result recorded at turn 1 step 1 call 2"),
        ({"seq": 5, "formatVersion": 4}, "expand_result: the replacement at seq 5 names no original tool result"),
    ],
)
def test_expansions_refused(arguments: Any, refusal: str) -> None:
    """RC-31, RC-32"""
    s = Builder()
    s.open()
    s.use("a", "bash", "{}", "out")
    data = s.events[4]["data"]
    s.add("tool/result", data, {"op": "replace", "startSeq": 4, "endSeq": 4}, [3, 4])
    with pytest.raises(recall.RecallError) as refused:
        recall.find_result(s.index, arguments)
    assert str(refused.value) == refusal


def test_the_block_is_named_when_it_was_asked_for() -> None:
    """RC-34"""
    s = Builder()
    s.open()
    s.use("a", "bash", "{}", "out")
    assert recall.find_result(s.index, {"seq": 4, "formatVersion": 4}).head == "bash · seq 4 (turn 1 step 1 call 1)"
    assert recall.find_result(s.index, {"turn": 1, "step": 1, "block": 1}).head == "bash · turn 1 step 1 call 1 block 1"


def test_search_arguments() -> None:
    """RC-20, RC-23, BG-38"""
    with pytest.raises(recall.RecallError, match=r'recall_search needs \{"query": "\.\.\."\}'):
        search.query({"query": "  "})
    limits = {None: 5, 0: 5, 1: 1, 2.9: 2, -3: 1, 99: 20, "7": 5}
    assert {given: search.query({"query": "x", "limit": given}).limit for given in limits} == limits
    assert search.query({"query": "x", "kinds": []}).kinds == search.KINDS
    assert search.query({"query": "x", "scope": "Dialogue"}).slots
    assert search.terms("Ab, c 中 中文 a.b-c_d") == ["ab", "中文", "a.b-c_d"]


def test_snippets_are_cut_around_the_match() -> None:
    """RC-25, BG-34: with text outside the first plane in front of it the original's window drifts away."""
    text = "😀" * 400 + " needle " + "x" * 400
    document = search.Document("assistant", 1, 1, -1, text)
    first = text.lower().index("needle")
    ours, theirs = search.snippet(document, first), search.snippet(document, first, ORIGINAL)
    assert "needle" in ours
    assert ours.startswith("…")
    assert ours.endswith("…")
    assert len(ours) == 182
    assert "needle" not in theirs


def test_folded_pins_and_scopes() -> None:
    """FD-03, FD-20, FD-30"""
    s = Builder()
    s.open()
    s.user("q")
    body = "\n".join(f"row {n} {'x' * 40}" for n in range(200))
    seq = s.use("a", "fetch", '{"b":1,"a":{"d":2,"c":3}}', body)
    policy = DigestPolicy()

    def candidate(settings: Fold = Fold(), **rest: Any) -> Any:  # noqa: B008
        return fold.candidate(s.index, seq, settings, policy, lambda _: False, **rest)

    assert candidate() is not None
    assert candidate(Fold(pin_steps=1, pin_max_chars=len(body) + 1)) is None
    assert candidate(Fold(pin_steps=1, pin_max_chars=len(body))) is not None
    scope = '["fetch","arguments",{"a":{"c":3,"d":2},"b":1}]'
    assert fold.scope_of("fetch", '{"b":1,"a":{"d":2,"c":3}}') == scope
    assert fold.scope_of("fetch", '{"path":"p","file_path":"f"}') == '["fetch","path","f"]'
    assert candidate(backed_off={scope}) is None
    assert candidate(evidence=[body[:300]]) is None
    failed = s.use("b", "fetch", "{}", body, failed=True)
    assert fold.candidate(s.index, failed, Fold(), policy, lambda _: False) is None
    own = s.use("c", "recall_turn", "{}", body)
    assert fold.candidate(s.index, own, Fold(), policy, lambda _: False) is None


def test_watermark() -> None:
    """FD-02"""
    s = Builder()
    assert fold.watermark(s.events) == -1
    s.open()
    s.use("a", "bash", "{}", "x")
    assert s.events[fold.watermark(s.events)]["type"] == "assistant/message"
    s.close()
    assert s.events[fold.watermark(s.events)]["type"] == "assistant/message"
    s.open()
    s.close("aborted")
    assert fold.watermark(s.events) == len(s.events) - 1


def test_full_retrievals() -> None:
    """FD-31"""
    assert fold.is_full({})
    assert fold.is_full({"grep": "  ", "lines": "x"})
    assert not fold.is_full({"grep": "x"})
    assert not fold.is_full({"lines": " 1 - 2 "})
    assert fold.Tally(4, 2).backs_off(2)
    assert not fold.Tally(5, 2).backs_off(2)
    assert not fold.Tally(1, 1).backs_off(2)


def test_host_notices() -> None:
    """RC-37b, BG-24: on the last of several parts the stored text is the whole result."""
    notice = (
        "(Omitted 9 bytes. Omitted 2 images. Full formatted result stored at: /s/a b.txt. "
        "Use read with offset/limit, or grep this path to search within it.)"
    )
    several = spill.parts(["one", f"head\n\n{notice}"], lambda _: True)
    assert spill.full_text("x", several, {"/s/a b.txt": "WHOLE"}) == "WHOLE"
    inner = spill.parts([f"head\n\n{notice}", "two"], lambda _: True)
    assert spill.full_text("x", inner, {"/s/a b.txt": "PART"}) == "PART\ntwo"
    assert spill.parts([f"head\n{notice}"], lambda _: True)[0].locator is None
    assert spill.parts([notice + " "], lambda _: True)[0].locator is None
    with pytest.raises(recall.RecallError) as refused:
        spill.full_text("HEAD", spill.parts([notice], lambda _: True), {"/s/a b.txt": OSError("gone")})
    assert str(refused.value) == (
        "expand_result: the full text of HEAD (unknown bytes) was stored at /s/a b.txt and cannot be read from here "
        "(gone); read that locator with the file tools instead"
    )


def test_list_bullets_are_structured() -> None:
    """FD-42 and its known difference: 12 of 80 new keys of a block are kept."""
    prose = "\n".join(f"Some prose of line number {n} {'w' * 80}" for n in range(60))
    bullets = "\n".join(f"- key{n}: value" for n in range(80))
    found = digest(f"{prose}\n{bullets}\n{prose}", Source("read", "a.md"))
    assert found.body is not None
    assert sum(line.startswith("- key") for line in found.body.split("\n")) == 12


def test_repeated_keys() -> None:
    """300 lines of few keys give 17: head, tail, and three of the block."""
    found = digest("\n".join(f"key{n % 3} = {'v' * 30} {n}" for n in range(300)), Source("bash"))
    assert (found.kind, found.kept) == ("data", 17)
