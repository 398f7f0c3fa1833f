"""Container and rows: what a reader's damage means (`S-LNT-1` to `S-LNT-10`, `S-LNT-109`)."""

from __future__ import annotations

from loopspec.log.damage import Damage
from loopspec.log.rule import ANY, DAMAGE, Breach, Rule, breach, rule
from loopspec.log.state import Log, Row


def _damage(row: Row) -> Damage:
    damage = row.raw["damage"]
    assert isinstance(damage, Damage)
    return damage


def _place(damage: Damage) -> str:
    return f"frame {damage.frame} at byte offset {damage.offset}" if damage.frame else f"byte offset {damage.offset}"


@rule("S-LNT-1", "E", "The file is not empty and has a complete header row.", DAMAGE)
def has_header(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    if damage.kind == "empty-file":
        return breach("The file is empty.", "a header row, alone in the first frame of a zstd file")
    if damage.kind == "no-header":
        return breach(f"There is no complete header row: {damage.detail}.", "one JSON object of type session, then LF")
    return None


@rule("S-LNT-2", "E", "Frame 1 decompresses to exactly one row that ends in LF.", DAMAGE)
def first_frame_is_header(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    if damage.kind != "first-frame":
        return None
    return breach(f"Frame 1 holds {damage.detail}.", "the header row alone; events begin in frame 2")


@rule(
    "S-LNT-3",
    "E",
    "Only standard zstd frames: magic, reserved bits, block types; no skippable frames, no stray bytes.",
    DAMAGE,
)
def standard_frames(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    reasons = {
        "bad-magic": "No zstd frame begins here",
        "reserved-descriptor": "The frame header sets reserved bits",
        "reserved-block": "A block has the reserved type",
        "skippable-frame": "A skippable frame stands between the frames",
        "corrupt-block": "The frame cannot be decompressed",
        "suffix-mismatch": "The name and the content of the file disagree",
    }
    reason = reasons.get(damage.kind)
    if reason is None:
        return None
    detail = f": {damage.detail}" if damage.detail else ""
    return breach(
        f"{reason} ({_place(damage)}){detail}. Nothing behind it can be read.", "a frame with magic 28 b5 2f fd"
    )


@rule("S-LNT-4", "E", "Each complete frame carries a content checksum, and it is right.", DAMAGE)
def checksums(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    if damage.kind == "wrong-checksum":
        return breach(f"The checksum of {_place(damage)} does not fit its content.", "the file as it was written")
    if damage.kind == "no-checksum":
        return breach(f"{_place(damage).capitalize()} has no checksum.", "frames with descriptor bit 0x04")._replace(
            level="W"
        )
    return None


@rule("S-LNT-5", "E", "Every complete frame ends at the end of a row.", DAMAGE)
def frames_end_rows(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    if damage.kind == "row-across-frames":
        text = f"The row begins in {_place(damage)} and ends in a later frame."
        return breach(text, "whole rows in every frame")._replace(level="W")
    if damage.kind == "row-unfinished":
        return breach(f"The last complete frame ({_place(damage)}) ends inside a row.", "whole rows in every frame")
    return None


@rule(
    "S-LNT-6",
    "W",
    "The log has no torn tail: no incomplete last frame, no last row without LF, no bad row in an open turn.",
    DAMAGE,
)
def no_torn_tail(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    rest = f"{damage.survivors} event rows survive"
    if damage.kind == "torn-frame":
        return breach(
            f"The last frame ({_place(damage)}) is incomplete: {damage.detail}; {rest}.", "repair keeps the survivors"
        )
    if damage.kind == "torn-row":
        return breach(
            f"The last row is incomplete: {damage.detail}, without a line feed; {rest}.", "repair drops this row"
        )
    if damage.kind == "bad-row-in-tail":
        text = (
            f"{damage.detail}, and no turn/end follows: a reader would drop this row and all behind it unasked; {rest}."
        )
        return breach(text, "rows that parse and count on")._replace(level="E")
    return None


@rule(
    "S-LNT-7", "E", "Every row is valid UTF-8 and one JSON object: not blank, no BOM, no CR, no duplicate keys.", DAMAGE
)
def one_object_per_row(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    if damage.kind not in ("bad-row", "carriage-return", "duplicate-key"):
        return None
    found = breach(f"This row is damaged: {damage.detail}.", "one compact JSON object, then LF")
    return found._replace(column=damage.column)


@rule("S-LNT-8", "E", "No negative zero, and every integer field is a safe integer.", DAMAGE)
def safe_numbers(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    if damage.kind != "number":
        return None
    return breach(
        f"In this row {damage.detail}.".replace("row it", "row: it"), "integers from -(2^53 - 1) to 2^53 - 1, zero as 0"
    )


@rule("S-LNT-9", "E", "Packed rows are well formed: keys, arity, safe range.", ANY)
def packed_rows(log: Log, row: Row) -> Breach | None:
    if not row.packed or log.format != 0 or row.shape is None:
        return None
    return breach(
        f"The packed row is malformed: {row.shape}.", "exactly the keys of its kind, one gap less than members"
    )


@rule("S-LNT-10", "E", "No packed rows in format 4, and no session row after the first.", ANY)
def no_stray_storage_rows(log: Log, row: Row) -> Breach | None:
    if row.type == "session":
        return breach("A second header row stands in the middle of the log.", "one header row, the first")
    if row.packed and log.format == 4:
        return breach(f"A packed row of type {row.type} stands in a format 4 log.", "streams embedded in their message")
    return None


@rule("S-LNT-109", "U", "Every row is within the limits of this reader.", DAMAGE)
def within_limits(log: Log, row: Row) -> Breach | None:
    damage = _damage(row)
    if damage.kind == "row-too-large":
        text = f"This row is larger than this reader takes ({damage.detail}); the rows behind it were not judged."
    elif damage.kind == "row-too-deep":
        text = f"This row was not read: {damage.detail}; the rows behind it were not judged."
    elif damage.kind == "window-too-large":
        text = f"{_place(damage).capitalize()} asks for more memory than this reader gives: {damage.detail}."
    else:
        return None
    return breach(text, "the format has no such limit; this is no statement about the log")


RULES: tuple[Rule, ...] = (
    has_header,
    first_frame_is_header,
    standard_frames,
    checksums,
    frames_end_rows,
    no_torn_tail,
    one_object_per_row,
    safe_numbers,
    packed_rows,
    no_stray_storage_rows,
    within_limits,
)
