"""Short ways for ordinary rows: conditions under which whole groups of rules have nothing to say.

A lane never decides that a row is wrong. It only recognises rows that are so plainly in order that asking would be a
waste. Three things are looked at, each the cheap form of rules that are named beside it: the envelope
(`OF_THE_ENVELOPE`), the shape of the payload (`loopspec.log.plain`), and the place of the row in the log, with one
condition for each type (`LANES`). Of a row that passes, only the rules are asked that no condition stands for; every
other row is asked all of them. So a new rule is asked until a lane says why it need not be.

Tests run both ways over every log and every broken log, compare the findings and the state behind each row, and drop
the conditions one at a time: some log must then be judged wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from loopspec.log.fold import hear
from loopspec.log.looking import attempt_grammar, is_offered, stream_time
from loopspec.log.packed import PACKED_TYPES
from loopspec.log.plain import CHECKS, IMPLIED, Check
from loopspec.log.rule import Rule
from loopspec.log.state import Log, Row
from loopspec.log.tidy import followed, pieces_of, tidy
from loopspec.log.types import SURFACE_TYPES, VERSIONS
from loopspec.values import SAFE_INTEGER

OF_THE_ENVELOPE = frozenset(f"S-LNT-{number}" for number in (9, 10, *range(17, 25), 55, 100))
"""The rules on every row. None has anything to say when the envelope is the bare one of its type."""

OF_AN_APPEND = frozenset(f"S-LNT-{number}" for number in (25, 26, 27, 29, 30, 32, 35, 106))
"""Rules on surface rows that have nothing to say about an append, as long as it cites what its lane expects."""

_BLOCK_OF = {"text-delta": "text", "reasoning-delta": "reasoning", "tool-call-delta": "tool-call"}
_PACKED_KEYS = frozenset(("type", "seq0", "time0", "data"))
_RUN_KEYS = frozenset(("turn", "step", "index", "dt", "texts"))
_CALL_KEYS = frozenset(("turn", "step", "index", "dt", "id", "args"))
_CHUNK = CHECKS[0]["assistant/chunk"]
_INTEGERS = {int}

# -- where a row may stand -------------------------------------------------------------------------------------

Place = Callable[[Log, Row], bool]
"""Whether a row with a bare envelope and a plain payload stands where it should."""


class Lane(NamedTuple):
    """The condition on the rows of one type, and the rules that it stands for."""

    type: str
    implied: frozenset[str]
    lawful: Place


def _lane(kind: str, *numbers: int) -> Callable[[Place], Lane]:
    def made(lawful: Place) -> Lane:
        return Lane(kind, frozenset(f"S-LNT-{number}" for number in numbers), lawful)

    return made


@_lane("turn/start", 44, 45, 96)
def turn_start(log: Log, row: Row) -> bool:
    """The next turn begins while none is open and no compaction goes on."""
    return (
        log.turn is None  # S-LNT-44
        and row.turn == log.last_turn + 1  # S-LNT-45
        and log.bracket is None  # S-LNT-96
    )


@_lane("turn/end", 46, 47, 48, 49, 64, 75, 89, 96, 107)
def turn_end(log: Log, row: Row) -> bool:
    """The open turn ends behind its last step and owes nothing. The reason is plain, so S-LNT-47 is content."""
    kind = row.data["reason"]["kind"]
    return (
        row.turn == log.turn  # S-LNT-46
        and log.step is None  # S-LNT-46
        and (kind == "blocked" or (kind == "max-tokens") == log.hit_ceiling)  # S-LNT-48; it takes a step, S-LNT-49
        and not log.interrupted_messages  # S-LNT-64
        and not log.skipped_calls  # S-LNT-75
        and log.bracket is None  # S-LNT-96
        and not log.claims  # S-LNT-89, S-LNT-107
    )


@_lane("step/start", 50)
def step_start(log: Log, row: Row) -> bool:
    """The next step of the open turn begins while none is open."""
    return (
        row.turn == log.turn  # S-LNT-50
        and log.step is None  # S-LNT-50
        and row.step == log.last_step + 1  # S-LNT-50
    )


@_lane("step/end", 51, 71, 107)
def step_end(log: Log, row: Row) -> bool:
    """The open step ends, with every call answered and every claimed message entered."""
    return (
        row.turn == log.turn  # S-LNT-51
        and row.step == log.step  # S-LNT-51
        and log.unanswered == 0  # S-LNT-71
        and not log.claims  # S-LNT-107
    )


@_lane("agent/inbox/spliced", 85, 86, 87, 88)
def spliced(log: Log, row: Row) -> bool:
    """Fresh messages come in, or a claim takes what a claim may take. A plain splice has no outcome (S-LNT-86)."""
    data = row.data
    if not data["inserted"]:
        return _claimed(log, data)
    names = [message["id"] for message in data["inserted"]]
    pending = log.inbox
    return (
        data.get("removedCount", 0) == 0
        and data["start"] <= len(pending[data["target"]])  # S-LNT-85
        and len(set(names)) == len(names)  # S-LNT-87
        and not any(name in pending["next-turn"] or name in pending["next-step"] for name in names)  # S-LNT-87
    )


def _claimed(log: Log, data: dict[str, Any]) -> bool:
    waiting = len(log.inbox[data["target"]])
    removed = data.get("removedCount", 0)
    if data["target"] == "next-step":
        return bool(
            removed == waiting  # S-LNT-85, S-LNT-88
            and removed > 0  # S-LNT-86
            and data["start"] == 0  # S-LNT-85
            and log.turn is not None  # S-LNT-88
        )
    return bool(
        removed == 1  # S-LNT-86, S-LNT-88
        and waiting > 0  # S-LNT-85
        and data["start"] == 0  # S-LNT-88
        and log.turn is not None  # S-LNT-88
        and log.last_step == 0  # S-LNT-88
    )


@_lane("user/message", 28, 37, 56, 98, 105, 108)
def user_message(log: Log, row: Row) -> bool:
    """What a person sent and the loop claimed enters an open step. An append is no checkpoint (S-LNT-98)."""
    name = row.message["id"]
    return (
        "sourceEventSeqs" not in row.raw  # S-LNT-28
        and name not in log.message_ids  # S-LNT-37
        and log.step is not None  # S-LNT-56
        and log.unanswered == 0  # S-LNT-105
        and name in log.ever_claimed  # S-LNT-108
    )


@_lane("tool/call", 52, 57, 66, 68)
def tool_call(log: Log, row: Row) -> bool:
    """A call of the open step's message begins, as the model wrote it."""
    data = row.data
    call = log.calls.get(data["callId"])
    return (
        row.turn == log.turn  # S-LNT-52, S-LNT-57
        and row.step == log.step  # S-LNT-52, S-LNT-57
        and call is not None  # S-LNT-66
        and data["name"] == call.block.get("name")  # S-LNT-66
        and data["arguments"] == call.block.get("arguments")  # S-LNT-66
        and call.seq is None  # S-LNT-68
    )


