"""Where a session's file lives: directory names made from its `cwd` and its id (`S-DSK-2`, `S-DSK-3`, `S-DSK-5`)."""

from __future__ import annotations

import re

_KEY_LENGTH = 251
_FILE_NAME = re.compile(r"session(?:\.v([1-9][0-9]*))?\.jsonl(?:\.zstd)?")


def project_key(cwd: str) -> str:
    """The project directory of an absolute path: `/workspace` gives `--workspace--`. Lossy by design (`S-DSK-2`)."""
    separated = re.sub(r"[/\\:]+", "-", cwd)
    escaped = _escaped(separated).lstrip("-") or "root"
    return f"--{escaped[:_KEY_LENGTH]}--"


def session_segment(session_id: str) -> str:
    """The session directory of an id: the same escaping, without the separator rule (`S-DSK-3`)."""
    if session_id in (".", ".."):
        return "~002E" * len(session_id)
    return _escaped(session_id)


def generation(name: str) -> int | None:
    """The format number in a session file's name, 0 for `session.jsonl`; None for any other name (`S-DSK-5`)."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    return int(match[1] or 0)


def _escaped(text: str) -> str:
    return "".join(char if re.fullmatch(r"[A-Za-z0-9._-]", char) else _hex(char) for char in text)


def _hex(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"~{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
