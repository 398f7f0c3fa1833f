"""Ctrl-C in the middle of a run: the adapters end at once, and what was played is reported."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

HAND = Path("conformance/cases/hand/smoke")
PATIENCE = 30.0
"""Seconds; less than the run would wait for its adapters."""


def until_asleep(folder: Path, adapters: int) -> list[int]:
    """The processes of the adapters, once all of them sleep."""
    limit = time.monotonic() + PATIENCE
    while len(found := list(folder.iterdir())) < adapters:
        assert time.monotonic() < limit, "the adapters do not get to their second case"
        time.sleep(0.05)
    return [int(one.name) for one in found]


@pytest.mark.parametrize("jobs", [1, 2])
def test_adapters_end_at_once_and_what_was_played_is_reported(jobs: int, tmp_path: Path) -> None:
    asleep, report = tmp_path / "asleep", tmp_path / "report.json"
    asleep.mkdir()
    adapter = shlex.join([sys.executable, str(Path(__file__).with_name("drowsy.py")), str(asleep)])
    command = [str(Path(sys.executable).with_name("loopspec")), "conform", "--adapter", adapter, "--cases", str(HAND)]
    options = ["--jobs", str(jobs), "--timeout", "600", "--format", "json", "--output", str(report)]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True, start_new_session=True) as run:
        adapters = until_asleep(asleep, jobs)
        run.send_signal(signal.SIGINT)
        _, words = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130, words
    document = json.loads(report.read_text())
    assert [one["verdict"] for one in document["results"]] == ["PASS"] * jobs
    assert document["exitCode"] == 130
    assert f"interrupted: {jobs} of {document['wanted']} checks were run" in words
    for number in adapters:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
