"""The tape: cost of a seal as a session grows, and what requests share with the policy and without it."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.measure import Figure, Status
from loopharness.session import Session
from loopharness.slice.state import SessionTape
from loopspec.profile import law
from loopspec.tape.config import SliceConfig
from loopspec.tape.prefix import Compared, report

TURNS = (10, 100, 1000, 5000)
WINDOW = 20
"""How many turns around one of `TURNS` a figure averages over."""

OUTPUT = "\n".join(f"line {number} of a tool result that is neither code nor long" for number in range(20))


class Conversation:
    """A session of equal turns, each with a prompt, a tool call, its result and a reply, written without a model."""

    def __init__(self, sealed: bool) -> None:
        self.header = {"type": "session", "version": 4, "id": "bench", "createdAt": 0, "isSeeded": False}
        self.session = Session(self.header, now=lambda: 0)
        self.tape = SessionTape(self.session, SliceConfig(), law("seed", 4), None) if sealed else None
        self.turn = 0
        self.spent = 0.0
        system = self._message("system", [{"type": "text", "text": "You are measured."}], "system-prompt")
        self.session.append("system/message", {"turn": 1, "step": 1, "message": system}, "append")

    def play(self, until: int) -> None:
        """Turns up to number `until`; `spent` grows by the CPU time of their seals."""
        while self.turn < until:
            self._one_turn()

    def _one_turn(self) -> None:
        session = self.session
        self.turn += 1
        session.append("turn/start", {"turn": self.turn})
        prompt = self._message("user", [{"type": "text", "text": f"question {self.turn}"}], "user")
        if self.tape is not None:
            start = time.thread_time()
            self.tape.seal([prompt], lambda text: None)
            self.spent += time.thread_time() - start
        place = {"turn": self.turn, "step": 1}
        session.append("step/start", place)
        session.append("user/message", prompt, "append")
        if self.turn == 1:
            config = {"provider": "p", "model": "m"}
            session.append("request/header", {**place, "header": {"config": config}, "reason": "initial"})
        call = {"type": "tool-call", "id": f"c{self.turn}", "name": "bash", "arguments": '{"command":"x"}'}
        self._say(place, [call])
        session.append("tool/call", {**place, "callId": call["id"], "name": "bash", "arguments": call["arguments"]})
        answer = self._message("tool", [{"type": "text", "text": OUTPUT}], "tool")
        answer["toolCallId"] = answer["source"]["callId"] = call["id"]
        session.append("tool/result", {**place, "message": answer}, "append")
        session.append("step/end", place)
        place = {"turn": self.turn, "step": 2}
        session.append("step/start", place)
        self._say(place, [{"type": "text", "text": f"Answer {self.turn}."}])
        session.append("step/end", place)
        session.append("turn/end", {"turn": self.turn, "reason": {"kind": "completed"}})

    def _say(self, place: dict[str, int], content: list[Any]) -> None:
        message = self._message("assistant", content, "model")
        message["source"] |= {"provider": "p", "model": "m"}
        self.session.append("assistant/message", {**place, "message": message}, "append")

    def _message(self, role: str, content: list[Any], source: str) -> dict[str, Any]:
        return {"id": f"m{len(self.session.events)}", "role": role, "content": content, "source": {"kind": source}}


def seal_costs() -> dict[int, float]:
    """CPU microseconds of one seal, around each of `TURNS`."""
    talk = Conversation(sealed=True)
    found: dict[int, float] = {}
    for turn in TURNS:
        talk.play(max(turn - WINDOW // 2, 1))
        first, spent = talk.turn, talk.spent
        talk.play(first + WINDOW)
        found[turn] = 1e6 * (talk.spent - spent) / WINDOW
    return found


def requests(sealed: bool, turns: int = 200) -> list[Compared]:
    """What the requests of a session of 200 turns share."""
    talk = Conversation(sealed)
    talk.play(turns)
    return list(report(talk.header, talk.session.events))


def workloads(status: Status) -> list[Figure]:
    """All figures of this file."""
    with status("seal at turn 10, 100, 1,000, 5,000"):
        costs = [seal_costs() for _ in range(3)]
    figures = [Figure(f"seal, turn {turn:,}", tuple(cost[turn] for cost in costs), "CPU µs") for turn in TURNS]
    ratio = tuple(cost[TURNS[-1]] / cost[100] for cost in costs)
    figures.append(Figure("turn 5,000 ÷ turn 100", ratio, "ratio"))
    for words, sealed in (("tape", True), ("no tape", False)):
        with status(f"requests {words}"):
            found = requests(sealed)
        sent = sum(item.size for item in found)
        kept = sum(item.kept_bytes for item in found)
        figures += [
            Figure(f"{words}: request 400", (float(found[-1].size),), "bytes"),
            Figure(f"{words}: 400 requests", (float(sent),), "bytes"),
            Figure(f"{words}: reusable", (100 * kept / sent,), "% of bytes"),
            Figure(f"{words}: not reusable", (float(sent - kept),), "bytes"),
        ]
    return figures
