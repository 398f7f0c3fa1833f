"""The recall tools, against the golden cases: pages, hits with scores, filters, refusals."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.tape import golden

from loopspec.profile import Law, law
from loopspec.tape import pages, recall, spill
from loopspec.tape.index import LogIndex
from loopspec.tape.search import query, search, search_page

SEED, ORIGINAL = law("seed", 4), law("dsh-0.1.7", 4)


def cases(id: str) -> list[Any]:
    case = golden.load(id)
    return [pytest.param(case["events"], row, id=str(row["call"]["args"])) for row in case["expect"]]


def answer(events: list[Any], call: dict[str, Any], choices: Law) -> str:
    index = LogIndex(events)
    arguments = call["args"]
    if call["tool"] == "recall_turn":
        turn = recall.turn_number(arguments.get("turn"))
        return pages.turn_page(index, turn, "full" if arguments.get("view") == "full" else "dialogue", choices)
    if call["tool"] == "recall_search":
        asked = query(arguments)
        return search_page(asked, search(index, asked, choices))

    def parts(seq: int) -> list[spill.Part]:
        texts = [block["text"] for block in events[seq]["data"]["message"]["content"]]
        return spill.parts(texts, lambda locator: False)

    return pages.step_page(index, recall.step_address(arguments), parts, {})


@pytest.mark.parametrize("choices", [SEED, ORIGINAL], ids=["seed", "original"])
@pytest.mark.parametrize(
    ("events", "row"), [*cases("r01-recall-turn"), *cases("r02-recall-search"), *cases("r03-recall-step")]
)
def test_output(events: list[Any], row: dict[str, Any], choices: Law) -> None:
    if row.get("output") is None:
        with pytest.raises(recall.RecallError) as refused:
            answer(events, row["call"], choices)
        absent = "no recorded turn 9 in this session (sealed turns: 1, 2, 3, 4, 5, 6)"
        assert str(refused.value) == row.get("error", absent)
    else:
        assert answer(events, row["call"], choices) == row["output"]


@pytest.mark.parametrize(("events", "row"), cases("r02-recall-search"))
def test_hits(events: list[Any], row: dict[str, Any]) -> None:
    hits = search(LogIndex(events), query(row["call"]["args"]))
    found = []
    for hit in hits:
        fields: dict[str, Any] = {"turn": hit.document.turn, "kind": hit.document.kind, "snippet": hit.snippet}
        fields |= {"score": pytest.approx(hit.score, abs=1e-9), "locator": hit.locator}
        if hit.document.step:
            fields["step"] = hit.document.step
        if hit.document.seq >= 0:
            fields["seq"] = hit.document.seq
        found.append(fields)
    assert found == row["hits"]


def partial(text: str, head: str, row: dict[str, Any]) -> str:
    found = recall.Found(0, head)
    if "grep" in row:
        pattern = re.compile(row["grep"], re.IGNORECASE)
        return pages.grep_page(found, text, row["grep"], lambda line: pattern.search(line) is not None)
    wanted = pages.line_range(row["lines"])
    assert wanted is not None
    return pages.lines_page(found, text, wanted, row["lines"])


@pytest.mark.parametrize("row", [row for row in golden.load("r04-expand-partials")["expect"] if row.get("grep") != "("])
def test_partials(row: dict[str, Any]) -> None:
    case = golden.load("r04-expand-partials")
    if "error" in row:
        with pytest.raises(recall.RecallError) as refused:
            partial(case["text"], case["head"], row)
        assert str(refused.value) == row["error"]
    else:
        assert partial(case["text"], case["head"], row) == row["output"]


def test_dispatch_records_are_on_the_full_page() -> None:
    case = golden.load("r06-ptc-dispatch-unreachable")
    (row,) = case["expect"]
    assert answer(case["events"], row["call"], ORIGINAL) == row["upstreamOutput"]
    page = answer(case["events"], row["call"], SEED)
    required = case["requiredHere"]
    assert required["containsText"] in page
    for kind in required["containsRecordTypes"]:
        assert f'{{"type":"{kind}","data":' in page
    assert SEED.recall_shows_dispatches
    assert not ORIGINAL.recall_shows_dispatches
