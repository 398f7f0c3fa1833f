"""A run that TLC finds is played on the live harness, which does exactly what the model says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import anyio
import pytest
from tests.stateful.puppet import Mismatch, Puppet

from loopconform.replays.table import is_seen
from loopconform.tla.instances import TLA
from loopconform.tla.model import witness
from loopconform.tla.replay import BadReplay, Replay, parsed, read
from loopconform.tla.story import labels_of, replay
from loopconform.tla.subjects import subjects
from loopspec.profile import Profile

WANTED = {
    "an answer is cut short by a cancel, and the latch runs the next turn": (
        'label # <<>> /\\ label[1] = "append" /\\ label[2] = "turn/end" /\\ signal = "user" /\\ latch'
    ),
}


def play(run: Replay, backend: str) -> Puppet:
    """Play a run on a harness. Raises `Mismatch` where the harness leaves it."""
    puppet = Puppet(run.labels, run.session_format)
    anyio.run(puppet.play, cast(Profile, run.profile), run.session_format, backend=backend)
    return puppet


@pytest.mark.tlc
@pytest.mark.skipif(not (TLA / "Driver.tla").is_file(), reason="there is no model of the driver")
def test_a_run_found_by_tlc_is_played_on_the_harness(tmp_path: Path) -> None:
    subject = subjects()["driver"]
    (wanted,) = WANTED.values()
    found = witness(subject, "tiny", subject.law(), wanted)
    assert found.trace
    file = tmp_path / "run.json"
    file.write_text(replay("driver", labels_of(found), profile="seed", sessionFormat=0))
    run = read(file)
    assert run.labels[-1][:2] == ("append", "turn/end")
    for backend in ("asyncio", "trio"):
        puppet = play(run, backend)
        assert puppet.at == len(puppet.path)
    # And it can fail: the same run with one record left out, and with another cause.
    without = run._replace(labels=tuple(label for label in run.labels if label[:2] != ("append", "turn/start")))
    other = run._replace(labels=(*run.labels[:-1], ("append", "turn/end", 1, "aborted", "disposed")))
    for wrong in (without, other):
        with pytest.raises(Mismatch):
            play(wrong, "asyncio")


@pytest.mark.parametrize("file", sorted((TLA / "runs").glob("MCLoop_*.json")), ids=lambda file: file.stem)
def test_a_kept_run_is_played_on_the_harness(file: Path) -> None:
    """With hooks where no gate is: calls between two ticks, machinery that fails. A run of a broken law is not
    followed, unless its last move is a note."""
    run = read(file)
    if run.broken and is_seen(run):
        with pytest.raises(Mismatch):
            play(run, "asyncio")
    else:
        puppet = play(run, "asyncio")
        assert puppet.at == len(puppet.path)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([], "an object with format"),
        ({"format": "loopspec-replay-1"}, "names its machine"),
        ({"format": "loopspec-replay-1", "machine": "driver", "labels": [[]]}, "label 1 is"),
        ({"format": "loopspec-replay-1", "machine": "driver", "labels": [], "profile": "x"}, "there is no law"),
    ],
)
def test_what_is_no_replay_file_is_refused(value: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadReplay, match=words):
        parsed(value)
    file = tmp_path / "x.json"
    file.write_text(json.dumps(value)[:-1])
    with pytest.raises(BadReplay, match="is not JSON"):
        read(file)


def test_labels_are_those_of_the_machines() -> None:
    value = {
        "format": "loopspec-replay-1",
        "machine": "driver",
        "labels": [["leave", "return", "null"], ["a", [1, True]]],
    }
    assert parsed(value).labels == (("leave", "return", None), ("a", (1, True)))
