"""Which record of the machines is which row of a log."""

from __future__ import annotations

from loopspec.kernel.machine import Effect, Frame
from loopspec.log.observation import Observation

_RESULTS = {
    ("close_step", "max-tokens"): "max-tokens",
    ("close_step", "completed"): "completed",
    ("run_tools",): "calls",
}

OUTCOMES = {
    "success": ("success",),
    "failure": ("failure",),
    "aborted": ("aborted", "aborted-before-dispatch"),
    "aborted-before-dispatch": ("aborted-before-dispatch",),
    "never-started": ("aborted-before-dispatch",),
    "outcome-unknown": ("unknown",),
    "not-started": ("unknown",),
}
"""Which outcomes of the machine a row can be. A started call whose body was never entered looks like one that never
started (L-TOOL-17); the machine is told that every body was entered."""


def matches(record: Effect, following: Frame, seen: Observation) -> bool:
    """Is this record of the driver the row at hand? `following` tells how a stream was taken."""
    what = seen[0]
    if what == "splice":
        return record[0] == "agent/inbox/spliced" and record[1:] == seen[1:6]
    if record[0] != what:
        return False
    if what == "turn/end":
        if record[2] == "aborted":
            return bool(seen[1] == "aborted" and (seen[2] == "disposed") == (record[3] == "disposed"))
        return bool(record[2] == seen[1])
    if what == "request/header":
        return bool(record[1] == seen[1])
    if what == "assistant/message":
        if record[1] == "interrupted" or seen[1] == "interrupted":
            return bool(record[1] == seen[1])
        return bool(_RESULTS.get(following[1]) == seen[1])
    if what == "assistant/attempt":
        return bool(following[1] != ("recover",) or seen[1] == "failure")
    return True
