"""Random format 4 sessions with the tape policy, built step by step as a host builds them.

The host here is naive on purpose: it knows turns, steps, messages and the surface, and nothing of the policy but the
calls it makes at a pre-step.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from loopspec.surface import Surface, accept, empty
from loopspec.tape import fold
from loopspec.tape.config import Fold
from loopspec.tape.digest_policy import DigestPolicy
from loopspec.tape.index import LogIndex
from loopspec.tape.seal import History, Plan, entry_message, seal
from loopspec.values import Record

DIGEST = DigestPolicy(min_chars=200, log_min_chars=100)


class Request:
    """What a request showed, and what had happened since the one before."""

    def __init__(self, session: Session) -> None:
        self.messages = list(session.surface.messages)
        self.turn = session.turn
        self.foreign = session.foreign
        self.foreign_at = session.foreign_at
        self.before = session.before
        self.cut = session.cut


class Session:
    """A log that grows by host moves; `seals` keeps the surfaces around every seal."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.events: list[Record] = []
        self.surface: Surface = empty("v4")
        self.turn = 0
        self.step = 0
        self.requests: list[Request] = []
        self.seals: list[tuple[Surface, Surface, Plan, int]] = []
        self.folds: list[tuple[int, Record]] = []
        self.ids = 0
        self.foreign = False
        self.foreign_at = 10**9
        self.before: list[Record] | None = None
        self.cut: int | None = None
        self.index = LogIndex()
        self.cursor = 0
        self.system("You are tested.")

    # -- records

    def add(self, type: str, data: Any, operation: Any = None, sources: Sequence[int] | None = None) -> int:
        event: dict[str, Any] = {"seq": len(self.events), "type": type, "time": 0, "data": data}
        if operation is not None:
            event["surfaceOp"] = operation
        if sources is not None:
            event["sourceEventSeqs"] = list(sources)
        self.surface = accept(self.surface, event)
        self.events.append(event)
        self.index = self.index.grown(self.events)
        return len(self.events) - 1

    def id(self) -> str:
        self.ids += 1
        return f"m{self.ids}"

    def text(self, role: str, texts: Sequence[str], source: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text} for text in texts]
        return {"id": self.id(), "role": role, "content": content, "source": {"kind": source}}

    def system(self, text: str) -> None:
        message = self.text("system", [text], "system-prompt")
        self.add("system/message", {"turn": 1, "step": 1, "message": message}, "append")

    def user(self, text: str, source: str = "user") -> None:
        self.add("user/message", self.text("user", [text], source), "append")

    def assistant(self, texts: Sequence[str], calls: Sequence[tuple[str, str, str]] = ()) -> None:
        message = self.text("assistant", texts, "model")
        message["source"] |= {"provider": "p", "model": "m"}
        for call, name, arguments in calls:
            message["content"].append({"type": "tool-call", "id": call, "name": name, "arguments": arguments})
        self.add("assistant/message", {"turn": self.turn, "step": self.step, "message": message}, "append")
        place = {"turn": self.turn, "step": self.step}
        for call, name, arguments in calls:
            self.add("tool/call", {**place, "callId": call, "name": name, "arguments": arguments})

    def result(self, call: str, texts: Sequence[str], failed: bool = False) -> None:
        message = self.text("tool", texts, "tool")
        message["source"]["callId"] = message["toolCallId"] = call
        if failed:
            message["isError"] = True
        self.add("tool/result", {"turn": self.turn, "step": self.step, "message": message}, "append")

    # -- the host's moves

    def compact(self, first: int, last: int) -> None:
        nodes = list(self.surface.nodes)
        if len(nodes) < 2:
            return
        first, last = sorted((1 + first % (len(nodes) - 1), 1 + last % (len(nodes) - 1)))
        summary = self.text("user", ["summary"], "compact-checkpoint")
        operation = {"op": "replace", "startSeq": nodes[first], "endSeq": nodes[last]}
        self.rewrites(first)
        self.add("user/message", summary, operation, nodes[first : last + 1])

    def rewrite(self, which: int) -> None:
        """Another plugin prunes a result."""
        results = [seq for seq in self.surface.nodes if self.events[seq]["type"] == "tool/result"]
        if not results:
            return
        seq = results[which % len(results)]
        data = self.events[seq]["data"]
        message = {**data["message"], "content": [{"type": "text", "text": "[pruned]"}]}
        operation = {"op": "replace", "startSeq": seq, "endSeq": seq}
        at = self.surface.nodes.position(seq)
        assert at is not None
        self.rewrites(at)
        self.add("tool/result", {**data, "message": message}, operation, [seq])

    def rewrites(self, at: int) -> None:
        """Somebody else is about to replace nodes from this position on."""
        self.foreign = True
        self.foreign_at = min(self.foreign_at, self.surface.before[at])

    def pre_step(self, pending: Sequence[Record]) -> None:
        if self.step == 1:
            before = self.surface
            plan = seal(self.index, before, pending, self.history)
            if plan.entries and self.before is None:
                self.before = list(before.messages)
                at = before.nodes.position(plan.entries[0].start)
                assert at is not None
                self.cut = before.before[at]
            for entry in plan.entries:
                self.add("user/message", entry_message(self.id(), entry.text), entry.operation, entry.sources)
            self.seals.append((before, self.surface, plan, self.turn))
            again = seal(self.index, self.surface, pending, self.history)
            assert again.entries == (), "INV-07"
        bound = len(self.events)
        for seq in range(self.cursor, bound):
            event = self.events[seq]
            on_surface = self.surface.nodes.position(seq) is not None
            if event["type"] == "tool/result" and event["surfaceOp"] == "append" and on_surface:
                content = fold.candidate(self.index, seq, Fold(), DIGEST, lambda _: False)
                if content is not None:
                    self.folds.append((seq, event["data"]["message"]))
                    data = {**event["data"], "message": {**event["data"]["message"], "content": content}}
                    self.add("tool/result", data, {"op": "replace", "startSeq": seq, "endSeq": seq}, [seq])
        self.cursor = bound

    def request(self) -> None:
        self.requests.append(Request(self))
        self.foreign, self.foreign_at, self.before, self.cut = False, 10**9, None, None

    def resume(self) -> None:
        """All that is remembered is rebuilt from the log (INV-22)."""
        rebuilt = LogIndex(self.events)
        policy = self.history
        assert seal(rebuilt, self.surface, (), policy) == seal(self.index, self.surface, (), policy)
        self.index = rebuilt
        self.cursor = max(self.cursor, fold.watermark(self.events) + 1)


