"""A run of the scheduler alone, put into a turn: a message, a step whose answer makes the calls, then the batch.

The turn is always the same and lawful; the abort that the run makes is a cancel of the user.
"""

from __future__ import annotations

from collections.abc import Iterator

from loopconform.replays.streams import Label, Untranslatable
from loopconform.tla.replay import Replay

CANCEL = ("cancel", "user", False)
WINDOW = ("append", "tool/call"), ("append", "tool/result")

STEP: tuple[Label, ...] = (
    ("call", "send", 1, "next-step", True),
    ("append", "agent/inbox/spliced", "next-step", 0, 0, (1,), ""),
    ("notify", "agent/inbox/inserted", 1),
    ("note", "signal"),
    ("notify", "agent/status", "running"),
    ("append", "turn/start", 1),
    ("append", "agent/inbox/spliced", "next-step", 0, 1, (), ""),
    ("notify", "agent/inbox/claimed", 1, 1),
    ("park", "assembly"),
    ("answer", ("assembly",), ("done",)),
    ("park", "pre-step", (1,)),
    ("answer", ("pre-step", (1,)), ("enter", (1,))),
    ("append", "step/start", 1, 1),
    ("park", "request"),
    ("answer", ("request",), ("done",)),
    ("park", "prepare"),
    ("answer", ("prepare",), ("prepared", False, True, 1)),
    ("append", "system/message"),
    ("append", "user/message", 1),
    ("append", "request/header", False),
    ("append", "request/context"),
    ("notify", "agent/assistant-stream", "start"),
    ("park", "chunk", False),
    ("answer", ("chunk", False), ("chunk",)),
    ("notify", "agent/assistant-stream", "chunk"),
    ("park", "chunk", True),
    ("answer", ("chunk", True), ("end", "tool-calls", True, True)),
    ("append", "assistant/message", "settled"),
    ("notify", "agent/assistant-stream", "end"),
    ("park", "tools"),
)
"""A turn of format 4 up to its tools."""


def in_a_turn(run: Replay) -> Replay:
    """The run as one of the loop. Raises `Untranslatable` for a law whose turns look otherwise."""
    if run.session_format != 4:
        raise Untranslatable("a batch alone is played in format 4 only")
    if _begins_dead(run.labels):
        raise Untranslatable("the signal was aborted before the batch began, which the run does not show")
    calls = run.calls or max((one for label in run.labels for one in label if type(one) is int), default=1)
    return run._replace(machine="loop", labels=(*STEP, ("batch", calls), *_with_cancels(run.labels)))


def _begins_dead(labels: tuple[Label, ...]) -> bool:
    """A preparation that only looks at the arguments comes behind an abort (T-202)."""
    asked = next(
        (at for at, label in enumerate(labels) if label[:2] == ("park", "prepare") and label[3] != "policy"), 0
    )
    return asked > 0 and ("abort",) not in labels[:asked]


def _with_cancels(labels: tuple[Label, ...]) -> Iterator[Label]:
    before: Label = ()
    for label in labels:
        if label == ("abort",):
            waits = before[:2] in WINDOW
            yield ("wait" if waits else "call", *CANCEL)
            if waits:
                yield ("begin", *CANCEL)
            yield ("notify", "abort", "user")
            yield ("leave", "return", None)
        else:
            yield label
        before = label
