"""Entries of the tape: is a record the one that is due, and does a request keep those of the one before it?"""

from __future__ import annotations

from typing import Any

from loopconform.judge.folding import Due
from loopconform.judge.points import canonical
from loopconform.protocol.replies import Record
from loopspec.tape import seal
from loopspec.tape.select import ENTRY_SOURCE


def entry_misfit(entry: seal.Entry, reply: Any) -> str:
    """TP-30, TP-32  Why a record is not the entry that is due; empty when it is."""
    event = reply.event if isinstance(reply, Record) else {}
    if event.get("type") != "user/message":
        return "another kind of message"
    data = event["data"]
    wanted = seal.entry_message(str(data.get("id")), entry.text)
    if event.get("surfaceOp") != entry.operation:
        return f"the entry replaces {event.get('surfaceOp')}, not {entry.operation}"
    if event.get("sourceEventSeqs") != list(entry.sources):
        return f"the entry cites {event.get('sourceEventSeqs')}, not {list(entry.sources)}"
    return "" if canonical(data) == canonical(wanted) else f"the entry is another; the law says: {entry.text[:300]}"


def fold_misfit(fold: Due, reply: Any) -> str:
    """FD-05  Why a record is not the replacement of a result that is due; empty when it is."""
    event = reply.event if isinstance(reply, Record) else {}
    if event.get("type") != "tool/result":
        return "another kind of message"
    if event.get("surfaceOp") != {"op": "replace", "startSeq": fold.seq, "endSeq": fold.seq}:
        return f"the fold replaces {event.get('surfaceOp')}, not {fold.seq}"
    if event.get("sourceEventSeqs") != [fold.seq]:
        return f"the fold cites {event.get('sourceEventSeqs')}, not {fold.seq}"
    return "" if canonical(event["data"]) == fold.data else f"the fold is another; the law says: {fold.data[:300]}"


def unstable(before: list[str], after: list[str]) -> str:
    """PX-2, PX-4, PX-5  How a request breaks what was frozen in the one before it; empty when it does not."""
    marks = [at for at, message in enumerate(before) if f'"kind":"{ENTRY_SOURCE}"' in message]
    frozen = before[: marks[-1] + 1] if marks else []
    for at, message in enumerate(frozen):
        if after[at : at + 1] != [message]:
            return f"message {at} stands ahead of the last entry of the last request, and is another one now"
    return ""