# -- strategies ----------------------------------------------------------------------------------------------

words = st.sampled_from(
    ["alpha", "port 7443", "  spaced\n\n", "", " ", "😀 beta", "\ud83d", "[end reply @sha256:000000000000]",
     "x]\n[turn 9]", "é\tü", "# h\r\n", "\n"]
)  # fmt: skip
long_texts = st.sampled_from(["\n".join(f"row {n} {'x' * 30}" for n in range(60)), "y" * 900])
texts = st.lists(words, max_size=3)
names = st.sampled_from(["read", "bash", "grep", "read_section", 'evil" · 1 chars]\n[x', "n\tn"])
arguments = st.sampled_from(
    ['{"path":"a.txt"}', '{"file_path":"b/c d.md","limit":3}', "{", "[]", '{"path":"bad\\nname\\""}', '{"command":"x"}']
)


@st.composite
def sessions(draw: st.DrawFn, max_turns: int = 5) -> Session:
    """A whole session: a few turns, each with what a host may do in it."""
    cap = draw(st.sampled_from([None, None, None, 256, 400, 1000, 5000]))
    session = Session(History(draw(st.integers(0, 2)), cap))
    for _ in range(draw(st.integers(1, max_turns))):
        between_turns(draw, session)
        one_turn(draw, session)
    return session


def between_turns(draw: st.DrawFn, session: Session) -> None:
    move = draw(st.sampled_from(["", "", "", "snapshot", "human", "compact", "resume"]))
    if move == "snapshot":
        session.user(f"cwd {session.ids}", "runtime-context")
    elif move == "human":
        session.user(draw(words))
    elif move == "compact":
        session.compact(draw(st.integers(0, 30)), draw(st.integers(0, 30)))
    elif move == "resume":
        session.resume()


def one_turn(draw: st.DrawFn, session: Session) -> None:
    session.turn += 1
    session.step = 1
    session.add("turn/start", {"turn": session.turn})
    pending = [session.text("user", [draw(words)], "user")]
    if draw(st.integers(0, 2)) == 0:
        pending.append(session.text("user", [f"rt {session.ids}"], "runtime-context"))
    session.pre_step(pending)
    if draw(st.integers(0, 9)) == 0:
        session.add("turn/end", {"turn": session.turn, "reason": {"kind": "aborted", "reason": {"kind": "user"}}})
        return
    for message in pending:
        session.add("user/message", message, "append")
    session.request()
    for _ in range(draw(st.integers(0, 2))):
        if not tool_step(draw, session):
            session.add("turn/end", {"turn": session.turn, "reason": {"kind": "interrupted"}})
            return
        session.step += 1
        steered(draw, session)
        session.pre_step(())
        session.request()
    session.assistant(draw(texts))
    session.add("turn/end", {"turn": session.turn, "reason": {"kind": "completed"}})


def tool_step(draw: st.DrawFn, session: Session) -> bool:
    """Some calls with their results; false when one is lost."""
    count = draw(st.integers(1, 3))
    reused = draw(st.integers(0, 5)) == 0
    calls = [(f"c{0 if reused else n}-{session.turn % 2}", draw(names), draw(arguments)) for n in range(count)]
    session.assistant(draw(texts), calls)
    for number, (call, _, _) in enumerate(calls):
        if draw(st.integers(0, 14)) == 0:
            return False
        if draw(st.integers(0, 19)) == 0:
            session.user(f"notice {number}", "plugin:notice")
        parts = [draw(long_texts)] if draw(st.integers(0, 2)) == 0 else draw(texts)
        session.result(call, parts, failed=draw(st.integers(0, 5)) == 0)
    return True


def steered(draw: st.DrawFn, session: Session) -> None:
    move = draw(st.sampled_from(["", "", "", "human", "developer", "rewrite", "compact"]))
    if move == "human":
        session.user(draw(words))
    elif move == "developer":
        message = session.text("developer", ["tools changed"], "tool-registry")
        session.add("developer/message", {"turn": session.turn, "step": session.step, "message": message}, "append")
    elif move == "rewrite":
        session.rewrite(draw(st.integers(0, 30)))
    elif move == "compact":
        session.compact(draw(st.integers(0, 30)), draw(st.integers(0, 30)))


def records_on(page: str) -> list[Record]:
    """The JSON records at the end of a full page."""
    _, _, array = page.partition("## Original records (including reasoning, tool output and recorded file metadata)\n")
    found: list[Record] = json.loads(array)
    return found