@_lane("tool/result", 28, 37, 52, 53, 57, 69, 70, 72, 73, 74, 75, 76, 105)
def tool_result(log: Log, row: Row) -> bool:
    """The next result of a call that was begun. A plain result has no error code, so it is not synthetic (S-LNT-74)."""
    call = log.calls.get(row.message["source"]["callId"])
    cited = row.raw.get("sourceEventSeqs")
    return (
        row.message["id"] not in log.message_ids  # S-LNT-37
        and row.turn == log.turn  # S-LNT-52, S-LNT-57
        and row.step == log.step  # S-LNT-52, S-LNT-57
        and call is not None  # S-LNT-69
        and call.order > log.last_result_order  # S-LNT-72; a call does not come behind itself, S-LNT-70
        and type(cited) is list
        and len(cited) == 1  # S-LNT-73
        and type(cited[0]) is int  # S-LNT-28
        and cited[0] == call.seq  # S-LNT-69, S-LNT-73
        and not log.skipped_in_step  # S-LNT-75
        and is_offered(log, call)  # S-LNT-76
    )


@_lane("assistant/message", 28, 31, 37, 43, 52, 57, 58, 59, 60, 61, 62, 63, 64, 67, 77, 105)
def assistant_message(log: Log, row: Row) -> bool:
    """The one message of the open step: what its tidy stream gave, from the route of the header.

    A plain one is not interrupted (S-LNT-64) and names no replay state, of which a tidy stream has none (S-LNT-62).
    """
    calls = [block["id"] for block in row.content if block["type"] == "tool-call"]
    source, config = row.message["source"], log.config()
    settled = tidy(log.heard if log.format == 0 else pieces_of(row.data["stream"]))
    if settled is None:  # S-LNT-58, S-LNT-62
        return False
    row.chunk = settled.finish
    return (
        row.message["id"] not in log.message_ids  # S-LNT-37
        and source["provider"] == config.get("provider")  # S-LNT-43; there is a header, S-LNT-77
        and source["model"] == config.get("model")  # S-LNT-43
        and row.turn == log.turn  # S-LNT-52, S-LNT-57
        and row.step == log.step  # S-LNT-52, S-LNT-57
        and settled.content == row.content  # S-LNT-60
        and settled.usage == row.data.get("usage")  # S-LNT-61
        and log.anchor is None  # S-LNT-63; calls belong to a message, S-LNT-105
        and "" not in calls  # S-LNT-67
        and len(set(calls)) == len(calls)  # S-LNT-67
        and (_nothing_joined(log, row) if log.format == 4 else _cites_its_stream(log, row.raw))
    )


