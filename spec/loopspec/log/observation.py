"""What the loop machines can know of a row: its type, its place in a list, how a stream or a call came out.

A `Course` walks along a log and turns each row into an *observation*, a small value without payloads, ids or running
numbers. Two rows with the same observation are the same thing to the machines, so that what was worked out for one
need not be worked out for the other (`loopspec.log.oracle`).

Messages are named by their place in the pending lists: position `i` of next-step is `STEPS + i`, position `j` of
next-turn is `TURNS + j`. `renaming` says what becomes of the names when a splice moves the places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopspec.inbox import Target
from loopspec.log.packed import PACKED_TYPES
from loopspec.log.state import OPAQUE_ID, items, record
from loopspec.log.types import KNOWN_TYPES, VERSIONS

Observation = tuple[Any, ...]
"""`(what, *facts, finish)`; see `Course.observe`. `finish`: how the open attempt of a format 0 log finished so far."""

STEPS, TURNS, FRESH, GONE = 1_000_000, 2_000_000, 3_000_000, 4_000_000
"""The first name of a message in next-step, in next-turn, of one that comes in, and of one that has left."""

FOREIGN = "foreign"
"""A row that the loop does not write: a plugin's, or a rewriting of the surface."""

_FINISH = {"error": "failure", "aborted": "failure", "max-tokens": "max-tokens"}
_REPAIR_CODES = frozenset(("TOOL_OUTCOME_UNKNOWN", "TOOL_NOT_STARTED"))
_ABORT_CODES = {"ABORTED": "aborted", "ABORTED_BEFORE_DISPATCH": "aborted-before-dispatch"}
_CLOSING_REASONS = frozenset(("interrupted", "forked"))


class Misnumbered(Exception):
    """A turn, a step or a splice whose numbers cannot be those of the loop. The text says which were expected."""


