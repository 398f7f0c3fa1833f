"""The envelope of an event (`S-LNT-17` to `S-LNT-24`)."""

from __future__ import annotations

from loopspec.log.rule import ANY, END, Breach, Rule, breach, rule
from loopspec.log.state import Log, Row
from loopspec.values import SAFE_INTEGER

_KEYS = frozenset(("type", "seq", "time", "data", "ignorable", "surfaceOp", "sourceEventSeqs"))


@rule("S-LNT-17", "E", "seq is an integer equal to the index of the event.", ANY)
def seq_is_index(log: Log, row: Row) -> Breach | None:
    seq = row.raw.get("seq0" if row.packed else "seq")
    if "seq" not in row.raw if log.no_seq else (type(seq) is int and seq == row.index):
        return None
    text = f"The row's seq is {seq!r}, expected {row.index}."
    return breach(text, f"seq {row.index}", stored=seq, expected=row.index)


@rule("S-LNT-18", "E", "time is a safe integer and not negative.", ANY)
def time_is_safe(log: Log, row: Row) -> Breach | None:
    time = row.time
    if "time" not in row.raw if log.no_time else (type(time) is int and 0 <= time <= SAFE_INTEGER):
        return None
    return breach(f"The row's time is {time!r}.", "milliseconds since 1970, an integer from 0")


@rule("S-LNT-19", "W", "time does not decrease, and is not before createdAt except in an inherited prefix.", ANY, END)
def time_goes_on(log: Log, row: Row) -> Breach | None:
    if log.no_time:
        return None
    if row.type == END:
        early = log.before_created
        if early is None:
            return None
        text = f"The time {early.value} is before the session's createdAt."
        return breach(text, "times from createdAt on", line=early.line, seq=early.seq)
    if type(row.time) is not int or log.time is None or row.time >= log.time:  # negative times are S-LNT-18
        return None
    return breach(f"The time goes back from {log.time} to {row.time}.", "a time that is not before the previous row's")


@rule("S-LNT-20", "E", "The envelope has exactly the keys type, seq, time, data and the optional ones.", ANY)
def envelope_keys(log: Log, row: Row) -> Breach | None:
    if row.packed:
        return None
    unknown = [key for key in row.raw if key not in _KEYS]
    if not unknown:
        return None
    return breach(f"The envelope has unknown keys: {', '.join(map(repr, unknown))}.", ", ".join(sorted(_KEYS)))


@rule("S-LNT-21", "E", "data is there and has the shape of its type.", ANY)
def data_shape(log: Log, row: Row) -> Breach | None:
    if row.packed:
        return None
    if "data" not in row.raw:
        return breach("The row has no data.", "an object, {} when there is nothing to say")
    if row.shape is None:
        return None
    return breach(f"The data of this {row.type} are not of its shape: {row.shape}.", f"the shape of {row.type}")


@rule("S-LNT-22", "E", "ignorable is absent or true, and never on a known type.", ANY)
def ignorable_is_marker(log: Log, row: Row) -> Breach | None:
    if "ignorable" not in row.raw:
        return None
    if row.raw["ignorable"] is not True:
        return breach(f"ignorable is {row.raw['ignorable']!r}.", "true, or no such key")
    if row.type in log.known_types:
        return breach(f"{row.type} is a known type and cannot be ignored.", "no ignorable key here")
    return None


@rule("S-LNT-23", "E", "type is known in this format or the row is marked ignorable.", ANY)
def type_is_known(log: Log, row: Row) -> Breach | None:
    kind = row.raw.get("type")
    if row.packed or kind == "session":
        return None
    if not isinstance(kind, str) or kind == "":
        return breach(f"The row's type is {kind!r}.", "the name of an event type")
    if kind in log.known_types or row.raw.get("ignorable") is True:
        return None
    what = "retired" if kind in log.retired_types else "not known"
    text = f"The type {kind!r} is {what} in format {log.format}; this is a log of another version, not damage."
    return breach(text, "a known type, or ignorable: true")


@rule("S-LNT-24", "E", "Log-only events carry no surfaceOp and no sourceEventSeqs.", ANY)
def no_surface_data(log: Log, row: Row) -> Breach | None:
    for found in row.surface_breaches:
        if found.rule == "S-SUR-1" and row.type not in log.surface_types:
            return breach(f"{found.text[0].upper()}{found.text[1:]}.", "no such key on a log-only event")
    return None


RULES: tuple[Rule, ...] = (
    seq_is_index,
    time_is_safe,
    time_goes_on,
    envelope_keys,
    data_shape,
    ignorable_is_marker,
    type_is_known,
    no_surface_data,
)
