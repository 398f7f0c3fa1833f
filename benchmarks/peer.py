"""The published loop as a subprocess, for side-by-side runs: the same conversation, its own runtime."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

__all__ = ["Absent", "converse", "home"]

HERE = Path(__file__).parent / "node"
INSTALL = "conformance/adapters/node-dsh/install.sh"
LONGEST = 1800
"""Seconds after which a run is given up."""


class Absent(Exception):
    """The published packages are not installed; the text says how to install them."""


def home() -> Path:
    """The directory that the packages are installed in. Raises `Absent`."""
    chosen = os.environ.get("LOOPSPEC_DSH_HOME")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(chosen) if chosen else cache / "loopspec" / "dsh-0.1.0-rc.8"
    if not (place / ".ready").exists():
        raise Absent(f"the published packages are not installed in {place}: run {INSTALL} once, it needs npm")
    return place


def converse(turns: int, deltas: int, tools: int = 0, marks: tuple[int, ...] = ()) -> dict[int, float]:
    """The CPU seconds of the main thread when each marked turn was over, and at the end.

    With `tools`, every turn makes that many calls side by side before it answers. Raises `Absent`, and
    `subprocess.CalledProcessError` if the packages fail.
    """
    place = home()
    workload = json.dumps({"turns": turns, "deltas": deltas, "tools": tools, "marks": marks})
    command = [str(place / "node_modules" / ".bin" / "node"), str(HERE / "workload.mjs"), str(place), workload]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=True)
    used: dict[str, float] = json.loads(done.stdout.splitlines()[-1])["used"]
    return {int(turn): seconds for turn, seconds in used.items()}
