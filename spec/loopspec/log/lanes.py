"""Short ways for ordinary rows: conditions under which whole groups of rules have nothing to say.

A lane never decides that a row is wrong. It only recognises rows that are so plainly in order that asking would be a
waste: most rows of a log are deltas in the middle of a block. Every condition here repeats, in one cheap expression,
what the rules it skips would find; a test runs both ways over every log and every broken log and compares.
"""

from __future__ import annotations

from typing import Any

from loopspec import stream
from loopspec.log.fold import absorb_chunk, attempt_grammar, joined_chunk
from loopspec.log.packed import PACKED_TYPES
from loopspec.log.plain import CHECKS
from loopspec.log.state import Log, Row
from loopspec.values import SAFE_INTEGER

_BARE = frozenset(("type", "seq", "time", "data"))
_APPENDED = _BARE | {"surfaceOp"}
_CITING = _APPENDED | {"sourceEventSeqs"}
_BLOCK_OF = {"text-delta": "text", "reasoning-delta": "reasoning", "tool-call-delta": "tool-call"}
_PACKED_KEYS = frozenset(("type", "seq0", "time0", "data"))
_RUN_KEYS = frozenset(("turn", "step", "index", "dt", "texts"))
_CALL_KEYS = frozenset(("turn", "step", "index", "dt", "id", "args"))
_CHUNK = CHECKS[0]["assistant/chunk"]


def ordinary(log: Log, row: Row) -> bool:
    """The envelope is in order, so the rules on every row have nothing to say.

    Those are `S-LNT-9`, `10`, `17` to `24`, `55` and `100`.
    """
    raw = row.raw
    time = row.time
    if (
        row.shape is not None
        or log.prune is not None
        or log.interrupted_end is not None
        or type(time) is not int
        or time < (log.time or 0)
        or time > SAFE_INTEGER
        or row.type not in log.known_types
    ):
        return False
    if row.packed:
        return log.format == 0 and raw["seq0"] == row.index
    keys = raw.keys()
    if type(raw.get("seq")) is not int or raw["seq"] != row.index:
        return False
    return keys == _BARE or (row.type in log.surface_types and keys in (_APPENDED, _CITING))


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


def delta(log: Log, raw: dict[str, Any]) -> bool:
    """A single delta that goes on in an open block of the attempt at hand; if so, it is folded right here."""
    if len(raw) != 4 or raw.get("type") != "assistant/chunk" or raw.get("seq") != log.index or log.run_at is None:
        return False
    data, time = raw.get("data"), raw.get("time")
    if (
        type(data) is not dict
        or len(data) != 3
        or type(time) is not int
        or time < (log.time or 0)
        or time > SAFE_INTEGER
    ):
        return False
    chunk = data.get("chunk")
    if type(chunk) is not dict or data.get("turn") != log.turn or data.get("step") != log.step:
        return False
    kind = chunk.get("type")
    at = chunk.get("index")
    if kind == "tool-call-delta":
        words = chunk.get("argumentsDelta")
        key = (kind, at, chunk.get("id"), chunk.get("name"))
        if (
            len(chunk) != (5 if "name" in chunk else 4)
            or type(key[2]) is not str
            or type(key[3]) not in (str, type(None))
        ):
            return False
        if key[3] is None and "name" in chunk:
            return False
    elif kind == "text-delta" or kind == "reasoning-delta":
        words = chunk.get("text")
        key = (kind, at, None, None)
        if len(chunk) != 3:
            return False
    else:
        return False
    if (
        type(at) is not int
        or type(words) is not str
        or type(raw["seq"]) is not int
        or type(data.get("turn")) is not int
        or type(data.get("step")) is not int
    ):
        return False
    if key != log.run_key:
        if not _opens_run(log, kind, at):
            return False
        log.flush()
        log.run_key = key
    log.run_words.append(words)
    log.index += 1
    log.time = time
    return True


def chunk(log: Log, raw: dict[str, Any], line: int) -> bool:
    """A chunk, or a packed run of deltas, where the attempt at hand expects it; if so, it is folded right here.

    What the rules on chunks would ask is asked: the open turn and step (`S-LNT-52`, `57`), the stream grammar (`58`),
    no message before (`63`), a header (`77`); and what `ordinary` asks of the envelope.
    """
    if len(raw) != 4 or log.anchor is not None or log.header is None or log.seed_length or log.format != 0:
        return False
    kind, data = raw.get("type"), raw.get("data")
    if type(kind) is not str or type(data) is not dict:
        return False
    if kind == "assistant/chunk":
        seq, time, count = raw.get("seq"), raw.get("time"), 1
        if type(seq) is not int or seq != log.index or not _CHUNK(data):
            return False
        piece = data["chunk"]
    elif kind in PACKED_TYPES:
        count = sound_run(raw)
        if not count or raw["seq0"] != log.index:
            return False
        time, piece = raw["time0"], joined_chunk(kind, data)
    else:
        return False
    if (
        data["turn"] != log.turn
        or data["step"] != log.step
        or type(time) is not int
        or time < (log.time or 0)
        or time > SAFE_INTEGER
        or (log.created_at is not None and time < log.created_at)
        or log.prune is not None
        or log.interrupted_end is not None
    ):
        return False
    grammar, found = stream.judge(attempt_grammar(log), piece)
    if found:
        return False
    absorb_chunk(log, grammar, piece, log.index, count)
    log.time = time
    log.last_type = "assistant/chunk"
    log.index += count
    log.line = line
    return True


def _opens_run(log: Log, kind: str, at: int) -> bool:
    """A run may begin: nothing is pending that a rule would look at, and the block is open."""
    return (
        log.anchor is None
        and log.header is not None
        and log.prune is None
        and log.interrupted_end is None
        and log.grammar.finish is None
        and log.seed_length == 0
        and log.no_time is False
        and log.before_created is None
        and (log.created_at is None or (log.time is not None and log.time >= log.created_at))
        and any(index == at and name == _BLOCK_OF[kind] for index, name in log.grammar.open)
    )
