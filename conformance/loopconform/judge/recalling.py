"""What the recall tools of the slice policy answer over a log, by `loopspec.tape`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loopconform.judge.folding import nobodys
from loopspec.profile import Law
from loopspec.tape import pages, recall, spill
from loopspec.tape.index import LogIndex
from loopspec.tape.search import query, search, search_page
from loopspec.tape.text import outcome, text_parts, whole


def page(index: LogIndex, tool: str, arguments: str, choices: Law) -> str | None:
    """The text of a call's answer; `None` where the call fails (RC-05, RC-11, RC-28, RC-31)."""
    given = _object(arguments)
    try:
        if tool == "recall_turn":
            view: pages.View = "full" if given.get("view") == "full" else "dialogue"
            return pages.turn_page(index, recall.turn_number(given.get("turn")), view, choices)
        if tool == "recall_search":
            asked = query(given)
            return search_page(asked, search(index, asked, choices))
        if tool == "recall_step":
            return pages.step_page(index, recall.step_address(given), lambda seq: _parts(index, seq), {})
        return _expanded(index, given)
    except recall.RecallError:
        return None


def _expanded(index: LogIndex, given: Mapping[str, Any]) -> str:
    found = recall.find_result(index, given)
    text = spill.full_text(found.head, _parts(index, found.seq), {})
    wanted = pages.line_range(given.get("lines"))
    if wanted is None:
        return pages.full_page(found, text)
    return pages.lines_page(found, text, wanted, given["lines"].strip())


def _parts(index: LogIndex, seq: int) -> list[spill.Part]:
    """Nothing is stored beside the log here: no text is a preview of ours (RC-38)."""
    texts = [whole(text) for text in text_parts(outcome(index.events[seq]["data"]).content)]
    return spill.parts(texts, nobodys)


def _object(arguments: str) -> Mapping[str, Any]:
    value = json.loads(arguments)
    return value if isinstance(value, Mapping) else {}
