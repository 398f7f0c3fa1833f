"""Request by request: what is shown, and how much of it is shared, against the golden cases (PX-1 to PX-3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.tape import golden

from loopspec.surface import Surface, accept, empty
from loopspec.tape.index import LogIndex
from loopspec.tape.seal import History, entry_message, seal
from loopspec.values import Record


class Host:
    """The host of the golden cases: every record of a step in its place, so that the seqs agree."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.policy = History(case["policy"]["keepRecentTurns"])
        self.events: list[Record] = []
        self.surface: Surface = empty("v4")
        self.requests: list[dict[str, Any]] = []
        self.turn = 0
        self.step = 0

    def add(self, type: str, data: Any, operation: Any = None, sources: Any = None) -> int:
        event: dict[str, Any] = {"seq": len(self.events), "type": type, "data": data}
        if operation is not None:
            event["surfaceOp"] = operation
        if sources is not None:
            event["sourceEventSeqs"] = sources
        self.surface = accept(self.surface, event)
        self.events.append(event)
        return len(self.events) - 1

    def play(self, script: list[dict[str, Any]]) -> None:
        for item in script:
            self.turn += 1
            self.add("turn/start", {"turn": self.turn})
            pending = [message("user", item["user"], "user")]
            if "runtime" in item:
                pending.append(message("user", item["runtime"], "runtime-context"))
            self.step = 1
            unseen: list[int] = []
            for number, text in enumerate(item.get("tools", ())):
                self.request(pending, unseen)
                pending, unseen = [], [self.tool(f"c{self.turn}-{number}", text)]
                if not text.startswith("FOLD"):
                    unseen = []
                self.step += 1
            self.request(pending, unseen)
            self.say([{"type": "text", "text": item["reply"]}])
            self.add("step/end", {"turn": self.turn, "step": self.step})
            self.add("turn/end", {"turn": self.turn, "reason": {"kind": "completed"}})

    def request(self, pending: Sequence[Record], foldable: list[int]) -> None:
        entries = 0
        if self.step == 1:
            plan = seal(LogIndex(self.events), self.surface, pending, self.policy)
            for entry in plan.entries:
                self.add("user/message", entry_message("e", entry.text), entry.operation, entry.sources)
            entries = len(plan.entries)
        for seq in foldable:
            data = self.events[seq]["data"]
            folded = {**data, "message": {**data["message"], "content": [{"type": "text", "text": "VIEW"}]}}
            self.add("tool/result", folded, {"op": "replace", "startSeq": seq, "endSeq": seq}, [seq])
        self.add("step/start", {"turn": self.turn, "step": self.step})
        for entering in pending:
            self.add("user/message", entering, "append")
        shown = list(self.surface.nodes)
        row: dict[str, Any] = {
            "turn": self.turn,
            "step": self.step,
            "sealedEntries": entries,
            "messageSeqs": shown,
            "lastEntryIndex": max((at for at, seq in enumerate(shown) if is_entry(self.events[seq])), default=-1),
        }
        if self.requests:
            last = self.requests[-1]["messageSeqs"]
            common = next((at for at, (a, b) in enumerate(zip(last, shown, strict=False)) if a != b), len(last))
            row |= {"lcpWithPrevious": common, "isExtension": common == len(last)}
        self.requests.append(row)

    def say(self, content: list[Record]) -> None:
        data = {
            "turn": self.turn,
            "step": self.step,
            "message": {**message("assistant", "", "model"), "content": content},
        }
        self.add("assistant/message", data, "append")

    def tool(self, call: str, text: str) -> int:
        place = {"turn": self.turn, "step": self.step}
        self.say([{"type": "tool-call", "id": call, "name": "bash", "arguments": "{}"}])
        self.add("tool/call", {**place, "callId": call, "name": "bash", "arguments": "{}"})
        answer = {**message("tool", text, "tool"), "toolCallId": call}
        seq = self.add("tool/result", {**place, "message": answer}, "append")
        self.add("step/end", place)
        return seq


def message(role: str, text: str, source: str) -> dict[str, Any]:
    return {"id": "m", "role": role, "content": [{"type": "text", "text": text}], "source": {"kind": source}}


def is_entry(event: Record) -> bool:
    return bool(event["type"] == "user/message" and event["data"]["source"]["kind"] == "plugin:slice:history")


@pytest.mark.parametrize("id", golden.ids("p"))
def test_requests(id: str) -> None:
    case = golden.load(id)
    host = Host(case)
    host.play(case["script"])
    assert host.requests == case["expect"]["requests"]
    assert list(host.surface.nodes) == case["expect"]["finalSurface"]
    assert len(host.events) == case["expect"]["events"]
