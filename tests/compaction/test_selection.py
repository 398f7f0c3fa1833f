"""What compaction may cut, decided on every surface of up to five nodes (M-701 to M-709, INV-C2, INV-C3, K32)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compaction.surfaces import balanced, surface, words
from tests.logs import corpus
from tests.spec.mutation import Mutant, applied

from loopspec import compaction
from loopspec.compaction import PRUNED, Settings
from loopspec.log.types import Dialect
from loopspec.surface import Surface, breaches

SMALL = [head + word for word in words(4) for head in ("", "s")]
LONG = Settings(prune_budget=100, prune_head=20, prune_tail=10)


def naive(word: str, prices: list[int], retain: int) -> list[int]:
    """The nodes to replace, by trying every length, longest first."""
    first = 1 if word.startswith("s") else 0
    for end in range(len(word) - 1, first, -1):
        if balanced(word, end) and sum(prices[end:]) >= retain:
            return list(range(first, end))
    return []


def price(letter: str) -> int:
    """What a letter costs: 4 for the role, 5 for its text of four letters, 6 for each call (`n`, `{}`)."""
    return {"s": 9, "u": 9, "t": 9, "c": 15, "d": 21, "r": 9, "e": 0}[letter]


def check_cut(word: str, retain: int, same_ids: bool = False) -> None:
    """One surface, one tail."""
    found = compaction.cut(surface(word, same_ids=same_ids), retain)
    prices = [price(letter) for letter in word]
    wanted = naive(word, prices, retain)
    assert ([] if found is None else list(found.seqs)) == wanted, (word, retain)
    if found is not None:
        assert found.price == sum(prices[at] for at in wanted)
        assert (found.start, found.end) == (wanted[0], wanted[-1])


def all_cuts() -> None:
    """Every small surface with every tail that makes a difference."""
    for word in SMALL:
        for retain in (0, 10, 25):
            check_cut(word, retain)


def all_double_cuts() -> None:
    """The same where every call has the same id."""
    for word in SMALL:
        check_cut(word, 0, same_ids=True)


def test_m_705_m_706_the_longest_balanced_range_behind_the_head() -> None:
    assert len(SMALL) > 1_500
    all_cuts()


def test_race_23_two_calls_with_one_id_need_two_results() -> None:
    all_double_cuts()


def test_inv_c2_the_replacement_is_legal_and_leaves_no_orphan() -> None:
    """What the surface algebra says about it, which knows nothing of compaction."""
    old = [(word, "v0") for word in words(3)]
    for word, dialect in [*((word, "v4") for word in SMALL), *old]:
        before = surface(word, dialect)
        chosen = compaction.cut(before, 0)
        if chosen is None:
            continue
        seq = len(word)
        operation = {"op": "replace", "startSeq": chosen.start, "endSeq": chosen.end}
        if dialect == "v0":
            operation = {"op": "replace", "start": chosen.start, "end": chosen.end}
        event: dict[str, Any] = {
            "type": "user/message",
            "seq": seq,
            "data": {"id": "x", "role": "user", "content": [], "source": {"kind": "user"}},
            "surfaceOp": operation,
            "sourceEventSeqs": list(chosen.seqs),
        }
        assert breaches(before, event, seq) == ()
        after = before.replace(seq, event, chosen.start, chosen.end)
        assert orphans(after) == 0, word


def orphans(history: Surface) -> int:
    """Results that no earlier call of the history asked for."""
    open_calls: list[str] = []
    found = 0
    for event in history.events:
        message = event["data"].get("message", event["data"])
        if event["type"] == "tool/result":
            call_id = message["source"]["callId"]
            if call_id in open_calls:
                open_calls.remove(call_id)
            else:
                found += 1
        open_calls += [block["id"] for block in message["content"] if block["type"] == "tool-call"]
    return found


def test_m_701_prices_are_those_of_the_recorded_compactions() -> None:
    """The published packages have priced three ranges; the logs say what they found."""
    checked = 0
    for path in recorded():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        nodes: dict[Any, Any] = {row.get("seq"): row for row in rows if "surfaceOp" in row}
        for row in rows:
            if row.get("type") == "compaction/summary" and row["data"]["shadowedSeqs"][0] in nodes:
                shadowed = [nodes[seq] for seq in row["data"]["shadowedSeqs"]]
                assert sum(map(compaction.node_price, shadowed)) == row["data"]["shadowedTokenCount"]
                checked += 1
    assert checked


def recorded() -> Iterator[Path]:
    """The recorded log with a compaction."""
    yield corpus.REAL / "12-compaction.jsonl"


def check_prices() -> None:
    """Some prices, worked out by hand."""
    text = {"type": "text", "text": "12345"}
    call = {"type": "tool-call", "id": "k", "name": "abcd", "arguments": "12345678"}
    result = {"type": "tool-result", "toolCallId": "k", "content": [text, text], "isError": False}
    image = {"type": "image", "attachment": {}}
    assert compaction.tokens("") == 0
    assert [compaction.block_price(block) for block in (text, call, result, image)] == [6, 7, 16, 4]
    assert compaction.message_price({"content": [text, call]}) == 17
    assert compaction.header_price({"system": "12345678"}, ["1234", "12345"]) == 10 + 5 + 6
    assert compaction.header_price({}, []) == 0


HEADER = {"config": {"provider": "p", "model": "m"}}


def check_measure() -> None:
    """A provider's count is believed while the header is the same, and moves with what is added or taken away."""
    usage = {"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 5, "cacheWriteTokens": 1, "reasoningTokens": 9}
    assert compaction.reported(usage) == 126
    assert compaction.anchored(HEADER, usage, 127) is None
    assert compaction.anchored(HEADER, None, 1) is None
    anchor = compaction.anchored(HEADER, usage, 126)
    assert compaction.measured(HEADER, 130, anchor) == 130
    anchor = compaction.anchored(HEADER, usage, 100)
    assert compaction.measured(HEADER, 150, anchor) == 176
    assert compaction.measured(HEADER, 40, anchor) == 66
    assert compaction.measured({"config": {"provider": "p", "model": "other"}}, 40, anchor) == 40
    assert compaction.measured(HEADER, 40, None) == 40


def check_thresholds() -> None:
    """At the threshold it presses; one below it does not."""
    settings = Settings()
    assert [compaction.presses(size, 101, settings) for size in (79, 80)] == [False, True]
    assert compaction.retained(1000, settings) == 160
    assert compaction.retained(1000, Settings(retain_tokens=7)) == 7
    assert compaction.retained(1000, Settings(retain_tokens=0)) == 0


def check_overflow() -> None:
    """Only that failure, only so often, never after a cancel, and only when something was replaced."""
    one = Settings()
    assert compaction.may_repair("CONTEXT_WINDOW_EXCEEDED", 0, False, one)
    assert not compaction.may_repair("CONTEXT_WINDOW_EXCEEDED", 1, False, one)
    assert not compaction.may_repair("CONTEXT_WINDOW_EXCEEDED", 0, True, one)
    assert not compaction.may_repair("INVALID_REQUEST", 0, False, one)
    assert [compaction.repaired(*case) for case in ((1, 1, False), (1, 2, False), (1, 2, True))] == [False, True, False]


def check_blocked() -> None:
    """An open bracket bars the next one until the session was opened again."""
    cases = {(-1, -1, -1): False, (3, -1, -1): True, (3, 4, -1): False, (5, 4, -1): True, (5, 4, 6): False}
    assert {case: compaction.blocked(*case) for case in cases} == cases


def check_checkpoints() -> None:
    """M-708"""
    blocks = [{"type": "text", "text": "x"}, {"type": "text", "text": " \n"}, {"type": "reasoning", "text": "y"}]
    assert compaction.summary_of(blocks) == ({"type": "text", "text": "x"},)
    content = compaction.checkpoint_content(({"type": "text", "text": "x"},))
    assert [block["text"] for block in content[1:]] == ["x", "</compacted-summary>"]
    assert content[0]["text"].endswith("<compacted-summary>")
    assert compaction.checkpoint_source("v4", "c", None) == {"kind": "compact-checkpoint", "compactionId": "c"}
    assert compaction.checkpoint_source("v0", "c", "d") == {
        "kind": "plugin",
        "plugin": "compact",
        "compactionId": "c",
        "sourceCommandId": "d",
    }
    message = {"content": [{"type": "text", "text": "12345678"}]}
    assert [compaction.pays(compaction.Cut((1,), cost), message) for cost in (10, 11)] == [False, True]


def check_pruning() -> None:
    """M-709, INV-C3: long results before the tail, and nothing about them but their text."""
    long = "a" * 50 + "é" * 51
    dialects: tuple[Dialect, Dialect] = ("v4", "v0")
    for dialect in dialects:
        before = surface("ucrucr", dialect, long)
        costs = [compaction.node_price(event) for event in before.events]
        assert [one.seq for one in compaction.prunable(before, 0, LONG)] == [2, 5]
        assert [one.seq for one in compaction.prunable(before, 1, LONG)] == [2]
        assert [one.seq for one in compaction.prunable(before, sum(costs[3:]), LONG)] == [2]
        assert [one.seq for one in compaction.prunable(before, sum(costs[3:]) + 1, LONG)] == []
        assert compaction.prunable(surface("ucr", dialect, "a" * 100), 0, LONG) == ()
        (first, _) = compaction.prunable(before, 0, LONG)
        assert first.price == costs[2]
        text = json.dumps(first.data, ensure_ascii=False)
        assert text.replace(json.dumps("a" * 20 + PRUNED + "é" * 10, ensure_ascii=False), "@") == json.dumps(
            before.events[2]["data"], ensure_ascii=False
        ).replace(json.dumps(long, ensure_ascii=False), "@")
        event = {"type": "tool/result", "seq": 6, "data": first.data, "sourceEventSeqs": [2]}
        names = ("start", "end") if dialect == "v0" else ("startSeq", "endSeq")
        event["surfaceOp"] = {"op": "replace", **dict.fromkeys(names, 2)}
        assert breaches(before, event, 6) == ()


CHECKS = {
    "cut": all_cuts,
    "double": all_double_cuts,
    "prices": check_prices,
    "measure": check_measure,
    "thresholds": check_thresholds,
    "overflow": check_overflow,
    "blocked": check_blocked,
    "checkpoints": check_checkpoints,
    "pruning": check_pruning,
}


@pytest.mark.parametrize("name", [name for name in CHECKS if name not in ("cut", "double")])
def test_m_701_to_m_709_by_hand(name: str) -> None:
    CHECKS[name]()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"threshold_ratio": 0}, "thresholdRatio"),
        ({"threshold_ratio": 1.5}, "thresholdRatio"),
        ({"retain_ratio": 0.8}, "retainRatio"),
        ({"retain_ratio": -0.1}, "retainRatio"),
        ({"retain_tokens": -1}, "retain_tokens"),
        ({"compaction_retries": 1.5}, "compaction_retries"),
        ({"max_overflow_retries": True}, "max_overflow_retries"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"prune_budget": 100}, "prune_budget"),
    ],
)
def test_m_703_settings_that_make_no_sense_are_refused(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compaction.checked(Settings(**change))


# name, function, text, changed text, what it does, the check that notices
MUTANTS = [
    Mutant("head is cut", "cut", "0 if protected_head(surface) is None else 1", "0", "The prompt is replaced.", "cut"),
    Mutant("shortest cut", "cut", "best = length", "best = best or length", "The first edge is taken.", "cut"),
    Mutant("edges are free", "cut", "if balanced and", "if", "Calls are cut off.", "cut"),
    Mutant("tail is free", "leaves_enough", " and behind >= retain", "", "The tail is not kept.", "cut"),
    Mutant("nothing stays", "leaves_enough", "position < len(surface.nodes) and ", "", "All is replaced.", "cut"),
    Mutant("results settle nothing", "_edges", "if answered is not None", "if False", "No edge behind calls.", "cut"),
    Mutant("a result settles all", "_edges", "waiting -= Counter([answered])", "waiting.clear()", "As it says.", "cut"),
    Mutant("ids are a set", "_edges", "waiting.update(calls_of(event))",
           "waiting |= Counter(set(calls_of(event)))", "Two calls with one id are one.", "double"),
    Mutant("anchors cost", "node_price", ' or len(message["content"])', " or True", "Empty answers cost.", "cut"),
    Mutant("rounded down", "tokens", "(len(text) + 3) // 4", "len(text) // 4", "Three characters are free.", "prices"),
    Mutant("names are free", "block_price", 'tokens(block["name"]) + ', "", "A call's name is free.", "prices"),
    Mutant("roles are free", "message_price", "4 + sum", "sum", "A role is free.", "prices"),
    Mutant("prompt is free", "header_price", "8 + tokens(system)", "0", "The prompt is free.", "prices"),
    Mutant("low counts", "anchored", " or reported(usage) < priced", "", "A low count is believed.", "measure"),
    Mutant("any header", "measured", " or not same_header(header, anchor.header)", "", "Another model's.", "measure"),
    Mutant("no deltas", "measured", " + priced - anchor.priced", "", "What came since is free.", "measure"),
    Mutant("reasoning twice", "reported", '"cacheWriteTokens")', '"cacheWriteTokens", "reasoningTokens")',
           "Reasoning counts twice.", "measure"),
    Mutant("above only", "presses", ">=", ">", "At the threshold nothing happens.", "thresholds"),
    Mutant("zero is unset", "retained", "settings.retain_tokens is not None", "settings.retain_tokens",
           "No tail at all cannot be asked for.", "thresholds"),
    Mutant("any failure", "may_repair", "code == OVERFLOW and ", "", "Every failure is repaired.", "overflow"),
    Mutant("for ever", "may_repair", "repairs < settings.max_overflow_retries and ", "", "No limit.", "overflow"),
    Mutant("after a cancel", "may_repair", " and not aborted", "", "A cancelled turn goes on.", "overflow"),
    Mutant("the same again", "repaired", "after > before and ", "", "The same request again.", "overflow"),
    Mutant("cancel is lost", "repaired", " and not aborted", "", "A cancelled turn goes on.", "overflow"),
    Mutant("open is shut", "blocked", "started > max(ended, seeded)", "False", "Brackets nest.", "blocked"),
    Mutant("open for ever", "blocked", "max(ended, seeded)", "ended", "A crash bars it for ever.", "blocked"),
    Mutant("blank summary", "summary_of", ' and block["text"].strip()', "", "Blanks are a summary.", "checkpoints"),
    Mutant("as dear", "pays", "<", "<=", "Nothing is gained.", "checkpoints"),
    Mutant("tail is pruned", "prunable", " and behind >= retain", "", "The tail is shortened.", "pruning"),
    Mutant("own cost", "prunable", "        behind -= price\n", "", "A result is behind itself.", "pruning"),
    Mutant("at budget", "_short_blocks", "> settings", ">= settings", "Exactly the budget is too long.", "pruning"),
    Mutant("whole tail", "shortened", "text[len(text) - settings.prune_tail :]", "text", "Nothing goes.", "pruning"),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_every_fault_is_noticed(mutant: Mutant) -> None:
    with applied(mutant, {}, {"compaction": compaction}), pytest.raises(AssertionError):
        CHECKS[mutant.killer]()
