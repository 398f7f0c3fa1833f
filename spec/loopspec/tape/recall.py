"""Which record a recall call names, and the refusals.

Rules: RC-01 to RC-05, RC-11, RC-28, RC-31 to RC-33. Nothing is looked up before a numeric locator has shown that
it was made for this format (RC-02, INV-18).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from loopspec.tape.entry import FORMAT_VERSION
from loopspec.tape.index import LogIndex
from loopspec.tape.text import origin, outcome, safe_name
from loopspec.values import SAFE_INTEGER, Json, Record

RECALL_TOOLS: Final = ("expand_result", "recall_search", "recall_step", "recall_turn")
"""The tools of the tape, in the order in which a model sees them."""

STALE: Final = (
    "expand_result: numeric seq requires formatVersion 4 from a fresh locator; sequence numbers can change during "
    "format migration. Do not relabel an old locator. Obtain a fresh locator from "
    'recall_turn({"turn":"N","view":"dialogue"}) or recall_search, or use the stable '
    '{"turn":N,"step":M,"call":K} address.'
)
ADDRESS: Final = (
    'expand_result needs {"seq": N, "formatVersion": 4} or {"turn": N, "step": M} (and optional "call": K), '
    "all positive integers"
)

_TURN: Final = re.compile(r"(?:slice-turn-)?([0-9]{1,15})")
_TRAILING: Final = re.compile(r"(?:|.*[^0-9.])([0-9]{1,15})", re.DOTALL)


class RecallError(ValueError):
    """A recall call that cannot be answered; the text is for the model."""


def homeless(tool: str) -> RecallError:
    """RC-05  The refusal of a call without an owning agent."""
    owner = " (no owning agent on this execution)" if tool in ("recall_turn", "recall_search") else ""
    return RecallError(f"{tool} runs only inside an agent loop{owner}")


def integer(value: Json) -> int | None:
    """The value as an integer, however JSON wrote it (`4` or `4.0`); `None` when it is not one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not -SAFE_INTEGER <= value <= SAFE_INTEGER or value != int(value):
        return None
    return int(value)


def positive(value: Json) -> int | None:
    """The value as an integer of at least 1, or `None`."""
    number = integer(value)
    return number if number is not None and number >= 1 else None


def turn_number(value: Json) -> int:
    """RC-11  The turn that `7`, `slice-turn-7` or the number 7 names. Raises `RecallError`."""
    if isinstance(value, str):
        match = _TURN.fullmatch(value.strip())
        if match is not None:
            return int(match[1])
    elif (number := positive(value)) is not None:
        return number
    raise RecallError('recall_turn needs {"turn": "slice-turn-N"} (or just "N")')


def step_address(arguments: Record) -> tuple[int, int]:
    """RC-28  Turn and step of a `recall_step` call; of strings the trailing digits count. Raises `RecallError`."""
    turn, step = (_trailing(arguments.get(name)) for name in ("turn", "step"))
    if turn is None or step is None:
        raise RecallError('recall_step needs {"turn": "N", "step": "M"}')
    return turn, step


def _trailing(value: Json) -> int | None:
    if not isinstance(value, str):
        return positive(value)
    match = _TRAILING.fullmatch(value.strip())
    return None if match is None else positive(int(match[1]))


class Found(NamedTuple):
    """A tool result that a call names: its append-origin record, and how a page calls it (RC-34)."""

    seq: int
    head: str


def find_result(index: LogIndex, arguments: Record) -> Found:
    """RC-31 to RC-34  The result that an `expand_result` call names, by seq or by turn, step and ordinal.

    Raises `RecallError`; the order of checks is block, version, shape of the seq, and only then the log.
    """
    block = arguments.get("block")
    if block is not None and positive(block) is None:
        raise RecallError('expand_result: "block" must be a positive integer')
    found = _by_seq(index, arguments) if arguments.get("seq") is not None else _by_place(index, arguments)
    if block is None:
        return found
    if positive(block) != 1:
        raise RecallError(f"expand_result: no result block {positive(block)} (result has 1 blocks)")
    return Found(found.seq, f"{found.head} block 1")


def _by_seq(index: LogIndex, arguments: Record) -> Found:
    if integer(arguments.get("formatVersion")) != FORMAT_VERSION:
        raise RecallError(STALE)
    seq = integer(arguments["seq"])
    if seq is None or seq < 0:
        raise RecallError('expand_result: "seq" must be a non-negative integer')
    if seq >= index.length:
        raise RecallError(f"expand_result: no session event at seq {seq}")
    event = index.events[seq]
    if event["type"] != "tool/result":
        raise RecallError(f"expand_result: seq {seq} is a {event['type']} event, not a tool result")
    first = seq if origin(event) else index.original(seq)
    if first is None:
        raise RecallError(f"expand_result: the replacement at seq {seq} names no original tool result")
    data = index.events[first]["data"]
    call = list(index.results_in(data["turn"], data["step"])).index(first) + 1
    place = f"turn {data['turn']} step {data['step']} call {call}"
    return Found(first, f"{name_of(index, first)} · seq {first} ({place})")


def _by_place(index: LogIndex, arguments: Record) -> Found:
    turn, step = positive(arguments.get("turn")), positive(arguments.get("step"))
    call = positive(1 if arguments.get("call") is None else arguments["call"])
    if turn is None or step is None or call is None:
        raise RecallError(ADDRESS)
    results = index.results_in(turn, step)
    if call > len(results):
        raise RecallError(f"no tool result recorded at turn {turn} step {step} call {call}")
    seq = results[call - 1]
    return Found(seq, f"{name_of(index, seq)} · turn {turn} step {step} call {call}")


def name_of(index: LogIndex, seq: int) -> str:
    """The name of the call that a result answers, as known at that point of the log (RC-13, RC-34, TP-58)."""
    call = index.call_named(outcome(index.events[seq]["data"]).call_id, seq)
    return "tool" if call is None else safe_name(str(call["data"]["name"]))
