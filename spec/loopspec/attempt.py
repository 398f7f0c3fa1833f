"""One model attempt inside an open step: request, preparation, stream, settlement, recovery.

The rules begin at frame `attempt` and end at frame `close_step` with a step result: `completed`, `continue`
(tool results are owed an answer), `max-tokens`, or `raised`. They are part of the driver machine and know of the
driver only what `Attempting` names.

Payloads stay outside: the caller assembles the stream with `loopspec.stream`, compares headers with
`loopspec.request`, and answers with the facts those folds give.

| await point | answers |
|---|---|
| `request` | `done`, `throws` |
| `prepare` | `prepared <header changed> <context changed> <system records due>`, `throws` |
| `chunk <started>` | `chunk`, `end <finish> <has calls> <something visible>`, `throws <something visible>` |
| `close <started>` | `closed <something visible>` |
| `tools` | `continue`, `concluded`, `throws` |
| `recovery` | `retry`, `none`, `throws` |
"""

from __future__ import annotations

from typing import Any, Protocol, Self

from loopspec.inbox import Ids
from loopspec.kernel.machine import Answer, Outcome, Rules, append, go, notify, park
from loopspec.profile import Law

LIVE = ""
"""The signal of an activity that nobody has aborted. Otherwise it is the kind of the first cause."""


class Attempting(Protocol):
    """What an attempt needs to know of the driver."""

    @property
    def law(self) -> Law: ...
    @property
    def signal(self) -> str: ...
    @property
    def turn(self) -> int: ...
    @property
    def step(self) -> int: ...
    @property
    def headed(self) -> bool: ...
    def put(self, **changes: Any) -> Self: ...


rules = Rules()
RAISED = ("close_step", "raised")


def aborted(s: Attempting) -> bool:
    """*check*: the signal of the activity has been aborted."""
    return s.signal != LIVE


def header_is_due(s: Attempting, changed: bool) -> bool:
    """L-REQ-9  The first request of a driver always writes its header; later ones only a different header."""
    return changed or not s.headed


@rules("attempt")
def attempt(s: Any, batch: Ids) -> Outcome[Any]:
    """L-REQ-1  The waterfall `agent/request` proposes the call. `batch` still waits for admission (VD-06)."""
    return park(s, ("request",), ("requested", batch))


@rules("requested")
def requested(s: Any, batch: Ids, answer: Answer) -> Outcome[Any]:
    """L-REQ-7, CW7  Then one adapter registration is bound by preparation; failures end the step."""
    if answer[0] == "throws" or aborted(s):
        return go(s, RAISED)
    return park(s, ("prepare",), ("prepared", batch))


@rules("prepared")
def prepared(s: Any, batch: Ids, answer: Answer) -> Outcome[Any]:
    """L-REQ-1, CW7  An abort during preparation leaves no header; a late admission then writes nothing either."""
    if answer[0] == "throws" or aborted(s):
        return go(s, RAISED)
    _, changed, context, systems = answer
    return go(s, ("admit_system", systems, ("admit", batch, ("head", changed, context))))


@rules("admit_system")
def admit_system(s: Any, due: int, then: tuple[Any, ...]) -> Outcome[Any]:
    """S-REQ-20, S-REQ-22  Where the prompt lives on the surface, its changes come before the batch."""
    if due:
        return append(s, ("system/message",), ("admit_system", due - 1, then), RAISED)
    return go(s, then)


@rules("admit")
def admit(s: Any, rest: Ids, then: tuple[Any, ...]) -> Outcome[Any]:
    """L-PRE-4, CW6  The batch enters history, in order and whole: an abort between two of them stops nothing."""
    if rest:
        return append(s, ("user/message", rest[0]), ("admit", rest[1:], then), RAISED)
    return go(s, then)


@rules("head")
def head(s: Any, changed: bool, context: bool) -> Outcome[Any]:
    """L-REQ-9  The request header, when due."""
    if header_is_due(s, changed):
        return append(s, ("request/header", s.headed), ("headed", context), RAISED)
    return go(s, ("contextualise", context))


@rules("headed")
def headed(s: Any, context: bool) -> Outcome[Any]:
    """L-REQ-12  The header counts as written, whatever happens to the attempt."""
    return go(s.put(headed=True), ("contextualise", context))


@rules("contextualise")
def contextualise(s: Any, context: bool) -> Outcome[Any]:
    """L-REQ-11, CW8  The context record follows without a check in between."""
    if context:
        return append(s, ("request/context",), ("dispatch",), RAISED)
    return go(s, ("dispatch",))


@rules("dispatch")
def dispatch(s: Any) -> Outcome[Any]:
    """L-REQ-1  The last check; then the request is frozen, marked and sent."""
    if aborted(s):
        return go(s, RAISED)
    if s.law.streams_are_embedded:
        return notify(s, ("agent/assistant-stream", "start"), ("pull", False))
    return go(s, ("pull", False))


