"""`loopspec run` with a composition: several agents, one session file each, in a directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loopconform.exit_codes import Exit, code_of
from loopconform.plain import printable
from loopconform.script.composition import composed
from loopconform.script.ensemble import PlayedTogether, Stored, play_composition
from loopconform.script.output import OutputError, check_free, pieces, write_session
from loopconform.script.text import Read
from loopspec.log.place import session_segment

__all__ = ["Written", "exit_code", "run", "summary"]

_EXIT = {"played": Exit.FINE, "wrong": Exit.FOUND, "stuck": Exit.UNDECIDED, "unstarted": Exit.UNSTARTED}
NAME_LIMIT = 240
"""Longest name of a session file, without its ending."""


class Written(NamedTuple):
    """What came of a composition, and the file of each session."""

    played: PlayedTogether
    files: tuple[tuple[Path, Stored], ...]


def run(read: Read, script: Path, target: Path, force: bool, changes: Mapping[str, Any], ending: str) -> Written:
    """Validate, play and write files with this ending: .jsonl or .jsonl.zstd.

    Raises `BadScript` and `OutputError`; then nothing is written.
    """
    ready = composed(read, changes)
    exact = [id for entry in ready.composition.agents for id in (entry.sessionId, entry.resumeSessionId) if id]
    _check_folder(target, [_name(id, ending) for id in exact], force)
    played = play_composition(ready, script.parent)
    files = {_name(one.header["id"], ending): one for one in played.sessions}
    try:
        target.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{target} cannot be made: {error.strerror}", code_of(error)) from error
    for name, one in files.items():
        write_session(target / name, pieces(one.header, one.events, 0, zstd=ending != ".jsonl"), force)
    return Written(played, tuple((target / name, one) for name, one in files.items()))


def exit_code(played: PlayedTogether) -> Exit:
    """The code of a played composition: where an agent could not be started for a session file, that of the cause."""
    causes = [code_of(error) for error in played.causes] if played.verdict in ("played", "unstarted") else []
    return next((code for code in causes if code is not None), _EXIT[played.verdict])


def _name(session_id: str, ending: str) -> str:
    """A file name for a session."""
    return f"{session_segment(session_id)[:NAME_LIMIT]}{ending}"


def _check_folder(target: Path, names: list[str], force: bool) -> None:
    """Refuse a place that cannot take the session files before anything starts. Raises `OutputError`."""
    if not target.is_dir():
        if os.path.lexists(target):
            text = f"{target} is no directory: a composition writes a file for each session into it"
            raise OutputError(text, Exit.USAGE)
        check_free(target, force)
        return
    for name in names:
        check_free(target / name, force)
    if not os.access(target, os.W_OK):
        raise OutputError(f"{target} cannot be written: no permission", Exit.PERMISSION)


def summary(path: Path, one: Stored) -> str:
    """One line about one session."""
    ends = [event["data"]["reason"]["kind"] for event in one.events if event["type"] == "turn/end"]
    turns = f"{len(ends)} turn{'' if len(ends) == 1 else 's'}"
    how = f" ({', '.join(ends[-8:])})" if ends else ""
    return printable(f"{one.header['id']}: {turns}{how}, {len(one.events)} events, written to {path}")
