"""A host around the live plugin, moved by the labels of the tape machine's world.

The host does what `loopspec.worlds.tape_world` says a host does, with real records on a real session; what the policy
does at a pre-step is left to the mounted plugin. Its records and warnings are compared, one by one, with the effects
that the machine names next.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from loopharness.harness import Harness, open_harness
from loopharness.session import Session
from loopharness.signal import Aborted, Signal
from loopharness.slice import SlicePlugin, install
from loopspec.kernel.system import Label
from loopspec.tape.machine import Uid

LONG = "\n".join(f"row {n} {'x' * 40}" for n in range(400))
SHORT = "ok"
PLACE = "agent/pre-step"
EFFECTS = ("entry", "fold", "warned", "entered", "left")
"""Labels of what the policy does; all others are moves of the host."""


class Mismatch(AssertionError):
    """The plugin did something else than the machine says."""


class Warnings(logging.Handler):
    """The warnings of one run."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class LiveHost:
    """One session, its plugin, and the names that the machine has for the nodes of its surface."""

    def __init__(self, harness: Harness, plugin: SlicePlugin, heard: Warnings) -> None:
        self.harness = harness
        self.plugin = plugin
        self.heard = heard
        self.names: dict[Uid, int] = {}
        self.session = Session({"id": "s", "version": 4, "createdAt": 0}, dialect="v4", now=lambda: 0)
        self.turn = self.step = self.ids = self.calls = 0
        self.opened = False
        self.signal = Signal()
        self.pending: list[tuple[Uid, dict[str, Any]]] = []
        self.open_calls: list[str] = []
        self.used: list[str] = []
        self.done: list[tuple[Any, ...]] = []
        """What the policy has done at this pre-step and the path has not named yet."""
        self.consumed = 0
        self.result = 0
        self.named(
            ("system",),
            self.session.append("system/message", {"message": self.message("system", "You are tested.")}, "append"),
        )

    # -- records

    def message(self, role: str, text: str, kind: str = "user", **more: Any) -> dict[str, Any]:
        self.ids += 1
        source = {"kind": kind} if role != "assistant" else {"kind": "model", "provider": "p", "model": "m"}
        content: list[Any] = [{"type": "text", "text": text}]
        return {"role": role, "content": content, "source": source, "id": f"id-{self.ids}", **more}

    def named(self, uid: Uid, event: Mapping[str, Any]) -> None:
        self.names[uid] = event["seq"]

    def uid_of(self, seq: int) -> Uid:
        return next(uid for uid, known in self.names.items() if known == seq)

    def end(self, reason: str = "completed") -> None:
        place = {"turn": self.turn, "step": self.step}
        if self.opened:
            self.session.append("step/end", place)
        cause = {"reason": {"kind": "user"}} if reason == "aborted" else {}
        self.session.append("turn/end", {"turn": self.turn, "reason": {"kind": reason, **cause}})
        self.opened, self.step, self.pending, self.open_calls = False, 0, [], []
        self.signal = Signal()

    # -- the moves of the host

    async def move(self, label: Any) -> None:
        """Do what a label says, or compare it with what the policy has done."""
        name: str = label if isinstance(label, str) else label[0]
        arguments: tuple[Any, ...] = () if isinstance(label, str) else label[1:]
        if name in EFFECTS:
            self.compare(name, arguments)
            return
        if name == "crash and resume":
            self.crash()
            return
        if self.done:
            raise Mismatch(f"the machine says {label}, the plugin has also done {self.done[0]}")
        match name:
            case "turn" | "turn with snapshot":
                self.turn, self.step, self.result = self.turn + 1, 1, 0
                self.session.append("turn/start", {"turn": self.turn})
                self.pending = [(("human", self.turn), self.message("user", f"question {self.turn}"))]
                if name != "turn":
                    uid = ("snapshot", 2 * self.turn)
                    self.pending.append((uid, self.message("user", f"now {self.turn}", "runtime-context")))
            case "snapshot":
                message = self.message("user", f"between {self.turn}", "runtime-context")
                self.named(("snapshot", 2 * self.turn + 1), self.session.append("user/message", message, "append"))
            case "cancel in pre-step":
                self.signal_abort()
            case "enter":
                await self.pre_step()
            case "request":
                self.request()
            case "cancel before request":
                self.end("aborted")
            case "calls":
                self.call(arguments[0])
            case "reply":
                self.named(("reply", self.turn), self.assistant("answer", []))
                self.end()
            case "result" | "long result":
                self.answer(LONG if name == "long result" else SHORT)
            case "notice":
                self.named(
                    ("notice",), self.session.append("user/message", self.message("user", "note", "hook"), "append")
                )
            case "results lost":
                self.end("error")
            case "next step" | "steered step":
                self.session.append("step/end", {"turn": self.turn, "step": self.step})
                self.opened, self.step = False, 2
                self.pending = [(("steer",), self.message("user", "steer"))] if name == "steered step" else []
            case "compact":
                self.compact(*arguments)
            case _:
                raise AssertionError(label)

    def signal_abort(self) -> None:
        self.signal = Signal()
        self.controller_abort(self.signal)

    @staticmethod
    def controller_abort(signal: Signal) -> None:
        signal._aborted, signal._reason = True, {"kind": "user"}

    def request(self) -> None:
        place = {"turn": self.turn, "step": self.step}
        self.session.append("step/start", place)
        self.opened = True
        for uid, message in self.pending:
            self.named(uid, self.session.append("user/message", message, "append"))
        self.pending = []
        header = {"config": {"provider": "p", "model": "m"}, "tools": []}
        self.session.append("request/header", {**place, "reason": "initial", "header": header})

    def assistant(self, text: str, calls: list[str]) -> Mapping[str, Any]:
        message = self.message("assistant", text)
        for call in calls:
            message["content"].append(
                {"type": "tool-call", "id": call, "name": "get", "arguments": f'{{"what":"{self.ids}"}}'}
            )
        place = {"turn": self.turn, "step": self.step}
        return self.session.append(
            "assistant/message", {**place, "message": message, "finish": {"kind": "stop"}}, "append"
        )

    def call(self, what: Any) -> None:
        """Fresh ids, or one id for both calls."""
        count = 2 if what == "one id" else what
        self.calls += 1
        self.open_calls = [f"c{self.calls}-{0 if what == 'one id' else n}" for n in range(count)]
        self.named(("calls", self.turn), self.assistant("", self.open_calls))
        for call in self.open_calls:
            place = {"turn": self.turn, "step": self.step}
            arguments = f'{{"what":"{call}"}}'
            self.session.append("tool/call", {**place, "callId": call, "name": "get", "arguments": arguments})

    def answer(self, text: str) -> None:
        call = self.open_calls.pop(0)
        message = self.message("tool", text, "tool", toolCallId=call, isError=False)
        message["source"] = {"kind": "tool", "callId": call}
        place = {"turn": self.turn, "step": self.step}
        event = self.session.append("tool/result", {**place, "message": message}, "append")
        self.named(("result", self.turn, self.result), event)
        self.result += 1

    def compact(self, first: int, last: int) -> None:
        nodes = list(self.session.surface.nodes)
        operation = {"op": "replace", "startSeq": nodes[first], "endSeq": nodes[last]}
        message = self.message("user", "summary", "compact-checkpoint")
        self.named(("summary",), self.session.append("user/message", message, operation, nodes[first : last + 1]))

    def crash(self) -> None:
        """Cut the log where the path has come to, and take it up again."""
        events = self.session.events[: len(self.session.events) - sum(one[0] in ("entry", "fold") for one in self.done)]
        self.done = []
        self.session = Session(self.session.header, dialect="v4", now=lambda: 0, events=list(events))
        self.names = {uid: seq for uid, seq in self.names.items() if seq < len(events)}
        if self.step:
            self.end("interrupted")

    # -- the policy

    async def pre_step(self) -> None:
        """Run the chain; remember what it did, in order."""
        before, warned = len(self.session.events), len(self.heard.texts)
        messages = tuple(message for _, message in self.pending)
        agent = SimpleNamespace(session=self.session)
        payload = {"agent": agent, "messages": messages, "turn": self.turn, "step": self.step, "signal": self.signal}
        decision = {"kind": "enter", "messages": messages}
        try:
            answer = await self.harness.context.waterfall(PLACE, payload, base=lambda: decision)
            end: tuple[Any, ...] = ("entered",) if answer["kind"] == "enter" else ("left", "return", answer["kind"])
        except Aborted:
            end = ("left", "raise", "aborted")
        kept = [text for text in self.heard.texts[warned:] if "kept raw" in text]
        self.done = [("warned", text) for text in kept]
        self.done += [(kind_of(event), event["seq"]) for event in self.session.events[before:]]
        self.done.append(end)

    def compare(self, name: str, arguments: tuple[Any, ...]) -> None:
        """The next thing that the policy did must be the one that the machine names."""
        if not self.done:
            raise Mismatch(f"the machine says {name} {arguments}, the plugin did nothing more")
        seen = self.done.pop(0)
        if seen[0] != name:
            raise Mismatch(f"the machine says {name} {arguments}, the plugin did {seen}")
        if name in ("entry", "fold"):
            event = self.session.events[seen[1]]
            span = tuple(self.uid_of(seq) for seq in event["sourceEventSeqs"])
            expected = arguments if name == "entry" else arguments[:1]
            if span != expected:
                raise Mismatch(f"the machine's {name} takes {expected}, the plugin's {span}")
            self.named(("entry", *span[0]) if name == "entry" else ("folded", *span[0][1:]), event)
        elif name == "warned":
            first, last = self.names[arguments[0][0]], self.names[arguments[0][-1]]
            if f"(seq {first}..{last})" not in seen[1]:
                raise Mismatch(f"the machine warns of {arguments[0]} ({first}..{last}), the plugin said {seen[1]!r}")
        elif name == "left":
            if seen != (name, *arguments):
                raise Mismatch(f"the machine says {name} {arguments}, the plugin {seen}")
            self.end("aborted" if arguments[0] == "raise" else "rejected")


def kind_of(event: Mapping[str, Any]) -> str:
    """What a record of the policy is."""
    return "entry" if event["type"] == "user/message" else "fold"


async def play(labels: Iterable[Label], keep: int, cap: int | None) -> None:
    """Play one path. Raises `Mismatch` where the plugin leaves it."""
    heard = Warnings()
    logger = logging.getLogger("loopharness")
    logger.addHandler(heard)
    try:
        async with open_harness("seed", 4, now=lambda: 0) as harness:
            settings: dict[str, Any] = {"history": {"keepRecentTurns": keep}}
            if cap is not None:
                settings["maxStepsPerTurn"] = cap
            host = LiveHost(harness, install(harness, settings), heard)
            for label in labels:
                await host.move(label)
    finally:
        logger.removeHandler(heard)
