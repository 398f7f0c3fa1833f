"""The header row and the place of the file (`S-LNT-11` to `S-LNT-16`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopspec.log.place import project_key, session_segment
from loopspec.log.rule import END, HEADER, Breach, Rule, breach, rule
from loopspec.log.state import Log, Row
from loopspec.values import SAFE_INTEGER

_COMMON = ("type", "version", "id", "createdAt", "delegationDepth", "cwd", "parentSession", "origin", "agentPreset")
_KEYS = {0: frozenset((*_COMMON, "seedLength")), 4: frozenset((*_COMMON, "isSeeded"))}
_REQUIRED = {
    0: frozenset(("type", "version", "id", "createdAt", "delegationDepth")),
    4: frozenset(("type", "version", "id", "createdAt", "delegationDepth", "isSeeded")),
}


@rule(
    "S-LNT-11", "E", "The version is supported and equals the generation in the file name.", HEADER, formats=(-1, 0, 4)
)
def supported_version(log: Log, row: Row) -> Breach | None:
    version = row.raw.get("version")
    if row.raw.get("type") != "session":
        return breach(f"The first row has type {row.raw.get('type')!r}, not session.", "a header row first")
    if type(version) is int and version in (0, 4):
        if log.generation is not None and log.generation != version:
            text = f"The header says format {version}, the file name says format {log.generation}."
            return breach(text, "session.jsonl for format 0, session.v4.jsonl for format 4")
        return None
    if type(version) is int and 0 < version < 4:
        return breach(f"Format {version} is an older format, not supported here.", "format 0 or 4", version=version)
    if type(version) is int and version > 4:
        return breach(f"Format {version} is newer than this checker.", "format 0 or 4", version=version)
    return breach(f"The header's version is {version!r}.", "format 0 or 4", version=version)


@rule("S-LNT-12", "E", "The header has exactly the keys of its format.", HEADER)
def header_keys(log: Log, row: Row) -> Breach | None:
    unknown = sorted(set(row.raw) - _KEYS[log.format])
    missing = sorted(_REQUIRED[log.format] - set(row.raw))
    if unknown:
        return breach(f"The header has unknown keys: {', '.join(unknown)}.", ", ".join(sorted(_KEYS[log.format])))
    if missing:
        return breach(f"The header lacks {', '.join(missing)}.", "every required key")
    return None


@rule(
    "S-LNT-13", "E", "The header's fields have their types: id, createdAt, absolute cwd, depth, origin, preset.", HEADER
)
def header_types(log: Log, row: Row) -> list[Breach]:
    header = row.raw
    wrong = [
        (name, legal)
        for name, legal in (
            ("id", "a non-empty string"),
            ("createdAt", "a safe integer from 0"),
            ("delegationDepth", "an integer from 0"),
            ("cwd", "an absolute path"),
            ("parentSession", "a non-empty string"),
            ("origin", "subagent"),
            ("agentPreset", "a non-empty string"),
            ("seedLength", "an integer from 0"),
            ("isSeeded", "true or false"),
        )
        if name in header and not _fits(name, header[name], log)
    ]
    return [breach(f"The header's {name} is {header[name]!r}.", legal) for name, legal in wrong]


def _fits(name: str, value: object, log: Log) -> bool:
    if name in ("id", "parentSession", "agentPreset"):
        return isinstance(value, str) and value != ""
    if name in ("createdAt", "delegationDepth", "seedLength"):
        return type(value) is int and 0 <= value <= SAFE_INTEGER
    if name == "cwd":
        return isinstance(value, str) and (log.snapshot or _absolute(value))
    if name == "origin":
        return value == "subagent"
    return type(value) is bool


def _absolute(path: str) -> bool:
    return path.startswith(("/", "\\")) or path[1:3] in (":\\", ":/")


@rule("S-LNT-14", "E", "The session directory is the encoded id, the project directory the key of cwd.", HEADER)
def place(log: Log, row: Row) -> list[Breach]:
    if log.place is None or log.snapshot:
        return []
    project, segment = log.place
    session_id, cwd = row.raw.get("id"), row.raw.get("cwd")
    found = []
    if isinstance(session_id, str) and session_segment(session_id) != segment:
        text = f"The header's id is {session_id!r}, but the session directory is {segment!r}."
        found.append(breach(text, session_segment(session_id)))
    key = project_key(cwd) if isinstance(cwd, str) else "_no-cwd"
    if key != project:
        found.append(breach(f"The header's cwd is {cwd!r}, but the project directory is {project!r}.", key))
    return found


@rule(
    "S-LNT-15", "E", "The seed is where the header says: format 0 by seedLength, format 4 by an inherited marker.", END
)
def seed_cut(log: Log, row: Row) -> Breach | None:
    if log.format == 4:
        seeded = log.header_row.get("isSeeded")
        if seeded is True and not log.inherited_marker:
            return breach("isSeeded is true, but no session/end-seed says inherited.", "one inherited marker", line=1)
        if seeded is False and log.inherited_marker:
            return breach("isSeeded is false, but a session/end-seed says inherited.", "isSeeded true", line=1)
        return None
    length = log.seed_length
    if length == 0:
        return None
    if length > log.index:
        return breach(
            f"seedLength is {length}, but there are {log.index} events.", "at most the number of events", line=1
        )
    if "session/end-seed" not in log.seed_types.values():
        text = f"seedLength is {length}, but neither event {length} nor event {length - 1} is session/end-seed."
        return breach(text, "the marker right behind the inherited events", line=1)
    return None


@rule("S-LNT-16", "W", "parentSession is there exactly when the session was forked or is a subagent's.", HEADER)
def parent(log: Log, row: Row) -> Breach | None:
    has_parent = "parentSession" in row.raw
    born = _forked(row.raw) or row.raw.get("origin") == "subagent"
    if has_parent and not born:
        return breach(
            "There is a parentSession, but the session is neither forked nor a subagent's.", "no parentSession"
        )
    if born and not has_parent:
        return breach("The session is forked or a subagent's, but names no parentSession.", "the parent's id")
    return None


def _forked(header: Mapping[str, Any]) -> bool:
    return bool(header.get("isSeeded")) or "seedLength" in header


RULES: tuple[Rule, ...] = (supported_version, header_keys, header_types, place, seed_cut, parent)