def _nothing_joined(log: Log, row: Row) -> bool:
    """Nothing joined the surface while this request was under way, and the embedded stream needs no citation."""
    late, began = log.last_surface_in_step, stream_time(row)
    return (
        "sourceEventSeqs" not in row.raw  # S-LNT-31
        and (late is None or began is None or (type(late[2]) is int and late[2] <= began))  # S-LNT-61
    )


def _cites_its_stream(log: Log, raw: dict[str, Any]) -> bool:
    cited, chunks = raw.get("sourceEventSeqs"), log.attempt_ranges
    return (
        len(chunks) == 1
        and cited == list(range(*chunks[0]))  # S-LNT-59
        and set(map(type, cited)) == _INTEGERS  # S-LNT-28
    )


LANES: Mapping[str, Lane] = {
    lane.type: lane
    for lane in (
        turn_start,
        turn_end,
        step_start,
        step_end,
        spliced,
        user_message,
        tool_call,
        tool_result,
        assistant_message,
    )
}

# -- the envelope ----------------------------------------------------------------------------------------------


class Way(NamedTuple):
    """The short way of a type in one format: its plain payload, its lane, the rules that are still asked."""

    joins: bool
    plain: Check
    lawful: Place
    asked: tuple[Rule, ...]


def ways(table: Mapping[str, Collection[Rule]], version: int) -> Mapping[str, Way]:
    """The short ways of a format under these rules."""
    found = {}
    for kind, lane in LANES.items():
        joins = kind in SURFACE_TYPES[VERSIONS[version]]
        implied = OF_THE_ENVELOPE | IMPLIED | lane.implied | (OF_AN_APPEND if joins else frozenset())
        asked = tuple(rule for rule in table[kind] if rule.id not in implied)
        found[kind] = Way(joins, CHECKS[version][kind], lane.lawful, asked)
    return found


def ordinary(log: Log, way: Way, raw: dict[str, Any], line: int, frame: int = 0, offset: int = 0) -> Row | None:
    """The row, looked at, when it is ordinary; None when it is to be asked everything."""
    size = len(raw)
    try:
        seq, time, data = raw["seq"], raw["time"], raw["data"]
        if way.joins:
            if raw["surfaceOp"] != "append" or not (size == 5 or (size == 6 and "sourceEventSeqs" in raw)):
                return None
        elif size != 4:  # S-LNT-20, S-LNT-22, S-LNT-24
            return None
        if type(data) is not dict or not way.plain(data):  # S-LNT-21
            return None
    except KeyError:
        return None
    if (
        type(seq) is not int
        or seq != log.index  # S-LNT-17
        or type(time) is not int
        or not (log.time or 0) <= time <= SAFE_INTEGER  # S-LNT-18, S-LNT-19
        or log.interrupted_end is not None  # S-LNT-55
        or log.prune is not None  # S-LNT-100
    ):
        return None
    row = Row(raw, line, log.index, frame, offset)
    row.plain = True
    if way.joins:
        row.message = message = data if row.type == "user/message" else data["message"]
        row.content = message["content"]
    return row if way.lawful(log, row) else None


# -- chunks ----------------------------------------------------------------------------------------------------


def _counts(value: object) -> bool:
    return type(value) is int and 1 <= value <= SAFE_INTEGER


