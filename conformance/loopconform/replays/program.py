"""A run as a program of the protocol: calls become operations, answers become releases of gates.

A call that the run makes while nobody runs is a `do`. One that it makes inside a dispatch is a `react` on that
dispatch, armed before the run begins: the first, second, … record or event of its name. A refused record is a `veto`.
What the loop does by itself (a tick, a gap, the questions of the scheduler) needs no request.

Some runs have no program: nobody outside can call between two ticks, or hear that a job begins. Then `Untranslatable`
is raised, and says which label it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from loopconform.cli import version
from loopconform.protocol.case import Case
from loopconform.replays.batch_alone import in_a_turn
from loopconform.replays.streams import Batch, Label, Untranslatable, batches, chunks_at
from loopconform.tla.replay import Replay

Json = dict[str, Any]
Dispatch = tuple[str, str, int]
"""`record` or `live`, its name, and the how manieth of the run it is."""

DRIVER_HOLDS = (
    "assembly", "pre-step", "request", "prepare", "chunk", "close", "request-error", "turn-stopping", "maintenance",
    "tool",
)  # fmt: skip
LOOP_HOLDS = (*DRIVER_HOLDS, "tool-pre", "tool-post")
GATES = {"recovery": "request-error"}
"""The gate of an await point, where it has another name."""

PASSING = ("gap", "tick", "tools", "classify", "cap", "contexts")
"""Await points that no gate holds: nobody outside can do anything there."""

EVENTS = {"abort": "signal/abort"}
UNHEARD = ("job", "tools/execute")
"""Events of the machine that an adapter does not report."""

MACHINES = ("inbox", "driver", "loop", "scheduler")
"""Machines whose runs are played. The inbox is that of an idle agent; a batch alone is put into a turn."""


ALONE = {
    "creation": "no program is written for these; cases of the suite kill the same faults (`conformance/KILLS.md`)",
    "request": "adapters and listeners come and go inside a step, and the protocol has no operation for that",
    "retry": "the plugin that waits between attempts is none that an adapter mounts",
    "tape": "no program is written for these; cases of the suite kill the same faults (`conformance/KILLS.md`)",
}
"""Why runs of the other machines are not played."""


@dataclass
class _Activation:
    """A synchronous call under way: the dispatch whose listeners run now, and whether the log is free for it."""

    window: Dispatch | None = None
    writing: bool = False
    locked: bool = False


def case_of(run: Replay, name: str = "run") -> Case:
    """The run as a case. Raises `Untranslatable`."""
    run = playable(run)
    program = [*_opening(run), *_Writer(run).written()]
    return Case.model_validate(
        {
            "id": f"replay/{name}",
            "title": f"A run of the model, {len(run.labels)} moves",
            "area": "turn",
            "clauses": [],
            "profiles": [run.profile],
            "spec": version(),
            "program": program,
        }
    )


def playable(run: Replay) -> Replay:
    """The run as one of the driver or the loop. Raises `Untranslatable` for a machine whose runs cannot be played."""
    if run.machine not in MACHINES:
        raise Untranslatable(f"a run of the machine {run.machine}: {ALONE.get(run.machine, 'it is not played')}")
    return in_a_turn(run) if run.machine == "scheduler" else run


def ends_at_rest(run: Replay) -> bool:
    """Whether nothing runs and nothing is awaited when the run is over: then nothing may come behind it."""
    writer = _Writer(run)
    list(writer.written())
    return not writer.stack and not writer.standing


def _opening(run: Replay) -> Iterator[Json]:
    caps = {label[3] for label in run.labels if label[:3] == ("answer", "cap", "cap")}
    if len(caps) > 1:
        raise Untranslatable(f"the pool has several sizes: {sorted(caps)}")
    yield {
        "verb": "open",
        "profile": run.profile,
        "sessionFormat": run.session_format,
        "hold": [{"gate": gate} for gate in (LOOP_HOLDS if run.machine == "loop" else DRIVER_HOLDS)],
        "tools": [{"name": "p", "parallel": True}, {"name": "x", "parallel": False}],
        "cap": next(iter(caps), 10),
        "owners": ["o"],
    }
    yield {"verb": "do", "ops": [{"op": "create-now", "owner": "o"}]}
    yield {"verb": "settle"}


class _Writer:
    """One run being written down."""

    def __init__(self, run: Replay) -> None:
        self.labels = run.labels
        self.is_loop = run.machine == "loop"
        self.batches = batches(run.labels) if self.is_loop else []
        self.requests: list[Json] = []
        self.reactions: dict[Dispatch, list[Json]] = {}
        self.counts: Counter[tuple[str, str]] = Counter()
        self.since: Counter[str] = Counter()
        """Records since the last request, by type."""
        self.stack: list[_Activation] = []
        self.standing: list[str] = []
        """Await points at which something stands."""
        self.answers = 0
        """Answers with calls so far."""
        self.more: list[Json] = []
        """Chunks that are still to come before the run goes on."""
        self.at = 0

    def written(self) -> Iterator[Json]:
        """The requests behind the creation of the agent, in order."""
        for at, label in enumerate(self.labels):
            self.at = at
            self._write(label)
        for (kind, name, nth), ops in self.reactions.items():
            yield {"verb": "react", "on": {kind: name, "nth": nth, "agent": "a"}, "ops": ops}
        yield from self.requests
        yield {"verb": "settle"}

    def _fail(self, what: str) -> Untranslatable:
        return Untranslatable(f"label {self.at + 1}, {self.labels[self.at]}: {what}")

    def _write(self, label: Label) -> None:
        verb = label[0]
        if verb in ("call", "wait"):
            self._call(label)
        elif verb == "begin":
            self.stack.append(_Activation())
        elif verb == "append":
            self.since[label[1]] += 1
            self._opens("record", label[1])
            self._top().writing = True
        elif verb == "notify":
            self._opens("live", EVENTS.get(str(label[1]), str(label[1])))
        elif verb == "refuse":
            self._refused(label[1])
        elif verb in ("park", "leave"):
            self._ends(label)
        elif verb == "answer":
            self._answered(label)
        elif verb == "batch":
            self.standing.remove("tools")
            self.stack.append(_Activation())
        elif verb == "note" and self.stack:
            self._closes()

    # -- calls and windows

    def _call(self, label: Label) -> None:
        op = self._operation(label[1], label[2:])
        if self.stack:
            window = self.stack[-1].window
            if window is None or window[1] in UNHEARD:
                raise self._fail("nobody outside hears what happens here, so nobody can call")
            self.reactions.setdefault(window, []).append(op)
        else:
            passing = [point for point in self.standing if point in PASSING]
            if passing:
                raise self._fail(f"no gate holds the loop at {passing[0]}, so nobody can call there")
            self._request({"verb": "do", "ops": [op]})
        if label[0] == "call":
            self.stack.append(_Activation(locked=any(one.writing for one in self.stack)))

    def _operation(self, name: str, arguments: Label) -> Json:
        if name == "send":
            return {"op": "send", "message": f"m{arguments[0]}", "target": arguments[1], "wakeup": arguments[2]}
        if name == "cancel":
            return {"op": "cancel", "cause": arguments[0], "keepInbox": arguments[1]}
        if name == "maintain":
            return {"op": "maintenance"}
        if name == "remove":
            return {"op": "remove", "message": f"m{arguments[0]}"}
        if name == "replace":
            return {"op": "replace", "message": f"m{arguments[0]}", "by": f"m{arguments[1]}"}
        if name == "clear_inbox":
            return {"op": "clear"}
        if name == "splice":
            target, start, count, inserted = arguments
            messages = [f"m{message}" for message in inserted]
            return {"op": "splice", "target": target, "start": start, "deleteCount": count, "messages": messages}
        raise self._fail("the protocol has no such operation")

    def _opens(self, kind: str, name: str) -> None:
        self.counts[kind, name] += 1
        self._closes()
        self._top().window = (kind, name, self.counts[kind, name])

    def _closes(self) -> None:
        top = self._top()
        top.window, top.writing = None, False

    def _top(self) -> _Activation:
        if not self.stack:
            raise self._fail("nothing runs in which this could happen")
        return self.stack[-1]

    def _refused(self, name: str) -> None:
        """By the log, when a record is being published; else by somebody's veto of this very record."""
        self._closes()
        if self._top().locked:
            return
        veto = {"verb": "veto", "record": name, "nth": self.since[name] + 1}
        self.requests.insert(max(len(self.requests) - 1, 0), veto)

    def _ends(self, label: Label) -> None:
        """A segment ends. The dispatch of a body is none, and a batch that is over is the driver's answer."""
        if label[:2] == ("park", "body"):
            return
        self._closes()
        if self.is_loop and label[0] == "leave" and label[1] in ("concluded", "continue", "throws"):
            return
        self.stack.pop()
        if label[0] == "park":
            self.standing.append(label[1])
            if label[1] == "chunk":
                self._goes_on()

    def _goes_on(self) -> None:
        """The rest of the chunks of an answer: what they show is not told apart from the first (see `transcript`)."""
        for chunk in self.more:
            self._release("chunk", {"kind": "chunk", "chunk": chunk})
            for name in (("record", "assistant/chunk"), ("live", "agent/assistant-stream")):
                self.counts[name] += self.counts[name] > 0
        self.more = []

    # -- answers

    def _request(self, request: Json) -> None:
        if self.requests and self.requests[-1]["verb"] in ("do", "release"):
            self.requests.append({"verb": "settle"})
        self.requests.append(request)
        self.since.clear()

    def _release(self, gate: str, outcome: Json, key: str = "") -> None:
        self._request({"verb": "release", "gate": gate, "key": key, "outcome": outcome})

    def _answered(self, label: Label) -> None:
        name = label[1][0] if isinstance(label[1], tuple) else label[1]
        if name != "body":
            self.standing.remove(name)
        if isinstance(label[1], tuple):
            self._of_driver(label[1], label[2])
        else:
            self._of_batch(name, label[2], label[3:])
        self.stack.append(_Activation())

    def _of_driver(self, point: Label, answer: Label) -> None:
        name, kind = point[0], answer[0]
        gate = GATES.get(str(name), str(name))
        if name in ("gap", "tick"):
            return
        if name == "tools":
            if kind == "throws":
                raise self._fail("the machinery of the tools fails; play a run of the loop")
            self._release("tool", {"kind": "success", "concludes": kind == "concluded"}, f"c{self.answers}.1")
        elif name == "chunk" and kind == "chunk":
            first, *self.more = chunks_at(self.labels, self.at, self._calls())
            self._release(gate, {"kind": "chunk", "chunk": first})
        elif name == "chunk" and kind == "end":
            if not point[1] and (answer[1] != "stop" or answer[2]):
                raise self._fail("a stream without a chunk says neither a failure nor calls")
            self._release(gate, {"kind": "end"})
        elif name == "pre-step" and kind == "enter":
            self._release(gate, {"kind": "enter", "messages": [f"m{message}" for message in answer[1]]})
        elif name == "request" and kind == "done" and self._changes():
            self._release(gate, {"kind": "config", "model": f"m1+{self.at}"})
        elif kind in ("throws", "reject", "retry"):
            self._release(gate, {"kind": kind})
        else:
            self._release(gate, {"kind": "done"})

    def _calls(self) -> list[tuple[str, str]]:
        """The calls of the answer whose stream is open, by id and tool."""
        self.answers = 1 + sum(
            label[:3] == ("append", "assistant/message", "settled") for label in self.labels[: self.at]
        )
        batch = self._batch()
        return [(f"c{self.answers}.{at}", tool) for at, tool in enumerate(batch.tools if batch else ("p",), 1)]

    def _batch(self) -> Batch | None:
        return next((one for one in self.batches if one.start > self.at), None)

    def _changes(self) -> bool:
        """The preparation of this attempt will tell a changed header, and not only the first one."""
        answers = (label[2] for label in self.labels[self.at :] if label[0] == "answer" and label[1] == ("prepare",))
        found: Label = next(answers, ("throws",))
        headed = any(label[:2] == ("append", "request/header") for label in self.labels[: self.at])
        return headed and found[:2] == ("prepared", True)

    def _of_batch(self, name: str, call: Any, answer: Label) -> None:
        key = f"c{self.answers}.{call}"
        if name in ("classify", "cap"):
            if "throws" in (call, *answer):
                raise self._fail("the protocol cannot make this fail")
            return
        kind = answer[0]
        if name == "prepare":
            asked = next(
                label[3] for label in reversed(self.labels[: self.at]) if label[:3] == ("park", "prepare", call)
            )
            outcomes = {"dispatch": "done", "post-result": "deny", "final-result": "throws"}
            if asked == "policy" and kind in outcomes:
                self._release("tool-pre", {"kind": outcomes[kind]}, key)
            elif asked == "policy" or kind != "dispatch":
                raise self._fail("no outcome of the gate comes to this")
        elif name == "body":
            if kind in ("success", "failure"):
                outcome = (
                    {"kind": "success", "concludes": self._concludes(call)} if kind == "success" else {"kind": "throws"}
                )
                self._release("tool", outcome, key)
            elif kind != "barred":
                raise self._fail("no outcome of the gate comes to this")
        elif name == "finalise":
            if kind == "throws" or answer[-1]:
                raise self._fail("contexts, and a post-execute whose machinery fails, cannot be planned by number")
            self._release("tool-post", {"kind": kind}, key)
        else:
            raise self._fail("the protocol has no such await point")

    def _concludes(self, call: int) -> bool:
        """The result of this call will be accepted with the mark that concludes the turn."""
        later = (label[3:] for label in self.labels[self.at :] if label[:3] == ("answer", "finalise", call))
        return next(later, ())[:2] == ("accept", True)