class Course:
    """A walk along one log. `lists` are the pending message ids as the splices so far make them."""

    __slots__ = (
        "_calls",
        "_readers",
        "_version",
        "finish",
        "last_turn",
        "lists",
        "seed_length",
        "step",
        "turn_open",
    )

    def __init__(self, header: dict[str, Any]) -> None:
        self._version = 4 if header.get("version") == 4 else 0
        seed = header.get("seedLength")
        self.seed_length = seed if self._version == 0 and type(seed) is int else 0
        self.lists: dict[Target, list[Any]] = {"next-step": [], "next-turn": []}
        self.last_turn = 0
        self.turn_open = False
        self.step = 0
        self.finish = ""
        self._calls: dict[object, int] = {}
        self._readers: dict[str, Callable[[dict[str, Any], dict[str, Any]], Observation]] = {
            "turn/start": self._turn_start,
            "turn/end": self._turn_end,
            "step/start": self._step_start,
            "step/end": self._step_end,
            "agent/inbox/spliced": self._splice,
            "user/message": self._user_message,
            "system/message": self._appended,
            "request/header": self._header,
            "request/context": self._plain,
            "assistant/chunk": self._chunk,
            "assistant/message": self._anchor,
            "assistant/attempt": self._attempt,
            "tool/call": self._call,
            "tool/result": self._result,
            "session/end-seed": self._end_seed,
            **dict.fromkeys(PACKED_TYPES, self._run),
        }
        if "assistant/attempt" not in KNOWN_TYPES[VERSIONS[self._version]]:
            del self._readers["assistant/attempt"]

    def cut_here(self, index: int) -> bool:
        """A format 0 child begins here: what its parent left pending is not its own (L-IN-16, S-INB-9)."""
        if not self.seed_length or index != self.seed_length:
            return False
        self.lists = {"next-step": [], "next-turn": []}
        return True

    def observe(self, row: dict[str, Any]) -> Observation:
        """The observation that a row stands for, folded into the walk. Raises `Misnumbered`.

        The row must have passed the row rules; of one that has not, anything may come out, but never an exception
        other than `Misnumbered`.
        """
        kind = row.get("type")
        reader = self._readers.get(kind) if isinstance(kind, str) else None
        if reader is None:
            return (FOREIGN, self.finish)
        return reader(row, record(row.get("data")))

    # -- turns and steps ---------------------------------------------------------------------------------------

    def _turn_start(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        expected = self.last_turn + 1
        if data.get("turn") != expected:
            raise Misnumbered(f"turn {expected} comes next, not {data.get('turn')!r}")
        seen = ("turn/start", self.finish)
        self.last_turn, self.turn_open, self.step, self.finish = expected, True, 0, ""
        return seen

    def _turn_end(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        reason = record(data.get("reason"))
        kind = str(reason.get("kind"))
        cause = ""
        if kind == "aborted":
            cause = "disposed" if record(reason.get("reason")).get("kind") == "disposed" else "other"
        seen = ("turn/end", kind, cause, kind in _CLOSING_REASONS, self.finish)
        self.turn_open, self.finish = False, ""
        return seen

    def _step_start(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        if data.get("step") != self.step + 1:
            raise Misnumbered(f"step {self.step + 1} comes next, not {data.get('step')!r}")
        self.step += 1
        self.finish = ""
        return ("step/start", "")

    def _step_end(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        if data.get("step") != self.step:
            raise Misnumbered(f"step {self.step} is the one to close, not {data.get('step')!r}")
        seen = ("step/end", self.finish)
        self.finish = ""
        return seen

    # -- inbox -------------------------------------------------------------------------------------------------

    def _splice(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        target = data.get("target")
        start, removed = data.get("start"), data.get("removedCount", 0)
        pending = self.lists.get(target) if isinstance(target, str) else None  # type: ignore[call-overload]
        if pending is None or type(start) is not int or type(removed) is not int:
            raise Misnumbered("a splice names a list, a start and a count")
        if not (0 <= start <= len(pending) and 0 <= removed <= len(pending) - start):
            raise Misnumbered(f"{target} holds {len(pending)} messages")
        ids = [record(message).get("id") for message in items(data.get("inserted"))]
        inserted = tuple([self._name(message, FRESH + at) for at, message in enumerate(ids)]) if ids else ()
        outcome = "canceled" if data.get("outcome") is not None else ""
        seen = ("splice", target, start, removed, inserted, outcome, self.finish)
        pending[start : start + removed] = ids
        return seen

    def _name(self, message: Any, fresh: int) -> int:
        if message == OPAQUE_ID:
            return fresh
        if message in self.lists["next-step"]:
            return STEPS + self.lists["next-step"].index(message)
        if message in self.lists["next-turn"]:
            return TURNS + self.lists["next-turn"].index(message)
        return fresh

    # -- a step's records --------------------------------------------------------------------------------------

    def _plain(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        return (row["type"], self.finish)

    def _appended(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        return (row["type"], self.finish)

    def _user_message(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        return ("user/message" if row.get("surfaceOp") == "append" else FOREIGN, self.finish)

    def _header(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        return ("request/header", data.get("reason") in ("change", "series"), self.finish)

    def _chunk(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        chunk = record(data.get("chunk"))
        if chunk.get("type") != "finish":
            return self._chunks("")
        reason = record(chunk.get("reason")).get("kind")
        return self._chunks(_FINISH.get(str(reason), "stop"))

    def _run(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        return self._chunks("")

    def _chunks(self, finish: str) -> Observation:
        seen = ("assistant/chunk", self.finish)
        if finish or self.finish == "failure":
            # The last finish wins; behind a failed one another attempt begins (L-STR-3, S-REQ 7.2).
            self.finish = finish
        return seen

    def _anchor(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        if row.get("surfaceOp") != "append":
            return (FOREIGN, self.finish)
        blocks = items(record(data.get("message")).get("content"))
        ids = [record(block).get("id") for block in blocks if record(block).get("type") == "tool-call"]
        self._calls = {call: number for number, call in enumerate(ids, 1) if isinstance(call, str)}
        calls = len(ids)
        finish = self._stream_finish(data) if self._version == 4 else self.finish
        if data.get("interrupted") is True:
            seen = ("assistant/message", "interrupted", 0, self.finish)
        else:
            result = "max-tokens" if finish == "max-tokens" else ("calls" if calls else "completed")
            seen = ("assistant/message", result, calls if result == "calls" else 0, self.finish)
        self.finish = ""
        return seen

    def _attempt(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        return ("assistant/attempt", self._stream_finish(data), self.finish)

    def _stream_finish(self, data: dict[str, Any]) -> str:
        for item in reversed(items(data.get("stream"))):  # the last one wins
            chunk = record(record(item).get("chunk"))
            if chunk.get("type") == "finish":
                return _FINISH.get(str(record(chunk.get("reason")).get("kind")), "stop")
        return ""

    def _call(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        return ("tool/call", self._number(data.get("callId")), "", self.finish)

    def _number(self, call: object) -> int:
        """The place of a call in its answer, from 1; 0 when the answer made no such call."""
        return self._calls.get(call, 0) if isinstance(call, str) else 0

    def _result(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        if row.get("surfaceOp") != "append":
            return (FOREIGN, self.finish)
        code = record(data.get("error")).get("code")
        message = record(data.get("message"))
        block = record(items(message.get("content"))[0]) if self._version == 0 and message.get("content") else message
        if code in _REPAIR_CODES:
            outcome = "unknown"
        elif code in _ABORT_CODES:
            outcome = _ABORT_CODES[code]
        else:
            outcome = "failure" if block.get("isError") is True else "success"
        call = self._number(record(message.get("source")).get("callId"))
        return ("tool/result", call, outcome, self.finish)

    def _end_seed(self, row: dict[str, Any], data: dict[str, Any]) -> Observation:
        seen = ("session/end-seed", self.turn_open, len(self.lists["next-step"]), len(self.lists["next-turn"]))
        self.finish = ""
        return seen


def renaming(seen: Observation) -> Callable[[int], int]:
    """What a message is called after a splice, given what it was called before (by place in the lists)."""
    _, target, start, removed, inserted, _, _ = seen
    base = TURNS if target == "next-turn" else STEPS
    places = {name: base + start + at for at, name in enumerate(inserted)}
    shift = len(inserted) - removed

    def renamed(name: int) -> int:
        if name in places:
            return int(places[name])
        at = name - base
        if not 0 <= at < STEPS:
            return name
        if at < start:
            return name
        return GONE + at if at < start + removed else name + shift

    return renamed