def sound_run(raw: dict[str, Any]) -> int:
    """The number of members of a plainly well-formed packed row, 0 when a closer look is needed (`S-CHK-11`)."""
    body = raw.get("data")
    if raw.keys() != _PACKED_KEYS or type(body) is not dict:
        return 0
    is_call = raw["type"] == "tool-call-chunks"
    members = body.get("args" if is_call else "texts")
    gaps = body.get("dt")
    if type(members) is not list or type(gaps) is not list or len(gaps) != len(members) - 1:
        return 0
    keys = body.keys()
    if is_call:
        named = len(keys) == 7 and type(body.get("name")) is str
        if not (keys == _CALL_KEYS or (named and keys == _CALL_KEYS | {"name"})) or type(body["id"]) is not str:
            return 0
    elif keys != _RUN_KEYS:
        return 0
    seq, time, index = raw["seq0"], raw["time0"], body["index"]
    small = type(seq) is int and type(time) is int and type(index) is int and seq >= 0 and index >= 0
    if not small or seq + len(members) > SAFE_INTEGER or not _counts(body["turn"]) or not _counts(body["step"]):
        return 0
    if set(map(type, members)) != {str} or (gaps and set(map(type, gaps)) != {int}):
        return 0
    total = abs(time) + sum(map(abs, gaps))
    return len(members) if total <= SAFE_INTEGER else 0


def delta(log: Log, raw: dict[str, Any], line: int) -> bool:
    """A single delta that goes on in an open block of the attempt at hand; if so, it is folded right here."""
    if log.run_at is None:
        return False
    key: tuple[Any, ...]
    try:
        data = raw["data"]
        chunk = data["chunk"]
        kind = chunk["type"]
        if kind == "text-delta" or kind == "reasoning-delta":
            words, key = chunk["text"], (kind, chunk["index"], None, None)
            exact = len(chunk) == 3
        elif kind == "tool-call-delta":
            words, key = chunk["argumentsDelta"], (kind, chunk["index"], chunk["id"], chunk.get("name"))
            exact = type(key[2]) is str and (len(chunk) == 4 or (len(chunk) == 5 and type(key[3]) is str))
        else:
            return False
        seq, time, turn, step = raw["seq"], raw["time"], data["turn"], data["step"]
    except (KeyError, TypeError):
        return False
    if (
        not exact
        or len(raw) != 4
        or len(data) != 3
        or type(words) is not str
        or type(seq) is not int
        or seq != log.index
        or type(time) is not int
        or not (log.time or 0) <= time <= SAFE_INTEGER
        or type(turn) is not int
        or turn != log.turn
        or type(step) is not int
        or step != log.step
    ):
        return False
    if key != log.run_key or type(key[1]) is not int:
        if type(key[1]) is not int or not _opens_run(log, kind, key[1], time):
            return False
        log.flush()
        log.run_key = key
    log.run_words.append(words)
    log.index += 1
    log.time = time
    log.line = line
    return True


def chunk(log: Log, raw: dict[str, Any], line: int) -> bool:
    """A chunk, or a packed run of deltas, where the attempt at hand expects it; if so, it is folded right here.

    What the rules on chunks would ask is asked: the open turn and step (`S-LNT-52`, `57`), the stream grammar (`58`),
    no message before (`63`), a header (`77`); and what `ordinary` asks of the envelope.
    """
    if len(raw) != 4 or log.anchor is not None or log.header is None or log.seed_length or log.format != 0:
        return False
    kind, data = raw.get("type"), raw.get("data")
    if type(data) is not dict:
        return False
    if kind == "assistant/chunk":
        seq, time, count = raw.get("seq"), raw.get("time"), 1
        try:
            if type(seq) is not int or seq != log.index or not _CHUNK(data):
                return False
        except KeyError:
            return False
        body = data["chunk"]
        kind = body["type"]
    elif kind in PACKED_TYPES:
        count = sound_run(raw)
        if not count or raw["seq0"] != log.index:
            return False
        time, body = raw["time0"], data
    else:
        return False
    if (
        data["turn"] != log.turn
        or data["step"] != log.step
        or type(time) is not int
        or not (log.time or 0) <= time <= SAFE_INTEGER
        or (log.created_at is not None and time < log.created_at)
        or log.prune is not None
    ):
        return False
    grammar = followed(attempt_grammar(log), kind, body)
    if grammar is None:
        return False
    hear(log, grammar, (kind, body), log.index, count)
    log.time = time
    log.last_type = "assistant/chunk"
    log.index += count
    log.line = line
    return True


def _opens_run(log: Log, kind: str, at: int, time: int) -> bool:
    """A run may begin right behind a chunk: no message was there before, and the block is open."""
    return (
        log.format == 0
        and log.anchor is None  # S-LNT-63
        and log.grammar.finish is None  # S-LNT-58
        and log.seed_length == 0
        and (log.created_at is None or time >= log.created_at)  # S-LNT-19
        and any(index == at and name == _BLOCK_OF[kind] for index, name in log.grammar.open)
    )
