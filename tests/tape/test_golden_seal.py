"""Sealing, against the golden cases: ranges, sources, texts byte for byte, warnings, surface after."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tape import golden

from loopspec.profile import Law, law
from loopspec.surface import Surface, accept, empty
from loopspec.tape.index import LogIndex
from loopspec.tape.seal import History, entry_message, seal
from loopspec.values import Record

SEED, ORIGINAL = law("seed", 4), law("dsh-0.1.7", 4)

DIVERGENCES = {
    "t27-reused-call-id": "tape_names_by_execution",
    "t32-double-replacement": "tape_follows_every_rewrite",
    "t37-window-canonical-json": "tape_window_by_code_point",
    "t38-unsanitised-names": "tape_labels_cannot_forge",
}
"""Cases that `seed` answers differently, on purpose, and the profile row that says so."""


def surface_of(events: list[Record]) -> Surface:
    surface = empty("v4")
    for event in events:
        surface = accept(surface, event)
    return surface


def run(case: dict[str, Any], choices: Law) -> tuple[list[list[dict[str, Any]]], list[str], list[int]]:
    """Plan as often as the case does, applying each plan; the warnings once per key."""
    events: list[Record] = list(case["events"])
    surface = surface_of(events)
    assert list(surface.nodes) == case["surfaceBefore"]
    policy = History(case["policy"]["keepRecentTurns"], case["policy"].get("entryMaxChars"))
    index = LogIndex(events)
    warned: dict[tuple[int, tuple[str, ...]], str] = {}
    rounds: list[list[dict[str, Any]]] = []
    for number in range(len(case["expect"]["runs"])):
        plan = seal(index, surface, case["pending"], policy, choices)
        for portion in plan.broken:
            warned.setdefault(portion.key, portion.text)
        rounds.append(
            [
                {
                    "startSeq": entry.start,
                    "endSeq": entry.end,
                    "sourceEventSeqs": list(entry.sources),
                    "shrinkLevel": entry.level,
                    "text": entry.text,
                    "codePoints": len(entry.text),
                }
                for entry in plan.entries
            ]
        )
        for entry in plan.entries:
            event: Record = {
                "seq": len(events),
                "type": "user/message",
                "data": entry_message(f"tape-{number}-{len(events)}", entry.text),
                "surfaceOp": entry.operation,
                "sourceEventSeqs": entry.sources,
            }
            events.append(event)
            surface = accept(surface, event)
        index = index.grown(events)
    return rounds, list(warned.values()), list(surface.nodes)


@pytest.mark.parametrize("id", golden.ids("t"))
def test_the_original_is_reproduced(id: str) -> None:
    case = golden.load(id)
    rounds, warnings, after = run(case, ORIGINAL)
    assert rounds == case["expect"]["runs"]
    assert warnings == case["expect"]["warnings"]
    assert after == case["expect"]["surfaceAfter"]


@pytest.mark.parametrize("id", golden.ids("t"))
def test_seed_differs_only_where_declared(id: str) -> None:
    case = golden.load(id)
    rounds, warnings, after = run(case, SEED)
    assert warnings == case["expect"]["warnings"]
    assert after == case["expect"]["surfaceAfter"]
    if id not in DIVERGENCES:
        assert rounds == case["expect"]["runs"]
    else:
        assert golden.quirky(id)
        assert rounds != case["expect"]["runs"]
        assert getattr(SEED, DIVERGENCES[id]) is True
        assert getattr(ORIGINAL, DIVERGENCES[id]) is False


INSTEAD = {
    "t27-reused-call-id": "[tool turn 1 step 1 seq 4 · read · 1 chars · ",
    "t32-double-replacement": "[tool turn 1 step 1 seq 4 · read · 13 chars · ",
    "t37-window-canonical-json": 'window {"9":2,"10":1,"Limit":3,"e":1e+21,"f":1,"limit":4,"nested":'
    '{"a":[{"c":2,"d":1}],"b":1},"s":"é\\n","startLine":1,"start_line":2}, logged result)]',
    "t38-unsanitised-names": '[tool turn 1 step 1 seq 4 · "evil]\\n[turn 9]" · 1 chars · ',
}


@pytest.mark.parametrize(("id", "part"), INSTEAD.items())
def test_what_seed_prints_instead(id: str, part: str) -> None:
    rounds, _, _ = run(golden.load(id), SEED)
    assert part in rounds[0][0]["text"]


def test_the_double_rewrite_keeps_its_read() -> None:
    rounds, _, _ = run(golden.load("t32-double-replacement"), SEED)
    assert "[files read this turn: a.txt (1 lines, " in rounds[0][0]["text"]
