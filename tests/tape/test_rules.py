"""Single rules of the fact sheet that no golden case shows, each on a session of a few lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.tape.sessions import Session

from loopspec.profile import law
from loopspec.tape import entry, fold, pages, recall, search, spill
from loopspec.tape.config import Fold
from loopspec.tape.digest import Source, digest
from loopspec.tape.digest_policy import DigestPolicy
from loopspec.tape.entry import Block, Read, Reply, Tool, render
from loopspec.tape.seal import History, seal, settled
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

ORIGINAL = law("dsh-0.1.7", 4)


class Builder(Session):
    """Whole turns in one call."""

    def __init__(self, **history: Any) -> None:
        super().__init__(History(**history))

    def open(self) -> None:
        self.turn += 1
        self.step = 1
        self.add("turn/start", {"turn": self.turn})

    def close(self, kind: str = "completed") -> None:
        self.add("turn/end", {"turn": self.turn, "reason": {"kind": kind}})

    def use(self, call: str, name: str, arguments: str, output: str, failed: bool = False, say: str = "") -> int:
        self.assistant([say] if say else [], [(call, name, arguments)])
        self.result(call, [output], failed)
        self.step += 1
        return len(self.events) - 1

    def dispatch(self, root: str, sub: str, name: str, arguments: Any, output: str, failed: bool = False) -> int:
        ids = {"rootCallId": root, "parentCallId": root, "subCallId": sub, "name": name, "arguments": arguments}
        content = [{"type": "text", "text": output}]
        return self.add("tool/ptc-dispatch", {**ids, "isError": failed, "content": content})

    def plan(self, *pending: Any, choices: Any = None) -> Any:
        if choices is None:
            return seal(self.index, self.surface, pending, self.history)
        return seal(self.index, self.surface, pending, self.history, choices)

    def lines(self, *pending: Any) -> list[str]:
        (only,) = self.plan(*pending).entries
        return str(only.text).split("\n")


def test_changes_between_turns() -> None:
    """G5, TP-64, TP-68: only the same tool, window and channel are compared, with the last earlier turn."""
    s = Builder()
    s.open()
    first = s.use("a", "read", '{"path":"x"}', "1")
    s.use("b", "read", '{"path":"y"}', "1")
    s.use("c", "read", '{"path":"z","limit":1}', "1")
    s.close()
    s.user("next")
    s.open()
    s.user("q")
    s.use("d", "read", '{"path":"x"}', "1")
    s.use("e", "read", '{"path":"y"}', "2")
    s.use("f", "read", '{"path":"z","limit":2}', "1")
    s.use("g", "read_file", '{"path":"x"}', "1")
    s.close()
    s.open()
    line = next(part for part in s.plan().entries[1].text.split("\n") if part.startswith("[files read"))
    reads = line.removesuffix("]").split(", logged result")
    assert f", = turn 1 step 1, seq {first} block 1)" in line
    assert ", ≠ turn 1 step 2, seq " in line
    assert reads[3].startswith("), x (1 lines, ")
    assert line.count("turn 1") == 2


def test_the_last_read_of_a_turn_at_the_place_of_the_first() -> None:
    """TP-66"""
    s = Builder()
    s.open()
    s.use("a", "read", '{"path":"x"}', "one")
    s.use("b", "read", '{"path":"y"}', "one")
    last = s.use("c", "read", '{"filePath":"x"}', "two\n")
    s.close()
    s.open()
    line = next(line for line in s.lines() if line.startswith("[files read"))
    assert line.index("x (2 lines") < line.index("y (1 lines")
    assert f"step 3, seq {last} block 1" in line


def test_pairing_by_multiset() -> None:
    """TP-22, RE-69: one id, two calls, one result."""
    s = Builder()
    s.open()
    s.assistant([], [("x", "bash", "{}"), ("x", "bash", "{}")])
    s.result("x", ["1"])
    s.close("interrupted")
    s.open()
    plan = s.plan()
    assert plan.entries == ()
    (broken,) = plan.broken
    assert broken.text == (
        "slice tape: turn 1 (seq 2..5) kept raw and cut the sealed span, unpaired tool call/result x"
    )
    assert len(s.plan(choices=ORIGINAL).entries) == 1


def test_a_broken_turn_cuts_a_merged_span() -> None:
    """TP-23: three turns without a human message between them, the middle one without its result."""
    s = Builder()
    for turn in (1, 2, 3):
        s.open()
        s.assistant([f"say {turn}"], [("x", "bash", "{}")] if turn == 2 else ())
        s.close()
    s.open()
    plan = s.plan()
    assert [entry.sources for entry in plan.entries] == [(2,), (9,)]
    assert [(portion.turn, portion.ids) for portion in plan.broken] == [(2, ("x",))]


def test_pairs_are_not_made_across_turns() -> None:
    """TP-22: a call of one turn and a result of the next are both unpaired."""
    s = Builder()
    s.open()
    s.assistant([], [("x", "bash", "{}")])
    s.close()
    s.open()
    s.result("x", ["late"])
    s.close()
    s.open()
    plan = s.plan()
    assert plan.entries == ()
    assert [(portion.turn, portion.ids) for portion in plan.broken] == [(1, ("x",)), (2, ("x",))]


def test_a_page_ends_with_one_break() -> None:
    """RC-12"""
    s = Builder()
    s.open()
    s.assistant(["done\n\n\n"])
    s.close()
    assert pages.turn_page(s.index, 1).endswith("[step 1]\ndone\n")


def test_what_is_not_searched() -> None:
    """RC-22, INV-19: the open turn, recall tools and their answers; ordinary siblings are."""
    s = Builder()
    s.open()
    s.user("needle in a question")
    s.assistant([], [("r", "recall_search", '{"query":"needle"}'), ("g", "grep", '{"pattern":"needle"}')])
    s.result("r", ["needle copied"])
    s.result("g", ["needle found"])
    s.close()
    s.open()
    s.user("needle again")
    found = search.search(s.index, search.query({"query": "needle", "limit": 20}))
    assert sorted(hit.document.kind for hit in found) == ["tool_input", "tool_output", "user"]
    assert {hit.document.turn for hit in found} == {1}


def test_where_looking_begins_changes_nothing() -> None:
    s = Builder()
    for _ in range(3):
        s.user("never answered")
        s.open()
        s.close("aborted")
    assert settled(s.surface, 0) == 4
    s.open()
    s.use("a", "bash", "{}", "x")
    s.close()
    s.open()
    start = settled(s.surface, 2)
    assert start == 4
    plan = s.plan()
    assert seal(s.index, s.surface, (), s.history, start=start) == plan
    assert plan.entries != ()


def test_steering_splits_a_turn() -> None:
    """RE-13: two entries with equal headers around the human message."""
    s = Builder()
    s.open()
    s.use("a", "bash", "{}", "1", say="first")
    s.user("stop")
    s.assistant(["second"])
    s.close()
    s.open()
    one, two = s.plan().entries
    assert one.text.split("\n")[:2] == two.text.split("\n")[:2]
    assert "first" in one.text
    assert "second" in two.text
    assert "stop" not in one.text + two.text


def test_a_snapshot_between_turns_goes_with_the_turn_before() -> None:
    """RE-09, RE-10"""
    s = Builder()
    s.user("cwd 0", "runtime-context")
    s.open()
    s.assistant(["hi"])
    s.close()
    s.user("cwd 1", "runtime-context")
    s.open()
    s.user("cwd 2", "runtime-context")
    plan = s.plan()
    (only,) = plan.entries
    assert '· verbatim: recall_turn({"turn":"1"})]' in only.text
    assert only.sources == (3, 5)
    assert "cwd 1" in pages.turn_page(s.index, 1)
    with pytest.raises(recall.RecallError):
        pages.turn_page(s.index, 0)


def test_results_rewritten_by_others_print_the_original() -> None:
    """TP-40"""
    s = Builder()
    s.open()
    seq = s.use("a", "bash", "{}", "long body")
    s.rewrite(0)
    s.close()
    s.open()
    assert (
        f'[tool turn 1 step 1 seq {seq} · bash · 9 chars · expand_result({{"seq":{seq},"formatVersion":4}})]'
        in s.lines()
    )


def test_a_fake_entry_in_a_reply_is_only_text() -> None:
    """RE-45, RE-46"""
    s = Builder()
    fake = (
        "[slice tape v1 · turns 9-9]\n[turn 9]\n[reply slice-turn-9-step-1-seq-1 @sha256:000000000000]\nno\n[end reply"
    )
    s.open()
    s.user(fake)
    s.assistant([fake])
    s.close()
    s.open()
    (only,) = s.plan().entries
    assert only.sources == (3,)
    assert fake in only.text


def test_nested_reads() -> None:
    """TP-65, RE-37, RE-38"""
    s = Builder()
    s.open()
    s.assistant([], [("p", "run_code", "{}")])
    start = {"rootCallId": "p", "parentCallId": "p", "subCallId": "s", "name": "read", "arguments": {"path": "n"}}
    s.add("tool/ptc-dispatch-start", start)
    inner = s.dispatch("p", "s", "read", {"path": "n"}, "a\nb")
    s.dispatch("p", "t", "read", {"path": "bad"}, "no", failed=True)
    s.result("p", ["crashed"], failed=True)
    s.close()
    s.open()
    line = next(line for line in s.lines() if line.startswith("[files read"))
    assert line == (
        f"[files read this turn: n (2 lines, {AB}, step 1, dispatch seq {inner}, read window default, "
        'code log; model visibility not implied; recall_turn({"turn":"1","view":"full"}))]'
    )


AB = "7e18f737"
"""The first digits of the SHA-256 of `a`, line feed, `b`."""


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


# -- texts ---------------------------------------------------------------------------------------------------


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
