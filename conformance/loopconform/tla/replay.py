"""Replay files: the labels of a run, in a form that other programs can play.

    {"format": "loopspec-replay-1", "machine": "driver", "profile": "seed", "sessionFormat": 0, "broken": ["latch"],
     "labels": [["call", "send", 1, "next-turn", true], …]}

Labels are those of `tla/VOCABULARY.md`; sequences are lists. `labels` brings them back into the form of the Python
machines, in which `tests/stateful/puppet.py` plays them on a live harness.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from loopconform.tla.values import NULL

FORMAT = "loopspec-replay-1"


class Replay(NamedTuple):
    """A run to be played."""

    machine: str
    profile: str
    session_format: int
    labels: tuple[tuple[Any, ...], ...]
    broken: tuple[str, ...] = ()
    """Guards and switches that were out of force in the model that made this run."""
    calls: int = 0
    """How many calls the batch has, in a run of the scheduler."""


class BadReplay(ValueError):
    """The file is not a replay file. The text says why."""


def read(file: Path) -> Replay:
    """Read a replay file. Raises `BadReplay` with what is wrong, and `OSError` when it cannot be read."""
    try:
        return parsed(json.loads(file.read_text()))
    except json.JSONDecodeError as error:
        raise BadReplay(f"{file} is not JSON: {error}") from None


def parsed(value: Any) -> Replay:
    """The replay that a JSON value holds. Raises `BadReplay`."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise BadReplay(f"a replay file is an object with format {FORMAT!r}")
    machine, labels = value.get("machine"), value.get("labels")
    if not isinstance(machine, str) or not isinstance(labels, list):
        raise BadReplay("a replay file names its machine and lists its labels")
    found = []
    for number, label in enumerate(labels, 1):
        if not isinstance(label, list) or not label or not isinstance(label[0], str):
            raise BadReplay(f"label {number} is {label!r}; a label is a list that begins with a verb")
        found.append(tuple(to_python(part) for part in label))
    profile, session_format = value.get("profile", "seed"), value.get("sessionFormat", 0)
    if profile not in ("seed", "dsh-0.1", "dsh-0.1.7") or session_format not in (0, 4):
        raise BadReplay(f"there is no law {profile!r} of format {session_format!r}")
    broken = value.get("broken", [])
    if not isinstance(broken, list):
        raise BadReplay(f"`broken` lists guards, and is {broken!r}")
    calls = value.get("calls", 0)
    if type(calls) is not int:
        raise BadReplay(f"`calls` counts the calls of a batch, and is {calls!r}")
    return Replay(machine, profile, session_format, tuple(found), tuple(map(str, broken)), calls)


def to_python(value: Any) -> Any:
    """A part of a label as the Python machines write it: lists are tuples, and `"null"` is `None`."""
    if isinstance(value, list):
        return tuple(to_python(part) for part in value)
    return None if value == NULL else value
