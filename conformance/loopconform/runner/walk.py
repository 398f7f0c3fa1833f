"""Random programs, made while they are played: whoever stands at a gate is released some time, somehow."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from loopconform.protocol.parts import OUTCOMES
from loopconform.protocol.replies import HelloReply, Settled
from loopconform.protocol.requests import REQUEST, Open

LOOP_GATES = (
    "assembly", "pre-step", "request", "prepare", "chunk", "close", "request-error", "tool-pre", "tool", "tool-post",
    "turn-stopping", "maintenance",
)  # fmt: skip

REACTIVE_RECORDS = (
    "agent/inbox/spliced", "turn/start", "step/start", "user/message", "request/header", "assistant/chunk",
    "assistant/message", "tool/call", "tool/result", "step/end", "turn/end", "conformance/note",
)  # fmt: skip
REACTIVE_EVENTS = (
    "agent/status", "agent/inbox/inserted", "agent/inbox/claimed", "agent/inbox/discarded", "agent/error",
    "tools/result", "signal/abort",
)  # fmt: skip
VETOED = ("turn/start", "step/start", "user/message", "assistant/chunk", "step/end", "turn/end", "agent/inbox/spliced")


class Walk:
    """One random program over one agent. `see` every message; iterate for the requests."""

    def __init__(self, chance: random.Random, hello: HelloReply, session_format: int, length: int) -> None:
        self._chance = chance
        self._hello = hello
        self._length = length
        self._messages = 0
        self._calls = 0
        self._parked: list[Any] = []
        gates = [gate for gate in LOOP_GATES if gate in hello.gates]
        held = chance.sample(gates, chance.randint(1, min(5, len(gates)))) if gates else []
        held += [gate for gate in ("chunk",) if gate in gates and gate not in held and chance.random() < 0.4]
        self.opening = Open(
            verb="open",
            session_format=session_format,
            hold=tuple({"gate": gate, "honour": chance.random() < 0.1} for gate in held),
            tools=({"name": "p"}, {"name": "x", "parallel": False}),
            cap=chance.choice((1, 2, 10)),
        )
        self._held = held

    def see(self, reply: Any) -> None:
        """Remember who stands at a gate."""
        if isinstance(reply, Settled):
            self._parked = [one for one in reply.parked if one.gate in LOOP_GATES]

    def __iter__(self) -> Iterator[Any]:
        yield self._request("do", ops=[{"op": "create"}])
        yield self._request("settle")
        for _ in range(self._length):
            yield from self._step()
            yield self._request("settle")

    def _request(self, verb: str, **fields: Any) -> Any:
        return REQUEST.validate_python({"verb": verb, **fields})

    def _step(self) -> Iterator[Any]:
        chance = self._chance
        if chance.random() < 0.25:
            yield self._reaction()
        if chance.random() < 0.15 and self._hello.gates:
            gate = chance.choice([gate for gate in LOOP_GATES if gate in self._hello.gates and gate != "close"])
            yield self._request("plan", gate=gate, outcome=self._outcome(gate))
        if self._hello.vetoes and chance.random() < 0.06:
            yield self._request("veto", record=chance.choice(VETOED))
        if self._parked and chance.random() < 0.65:
            one = chance.choice(self._parked)
            ops = self._ops(2) if chance.random() < 0.25 else []
            outcome = self._outcome(one.gate)
            yield self._request("release", gate=one.gate, agent=one.agent, key=one.key, outcome=outcome, ops=ops)
        else:
            yield self._request("do", ops=self._ops(3))

    def _reaction(self) -> Any:
        chance = self._chance
        events = [event for event in REACTIVE_EVENTS if event in self._hello.events]
        on: dict[str, Any] = {"nth": chance.choice((1, 1, 2))}
        if not events or chance.random() < 0.5:
            on["record"] = chance.choice(REACTIVE_RECORDS)
        else:
            on["live"] = chance.choice(events)
        return self._request("react", on=on, ops=self._ops(2))

    def _ops(self, most: int) -> list[dict[str, Any]]:
        known = set(self._hello.ops)
        found = [op for op in (self._op() for _ in range(self._chance.randint(1, most))) if op["op"] in known]
        return found or [{"op": "followup", "message": self._message()}]

    def _op(self) -> dict[str, Any]:
        chance = self._chance
        kind = chance.choices(
            ("followup", "steer", "inject", "cancel", "maintenance", "remove", "replace", "clear", "splice", "send",
             "when-idle", "append", "cap", "tool", "drop-tool"),
            (6, 5, 4, 5, 2, 1, 1, 1, 1, 1, 0.7, 0.5, 0.2, 0.3, 0.2),
        )[0]  # fmt: skip
        if kind in ("followup", "steer", "inject"):
            return {"op": kind, "message": self._message()}
        if kind == "send":
            return {"op": kind, "message": self._message(), "target": "next-turn", "wakeup": False}
        if kind == "cancel":
            return {"op": kind, "cause": chance.choice(("user", "hook", "parent", "disposed")),
                    "keepInbox": chance.random() < 0.5}  # fmt: skip
        if kind == "remove":
            return {"op": kind, "message": self._old()}
        if kind == "replace":
            return {"op": kind, "message": self._old(), "by": self._message()}
        if kind == "splice":
            target = chance.choice(("next-step", "next-turn"))
            start, count = chance.choice((0, 1, -1, "Infinity", 0.5)), chance.choice((0, 1, 2))
            return {"op": kind, "target": target, "start": start, "deleteCount": count, "messages": [self._message()]}
        if kind == "append":
            return {"op": kind, "type": "conformance/note", "data": {}}
        if kind == "cap":
            return {"op": kind, "size": chance.choice((1, 2))}
        if kind == "tool":
            return {"op": kind, "name": chance.choice(("p", "x")), "parallel": chance.random() < 0.5}
        if kind == "drop-tool":
            return {"op": kind, "name": "x"}
        return {"op": kind}

    def _message(self) -> str:
        if self._messages and self._chance.random() < 0.05:
            return self._old()
        self._messages += 1
        return f"m{self._messages}"

    def _old(self) -> str:
        return f"m{self._chance.randint(max(1, self._messages - 3), max(1, self._messages))}"

    def _outcome(self, gate: str) -> dict[str, Any]:
        chance = self._chance
        if gate == "chunk":
            return self._chunk()
        kinds = OUTCOMES.get(gate, ("done", "throws"))
        kind = kinds[0] if chance.random() < 0.6 else chance.choice(kinds)
        outcome: dict[str, Any] = {"kind": kind}
        if kind == "enter":
            outcome["messages"] = []
        elif kind == "config":
            outcome["model"] = chance.choice(("m1", "m2"))
        elif kind == "success":
            outcome["concludes"] = chance.random() < 0.3
        elif kind in ("accept", "block") and chance.random() < 0.5:
            outcome["contexts"] = [self._message()]
        return outcome

    def _chunk(self) -> dict[str, Any]:
        draw = self._chance.random()
        if draw < 0.25:
            return {"kind": "end"}
        if draw < 0.3:
            return {"kind": "throws"}
        chunk: dict[str, Any] = {"type": "block-end", "index": 0, "block": {"type": "text", "text": "visible"}}
        if 0.5 <= draw < 0.8:
            self._calls += 1
            name = self._chance.choice(("p", "p", "x"))
            block = {"type": "tool-call", "id": f"c{self._calls}", "name": name, "arguments": "{}"}
            chunk = {"type": "block-end", "index": self._calls, "block": block}
        elif 0.8 <= draw < 0.9:
            reason = self._chance.choice(("stop", "max-tokens"))
            chunk = {"type": "finish", "reason": {"kind": reason}}
        elif 0.9 <= draw < 0.95:
            failure = {"message": "planned", "code": "SERVER"}
            chunk = {"type": "finish", "reason": {"kind": "error", "failure": failure}}
        elif draw >= 0.95:
            chunk = {"type": "block-start", "index": 0, "blockType": "text"}
        return {"kind": "chunk", "chunk": chunk}
