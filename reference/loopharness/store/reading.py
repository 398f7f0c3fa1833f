"""From the bytes of a session file to its header and events, as a writer has to know them.

What a reader does with each kind of damage is in S-DSK 13.3. Only a torn tail is taken for what it is, the trace
of a crash: the last frame or row is incomplete. It is dropped as far as it cannot be read, and `Torn` says where
the file has to be cut before anything is appended. Everything else is refused, with line and reason.

Published loaders also treat a bad row as torn when no later row ends a turn, and drop what follows without a word
(S-DSK-20). Here that is a choice of the caller, `drop_bad_tail`, and never silent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BytesIO
from itertools import chain
from typing import Any, Final, NamedTuple

import orjson

from loopharness.archive import Archive, Held, Run, frozen
from loopharness.collector import collector_paused
from loopharness.frozen import FrozenDict
from loopharness.store.container import Batch, FrameEnd, RawRow, Rows, batches, is_zstd, one_by_one
from loopharness.store.errors import SessionFormatUnsupportedError, SessionPersistenceCorruptionError
from loopspec.log import v0, v4
from loopspec.log.damage import Damage
from loopspec.log.lanes import sound_run
from loopspec.log.packed import PACKED_TYPES, PackedError, is_packed_row, unpack_event, unpack_row
from loopspec.log.plain import is_plain
from loopspec.log.types import KNOWN_TYPES, RETIRED_TYPES, SURFACE_TYPES, VERSIONS, Dialect
from loopspec.values import SAFE_INTEGER

__all__ = ["VALIDATED", "Stored", "Torn", "read_header", "read_stored"]

VALIDATED: Final[Mapping[str, frozenset[str]]] = {
    dialect: SURFACE_TYPES[dialect] | {"agent/inbox/spliced", "request/header", "turn/start", "turn/end"}
    for dialect in ("v0", "v4")
}
"""Types whose payload is folded when a session is taken up again, and therefore judged before that."""

TOLERATED: Final = frozenset({"S-LNT-41", "S-LNT-47", "S-LNT-78", "S-LNT-81"})
"""Faults of a format 0 payload that its own loaders take, and that no fold trips over (S-REQ-2)."""

ENVELOPE: Final = frozenset({"type", "seq", "time", "data"})
ALLOWED: Final = ENVELOPE | {"ignorable", "surfaceOp", "sourceEventSeqs"}
_INTEGER: Final = frozenset({int})
CITING: Final = ENVELOPE | {"surfaceOp", "sourceEventSeqs"}

SHORT_WAYS = True
"""Whether rows that are plainly in order are taken without a closer look; a test reads without."""

REASONS: Final[Mapping[str, str]] = {
    "bad-magic": "no zstd frame begins here",
    "reserved-descriptor": "the frame header uses reserved bits",
    "reserved-block": "a block has the reserved type",
    "skippable-frame": "a skippable frame; only standard frames are allowed",
    "corrupt-block": "a block cannot be decompressed",
    "wrong-checksum": "the checksum of a frame is wrong",
    "row-unfinished": "the last complete frame ends inside a row",
    "row-too-large": "a row is larger than this reader takes",
    "torn-frame": "the header's own frame is incomplete",
    "torn-row": "the header row is incomplete",
    "window-too-large": "a frame needs a larger window than this reader takes",
}


class _ShortWay(NamedTuple):
    """How a plain event of one type is taken: whether something folds its payload, which is looked at then, and whether
    it can be kept closed."""

    kind: str
    folds: bool
    closes: bool


def _short_ways(version: int) -> Mapping[str, _ShortWay]:
    dialect = VERSIONS[version]
    shown = SURFACE_TYPES[dialect] | {"image/offload"}
    return {kind: _ShortWay(kind, kind in VALIDATED[dialect], kind not in shown) for kind in KNOWN_TYPES[dialect]}


_SHORT_WAYS: Final = {version: _short_ways(version) for version in VERSIONS}


class Torn(NamedTuple):
    """A crash tore the end of the file. `offset`: where to cut it. `first`: the events from this seq on lie behind
    the cut although they could be read, and must be written again. `reason`: what was found."""

    offset: int
    first: int
    reason: str


class Stored(NamedTuple):
    """What a file holds: header row, events from seq 0, its length in bytes, and how its end is torn, if it is."""

    header: FrozenDict
    events: Archive
    size: int
    torn: Torn | None = None

    @property
    def version(self) -> int:
        """The format of the log, 0 or 4 (3 when it is migrated before use)."""
        return int(self.header["version"])

    @property
    def dialect(self) -> Dialect:
        """The dialect of that format."""
        return VERSIONS[self.version]


class _BadRow(Exception):
    """A row that cannot be taken: everything before it stands."""

    def __init__(self, line: int, frame: int, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.line, self.frame, self.offset, self.reason = line, frame, offset, reason


def read_header(data: bytes, name: str) -> FrozenDict:
    """The header row of a file whose first bytes these are: enough for a list of sessions.

    Raises as `read_stored` does.
    """
    for item in one_by_one(_walk(data, name)):
        if isinstance(item, RawRow):
            return _header(item, name)
        if isinstance(item, Damage):
            raise _refusal(item, name)
    raise SessionPersistenceCorruptionError(f"{name}: no complete header row", 1)


def read_stored(data: bytes, name: str, *, drop_bad_tail: bool = False, formats: tuple[int, ...] = (0, 4)) -> Stored:
    """The whole content of a session file. `name` is its path, for messages and for its suffix.

    `formats` are the ones that the caller can use.

    Raises `SessionFormatUnsupportedError`, checked before anything else (section 3), and
    `SessionPersistenceCorruptionError`.
    """
    with collector_paused():
        return _Reading(data, name, formats, drop_bad_tail).run()


class _Reading:
    """One pass over one file."""

    def __init__(self, data: bytes, name: str, formats: tuple[int, ...], drop_bad_tail: bool) -> None:
        self.data = data
        self.name = name
        self.formats = formats
        self.drop_bad_tail = drop_bad_tail
        self.header: FrozenDict | None = None
        self.dialect: Dialect = "v0"
        self.known: frozenset[str] = frozenset()
        self.validated: frozenset[str] = frozenset()
        self.version = 0
        self.packs = False
        self.validate: Callable[[str, Any], tuple[Any, ...]] = v0.validate_data
        self.ways: Mapping[str, _ShortWay] = {}
        self.held: list[Held] = []
        self.kinds: list[str] = []
        self.frame = 0
        self.first_of_frame = 0

    def run(self) -> Stored:
        torn: Torn | None = None
        items = _walk(self.data, self.name)
        for item in items:
            if isinstance(item, Rows):
                try:
                    self.batch(item)
                except _BadRow as bad:
                    following = item.from_on(bad.line - item.line + 1)
                    torn = self.bad_row(bad, chain(following, one_by_one(items)))
                    break
            elif isinstance(item, FrameEnd):
                self.frame_end(item)
            elif item.kind in ("torn-frame", "torn-row") and item.frame != 1 and self.header is not None:
                torn = self.torn(item)
            elif item.kind not in ("no-checksum", "row-across-frames"):
                raise _refusal(item, self.name)
        if self.header is None:
            raise SessionPersistenceCorruptionError(f"{self.name}: no complete header row", 1)
        return Stored(self.header, Archive(self.held, self.kinds), len(self.data), torn)

    def batch(self, rows: Rows) -> None:
        if rows.frame != self.frame:
            self.frame, self.first_of_frame = rows.frame, len(self.held)
        is_head = rows.frame == 1  # which may hold no more than the header row
        for index, text in enumerate(rows.texts):
            if is_head or not self.take_plainly(text):
                self.row(rows.row(index))

    def row(self, raw: RawRow) -> None:
        if self.header is None:
            self.take_header(_header(raw, self.name))
            return
        if raw.frame == 1:
            raise SessionPersistenceCorruptionError(
                f"{self.name}: line {raw.line}: the first frame holds more than the header row", raw.line
            )
        text: bytes | None = raw.data
        try:
            value = orjson.loads(raw.data)
        except orjson.JSONDecodeError:
            value, text = _careful(raw), None
        if type(value) is not dict:
            raise _BadRow(raw.line, raw.frame, raw.offset, "the row is not a JSON object")
        try:
            self.take(value, raw, text)
        except PackedError as error:
            raise _BadRow(raw.line, raw.frame, raw.offset, f"malformed packed row: {error}") from error

    def take_plainly(self, text: bytes) -> bool:
        """Take a row that is so plainly in order that `row` would have nothing to say.

        Those are a packed run that begins with the next seq, and an event of a known type with the next seq and no
        key but those of its kind, whose payload nothing folds, or is plainly of its shape (`loopspec.log.plain`).
        What cannot stand on the surface is kept closed. False means nothing. A test reads every log both ways.
        """
        held = self.held
        try:
            value = orjson.loads(text)
            kind, folds, closes = self.ways[value["type"]]
            seq, time, data = value["seq"], value["time"], value["data"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return self.packs and self.take_run(text)
        keys = len(value)
        if (
            seq != len(held)
            or type(seq) is not int
            or type(time) is not int
            or not -SAFE_INTEGER <= time <= SAFE_INTEGER
            or not (keys == 4 or (keys == 5 and "surfaceOp" in value) or (keys == 6 and value.keys() == CITING))
        ):
            return False
        if folds and not is_plain(self.version, kind, data):
            return False
        if keys == 6 and not self.packs and not _are_integers(value["sourceEventSeqs"]):  # format 4 stores ranges
            return False
        held.append(text if closes and keys == 4 else frozen(value))
        self.kinds.append(kind)
        return True

    def take_run(self, text: bytes) -> bool:
        """The same for a packed run of chunks."""
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return False
        if not self.ways or type(value) is not dict or value.get("type") not in PACKED_TYPES:
            return False
        length, first = sound_run(value), len(self.held)
        if not length or value["seq0"] != first:
            return False
        self.held += [Run(first, text)] * length
        self.kinds += ["assistant/chunk"] * length
        return True

    def take_header(self, header: FrozenDict) -> None:
        version = header["version"]
        if version not in self.formats:
            raise SessionFormatUnsupportedError(_unsupported(self.name, version, self.formats))
        self.header = header
        self.version = version
        if version == 3:  # read for migration only: that judges the result
            self.dialect = "v4"
            self.known = KNOWN_TYPES["v4"]
            return
        self.dialect = VERSIONS[version]
        self.known = KNOWN_TYPES[self.dialect]
        self.validated = VALIDATED[self.dialect]
        self.packs = version == 0
        self.ways = _SHORT_WAYS[version] if SHORT_WAYS else {}
        module = v0 if version == 0 else v4
        self.validate = module.validate_data
        problems = module.validate_header(header)
        if version == 0:  # unknown keys are ignored there (S-HDR-2)
            problems = tuple(problem for problem in problems if problem.rule != "S-LNT-12" or _retired(problem.path))
        if problems:
            raise SessionPersistenceCorruptionError(f"{self.name}: line 1: {problems[0]}", 1)

    def take(self, value: dict[str, Any], raw: RawRow, text: bytes | None) -> None:
        """Take any row, or say what is wrong with it. `text`: what to keep of one that is kept closed."""
        seq = len(self.held)
        if self.dialect == "v0":
            if is_packed_row(value):
                members = unpack_row(value)
                if members[0]["seq"] != seq:
                    raise _BadRow(raw.line, raw.frame, raw.offset, _gap(seq, members[0]["seq"]))
                self.held += [frozen({**member}) for member in members]
                self.kinds += ["assistant/chunk"] * len(members)
                return
        elif "sourceEventSeqs" in value:
            value = dict(unpack_event(value))
        if value.get("seq") != seq or type(value["seq"]) is not int:
            raise _BadRow(raw.line, raw.frame, raw.offset, _gap(seq, value.get("seq")))
        event = frozen(value)
        self.check(event, raw)
        way = self.ways.get(event["type"])
        closes = way is not None and way.closes and len(event) == len(ENVELOPE)
        self.held.append(text if closes and text is not None else event)
        self.kinds.append(event["type"])

    def check(self, event: FrozenDict, raw: RawRow) -> None:
        """The envelope, the vocabulary, and the payloads that are going to be folded."""
        if event.keys() != ENVELOPE and not ALLOWED.issuperset(event):
            unknown = ", ".join(sorted(set(event) - ALLOWED))
            self.corrupt(raw, f"an event has no key {unknown}")
        kind, time = event.get("type"), event.get("time")
        if type(kind) is not str:
            self.corrupt(raw, "type must be a string")
        if type(time) is not int or not -SAFE_INTEGER <= time <= SAFE_INTEGER:
            self.corrupt(raw, "time must be a safe integer")
        if "data" not in event:
            self.corrupt(raw, "data is missing")
        if "ignorable" in event and event["ignorable"] is not True:
            self.corrupt(raw, "ignorable is either absent or true")
        if kind not in self.known:
            if kind in RETIRED_TYPES[self.dialect] and self.dialect == "v0":
                self.corrupt(raw, f'the event type "{kind}" is retired')
            if "ignorable" not in event:
                raise SessionFormatUnsupportedError(
                    f'{self.name}: line {raw.line}: the event type "{kind}" is unknown and not marked ignorable; '
                    "a newer version may have written it"
                )
        elif kind in self.validated:
            problems = self.validate(kind, event["data"])
            if problems and self.dialect == "v0" and not _is_named_fault(event["data"]):
                problems = tuple(problem for problem in problems if problem.rule not in TOLERATED)
            if problems:
                self.corrupt(raw, f"{kind}: {problems[0]}")

    def corrupt(self, raw: RawRow, reason: str) -> None:
        raise SessionPersistenceCorruptionError(f"{self.name}: line {raw.line}: {reason}", raw.line)

    def frame_end(self, end: FrameEnd) -> None:
        if end.frame == 1 and self.header is None:
            raise SessionPersistenceCorruptionError(f"{self.name}: the first frame holds no complete header row", 1)

    def torn(self, damage: Damage) -> Torn:
        """The rows of a torn frame that came out whole are kept, but their frame has to go (13.3)."""
        first = self.first_of_frame if damage.frame and damage.frame == self.frame else len(self.held)
        return Torn(damage.offset, first, damage.detail)

    def bad_row(self, bad: _BadRow, rest: Iterable[RawRow | FrameEnd | Damage]) -> Torn:
        """Damage in the middle, or, by the leave of the caller, an end that was never committed (S-DSK-20)."""
        if not self.drop_bad_tail or self.ends_turn_later(rest):
            raise SessionPersistenceCorruptionError(
                f"{self.name}: line {bad.line}: {bad.reason}. The {len(self.held)} events before it are sound; "
                f"`loopspec check {self.name}` says more",
                bad.line,
            )
        if bad.frame == 0:
            return Torn(bad.offset, len(self.held), bad.reason)
        first = self.first_of_frame if bad.frame == self.frame else len(self.held)
        return Torn(bad.offset, first, bad.reason)

    def ends_turn_later(self, rest: Iterable[RawRow | FrameEnd | Damage]) -> bool:
        for item in rest:
            if isinstance(item, RawRow):
                try:
                    value = json.loads(item.data)
                except (ValueError, RecursionError):
                    continue
                if isinstance(value, dict) and value.get("type") == "turn/end":
                    return True
            elif isinstance(item, Damage) and item.kind not in (
                "torn-frame",
                "torn-row",
                "no-checksum",
                "row-across-frames",
            ):
                raise _refusal(item, self.name)
        return False


def _walk(data: bytes, name: str) -> Iterator[Batch]:
    zstd = name.endswith(".zstd")
    if data and zstd != is_zstd(data[:4]) and len(data) >= 4:
        held = "does not hold zstd frames" if zstd else "holds zstd frames"
        raise SessionPersistenceCorruptionError(f"{name} {held}, unlike its name says")
    return batches(BytesIO(data), zstd=zstd)


def _header(raw: RawRow, name: str) -> FrozenDict:
    """The header row, its version not yet judged."""
    try:
        value = json.loads(raw.data)
    except (ValueError, RecursionError) as error:
        raise SessionPersistenceCorruptionError(f"{name}: line 1: the header is not JSON: {error}", 1, error) from error
    if not isinstance(value, dict) or value.get("type") != "session":
        raise SessionPersistenceCorruptionError(f"{name}: line 1: this is no session header", 1)
    version = value.get("version")
    if type(version) is not int:
        raise SessionPersistenceCorruptionError(f"{name}: line 1: version must be an integer", 1)
    return frozen(value)


def _careful(raw: RawRow) -> Any:
    """What the fast parser refuses and other readers take: half surrogates, very large numbers."""
    try:
        return json.loads(raw.data.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise _BadRow(raw.line, raw.frame, raw.offset, f"the row is not JSON: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _are_integers(items: object) -> bool:
    return type(items) is list and _INTEGER.issuperset(map(type, items))


def _gap(expected: int, found: object) -> str:
    text = f"expected seq {expected}, found {found!r}"
    if type(found) is int and found < expected:
        text += "; a second writer may have appended to this file"
    return text


def _is_named_fault(data: Any) -> bool:
    """The two reasons that format 0 loaders refuse by name: a header's `fallback`, a turn's bare `error` (S-EVT-11)."""
    reason = data.get("reason") if isinstance(data, dict) else None
    return reason == "fallback" or (isinstance(reason, dict) and reason.get("kind") == "error")


def _retired(path: tuple[str | int, ...]) -> bool:
    return path[:1] in (("sandboxMode",), ("approvalPolicy",))


def _refusal(damage: Damage, name: str) -> SessionPersistenceCorruptionError:
    reason = REASONS.get(damage.kind, damage.kind)
    where = f"frame {damage.frame} at byte {damage.offset}" if damage.frame else f"line {damage.line}"
    detail = f" ({damage.detail})" if damage.detail else ""
    return SessionPersistenceCorruptionError(f"{name}: {where}: {reason}{detail}", damage.line)


def _unsupported(name: str, version: int, formats: tuple[int, ...]) -> str:
    known = ", ".join(str(number) for number in formats)
    if version in VERSIONS:
        return (
            f"{name} has format {version}, but sessions are taken up in format {known} here. "
            f"Open it with session_format {version}"
        )
    if version > max(formats):
        return (
            f"{name} has format {version}, which is newer than what is supported here ({known}). "
            "Open it with the version that wrote it"
        )
    return f"{name} has the older format {version}, which is not supported here ({known})"
