"""Resuming a session of 100,000 events, beside the published packages on the same file: time and memory.

Each resume is a fresh process on a fresh copy of the file, and the two sides take turns. Time is that of all threads,
from the call to the idle agent, since the reference reads beside its event loop; memory is the peak of the process, and
what it grew by. The reference keeps most events closed until somebody asks for them, so the time with one look at every
event is told too. A ratio up to 1 means that the reference takes no more than the published packages.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks import peer
from benchmarks.bench_check import write
from benchmarks.measure import RUNS, Figure, Status
from benchmarks.resume_once import SESSION

EVENTS = 100_000
SHAPES = (("many deltas", 50), ("many messages", 1))
PLACE = Path("--workspace--", SESSION, "session.jsonl.zstd")


def once(command: Sequence[str | Path]) -> dict[str, float]:
    """What one process says of its resume."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=peer.LONGEST, check=True)
    said: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if said["events"] < EVENTS:
        raise AssertionError(f"only {said['events']} events were loaded")
    return said


def resumed(stored: Path, folder: Path, side: str) -> dict[str, float]:
    """Resume a copy of the stored session on one side."""
    root = folder / "sessions"
    shutil.rmtree(root, ignore_errors=True)
    target = root / PLACE
    target.parent.mkdir(parents=True)
    shutil.copy(stored, target)
    if side == "reference":
        return once((sys.executable, "-m", "benchmarks.resume_once", root))
    home = peer.home()
    return once((home / "node_modules" / ".bin" / "node", peer.HERE / "resume.mjs", home, root, SESSION))


def workloads(status: Status) -> list[Figure]:
    """All figures of this file; those of the reference alone where the published packages are not installed."""
    sides = ["reference", "published"]
    try:
        peer.home()
    except peer.Absent as absent:
        print(f"Without the other side: {absent}.")
        sides = ["reference"]
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for what, deltas in SHAPES:
            with status(what):
                write(folder / "stored", 0, EVENTS, deltas, True)
                rounds = [{side: resumed(folder / "stored", folder, side) for side in sides} for _ in range(RUNS)]
            seconds = {side: tuple(one[side]["used"] for one in rounds) for side in sides}
            peaks = {side: tuple(one[side]["peak"] for one in rounds) for side in sides}
            grown = {side: tuple(one[side]["peak"] - one[side]["before"] for one in rounds) for side in sides}
            walked = {side: tuple(one[side]["walked"] for one in rounds) for side in sides}
            looked = ("time with a look at every event", walked, "CPU s")
            taken = (("time", seconds, "CPU s"), looked, ("peak memory", peaks, "MiB"), ("memory grown", grown, "MiB"))
            for label, values, unit in taken:
                figures += [Figure(f"{what}, {label}: {side}", values[side], unit) for side in sides]
                if len(sides) == 2:
                    ratios = tuple(a / b for a, b in zip(values["reference"], values["published"], strict=True))
                    figures.append(Figure(f"{what}, {label}: reference ÷ published", ratios, "ratio"))
    return figures
