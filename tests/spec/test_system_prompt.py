"""The system prompt on the surface: what reconciliation appends and replaces, and that it always converges."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopspec import surface as surfaces
from loopspec.surface import Surface
from loopspec.system_prompt import (
    AppendSystem,
    Change,
    ReplaceSystem,
    SystemNode,
    content_of,
    reconcile,
    system_nodes,
    text_of,
)


def nodes(*texts: str | None) -> list[SystemNode]:
    return [SystemNode(seq, text) for seq, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("texts", "rendered", "in_history", "continues", "changes"),
    [
        ((), "A", False, False, [AppendSystem("A")]),
        ((), "", False, False, [AppendSystem("")]),
        ((), "A", True, True, [AppendSystem("A")]),
        (("A",), "A", False, True, []),
        (("A",), "B", False, True, [ReplaceSystem(0, "B")]),
        (("",), "B", False, True, [ReplaceSystem(0, "B")]),
        ((None,), "B", False, True, [ReplaceSystem(0, "B")]),
        (("A",), "", False, True, [ReplaceSystem(0, "")]),
        (("A",), "B", True, True, [AppendSystem("B")]),
        (("A",), "A", True, True, []),
        (("A", "B"), "B", True, True, []),
        (("A", "B"), "A", True, True, [AppendSystem("A")]),
        (("A", ""), "A", True, True, []),
        (("A",), "B", True, False, [ReplaceSystem(0, "B")]),
        (("A",), "B", False, False, [ReplaceSystem(0, "B")]),
        (("A", "B"), "B", True, False, [ReplaceSystem(1, ""), ReplaceSystem(0, "B")]),
        (("A", "B", "C"), "A", False, True, [ReplaceSystem(1, ""), ReplaceSystem(2, "")]),
        (("A", "", "C"), "D", False, True, [ReplaceSystem(2, ""), ReplaceSystem(0, "D")]),
        (("A", "B"), "", True, True, [ReplaceSystem(1, ""), ReplaceSystem(0, "")]),
        (("", ""), "", True, True, []),
    ],
)
def test_the_plan(texts: Any, rendered: str, in_history: bool, continues: bool, changes: list[Change]) -> None:
    """S-REQ-20, line by line"""
    plan = reconcile(nodes(*texts), rendered, in_history=in_history, continues_series=continues)
    assert list(plan) == changes


def event(seq: int, text: str, **extra: Any) -> dict[str, Any]:
    message = {"id": f"s{seq}", "role": "system", "content": content_of(text), "source": {"kind": "system-prompt"}}
    data = {"turn": 1, "step": 1, "message": message}
    return {"type": "system/message", "seq": seq, "time": 0, "data": data, "surfaceOp": "append", **extra}


def perform(surface: Surface, seq: int, plan: tuple[Change, ...]) -> tuple[Surface, int]:
    """Log the changes as events of a writer, every one of them judged by the surface."""
    for change in plan:
        row = event(seq, change.text)
        if isinstance(change, ReplaceSystem):
            operation = {"op": "replace", "startSeq": change.seq, "endSeq": change.seq}
            row |= {"surfaceOp": operation, "sourceEventSeqs": [change.seq]}
        surface = surfaces.accept(surface, row, seq)
        seq += 1
    return surface, seq


@given(st.lists(st.tuples(st.sampled_from(["", "A", "B"]), st.booleans(), st.booleans()), max_size=8))
def test_whatever_happened_before_the_model_sees_the_rendered_prompt_last(steps: list[tuple[str, bool, bool]]) -> None:
    """The plan is legal on the surface, a second plan has nothing to do, and old prompts are seen only in a series."""
    surface, seq = surfaces.empty("v4"), 0
    for rendered, in_history, continues in steps:
        plan = reconcile(system_nodes(surface), rendered, in_history=in_history, continues_series=continues)
        surface, seq = perform(surface, seq, plan)
        again = reconcile(system_nodes(surface), rendered, in_history=in_history, continues_series=continues)
        assert again == ()
        seen = [message["content"][0]["text"] for message in surface.messages]
        assert seen[-1:] == ([rendered] if rendered else [])
        if not (in_history and continues):
            assert len(seen) <= 1
        assert surfaces.protected_head(surface) == surface.nodes[0]


def test_text_and_content() -> None:
    assert text_of([]) == ""
    assert text_of(content_of("A")) == "A"
    assert text_of([{"type": "image"}]) is None
    assert text_of([*content_of("A"), *content_of("B")]) is None
    assert content_of("") == ()
