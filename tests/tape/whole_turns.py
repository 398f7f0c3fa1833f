"""Sessions for the rules of the tape, written whole turns at a time."""

from __future__ import annotations

from typing import Any

from tests.tape.sessions import Session

from loopspec.tape.seal import History, seal


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