@rules("pull")
def pull(s: Any, started: bool) -> Outcome[Any]:
    """AW5  Wait for the next chunk; the first wait covers `llm/stream` too. `started`: a chunk was published."""
    return park(s, ("chunk", started), ("pulled", started))


@rules("pulled")
def pulled(s: Any, started: bool, answer: Answer) -> Outcome[Any]:
    """L-STR-1, L-STR-2  Check, publish, assemble. What arrives after the abort is neither logged nor assembled."""
    if answer[0] == "chunk":
        if aborted(s):
            return park(s, ("close", started), ("closed",))
        if s.law.streams_are_embedded:
            return notify(s, ("agent/assistant-stream", "chunk"), ("pull", True))
        return append(s, ("assistant/chunk",), ("pull", True), ("give_up",))
    if answer[0] == "throws":
        return go(s, ("interrupt", answer[1]) if aborted(s) else ("break",))
    _, finish, calls, visible = answer
    if aborted(s):
        return go(s, ("interrupt", visible))
    if finish == "failure":
        return go(s, ("fail_attempt",))
    return go(s, ("settle", finish, calls))


@rules("give_up")
def give_up(s: Any) -> Outcome[Any]:
    """L-STR-10  A vetoed chunk: the adapter is closed, and there is no anchor and no recovery."""
    return park(s, ("close", False), ("closed_broken",))


@rules("closed_broken")
def closed_broken(s: Any, answer: Answer) -> Outcome[Any]:
    """L-STR-10  The chunks written so far stay, cited by nobody."""
    return go(s, ("break",))


@rules("closed")
def closed(s: Any, answer: Answer) -> Outcome[Any]:
    """L-STR-2  The adapter's iterator has been closed after an abort."""
    return go(s, ("interrupt", answer[1]))


@rules("break")
def break_stream(s: Any) -> Outcome[Any]:
    """L-STR-10, VD-03  A stream that threw under a live signal; an embedded stream is kept as an attempt."""
    if s.law.streams_are_embedded:
        return append(s, ("assistant/attempt",), ("end_stream", RAISED), ("end_stream", RAISED))
    return go(s, RAISED)


@rules("interrupt")
def interrupt(s: Any, visible: bool) -> Outcome[Any]:
    """L-STR-9, CW10, CW11  After an abort: an interrupted anchor if anything visible was streamed."""
    if visible:
        return append(s, ("assistant/message", "interrupted"), ("end_stream", RAISED), ("end_stream", RAISED))
    if s.law.streams_are_embedded:
        return append(s, ("assistant/attempt",), ("end_stream", RAISED), ("end_stream", RAISED))
    return go(s, RAISED)


@rules("settle")
def settle(s: Any, finish: str, calls: bool) -> Outcome[Any]:
    """L-STR-4 to L-STR-7  Exactly one anchor; calls run unless the answer was cut off at max-tokens."""
    if finish == "max-tokens":
        result: tuple[Any, ...] = ("close_step", "max-tokens")
    elif calls:
        result = ("run_tools",)
    else:
        result = ("close_step", "completed")
    return append(s, ("assistant/message", "settled"), ("end_stream", result), ("end_stream", RAISED))


@rules("end_stream")
def end_stream(s: Any, then: tuple[Any, ...]) -> Outcome[Any]:
    """VS-5  Watchers of an embedded stream hear its end after the durable append, or after its refusal."""
    if s.law.streams_are_embedded:
        return notify(s, ("agent/assistant-stream", "end"), then)
    return go(s, then)


@rules("run_tools")
def run_tools(s: Any) -> Outcome[Any]:
    """L-TOOL-1, CW13  The tool batch begins after the anchor, aborted or not."""
    return park(s, ("tools",), ("tools_done",))


@rules("tools_done")
def tools_done(s: Any, answer: Answer) -> Outcome[Any]:
    """L-TOOL-12, L-TOOL-13  A concluded batch completes the step; otherwise a follow-up request is owed."""
    results = {"throws": "raised", "concluded": "completed", "continue": "continue"}
    return go(s, ("close_step", results[answer[0]]))


@rules("fail_attempt")
def fail_attempt(s: Any) -> Outcome[Any]:
    """L-STR-11, VD-03  A provider failure is offered to recovery; an embedded stream is stored first."""
    if s.law.streams_are_embedded:
        return append(s, ("assistant/attempt",), ("end_stream", ("recover",)), ("end_stream", RAISED))
    return go(s, ("recover",))


@rules("recover")
def recover(s: Any) -> Outcome[Any]:
    """L-ERR-1  `agent/request-error` runs inside the open step."""
    return park(s, ("recovery",), ("recovered",))


@rules("recovered")
def recovered(s: Any, answer: Answer) -> Outcome[Any]:
    """L-ERR-2 to L-ERR-4, CW15  Retry opens a new attempt in the same step, unless the signal was aborted."""
    if answer[0] == "retry" and not aborted(s):
        return go(s, ("attempt", ()))
    return go(s, RAISED)
